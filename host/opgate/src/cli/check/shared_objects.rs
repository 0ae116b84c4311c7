//! The objects of manifests that other files can read, while the files change in an editor.
//!
//! ```text
//! changed files ─▶ names and digest of their objects ─▶ forget the old ones, share the new ones ─▶ changed resources
//!                                        └▶ too many bytes: refused, until others need fewer
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

/// Maximum bytes of the shared objects with their names. The objects of a file with more are not shared.
const MAX_BYTES: usize = 64 << 20;
/// About what an object takes in addition to its text and its name.
const OBJECT_BYTES: usize = 256;

/// The objects of one file.
struct SharedFile {
    input: DetectedInput,
    /// None if they are not shared.
    names: Vec<UnstoredName>,
    digest: u64,
    bytes: usize,
}

/// The shared objects of all files.
pub(in crate::cli) struct SharedObjects {
    files: BTreeMap<PathBuf, SharedFile>,
    /// Files whose objects have too many bytes for those that are shared.
    refused: BTreeMap<PathBuf, SharedFile>,
    hasher: RandomState,
    bytes: usize,
    max_bytes: usize,
}

impl Default for SharedObjects {
    fn default() -> Self {
        let (files, refused) = (BTreeMap::new(), BTreeMap::new());
        Self { files, refused, hasher: RandomState::new(), bytes: 0, max_bytes: MAX_BYTES }
    }
}

impl SharedObjects {
    /// Shares the objects of files, as they are now. Returns the resources of which objects have changed.
    pub(in crate::cli) fn update(
        &mut self,
        inputs: &[DetectedInput],
        set: &PolicySet,
        reader: &Reader,
    ) -> BTreeSet<String> {
        let mut changed = self.share(inputs, set, reader);
        // There can be room for others now.
        let room = self.max_bytes.saturating_sub(self.bytes);
        let fits = |file: &&SharedFile| file.bytes <= room;
        let again: Vec<_> =
            self.refused.values().filter(fits).map(|file| file.input.clone()).collect();
        if !again.is_empty() {
            changed.extend(self.share(&again, set, reader));
        }
        changed
    }

    fn share(
        &mut self,
        inputs: &[DetectedInput],
        set: &PolicySet,
        reader: &Reader,
    ) -> BTreeSet<String> {
        let (mut changed, mut bytes) = (Vec::new(), 0_usize);
        let read = |input: &DetectedInput| self.read(input, set, reader);
        let Ok(()) = parallel::for_each_in_order(inputs, read, |_, mut file| {
            let known = self.files.get(&file.input.path);
            if known.map_or(file.bytes > 0, |known| known.digest != file.digest) {
                bytes = bytes.saturating_add(file.bytes);
                if bytes > self.max_bytes {
                    file.names = Vec::new();
                }
                changed.push(file);
            }
            Ok::<(), std::convert::Infallible>(())
        });
        self.replace(changed, set, reader)
    }

    /// Ends the sharing of a file. Returns the resources of its objects.
    pub(in crate::cli) fn remove(
        &mut self,
        path: &Path,
        set: &PolicySet,
        reader: &Reader,
    ) -> BTreeSet<String> {
        self.refused.remove(path);
        let Some(known) = self.files.get(path) else { return BTreeSet::new() };
        let input = known.input.clone();
        let empty = SharedFile { input, names: Vec::new(), digest: 0, bytes: 0 };
        let mut changed = self.replace(vec![empty], set, reader);
        changed.extend(self.update(&[], set, reader));
        changed
    }

