//! Limits the use of a resource by all clients together in a second.
//!
//! A bucket holds a number of units, and gets a number of units each second. Missing units are a
//! debt of the next clients. The state is only the time when the bucket will be full again, so
//! nothing has to fill it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Units that return with time.
#[derive(Debug)]
pub(super) struct TokenBucket {
    per_second: u64,
    /// The time in which it becomes full.
    refill_time: Duration,
    full_at: Mutex<Option<Instant>>,
}

impl TokenBucket {
    /// A bucket with this many units, and this many more each second.
    pub(super) fn new(units: u64, per_second: u64) -> Self {
        let mut bucket = Self {
            per_second: per_second.max(1),
            refill_time: Duration::ZERO,
            full_at: Mutex::default(),
        };
        bucket.refill_time = bucket.refill_time_of(units);
        bucket
    }

    /// The time in which this many units return.
    fn refill_time_of(&self, units: u64) -> Duration {
        let nanoseconds = u128::from(units) * NANOS_PER_SECOND / u128::from(self.per_second);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Takes units if all of them are available; returns whether they were.
    pub(super) fn try_take(&self, units: u64, now: Instant) -> bool {
        let mut full = self.full_at.lock();
        let Some(then) =
            full.map_or(now, |full| full.max(now)).checked_add(self.refill_time_of(units))
        else {
            return false;
        };
        let is_there = then.saturating_duration_since(now) <= self.refill_time;
        if is_there {
            *full = Some(then);
        }
        is_there
    }

    /// Takes units, whether or not they are available.
    pub(super) fn spend(&self, units: u64, now: Instant) {
        let mut full = self.full_at.lock();
        let then = full.map_or(now, |full| full.max(now)).checked_add(self.refill_time_of(units));
        *full = then.or(*full);
    }

    /// The time until the debt is paid.
    pub(super) fn wait(&self, now: Instant) -> Duration {
        let left =
            self.full_at.lock().map_or(Duration::ZERO, |full| full.saturating_duration_since(now));
        left.saturating_sub(self.refill_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spent_tokens_are_refilled_over_time() {
        let bucket = TokenBucket::new(10, 2);
        let start = Instant::now();
        let at = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        assert!(bucket.try_take(4, at(0)) && bucket.try_take(6, at(0)));
        assert!(!bucket.try_take(1, at(0)) && !bucket.try_take(1, at(499)));
        assert!(bucket.try_take(1, at(500)) && !bucket.try_take(1, at(500)));
        assert!(
            !bucket.try_take(11, at(100_000)) && bucket.try_take(10, at(100_000)),
            "it holds ten"
        );
        assert_eq!(bucket.wait(at(100_000)), Duration::ZERO);
        bucket.spend(3, at(100_000));
        assert_eq!(bucket.wait(at(100_000)), Duration::from_millis(1_500));
        assert_eq!(bucket.wait(at(101_500)), Duration::ZERO);
        assert!(!bucket.try_take(1, at(101_500)), "nothing is owed, and nothing is there");
    }
}
