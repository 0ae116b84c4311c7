//! Advances the epoch of the engine each millisecond while a guest runs. `module.rs` ends calls by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::EngineWeak;

/// Length of an epoch.
pub(crate) const TICK_INTERVAL: Duration = Duration::from_millis(1);

/// Ticks without a running guest after which the clock sleeps until there is one. A server without
/// requests does not wake up.
const IDLE_TICKS: u32 = 1_000;

/// Counts running guests and wakes the clock for them.
pub(crate) struct Ticker {
    running: Arc<AtomicUsize>,
    clock: Thread,
}

/// A running guest. The clock runs while there is one.
pub(crate) struct RunningGuard<'t>(&'t AtomicUsize);

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ticker {
    /// Starts the clock. It runs on a separate thread, so that a busy server cannot delay its
    /// ticks, and ends with the engine.
    pub(crate) fn start(engine: EngineWeak) -> std::io::Result<Self> {
        let running = Arc::new(AtomicUsize::new(0));
        let counted = running.clone();
        let clock = thread::Builder::new().name("opgate-clock".into()).spawn(move || {
            let mut idle = 0;
            loop {
                if idle < IDLE_TICKS {
                    thread::sleep(TICK_INTERVAL);
                } else {
                    // The timeout lets the thread end when the engine is gone.
                    thread::park_timeout(Duration::from_secs(60));
                }
                let Some(engine) = engine.upgrade() else { return };
                engine.increment_epoch();
                idle = if counted.load(Ordering::Relaxed) > 0 { 0 } else { idle.saturating_add(1) };
            }
        })?;
        Ok(Self { running, clock: clock.thread().clone() })
    }

    /// Hold the result while a guest runs.
    pub(crate) fn mark_running(&self) -> RunningGuard<'_> {
        if self.running.fetch_add(1, Ordering::Relaxed) == 0 {
            self.clock.unpark();
        }
        RunningGuard(&self.running)
    }
}
