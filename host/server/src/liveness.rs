//! `/livez`: whether a restart of the process helps.
//!
//! It helps if a task has ended, and if the webhook port does not respond to the server itself.
//! For any number of requests, there is one check at a time, and one in a second.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::self_check::SelfCheck;
use opgate_supervise::Supervisor;

/// The time for which the result of a check counts.
const RESULT_TTL: Duration = Duration::from_secs(1);

/// The problem, if there is one.
type CheckResult = Result<(), LivenessError>;

/// The parts that failed and do not recover, one line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct LivenessError(String);

/// The health of the process.
pub(super) struct Liveness {
    supervisor: Supervisor,
    check: SelfCheck,
    last: CachedResult,
}

impl Liveness {
    pub(super) fn new(supervisor: Supervisor, check: SelfCheck) -> Self {
        Self { supervisor, check, last: CachedResult::new(RESULT_TTL) }
    }

    /// Checks the health. `open` is whether the webhook port should respond already.
    ///
    /// # Errors
    /// If a part failed that does not recover. The text names it.
    pub(super) async fn check(&self, open: bool) -> CheckResult {
        let gone = self.supervisor.failed_tasks();
        if gone.is_empty() && open {
            let check =
                async || self.check.run().await.map_err(|why| LivenessError(why.to_string()));
            return self.last.get_or_check(check).await;
        }
        if gone.is_empty() {
            return Ok(());
        }
        let lines = gone.iter().map(|gone| format!("task {} is gone: {}", gone.task, gone.reason));
        Err(LivenessError(lines.collect::<Vec<_>>().join("\n")))
    }
}

/// The last result, shared by concurrent requests.
struct CachedResult {
    ttl: Duration,
    result: Mutex<Option<(Instant, CheckResult)>>,
}

impl CachedResult {
    fn new(age: Duration) -> Self {
        Self { ttl: age, result: Mutex::default() }
    }

    /// The last result, or a new one if it is too old. Concurrent requests wait for it.
    async fn get_or_check<F: Future<Output = CheckResult>>(
        &self,
        check: impl FnOnce() -> F,
    ) -> CheckResult {
        let mut last = self.result.lock().await;
        if let Some((at, verdict)) = &*last
            && at.elapsed() < self.ttl
        {
            return verdict.clone();
        }
        let verdict = check().await;
        *last = Some((Instant::now(), verdict.clone()));
        verdict
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::net::TcpListener;
    use tokio::sync::Notify;

    use super::super::self_check::testing;
    use super::*;

    #[tokio::test]
    async fn unserved_port_fails_the_liveness_check() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let liveness = |supervisor: &Supervisor| {
            Liveness::new(supervisor.clone(), testing::check(address, Duration::from_millis(20)))
        };
        // The system still accepts connections for a task that has ended.
        let supervisor = Supervisor::without_delays();
        let unanswered = liveness(&supervisor).check(true).await.unwrap_err();
        assert_eq!(unanswered.to_string(), "the webhook port does not answer: nothing within 20ms");
        assert_eq!(liveness(&supervisor).check(false).await, Ok(()), "it does not serve yet");
        let mut accepting = supervisor.spawn("accept", || async { panic!("out of cheese") });
        accepting.wait_for_failure().await;
        let gone = liveness(&supervisor).check(true).await.unwrap_err();
        assert_eq!(gone.to_string(), "task accept is gone: panicked: out of cheese");
        drop(listener);
        let refused = liveness(&Supervisor::default()).check(true).await.unwrap_err();
        assert!(
            refused.to_string().contains("the webhook port does not answer: Connection refused"),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn concurrent_probes_share_one_check() {
        let no = || Err(LivenessError("no".to_owned()));
        let last = Arc::new(CachedResult::new(Duration::MAX));
        let (runs, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let ask = || {
            let (last, runs, go) = (last.clone(), runs.clone(), go.clone());
            tokio::spawn(async move {
                let check = async || {
                    runs.fetch_add(1, Ordering::Relaxed);
                    go.notified().await;
                    no()
                };
                last.get_or_check(check).await
            })
        };
        let asked: Vec<_> = (0..20).map(|_| ask()).collect();
        go.notify_one();
        for verdict in asked {
            assert_eq!(verdict.await.unwrap(), no());
        }
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        // A result that is too old does not count.
        let last = CachedResult::new(Duration::ZERO);
        assert_eq!(last.get_or_check(async || no()).await, no());
        assert_eq!(last.get_or_check(async || Ok(())).await, Ok(()));
    }
}
