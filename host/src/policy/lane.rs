//! Where the calls of a policy run, so that none of them slows those of others.
//!
//! Most calls take microseconds, less than handing them to another thread would. They run right
//! where the request is served, with a short deadline. A call that passes it is given up and done
//! again on a thread of its own (which is sound: a policy has no effects and the same input gives
//! the same verdict), with the whole deadline; after a while there it gets only what the threads that
//! serve leave over. If it was long there, too, the policy's calls start there from then on, until
//! they have been short for a while.
//!
//! ```text
//!            permit ──▶ fast lane, 2 ms ──ok──▶ verdict
//!              ▲             │ too long
//!  queue (bounded)           ▼
//!                    slow lane: own thread, SCHED_IDLE, whole deadline ──▶ verdict or fault
//! ```
//!
//! A permit belongs to the running call: when the client goes away, a call in the slow lane is told
//! to stop and keeps its permit until it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::Policy;
use crate::cluster::{Lens, Reader, Unsettled};
use crate::engine::{Apart, Budget, Call, Fault, Inputs, Limits, Time, Work, processor_time, wit};

/// Deadline of a call where requests are served.
const FAST: Duration = Duration::from_millis(2);

/// A call in the slow lane that needs less of the processor could have been in the fast one. (Less
/// of the processor, not of the clock: threads of the slow lane wait for one.)
const SHORT: Duration = Duration::from_micros(500);

/// That many short calls in a row bring a policy back to the fast lane.
const RETURN_AFTER: u32 = 64;

/// Of the processor, in the slow lane, before the call gets only what the threads that serve leave
/// over. Not at once: on a machine without a processor to spare, an ordinary call that was unlucky in
/// the fast lane would starve. A policy that burned its whole time yields at once,
/// until a call of it ends well.
const YIELD_AFTER: Duration = Duration::from_millis(10);

/// Stack of a thread in the slow lane: the guest's, and room for the host.
const THREAD_STACK: usize = 2 << 20;

/// Why a call was not even started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Overload {
    /// Too many wait already.
    #[error("policy {policy}: {waiting} calls are waiting already")]
    QueueFull {
        /// The policy.
        policy: String,
        /// Length of its queue.
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

impl From<Unsettled> for Overload {
    fn from(unsettled: Unsettled) -> Self {
        match unsettled {
            Unsettled::Contention => Self::Contention,
            Unsettled::NoRoom => Self::NoRoom,
            Unsettled::Late => Self::Late,
        }
    }
}

/// How long to wait for a permit: a policy that can never block a request does not delay it either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    None,
    UntilDeadline,
}

/// Permits and lane of one policy.
#[derive(Debug)]
pub struct Lane {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    queue: usize,
    /// Short calls until the policy is back in the fast lane; 0 is there.
    until_fast: AtomicU32,
    /// A call in the slow lane used up its time on the processor, and none has ended well since.
    burns: AtomicBool,
    /// Calls have their whole time where they start: nobody is served beside them.
    is_only: bool,
}

/// One who waits for a permit; counted while it exists, also when the client goes away.
struct Waiting<'l>(&'l AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
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
        Self {
            is_only,
            permits: Arc::new(Semaphore::new(limits.concurrency)),
            waiting: AtomicUsize::new(0),
            queue,
            until_fast: AtomicU32::new(0),
            burns: AtomicBool::new(false),
        }
    }

    /// Whether calls start where requests are served.
    #[must_use]
    pub fn is_fast(&self) -> bool {
        self.until_fast.load(Ordering::Relaxed) == 0
    }

    async fn permit(
        &self,
        policy: &str,
        patience: Patience,
        deadline: Instant,
    ) -> Result<OwnedSemaphorePermit, Overload> {
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Ok(permit);
        }
        if patience == Patience::None {
            return Err(Overload::Busy { policy: policy.to_owned() });
        }
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _counted = Waiting(&self.waiting);
        if waiting >= self.queue {
            return Err(Overload::QueueFull { policy: policy.to_owned(), waiting });
        }
        let started = Instant::now();
        let permit = tokio::time::timeout_at(deadline.into(), self.permits.clone().acquire_owned());
        match permit.await {
            // The semaphore is never closed, so that both mean the same.
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Overload::Timeout { policy: policy.to_owned(), waited: started.elapsed() }),
        }
    }
}

