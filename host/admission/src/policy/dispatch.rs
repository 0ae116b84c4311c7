//! Chooses the thread on which a call of a policy runs, so that no call slows down the others.
//!
//! Most calls take microseconds, less than the transfer to another thread would. They run on the
//! fast path: on the thread that serves the request, with a short deadline. A call that exceeds it
//! is stopped and repeated on the slow path: on a worker thread, with the whole deadline. This is
//! correct because a policy has no effects, and equal input gives the same verdict. After some
//! time there, the call only gets the CPU time that the serving threads leave (`SCHED_IDLE`). If
//! the call was long there, too, further calls of that tenant start there until they have been
//! short for some time. Calls of other tenants do not, unless calls are long for most of them (`call_history.rs`).
//!
//! ```text
//!  tenant ─▶ permit (permits) ─▶ fast path, 2 ms ──ok──▶ verdict
//!              │                       │ too long: a permit for long calls
//!              │ calls were long       ▼
//!              └──────────────▶ slow path: worker thread, whole deadline ──▶ verdict or policy error
//! ```
//!
//! All calls of one evaluation of a review share CPU time (`review_time.rs`). If that is used up,
//! a call ends, whatever its limit.
//!
//! A permit belongs to the running call: when the client disconnects, a call on the slow path gets
//! a signal to stop, and keeps its permit until it has stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opgate_document::Document;
use tokio::sync::oneshot;

use super::Policy;
use super::call_history::CallHistory;
use super::permits::{
    CallClass, EXPENSIVE_CPU_TIME, FairPermits, Permit, PermitError, QueuedCall, Tenant,
};
use super::worker_pool::WorkerPool;
use crate::cluster::EvaluationView;
use crate::review::Review;
use crate::step::{Step, StepTimer};
use opgate_engine::{
    Budget, CallError, CallResult, Engine, HostWork, Inputs, InstanceQuota, Limits, SharedCpuTime,
    TimeLimit, WorkerControl, thread_cpu_time, wit,
};

/// Deadline of a call on the thread that serves the request.
pub(super) const FAST_PATH_TIMEOUT: Duration = Duration::from_millis(2);

/// Wall-clock time limit of a call there that is stopped by its CPU time. Its thread may wait for
/// a CPU.
const FAST_PATH_WALL_TIMEOUT: Duration = Duration::from_millis(20);

/// A call on the slow path that needs less CPU time could have run on the fast path, with a
/// quarter to spare. This is CPU time, not wall-clock time, because worker threads wait for a CPU.
/// If it were much less than [`FAST_PATH_TIMEOUT`], one exception would move calls in between to the slow path,
/// and they would never return.
const SHORT_CALL_CPU_TIME: Duration = Duration::from_micros(1_500);

/// CPU time of a call on the slow path before it only gets the CPU time that the serving threads
/// leave. Not at once: on a machine without CPU time to spare, an ordinary call that was unlucky
/// on the fast path would starve. Calls of a tenant that recently used this much yield at once.
const YIELD_AFTER: Duration = EXPENSIVE_CPU_TIME;

/// The worker threads of the process, for all policies.
static WORKERS: WorkerPool = WorkerPool::new();

