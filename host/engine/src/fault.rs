//! Why a call gave no answer, in one line for people.

use std::time::Duration;

use super::limits::{HANDLES, TABLE_ELEMENTS};
use opgate_text::units::bytes;

/// A function of the contract that a guest calls: `document.text`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Import(pub(super) &'static str, pub(super) &'static str);

impl std::fmt::Display for Import {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Why a call gave no answer: the policy's doing, the engine's or the cluster's, never the request's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The time of the processor ran out.
    #[error("used more than {}ms of processor time", .0.as_millis())]
    Deadline(Duration),
    /// The time on the wall ran out: it had too little of the processor, and is not to blame.
    #[error("did not end within {}ms: the server has too much to do", .0.as_millis())]
    Wall(Duration),
    /// Whoever asked has gone.
    #[error("stopped, because nobody waits for the answer any more")]
    Cancelled,
    /// Memory beyond the limit, its own or the host's for it.
    #[error("wanted more than {} of memory{}", bytes(*.0), during(*.1))]
    Memory(usize, Option<Import>),
    /// The server has no memory left for what the request needs.
    #[error("the server has no memory left for the request")]
    Exhausted,
    /// More than an import takes or gives at once.
    #[error("{0}: {1}")]
    Limit(Import, String),
    /// Handles beyond the limit.
    #[error("{0}: more than {HANDLES} handles at a time")]
    Handles(Import),
    /// More than an answer may have.
    #[error("gave an answer of more than {}", bytes(*.0))]
    Size(usize),
    /// A table beyond the limit.
    #[error("wanted a table of more than {TABLE_ELEMENTS} elements")]
    Table,
    /// Recursion too deep.
    #[error("ran out of stack")]
    Stack,
    /// An access outside of the memory.
    #[error("ran out of stack or followed a bad pointer")]
    Bounds,
    /// A panic, with the text that it wrote to the log.
    #[error("{}", panicked(.0))]
    Panic(String),
    /// Anything else that stops an instance.
    #[error("trapped: {0}")]
    Trap(String),
    /// What it asked about the cluster has no current answer.
    #[error("the cluster context is not current: {0}")]
    NotCurrent(String),
    /// What it asked about the cluster is being listed for the first time.
    #[error("the cluster context is not current: {0}")]
    Listing(String),
    /// The answer breaks the contract of `wit/policy.wit`.
    #[error("gave an answer that breaks the contract: {0}")]
    Answer(String),
    /// The answer has more in it than an answer may have.
    #[error("gave an answer that breaks the contract: {0}")]
    Flood(String),
}

fn during(import: Option<Import>) -> String {
    import.map(|import| format!(", in {import}")).unwrap_or_default()
}

/// The last words of a guest: the SDK writes `panicked at …` itself, others may not.
fn panicked(last_words: &str) -> String {
    if last_words.starts_with("panicked") {
        last_words.to_owned()
    } else {
        format!("panicked: {last_words}")
    }
}

impl Fault {
    /// One word for metrics.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Deadline(_) => "deadline",
            Self::Wall(_) | Self::Exhausted => "overload",
            Self::Cancelled => "cancelled",
            Self::Memory(..) => "memory",
            Self::Limit(..) | Self::Handles(_) | Self::Size(_) => "limit",
            Self::Table => "table",
            Self::Stack | Self::Bounds => "stack",
            Self::Panic(_) => "panic",
            Self::Trap(_) => "trap",
            Self::NotCurrent(_) | Self::Listing(_) => "context",
            Self::Answer(_) | Self::Flood(_) => "answer",
        }
    }

    /// Whether a second try with more time could end better.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(self, Self::Deadline(_))
    }

    /// Whether it is an error of the policy or of what it is told, and not of how much it was given to
    /// do: that lies in the hands of whoever wrote the object under review.
    #[must_use]
    pub fn is_its_own(&self) -> bool {
        match self {
            Self::Panic(_) | Self::Trap(_) | Self::NotCurrent(_) | Self::Answer(_) => true,
            Self::Deadline(_)
            | Self::Wall(_)
            | Self::Cancelled
            | Self::Memory(..)
            | Self::Exhausted
            | Self::Limit(..)
            | Self::Handles(_)
            | Self::Size(_)
            | Self::Table
            | Self::Stack
            | Self::Bounds
            | Self::Listing(_)
            | Self::Flood(_) => false,
        }
    }

    /// Whether the server is to blame: it has too much to do, and the policy did nothing wrong.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        matches!(self, Self::Wall(_) | Self::Exhausted)
    }
}
