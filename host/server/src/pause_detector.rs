//! The start time of requests after the process was stopped for a while.
//!
//! Requests that arrived while nothing ran (SIGSTOP, a frozen machine) look new, but their client
//! may have given up long ago. Then the API server no longer stores them, and nothing may be
//! reserved for them. A late tick shows the pause. Requests that are read then, and for a moment
//! after, count as started at the last tick before.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time between two ticks.
const TICK_INTERVAL: Duration = Duration::from_millis(100);

/// A tick that is this late shows a pause. On a busy machine, ticks are late as well, but less;
/// and API servers wait longer.
const MIN_PAUSE: Duration = Duration::from_secs(2);

/// For this time after a pause, requests that arrived during it are still being read: half as long
/// as the pause, and no longer than this.
const MAX_BACKLOG_TIME: Duration = Duration::from_secs(1);

/// Ticks while it is polled.
pub(super) async fn tick_forever(detector: Arc<PauseDetector>) {
    loop {
        detector.tick(Instant::now());
        tokio::time::sleep(TICK_INTERVAL).await;
    }
}

/// The last ticks.
#[derive(Debug)]
pub(super) struct PauseDetector(Mutex<State>);

#[derive(Debug)]
struct State {
    last: Instant,
    /// The last tick before a pause, and the time until which requests can be that old.
    before: Option<(Instant, Instant)>,
}

impl PauseDetector {
    pub(super) fn new(now: Instant) -> Self {
        Self(Mutex::new(State { last: now, before: None }))
    }

    /// Call it every [`TICK_INTERVAL`].
    pub(super) fn tick(&self, now: Instant) {
        let mut state = self.0.lock();
        let paused = now.saturating_duration_since(state.last);
        if paused > MIN_PAUSE {
            state.before = Some((state.last, now + MAX_BACKLOG_TIME.min(paused / 2)));
        }
        state.last = now;
    }

    /// Whether the process has just been stopped.
    pub(super) fn was_paused(&self, now: Instant) -> bool {
        self.earliest_start(now) < now
    }

    /// The earliest possible start time of a request that is read now.
    pub(super) fn earliest_start(&self, now: Instant) -> Instant {
        let state = self.0.lock();
        if now.saturating_duration_since(state.last) > MIN_PAUSE {
            return state.last;
        }
        state.before.filter(|(_, until)| now < *until).map_or(now, |(before, _)| before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_read_after_a_pause_is_dated_before_it() {
        let start = Instant::now();
        let at = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        let detector = PauseDetector::new(start);
        detector.tick(at(100));
        assert_eq!(detector.earliest_start(at(150)), at(150));
        detector.tick(at(2_000));
        assert_eq!(detector.earliest_start(at(2_001)), at(2_001), "late, but no pause");
        // Seven seconds later, a request is read first, then the tick comes.
        assert_eq!(detector.earliest_start(at(9_000)), at(2_000));
        detector.tick(at(9_001));
        assert_eq!(detector.earliest_start(at(9_002)), at(2_000));
        detector.tick(at(9_901));
        assert!(detector.was_paused(at(10_000)));
        assert!(!detector.was_paused(at(10_002)), "all that waited is read");
    }
}
