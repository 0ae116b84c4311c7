//! The audit of the cluster by the leader (`--audit-interval`).
//!
//! ```text
//! Leadership ─▶ AuditTask ─ pause ─▶ AuditRun, in a thread with low priority ─▶ reports in the cluster
//!                  ▲   │                 └▶ evaluation, in one thread of the same priority
//!                  │   └ lost lead, end of the server: stops the run
//!                  └──── RunOutcome ─▶ AuditMetrics, log
//! ```
//!
//! Each run has its own policy set, connection and runtime, and drops them at its end. It never affects reviews or
//! readiness: if memory is short, it does not start, or ends. From one run to the next, the server keeps only which
//! objects had which violations.

mod conditions;
mod results;
mod run;

use std::convert::Infallible;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, oneshot};

pub(super) use self::conditions::AuditConditions;
use self::results::{CompleteRun, RunOutcome};
pub(super) use self::run::AuditRun;
use crate::cli::audit::reports::ReportChoice;
use opgate_controller::audit_metrics::AuditMetrics;
use opgate_server::lower_priority;

/// Maximum pause before the first audit of a new leader: its lists and caches come first.
const MAX_FIRST_PAUSE: Duration = Duration::from_secs(60);

/// Stack of the thread: the parsers of documents recurse.
const STACK_BYTES: usize = 32 << 20;

/// The settings of the audit.
#[derive(Debug, Clone, Copy)]
pub(super) struct AuditSettings {
    /// Pause between two audits.
    pub(super) interval: Duration,
    /// API of the reports, if any are written.
    pub(super) reports: Option<ReportChoice>,
}

/// A problem of an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Problem {
    Failed(String),
    Incomplete(String),
}

/// Audits while this server is the leader.
pub(super) struct AuditTask {
    interval: Duration,
    run: Arc<AuditRun>,
    metrics: AuditMetrics,
    /// Held by a run until its thread ends.
    running: Arc<AsyncMutex<()>>,
    /// The problem of the last audit: a repeated one is logged once.
    last_problem: Mutex<Option<Problem>>,
}

impl AuditTask {
    /// Creates it for this kind of run.
    pub(super) fn new(interval: Duration, run: AuditRun, metrics: AuditMetrics) -> Self {
        let (running, last_problem) = (Arc::default(), Mutex::default());
        Self { interval, run: Arc::new(run), metrics, running, last_problem }
    }

    /// Audits until it is dropped.
    pub(super) async fn run(&self) {
        let mut changes = self.run.conditions.leadership.changes();
        loop {
            // The sender belongs to the leadership, so waiting does not fail.
            let _ = changes.wait_for(|leads| *leads).await;
            tokio::select! {
                () = self.audit_repeatedly() => {}
                _ = changes.wait_for(|leads| !leads) => {}
            }
            self.metrics.clear();
            self.run.forget();
        }
    }

    async fn audit_repeatedly(&self) {
        tokio::time::sleep(self.interval.min(MAX_FIRST_PAUSE)).await;
        loop {
            let outcome = self.audit().await;
            self.record(outcome);
            tokio::time::sleep(self.interval).await;
        }
    }

    /// Runs one audit, which stops when this future is dropped.
    async fn audit(&self) -> RunOutcome {
        let guard = self.running.clone().lock_owned().await;
        let (_cancel, cancelled) = oneshot::channel::<Infallible>();
        let (sender, outcome) = oneshot::channel();
        let run = self.run.clone();
        let builder = thread::Builder::new().name("opgate-audit".to_owned());
        let started = builder.stack_size(STACK_BYTES).spawn(move || {
            lower_priority();
            let outcome = run.execute(cancelled);
            opgate_system::release_free_memory();
            drop(guard);
            // The receiver is gone if the audit was stopped.
            let _ = sender.send(outcome);
        });
        if let Err(error) = started {
            return RunOutcome::Failed(format!("no thread for it: {error}"));
        }
        outcome.await.unwrap_or_else(|_| RunOutcome::Failed("its thread failed".to_owned()))
    }

    fn record(&self, outcome: RunOutcome) {
        let complete = match outcome {
            RunOutcome::Complete(complete) => complete,
            // The task ends or waits for the lead.
            RunOutcome::Stopped => return,
            RunOutcome::Failed(error) => {
                self.metrics.count_failure();
                self.set_problem(Some(Problem::Failed(error)));
                return;
            }
        };
        let CompleteRun { results, reports, problem } = *complete;
        let (written, deleted) = reports.as_ref().map_or((0, 0), |r| (r.written, r.deleted));
        if let Some(summary) = &reports {
            self.metrics.count_writes(summary);
        }
        tracing::info!(
            objects = results.objects,
            unchanged = results.unchanged,
            violations = results.violations.total(),
            errors = results.errors,
            written,
            deleted,
            duration = ?results.duration,
            "audit finished"
        );
        self.set_problem(problem.map(Problem::Incomplete));
        self.metrics.complete(results);
    }

    /// Sets the problem of the last audit, and logs it if it is new.
    fn set_problem(&self, problem: Option<Problem>) {
        let mut last = self.last_problem.lock();
        if *last == problem {
            return;
        }
        match &problem {
            Some(Problem::Failed(error)) => {
                tracing::warn!(error, "audit failed; retrying at the next interval");
            }
            Some(Problem::Incomplete(error)) => tracing::warn!(error, "audit incomplete"),
            None => {}
        }
        *last = problem;
    }
}