/// The reason why a call did not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Overload {
    /// The queue is full.
    #[error("policy {policy}: {waiting} calls are waiting already: try again")]
    QueueFull {
        /// The policy.
        policy: String,
        /// Length of its queue.
        waiting: usize,
    },
    /// The share of the tenant in the queue is full.
    #[error(
        "policy {policy}: queue share of this namespace or user is full ({waiting} calls): try again"
    )]
    Share {
        /// The policy.
        policy: String,
        /// The number of its waiting calls.
        waiting: usize,
    },
    /// All permits are in use, and a policy that cannot block does not wait.
    #[error("policy {policy}: all permits are in use")]
    Busy {
        /// The policy.
        policy: String,
    },
    /// Other requests changed the same objects repeatedly.
    #[error("conflicting requests kept changing the same objects until the deadline: try again")]
    Contention,
    /// Too many allowed changes are not known to be stored.
    #[error("reservation limit reached: {why}; try again")]
    ReservationLimit {
        /// The tenant and the limit.
        why: String,
    },
    /// The server had no CPU time or no memory for a call.
    #[error("policy {policy}: {why}")]
    Starved {
        /// The policy.
        policy: String,
        /// The missing resource.
        why: String,
    },
    /// The request has no memory left for its response.
    #[error("no memory is left for the response: try again")]
    Memory,
    /// No client waits for the response any more.
    #[error("the time of the request was over before it was decided")]
    Late,
    /// A resource is being listed for the first time.
    #[error("policy {policy}: {resource}: the server has just started, try again")]
    Listing {
        /// The policy.
        policy: String,
        /// The description of the resource.
        resource: String,
    },
    /// The review was evaluated several times, which used more CPU time than one review may use.
    #[error(
        "evaluated {evaluations} times because objects that it depends on changed, and exceeded the CPU time limit of {}ms: try again",
        .limit.as_millis()
    )]
    Repeated {
        /// The number of evaluations.
        evaluations: u32,
        /// The CPU time for all of them.
        limit: Duration,
    },
    /// No permit became free in time.
    #[error("policy {policy}: no call ended in the {}ms that were left", .waited.as_millis())]
    Timeout {
        /// The policy.
        policy: String,
        /// The time that it waited.
        waited: Duration,
    },
}

impl Overload {
    /// Whether too many calls are queued. An immediate retry would not help.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Share { .. } | Self::QueueFull { .. })
    }
}

/// Permits and dispatch of one policy.
#[derive(Debug)]
pub struct Dispatcher {
    permits: Arc<FairPermits>,
    history: Arc<CallHistory>,
    /// Whether calls have their whole time where they start, because the process serves no other
    /// requests.
    is_only: bool,
    limits: (usize, usize),
    /// The instances of its calls.
    quota: Arc<InstanceQuota>,
}

/// The engine has not enough instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InstancePoolFull;

/// Stops a call when its client is gone.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Dispatcher {
    /// Creates the dispatch of calls in this engine. `other` is that of the same policy in the set
    /// that is to be replaced. If the limits are equal, both share permits and queue: together
    /// they make no more calls at a time, and waiting calls keep their position.
    ///
    /// # Errors
    /// If the engine has not enough instances.
    pub(super) fn new(
        engine: &Arc<Engine>,
        limits: Limits,
        queue: usize,
        is_only: bool,
        other: Option<&Self>,
    ) -> Result<Self, InstancePoolFull> {
        let size = (limits.concurrency, queue);
        let other = other.filter(|other| other.is_reusable_for(limits, queue, is_only));
        let history = other.map(|other| other.history.clone()).unwrap_or_default();
        let permits = other.map(|other| other.permits.clone());
        let permits = permits
            .unwrap_or_else(|| Arc::new(FairPermits::new(limits.concurrency, queue, is_only)));
        let quota = other.filter(|other| other.quota.is_of_engine(engine)).map(|o| o.quota.clone());
        let taken = || InstanceQuota::reserve(engine, limits.concurrency).map(Arc::new);
        let quota = quota.or_else(taken).ok_or(InstancePoolFull)?;
        Ok(Self { permits, history, is_only, limits: size, quota })
    }

    /// Whether it suits a policy with these limits.
    pub(super) fn is_reusable_for(&self, limits: Limits, queue: usize, is_only: bool) -> bool {
        self.limits == (limits.concurrency, queue) && self.is_only == is_only
    }

    /// Calls that run on worker threads.
    #[must_use]
    pub fn worker_calls(&self) -> usize {
        self.permits.running_long()
    }

    /// Calls that ran twice, because they took longer than the fast path allows.
    #[must_use]
    pub fn repeated_calls(&self) -> u64 {
        self.history.repeated_calls()
    }

    /// Whether a server calls the policy, which has other requests as well.
    pub(super) fn is_serving(&self) -> bool {
        !self.is_only
    }

    /// The expected duration of a tenant's next call.
    fn expected_class(&self, routes: u64, tenant: Tenant) -> CallClass {
        if self.is_only {
            return CallClass::Short;
        }
        match self.history.expected_class(routes) {
            CallClass::Long => CallClass::Long,
            CallClass::Short => self.permits.expected_class(tenant),
        }
    }

    async fn acquire_permit(
        &self,
        policy: &Policy,
        call: QueuedCall,
        deadline: Instant,
        step: StepTimer<'_>,
    ) -> Result<Permit, Overload> {
        // A policy that can never block a request does not delay it either.
        let patience = policy.is_enforced().then_some(deadline);
        let wait = step.start_part();
        let permit = self.permits.acquire(call, patience).await;
        wait.end(Step::PermitWait { is_acquired: permit.is_ok() });
        let policy = || policy.name.clone();
        permit.map_err(|refused| match refused {
            PermitError::Busy => Overload::Busy { policy: policy() },
            PermitError::Full(waiting) => Overload::QueueFull { policy: policy(), waiting },
            PermitError::Share(waiting) => Overload::Share { policy: policy(), waiting },
            PermitError::Late(waited) => Overload::Timeout { policy: policy(), waited },
        })
    }
}

