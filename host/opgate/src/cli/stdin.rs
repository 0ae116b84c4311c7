//! Standard input as a file. Type detection reads the input first, and a pipe can only be read once: the
//! input is copied to a temporary file, which is removed at the end.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use opgate_input::read::Reader;
use opgate_platform::files;

/// Name of standard input on the command line.
pub(super) const NAME: &str = "-";

/// The copy of standard input.
#[derive(Debug)]
pub(super) struct Stdin(PathBuf);

impl Stdin {
    /// Reads to the end.
    pub(super) fn read(reader: &Reader) -> anyhow::Result<Self> {
        let (copy, mut file) = Self::create().context("a copy of standard input cannot be kept")?;
        // One byte more than may be read: what is larger is refused as a file of that size is.
        let max_bytes = reader.remaining_bytes().saturating_add(1);
        let copied = io::copy(&mut io::stdin().lock().take(max_bytes), &mut file);
        copied.context("standard input cannot be read")?;
        Ok(copy)
    }

    fn create() -> io::Result<(Self, File)> {
        let directory = std::env::temp_dir();
        let process = std::process::id();
        for number in 0..=u8::MAX {
            let path = directory.join(format!("opgate-{process}-{number}"));
            match files::new_private_file().open(&path) {
                Ok(file) => return Ok((Self(path), file)),
                // Another process with this number was killed once.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns a text in which the copy has the name of the original.
    pub(super) fn with_stdin_name(&self, text: &str) -> String {
        files::rename_path(text, &self.0, NAME)
    }
}

impl Drop for Stdin {
    fn drop(&mut self) {
        // A failure has no effect.
        let _ = fs::remove_file(&self.0);
    }
}
