//! Writes files that another process may read at the same time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Replaces a file: readers see the old content or the new one. A pipe or a device is written instead, and a link
/// stays: its target is replaced.
///
/// # Errors
/// If the file cannot be written. The old content then stays.
pub(super) fn write_atomically(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let target = fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        let mut file = OpenOptions::new().write(true).open(path);
        let written = file.as_mut().map_or_else(|_| Ok(()), |file| file.write_all(bytes));
        return file.and(written).with_context(|| path.display().to_string());
    }
    let written = create_temporary(path).and_then(|(mut file, temporary)| {
        let written = file.write_all(bytes).and_then(|()| fs::rename(&temporary, path));
        written.inspect_err(|_| drop(fs::remove_file(&temporary)))
    });
    written.with_context(|| path.display().to_string())
}

/// Files that earlier processes may have left.
const MAX_ATTEMPTS: u32 = 16;

/// Creates a file next to `path`. Never one that is there: in a shared directory it could be a link of another user.
fn create_temporary(path: &Path) -> io::Result<(File, PathBuf)> {
    let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..MAX_ATTEMPTS {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".{}.{attempt}.tmp", std::process::id()));
        let temporary = PathBuf::from(temporary);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((file, temporary)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}
