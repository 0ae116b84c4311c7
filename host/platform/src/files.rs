//! Files: of untrusted directories without links, and for this user only.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{MAIN_SEPARATOR, Path, PathBuf};

pub use super::shared::OthersAccess;
use super::system;

/// Opens a regular file for reading, and returns its size. It can be a link. Opening never waits, and
/// opens no device.
///
/// # Errors
/// If there is none, or it is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    system::open_regular(path)
}

/// Opens a regular file for reading that is no link.
///
/// # Errors
/// If there is none, or it is a link, or not a regular file.
pub fn open_without_link(path: &Path) -> io::Result<File> {
    system::open_without_link(path)
}

/// A directory below which files are opened without following links.
#[derive(Debug)]
pub struct Directory(system::Directory);

impl Directory {
    /// Opens a directory. It can be a link.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        system::Directory::open(path).map(Self)
    }

    /// Opens a regular file below it, and returns its size. No part of the path can be a link.
    ///
    /// # Errors
    /// If there is none, or it is not a regular file.
    pub fn open_below(&self, path: &Path) -> io::Result<(File, u64)> {
        self.0.open_below(path)
    }
}

/// Reads at an offset, without a change for other readers of the file where the system can do that.
///
/// # Errors
/// If it cannot be read.
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    system::read_at(file, bytes, offset)
}

/// Returns a path as messages name it: with `/` between names on every system.
#[must_use]
pub fn display_path(path: &Path) -> String {
    system::display_path(path)
}

/// Gives a path another name in a message, which has it as [`display_path`] or as the system writes it.
#[must_use]
pub fn rename_path(message: &str, path: &Path, name: &str) -> String {
    let (shown, native) = (display_path(path), path.to_string_lossy());
    let renamed = message.replace(&shown, name);
    // Once where both are the same: the new name can contain the old one.
    if shown == native { renamed } else { renamed.replace(&*native, name) }
}

/// Makes the paths in a message relative to a directory, which has a name only where a message names it alone.
#[must_use]
pub fn remove_directory(message: &str, directory: &Path, name: &str) -> String {
    let shown = message.replace(&format!("{}/", display_path(directory)), "");
    let native = format!("{}{MAIN_SEPARATOR}", directory.display());
    rename_path(&shown.replace(&native, ""), directory, name)
}

/// Returns the path that a `file` address has after its host: `/a b`, and `/C:/a b` on Windows.
#[must_use]
pub fn from_address(path: &str) -> PathBuf {
    system::from_address(path)
}

/// Returns a path as a `file` address has it after its host, not yet escaped.
#[must_use]
pub fn to_address(path: &Path) -> String {
    system::to_address(path)
}

/// Returns the directory of the user, as other programs find it.
#[must_use]
pub fn home_directory() -> Option<PathBuf> {
    system::home_directory().filter(|path| path.is_absolute())
}

/// Creates a directory, and those above it, for this user only. It is no error if there is one.
///
/// # Errors
/// If it cannot be created.
pub fn create_private_directory(path: &Path) -> io::Result<()> {
    system::create_private_directory(path)
}

/// Returns the number of names of a file (hard links). It is 1 where the system does not tell.
#[must_use]
pub fn link_count(metadata: &Metadata) -> u64 {
    system::link_count(metadata)
}

/// Gives a file the owner and the group of another one, or only the group, as far as this user may do that.
pub fn copy_owner(file: &File, metadata: &Metadata) {
    system::copy_owner(file, metadata);
}

/// Returns options that create a new file for this user only. It is an error if there is one.
#[must_use]
pub fn new_private_file() -> OpenOptions {
    new_file(0o600)
}

/// Returns options that create a new file with this mode, where files have one. It is an error if there is
/// a file.
#[must_use]
pub fn new_file(mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    system::set_mode(&mut options, mode);
    options
}

/// Checks that a file belongs to this user, and gives others no more access than this.
///
/// # Errors
/// If it does not, or if the system does not tell.
pub fn ensure_owned(path: &Path, metadata: &Metadata, others: OthersAccess) -> io::Result<()> {
    system::ensure_owned(path, metadata, others)
}
