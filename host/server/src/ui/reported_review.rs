//! A review with violations or policy errors, reduced to what the page shows of it.
//!
//! Clients and policies choose all texts, so each has a limit in bytes, and control characters are
//! visible from here on.

use std::time::SystemTime;

use opgate_admission::policy::{Decision, Effect};
use opgate_admission::review::Review;
use opgate_text::html::visible_line;

use super::review_reads::{ResourceRead, ReviewReads};

/// Maximum bytes of names of Kubernetes and of resources, of fields, and of messages.
const MAX_NAME_BYTES: usize = 253;
const MAX_FIELD_BYTES: usize = 128;
const MAX_MESSAGE_BYTES: usize = 384;

/// Maximum violations and policy errors of a review that are kept. More would make the row of one
/// review so large that few others fit on the page.
const MAX_VIOLATIONS: usize = 4;

/// Bytes of a review in addition to its texts.
const OVERHEAD_BYTES: usize = 256;

/// The decision on a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Denied,
    Allowed,
    /// The server sent no decision, so the `failurePolicy` of the webhook applied.
    Failed,
}

impl Outcome {
    /// The word on the page.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Allowed => "allowed",
            Self::Failed => "failed",
        }
    }
}

/// A violation or a policy error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReportedViolation {
    pub(super) policy: String,
    /// Empty for a policy error.
    pub(super) rule: String,
    /// None for a policy error.
    pub(super) effect: Option<Effect>,
    pub(super) field: String,
    pub(super) message: String,
}

/// A review that a policy has reported on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReportedReview {
    pub(super) at: SystemTime,
    pub(super) operation: &'static str,
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) user: String,
    pub(super) is_dry_run: bool,
    pub(super) outcome: Outcome,
    /// Denials first.
    pub(super) violations: Vec<ReportedViolation>,
    /// The number of violations that are not kept.
    pub(super) omitted: usize,
    /// The objects that policies read.
    pub(super) reads: Vec<ResourceRead>,
}

impl ReportedReview {
    /// Reduces a review. None if no policy has reported anything.
    pub(super) fn of(
        review: &Review<'_>,
        decision: &Decision,
        reads: &ReviewReads,
        at: SystemTime,
    ) -> Option<Self> {
        let errors = decision.policy_errors.iter().map(|error| ReportedViolation {
            policy: error.policy.clone(),
            rule: String::new(),
            effect: None,
            field: String::new(),
            message: visible_line(&error.cause, MAX_MESSAGE_BYTES),
        });
        let mut found: Vec<_> = decision.violations.iter().collect();
        found.sort_by_key(|violation| severity(violation.effect));
        let found = found.into_iter().map(|violation| ReportedViolation {
            policy: violation.policy.clone(),
            rule: violation.rule.clone(),
            effect: Some(violation.effect),
            field: visible_line(&violation.field, MAX_FIELD_BYTES),
            message: visible_line(&violation.message, MAX_MESSAGE_BYTES),
        });
        let violations: Vec<_> = errors.chain(found).take(MAX_VIOLATIONS).collect();
        if violations.is_empty() {
            return None;
        }
        let all = decision.violations.len() + decision.policy_errors.len();
        Some(Self {
            at,
            operation: review.operation.as_str(),
            resource: visible_line(&review.resource_path(), MAX_NAME_BYTES),
            namespace: visible_line(&review.namespace, MAX_NAME_BYTES),
            name: visible_line(&review.name, MAX_NAME_BYTES),
            user: visible_line(&review.username, MAX_NAME_BYTES),
            is_dry_run: review.dry_run,
            outcome: match decision {
                Decision { failure: Some(_), .. } => Outcome::Failed,
                Decision { denial: Some(_), .. } => Outcome::Denied,
                _ => Outcome::Allowed,
            },
            omitted: all - violations.len(),
            violations,
            reads: bound_reads(reads.by_resource()),
        })
    }

    /// Bytes of memory, approximately.
    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.resource, &self.namespace, &self.name, &self.user];
        let found = self.violations.iter().map(|violation| {
            let ReportedViolation { policy, rule, field, message, .. } = violation;
            size_of::<ReportedViolation>()
                + [policy, rule, field, message].map(String::len).iter().sum::<usize>()
        });
        let reads = self.reads.iter().map(|read| size_of::<ResourceRead>() + read.resource.len());
        OVERHEAD_BYTES
            + reads.sum::<usize>()
            + texts.map(String::len).iter().sum::<usize>()
            + found.sum::<usize>()
    }
}

/// Shortens the names of resources, which policies choose.
fn bound_reads(reads: Vec<ResourceRead>) -> Vec<ResourceRead> {
    let bound = |read: ResourceRead| ResourceRead {
        resource: visible_line(&read.resource, MAX_NAME_BYTES),
        ..read
    };
    reads.into_iter().map(bound).collect()
}

fn severity(effect: Effect) -> u8 {
    match effect {
        Effect::Deny => 0,
        Effect::Warn => 1,
        Effect::Audit => 2,
    }
}
