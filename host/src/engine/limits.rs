//! What one call of a policy may use, and the fault when it wants more.

use std::time::Duration;

use wasmtime::{ResourceLimiter, Trap};

/// Elements of one table, handles of one call, bytes that one call of an import may pass.
pub(crate) const TABLE_ELEMENTS: usize = 10_000;
pub(crate) const HANDLES: usize = 1_000;
pub(crate) const HOSTCALL_BYTES: usize = 4 << 20;

/// Limits of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory of one call.
    pub memory: usize,
    /// Wall-clock time of one call.
    pub time: Duration,
    /// Calls that run at the same time.
    pub concurrency: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 32 << 20, time: Duration::from_millis(100), concurrency: 4 }
    }
}

/// Why a call gave no answer: the policy's doing, the engine's or the cluster's, never the request's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The time ran out.
    #[error("ran longer than {}ms", .0.as_millis())]
    Deadline(Duration),
    /// Whoever asked has gone.
    #[error("stopped, because nobody waits for the answer any more")]
    Cancelled,
    /// Memory beyond the limit.
    #[error("wanted more than {} of memory", crate::policy::units::bytes(*.0))]
    Memory(usize),
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
    Context(String),
    /// What it asked about the cluster is being listed for the first time.
    #[error("the cluster context is not current: {0}")]
    Listing(String),
    /// The answer breaks the contract of `wit/policy.wit`.
    #[error("gave an answer that breaks the contract: {0}")]
    Answer(String),
}

impl Fault {
    /// One word for metrics.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Deadline(_) => "deadline",
            Self::Cancelled => "cancelled",
            Self::Memory(_) => "memory",
            Self::Table => "table",
            Self::Stack | Self::Bounds => "stack",
            Self::Panic(_) => "panic",
            Self::Trap(_) => "trap",
            Self::Context(_) | Self::Listing(_) => "context",
            Self::Answer(_) => "answer",
        }
    }

    /// Whether a second try with more time could end better.
    #[must_use]
    pub fn is_deadline(&self) -> bool {
        matches!(self, Self::Deadline(_))
    }

    /// What an error of wasmtime means, given what the limiter saw and the guest's last words.
    pub(crate) fn of(
        error: &wasmtime::Error,
        limiter: &Limiter,
        time: Duration,
        panic: Option<String>,
    ) -> Self {
        if let Some(fault) = &limiter.hit {
            return fault.clone();
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::Interrupt) => Self::Deadline(time),
            Some(Trap::StackOverflow) => Self::Stack,
            // The stack of a guest's language lies at the start of its memory: running out of it
            // is an access below 0.
            Some(Trap::MemoryOutOfBounds) if panic.is_none() => Self::Bounds,
            trap => panic.map_or_else(
                || {
                    let text = trap.map_or_else(|| format!("{error:#}"), ToString::to_string);
                    Self::Trap(crate::text::one_line(&text, 512))
                },
                Self::Panic,
            ),
        }
    }
}

/// The last words of a guest: the SDK writes `panicked at …` itself, others may not.
fn panicked(last_words: &str) -> String {
    if last_words.starts_with("panicked") {
        last_words.to_owned()
    } else {
        format!("panicked: {last_words}")
    }
}

/// Keeps the sizes of memories and tables, and remembers what was refused.
pub(crate) struct Limiter {
    memory: usize,
    used: usize,
    pub(crate) hit: Option<Fault>,
}

/// Memories, tables and instances of one call. A component of the SDK has 1, 2 and 3.
pub(crate) const MEMORIES: usize = 1;
pub(crate) const TABLES: usize = 8;
pub(crate) const INSTANCES: usize = 8;

impl Limiter {
    pub(crate) fn new(memory: usize) -> Self {
        Self { memory, used: 0, hit: None }
    }

    /// Fails where this many bytes are more than the memory of a call.
    pub(crate) fn check(&mut self, bytes: usize) -> wasmtime::Result<()> {
        if bytes > self.memory {
            self.refuse(Fault::Memory(self.memory))?;
        }
        Ok(())
    }

    /// The error that ends a call with a fault.
    pub(crate) fn end(&mut self, fault: Fault) -> wasmtime::Error {
        let error = wasmtime::Error::msg(fault.to_string());
        self.hit = Some(fault);
        error
    }

    fn refuse(&mut self, fault: Fault) -> wasmtime::Result<bool> {
        Err(self.end(fault))
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        wanted: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let used = self.used.saturating_sub(current).saturating_add(wanted);
        if used > self.memory {
            // The guest may ask for less; if it traps instead, this is why.
            self.hit = Some(Fault::Memory(self.memory));
            return Ok(false);
        }
        self.used = used;
        self.hit = None;
        Ok(true)
    }

    fn memories(&self) -> usize {
        MEMORIES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn table_growing(
        &mut self,
        _: usize,
        wanted: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if wanted > TABLE_ELEMENTS { self.refuse(Fault::Table) } else { Ok(true) }
    }
}
