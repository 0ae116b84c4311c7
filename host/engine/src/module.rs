//! A loaded policy, and the calls of its exports `describe`, `validate-settings` and `validate`.
//!
//! ```text
//! Module::validate ─▶ call ─▶ run: one instance ─▶ call_validate ─▶ verdict or policy error
//!                              ├─ State: limiter, account, meter, handles, reader
//!                              └─ set_deadline: time
//! ```
//!
//! An attempt ends after a number of epochs. For every other call, the epoch callback of
//! `set_deadline` reads the [`CallClock`], and ends the call at a limit. If too many bytes were
//! copied, `call` repeats the run to find the import that got them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opgate_document::{Account, Document};
use wasmtime::component::{ComponentExportIndex, Resource};
use wasmtime::{Store, UpdateDeadline};

use super::bindings::{ClusterPolicyPre, Severity, types as wit};
use super::call_clock::{Budget, CallClock, TimeLimit};
use super::call_error::CallError;
use super::document_handle::{Handle, RequestHandle};
use super::epoch_ticker::TICK_INTERVAL;
use super::inputs::Inputs;
use super::reader::ClusterReader;
use super::state::State;
use super::trap::to_call_error;
use super::{Engine, imports, limits};

/// A policy's code, ready to be instantiated. Clones share it.
#[derive(Clone)]
pub struct Module(pub(super) Arc<Code>);

/// The code that the clones of a [`Module`] share.
pub(super) struct Code {
    pub(super) engine: Arc<Engine>,
    pub(super) pre: ClusterPolicyPre<State>,
    /// The one export that is called for each request.
    pub(super) validate: ComponentExportIndex,
    pub(super) digest: String,
}

/// Parameters and result of the export `validate`, see `wit/policy.wit`.
type ValidateParams = (
    wit::Operation,
    u64,
    Resource<RequestHandle>,
    Option<Resource<Handle>>,
    Option<Resource<Handle>>,
    Resource<Handle>,
);
type ValidateResults = (wit::Verdict,);

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module").field("digest", &self.0.digest).finish_non_exhaustive()
    }
}

/// Level and text of a line that a policy logged.
pub type LogLine = (tracing::Level, String);

/// The account that the memory of a call is charged to.
fn account_of(inputs: &Inputs) -> Option<&Arc<Account>> {
    let mut documents = [&inputs.object, &inputs.old_object].into_iter().flatten();
    documents.find_map(|document| document.account())
}

/// Result of a call, and the lines that the guest logged.
#[derive(Debug)]
pub struct CallResult<T> {
    /// The verdict, or the reason why there is none.
    pub result: Result<T, CallError>,
    /// Lines for the log.
    pub log: Vec<LogLine>,
    /// The reader that handled the queries of the call.
    pub reader: Option<Box<dyn ClusterReader>>,
    /// The work of the host for the call.
    pub work: HostWork,
}

/// The work of the host for a guest.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostWork {
    /// Units of the meter, see [`opgate_document::Meter`].
    pub units: u64,
    /// Bytes that are charged when the call ends, including those of the guest's memory.
    pub memory: usize,
}

/// What a call uses.
struct CallResources<'a> {
    budget: Budget<'a>,
    /// The memory of the request that it belongs to.
    account: Option<&'a Arc<Account>>,
    /// Answers queries of the cluster.
    reader: Option<Box<dyn ClusterReader>>,
    inputs: Option<&'a Arc<Inputs>>,
}

impl<'a> CallResources<'a> {
    /// Those of a call outside of requests.
    fn of(budget: Budget<'a>) -> Self {
        Self { budget, account: None, reader: None, inputs: None }
    }
}

impl Module {
    /// `sha256:…` of the component.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    /// Calls `describe`.
    #[must_use]
    pub fn describe(&self, budget: Budget<'_>) -> CallResult<wit::Descriptor> {
        self.call(CallResources::of(budget), |store| {
            self.0.pre.instantiate(&mut *store)?.call_describe(store)
        })
    }

    /// Calls `validate-settings` for settings that fit the schema.
    #[must_use]
    pub fn validate_settings(
        &self,
        settings: &Arc<Document>,
        budget: Budget<'_>,
    ) -> CallResult<Result<(), Vec<wit::SettingsError>>> {
        self.call(CallResources::of(budget), |store| {
            let settings = lend_document(store, settings)?;
            self.0.pre.instantiate(&mut *store)?.call_validate_settings(store, settings)
        })
    }

    /// Calls `validate`. `reader` handles queries of the cluster; `routes` are the match rules
    /// that match, by number.
    #[must_use]
    pub fn validate(
        &self,
        inputs: &Arc<Inputs>,
        routes: u64,
        settings: &Arc<Document>,
        reader: impl ClusterReader,
        budget: Budget<'_>,
    ) -> CallResult<wit::Verdict> {
        let call = |store: &mut Store<State>| self.call_validate(store, inputs, routes, settings);
        let resources = CallResources {
            budget,
            account: account_of(inputs),
            reader: Some(Box::new(reader)),
            inputs: Some(inputs),
        };
        self.call(resources, call)
    }

