//! Quantiles of the response times. The histogram of the metrics does not return its values.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the response times that are counted together, in microseconds. Longer ones count
/// separately.
const BOUNDS: [u64; 14] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 10_000_000,
];

/// Response times since the start of the server.
#[derive(Debug, Default)]
pub(super) struct ResponseTimes {
    counts: [AtomicU64; BOUNDS.len()],
    longer: AtomicU64,
}

impl ResponseTimes {
    /// Counts a response.
    pub(super) fn record(&self, time: Duration) {
        let fits = |bound: &u64| time <= Duration::from_micros(*bound);
        let count = BOUNDS.iter().position(fits).and_then(|index| self.counts.get(index));
        count.unwrap_or(&self.longer).fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the time within which this share of the responses was sent, in percent, rounded up to
    /// a bound. None without responses, or if it is longer than all bounds.
    pub(super) fn quantile(&self, percent: u64) -> Option<Duration> {
        let counts: Vec<u64> =
            self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let all = counts.iter().sum::<u64>() + self.longer.load(Ordering::Relaxed);
        let wanted = all.saturating_mul(percent).div_ceil(100).max(1);
        let mut sum = 0;
        let found = BOUNDS.iter().zip(counts).find(|(_, count)| {
            sum += count;
            sum >= wanted
        });
        found.map(|(bound, _)| Duration::from_micros(*bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_bounds_of_the_recorded_times() {
        let times = ResponseTimes::default();
        assert_eq!(times.quantile(50), None);
        for microseconds in [150, 150, 900, 1_000] {
            times.record(Duration::from_micros(microseconds));
        }
        let expected = [(50, 200), (75, 1_000), (99, 1_000)];
        for (percent, microseconds) in expected {
            let found = times.quantile(percent);
            assert_eq!(found, Some(Duration::from_micros(microseconds)), "{percent} %");
        }
        times.record(Duration::from_secs(20));
        assert_eq!(times.quantile(99), None, "longer than all bounds");
    }
}
