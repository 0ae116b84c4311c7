//! The error of a pull, a push or a verification: one line, and whether to try again.

use std::time::Duration;

use crate::Reference;

/// Maximum bytes of an error. It may quote a registry.
const MAX_ERROR_BYTES: usize = 1_024;

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
    Permanent,
    /// The registry does not have the content, or does not show it.
    NotFound,
    /// Another attempt may succeed, after this time if the registry names one.
    Transient(Option<Duration>),
}

impl Error {
    fn of_kind(why: impl AsRef<str>, kind: Kind) -> Self {
        Self { why: opgate_text::one_line(why.as_ref(), MAX_ERROR_BYTES), kind }
    }

    pub(crate) fn permanent(why: impl AsRef<str>) -> Self {
        Self::of_kind(why, Kind::Permanent)
    }

    pub(crate) fn not_found(why: impl AsRef<str>) -> Self {
        Self::of_kind(why, Kind::NotFound)
    }

    pub(crate) fn transient(why: impl AsRef<str>) -> Self {
        Self::of_kind(why, Kind::Transient(None))
    }

    pub(crate) fn transient_after(why: impl AsRef<str>, after: Option<Duration>) -> Self {
        Self::of_kind(why, Kind::Transient(after))
    }

    /// Prepends the reference.
    pub(crate) fn with_reference(self, reference: &Reference) -> Self {
        Self::of_kind(format!("{reference}: {}", self.why), self.kind)
    }

    /// Prepends the subject.
    pub(crate) fn with_subject(self, what: &str) -> Self {
        Self::of_kind(format!("{what}: {}", self.why), self.kind)
    }

    /// Whether the registry reported that it does not have the content.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind == Kind::NotFound
    }

    /// Whether another attempt may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self.kind, Kind::Transient(_))
    }

    /// The wait that the registry requested.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            Kind::Transient(after) => after,
            Kind::Permanent | Kind::NotFound => None,
        }
    }
}
