//! The decision on one review, as `opgate replay` and `opgate diff` report it.

use std::time::Duration;

use serde::Serialize;

use super::{PolicyErrorRecord, Region, ReportItem, ReportedViolation, ResultKind, Violation};
use crate::cli::exit::ExitStatus;
use crate::cli::explanation::Explanation;
use crate::cli::input::LineRange;
use opgate_admission::evaluation::DecideError;
use opgate_admission::policy::{Decision, Effect};
use opgate_admission::review::Review;
use opgate_text::one_line;

/// Detected type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) enum InputType {
    /// A review from an API server.
    Review,
    /// An event of an audit log from which a review was made.
    AuditEvent,
    /// An object from which a review was made.
    Manifest,
    /// A review of a recording.
    RecordedReview,
}

/// Result of one review. The members are part of the stable interface.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct ReviewRecord {
    pub(in crate::cli) source: String,
    pub(in crate::cli) uid: String,
    pub(in crate::cli) operation: &'static str,
    pub(in crate::cli) resource: String,
    pub(in crate::cli) subresource: String,
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) name: String,
    pub(in crate::cli) allowed: bool,
    status: Option<Status>,
    pub(in crate::cli) violations: Vec<Violation>,
    warnings: Vec<String>,
    pub(in crate::cli) error: Option<PolicyErrorRecord>,
    microseconds: u64,
    /// The detected type of its file.
    #[serde(rename = "inputType", skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) input_type: Option<InputType>,
    /// Why it was not evaluated, if so.
    #[serde(rename = "notEvaluated")]
    pub(in crate::cli) not_evaluated: Option<String>,
    #[serde(rename = "explain", skip_serializing_if = "Option::is_none")]
    pub(in crate::cli) explanation: Option<Explanation>,
    /// Whether the webhook would have returned no decision.
    #[serde(skip)]
    pub(in crate::cli) failed: bool,
    /// Its location.
    #[serde(skip)]
    pub(in crate::cli) line_range: Option<LineRange>,
}

#[derive(Debug, Serialize)]
struct Status {
    code: u16,
    reason: String,
    message: String,
}

impl ReviewRecord {
    pub(in crate::cli) fn new(
        review: &Review<'_>,
        source: &str,
        decided: Result<Decision, DecideError>,
        took: Duration,
    ) -> Self {
        let mut record = Self {
            source: source.to_owned(),
            uid: review.uid.clone().into_owned(),
            operation: review.operation.as_str(),
            resource: review.resource_path(),
            subresource: review.sub_resource.clone().into_owned(),
            namespace: review.namespace.clone().into_owned(),
            name: review.name.clone().into_owned(),
            allowed: true,
            status: None,
            violations: Vec::new(),
            warnings: Vec::new(),
            error: None,
            microseconds: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            input_type: None,
            not_evaluated: None,
            explanation: None,
            failed: false,
            line_range: None,
        };
        match decided {
            Ok(decision) => record.add_decision(decision),
            Err(error) => record.set_error(String::new(), error.to_string()),
        }
        record
    }

    fn add_decision(&mut self, decision: Decision) {
        self.warnings = decision.warnings;
        self.violations = decision.violations.into_iter().map(Violation::from).collect();
        if let Some(denial) = decision.denial {
            self.allowed = false;
            let (code, reason, message) = (denial.code, denial.reason, denial.message);
            self.status = Some(Status { code, reason, message });
        }
        let policy_error = decision.policy_errors.into_iter().next();
        self.error = policy_error.map(|f| PolicyErrorRecord { policy: f.policy, cause: f.cause });
        if let Some(policy_error) = decision.failure {
            self.set_error(policy_error.policy, policy_error.cause);
        }
    }

    /// Records an error: the webhook would have returned no decision.
    fn set_error(&mut self, policy: String, cause: String) {
        (self.allowed, self.failed) = (false, true);
        let message =
            if policy.is_empty() { cause.clone() } else { format!("policy {policy}: {cause}") };
        self.status = Some(Status { code: 500, reason: "InternalError".to_owned(), message });
        self.error = Some(PolicyErrorRecord { policy, cause });
    }

    pub(in crate::cli) fn outcome(&self) -> ExitStatus {
        match (&self.error, self.allowed) {
            (Some(_), _) => ExitStatus::Engine,
            (None, false) => ExitStatus::Denied,
            (None, true) => ExitStatus::Ok,
        }
    }

    /// Returns whether a policy or the engine failed, whatever the decision is.
    pub(in crate::cli) fn engine_outcome(&self) -> ExitStatus {
        if self.error.is_some() { ExitStatus::Engine } else { ExitStatus::Ok }
    }

    /// Reports whether a violation warns.
    pub(in crate::cli) fn warns(&self) -> bool {
        self.violations.iter().any(|violation| violation.has_effect(Effect::Warn))
    }

    pub(in crate::cli) fn object(&self) -> String {
        let Self { operation, resource, subresource, namespace, name, .. } = self;
        describe_request(operation, resource, subresource, namespace, name)
    }

    pub(in crate::cli) fn item(&self) -> ReportItem<'_> {
        let line = |violation| ReportedViolation { violation, location: None };
        ReportItem {
            source: &self.source,
            region: self.line_range.as_ref().map(|LineRange { file, start, end }| Region {
                file,
                start: Some(*start),
                end: *end,
            }),
            object: self.object(),
            outcome: self.outcome(),
            message: self.status.as_ref().map(|s| s.message.clone()).unwrap_or_default(),
            time: Some(Duration::from_micros(self.microseconds)),
            lines: self.violations.iter().map(line).collect(),
            is_located: false,
            error: self.error.as_ref(),
            not_evaluated: self.not_evaluated.as_deref(),
            result_kind: self.result_kind(),
        }
    }

    /// Returns the outcome that the summary counts.
    pub(in crate::cli) fn result_kind(&self) -> ResultKind {
        ResultKind::of(self.outcome(), self.not_evaluated.is_none(), self.warns())
    }
}

/// Returns `UPDATE apps/v1/deployments/scale ns/name`.
pub(in crate::cli) fn describe_request(
    operation: &str,
    resource: &str,
    subresource: &str,
    namespace: &str,
    name: &str,
) -> String {
    let sub = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
    let namespace = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let kind = resource.trim_start_matches('/');
    one_line(&format!("{operation} {kind}{sub} {namespace}{name}"), 512)
}