/// The verdict of a policy, or the reason why there is none.
#[derive(Debug)]
pub(crate) struct CallOutcome {
    pub(crate) call: CallResult<wit::Verdict>,
    /// The policy error because of which the advisory rules were dropped.
    pub(crate) dropped_error: Option<CallError>,
}

/// What a call takes from the evaluation that it belongs to.
#[derive(Clone, Copy)]
pub(crate) struct CallContext<'a> {
    pub(crate) review: &'a Review<'a>,
    pub(crate) tenant: Tenant,
    /// The CPU time that all calls of the evaluation share.
    pub(crate) shared_time: Option<&'a Arc<SharedCpuTime>>,
    /// The deadline of the whole request. It limits the wait for a permit and, if it is earlier than the
    /// deadline of the policy, the call.
    pub(crate) deadline: Instant,
    /// The step of the call in the trace of the request.
    pub(crate) step: StepTimer<'a>,
}

/// Gets the verdict of a policy.
///
/// A call that exceeds a limit while it makes fixes is repeated without them: they must not prevent a verdict.
/// If that call ends in a policy error, too, the outcome of the first one counts. A server wants no fixes.
pub(crate) async fn call(
    policy: &Arc<Policy>,
    inputs: &Arc<Inputs>,
    evaluation_view: &EvaluationView,
    context: CallContext<'_>,
) -> Result<CallOutcome, Overload> {
    let outcome = call_with_fixes(policy, inputs, evaluation_view, context).await?;
    let error = outcome.call.result.as_ref().err().or(outcome.dropped_error.as_ref());
    let Some(error) = error.filter(|error| error.is_limit_exceeded()) else { return Ok(outcome) };
    let Some(inputs) = inputs.without_fixes() else { return Ok(outcome) };
    tracing::info!(policy = policy.name, cause = %error, "call repeated without fixes");
    // Both share the time of the evaluation: little of it can be left.
    match call_with_fixes(policy, &Arc::new(inputs), evaluation_view, context).await {
        Ok(repeated) if repeated.call.result.is_ok() => Ok(repeated),
        _ => Ok(outcome),
    }
}

