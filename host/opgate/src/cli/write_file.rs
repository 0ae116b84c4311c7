//! Writes files that another process may read at the same time.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
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
    // Never a file that is there: in a shared directory it could be a link of another user.
    let created = OpenOptions::new().write(true).create_new(true).open(&temporary);
    let written = created.and_then(|mut file| {
        let written = file.write_all(bytes).and_then(|()| fs::rename(&temporary, path));
        written.inspect_err(|_| drop(fs::remove_file(&temporary)))
    });
    written.with_context(|| path.display().to_string())
}
