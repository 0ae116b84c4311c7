//! The cost of a call of a policy, for `opgate policy bench`: without dispatch, permits and a
//! decision.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Policy;
use super::dispatch::FAST_PATH_TIMEOUT;
use crate::cluster::EvaluationView;
use crate::review::Review;
use opgate_engine::{Budget, TimeLimit, thread_cpu_time};

/// The costs of a call.
#[derive(Debug, Clone)]
pub struct Measurement {
    /// From the start of the call to its verdict.
    pub wall_time: Duration,
    /// CPU time of the call: less than `took` if the thread had to wait.
    pub cpu_time: Duration,
    /// Bytes at its end: of the guest, and of the host for it.
    pub memory: usize,
    /// The policy error, if the call ended in one.
    pub error: Option<String>,
}

impl Measurement {
    /// Whether a server makes such a call on the thread that serves the request. It stops a longer
    /// call, and repeats it on a worker thread.
    #[must_use]
    pub fn is_fast(&self) -> bool {
        self.cpu_time <= FAST_PATH_TIMEOUT
    }
}

impl Policy {
    fn budget(&self) -> Budget<'_> {
        let wait = self.limits.cpu_time.saturating_mul(100);
        Budget {
            memory: self.limits.memory,
            time: TimeLimit::of(self.limits, wait),
            worker: None,
            shared_time: None,
        }
    }

    /// Makes one call about a review.
    #[must_use]
    pub fn measure(&self, review: &Review<'_>) -> Measurement {
        let (inputs, routes) = (Arc::new(review.inputs()), self.routes(review));
        let reader = self.view.reader(EvaluationView::default());
        let (started, before) = (Instant::now(), thread_cpu_time());
        let call = self.module.validate(&inputs, routes, &self.settings, reader, self.budget());
        let took = started.elapsed();
        let used = thread_cpu_time().saturating_sub(before);
        let fault = call.result.err().map(|fault| fault.to_string());
        Measurement { wall_time: took, cpu_time: used, memory: call.work.memory, error: fault }
    }

    /// The number of imports that one call about a review calls.
    #[must_use]
    pub fn count_host_calls(&self, review: &Review<'_>) -> u64 {
        let (inputs, routes) = (Arc::new(review.inputs()), self.routes(review));
        let reader = self.view.reader(EvaluationView::default());
        self.module.count_host_calls(&inputs, routes, &self.settings, reader, self.budget())
    }
}
