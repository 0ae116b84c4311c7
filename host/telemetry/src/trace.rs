//! The spans of one traced request. Their number and the bytes of their texts are limited, because clients determine
//! both.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, SpanFlags, Status};
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};
use opgate_text::one_line;
use parking_lot::Mutex;

use crate::trace_context::TraceContext;

/// Maximum number of spans of a trace. A review is evaluated again when the cluster changes.
const MAX_SPANS: usize = 128;

/// Maximum number of requests that are traced at the same time. A trace has some 100 KiB at most.
const MAX_ACTIVE_TRACES: usize = 256;

/// Maximum bytes of a text.
const MAX_TEXT_BYTES: usize = 256;

/// Bytes of a span in addition to its texts.
const SPAN_OVERHEAD_BYTES: usize = 512;

/// Bytes of an attribute in addition to its texts.
const ATTRIBUTE_OVERHEAD_BYTES: usize = 64;

/// The flag of a sampled span in W3C Trace Context.
const SAMPLED_FLAG: u32 = 1;

/// An attribute of a span.
#[derive(Debug, Clone, PartialEq)]
pub struct Attribute(KeyValue);

impl Attribute {
    /// A text on one line, cut if it is too long.
    #[must_use]
    pub fn text(key: &'static str, text: &str) -> Self {
        Self::new(key, Value::StringValue(one_line(text, MAX_TEXT_BYTES)))
    }

    /// A number.
    #[must_use]
    pub fn number(key: &'static str, number: i64) -> Self {
        Self::new(key, Value::IntValue(number))
    }

    /// A condition.
    #[must_use]
    pub fn condition(key: &'static str, holds: bool) -> Self {
        Self::new(key, Value::BoolValue(holds))
    }

    fn new(key: &'static str, value: Value) -> Self {
        let value = Some(AnyValue { value: Some(value) });
        Self(KeyValue { key: key.to_owned(), value, ..Default::default() })
    }
}

/// A part of a request that has ended.
#[derive(Debug, Clone)]
pub struct SpanRecord {
    /// Its id.
    pub id: u64,
    /// The span that it is a part of; none for a part of the request.
    pub parent: Option<u64>,
    /// Its name.
    pub name: String,
    /// When it began.
    pub started: Instant,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
    /// The error, if it failed.
    pub error: Option<String>,
}

/// The trace of one request.
#[derive(Debug)]
pub struct Trace {
    id: TraceId,
    id_text: String,
    root: SpanId,
    /// The span of the client.
    client: Option<SpanId>,
    started: Instant,
    started_at: SystemTime,
    parts: Mutex<Parts>,
    _active: ActiveTrace,
}

/// Counts a trace until it ends, or until its request is given up.
#[derive(Debug)]
pub(crate) struct ActiveTrace(Arc<AtomicUsize>);

impl ActiveTrace {
    /// Counts one more, if there are not too many. Requests of which the client decides leave room for others.
    pub(crate) fn begin(active: &Arc<AtomicUsize>, is_decided_by_client: bool) -> Option<Self> {
        let max = if is_decided_by_client { MAX_ACTIVE_TRACES / 2 } else { MAX_ACTIVE_TRACES };
        let next = |count: usize| (count < max).then_some(count.saturating_add(1));
        let counted = active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        counted.is_ok().then(|| Self(active.clone()))
    }
}

impl Drop for ActiveTrace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Parts {
    spans: Vec<Span>,
    /// Attributes of the request.
    attributes: Vec<Attribute>,
    /// Spans beyond the limit.
    dropped: usize,
}

/// The spans of a trace that has ended.
#[derive(Debug)]
pub(crate) struct EndedTrace {
    pub(crate) spans: Vec<Span>,
    pub(crate) bytes: usize,
    /// Spans beyond the limit.
    pub(crate) dropped: usize,
}

impl Trace {
    pub(crate) fn new(client: Option<TraceContext>, started: Instant, active: ActiveTrace) -> Self {
        let ids = RandomIdGenerator::default();
        let id = client.map_or_else(|| ids.new_trace_id(), |client| client.trace_id);
        Self {
            id,
            id_text: id.to_string(),
            root: ids.new_span_id(),
            client: client.map(|client| client.span_id),
            started,
            started_at: SystemTime::now().checked_sub(started.elapsed()).unwrap_or(UNIX_EPOCH),
            parts: Mutex::default(),
            _active: active,
        }
    }

