//! The unit that a file belongs to: the bundle, catalog or project around it, or the file itself.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use opgate_files::{self as files, CheckInputType, DetectedInput};
use opgate_input::read::Reader;

use crate::cli::check::collected::waiver_directory;

/// Maximum number of directories around a file in which a bundle is searched.
const MAX_ANCESTORS: usize = 6;

/// Returns a file as a unit; none if it is not checked. It does not search a directory, which some editors open like a
/// file.
pub(super) fn detect_file(path: &Path, reader: &Reader) -> Option<DetectedInput> {
    if path.is_dir() {
        return None;
    }
    let found = files::detect(path, reader).ok()?.inputs.into_iter().next()?;
    // Exported objects are manifests in a workspace, which are never all objects of a cluster.
    let input_type = match found.input_type {
        CheckInputType::Cluster => CheckInputType::Manifest,
        other => other,
    };
    Some(DetectedInput { input_type, ..found })
}

/// The units of a workspace.
#[derive(Debug, Default)]
pub(super) struct Units {
    directories: HashMap<PathBuf, DetectedInput>,
    files: HashMap<PathBuf, DetectedInput>,
}

impl Units {
    /// Creates it from what was detected.
    pub(super) fn new(inputs: Vec<DetectedInput>) -> Self {
        let mut units = Self::default();
        for input in inputs {
            let is_file = input.directory.is_some() || !input.path.is_dir();
            let list = if is_file { &mut units.files } else { &mut units.directories };
            list.insert(input.path.clone(), input);
        }
        units
    }

    /// Returns all units.
    pub(super) fn all(&self) -> impl Iterator<Item = &DetectedInput> {
        self.directories.values().chain(self.files.values())
    }

    /// Returns whether a file is, or is in, a unit that was detected.
    pub(super) fn contains(&self, path: &Path) -> bool {
        self.files.contains_key(path)
            || path.ancestors().any(|directory| self.directories.contains_key(directory))
    }

    /// Returns the unit of a file, if it was detected.
    pub(super) fn known_unit_of(&self, path: &Path) -> Option<&DetectedInput> {
        let mut around = path.ancestors().skip(1);
        let file = self.files.get(path);
        file.or_else(|| around.find_map(|directory| self.directories.get(directory)))
    }

    /// Returns the unit of a file; none if it is not checked.
    pub(super) fn unit_of(&self, path: &Path, reader: &Reader) -> Option<DetectedInput> {
        if let Some(input) = self.known_unit_of(path) {
            return Some(input.clone());
        }
        let around = path.ancestors().skip(1);
        // The workspace is not searched yet, or the file is outside of it.
        for directory in around.take(MAX_ANCESTORS) {
            let is_bundle = directory.join("metadata/annotations.yaml").is_file()
                || directory.join("manifests").is_dir()
                    && path.starts_with(directory.join("manifests"));
            if !is_bundle {
                continue;
            }
            let found = files::detect(directory, reader).unwrap_or_default().inputs;
            if let Some(input) = found.into_iter().find(|input| input.path == directory) {
                return Some(input);
            }
        }
        detect_file(path, reader)
    }

    /// Returns the units whose waivers are in a directory.
    pub(super) fn with_waivers_in(&self, directory: &Path) -> Vec<DetectedInput> {
        let is_in = |input: &&DetectedInput| waiver_directory(input).as_deref() == Some(directory);
        self.all().filter(is_in).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn directory_is_not_searched_like_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a.yaml");
        fs::write(&file, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n").unwrap();
        let (units, reader) = (Units::default(), Reader::default());
        assert_eq!(units.unit_of(&file, &reader).map(|unit| unit.path), Some(file));
        assert_eq!(units.unit_of(directory.path(), &reader), None);
    }
}
