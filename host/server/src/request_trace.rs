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

/// The error of a request whose client disconnected before the response.
const CANCELLED: &str = "cancelled";

/// A traced request.
#[derive(Debug)]
pub(super) struct RequestTrace {
    trace: Trace,
}

impl RequestTrace {
    fn start(telemetry: &Telemetry, headers: &HeaderMap, started: Instant) -> Option<Self> {
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

    /// Ends the trace with the status of the response, if there is one. `only` has the policies that the path names.
    fn end(self, telemetry: &Telemetry, only: Option<&str>, status: Option<u16>) {
        let (route, path) = match only {
            Some(names) => ("/validate/{policies}", format!("/validate/{names}")),
            None => ("/validate", "/validate".to_owned()),
        };
        self.trace.add_attributes([
            Attribute::text("http.request.method", "POST"),
            Attribute::text("http.route", route),
            Attribute::text("url.path", &path),
            Attribute::text("url.scheme", "https"),
        ]);
        let error = if let Some(status) = status {
            let status_code = Attribute::number("http.response.status_code", status.into());
            self.trace.add_attributes([status_code]);
            (status >= 500).then(|| status.to_string())
        } else {
            self.trace.add_attributes([Attribute::text("error.type", CANCELLED)]);
            Some(CANCELLED.to_owned())
        };
        telemetry.end_trace(self.trace, &format!("POST {route}"), error.as_deref());
    }
}

/// The trace of a request in progress. It ends also if the client disconnects and everything is dropped.
#[derive(Debug)]
pub(super) struct OpenTrace<'t> {
    telemetry: &'t Telemetry,
    /// The policies that the path names.
    only: Option<&'t str>,
    trace: Option<RequestTrace>,
}

impl<'t> OpenTrace<'t> {
    /// Begins a trace, if the request is sampled.
    pub(super) fn start(
        telemetry: &'t Telemetry,
        only: Option<&'t str>,
        headers: &HeaderMap,
        started: Instant,
    ) -> Self {
        Self { telemetry, only, trace: RequestTrace::start(telemetry, headers, started) }
    }

    pub(super) fn trace(&self) -> Option<&RequestTrace> {
        self.trace.as_ref()
    }

    /// Ends it with the status of the response.
    pub(super) fn end(mut self, status: u16) {
        if let Some(trace) = self.trace.take() {
            trace.end(self.telemetry, self.only, Some(status));
        }
    }
}

impl Drop for OpenTrace<'_> {
    fn drop(&mut self) {
        if let Some(trace) = self.trace.take() {
            trace.end(self.telemetry, self.only, None);
        }
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
