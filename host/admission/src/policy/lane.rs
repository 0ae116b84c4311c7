//! Where the calls of a policy run, so that none of them slows those of others.
//!
//! Most calls take microseconds, less than handing them to another thread would. They run right
//! where the request is served, with a short deadline. A call that passes it is given up and done
//! again on a thread of its own (which is sound: a policy has no effects and the same input gives
//! the same verdict), with the whole deadline; after a while there it gets only what the threads that
//! serve leave over. If it was long there, too, the calls of that tenant start there from then on, until
//! they have been short for a while; those of others do not.
//!
//! ```text
//!  tenant ─▶ permit (fair.rs) ──▶ fast lane, 2 ms ──ok──▶ verdict
//!              │                       │ too long: a permit for long calls
//!              │ calls were long       ▼
//!              └──────────────▶ slow lane: own thread, SCHED_IDLE, whole deadline ──▶ verdict or fault
//! ```
//!
//! A permit belongs to the running call: when the client goes away, a call in the slow lane is told
//! to stop and keeps its permit until it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opgate_document::Document;
use tokio::sync::oneshot;

use super::Policy;
use super::fair::{DEAR, Fair, Pace, Permit, Refused, Tenant};
use crate::cluster::{Lens, Unsettled};
use crate::review::Review;
use opgate_engine::{Apart, Budget, Call, Fault, Inputs, Limits, Time, processor_time, wit};

/// Deadline of a call where requests are served.
const FAST: Duration = Duration::from_millis(2);

/// A call in the slow lane that needs less of the processor could have been in the fast one, with a
/// quarter to spare. (Less of the processor, not of the clock: threads of the slow lane wait for one.)
/// Were it much less than [`FAST`], calls in between would be sent away by one accident and never return.
const SHORT: Duration = Duration::from_micros(1_500);

/// Of the processor, in the slow lane, before the call gets only what the threads that serve leave
/// over. Not at once: on a machine without a processor to spare, an ordinary call that was unlucky in
/// the fast lane would starve. Calls of a tenant that had as much lately yield at once.
const YIELD_AFTER: Duration = DEAR;

/// Stack of a thread in the slow lane: the guest's, and room for the host.
const THREAD_STACK: usize = 2 << 20;

/// Why a call was not even started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Overload {
    /// Too many wait already.
    #[error("policy {policy}: {waiting} calls are waiting already: try again")]
    QueueFull {
        /// The policy.
        policy: String,
        /// Length of its queue.
        waiting: usize,
    },
    /// Too many of the same tenant wait already.
    #[error(
        "policy {policy}: of the same namespace or user {waiting} calls are waiting already: try again"
    )]
    Share {
        /// The policy.
        policy: String,
        /// How many of them wait.
        waiting: usize,
    },
    /// All permits are taken, and the policy is not worth a wait.
    #[error("policy {policy}: all its calls are taken")]
    Busy {
        /// The policy.
        policy: String,
    },
    /// Others changed the same objects again and again.
    #[error("other requests changed the same objects again and again until the time was up")]
    Contention,
    /// Too much was allowed of which it is not known whether it is stored.
    #[error("too many requests that were allowed are not known to be stored: try again")]
    NoRoom,
    /// The server had no processor or no memory for a call.
    #[error("policy {policy}: {why}")]
    Starved {
        /// The policy.
        policy: String,
        /// What it lacked.
        why: String,
    },
    /// The request has no memory left for its answer.
    #[error("no memory is left for the answer: try again")]
    Memory,
    /// Nobody waits for the answer any more.
    #[error("the time of the request was over before it was decided")]
    Late,
    /// A resource is being listed for the first time.
    #[error("policy {policy}: {resource}: the server has just started, try again")]
    Listing {
        /// The policy.
        policy: String,
        /// What is said about the resource.
        resource: String,
    },
    /// No permit came free in time.
    #[error("policy {policy}: no call ended in the {}ms that were left", .waited.as_millis())]
    Timeout {
        /// The policy.
        policy: String,
        /// How long it waited.
        waited: Duration,
    },
}

