//! Decisions on requests that did not change since the last evaluation of a unit, for an editor that evaluates the
//! same files again and again.
//!
//! ```text
//! request ─▶ digest of the review ─┬▶ known: the earlier decision
//!                                  └▶ new: policies ─▶ decision, kept for the next evaluation
//! ```

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use opgate_admission::policy::Decision;

/// Decisions by the digest of their review: those of the last evaluation, and those of the current one.
#[derive(Default)]
struct Generations {
    last: HashMap<(u64, u64), Decision>,
    current: HashMap<(u64, u64), Decision>,
}

/// Keeps decisions, and ends an evaluation whose result is not needed any more.
#[derive(Default)]
pub(in crate::cli) struct DecisionCache {
    generations: Mutex<Generations>,
    hashers: (RandomState, RandomState),
    /// The generation of the input, and that of this evaluation: they differ once the input has changed.
    input: Arc<AtomicU64>,
    evaluated: u64,
}

impl DecisionCache {
    /// Starts an evaluation, which is cancelled when the generation of the input is not this one any more. What a
    /// cancelled one has decided counts as well.
    pub(in crate::cli) fn start_evaluation(&mut self, input: &Arc<AtomicU64>, generation: u64) {
        (self.input, self.evaluated) = (input.clone(), generation);
        let generations = self.generations.get_mut().unwrap_or_else(PoisonError::into_inner);
        let used = std::mem::take(&mut generations.current);
        generations.last.extend(used);
    }

    /// Forgets what a complete evaluation did not use.
    pub(in crate::cli) fn end_evaluation(&mut self) {
        let generations = self.generations.get_mut().unwrap_or_else(PoisonError::into_inner);
        generations.last = std::mem::take(&mut generations.current);
    }

    /// Returns whether the result is not needed any more.
    pub(in crate::cli) fn is_cancelled(&self) -> bool {
        self.input.load(Ordering::Acquire) != self.evaluated
    }

    /// Returns the decision on a review: the earlier one, or that of `decide`.
    ///
    /// # Errors
    /// The errors of `decide`.
    pub(super) fn decide<E>(
        &self,
        review: &str,
        decide: impl FnOnce() -> Result<Decision, E>,
    ) -> Result<Decision, E> {
        let digest = (self.hashers.0.hash_one(review), self.hashers.1.hash_one(review));
        {
            let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(decision) = generations.last.get(&digest).cloned() {
                generations.current.insert(digest, decision.clone());
                return Ok(decision);
            }
        }
        let decision = decide()?;
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        // A policy that failed once is asked again.
        if decision.policy_errors.is_empty() && decision.failure.is_none() {
            generations.current.insert(digest, decision.clone());
        }
        Ok(decision)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn only_changed_reviews_are_decided_again() {
        let (mut cache, calls, input) = (DecisionCache::default(), Cell::new(0), Arc::default());
        let decide = |cache: &DecisionCache, review: &str| {
            let decision = cache.decide(review, || {
                calls.set(calls.get() + 1);
                Ok::<_, ()>(Decision::default())
            });
            decision.unwrap();
        };
        for (reviews, expected) in
            [(["a", "b"], 2), (["a", "c"], 3), (["a", "c"], 3), (["b", "c"], 4)]
        {
            cache.start_evaluation(&input, 0);
            for review in reviews {
                decide(&cache, review);
            }
            cache.end_evaluation();
            assert_eq!(calls.get(), expected, "{reviews:?}");
        }
        // A cancelled evaluation keeps what it has decided.
        cache.start_evaluation(&input, 0);
        decide(&cache, "d");
        input.store(1, Ordering::Release);
        assert!(cache.is_cancelled());
        cache.start_evaluation(&input, 1);
        assert!(!cache.is_cancelled());
        decide(&cache, "d");
        decide(&cache, "b");
        assert_eq!(calls.get(), 5);
    }
}
