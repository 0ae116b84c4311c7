//! The timed steps of a decision, in its trace: calls of policies, waits for a permit, and reads of the
//! cluster for which a request waits.
//!
//! ```text
//! evaluation::Observer::steps ─▶ StepRecorder ◀─ StepTimer: one for each step, if the request is traced
//! ```

use std::time::Instant;

/// Identifies a step in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepId(pub u64);

/// What a request waited for when the cache of the cluster was not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterWait {
    /// A direct read from the API server.
    DirectRead,
    /// A list of whole objects that no policy declares.
    Sample,
    /// A read of the grounds of a denial.
    Confirmation,
    /// The outcome of other requests in progress.
    PendingRequests,
    /// The write of a reservation for all replicas.
    LedgerWrite,
}

impl ClusterWait {
    /// The name in traces.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DirectRead => "direct read",
            Self::Sample => "sample",
            Self::Confirmation => "confirmation",
            Self::PendingRequests => "pending requests",
            Self::LedgerWrite => "ledger write",
        }
    }
}

/// A step that has ended.
#[derive(Debug)]
pub enum Step<'s> {
    /// A wait for a permit to call a policy.
    PermitWait {
        /// Whether the call got one.
        is_acquired: bool,
    },
    /// A call of a policy.
    Call {
        /// The name of the policy.
        policy: &'s str,
        /// Its version.
        version: &'s str,
        /// The rules with violations.
        rules: &'s [&'s str],
        /// The cause of a policy error, or the reason why the call did not start.
        error: Option<&'s str>,
    },
    /// A wait for the cluster.
    Cluster {
        /// The reason.
        wait: ClusterWait,
        /// The error, if it failed.
        error: Option<&'s str>,
    },
}

/// The position of a step in its trace.
#[derive(Debug, Clone, Copy)]
pub struct StepSpan {
    /// The step.
    pub id: StepId,
    /// The step that it is a part of; none for a part of the whole request.
    pub parent: Option<StepId>,
    /// When it began. It ends when it is recorded.
    pub started: Instant,
}

/// Records the steps of one traced request.
pub trait StepRecorder: Sync {
    /// The id of the trace, for log lines.
    fn trace_id(&self) -> &str;

    /// Returns a new id.
    fn next_id(&self) -> StepId;

    /// Records a step that ends now.
    fn record(&self, step: Step<'_>, span: StepSpan);
}

/// Measures a step, or nothing if the request is not traced.
#[derive(Clone, Copy)]
pub(crate) struct StepTimer<'r>(Option<(&'r dyn StepRecorder, StepSpan)>);

impl<'r> StepTimer<'r> {
    /// Begins a part of the whole request.
    pub(crate) fn start(recorder: Option<&'r dyn StepRecorder>) -> Self {
        Self::begin(recorder, None)
    }

    /// Begins a part of this step.
    pub(crate) fn start_part(&self) -> Self {
        let Some((recorder, span)) = self.0 else { return Self(None) };
        Self::begin(Some(recorder), Some(span.id))
    }

    fn begin(recorder: Option<&'r dyn StepRecorder>, parent: Option<StepId>) -> Self {
        Self(recorder.map(|recorder| {
            (recorder, StepSpan { id: recorder.next_id(), parent, started: Instant::now() })
        }))
    }

    /// Whether the request is traced.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Ends the step.
    pub(crate) fn end(self, step: Step<'_>) {
        if let Some((recorder, span)) = self.0 {
            recorder.record(step, span);
        }
    }

    /// Ends a wait for the cluster.
    pub(crate) fn end_wait(self, wait: ClusterWait, error: impl FnOnce() -> Option<String>) {
        if self.is_on() {
            let error = error();
            self.end(Step::Cluster { wait, error: error.as_deref() });
        }
    }
}