/// Gets the verdict of a policy, with fixes if the input wants them.
///
/// A call that fails is repeated without the rules that are advisory for such a request: they must
/// not prevent a verdict.
async fn call_with_fixes(
    policy: &Arc<Policy>,
    inputs: &Arc<Inputs>,
    evaluation_view: &EvaluationView,
    context: CallContext<'_>,
) -> Result<CallOutcome, Overload> {
    let CallContext { review, tenant, shared_time: shared, deadline, step } = context;
    let dispatcher = &policy.dispatcher;
    let routes = policy.routes(review);
    let call_class = dispatcher.expected_class(routes, tenant);
    let queued = QueuedCall { tenant, review_bytes: review.size(), class: call_class };
    let mut permit = dispatcher.acquire_permit(policy, queued, deadline, step).await?;
    let mut failed = None;
    if call_class == CallClass::Short {
        let started = Instant::now();
        let left = remaining_time(deadline, started)?;
        let short = policy.limits.cpu_time > FAST_PATH_TIMEOUT && !dispatcher.is_only;
        let patient = short && dispatcher.history.take_patient_call();
        let time = match (short, patient) {
            (true, true) => TimeLimit::Full {
                cpu_time: FAST_PATH_TIMEOUT,
                wall_time: FAST_PATH_WALL_TIMEOUT.min(left),
            },
            (true, false) => TimeLimit::Attempt(FAST_PATH_TIMEOUT.min(left)),
            _ => TimeLimit::of(policy.limits, left),
        };
        let reader = policy.view.reader(evaluation_view.clone()).for_policy(&policy.name);
        let budget =
            Budget { memory: policy.limits.memory, time, worker: None, shared_time: shared };
        let call = policy.module.validate(inputs, routes, &policy.settings, reader, budget);
        permit.charge(started.elapsed());
        let is_over =
            |fault: &CallError| fault.is_cpu_timeout() || matches!(fault, CallError::WallTime(_));
        let is_long = short && call.result.as_ref().is_err_and(is_over);
        if !is_long {
            if short {
                dispatcher.history.record(routes, tenant, CallClass::Short);
            }
            if dispatcher.is_only
                || !can_retry_without_advisory(&call)
                || !policy.has_advisory_rules_for(review)
            {
                return Ok(CallOutcome { call, dropped_error: None });
            }
            failed = Some(call);
        }
        if let Some(over) = shared.filter(|shared| shared.is_exhausted()) {
            return Ok(CallOutcome { call: out_of_time_call(over), dropped_error: None });
        }
        // Either the call was long or its thread got no CPU time. The second run shows which.
        tracing::debug!(policy = policy.name, "call moved to a worker thread");
        if is_long {
            dispatcher.history.record_repeat();
        }
        drop(permit);
        let queued = QueuedCall { class: CallClass::Long, ..queued };
        permit = dispatcher.acquire_permit(policy, queued, deadline, step).await?;
    }
    let job = WorkerCall {
        policy: policy.clone(),
        inputs: inputs.clone(),
        routes,
        evaluation_view: evaluation_view.clone(),
        tenant,
        was_stopped: call_class == CallClass::Short && failed.is_none(),
        has_advisory_rules: policy.has_advisory_rules_for(review),
        shared: shared.cloned(),
        deadline,
    };
    job.run_on_worker(permit, failed).await
}

/// A call that does not begin, because the others have used the time that they share.
fn out_of_time_call(shared: &SharedCpuTime) -> CallResult<wit::Verdict> {
    let result = Err(CallError::SharedCpuTime(shared.limit()));
    CallResult { result, log: Vec::new(), reader: None, work: HostWork::default() }
}

/// Whether a call could succeed without the advisory rules.
fn can_retry_without_advisory(call: &CallResult<wit::Verdict>) -> bool {
    // A resource that is being listed is available in a moment, and a cancelled call has no
    // client.
    call.result.as_ref().is_err_and(|fault| {
        !fault.is_overload()
            && !matches!(
                fault,
                CallError::Listing(_)
                    | CallError::SampleNeeded(_)
                    | CallError::Cancelled
                    | CallError::SharedCpuTime(_)
            )
    })
}

/// The remaining time of a request. The client must get the response before its timeout.
fn remaining_time(deadline: Instant, now: Instant) -> Result<Duration, Overload> {
    let left = deadline.saturating_duration_since(now);
    if left.is_zero() { Err(Overload::Late) } else { Ok(left) }
}

/// A call for the slow path.
struct WorkerCall {
    policy: Arc<Policy>,
    inputs: Arc<Inputs>,
    routes: u64,
    evaluation_view: EvaluationView,
    tenant: Tenant,
    /// Whether it was stopped on the fast path.
    was_stopped: bool,
    /// Whether there are advisory rules.
    has_advisory_rules: bool,
    /// The CPU time of the evaluation.
    shared: Option<Arc<SharedCpuTime>>,
    deadline: Instant,
}

