//! Policy errors: the reason why a call failed, in one line for users.

use std::time::Duration;

use super::limits::{MAX_HANDLES, MAX_TABLE_ELEMENTS};
use opgate_text::units::bytes;

/// A function of the contract that a guest calls, for example `document.text`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Import(pub(super) &'static str, pub(super) &'static str);

impl std::fmt::Display for Import {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// The reason why a call failed. The cause is the policy, the engine or the cluster,
/// never the request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The CPU time ran out.
    #[error("exceeded the CPU time limit of {}ms", .0.as_millis())]
    CpuTime(Duration),
    /// The CPU time of all policies that evaluate the review ran out.
    #[error(
        "the policies together exceeded the CPU time limit of {}ms for one review", .0.as_millis()
    )]
    SharedCpuTime(Duration),
    /// The wall-clock time ran out: the call got too little CPU time, and is not the cause.
    #[error("did not end within {}ms: the server has too much to do", .0.as_millis())]
    WallTime(Duration),
    /// The client does not wait any more.
    #[error("stopped: the client no longer waits for the response")]
    Cancelled,
    /// Memory beyond the limit, of the guest or of the host for the guest.
    #[error("wanted more than {} of memory{}", bytes(*.0), import_suffix(*.1))]
    Memory(usize, Option<Import>),
    /// The server has no memory left for the request.
    #[error("the server has no memory left for the request")]
    ServerMemory,
    /// More data than an import accepts or returns at once.
    #[error("{0}: {1}")]
    ImportLimit(Import, String),
    /// Handles beyond the limit.
    #[error("{0}: more than {MAX_HANDLES} handles at a time")]
    Handles(Import),
    /// A result that is too large.
    #[error("returned a verdict of more than {}", bytes(*.0))]
    ResultTooLarge(usize),
    /// A table beyond the limit.
    #[error("wanted a table of more than {MAX_TABLE_ELEMENTS} elements")]
    Table,
    /// Recursion that is too deep.
    #[error("ran out of stack")]
    Stack,
    /// An access outside of the memory.
    #[error("ran out of stack or followed a bad pointer")]
    Bounds,
    /// A panic, with the text that it wrote to the log.
    #[error("{}", panic_text(.0))]
    Panic(String),
    /// A read of an undeclared field, or by a text that is not a pointer.
    #[error("{0}: {1}")]
    Pointer(Import, String),
    /// Any other trap.
    #[error("trapped: {0}")]
    Trap(String),
    /// The cluster cache has no current result for a query.
    #[error("the cluster cache is not ready: {0}")]
    CacheNotReady(String),
    /// The objects of a query about the cluster are being listed for the first time.
    #[error("the cluster cache is not ready: {0}")]
    Listing(String),
    /// The call needs a list of this resource first.
    #[error("needs a list of {0}")]
    SampleNeeded(String),
    /// Too many requests wait for such lists.
    #[error("{0}")]
    SampleQueueFull(String),
    /// The verdict violates the contract of `wit/policy.wit`.
    #[error("returned an invalid verdict: {0}")]
    InvalidVerdict(String),
    /// The verdict has more elements than the contract allows.
    #[error("returned an invalid verdict: {0}")]
    TooManyItems(String),
}

fn import_suffix(import: Option<Import>) -> String {
    import.map(|import| format!(", in {import}")).unwrap_or_default()
}

/// The last log line of a guest. The SDK writes `panicked at …` itself; others might not.
fn panic_text(last_words: &str) -> String {
    if last_words.starts_with("panicked") {
        last_words.to_owned()
    } else {
        format!("panicked: {last_words}")
    }
}

impl CallError {
    /// All results of [`CallError::cause`].
    pub const CAUSES: [&'static str; 12] = [
        "deadline",
        "overload",
        "cancelled",
        "memory",
        "limit",
        "table",
        "stack",
        "panic",
        "pointer",
        "trap",
        "cluster_cache",
        "answer",
    ];

    /// The label value for metrics.
    #[must_use]
    pub fn cause(&self) -> &'static str {
        match self {
            Self::CpuTime(_) | Self::SharedCpuTime(_) => "deadline",
            Self::WallTime(_) | Self::ServerMemory | Self::SampleQueueFull(_) => "overload",
            Self::Cancelled => "cancelled",
            Self::Memory(..) => "memory",
            Self::ImportLimit(..) | Self::Handles(_) | Self::ResultTooLarge(_) => "limit",
            Self::Table => "table",
            Self::Stack | Self::Bounds => "stack",
            Self::Panic(_) => "panic",
            Self::Pointer(..) => "pointer",
            Self::Trap(_) => "trap",
            Self::CacheNotReady(_) | Self::Listing(_) | Self::SampleNeeded(_) => "cluster_cache",
            Self::InvalidVerdict(_) | Self::TooManyItems(_) => "answer",
        }
    }

    /// Whether a second attempt with more time could succeed.
    #[must_use]
    pub fn is_cpu_timeout(&self) -> bool {
        matches!(self, Self::CpuTime(_))
    }

    /// Whether the call needed more than a limit of the policy allows.
    #[must_use]
    pub fn is_limit_exceeded(&self) -> bool {
        matches!(
            self,
            Self::CpuTime(_)
                | Self::Memory(..)
                | Self::ImportLimit(..)
                | Self::Handles(_)
                | Self::ResultTooLarge(_)
        )
    }

    /// Whether it is an error of the policy or of its input, not of the amount of work, which the
    /// author of the object under review determines.
    #[must_use]
    pub fn can_be_allowed(&self) -> bool {
        match self {
            Self::Panic(_)
            | Self::Pointer(..)
            | Self::Trap(_)
            | Self::CacheNotReady(_)
            | Self::InvalidVerdict(_) => true,
            Self::CpuTime(_)
            | Self::SharedCpuTime(_)
            | Self::WallTime(_)
            | Self::Cancelled
            | Self::Memory(..)
            | Self::ServerMemory
            | Self::ImportLimit(..)
            | Self::Handles(_)
            | Self::ResultTooLarge(_)
            | Self::Table
            | Self::Stack
            | Self::Bounds
            | Self::Listing(_)
            | Self::SampleNeeded(_)
            | Self::SampleQueueFull(_)
            | Self::TooManyItems(_) => false,
        }
    }

    /// Whether the server is the cause: it is overloaded, and the policy is not the cause.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        matches!(self, Self::WallTime(_) | Self::ServerMemory | Self::SampleQueueFull(_))
    }
}