impl Overload {
    /// Whether more wait already than may. It is of no use to say so at once.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Share { .. } | Self::QueueFull { .. })
    }
}

impl From<Unsettled> for Overload {
    fn from(unsettled: Unsettled) -> Self {
        match unsettled {
            Unsettled::Contention => Self::Contention,
            Unsettled::NoRoom => Self::NoRoom,
            Unsettled::Late => Self::Late,
        }
    }
}

/// Permits and lane of one policy.
#[derive(Debug)]
pub struct Lane {
    fair: Arc<Fair>,
    /// Calls have their whole time where they start: nobody is served beside them.
    is_only: bool,
}

/// Tells a call to stop when whoever waits for it goes away.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Lane {
    pub(super) fn new(limits: Limits, queue: usize, is_only: bool) -> Self {
        Self { fair: Arc::new(Fair::new(limits.concurrency, queue, is_only)), is_only }
    }

    /// Calls that run on threads of their own.
    #[must_use]
    pub fn apart(&self) -> usize {
        self.fair.running_long()
    }

    async fn permit(
        &self,
        policy: &Policy,
        by: (Tenant, usize),
        pace: Pace,
        deadline: Instant,
    ) -> Result<Permit, Overload> {
        // A policy that can never block a request does not delay it either.
        let patience = policy.is_enforced().then_some(deadline);
        let permit = self.fair.permit(by, pace, patience).await;
        let policy = || policy.name.clone();
        permit.map_err(|refused| match refused {
            Refused::Busy => Overload::Busy { policy: policy() },
            Refused::Full(waiting) => Overload::QueueFull { policy: policy(), waiting },
            Refused::Share(waiting) => Overload::Share { policy: policy(), waiting },
            Refused::Late(waited) => Overload::Timeout { policy: policy(), waited },
        })
    }
}

/// What a policy said, or why it said nothing.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) call: Call<wit::Verdict>,
    /// Why the rules that only warn were left out.
    pub(super) dropped: Option<Fault>,
}

