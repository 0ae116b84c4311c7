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
use opgate_engine::{SharedTime, processor_time};

/// All evaluations of a review together get this many times the CPU time of one.
const EVALUATIONS: u32 = 2;

/// The host's work for a smaller review is too little to be measured.
const LARGE: usize = 64 << 10;

/// CPU time of a review.
#[derive(Debug)]
pub(super) struct ReviewTime {
    /// The time of all evaluations; none in a program that serves no other requests.
    whole: Option<Arc<SharedTime>>,
    evaluations: AtomicU32,
    is_large: bool,
    /// Whether one of the policies can deny.
    is_enforced: bool,
}

impl ReviewTime {
    /// The time for these policies to evaluate a review of this many bytes.
    pub(super) fn of(policies: &[&Arc<Policy>], size: usize) -> Self {
        let times = policies.iter().map(|policy| (policy.source.is_foreign(), policy.limits.time));
        let serves = policies.iter().all(|policy| policy.lane.serves());
        let whole = serves.then(|| SharedTime::new(of_one(times).saturating_mul(EVALUATIONS)));
        let is_enforced = policies.iter().any(|policy| policy.is_enforced());
        Self { whole, evaluations: AtomicU32::new(0), is_large: size > LARGE, is_enforced }
    }

    /// The time of the next evaluation, less than that of the first one if earlier ones used much.
    ///
    /// # Errors
    /// If earlier evaluations have used all of it.
    pub(super) fn begin(&self) -> Result<Option<Arc<SharedTime>>, Overload> {
        self.evaluations.fetch_add(1, Ordering::Relaxed);
        let Some(whole) = &self.whole else { return Ok(None) };
        if whole.is_over() && self.is_enforced {
            return Err(self.overload());
        }
        let left = whole.limit().saturating_sub(whole.used());
        Ok(Some(SharedTime::new(left.min(whole.limit() / EVALUATIONS))))
    }

    /// Ends an evaluation. Returns the overload if it ended early because earlier evaluations used
    /// the time.
    pub(super) fn end(&self, evaluation: Option<&Arc<SharedTime>>) -> Option<Overload> {
        let (whole, evaluation) = (self.whole.as_ref()?, evaluation?);
        whole.charge(evaluation.used());
        let is_short = evaluation.limit() < whole.limit() / EVALUATIONS;
        (is_short && evaluation.is_over() && self.is_enforced).then(|| self.overload())
    }

    fn overload(&self) -> Overload {
        let limit = self.whole.as_ref().map(|whole| whole.limit()).unwrap_or_default();
        Overload::Repeated { evaluations: self.evaluations.load(Ordering::Relaxed), limit }
    }

    /// Runs work of the host in the time of an evaluation or, without one, in that of the review.
    pub(super) fn charged<T>(
        &self,
        evaluation: Option<&Arc<SharedTime>>,
        work: impl FnOnce() -> T,
    ) -> T {
        let Some(time) = evaluation.or(self.whole.as_ref()).filter(|_| self.is_large) else {
            return work();
        };
        let started = processor_time();
        let done = work();
        time.charge(processor_time().saturating_sub(started));
        done
    }
}

/// The time of one evaluation by policies: whether each is foreign, and its limit.
fn of_one(policies: impl Iterator<Item = (bool, Duration)>) -> Duration {
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

    const MS: Duration = Duration::from_millis(1);

    fn time(evaluation: Duration) -> ReviewTime {
        let whole = Some(SharedTime::new(evaluation * EVALUATIONS));
        ReviewTime { whole, evaluations: AtomicU32::new(0), is_large: true, is_enforced: true }
    }

    #[test]
    fn builtin_policies_share_a_time_limit_and_others_add_theirs() {
        let of = |policies: &[(bool, u32)]| of_one(policies.iter().map(|(f, n)| (*f, MS * *n)));
        assert_eq!(of(&[(false, 100), (false, 100), (false, 30)]), MS * 100);
        assert_eq!(of(&[(false, 100), (true, 50), (true, 20)]), MS * 170);
        assert_eq!(of(&[(true, 20)]), MS * 20);
    }

    #[test]
    fn repeated_evaluations_end_in_an_overload() {
        let time = time(MS * 100);
        for used in [100, 90] {
            let one = time.begin().unwrap().unwrap();
            assert_eq!(one.limit(), MS * 100);
            one.charge(MS * used);
            // If one evaluation alone uses up its time, that is a policy error.
            assert_eq!(time.end(Some(&one)), None);
        }
        let last = time.begin().unwrap().unwrap();
        assert_eq!(last.limit(), MS * 10);
        last.charge(MS * 11);
        let overload = Overload::Repeated { evaluations: 3, limit: MS * 200 };
        assert_eq!(time.end(Some(&last)), Some(overload));
        assert!(time.begin().is_err());
        let text = time.begin().unwrap_err().to_string();
        assert!(text.contains("evaluated 5 times") && text.contains("limit of 200ms"), "{text}");
    }
}
