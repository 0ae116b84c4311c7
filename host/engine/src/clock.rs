//! When a call is over: by the processor, by the clock, or because nobody waits.
//!
//! ```text
//!             ┌─ epochs, once a millisecond ─ code of the guest
//! Clock ◀─────┤
//!             └─ meter, every so many units ─ loops of the host that work for the guest
//! ```
//!
//! What a policy may use is time of the processor: a call that waits for one, because others burn
//! theirs, has used nothing. So that a call still ends, the clock on the wall has a limit of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opgate_document::Watch;

use super::fault::Fault;
use super::limits::Limits;

/// A call has this many times its time on the wall; whoever asks may give it less.
const WALL: u32 = 100;

/// What one call may use.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'c> {
    /// Bytes of memory.
    pub memory: usize,
    /// How long it may take.
    pub time: Time,
    /// For a call on a thread of its own.
    pub apart: Option<&'c Apart>,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy)]
pub enum Time {
    /// A try that is given up after so long, whatever the reason. It costs no look at the processor's
    /// time.
    Try(Duration),
    /// So much of the processor, and so much on the wall.
    Whole {
        /// Of the processor.
        processor: Duration,
        /// On the wall.
        wall: Duration,
    },
}

impl Time {
    /// What the limits of a policy allow, but no more than `left` on the wall.
    #[must_use]
    pub fn of(limits: Limits, left: Duration) -> Self {
        Self::Whole { processor: limits.time, wall: limits.time.saturating_mul(WALL).min(left) }
    }
}

/// A call on a thread of its own can be stopped, and its thread can be made to yield.
#[derive(Debug, Clone)]
pub struct Apart {
    /// Set when nobody waits for the answer any more; looked at once a tick.
    pub cancelled: Arc<AtomicBool>,
    /// Time of the processor after which the thread gets only what others leave over.
    pub yield_after: Duration,
}

impl Budget<'_> {
    /// All that the limits of a policy allow.
    #[must_use]
    pub fn of(limits: Limits) -> Self {
        Self { memory: limits.memory, time: Time::of(limits, Duration::MAX), apart: None }
    }
}

/// What this thread has had of the processor.
#[must_use]
pub fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The clock of one call. A call runs on one thread from its beginning to its end.
#[derive(Debug)]
pub(super) struct Clock {
    time: Time,
    /// Processor time of the thread when the call began.
    started: Duration,
    end: Instant,
    cancelled: Option<Arc<AtomicBool>>,
}

impl Clock {
    pub(super) fn start(budget: Budget<'_>) -> Self {
        let (wall, started) = match budget.time {
            Time::Try(wall) => (wall, Duration::ZERO),
            Time::Whole { wall, .. } => (wall, processor_time()),
        };
        let now = Instant::now();
        // A wall without an end is a day.
        let end = now.checked_add(wall).unwrap_or(now + Duration::from_secs(86_400));
        let cancelled = budget.apart.map(|apart| apart.cancelled.clone());
        Self { time: budget.time, started, end, cancelled }
    }

    /// What the call has had of the processor.
    pub(super) fn used(&self) -> Duration {
        processor_time().saturating_sub(self.started)
    }

    /// Why the call is over, if it is.
    pub(super) fn over(&self) -> Option<Fault> {
        if self.cancelled.as_ref().is_some_and(|cancelled| cancelled.load(Ordering::Relaxed)) {
            return Some(Fault::Cancelled);
        }
        match self.time {
            Time::Try(time) if Instant::now() >= self.end => Some(Fault::Deadline(time)),
            Time::Whole { processor, .. } if self.used() >= processor => {
                Some(Fault::Deadline(processor))
            }
            Time::Whole { wall, .. } if Instant::now() >= self.end => Some(Fault::Wall(wall)),
            _ => None,
        }
    }

    /// The fault of a call that was interrupted.
    pub(super) fn fault(&self) -> Fault {
        self.over().unwrap_or(match self.time {
            Time::Try(time) | Time::Whole { processor: time, .. } => Fault::Deadline(time),
        })
    }
}

impl Watch for Clock {
    fn is_over(&self) -> bool {
        self.over().is_some()
    }
}
