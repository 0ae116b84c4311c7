//! The patches that kustomizations name. A patch has the kind and the name of an object and a part of
//! its fields: rules about the object do not apply to it.
//!
//! ```text
//! kustomization.yaml ─▶ patches[].path, patchesStrategicMerge[], patchesJson6902[].path ─▶ PatchFiles
//! ```

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use opgate_document::Document;
use opgate_input::read::{FilePath, Reader};

use super::content::{Documents, File, ParseMode};
use super::directory::DirectoryListing;

/// The names that kustomize knows.
const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Folders above a file in which a kustomization is looked for: `config/crd/patches/a.yaml` is named by
/// `config/crd/kustomization.yaml`.
const MAX_PARENT_DIRECTORIES: usize = 3;

/// Paths of patches, each with the kustomization that names it.
#[derive(Debug, Default)]
pub(super) struct PatchFiles(HashMap<PathBuf, PathBuf>);

/// Reports whether a file is a kustomization by its name.
pub(super) fn is_kustomization(path: &str) -> bool {
    FILE_NAMES.contains(&path.rsplit_once('/').map_or(path, |(_, name)| name))
}

impl PatchFiles {
    /// Returns the files of all kustomizations in a directory.
    pub(super) fn of(directory: &DirectoryListing, reader: &Reader) -> Self {
        let mut patches = Self::default();
        let root = directory.root.path();
        for entry in directory.files.iter().filter(|entry| is_kustomization(&entry.path)) {
            if entry.rejection.is_none() {
                let file = entry.read(directory, ParseMode::AllFiles, &reader.with_full_budget());
                patches.add(&root.join(&entry.path), &file);
            }
        }
        patches
    }

    /// Returns the files of the kustomizations next to a file and in the directories above it.
    pub(super) fn near(path: &Path, reader: &Reader) -> Self {
        let mut patches = Self::default();
        for directory in path.ancestors().skip(1).take(MAX_PARENT_DIRECTORIES) {
            for name in FILE_NAMES {
                let path = directory.join(name);
                if path.is_file() {
                    let shown = path.display().to_string();
                    let at = FilePath::Named(&path);
                    let file = File::read(
                        at,
                        shown.clone(),
                        shown,
                        ParseMode::AllFiles,
                        &reader.with_full_budget(),
                    );
                    patches.add(&path, &file);
                }
            }
        }
        patches
    }

    fn add(&mut self, kustomization: &Path, file: &File) {
        let documents = file.documents().map(Documents::documents);
        let directory = kustomization.parent().unwrap_or(Path::new(""));
        for document in documents.into_iter().flatten() {
            for path in patch_paths(&document) {
                self.0
                    .entry(normalize(&directory.join(path)))
                    .or_insert_with(|| kustomization.to_path_buf());
            }
        }
    }

    /// Returns why the objects of a file are not evaluated, if it is a patch.
    pub(super) fn skip_reason(&self, path: &Path) -> Option<String> {
        let kustomization = self.0.get(&normalize(path))?;
        Some(format!("a patch of {}, not an object", kustomization.display()))
    }
}

/// Returns the paths that a kustomization names as patches. A patch can also be inline in the kustomization.
fn patch_paths(kustomization: &Document) -> Vec<String> {
    let root = kustomization.root();
    let each = |member: &str, path: &str| -> Vec<String> {
        let list = root.get(member).into_iter().flat_map(|list| list.items());
        let texts = list.filter_map(|item| item.get(path)?.text().map(str::to_owned));
        texts.collect()
    };
    let mut all = each("/patches", "/path");
    all.extend(each("/patchesJson6902", "/path"));
    all.extend(each("/patchesStrategicMerge", ""));
    all.retain(|path| !path.contains('\n'));
    all
}

/// Returns a path without `.` and `..`.
fn normalize(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if parts.file_name().is_some() => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDirectory;

    const KUSTOMIZATION: &str = "resources: [bases/crd.yaml]\npatches:\n- path: patches/a.yaml\n- patch: |\n    - op: remove\npatchesStrategicMerge:\n- ../shared/b.yaml\n- |\n  kind: X\npatchesJson6902: [{path: c.yaml, target: {kind: X}}]\n";

    #[test]
    fn patches_of_a_kustomization_are_detected() {
        let directory = TempDirectory::new(&[
            ("crd/kustomization.yaml", KUSTOMIZATION),
            ("crd/patches/a.yaml", ""),
            ("shared/b.yaml", ""),
            ("other/kustomization.yml", "patches: x\n"),
        ]);
        let walked = crate::directory::walk(directory.path()).unwrap();
        let patches = PatchFiles::of(&walked, &Reader::default());
        let at = |path: &str| directory.path().join(path);
        for (path, expected) in [
            ("crd/patches/a.yaml", true),
            ("crd/./patches/../patches/a.yaml", true),
            ("shared/b.yaml", true),
            ("crd/c.yaml", true),
            ("crd/bases/crd.yaml", false),
            ("crd/a.yaml", false),
        ] {
            let reason = patches.skip_reason(&at(path));
            assert_eq!(reason.is_some(), expected, "{path}: {reason:?}");
        }
        let patches = PatchFiles::near(&at("crd/patches/a.yaml"), &Reader::default());
        let reason = patches.skip_reason(&at("crd/patches/a.yaml")).unwrap();
        assert!(reason.ends_with("crd/kustomization.yaml, not an object"), "{reason}");
        assert_eq!(patches.skip_reason(&at("crd/bases/crd.yaml")), None);
    }
}
