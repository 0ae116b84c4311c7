//! Folders for tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A temporary directory that is removed at the end.
pub(crate) struct TempDirectory(PathBuf);

impl TempDirectory {
    pub(crate) fn empty() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("opgate-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let directory = Self::empty();
        for (name, content) in files {
            directory.write(name, content);
        }
        directory
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Creates nested directories until the path of the innermost ones exceeds the maximum length of a path.
    pub(crate) fn create_deep(&self, name: &str) {
        let names: Vec<_> = (0..12).map(|_| "d".repeat(200)).collect();
        let (outer, inner) = (self.0.join(name), self.0.join("inner"));
        let bottom = outer.join(names.join("/"));
        std::fs::create_dir_all(&bottom).unwrap();
        std::fs::create_dir_all(inner.join(names.join("/"))).unwrap();
        std::fs::rename(inner, bottom.join("inner")).unwrap();
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a directory of `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}
