//! The CPU time of one review, which all policies that evaluate it share.
//!
//! ```text
//! policy ─ limits.time ─▶ one evaluation ─ the largest of built-in policies, and of each other policy ─▶
//!                                                      all evaluations of the review: twice as much
//! ```
//!
//! The author of an object determines how long policies evaluate it. With separate limits for each
//! policy, one object would cost the sum of the limits of all policies. Built-in policies are
//! designed to evaluate the largest objects together in the time of one; the administrator grants
//! the time of each other policy by adding it.
//!
//! A review is evaluated again when other requests change objects that it depends on. Its author
//! does not cause that. So if repeated evaluations use up the time, that is an overload, after
//! which the API server retries, and no policy error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{Overload, Policy};
use opgate_engine::{SharedCpuTime, thread_cpu_time};

/// All evaluations of a review together get this many times the CPU time of one.
const TOTAL_TIME_FACTOR: u32 = 2;

/// The host's work for a smaller review is too little to be measured.
const MIN_MEASURED_BYTES: usize = 64 << 10;

/// CPU time of a review.
#[derive(Debug)]
pub(crate) struct ReviewTime {
    /// The time of all evaluations; none in a program that serves no other requests.
    whole: Option<Arc<SharedCpuTime>>,
    evaluations: AtomicU32,
    is_large: bool,
    /// Whether one of the policies can deny.
    is_enforced: bool,
}

impl ReviewTime {
    /// The time for these policies to evaluate a review of this many bytes.
    pub(crate) fn of(policies: &[&Arc<Policy>], size: usize) -> Self {
        let times =
            policies.iter().map(|policy| (policy.source.is_foreign(), policy.limits.cpu_time));
        let serves = policies.iter().all(|policy| policy.dispatcher.is_serving());
        let whole = serves
            .then(|| SharedCpuTime::new(evaluation_time(times).saturating_mul(TOTAL_TIME_FACTOR)));
        let is_enforced = policies.iter().any(|policy| policy.is_enforced());
        Self {
            whole,
            evaluations: AtomicU32::new(0),
            is_large: size > MIN_MEASURED_BYTES,
            is_enforced,
        }
    }

    /// The time of the next evaluation, less than that of the first one if earlier ones used much.
    ///
    /// # Errors
    /// If earlier evaluations have used all of it.
    pub(crate) fn begin(&self) -> Result<Option<Arc<SharedCpuTime>>, Overload> {
        self.evaluations.fetch_add(1, Ordering::Relaxed);
        let Some(whole) = &self.whole else { return Ok(None) };
        if whole.is_exhausted() && self.is_enforced {
            return Err(self.overload());
        }
        let left = whole.limit().saturating_sub(whole.used());
        Ok(Some(SharedCpuTime::new(left.min(whole.limit() / TOTAL_TIME_FACTOR))))
    }

    /// Ends an evaluation. Returns the overload if it ended early because earlier evaluations used
    /// the time.
    pub(crate) fn end(&self, evaluation: Option<&Arc<SharedCpuTime>>) -> Option<Overload> {
        let (whole, evaluation) = (self.whole.as_ref()?, evaluation?);
        whole.charge(evaluation.used());
        let is_short = evaluation.limit() < whole.limit() / TOTAL_TIME_FACTOR;
        (is_short && evaluation.is_exhausted() && self.is_enforced).then(|| self.overload())
    }

    fn overload(&self) -> Overload {
        let limit = self.whole.as_ref().map(|whole| whole.limit()).unwrap_or_default();
        Overload::Repeated { evaluations: self.evaluations.load(Ordering::Relaxed), limit }
    }

    /// Runs work of the host in the time of an evaluation or, without one, in that of the review.
    pub(crate) fn charge_work<T>(
        &self,
        evaluation: Option<&Arc<SharedCpuTime>>,
        work: impl FnOnce() -> T,
    ) -> T {
        let Some(time) = evaluation.or(self.whole.as_ref()).filter(|_| self.is_large) else {
            return work();
        };
        let started = thread_cpu_time();
        let done = work();
        time.charge(thread_cpu_time().saturating_sub(started));
        done
    }
}

/// The time of one evaluation by policies: whether each is foreign, and its limit.
fn evaluation_time(policies: impl Iterator<Item = (bool, Duration)>) -> Duration {
    let (mut builtin, mut foreign) = (Duration::ZERO, Duration::ZERO);
    for (is_foreign, time) in policies {
        if is_foreign {
            foreign = foreign.saturating_add(time);
        } else {
            builtin = builtin.max(time);
        }
    }
    builtin.saturating_add(foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn time(evaluation: Duration) -> ReviewTime {
        let whole = Some(SharedCpuTime::new(evaluation * TOTAL_TIME_FACTOR));
        ReviewTime { whole, evaluations: AtomicU32::new(0), is_large: true, is_enforced: true }
    }

    #[test]
    fn builtin_policies_share_a_time_limit_and_others_add_theirs() {
        let of = |policies: &[(bool, u32)]| {
            evaluation_time(policies.iter().map(|(f, n)| (*f, MILLISECOND * *n)))
        };
        assert_eq!(of(&[(false, 100), (false, 100), (false, 30)]), MILLISECOND * 100);
        assert_eq!(of(&[(false, 100), (true, 50), (true, 20)]), MILLISECOND * 170);
        assert_eq!(of(&[(true, 20)]), MILLISECOND * 20);
    }

    #[test]
    fn repeated_evaluations_end_in_an_overload() {
        let time = time(MILLISECOND * 100);
        for used in [100, 90] {
            let one = time.begin().unwrap().unwrap();
            assert_eq!(one.limit(), MILLISECOND * 100);
            one.charge(MILLISECOND * used);
            // If one evaluation alone uses up its time, that is a policy error.
            assert_eq!(time.end(Some(&one)), None);
        }
        let last = time.begin().unwrap().unwrap();
        assert_eq!(last.limit(), MILLISECOND * 10);
        last.charge(MILLISECOND * 11);
        let overload = Overload::Repeated { evaluations: 3, limit: MILLISECOND * 200 };
        assert_eq!(time.end(Some(&last)), Some(overload));
        assert!(time.begin().is_err());
        let text = time.begin().unwrap_err().to_string();
        assert!(text.contains("evaluated 5 times") && text.contains("limit of 200ms"), "{text}");
    }
}
