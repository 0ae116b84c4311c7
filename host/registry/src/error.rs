//! The error of a pull, a push or a verification: one line, and whether to try again.

use std::time::Duration;

use crate::Reference;

/// Maximum bytes of an error. It may quote a registry.
const LONGEST: usize = 1_024;

/// The reason why a pull, a push or a verification failed, as one line.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{why}")]
pub struct Error {
    why: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Another attempt would fail in the same way.
    Lasting,
    /// The registry does not have the content, or does not show it.
    Missing,
    /// Another attempt may succeed, after this time if the registry names one.
    Passing(Option<Duration>),
}

impl Error {
    fn of_kind(why: impl AsRef<str>, kind: Kind) -> Self {
        Self { why: opgate_text::one_line(why.as_ref(), LONGEST), kind }
    }

    pub(crate) fn lasting(why: impl AsRef<str>) -> Self {
        Self::of_kind(why, Kind::Lasting)
    }

    pub(crate) fn missing(why: impl AsRef<str>) -> Self {
        Self::of_kind(why, Kind::Missing)
    }

    pub(crate) fn passing(why: impl AsRef<str>) -> Self {
        Self::of_kind(why, Kind::Passing(None))
    }

    pub(crate) fn passing_after(why: impl AsRef<str>, after: Option<Duration>) -> Self {
        Self::of_kind(why, Kind::Passing(after))
    }

    /// Prepends the reference.
    pub(crate) fn of(self, reference: &Reference) -> Self {
        Self::of_kind(format!("{reference}: {}", self.why), self.kind)
    }

    /// Prepends the subject.
    pub(crate) fn about(self, what: &str) -> Self {
        Self::of_kind(format!("{what}: {}", self.why), self.kind)
    }

    /// Whether the registry reported that it does not have the content.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.kind == Kind::Missing
    }

    /// Whether another attempt may succeed.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.kind, Kind::Passing(_))
    }

    /// The wait that the registry requested.
    pub(crate) fn after(&self) -> Option<Duration> {
        match self.kind {
            Kind::Passing(after) => after,
            Kind::Lasting | Kind::Missing => None,
        }
    }
}