impl WorkerCall {
    /// Runs it on a worker thread; if it has `failed` already, without the advisory rules.
    async fn run_on_worker(
        self,
        mut permit: Permit,
        failed: Option<CallResult<wit::Verdict>>,
    ) -> Result<CallOutcome, Overload> {
        let name = self.policy.name.clone();
        let none =
            |why: String| Overload::Starved { policy: name, why: format!("no thread: {why}") };
        let (answer, answered) = oneshot::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stop_on_drop = StopOnDrop(stop.clone());
        let started = WORKERS.run(move || {
            if permit.is_expensive() {
                // If the system does not allow it, the thread runs with normal priority.
                let _ = opgate_system::set_idle_priority();
            }
            let apart = WorkerControl { cancelled: stop, yield_after: YIELD_AFTER };
            let started = thread_cpu_time();
            let asked = self.run(&apart, failed);
            let used = thread_cpu_time().saturating_sub(started);
            permit.charge(used);
            let call_class =
                if used > SHORT_CALL_CPU_TIME { CallClass::Long } else { CallClass::Short };
            permit.record_class(call_class);
            self.record_class(call_class);
            drop(permit);
            // When the caller has the verdict, nothing may hold a part of the request any
            // more. A thread that yields can take long to end.
            drop(self);
            let _ = answer.send(asked);
        });
        if let Err(error) = started {
            return Err(none(error.to_string()));
        }
        let asked = answered.await;
        drop(stop_on_drop);
        asked.map_err(|_| none("it ended without an answer".to_owned()))?
    }

    fn record_class(&self, call_class: CallClass) {
        let history = &self.policy.dispatcher.history;
        history.record(self.routes, self.tenant, call_class);
        if self.was_stopped && call_class == CallClass::Short {
            history.record_cpu_wait();
        }
    }

    fn run(
        &self,
        apart: &WorkerControl,
        failed: Option<CallResult<wit::Verdict>>,
    ) -> Result<CallOutcome, Overload> {
        let policy = &self.policy;
        let whole = policy.limits.cpu_time;
        let mut left = whole;
        let failed = if let Some(failed) = failed {
            failed
        } else {
            // Half of the time is for a call without the advisory rules: they must not use the
            // time of the rules that deny, and both calls together keep the policy's limit.
            let first = if self.has_advisory_rules { whole / 2 } else { whole };
            let started = thread_cpu_time();
            let call = self.call_policy(apart, &policy.settings, first)?;
            left = whole.saturating_sub(thread_cpu_time().saturating_sub(started));
            call
        };
        if !self.has_advisory_rules || !can_retry_without_advisory(&failed) {
            return Ok(CallOutcome { call: failed, dropped_error: None });
        }
        let Ok(mut call) = self.call_policy(apart, &policy.settings_without_advisory, left) else {
            return Ok(CallOutcome { call: failed, dropped_error: None });
        };
        if let Err(CallError::CpuTime(time)) = &mut call.result {
            // With the first call.
            *time = whole;
        }
        call.log.splice(0..0, failed.log);
        let dropped = failed.result.err().filter(|_| call.result.is_ok());
        Ok(CallOutcome { call, dropped_error: dropped })
    }

    fn call_policy(
        &self,
        apart: &WorkerControl,
        settings: &Arc<Document>,
        time: Duration,
    ) -> Result<CallResult<wit::Verdict>, Overload> {
        let limits = Limits { cpu_time: time, ..self.policy.limits };
        let time = TimeLimit::of(limits, remaining_time(self.deadline, Instant::now())?);
        let (apart, shared) = (Some(apart), self.shared.as_ref());
        let budget = Budget { memory: limits.memory, time, worker: apart, shared_time: shared };
        let reader = self.policy.view.reader(self.evaluation_view.clone());
        let reader = reader.for_policy(&self.policy.name);
        Ok(self.policy.module.validate(&self.inputs, self.routes, settings, reader, budget))
    }
}
