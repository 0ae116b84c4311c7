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

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(test)]
pub(crate) use decide::EvaluationError;
pub(crate) use decide::{Evaluate, Evaluation, decide};
use evaluator::{ReviewEvaluator, reserve_response_memory};
pub(crate) use read_need::ReadConsistency;

use crate::cluster::{self, AnswersByPolicy};
use crate::policy::{Decision, DecisionBuilder, Overload, Policy, PolicySet, ReviewTime};
use crate::review::Review;
use crate::step::StepRecorder;

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

    /// The recorder of the steps of this request, if it is traced.
    fn steps(&self) -> Option<&dyn StepRecorder> {
        None
    }

    /// Whether the decision gets the reads of the policies with their results.
    fn records_reads(&self) -> bool {
        false
    }
}

/// What a recorded decision depended on in addition to the review and the policies.
#[derive(Debug, Clone, Default)]
pub struct RecordedInputs {
    /// The reads of each policy.
    pub reads: AnswersByPolicy,
    /// The labels of the namespace, if opgate has evaluated them.
    pub namespace_labels: Option<BTreeMap<String, String>>,
    /// Objects of unsettled requests that the denial names.
    pub pending_objects: Vec<String>,
}

/// The target of log events about policy errors: a command whose results have them does not print them again.
pub const POLICY_ERROR_LOG_TARGET: &str = "policy_error";

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
        self.resolve_namespace_labels(review);
        let (builder, matching) = self.matching(review, names);
        // A review that no policy of this set evaluates can conflict with one that the next set
        // evaluates.
        let mut decision = if matching.is_empty() && !self.cluster().is_cached_elsewhere(review) {
            builder.build()
        } else {
            let evaluator = self.evaluator(review, (builder, matching), deadline, observer);
            let consistency = ReadConsistency {
                direct: self.direct_reader(),
                always: self.is_consistent(),
                conflicting_resources: self.conflicting_resources(),
            };
            let verdict = decide(self.cluster(), consistency, deadline.into(), &evaluator).await?;
            verdict.into_decision(&evaluator.matching)
        };
        reserve_response_memory(review, &mut decision)?;
        Ok(decision)
    }

    /// Repeats the decision on a review with the recorded inputs instead of the cluster, as
    /// [`PolicySet::decide_among`].
    ///
    /// # Errors
    /// If the process is overloaded.
    pub async fn decide_recorded(
        &self,
        review: &Review<'_>,
        names: Option<&BTreeSet<&str>>,
        recorded: RecordedInputs,
        deadline: Instant,
        observer: &impl Observer,
    ) -> Result<Decision, Overload> {
        let RecordedInputs { reads, namespace_labels, pending_objects } = recorded;
        if let Some(labels) = namespace_labels {
            review.set_namespace_labels(labels);
        }
        let (builder, matching) = self.matching(review, names);
        if matching.is_empty() {
            return Ok(builder.build());
        }
        let evaluator = self.evaluator(review, (builder, matching), deadline, observer);
        let answers = Some(Arc::new(reads));
        let view = cluster::EvaluationView { answers, ..Default::default() };
        let mut verdict = evaluator.evaluate(&view).await?.verdict;
        if !pending_objects.is_empty() {
            verdict = evaluator.with_pending_note(verdict, &pending_objects);
        }
        Ok(verdict.into_decision(&evaluator.matching))
    }

    /// The policies that evaluate a review, in the order in which they serve, and a decision with the errors of
    /// those that failed to load.
    fn matching(
        &self,
        review: &Review<'_>,
        names: Option<&BTreeSet<&str>>,
    ) -> (DecisionBuilder, Vec<&Arc<Policy>>) {
        let is_named = |name: &str| names.is_none_or(|names| names.contains(name));
        let mut builder = DecisionBuilder::default();
        for broken in self.broken().iter().filter(|broken| is_named(&broken.name)) {
            builder.add_policy_error(broken.policy_error(), broken.mode, broken.on_error);
        }
        let policies = self.policies().iter().filter(|policy| is_named(&policy.name));
        (builder, policies.filter(|policy| policy.matches(review)).collect())
    }

    fn evaluator<'e, O: Observer>(
        &'e self,
        review: &'e Review<'e>,
        (builder, matching): (DecisionBuilder, Vec<&'e Arc<Policy>>),
        deadline: Instant,
        observer: &'e O,
    ) -> ReviewEvaluator<'e, O> {
        ReviewEvaluator {
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
        }
    }
}