    fn read(&self, input: &DetectedInput, set: &PolicySet, reader: &Reader) -> SharedFile {
        let (mut names, mut bytes) = (Vec::new(), 0_usize);
        let mut hasher = self.hasher.build_hasher();
        if is_shared(input) {
            let units = UnitEvaluator::new(set, reader);
            units.for_each_shared(input, &mut |object, namespace, request| {
                let (group, resource) = (&request.group, &request.resource);
                if let Some(name) = set.cluster().unstored_name(object, namespace, group, resource)
                {
                    let sizes = [object.raw().len(), name.size(), OBJECT_BYTES];
                    bytes = sizes.into_iter().fold(bytes, usize::saturating_add);
                    if bytes <= self.max_bytes {
                        names.push(name);
                    } else {
                        names = Vec::new();
                    }
                    hasher.write(object.raw().as_bytes());
                    // It is part of neither text.
                    hasher.write_u8(0xff);
                }
            });
        }
        SharedFile { input: input.clone(), names, digest: hasher.finish(), bytes }
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
            self.refused.remove(&path);
            if let Some(old) = self.files.remove(&path) {
                self.bytes = self.bytes.saturating_sub(old.bytes);
                old.names.iter().for_each(|name| cluster.forget(name));
                touched.extend(old.names);
            }
            let bytes = self.bytes.saturating_add(file.bytes);
            if file.bytes == 0 {
                continue;
            }
            if file.names.is_empty() || bytes > self.max_bytes {
                self.refused.insert(path, SharedFile { names: Vec::new(), ..file });
                continue;
            }
            self.bytes = bytes;
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

#[cfg(test)]
mod tests {
    use std::fs;

    use opgate_admission::cluster::{ClusterOptions, Source};
    use opgate_admission::policy::Configuration;
    use opgate_builtin_policies::BUILTINS;
    use opgate_files::CheckInputType;

    use super::*;

    /// Evaluates objects in namespaces with a label, and therefore reads Namespaces.
    const CONFIGURATION: &str = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n- name: catalog-source\n  match: {namespaceSelector: {matchLabels: {team: a}}}\n";

    fn namespaces(prefix: &str, count: usize) -> String {
        let object = |number: usize| {
            format!(
                "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {prefix}{number}, labels: {{team: a}}}}\n"
            )
        };
        (0..count).map(object).collect::<Vec<_>>().join("---\n")
    }

    #[test]
    fn shared_objects_are_bounded_in_bytes() {
        let configuration =
            Configuration::parse(Path::new("opgate.yaml"), CONFIGURATION, BUILTINS).unwrap();
        let options = ClusterOptions::of(Source::PartialSnapshot);
        let set = PolicySet::load(&configuration, None, usize::MAX, options).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let input =
            |name: &str| DetectedInput::new(directory.path().join(name), CheckInputType::Manifest);
        let write = |name: &str, count: usize| {
            fs::write(directory.path().join(name), namespaces(name, count)).unwrap();
        };
        let reader = Reader::default();
        let mut shared = SharedObjects { max_bytes: 100_000, ..SharedObjects::default() };
        // Names and sizes count, not only texts: these have fewer than 100 bytes each.
        for (name, count) in [("a", 100), ("b", 100), ("c", 100), ("d", 1), ("e", 1_000)] {
            write(name, count);
        }
        let update = |shared: &mut SharedObjects, names: &[&str]| {
            let inputs: Vec<_> = names.iter().copied().map(input).collect();
            let changed = shared.update(&inputs, &set, &reader);
            assert!(shared.bytes <= shared.max_bytes);
            assert_eq!(shared.files.values().map(|file| file.bytes).sum::<usize>(), shared.bytes);
            let names = |files: &BTreeMap<PathBuf, SharedFile>| {
                let names = files.keys().map(|path| path.file_name().unwrap().to_str().unwrap());
                names.collect::<String>()
            };
            (names(&shared.files), names(&shared.refused), !changed.is_empty())
        };
        let state = |files: &str, refused: &str, is_changed| {
            (files.to_owned(), refused.to_owned(), is_changed)
        };
        assert_eq!(update(&mut shared, &["a", "b", "c", "d", "e"]), state("abd", "ce", true));
        // No more than those of one file wait.
        assert!(shared.refused.values().all(|file| file.names.is_empty()));
        assert_eq!(update(&mut shared, &["c", "e"]), state("abd", "ce", false));
        // They are shared once there is room: a file has become smaller, or is gone.
        write("b", 10);
        assert_eq!(update(&mut shared, &["b"]), state("abcd", "e", true));
        write("b", 100);
        assert_eq!(update(&mut shared, &["b"]), state("acd", "be", true));
        shared.remove(&directory.path().join("a"), &set, &reader);
        assert_eq!(update(&mut shared, &[]), state("bcd", "e", false));
        // One that has become small enough.
        write("e", 2);
        assert_eq!(update(&mut shared, &["e"]), state("bcde", "", true));
        shared.remove(&directory.path().join("e"), &set, &reader);
        write("c", 0);
        assert_eq!(update(&mut shared, &["c"]), state("bd", "", true));
    }
}