    /// The id in hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id_text
    }

    /// The id of the span of the request.
    #[must_use]
    pub fn span_id(&self) -> String {
        self.root.to_string()
    }

    /// Returns a new id of a span.
    #[must_use]
    pub fn next_span_id(&self) -> u64 {
        u64::from_be_bytes(RandomIdGenerator::default().new_span_id().to_bytes())
    }

    /// Adds attributes of the request.
    pub fn add_attributes(&self, attributes: impl IntoIterator<Item = Attribute>) {
        self.parts.lock().attributes.extend(attributes);
    }

    /// Adds a span that ends now.
    pub fn add_span(&self, record: SpanRecord) {
        let mut parts = self.parts.lock();
        // One is for the request.
        if parts.spans.len() + 1 >= MAX_SPANS {
            parts.dropped += 1;
            return;
        }
        let parent = record.parent.map_or(self.root, SpanId::from);
        let mut span = self.span(SpanId::from(record.id), record.name, record.started);
        span.parent_span_id = parent.to_bytes().to_vec();
        span.kind = SpanKind::Internal.into();
        span.attributes = record.attributes.into_iter().map(|attribute| attribute.0).collect();
        span.status = record.error.as_deref().map(error_status);
        parts.spans.push(span);
    }

    /// Ends the request.
    pub(crate) fn end(self, name: &str, error: Option<&str>) -> EndedTrace {
        let mut root = self.span(self.root, one_line(name, MAX_TEXT_BYTES), self.started);
        root.kind = SpanKind::Server.into();
        root.status = error.map(error_status);
        if let Some(client) = self.client {
            root.parent_span_id = client.to_bytes().to_vec();
            root.flags |= flag(SpanFlags::ContextIsRemoteMask);
        }
        let Parts { mut spans, attributes, dropped } = self.parts.into_inner();
        root.attributes = attributes.into_iter().map(|attribute| attribute.0).collect();
        spans.push(root);
        let bytes = spans.iter().map(span_bytes).sum();
        EndedTrace { spans, bytes, dropped }
    }

    /// A span that ends now.
    fn span(&self, id: SpanId, name: String, started: Instant) -> Span {
        Span {
            trace_id: self.id.to_bytes().to_vec(),
            span_id: id.to_bytes().to_vec(),
            flags: SAMPLED_FLAG | flag(SpanFlags::ContextHasIsRemoteMask),
            name,
            start_time_unix_nano: self.nanos_at(started),
            end_time_unix_nano: self.nanos_at(Instant::now()),
            ..Span::default()
        }
    }

    fn nanos_at(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.started);
        unix_nanos(self.started_at.checked_add(since).unwrap_or(self.started_at))
    }
}

fn flag(flag: SpanFlags) -> u32 {
    u32::try_from(i32::from(flag)).unwrap_or_default()
}

fn error_status(error: &str) -> Status {
    Status { message: one_line(error, MAX_TEXT_BYTES), code: StatusCode::Error.into() }
}

fn span_bytes(span: &Span) -> usize {
    let attributes = span.attributes.iter().map(|attribute| {
        let value = attribute.value.as_ref().and_then(|value| value.value.as_ref());
        let text = if let Some(Value::StringValue(text)) = value { text.len() } else { 0 };
        ATTRIBUTE_OVERHEAD_BYTES + attribute.key.len() + text
    });
    let status = span.status.as_ref().map_or(0, |status| status.message.len());
    SPAN_OVERHEAD_BYTES + span.name.len() + status + attributes.sum::<usize>()
}

/// Unix time in nanoseconds.
pub(crate) fn unix_nanos(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn active() -> ActiveTrace {
        ActiveTrace::begin(&Arc::default(), false).unwrap()
    }

    #[test]
    fn traces_at_the_same_time_are_limited() {
        let count = Arc::default();
        let begin = |is_decided_by_client: bool| {
            let count = &count;
            let next = move || ActiveTrace::begin(count, is_decided_by_client);
            std::iter::from_fn(next).take(1_000)
        };
        let mut active: Vec<_> = begin(true).collect();
        assert_eq!(active.len(), MAX_ACTIVE_TRACES / 2);
        active.extend(begin(false));
        assert_eq!(active.len(), MAX_ACTIVE_TRACES);
        active.pop();
        assert!(ActiveTrace::begin(&count, false).is_some());
    }

    #[test]
    fn spans_and_texts_of_a_trace_are_limited() {
        let trace = Trace::new(None, Instant::now(), active());
        for _ in 0..1_000 {
            let text = "x\n".repeat(5_000);
            trace.add_span(SpanRecord {
                id: trace.next_span_id(),
                parent: None,
                name: "evaluate a".to_owned(),
                started: Instant::now(),
                attributes: vec![Attribute::text("opgate.policy.name", &text)],
                error: Some(text),
            });
        }
        trace.add_attributes([Attribute::text("url.path", &"/a".repeat(9_000))]);
        let ended = trace.end(&"n".repeat(9_000), None);
        assert_eq!((ended.spans.len(), ended.dropped), (MAX_SPANS, 1_001 - MAX_SPANS));
        assert!(ended.bytes < MAX_SPANS * 2_048, "{}", ended.bytes);
        for span in &ended.spans {
            assert!(span.name.len() <= MAX_TEXT_BYTES);
            assert!(span.status.iter().all(|status| status.message.len() <= MAX_TEXT_BYTES));
            let value = span.attributes[0].value.clone().unwrap().value.unwrap();
            let Value::StringValue(text) = value else { panic!("{value:?}") };
            assert!(text.len() <= MAX_TEXT_BYTES && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn spans_refer_to_their_parent() {
        let header = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let client = TraceContext::parse(header);
        let trace = Trace::new(client, Instant::now(), active());
        let (call, wait) = (trace.next_span_id(), trace.next_span_id());
        for (id, parent) in [(wait, Some(call)), (call, None)] {
            let (name, started) = ("step".to_owned(), Instant::now());
            let (attributes, error) = (Vec::new(), None);
            trace.add_span(SpanRecord { id, parent, name, started, attributes, error });
        }
        let root = trace.span_id();
        let spans = trace.end("POST /validate", Some("500")).spans;
        let hex = |id: &[u8]| SpanId::from_bytes(id.try_into().unwrap()).to_string();
        let parents: Vec<_> = spans.iter().map(|span| hex(&span.parent_span_id)).collect();
        assert_eq!(parents, [format!("{call:016x}"), root.clone(), "b7ad6b7169203331".to_owned()]);
        let last = spans.last().unwrap();
        assert_eq!(hex(&last.span_id), root);
        assert_eq!(last.kind(), SpanKind::Server);
        let expected = client.unwrap().trace_id.to_bytes();
        assert!(spans.iter().all(|span| span.trace_id == expected));
    }
}
