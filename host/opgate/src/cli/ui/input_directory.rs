//! The temporary directory of the input in evaluation, which is removed with it or when the command ends.
//!
//! ```text
//! Upload ─▶ InputDirectory::fill ─▶ evaluation ─▶ clear
//!                 Ctrl-C, SIGTERM, SIGHUP ─▶ close
//! ```

use std::io;
use std::path::Path;

use parking_lot::Mutex;
use tempfile::TempDir;
use thiserror::Error;

/// Why there is no directory.
#[derive(Debug, Error)]
pub(super) enum InputDirectoryError {
    #[error("the command ends: start `opgate ui` again")]
    Closed,
    #[error("a temporary directory cannot be created")]
    Io(#[from] io::Error),
}

/// The directory of the current input, if there is one.
#[derive(Debug, Default)]
pub(super) struct InputDirectory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    current: Option<TempDir>,
    is_closed: bool,
}

impl InputDirectory {
    /// Creates a directory that only this user can read, and writes an input to it.
    ///
    /// # Errors
    /// If the command ends or the input cannot be written. The directory is removed then.
    pub(super) fn fill<T, E: From<InputDirectoryError>>(
        &self,
        write: impl FnOnce(&Path) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut state = self.0.lock();
        if state.is_closed {
            return Err(InputDirectoryError::Closed.into());
        }
        let directory = tempfile::Builder::new().prefix("opgate-ui-").tempdir();
        let directory = directory.map_err(InputDirectoryError::Io)?;
        let written = write(directory.path())?;
        state.current = Some(directory);
        Ok(written)
    }

    /// Removes the directory.
    pub(super) fn clear(&self) {
        self.0.lock().current = None;
    }

    /// Removes the directory. From now on, no other is created.
    ///
    /// # Errors
    /// If the system cannot remove it.
    pub(super) fn close(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.current.take().map_or(Ok(()), TempDir::close)
    }
}
