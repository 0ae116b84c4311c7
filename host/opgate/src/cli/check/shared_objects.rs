//! The objects of manifests that other files can read, while the files change in an editor.
//!
//! ```text
//! changed files ─▶ names and digest of their objects ─▶ forget the old ones, share the new ones ─▶ changed resources
//! ```
//!
//! The result is that of `opgate check` with all files: of two objects with one name, that of the last file counts.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};

use opgate_admission::cluster::{ListingBuilder, UnstoredName};
use opgate_admission::policy::PolicySet;
use opgate_files::{DetectedInput, parallel};
use opgate_input::read::Reader;

use super::units::{UnitEvaluator, is_shared};

/// Maximum number of objects. Files with more are not shared.
const MAX_OBJECTS: usize = 200_000;

/// The objects of one file.
struct SharedFile {
    input: DetectedInput,
    names: Vec<UnstoredName>,
    digest: u64,
}

/// The shared objects of all files.
#[derive(Default)]
pub(in crate::cli) struct SharedObjects {
    files: BTreeMap<PathBuf, SharedFile>,
    hasher: RandomState,
    count: usize,
}

impl SharedObjects {
    /// Shares the objects of files, as they are now. Returns the resources of which objects have changed.
    pub(in crate::cli) fn update(
        &mut self,
        inputs: &[DetectedInput],
        set: &PolicySet,
        reader: &Reader,
    ) -> BTreeSet<String> {
        let read = |input: &DetectedInput| self.read(input, set, reader);
        let read = parallel::map(inputs, read);
        let is_new = |file: &SharedFile| {
            let known = self.files.get(&file.input.path);
            known.map_or(!file.names.is_empty(), |known| known.digest != file.digest)
        };
        let changed: Vec<_> = read.into_iter().filter(is_new).collect();
        self.replace(changed, set, reader)
    }

    /// Ends the sharing of a file. Returns the resources of its objects.
    pub(in crate::cli) fn remove(
        &mut self,
        path: &Path,
        set: &PolicySet,
        reader: &Reader,
    ) -> BTreeSet<String> {
        let Some(known) = self.files.get(path) else { return BTreeSet::new() };
        let empty = SharedFile { input: known.input.clone(), names: Vec::new(), digest: 0 };
        self.replace(vec![empty], set, reader)
    }

    fn read(&self, input: &DetectedInput, set: &PolicySet, reader: &Reader) -> SharedFile {
        let mut names = Vec::new();
        let mut hasher = self.hasher.build_hasher();
        if is_shared(input) {
            let units = UnitEvaluator::new(set, reader);
            units.for_each_shared(input, &mut |object, namespace, request| {
                let (group, resource) = (&request.group, &request.resource);
                if let Some(name) = set.cluster().unstored_name(object, namespace, group, resource)
                {
                    names.push(name);
                    hasher.write(object.raw().as_bytes());
                    // It is part of neither text.
                    hasher.write_u8(0xff);
                }
            });
        }
        SharedFile { input: input.clone(), names, digest: hasher.finish() }
    }

    fn replace(
        &mut self,
        changed: Vec<SharedFile>,
        set: &PolicySet,
        reader: &Reader,
    ) -> BTreeSet<String> {
        let cluster = set.cluster();
        let mut touched = HashSet::new();
        let mut paths = BTreeSet::new();
        for file in changed {
            let path = file.input.path.clone();
            if let Some(old) = self.files.remove(&path) {
                self.count = self.count.saturating_sub(old.names.len());
                old.names.iter().for_each(|name| cluster.forget(name));
                touched.extend(old.names);
            }
            let count = self.count.saturating_add(file.names.len());
            if file.names.is_empty() || count > MAX_OBJECTS {
                continue;
            }
            self.count = count;
            touched.extend(file.names.iter().cloned());
            self.files.insert(path.clone(), file);
            paths.insert(path);
        }
        // Other files can have objects of these names.
        let is_touched = |file: &SharedFile| file.names.iter().any(|name| touched.contains(name));
        if !touched.is_empty() {
            let others = self.files.iter().filter(|(_, file)| is_touched(file));
            paths.extend(others.map(|(path, _)| path.clone()));
        }
        let inputs = self.files.iter().filter(|(path, _)| paths.contains(*path));
        let inputs: Vec<_> = inputs.map(|(_, file)| &file.input).collect();
        let units = UnitEvaluator::new(set, reader);
        let listings = |input: &&DetectedInput| {
            let mut listings = ListingBuilder::of(cluster);
            units.for_each_shared(input, &mut |object, namespace, request| {
                listings.add_unstored(object, namespace, &request.group, &request.resource);
            });
            listings
        };
        parallel::map(&inputs, listings).into_iter().for_each(ListingBuilder::merge_partial);
        touched.iter().flat_map(|name| cluster.resources_of(name)).collect()
    }
}
