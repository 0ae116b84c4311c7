//! `--fail-on`: what makes the exit status 1.

use super::Outcome;

/// The lowest level of a finding that counts for the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum FailOn {
    /// What denies
    #[default]
    Deny,
    /// Warnings as well
    Warn,
    /// Nothing that is found: exit status 1 does not occur
    Never,
}

impl FailOn {
    /// The exit status for this outcome. Input that cannot be read and policies that fail always count.
    pub(super) fn status(self, outcome: Outcome) -> Outcome {
        if self == Self::Never && outcome == Outcome::Denied { Outcome::Ok } else { outcome }
    }
}
