//! The trace of a request: the spans of its steps, and attributes of the review and of its decision.
//!
//! It has no content of objects: messages of violations and errors of policies can contain parts of them.

use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderValue};
use opgate_admission::policy::Decision;
use opgate_admission::review::Review;
use opgate_admission::step::{Step, StepId, StepRecorder, StepSpan};
use opgate_telemetry::{Attribute, SpanRecord, Telemetry, Trace};

/// The header of W3C Trace Context.
const TRACEPARENT: &str = "traceparent";

/// Maximum number of rules in an attribute, which is limited in bytes, too.
const MAX_RULES: usize = 32;

/// A traced request.
#[derive(Debug)]
pub(super) struct RequestTrace {
    trace: Trace,
}

impl RequestTrace {
    /// Begins a trace, if the request is sampled.
    pub(super) fn start(
        telemetry: &Telemetry,
        headers: &HeaderMap,
        started: Instant,
    ) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        // More than one is ambiguous.
        let traceparent = values.next().filter(|_| values.next().is_none());
        let trace = telemetry.start_trace(traceparent.map(HeaderValue::as_bytes), started)?;
        Some(Self { trace })
    }

    /// The ids of the trace and of the span of the request.
    pub(super) fn ids(&self) -> (String, String) {
        (self.trace.id().to_owned(), self.trace.span_id())
    }

    /// Adds what the review is for.
    pub(super) fn set_review(&self, review: &Review<'_>) {
        self.trace.add_attributes([
            Attribute::text("opgate.request.uid", &review.uid),
            Attribute::text("opgate.request.operation", review.operation.as_str()),
            Attribute::text("opgate.request.resource", &review.resource_path()),
            Attribute::text("opgate.request.namespace", &review.namespace),
            Attribute::text("opgate.request.name", &review.name),
            Attribute::condition("opgate.request.dry_run", review.dry_run),
        ]);
    }

    /// Adds the decision.
    pub(super) fn set_decision(&self, decision: &Decision) {
        let outcome = match (&decision.failure, &decision.denial) {
            (Some(_), _) => "failed",
            (None, Some(_)) => "denied",
            (None, None) => "allowed",
        };
        self.trace.add_attributes([Attribute::text("opgate.decision", outcome)]);
        if let Some(denial) = &decision.denial {
            let code = Attribute::number("opgate.decision.code", denial.code.into());
            self.trace.add_attributes([code]);
        }
    }

    /// Ends the trace with the response. `only` has the policies that the path names.
    pub(super) fn end(self, telemetry: &Telemetry, only: Option<&str>, status: u16) {
        let (route, path) = match only {
            Some(names) => ("/validate/{policies}", format!("/validate/{names}")),
            None => ("/validate", "/validate".to_owned()),
        };
        self.trace.add_attributes([
            Attribute::text("http.request.method", "POST"),
            Attribute::text("http.route", route),
            Attribute::text("url.path", &path),
            Attribute::text("url.scheme", "https"),
            Attribute::number("http.response.status_code", status.into()),
        ]);
        let error = (status >= 500).then(|| status.to_string());
        telemetry.end_trace(self.trace, &format!("POST {route}"), error.as_deref());
    }
}

impl StepRecorder for RequestTrace {
    fn trace_id(&self) -> &str {
        self.trace.id()
    }

    fn next_id(&self) -> StepId {
        StepId(self.trace.next_span_id())
    }

    fn record(&self, step: Step<'_>, span: StepSpan) {
        let (name, attributes, error) = match step {
            Step::PermitWait { is_acquired } => {
                let error = (!is_acquired).then_some("no permit");
                ("wait for permit".to_owned(), Vec::new(), error)
            }
            Step::Call { policy, version, rules, error } => {
                let mut attributes = vec![
                    Attribute::text("opgate.policy.name", policy),
                    Attribute::text("opgate.policy.version", version),
                ];
                if !rules.is_empty() {
                    let rules: Vec<_> = rules.iter().take(MAX_RULES).copied().collect();
                    attributes.push(Attribute::text("opgate.violated_rules", &rules.join(",")));
                }
                attributes.extend(error.map(|error| Attribute::text("error.type", error)));
                (format!("evaluate {policy}"), attributes, error)
            }
            Step::Cluster { wait, error } => (wait.as_str().to_owned(), Vec::new(), error),
        };
        let parent = span.parent.map(|StepId(parent)| parent);
        let (StepId(id), started, error) = (span.id, span.started, error.map(str::to_owned));
        self.trace.add_span(SpanRecord { id, parent, name, started, attributes, error });
    }
}

/// The response time of a request, with its trace if it has one.
pub(super) struct ResponseTime<'t> {
    pub(super) duration: Duration,
    pub(super) trace: Option<&'t RequestTrace>,
}
