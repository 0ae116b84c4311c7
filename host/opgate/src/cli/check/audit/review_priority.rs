//! Pauses of an audit in a server while reviews need the CPUs.
//!
//! ```text
//! audit: a page decoded, an object evaluated ─▶ give_way ─▶ as many reviews in progress as other CPUs? ─▶ sleep
//! ```
//!
//! The low priority of the thread alone is not enough: a scheduler lets a thread finish its time slice, some
//! milliseconds, before a thread that wakes up gets the CPU. An audit that yields and sleeps between two objects leaves
//! the CPU earlier, and also the caches and the memory bandwidth. It still gets a tenth of a CPU, as with its priority
//! alone. Idle priority would not do: while reviews use all CPUs, calls of policies would exceed their wall-clock time.

use std::thread;
use std::time::{Duration, Instant};

use opgate_files::parallel;
use parking_lot::Mutex;

/// The audit works for this long before it checks for reviews.
const MIN_WORK: Duration = Duration::from_micros(500);

/// Interval of the checks during a pause.
const POLL_INTERVAL: Duration = Duration::from_micros(250);

/// Maximum length of a pause, as a multiple of the work before it.
const MAX_PAUSES_PER_WORK: u32 = 9;

/// Maximum length of a pause: the work can have been a wait for the API server.
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// Yields to reviews.
pub(in crate::cli) struct ReviewPriority {
    /// Number of reviews in progress.
    reviews: Box<dyn Fn() -> usize + Send + Sync>,
    /// From this number of reviews on, no CPU is left for an audit.
    max_reviews: usize,
    /// The end of the last pause.
    resumed: Mutex<Instant>,
}

impl ReviewPriority {
    /// Creates it for the reviews that a function counts.
    pub(in crate::cli) fn new(reviews: impl Fn() -> usize + Send + Sync + 'static) -> Self {
        Self::on(parallel::worker_count(), reviews)
    }

    /// Creates it for this number of CPUs.
    fn on(cpus: usize, reviews: impl Fn() -> usize + Send + Sync + 'static) -> Self {
        let max_reviews = cpus.saturating_sub(1).max(1);
        Self { reviews: Box::new(reviews), max_reviews, resumed: Mutex::new(Instant::now()) }
    }

    /// Blocks the thread while reviews need all CPUs, for a limited time.
    pub(super) fn give_way(&self) {
        let mut resumed = self.resumed.lock();
        let work = resumed.elapsed();
        if work < MIN_WORK {
            return;
        }
        // A review that waits for this CPU is not in progress yet.
        thread::yield_now();
        let pause = work.saturating_mul(MAX_PAUSES_PER_WORK).min(MAX_PAUSE);
        let started = Instant::now();
        while (self.reviews)() >= self.max_reviews && started.elapsed() < pause {
            thread::sleep(POLL_INTERVAL);
        }
        *resumed = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Returns how often the reviews in progress were counted: `busy` times, there are two of them.
    fn count_checks(cpus: usize, busy: usize, work: Duration) -> usize {
        let checks = Arc::new(AtomicUsize::new(0));
        let counter = checks.clone();
        let reviews = move || if counter.fetch_add(1, Ordering::Relaxed) < busy { 2 } else { 0 };
        let priority = ReviewPriority::on(cpus, reviews);
        *priority.resumed.lock() = Instant::now().checked_sub(work).unwrap();
        priority.give_way();
        checks.load(Ordering::Relaxed)
    }

    #[test]
    fn audit_waits_for_reviews_that_need_its_cpu() {
        let work = Duration::from_secs(1);
        for (cpus, busy, expected) in [(1, 3, 4), (2, 3, 4), (3, 3, 4), (4, 3, 1), (2, 0, 1)] {
            assert_eq!(count_checks(cpus, busy, work), expected, "{cpus} CPUs, {busy} times busy");
        }
        // Hardly any work since the last pause.
        assert_eq!(count_checks(1, 3, Duration::ZERO), 0);
    }

    #[test]
    fn audit_continues_although_there_are_always_reviews() {
        assert!(count_checks(1, usize::MAX, Duration::from_millis(1)) > 1);
    }
}