/// Asks a policy for its verdict. `deadline` is that of the whole request: it bounds the wait for a
/// permit and, where it comes before the policy's own, the call.
pub(super) async fn validate(
    policy: &Arc<Policy>,
    inputs: &Arc<Inputs>,
    lens: &Lens,
    deadline: Instant,
) -> Result<Call<wit::Verdict>, Overload> {
    let lane = &policy.lane;
    let patience = if policy.can_block() { Patience::UntilDeadline } else { Patience::None };
    let permit = lane.permit(&policy.name, patience, deadline).await?;
    // Whoever asks must hear of it before they give up themselves.
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Overload::Late);
    }
    let whole = Time::of(policy.limits, left);
    if lane.is_fast() {
        let short = policy.limits.time > FAST && !lane.is_only;
        let time = if short { Time::Try(FAST.min(left)) } else { whole };
        let reader = policy.view.reader(lens.clone());
        let budget = Budget { memory: policy.limits.memory, time, apart: None };
        let call = policy.module.validate(inputs, &policy.settings, reader, budget);
        if !(short && matches!(&call.result, Err(fault) if fault.is_deadline())) {
            return Ok(call);
        }
        // Perhaps the call was long, perhaps its thread just had no processor: the second run tells.
        lane.until_fast.fetch_max(1, Ordering::Relaxed);
        tracing::debug!(policy = policy.name, "a long call; it is run again, apart");
    }
    let reader = policy.view.reader(lens.clone());
    Ok(slow(policy, inputs, reader, permit, whole).await)
}

async fn slow(
    policy: &Arc<Policy>,
    inputs: &Arc<Inputs>,
    reader: Reader,
    permit: OwnedSemaphorePermit,
    time: Time,
) -> Call<wit::Verdict> {
    let (answer, answered) = oneshot::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let stop_on_drop = StopOnDrop(stop.clone());
    let (running, inputs) = (policy.clone(), inputs.clone());
    let spawned = std::thread::Builder::new()
        .name("opgate-slow".into())
        .stack_size(THREAD_STACK)
        .spawn(move || {
            if running.lane.burns.load(Ordering::Relaxed) {
                // Where the system does not allow it, the call runs like any other.
                let _ = opgate_unsafe::run_when_idle();
            }
            let apart = Apart { cancelled: stop, yield_after: YIELD_AFTER };
            let started = processor_time();
            let memory = running.limits.memory;
            let budget = Budget { memory, time, apart: Some(&apart) };
            let call = running.module.validate(&inputs, &running.settings, reader, budget);
            let used = processor_time().saturating_sub(started);
            running.lane.note(used, &call.result, running.limits.time);
            drop(permit);
            let _ = answer.send(call);
        });
    let failed = |why: String| Call {
        result: Err(Fault::Trap(why)),
        log: Vec::new(),
        reader: None,
        work: Work::default(),
    };
    if let Err(error) = spawned {
        return failed(format!("no thread: {error}"));
    }
    let call = answered.await;
    drop(stop_on_drop);
    call.unwrap_or_else(|_| failed("its thread ended without an answer".to_owned()))
}

impl Lane {
    fn note(&self, used: Duration, result: &Result<wit::Verdict, Fault>, time: Duration) {
        let timed_out = result.as_ref().is_err_and(Fault::is_deadline);
        if !timed_out {
            self.burns.store(false, Ordering::Relaxed);
        } else if used > YIELD_AFTER.min(time / 2) {
            self.burns.store(true, Ordering::Relaxed);
        }
        if used > SHORT {
            self.until_fast.store(RETURN_AFTER, Ordering::Relaxed);
        } else {
            let one_less = |left: u32| left.checked_sub(1);
            let _ = self.until_fast.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        }
    }
}
