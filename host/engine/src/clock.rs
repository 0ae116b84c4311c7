//! Ends calls: by CPU time, by wall-clock time, or because their client is gone.
//!
//! ```text
//!             ┌─ epochs, once a millisecond ─ code of the guest
//! Clock ◀─────┤
//!             └─ meter, at intervals of units ─ loops of the host that work for the guest
//! ```
//!
//! The limit of a policy is CPU time: a call that waits for a busy CPU uses none. Wall-clock time
//! has a separate limit, so that a call ends in any case.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use opgate_document::Watch;

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
    pub time: Time,
    /// Control of a call on a worker thread.
    pub apart: Option<&'c WorkerControl>,
    /// CPU time that the call shares with others.
    pub shared: Option<&'c Arc<SharedTime>>,
}

/// CPU time that calls share: those of all policies that evaluate one review. Calls on several
/// threads use it at the same time, and each of them stops within a tick when it is used up. An
/// attempt ([`Time::Try`]) does not count.
#[derive(Debug)]
pub struct SharedTime {
    limit: Duration,
    /// In nanoseconds.
    used: AtomicU64,
}

impl SharedTime {
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
    pub fn is_over(&self) -> bool {
        self.used() >= self.limit
    }
}

/// The time limit of a call.
#[derive(Debug, Clone, Copy)]
pub enum Time {
    /// An attempt that ends after this time for any reason. It does not read the CPU time.
    Try(Duration),
    /// Limits of CPU time and of wall-clock time.
    Whole {
        /// CPU time.
        processor: Duration,
        /// Wall-clock time.
        wall: Duration,
    },
}

impl Time {
    /// The limits of a policy, with at most `left` of wall-clock time.
    #[must_use]
    pub fn of(limits: Limits, left: Duration) -> Self {
        Self::Whole {
            processor: limits.time,
            wall: limits.time.saturating_mul(WALL_TIME_FACTOR).min(left),
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
            time: Time::of(limits, Duration::MAX),
            apart: None,
            shared: None,
        }
    }
}

/// CPU time of this thread.
#[must_use]
pub fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The clock of one call. A call runs on one thread from start to end.
#[derive(Debug)]
pub(super) struct Clock {
    time: Time,
    /// CPU time of the thread when the call started.
    started: Duration,
    end: Instant,
    cancelled: Option<Arc<AtomicBool>>,
    shared: Option<Arc<SharedTime>>,
    /// Nanoseconds of the call that the shared time knows of.
    noted: AtomicU64,
}

impl Clock {
    pub(super) fn start(budget: Budget<'_>) -> Self {
        let (wall, started) = match budget.time {
            Time::Try(wall) => (wall, Duration::ZERO),
            Time::Whole { wall, .. } => (wall, processor_time()),
        };
        let now = Instant::now();
        // An unlimited wall-clock time is a day.
        let end = now.checked_add(wall).unwrap_or(now + Duration::from_secs(86_400));
        let cancelled = budget.apart.map(|apart| apart.cancelled.clone());
        let (shared, noted) = (budget.shared.cloned(), AtomicU64::new(0));
        Self { time: budget.time, started, end, cancelled, shared, noted }
    }

    /// Charges the time of the call to the time that it shares with others. Call it once more at
    /// the end.
    pub(super) fn settle(&self) {
        // Attempts do not read the CPU time, and are short. Their wall-clock time would also
        // charge the wait for a CPU.
        if self.shared.is_some() && matches!(self.time, Time::Whole { .. }) {
            self.note(self.used());
        }
    }

    fn note(&self, used: Duration) {
        let Some(shared) = &self.shared else { return };
        let used = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
        let before = self.noted.swap(used, Ordering::Relaxed);
        shared.charge(Duration::from_nanos(used.saturating_sub(before)));
    }

    /// CPU time of the call.
    pub(super) fn used(&self) -> Duration {
        processor_time().saturating_sub(self.started)
    }

    /// The reason why the call is over, if it is.
    pub(super) fn over(&self) -> Option<CallError> {
        if self.cancelled.as_ref().is_some_and(|cancelled| cancelled.load(Ordering::Relaxed)) {
            return Some(CallError::Cancelled);
        }
        let own = match self.time {
            Time::Try(time) => (Instant::now() >= self.end).then_some(CallError::Deadline(time)),
            Time::Whole { processor, wall } => {
                let used = self.used();
                self.note(used);
                if used >= processor {
                    Some(CallError::Deadline(processor))
                } else {
                    (Instant::now() >= self.end).then_some(CallError::Wall(wall))
                }
            }
        };
        let shared = || self.shared.as_ref().filter(|shared| shared.is_over());
        own.or_else(|| shared().map(|shared| CallError::Shared(shared.limit)))
    }

    /// The policy error of a call that was interrupted.
    pub(super) fn fault(&self) -> CallError {
        self.over().unwrap_or(match self.time {
            Time::Try(time) | Time::Whole { processor: time, .. } => CallError::Deadline(time),
        })
    }
}

impl Watch for Clock {
    fn is_over(&self) -> bool {
        self.over().is_some()
    }
}
