//! `--fail-on`: what makes the exit status 1.

use crate::cli::exit::ExitStatus;

/// The lowest effect of a violation that fails the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum FailOn {
    /// Violations that deny
    #[default]
    Deny,
    /// Warnings as well
    Warn,
    /// No violation: exit status 1 does not occur
    Never,
}

impl FailOn {
    /// Returns the exit status for this outcome. Unreadable input and policy errors always count.
    pub(super) fn status(self, outcome: ExitStatus) -> ExitStatus {
        if self == Self::Never && outcome == ExitStatus::Denied { ExitStatus::Ok } else { outcome }
    }
}
