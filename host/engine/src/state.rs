//! State of the host for one instance, which lives for one call.

use std::cell::Cell;
use std::sync::Arc;

use opgate_document::{Account, Charge, Document, Meter};
use wasmtime::component::Resource;

use super::bindings::Severity;
use super::call_clock::CallClock;
use super::call_error::{CallError, Import};
use super::document_handle::{Handle, Handles};
use super::inputs::Inputs;
use super::memory_limiter::{self, Limiter};
use super::reader::ClusterReader;

/// State of the host for one instance.
pub(crate) struct State {
    /// The review, if the call evaluates one.
    pub(super) inputs: Option<Arc<Inputs>>,
    pub(super) handles: Handles,
    pub(super) limiter: Limiter,
    pub(super) log: Vec<(Severity, String)>,
    /// Handles the guest's queries of the cluster.
    pub(super) reader: Option<Box<dyn ClusterReader>>,
    pub(super) clock: Arc<CallClock>,
    /// The work of the host for the guest.
    pub(super) meter: Meter,
    /// Memory of the guest, and of the host for the guest.
    pub(super) account: Arc<Account>,
    /// Memory of the last result for the guest. It has been copied when the guest calls again.
    pub(super) result_charge: Charge,
    /// Bytes of it that are in use.
    result_bytes: Cell<usize>,
}

/// Bytes that are reserved from one result to the next. Most results are smaller and need no check
/// of the account.
const RESERVED_RESULT_BYTES: usize = 4 << 10;

impl State {
    /// Creates the state. Memory is also charged to `payer`, the account of the request.
    pub(super) fn new(
        memory: usize,
        request_account: Option<&Arc<Account>>,
        clock: Arc<CallClock>,
        reader: Option<Box<dyn ClusterReader>>,
        inputs: Option<Arc<Inputs>>,
    ) -> Self {
        let account = request_account.map_or_else(
            || Account::new(memory),
            |request_account| Account::child(request_account, memory),
        );
        Self {
            inputs,
            handles: Handles::default(),
            limiter: Limiter::new(account.clone()),
            log: Vec::new(),
            reader,
            meter: Meter::new(clock.clone()),
            clock,
            result_charge: Charge::on(&account),
            result_bytes: Cell::new(0),
            account,
        }
    }

    /// A new handle of the guest for a document.
    pub(super) fn push(
        &mut self,
        import: Import,
        handle: Handle,
    ) -> Result<Resource<Handle>, CallError> {
        let number = self.handles.push(handle).ok_or(CallError::Handles(import))?;
        Ok(Resource::new_own(number))
    }

    pub(super) fn handle(&self, handle: &Resource<Handle>) -> wasmtime::Result<&Handle> {
        let found = self.handles.get(handle.rep());
        found.ok_or_else(|| wasmtime::Error::msg("a handle that is not there"))
    }

    /// Called before the work of an import. The previous result is dropped.
    pub(super) fn begin_import(&self) {
        self.result_bytes.set(0);
        let more = self.result_charge.bytes().saturating_sub(RESERVED_RESULT_BYTES);
        if more > 0 {
            self.result_charge.shrink(more);
        }
    }

    /// Charges memory for a result.
    pub(super) fn charge(&self, import: Import, bytes: usize) -> Result<(), CallError> {
        let wanted = self.result_bytes.get().saturating_add(bytes);
        let more = wanted.saturating_sub(self.result_charge.bytes());
        if more > 0 && !self.result_charge.grow(more) {
            return Err(self.out_of_memory(import));
        }
        self.result_bytes.set(wanted);
        Ok(())
    }

    /// Charges work for a result.
    pub(super) fn spend(&self, units: usize) -> Result<(), CallError> {
        if self.meter.spend(units) { Ok(()) } else { Err(self.clock.interruption_error()) }
    }

    pub(super) fn out_of_memory(&self, import: Import) -> CallError {
        memory_limiter::memory_error(&self.account, Some(import))
    }

    /// Called after each look-up for the guest. Only this function decides whether the result is
    /// complete: no policy may treat missing data as absent.
    pub(super) fn ensure_complete(
        &self,
        import: Import,
        document: &Document,
    ) -> Result<(), CallError> {
        if self.meter.is_stopped() {
            return Err(self.clock.interruption_error());
        }
        if self.account.is_exhausted() {
            return Err(self.out_of_memory(import));
        }
        if document.is_exhausted() {
            return Err(CallError::ServerMemory);
        }
        Ok(())
    }
}
