//! Supervises tasks that must not end: restarts them, and reports those that it gave up.
//!
//! ```text
//! spawn(task, make) ─▶ make() ─▶ runs … ends or panics ─▶ counted, logged ─▶ wait, grows ─┐
//!                        ▲                                     │ too often                │
//!                        │                                     └─▶ gone: /livez fails     │
//!                        └────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A task here has no natural end. Dropping its handle ends it. State that a task keeps between its
//! runs is shared with its `make`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::task::JoinSet;
use tokio::time::Instant;

use opgate_text::one_line;

/// Maximum bytes of a panic's text in the log and in answers.
const TEXT: usize = 512;

/// Delays before restarts of a task, and the limit of restarts.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// Waits between two runs, doubled from the first to the last.
    first_wait: Duration,
    last_wait: Duration,
    /// A task that has run for this time has not failed in a row.
    settled: Duration,
    /// Failures in a row after which a task is given up, after half a minute of waits.
    failures: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first_wait: Duration::from_millis(100),
            last_wait: Duration::from_secs(10),
            settled: Duration::from_secs(60),
            failures: 10,
        }
    }
}

impl Patience {
    /// Returns the delay after this number of consecutive failures, or none to give up.
    fn wait(&self, failures: u32) -> Option<Duration> {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        let wait = self.first_wait.saturating_mul(doubled).min(self.last_wait);
        (failures < self.failures).then_some(wait)
    }
}

/// Label of a task in metrics.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct Task {
    task: String,
}

/// A task that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Its name.
    pub task: String,
    /// The end of its last run.
    pub why: String,
}

/// Starts tasks and knows their state. Clones are the same supervisor.
#[derive(Debug, Clone, Default)]
pub struct Supervisor {
    patience: Patience,
    restarts: Family<Task, Counter>,
    gone: Arc<Mutex<Vec<Gone>>>,
}

/// A supervised task, which ends when this is dropped.
#[derive(Debug)]
#[must_use = "the task ends when this is dropped"]
pub struct Supervised {
    /// The supervised task.
    tasks: JoinSet<()>,
}

impl Supervised {
    /// Ends the task and waits for its end.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Supervisor {
    /// Runs the result of `make` in the current runtime, and again whenever it ends or panics.
    pub fn spawn<M, L>(&self, task: impl Into<String>, make: M) -> Supervised
    where
        M: Fn() -> L + Send + Sync + 'static,
        L: Future<Output = ()> + Send + 'static,
    {
        let (supervisor, task) = (self.clone(), task.into());
        // From the start, so that an increase is visible.
        drop(self.restarts.get_or_create(&Task { task: task.clone() }));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { supervisor.supervise(task, make).await });
        Supervised { tasks }
    }

    /// Returns the tasks that were given up.
    #[must_use]
    pub fn gone(&self) -> Vec<Gone> {
        self.gone.lock().clone()
    }

    /// Returns the number of restarts.
    #[must_use]
    pub fn restarts(&self) -> Family<Task, Counter> {
        self.restarts.clone()
    }

    async fn supervise<M, L>(&self, task: String, make: M)
    where
        M: Fn() -> L + Send + Sync + 'static,
        L: Future<Output = ()> + Send + 'static,
    {
        let mut failures = 0_u32;
        loop {
            let began = Instant::now();
            let mut life = Box::pin(async { make().await });
            let ended = AssertUnwindSafe(life.as_mut()).catch_unwind().await;
            // Dropping its state can panic, too.
            let left = catch_unwind(AssertUnwindSafe(move || drop(life)));
            let why = match ended.and(left) {
                Ok(()) => "ended".to_owned(),
                Err(payload) => panicked(&*payload),
            };
            failures = if began.elapsed() < self.patience.settled { failures + 1 } else { 1 };
            let Some(wait) = self.patience.wait(failures) else {
                tracing::error!(task, why, failures, "task failed too often; giving up");
                self.gone.lock().push(Gone { task, why });
                return;
            };
            tracing::error!(task, why, ?wait, "task failed; restarting");
            tokio::time::sleep(wait).await;
            self.restarts.get_or_create(&Task { task: task.clone() }).inc();
        }
    }
}

