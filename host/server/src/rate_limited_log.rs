//! Log lines that are written less often than clients can cause them.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A log line that any client can cause at will. It is written at most once in an interval.
#[derive(Debug, Default)]
pub(super) struct RateLimitedLog(Mutex<(Option<Instant>, u64)>);

impl RateLimitedLog {
    /// Time between two lines.
    const PERIOD: Duration = Duration::from_secs(60);

    /// The number of lines that were suppressed since the last one, if it is to be written now.
    pub(super) fn suppressed_since_last(&self) -> Option<u64> {
        self.suppressed_since_last_at(Instant::now())
    }

    fn suppressed_since_last_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let (last, suppressed) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < Self::PERIOD) {
            *suppressed += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_log_line_is_rate_limited() {
        let (log, start) = (RateLimitedLog::default(), Instant::now());
        let told = [0, 1, 59, 60, 61]
            .map(|s| log.suppressed_since_last_at(start + Duration::from_secs(s)));
        assert_eq!(told, [Some(0), None, None, Some(2), None]);
    }
}
