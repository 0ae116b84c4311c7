//! Decides reviews. This is the path of a request through the policies; `policy` and `cluster` never call it.
//!
//! ```text
//! review ─▶ PolicySet::decide: the policies that match
//!              │
//!              ▼
//!           decide: gather ─▶ read directly ─▶ confirm, or settle ─▶ reserve ─▶ Decision
//!              │ once for each possible state of the cluster
//!              ▼
//!           evaluator: calls every matching policy (policy::dispatch), combines their verdicts
//! ```

mod await_outcomes;
mod decide;
mod evaluator;
mod read_need;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(test)]
pub(crate) use decide::EvaluationError;
pub(crate) use decide::{Evaluate, Evaluation, decide};
use evaluator::{ReviewEvaluator, reserve_response_memory};
pub(crate) use read_need::ReadConsistency;

use crate::cluster;
use crate::policy::{Decision, DecisionBuilder, Overload, Policy, PolicySet, ReviewTime};
use crate::review::Review;

/// The reason why a review got no decision.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// The server is overloaded.
    #[error(transparent)]
    Overload(#[from] Overload),
    /// There is no such policy.
    #[error("there is no policy {name:?}{hint}")]
    NoPolicy {
        /// The requested name.
        name: String,
        /// A similar name.
        hint: String,
    },
}

/// Receives each call of a policy, for metrics.
pub trait Observer {
    /// Called after a policy has returned a verdict or failed.
    fn on_call(&self, policy: &Policy, took: Duration);

    /// Called with the queries of a call. If a review is evaluated again because the cluster has
    /// changed, each evaluation is a separate call.
    fn on_queries(&self, policy: &Policy, tallies: Vec<cluster::QueryStats>) {
        let _ = (policy, tallies);
    }
}

/// An observer that does nothing.
impl Observer for () {
    fn on_call(&self, _: &Policy, _: Duration) {}
}

impl PolicySet {
    /// Decides a review: calls every policy that matches, or only those that `only` names: one
    /// name, or several with `/` between them.
    ///
    /// # Errors
    /// If the server is overloaded, or there is no policy with a name. A policy that
    /// fails or failed to load is no error, but a part of the decision.
    pub async fn decide(
        &self,
        review: &Review<'_>,
        only: Option<&str>,
        deadline: Instant,
        observer: &impl Observer,
    ) -> Result<Decision, DecideError> {
        // A name that occurs twice counts once.
        let names: Option<BTreeSet<&str>> = only.map(|names| names.split('/').collect());
        if let Some(name) = names.iter().flatten().find(|name| !self.knows(name)) {
            let hint = opgate_text::hint(name, self.policies().iter().map(|p| p.name.as_str()));
            return Err(DecideError::NoPolicy { name: opgate_text::one_line(name, 64), hint });
        }
        Ok(self.decide_among(review, names.as_ref(), deadline, observer).await?)
    }

    /// [`PolicySet::decide`] with only the policies that have one of these names. Names that the set
    /// does not have are ignored.
    ///
    /// # Errors
    /// If the server is overloaded.
    pub async fn decide_among(
        &self,
        review: &Review<'_>,
        names: Option<&BTreeSet<&str>>,
        deadline: Instant,
        observer: &impl Observer,
    ) -> Result<Decision, Overload> {
        let is_named = |name: &str| names.is_none_or(|names| names.contains(name));
        let mut builder = DecisionBuilder::default();
        for broken in self.broken().iter().filter(|broken| is_named(&broken.name)) {
            builder.add_policy_error(broken.policy_error(), broken.mode, broken.on_error);
        }
        // In the order in which they serve, whatever the order of the names.
        let policies = self.policies().iter();
        let mut matching: Vec<_> = policies.filter(|policy| is_named(&policy.name)).collect();
        self.resolve_namespace_labels(review);
        matching.retain(|policy| policy.matches(review));
        // A review that no policy of this set evaluates can conflict with one that the next set
        // evaluates.
        let mut decision = if matching.is_empty() && !self.cluster().is_cached_elsewhere(review) {
            builder.build()
        } else {
            let evaluator = ReviewEvaluator {
                cluster: self.cluster(),
                conflicting_resources: self.conflicting_resources(),
                review,
                builder,
                inputs: Arc::new(review.inputs()),
                tenant: self.tenant_of(review),
                deadline,
                time: ReviewTime::of(&matching, review.size()),
                matching,
                observer,
            };
            let consistency = ReadConsistency {
                direct: self.direct_reader(),
                always: self.is_consistent(),
                conflicting_resources: self.conflicting_resources(),
            };
            decide(self.cluster(), consistency, deadline.into(), &evaluator).await?.decision
        };
        reserve_response_memory(review, &mut decision)?;
        Ok(decision)
    }
}