/// Asks a policy for its verdict. `deadline` is that of the whole request: it bounds the wait for a
/// permit and, where it comes before the policy's own, the call.
///
/// A call that fails is done once more without the rules that only warn about such a request: what they
/// look at must not keep anybody from an answer.
pub(super) async fn validate(
    policy: &Arc<Policy>,
    inputs: &Arc<Inputs>,
    lens: &Lens,
    (review, tenant): (&Review<'_>, Tenant),
    deadline: Instant,
) -> Result<Asked, Overload> {
    let lane = &policy.lane;
    let routes = policy.routes(review);
    let pace = if lane.is_only { Pace::Short } else { lane.fair.pace(tenant) };
    let by = (tenant, review.size());
    let mut permit = lane.permit(policy, by, pace, deadline).await?;
    let mut failed = None;
    if pace == Pace::Short {
        let started = Instant::now();
        let left = left(deadline, started)?;
        let short = policy.limits.time > FAST && !lane.is_only;
        let time = if short { Time::Try(FAST.min(left)) } else { Time::of(policy.limits, left) };
        let reader = policy.view.reader(lens.clone());
        let budget = Budget { memory: policy.limits.memory, time, apart: None };
        let call = policy.module.validate(inputs, routes, &policy.settings, reader, budget);
        permit.charge(started.elapsed());
        let is_long = short && call.result.as_ref().is_err_and(Fault::is_deadline);
        if !is_long {
            if lane.is_only || !is_worth_another(&call) || !policy.has_advice_on(review) {
                return Ok(Asked { call, dropped: None });
            }
            failed = Some(call);
        }
        // Perhaps the call was long, perhaps its thread just had no processor: the second run tells.
        tracing::debug!(policy = policy.name, "a call is run again, apart");
        drop(permit);
        permit = lane.permit(policy, by, Pace::Long, deadline).await?;
    }
    let job = Job {
        policy: policy.clone(),
        inputs: inputs.clone(),
        routes,
        lens: lens.clone(),
        has_advice: policy.has_advice_on(review),
        deadline,
    };
    job.run_apart(permit, failed).await
}

/// Whether a call could end better without the rules that only warn.
fn is_worth_another(call: &Call<wit::Verdict>) -> bool {
    // What is being listed is there in a moment, and there is nobody to tell where it was cancelled.
    call.result.as_ref().is_err_and(|fault| {
        !fault.is_overload() && !matches!(fault, Fault::Listing(_) | Fault::Cancelled)
    })
}

/// What is left of a request: whoever asks must hear of it before they give up themselves.
fn left(deadline: Instant, now: Instant) -> Result<Duration, Overload> {
    let left = deadline.saturating_duration_since(now);
    if left.is_zero() { Err(Overload::Late) } else { Ok(left) }
}

/// A call for the slow lane.
struct Job {
    policy: Arc<Policy>,
    inputs: Arc<Inputs>,
    routes: u64,
    lens: Lens,
    /// There are rules that only warn.
    has_advice: bool,
    deadline: Instant,
}

impl Job {
    /// Runs it on a thread of its own; where it has `failed` already, without the rules that only warn.
    async fn run_apart(
        self,
        mut permit: Permit,
        failed: Option<Call<wit::Verdict>>,
    ) -> Result<Asked, Overload> {
        let name = self.policy.name.clone();
        let none =
            |why: String| Overload::Starved { policy: name, why: format!("no thread: {why}") };
        let (answer, answered) = oneshot::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stop_on_drop = StopOnDrop(stop.clone());
        let spawned = std::thread::Builder::new()
            .name("opgate-slow".into())
            .stack_size(THREAD_STACK)
            .spawn(move || {
                if permit.is_dear() {
                    // Where the system does not allow it, the call runs like any other.
                    let _ = opgate_unsafe::run_when_idle();
                }
                let apart = Apart { cancelled: stop, yield_after: YIELD_AFTER };
                let started = processor_time();
                let asked = self.run(&apart, failed);
                let used = processor_time().saturating_sub(started);
                permit.charge(used);
                permit.note(if used > SHORT { Pace::Long } else { Pace::Short });
                drop(permit);
                // Who has the answer may believe that nobody holds anything of the request any more; a
                // thread that yields may take long to its end.
                drop(self);
                let _ = answer.send(asked);
            });
        if let Err(error) = spawned {
            return Err(none(error.to_string()));
        }
        let asked = answered.await;
        drop(stop_on_drop);
        asked.map_err(|_| none("it ended without an answer".to_owned()))?
    }

    fn run(&self, apart: &Apart, failed: Option<Call<wit::Verdict>>) -> Result<Asked, Overload> {
        let policy = &self.policy;
        let failed = match failed {
            Some(failed) => failed,
            None => self.ask(apart, &policy.settings)?,
        };
        if !self.has_advice || !is_worth_another(&failed) {
            return Ok(Asked { call: failed, dropped: None });
        }
        let Ok(mut call) = self.ask(apart, &policy.without_advice) else {
            return Ok(Asked { call: failed, dropped: None });
        };
        call.log.splice(0..0, failed.log);
        let dropped = failed.result.err().filter(|_| call.result.is_ok());
        Ok(Asked { call, dropped })
    }

    fn ask(&self, apart: &Apart, settings: &Arc<Document>) -> Result<Call<wit::Verdict>, Overload> {
        let limits = self.policy.limits;
        let time = Time::of(limits, left(self.deadline, Instant::now())?);
        let budget = Budget { memory: limits.memory, time, apart: Some(apart) };
        let reader = self.policy.view.reader(self.lens.clone());
        Ok(self.policy.module.validate(&self.inputs, self.routes, settings, reader, budget))
    }
}
