//! Ends calls: by CPU time, by wall-clock time, or because their client is gone.
//!
//! ```text
//!             ┌─ epochs, once a millisecond ─ code of the guest
//! CallClock ◀─┤
//!             └─ meter, at intervals of units ─ loops of the host that work for the guest
//! ```
//!
//! The limit of a policy is CPU time: a call that waits for a busy CPU uses none. Wall-clock time
//! has a separate limit, so that a call ends in any case.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use opgate_document::Deadline;
use opgate_platform::process;

use super::call_error::CallError;
use super::limits::Limits;

/// The maximum wall-clock time of a call is this many times its CPU time. The caller can set less.
const WALL_TIME_FACTOR: u32 = 100;

/// The limits of one call.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'c> {
    /// Bytes of memory.
    pub memory: usize,
    /// The time.
    pub time: TimeLimit,
    /// Control of a call on a worker thread.
    pub worker: Option<&'c WorkerControl>,
    /// CPU time that the call shares with others.
    pub shared_time: Option<&'c Arc<SharedCpuTime>>,
}

/// CPU time that calls share: those of all policies that evaluate one review. Calls on several
/// threads use it at the same time, and each of them stops within a tick when it is used up. An
/// attempt ([`TimeLimit::Attempt`]) does not count.
#[derive(Debug)]
pub struct SharedCpuTime {
    limit: Duration,
    /// In nanoseconds.
    used: AtomicU64,
}

impl SharedCpuTime {
    /// Creates a limit of this much CPU time.
    #[must_use]
    pub fn new(limit: Duration) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0) })
    }

    /// Charges CPU time that was used.
    pub fn charge(&self, used: Duration) {
        let used = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
        self.used.fetch_add(used, Ordering::Relaxed);
    }

    /// CPU time that was used.
    #[must_use]
    pub fn used(&self) -> Duration {
        Duration::from_nanos(self.used.load(Ordering::Relaxed))
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.used() >= self.limit
    }
}

/// The time limit of a call.
#[derive(Debug, Clone, Copy)]
pub enum TimeLimit {
    /// An attempt that ends after this time for any reason. It does not read the CPU time.
    Attempt(Duration),
    /// Limits of CPU time and of wall-clock time.
    Full {
        /// CPU time.
        cpu_time: Duration,
        /// Wall-clock time.
        wall_time: Duration,
    },
}

impl TimeLimit {
    /// The limits of a policy, with at most `left` of wall-clock time.
    #[must_use]
    pub fn of(limits: Limits, remaining: Duration) -> Self {
        Self::Full {
            cpu_time: limits.cpu_time,
            wall_time: limits.cpu_time.saturating_mul(WALL_TIME_FACTOR).min(remaining),
        }
    }
}

/// Control of a call on a worker thread: the call can be stopped, and the thread can yield.
#[derive(Debug, Clone)]
pub struct WorkerControl {
    /// Set when no client waits for the response any more. It is read at each tick.
    pub cancelled: Arc<AtomicBool>,
    /// CPU time after which the thread only gets the CPU time that others leave.
    pub yield_after: Duration,
}

impl Budget<'_> {
    /// The limits of a policy.
    #[must_use]
    pub fn of(limits: Limits) -> Self {
        Self {
            memory: limits.memory,
            time: TimeLimit::of(limits, Duration::MAX),
            worker: None,
            shared_time: None,
        }
    }
}

/// CPU time of this thread. A system that does not tell it has limits of wall-clock time instead.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
    process::thread_cpu_time()
        .or_else(opgate_system::thread_cpu_time)
        .unwrap_or_else(|| STARTED.elapsed())
}

/// The clock of one call. A call runs on one thread from start to end.
#[derive(Debug)]
pub(super) struct CallClock {
    time: TimeLimit,
    /// CPU time of the thread when the call started.
    started: Duration,
    deadline: Instant,
    cancelled: Option<Arc<AtomicBool>>,
    shared_time: Option<Arc<SharedCpuTime>>,
    /// Nanoseconds of the call that the shared time knows of.
    charged: AtomicU64,
}

impl CallClock {
    pub(super) fn start(budget: Budget<'_>) -> Self {
        let (wall_time, started) = match budget.time {
            TimeLimit::Attempt(wall_time) => (wall_time, Duration::ZERO),
            TimeLimit::Full { wall_time, .. } => (wall_time, thread_cpu_time()),
        };
        let now = Instant::now();
        // An unlimited wall-clock time is a day.
        let deadline = now.checked_add(wall_time).unwrap_or(now + Duration::from_secs(86_400));
        let cancelled = budget.worker.map(|worker| worker.cancelled.clone());
        let (shared, charged) = (budget.shared_time.cloned(), AtomicU64::new(0));
        Self { time: budget.time, started, deadline, cancelled, shared_time: shared, charged }
    }

    /// Charges the time of the call to the time that it shares with others. Call it once more at
    /// the end.
    pub(super) fn charge_shared_time(&self) {
        // Attempts do not read the CPU time, and are short. Their wall-clock time would also
        // charge the wait for a CPU.
        if self.shared_time.is_some() && matches!(self.time, TimeLimit::Full { .. }) {
            self.charge_up_to(self.used());
        }
    }

    fn charge_up_to(&self, used: Duration) {
        let Some(shared) = &self.shared_time else { return };
        let used = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
        let before = self.charged.swap(used, Ordering::Relaxed);
        shared.charge(Duration::from_nanos(used.saturating_sub(before)));
    }

    /// CPU time of the call.
    pub(super) fn used(&self) -> Duration {
        thread_cpu_time().saturating_sub(self.started)
    }

    /// The reason why the call is over, if it is.
    pub(super) fn end_reason(&self) -> Option<CallError> {
        if self.cancelled.as_ref().is_some_and(|cancelled| cancelled.load(Ordering::Relaxed)) {
            return Some(CallError::Cancelled);
        }
        let own_reason = match self.time {
            TimeLimit::Attempt(time) => {
                (Instant::now() >= self.deadline).then_some(CallError::CpuTime(time))
            }
            TimeLimit::Full { cpu_time, wall_time } => {
                let used = self.used();
                self.charge_up_to(used);
                if used >= cpu_time {
                    Some(CallError::CpuTime(cpu_time))
                } else {
                    (Instant::now() >= self.deadline).then_some(CallError::WallTime(wall_time))
                }
            }
        };
        let shared = || self.shared_time.as_ref().filter(|shared| shared.is_exhausted());
        own_reason.or_else(|| shared().map(|shared| CallError::SharedCpuTime(shared.limit)))
    }

    /// The policy error of a call that was interrupted.
    pub(super) fn interruption_error(&self) -> CallError {
        self.end_reason().unwrap_or(match self.time {
            TimeLimit::Attempt(time) | TimeLimit::Full { cpu_time: time, .. } => {
                CallError::CpuTime(time)
            }
        })
    }
}

impl Deadline for CallClock {
    fn is_expired(&self) -> bool {
        self.end_reason().is_some()
    }
}
