//! Writes files that another process may read at the same time.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Replaces a file: readers see the old content or the new one.
///
/// # Errors
/// If the file cannot be written. The old content then stays.
pub(super) fn write_atomically(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written =
        std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    written
        .inspect_err(|_| drop(std::fs::remove_file(&temporary)))
        .with_context(|| path.display().to_string())
}
