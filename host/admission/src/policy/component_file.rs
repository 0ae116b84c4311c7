//! The file of a component.

use std::io::{self, Read as _};
use std::path::Path;

use opgate_engine::MAX_COMPONENT;

/// Reads the component in a file. It must be a regular file, and at most as large as a component
/// may be.
///
/// # Errors
/// As for files.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let kind = std::fs::metadata(path)?;
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let most = u64::try_from(MAX_COMPONENT).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