    /// [`Module::validate`], and how many imports it calls. The count takes time.
    #[must_use]
    pub fn count_host_calls(
        &self,
        inputs: &Arc<Inputs>,
        routes: u64,
        settings: &Arc<Document>,
        reader: impl ClusterReader,
        budget: Budget<'_>,
    ) -> u64 {
        let calls = Arc::new(AtomicU64::new(0));
        let clock = Arc::new(CallClock::start(budget));
        let bound = |store: &mut Store<State>| imports::count_calls(store, calls.clone());
        let resources = CallResources {
            budget,
            account: account_of(inputs),
            reader: Some(Box::new(reader)),
            inputs: Some(inputs),
        };
        let ask = |store: &mut Store<State>| self.call_validate(store, inputs, routes, settings);
        let _ = self.run(resources, &clock, bound, ask);
        calls.load(Ordering::Relaxed)
    }

    fn call_validate(
        &self,
        store: &mut Store<State>,
        inputs: &Inputs,
        routes: u64,
        settings: &Arc<Document>,
    ) -> wasmtime::Result<wit::Verdict> {
        // Only the export that is called is looked up and its type compared: the three of the generated
        // code cost 0.3 µs more.
        let instance = self.0.pre.instance_pre().instantiate(&mut *store)?;
        let export = instance
            .get_typed_func::<ValidateParams, ValidateResults>(&mut *store, &self.0.validate)?;
        let object = inputs.object.as_ref().map(|o| lend_document(store, o)).transpose()?;
        let old = inputs.old_object.as_ref().map(|o| lend_document(store, o)).transpose()?;
        let settings = lend_document(store, settings)?;
        let request = Resource::<RequestHandle>::new_borrow(0);
        let asks = (inputs.operation, routes, request, object, old, settings);
        let (verdict,) = export.call(store, asks)?;
        Ok(verdict)
    }

    fn call<T>(
        &self,
        resources: CallResources<'_>,
        call: impl Fn(&mut Store<State>) -> wasmtime::Result<T>,
    ) -> CallResult<T> {
        let CallResources { budget, account, inputs, .. } = resources;
        let clock = Arc::new(CallClock::start(budget));
        let bound = |store: &mut Store<State>| store.set_hostcall_fuel(limits::MAX_HOSTCALL_BYTES);
        let mut done = self.run(resources, &clock, bound, &call);
        if matches!(done.result, Err(CallError::ResultTooLarge(_))) {
            // An import got too much data, or the verdict is too large. A second call, with hooks
            // and in the remaining time, determines which. Hooks in every call would make it 3 %
            // longer.
            let resources = CallResources { budget, account, reader: done.reader, inputs };
            done = self.run(resources, &clock, imports::limit_copied_bytes, &call);
        }
        clock.charge_shared_time();
        done
    }

    fn run<T>(
        &self,
        resources: CallResources<'_>,
        clock: &Arc<CallClock>,
        bound: impl FnOnce(&mut Store<State>),
        call: impl FnOnce(&mut Store<State>) -> wasmtime::Result<T>,
    ) -> CallResult<T> {
        let CallResources { budget, account, reader, inputs } = resources;
        let state = State::new(budget.memory, account, clock.clone(), reader, inputs.cloned());
        let mut store = Store::new(&self.0.engine.engine, state);
        store.limiter(|state| &mut state.limiter);
        // One more handle, for the request.
        store.set_max_component_handles(limits::MAX_HANDLES + 1);
        bound(&mut store);
        Self::set_deadline(&mut store, budget, clock);
        let running = self.0.engine.ticker.mark_running();
        let answer = call(&mut store);
        drop(running);
        let State { limiter, log, reader, meter, account, .. } = store.into_data();
        let work = HostWork { units: meter.spent(), memory: account.used() };
        let result = answer.map_err(|error| {
            // The panic hook of the SDK writes the text immediately before the trap.
            let last_words = log.last().filter(|(severity, _)| *severity == Severity::Error);
            let panic = last_words.map(|(_, text)| text.clone());
            to_call_error(&error, &limiter, clock, panic)
        });
        let log = log.into_iter().map(|(severity, text)| (tracing_level(severity), text)).collect();
        CallResult { result, log, reader, work }
    }

    fn set_deadline(store: &mut Store<State>, budget: Budget<'_>, clock: &Arc<CallClock>) {
        if let TimeLimit::Attempt(time) = budget.time {
            // The first tick can come at once. One more guarantees at least the promised time.
            let ticks = time.as_millis().div_ceil(TICK_INTERVAL.as_millis()).saturating_add(1);
            store.set_epoch_deadline(u64::try_from(ticks).unwrap_or(u64::MAX));
            return;
        }
        // By the clock, not by counting: ticks while the thread waits for a CPU do not count as
        // time of the call.
        let clock = clock.clone();
        let yield_after = budget.worker.map(|apart| apart.yield_after);
        let mut yields = false;
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |_| {
            if !yields && yield_after.is_some_and(|most| clock.used() > most) {
                // If the system does not allow it, the thread runs with normal priority.
                let _ = opgate_system::set_idle_priority();
                yields = true;
            }
            if clock.end_reason().is_some() {
                return Ok(UpdateDeadline::Interrupt);
            }
            Ok(UpdateDeadline::Continue(1))
        });
    }
}

fn lend_document(
    store: &mut Store<State>,
    document: &Arc<Document>,
) -> wasmtime::Result<Resource<Handle>> {
    let owned = store.data_mut().handles.push(Handle::of_document(document.clone()));
    owned.map(Resource::new_borrow).ok_or_else(|| wasmtime::Error::msg("no handle is left"))
}

fn tracing_level(severity: Severity) -> tracing::Level {
    match severity {
        Severity::Debug => tracing::Level::DEBUG,
        Severity::Info => tracing::Level::INFO,
        Severity::Warn => tracing::Level::WARN,
        Severity::Error => tracing::Level::ERROR,
    }
}
