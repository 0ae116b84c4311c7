//! Work of reads, and their interruption.
//!
//! A read can take more work than its caller expects: the first read of a list splits millions of elements,
//! sorts names and unescapes texts. For callers with limited time, values carry a [`Meter`]. Every loop
//! charges it, and at regular intervals it checks a [`Deadline`]. A watch that has expired stops the meter:
//! later reads return null and are not cached, and the caller checks [`Meter::is_stopped`] before it uses a
//! result.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Units between two checks of the watch. A unit is a byte that is read separately or an eighth of the work
/// for one value: some nanoseconds at most.
const CHECK_INTERVAL_UNITS: u64 = 32 << 10;

/// Knows when it is over.
pub trait Deadline: Send + Sync {
    /// Reports whether the time of the caller is used up.
    fn is_expired(&self) -> bool;
}

/// The work of one call. Belongs to one thread; the numbers are atomic so that what holds it may move.
pub struct Meter {
    spent: AtomicU64,
    next_check: AtomicU64,
    stopped: AtomicBool,
    deadline: Arc<dyn Deadline>,
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (spent, stopped) = (self.spent(), self.is_stopped());
        f.debug_struct("Meter")
            .field("spent", &spent)
            .field("stopped", &stopped)
            .finish_non_exhaustive()
    }
}

impl Meter {
    /// Creates a meter that runs until its watch expires.
    #[must_use]
    pub fn new(deadline: Arc<dyn Deadline>) -> Self {
        Self {
            spent: AtomicU64::new(0),
            next_check: AtomicU64::new(CHECK_INTERVAL_UNITS),
            stopped: AtomicBool::new(false),
            deadline,
        }
    }

    /// Notes work; says whether to go on.
    #[inline]
    pub fn spend(&self, units: usize) -> bool {
        let units = u64::try_from(units).unwrap_or(u64::MAX);
        let spent = self.spent.load(Ordering::Relaxed).saturating_add(units);
        self.spent.store(spent, Ordering::Relaxed);
        spent < self.next_check.load(Ordering::Relaxed) || self.check_deadline(spent)
    }

    #[cold]
    fn check_deadline(&self, spent: u64) -> bool {
        if self.is_stopped() || self.deadline.is_expired() {
            self.stopped.store(true, Ordering::Relaxed);
            // A repeated call returns immediately.
            self.next_check.store(0, Ordering::Relaxed);
            return false;
        }
        self.next_check.store(spent.saturating_add(CHECK_INTERVAL_UNITS), Ordering::Relaxed);
        true
    }

    /// Units so far.
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Reports whether something was left undone.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// Costs of a read: memory and work.
#[derive(Clone, Copy)]
pub(crate) struct Cost<'c> {
    pub(crate) charge: &'c crate::Charge,
    pub(crate) meter: Option<&'c Meter>,
}

impl Cost<'_> {
    #[inline]
    pub(crate) fn spend(self, units: usize) -> Option<()> {
        self.meter.is_none_or(|meter| meter.spend(units)).then_some(())
    }
}
