//! How a command ends: its exit status, and the error that it prints.

use std::io;
use std::process::ExitCode;

/// Result of a command; the numbers are part of the stable interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExitStatus {
    /// All allowed.
    Ok = 0,
    /// Something denied.
    Denied = 1,
    /// Wrong usage or unreadable input.
    Usage = 2,
    /// A policy or the engine failed.
    Engine = 3,
}

impl From<ExitStatus> for ExitCode {
    fn from(outcome: ExitStatus) -> Self {
        Self::from(match outcome {
            ExitStatus::Ok => 0,
            ExitStatus::Denied => 1,
            ExitStatus::Usage => 2,
            ExitStatus::Engine => 3,
        })
    }
}

/// A command that could not be carried out.
#[derive(Debug)]
pub(super) struct CommandError {
    pub(super) outcome: ExitStatus,
    pub(super) error: anyhow::Error,
}

impl CommandError {
    pub(super) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { outcome: ExitStatus::Usage, error: error.into() }
    }

    pub(super) fn engine(error: impl Into<anyhow::Error>) -> Self {
        Self { outcome: ExitStatus::Engine, error: error.into() }
    }
}

impl From<anyhow::Error> for CommandError {
    fn from(error: anyhow::Error) -> Self {
        Self::usage(error)
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::usage(error)
    }
}
