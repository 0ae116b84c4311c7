//! What one call of a policy may use.

use std::sync::Arc;
use std::time::Duration;

use opgate_document::Account;
use wasmtime::ResourceLimiter;

use super::fault::{Fault, Import};

/// Elements of one table, handles of one call, bytes that one call of an import or an answer may pass.
pub(crate) const TABLE_ELEMENTS: usize = 10_000;
pub(crate) const HANDLES: usize = 1_000;
pub(crate) const HOSTCALL_BYTES: usize = 4 << 20;

/// Bytes of a JSON pointer or a name, and columns of a table.
pub(crate) const POINTER: usize = 4 << 10;
pub(crate) const COLUMNS: usize = 64;

/// Limits of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory of one call, the guest's and the host's for it.
    pub memory: usize,
    /// Processor time of one call.
    pub time: Duration,
    /// Calls that run at the same time.
    pub concurrency: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 32 << 20, time: Duration::from_millis(100), concurrency: 4 }
    }
}

/// What it means that an account has refused memory: it is the call's own limit, or what the server
/// has left for requests.
pub(crate) fn refused(account: &Account, import: Option<Import>) -> Fault {
    if account.is_starved() { Fault::Exhausted } else { Fault::Memory(account.limit(), import) }
}

/// Keeps the sizes of memories and tables, and remembers what was refused.
pub(crate) struct Limiter {
    account: Arc<Account>,
    pub(crate) hit: Option<Fault>,
}

/// Memories, tables and instances of one call. A component of the SDK has 1, 2 and 3; one with a
/// JavaScript engine has a memory for the engine and some for what is beside it. All memories together
/// have no more bytes than the limit says.
pub(crate) const MEMORIES: usize = 4;
pub(crate) const TABLES: usize = 8;
pub(crate) const INSTANCES: usize = 8;

impl Limiter {
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self { account, hit: None }
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        wanted: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if !self.account.try_take(wanted.saturating_sub(current)) {
            // The guest may ask for less; if it traps instead, this is why.
            self.hit = Some(refused(&self.account, None));
            return Ok(false);
        }
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
        if wanted > TABLE_ELEMENTS { Err(Fault::Table.into()) } else { Ok(true) }
    }
}
