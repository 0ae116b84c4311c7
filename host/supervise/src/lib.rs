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
const MAX_TEXT_BYTES: usize = 512;

/// Delays before restarts of a task, and the limit of restarts.
#[derive(Debug, Clone, Copy)]
struct RestartPolicy {
    /// Waits between two runs, doubled from the first to the last.
    initial_delay: Duration,
    max_delay: Duration,
    /// A task that has run for this time has not failed in a row.
    reset_after: Duration,
    /// Failures in a row after which a task is given up, after half a minute of waits.
    max_failures: u32,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            initial_delay: Duration::from_millis(100),
            max_delay: Duration::from_secs(10),
            reset_after: Duration::from_secs(60),
            max_failures: 10,
        }
    }
}

impl RestartPolicy {
    /// Returns the delay after this number of consecutive failures, or none to give up.
    fn delay(&self, failures: u32) -> Option<Duration> {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        let wait = self.initial_delay.saturating_mul(doubled).min(self.max_delay);
        (failures < self.max_failures).then_some(wait)
    }
}

/// Label of a task in metrics.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct TaskLabel {
    task: String,
}

/// A task that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedTask {
    /// Its name.
    pub task: String,
    /// The end of its last run.
    pub reason: String,
}

/// Starts tasks and knows their state. Clones are the same supervisor.
#[derive(Debug, Clone, Default)]
pub struct Supervisor {
    restart_policy: RestartPolicy,
    restarts: Family<TaskLabel, Counter>,
    failed_tasks: Arc<Mutex<Vec<FailedTask>>>,
}

/// A supervised task, which ends when this is dropped.
#[derive(Debug)]
#[must_use = "the task ends when this is dropped"]
pub struct SupervisedTask {
    /// The supervised task.
    tasks: JoinSet<()>,
}

impl SupervisedTask {
    /// Ends the task and waits for its end.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

impl Supervisor {
    /// Runs the result of `make` in the current runtime, and again whenever it ends or panics.
    pub fn spawn<M, L>(&self, task: impl Into<String>, make: M) -> SupervisedTask
    where
        M: Fn() -> L + Send + Sync + 'static,
        L: Future<Output = ()> + Send + 'static,
    {
        let (supervisor, task) = (self.clone(), task.into());
        // From the start, so that an increase is visible.
        drop(self.restarts.get_or_create(&TaskLabel { task: task.clone() }));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { supervisor.supervise(task, make).await });
        SupervisedTask { tasks }
    }

    /// Returns the tasks that were given up.
    #[must_use]
    pub fn failed_tasks(&self) -> Vec<FailedTask> {
        self.failed_tasks.lock().clone()
    }

    /// Returns the number of restarts.
    #[must_use]
    pub fn restarts(&self) -> Family<TaskLabel, Counter> {
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
                Err(payload) => panic_text(&*payload),
            };
            failures =
                if began.elapsed() < self.restart_policy.reset_after { failures + 1 } else { 1 };
            let Some(wait) = self.restart_policy.delay(failures) else {
                tracing::error!(task, why, failures, "task failed too often; giving up");
                self.failed_tasks.lock().push(FailedTask { task, reason: why });
                return;
            };
            tracing::error!(task, why, ?wait, "task failed; restarting");
            tokio::time::sleep(wait).await;
            self.restarts.get_or_create(&TaskLabel { task: task.clone() }).inc();
        }
    }
}

/// Returns the text of a panic.
fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", one_line(text.unwrap_or("no message"), MAX_TEXT_BYTES))
}

/// For tests.
impl SupervisedTask {
    /// Waits until the task was given up.
    #[doc(hidden)]
    pub async fn wait_for_failure(&mut self) {
        self.tasks.join_next().await;
    }
}

/// For tests.
impl Supervisor {
    /// Creates a supervisor that never waits and gives up at the second consecutive failure.
    #[doc(hidden)]
    #[must_use]
    pub fn without_delays() -> Self {
        Self::with(Duration::MAX, 2)
    }

    fn with(settled: Duration, failures: u32) -> Self {
        let restart_policy = RestartPolicy {
            initial_delay: Duration::ZERO,
            max_delay: Duration::ZERO,
            reset_after: settled,
            max_failures: failures,
        };
        Self { restart_policy, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::mpsc;

    use super::*;

    fn count(supervisor: &Supervisor, task: &str) -> u64 {
        supervisor.restarts.get_or_create(&TaskLabel { task: task.to_owned() }).get()
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
        assert!(supervisor.failed_tasks().is_empty());
        // The state of the task is dropped with its handle.
        drop(task);
        assert_eq!(lives.recv().await, None);
    }

    #[tokio::test]
    async fn repeatedly_failing_task_is_given_up() {
        let supervisor = Supervisor::with(Duration::MAX, 3);
        let _other = supervisor.spawn("other", std::future::pending);
        let mut task = supervisor.spawn("reload", || async { panic!("no\ncheese {}", 7) });
        task.wait_for_failure().await;
        let gone =
            FailedTask { task: "reload".to_owned(), reason: "panicked: no cheese 7".to_owned() };
        assert_eq!(supervisor.failed_tasks(), [gone]);
        assert_eq!((count(&supervisor, "reload"), count(&supervisor, "other")), (2, 0));
    }

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("not yet");
        }
    }

    /// Applies also to a task that fails before it waits, or at the end.
    #[tokio::test]
    async fn task_that_panics_at_once_is_given_up() {
        let supervisor = Supervisor::without_delays();
        let make = || -> std::future::Ready<()> { std::panic::panic_any(7) };
        supervisor.spawn("ops", make).wait_for_failure().await;
        let make = || {
            let last = PanicsOnDrop;
            async move {
                std::future::ready(()).await;
                let _ = &last;
            }
        };
        supervisor.spawn("accept", make).wait_for_failure().await;
        let gone = supervisor.failed_tasks();
        assert_eq!(gone[0].reason, "panicked: no message");
        assert_eq!(gone[1].reason, "panicked: not yet");
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
        assert!(supervisor.failed_tasks().is_empty());
        task.stop().await;
    }

    #[test]
    fn restart_delays_grow_up_to_a_maximum() {
        let restart_policy = RestartPolicy::default();
        let waits =
            (1..).map_while(|failures| restart_policy.delay(failures)).map(|w| w.as_millis());
        let waits: Vec<_> = waits.collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(
            RestartPolicy { max_failures: u32::MAX, ..restart_policy }.delay(1_000),
            Some(restart_policy.max_delay)
        );
    }
}
