//! Limits the memories and tables of a call.

use std::sync::Arc;

use opgate_document::Account;
use wasmtime::ResourceLimiter;

use super::call_error::{CallError, Import};
use super::limits::{MAX_INSTANCES, MAX_MEMORIES, MAX_TABLE_ELEMENTS, MAX_TABLES};

/// The policy error for memory that an account denied: the limit of the call is reached, or the
/// server has no memory left for requests.
pub(crate) fn memory_error(account: &Account, import: Option<Import>) -> CallError {
    if account.is_parent_exhausted() {
        CallError::ServerMemory
    } else {
        CallError::Memory(account.limit(), import)
    }
}

/// Limits the sizes of memories and tables, and records the denied ones.
pub(crate) struct Limiter {
    account: Arc<Account>,
    pub(crate) hit: Option<CallError>,
}

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
        if !self.account.try_charge(wanted.saturating_sub(current)) {
            // The guest can request less. If it traps instead, this is the reason.
            self.hit = Some(memory_error(&self.account, None));
            return Ok(false);
        }
        self.hit = None;
        Ok(true)
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }

    fn instances(&self) -> usize {
        MAX_INSTANCES
    }

    fn table_growing(
        &mut self,
        _: usize,
        wanted: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if wanted > MAX_TABLE_ELEMENTS { Err(CallError::Table.into()) } else { Ok(true) }
    }
}