/// Returns the text of a panic.
fn panicked(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", one_line(text.unwrap_or("no message"), TEXT))
}

/// For tests.
impl Supervised {
    /// Waits until the task was given up.
    #[doc(hidden)]
    pub async fn ended(&mut self) {
        self.tasks.join_next().await;
    }
}

/// For tests.
impl Supervisor {
    /// Creates a supervisor that never waits and gives up at the second consecutive failure.
    #[doc(hidden)]
    #[must_use]
    pub fn impatient() -> Self {
        Self::with(Duration::MAX, 2)
    }

    fn with(settled: Duration, failures: u32) -> Self {
        let patience =
            Patience { first_wait: Duration::ZERO, last_wait: Duration::ZERO, settled, failures };
        Self { patience, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::mpsc;

    use super::*;

    fn count(supervisor: &Supervisor, task: &str) -> u64 {
        supervisor.restarts.get_or_create(&Task { task: task.to_owned() }).get()
    }

    #[tokio::test]
    async fn failed_task_is_restarted_and_counted() {
        let supervisor = Supervisor::with(Duration::MAX, 4);
        let (told, mut lives) = mpsc::unbounded_channel();
        let life = AtomicU32::new(0);
        let task = supervisor.spawn("watch", move || {
            let (told, life) = (told.clone(), life.fetch_add(1, Ordering::Relaxed));
            async move {
                let _ = told.send(life);
                match life {
                    0 => panic!("out of cheese"),
                    1 => {}
                    _ => std::future::pending().await,
                }
            }
        });
        for expected in 0..3 {
            assert_eq!(lives.recv().await, Some(expected));
        }
        assert_eq!(count(&supervisor, "watch"), 2);
        assert!(supervisor.gone().is_empty());
        // The state of the task is dropped with its handle.
        drop(task);
        assert_eq!(lives.recv().await, None);
    }

    #[tokio::test]
    async fn a_task_that_fails_again_and_again_is_given_up() {
        let supervisor = Supervisor::with(Duration::MAX, 3);
        let _other = supervisor.spawn("other", std::future::pending);
        let mut task = supervisor.spawn("reload", || async { panic!("no\ncheese {}", 7) });
        task.ended().await;
        let gone = Gone { task: "reload".to_owned(), why: "panicked: no cheese 7".to_owned() };
        assert_eq!(supervisor.gone(), [gone]);
        assert_eq!((count(&supervisor, "reload"), count(&supervisor, "other")), (2, 0));
    }

    struct Last;

    impl Drop for Last {
        fn drop(&mut self) {
            panic!("not yet");
        }
    }

    /// Applies also to a task that fails before it waits, or at the end.
    #[tokio::test]
    async fn task_that_panics_at_once_is_given_up() {
        let supervisor = Supervisor::impatient();
        let make = || -> std::future::Ready<()> { std::panic::panic_any(7) };
        supervisor.spawn("ops", make).ended().await;
        let make = || {
            let last = Last;
            async move {
                std::future::ready(()).await;
                let _ = &last;
            }
        };
        supervisor.spawn("accept", make).ended().await;
        let gone = supervisor.gone();
        assert_eq!(gone[0].why, "panicked: no message");
        assert_eq!(gone[1].why, "panicked: not yet");
    }

    #[tokio::test]
    async fn long_running_task_resets_the_failure_count() {
        let supervisor = Supervisor::with(Duration::ZERO, 2);
        let (told, mut lives) = mpsc::channel(1);
        let task = supervisor.spawn("accept", move || {
            let told = told.clone();
            async move { told.send(()).await.unwrap() }
        });
        for _ in 0..20 {
            assert_eq!(lives.recv().await, Some(()));
        }
        assert!(supervisor.gone().is_empty());
        task.stop().await;
    }

    #[test]
    fn restart_delays_grow_up_to_a_maximum() {
        let patience = Patience::default();
        let waits = (1..).map_while(|failures| patience.wait(failures)).map(|w| w.as_millis());
        let waits: Vec<_> = waits.collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(
            Patience { failures: u32::MAX, ..patience }.wait(1_000),
            Some(patience.last_wait)
        );
    }
}
