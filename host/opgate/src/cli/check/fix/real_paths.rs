//! The real paths of the files of a unit: absolute, without links. A directory that is checked can be anyone's, and
//! a link in it can lead anywhere: only files inside of it are edited.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use opgate_files::DetectedInput;

use super::unit::parent_of;

/// The real paths of the files of a unit, each found once.
pub(super) struct RealPaths<'u> {
    /// The path of the directory that is checked.
    root: &'u Path,
    known: HashMap<PathBuf, Result<PathBuf, String>>,
}

impl<'u> RealPaths<'u> {
    pub(super) fn of(input: &'u DetectedInput) -> Self {
        let root = match &input.directory {
            Some(directory) => directory.as_path(),
            None if input.path.is_dir() => &input.path,
            None => parent_of(&input.path),
        };
        Self { root, known: HashMap::new() }
    }

    /// Returns the real path of a file, or of a link to it.
    ///
    /// # Errors
    /// The reason why the file is not edited.
    pub(super) fn find(&mut self, path: &Path) -> Result<PathBuf, String> {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let found = find(path, self.root);
        self.known.insert(path.to_owned(), found.clone());
        found
    }
}

fn find(path: &Path, root: &Path) -> Result<PathBuf, String> {
    let real_root = root.canonicalize().map_err(|error| error.to_string())?;
    let real = match path.canonicalize() {
        Ok(real) => real,
        // A file that a fix adds.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            real_root.join(path.strip_prefix(root).map_err(|_| error.to_string())?)
        }
        Err(error) => return Err(error.to_string()),
    };
    if real.starts_with(&real_root) {
        return Ok(real);
    }
    let what = if path.is_symlink() { "it is a symbolic link to a file" } else { "the file is" };
    Err(format!("{what} outside of the directory that is checked"))
}
