//! Recorded reviews, decided by both sides. What two decisions are is kept, and no review.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::explanation::not_evaluated_reason;
use crate::cli::input::ReviewItem;
use crate::cli::report::review_record::{InputType, ReviewRecord};
use crate::cli::review_input::{InputLines, MissingReads, ReviewFactory, ReviewInput};
use crate::cli::runtime;
use crate::cli::verbosity::note;
use opgate_admission::policy::PolicySet;
use opgate_admission::review::Review;

/// No client waits for these decisions; the limits of the policies still apply.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(3_600);

/// The reviews that are decided otherwise.
#[derive(Debug, Serialize)]
pub(super) struct ReviewDifferences {
    /// Number of compared reviews.
    pub(super) compared: usize,
    pub(super) different: Vec<ReviewDifference>,
    /// Other outcomes: an unreadable review, or a policy error.
    #[serde(skip)]
    pub(super) outcome: ExitStatus,
}

/// A review with two decisions.
#[derive(Debug, Serialize)]
pub(super) struct ReviewDifference {
    pub(super) source: String,
    uid: String,
    operation: &'static str,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
    pub(super) old: DecisionSummary,
    pub(super) new: DecisionSummary,
    /// Display name: `CREATE v1/pods ns/name`.
    #[serde(skip)]
    pub(super) object: String,
}

/// The compared parts of a decision, without the messages of violations.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct DecisionSummary {
    /// `allow`, `deny`, or `fail` if the webhook returns no decision.
    pub(super) decision: &'static str,
    pub(super) violations: Vec<ViolationCount>,
    /// The policy that failed, and why.
    pub(super) error: Option<String>,
}

/// Number of violations of a rule.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ViolationCount {
    pub(super) policy: String,
    pub(super) rule: String,
    #[serde(rename = "effect")]
    pub(super) effect: &'static str,
    pub(super) count: usize,
}

impl ReviewDifferences {
    /// Decides the reviews of items by both sides.
    ///
    /// # Errors
    /// If there is no review in any.
    pub(super) fn decide(
        old: &PolicySet,
        new: &PolicySet,
        items: impl Iterator<Item = ReviewItem>,
    ) -> Result<Self, CommandError> {
        let mut reviews = Self { compared: 0, different: Vec::new(), outcome: ExitStatus::Ok };
        let mut has_decisions = false;
        let (mut factory, mut lines) = (ReviewFactory::default(), InputLines::default());
        let mut missing_reads = MissingReads::default();
        for item in items {
            let all = factory.create_reviews(&item).unwrap_or_else(|why| {
                reviews.add_unreadable(&why);
                Vec::new()
            });
            for taken in all {
                lines.print(&taken, false);
                match taken.review() {
                    Ok(review) => {
                        let decide = |set| runtime::block_on(decide(set, &review, &taken));
                        let ((old, mut missing), (new, more)) = (decide(old)?, decide(new)?);
                        missing.extend(more);
                        missing_reads.add(missing);
                        has_decisions = true;
                        if is_unevaluated_event(&taken, [&old, &new]) {
                            factory.set_unevaluated_event();
                        } else {
                            reviews.add(&old, new);
                        }
                    }
                    Err(error) => {
                        reviews.add_unreadable(&format_args!("{}: {error}", taken.source));
                    }
                }
            }
        }
        lines.finish();
        missing_reads.warn();
        if let Some(line) = factory.audit_log_summary() {
            note(line);
        }
        if !has_decisions && reviews.outcome == ExitStatus::Ok {
            return Err(CommandError::usage(anyhow::anyhow!("no review found in the given paths")));
        }
        Ok(reviews)
    }

    fn add_unreadable(&mut self, why: &dyn fmt::Display) {
        self.outcome = self.outcome.max(ExitStatus::Usage);
        tracing::error!("{why}");
    }

    fn add(&mut self, old: &ReviewRecord, new: ReviewRecord) {
        self.compared += 1;
        for record in [old, &new] {
            // A denial is not an error of this command.
            if record.outcome() == ExitStatus::Engine {
                self.outcome = ExitStatus::Engine;
            }
        }
        let decisions = (DecisionSummary::of(old), DecisionSummary::of(&new));
        if decisions.0 == decisions.1 {
            return;
        }
        let object = new.object();
        let ReviewRecord { source, uid, operation, resource, subresource, namespace, name, .. } =
            new;
        let (old, new) = decisions;
        self.different.push(ReviewDifference {
            source,
            uid,
            operation,
            resource,
            subresource,
            namespace,
            name,
            old,
            new,
            object,
        });
    }
}

/// Returns the decision of one side, and the rules for which the recording lacks reads.
async fn decide(
    set: &PolicySet,
    review: &Review<'_>,
    taken: &ReviewInput,
) -> (ReviewRecord, BTreeSet<String>) {
    let started = Instant::now();
    let decided = taken.decide(review, set, None, started + REVIEW_TIMEOUT, &()).await;
    let reason = |decision| not_evaluated_reason(set, review, decision, taken.addressed());
    let not_evaluated = decided.as_ref().ok().and_then(reason);
    let missing = decided.as_ref().map(MissingReads::rules_of).unwrap_or_default();
    let mut record = ReviewRecord::new(review, &taken.source, decided, started.elapsed());
    record.not_evaluated = not_evaluated;
    (record, missing)
}

/// Reports whether a review is of an audit event that no rule of either side evaluates. Most events of a cluster
/// are such.
fn is_unevaluated_event(taken: &ReviewInput, records: [&ReviewRecord; 2]) -> bool {
    taken.input_type == InputType::AuditEvent
        && records.iter().all(|record| record.not_evaluated.is_some())
}

impl DecisionSummary {
    fn of(record: &ReviewRecord) -> Self {
        let mut counts: BTreeMap<_, usize> = BTreeMap::new();
        for violation in &record.violations {
            let key = (violation.policy.as_str(), violation.rule.as_str(), violation.effect);
            *counts.entry(key).or_default() += 1;
        }
        let finding = |((policy, rule, level), count): ((&str, &str, _), _)| ViolationCount {
            policy: policy.to_owned(),
            rule: rule.to_owned(),
            effect: level,
            count,
        };
        let error = record
            .error
            .as_ref()
            .map(|policy_error| format!("policy {}: {}", policy_error.policy, policy_error.cause));
        Self {
            decision: match (record.allowed, record.failed) {
                (true, _) => "allow",
                (false, true) => "fail",
                (false, false) => "deny",
            },
            violations: counts.into_iter().map(finding).collect(),
            error,
        }
    }
}
