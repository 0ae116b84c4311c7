//! The queue of traces, and the thread that exports them and the metrics.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::Uri;
use http::uri::Authority;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource as ResourceMessage;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};
use opgate_text::one_line;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::client::{Client, ClientError, ExportError};
use crate::counts::Counts;
use crate::metric_messages::{self, MetricTimes};
use crate::sampler::{Sampler, Sampling};
use crate::settings::Settings;
use crate::trace::{ActiveTrace, EndedTrace, Trace};
use crate::trace_context::TraceContext;

/// Maximum bytes of the traces that wait to be exported.
const MAX_QUEUED_BYTES: usize = 8 << 20;

/// Maximum number of spans of an export, and the time after which it has fewer.
const MAX_BATCH_SPANS: usize = 512;
const TRACES_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum time for the last export when the server ends.
const MAX_END_TIME: Duration = Duration::from_secs(5);

/// Of this, the time for an export in progress, which can wait for a collector that does not respond.
const MAX_LAST_WAIT: Duration = Duration::from_secs(1);

/// The interval of log lines about failed exports.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The name of the service if nothing sets one, and that of the instrumentation.
const NAME: &str = "opgate";

/// Gives the text of `/metrics`.
type MetricsSource = Box<dyn Fn() -> Bytes + Send>;

/// The reason why there is no export.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The client cannot be set up.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The thread did not start.
    #[error("no thread for the OTLP export: {0}")]
    Thread(#[from] io::Error),
}

enum Message {
    Trace(EndedTrace),
    Metrics(MetricsSource),
}

/// Traces requests and exports metrics.
#[derive(Debug)]
pub struct Telemetry {
    /// None if traces are off.
    sampler: Option<Sampler>,
    /// The number of traced requests in progress.
    active: Arc<AtomicUsize>,
    queue: UnboundedSender<Message>,
    queued_bytes: Arc<AtomicUsize>,
    counts: Counts,
    thread: Mutex<Option<ThreadEnd>>,
}

/// Ends the thread that exports.
#[derive(Debug)]
struct ThreadEnd {
    end: watch::Sender<bool>,
    ended: mpsc::Receiver<()>,
}

impl Telemetry {
    /// Starts the thread that exports.
    ///
    /// # Errors
    /// If a file of CAs cannot be read, or the thread does not start.
    pub fn start(settings: Settings) -> Result<Self, StartError> {
        let sampler = settings.traces.is_some().then(|| Sampler::new(settings.sampler));
        let client = Client::new(
            settings.headers.clone(),
            settings.certificate.as_deref(),
            settings.timeout,
        )?;
        let (queue, messages) = unbounded_channel();
        let telemetry = Self {
            sampler,
            active: Arc::default(),
            queue,
            queued_bytes: Arc::default(),
            counts: Counts::default(),
            thread: Mutex::default(),
        };
        let (end, end_signal) = watch::channel(false);
        let exporter = Exporter {
            client,
            end: Some(end_signal),
            resource: resource(settings.instance.as_deref()),
            traces: settings.traces,
            metrics: settings.metrics,
            metrics_source: None,
            pending: Vec::new(),
            queued_bytes: telemetry.queued_bytes.clone(),
            counts: telemetry.counts.clone(),
            started: SystemTime::now(),
            log: ErrorLog::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (sender, ended) = mpsc::channel();
        std::thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            runtime.block_on(exporter.run(messages, settings.metrics_interval));
            // The server waits no longer, if it is gone.
            let _ = sender.send(());
        })?;
        *telemetry.thread.lock() = Some(ThreadEnd { end, ended });
        Ok(telemetry)
    }

    /// Begins the trace of a request with this `traceparent`, if it is sampled.
    #[must_use]
    pub fn start_trace(&self, traceparent: Option<&[u8]>, started: Instant) -> Option<Trace> {
        let sampler = self.sampler.as_ref()?;
        let client = traceparent.and_then(TraceContext::parse);
        let random = u64::from_be_bytes(RandomIdGenerator::default().new_span_id().to_bytes());
        let active = match sampler.sample(client, random, started) {
            Sampling::Traced => ActiveTrace::begin(&self.active, sampler.is_decided_by(client)),
            Sampling::NotSampled => return None,
            Sampling::Limited => None,
        };
        if active.is_none() {
            self.counts.limited.inc();
        }
        Some(Trace::new(client, started, active?))
    }

    /// Ends the trace of a request and queues it. Never waits.
    pub fn end_trace(&self, trace: Trace, name: &str, error: Option<&str>) {
        let mut ended = trace.end(name, error);
        self.counts.add_spans("dropped", std::mem::take(&mut ended.dropped));
        let (spans, bytes) = (ended.spans.len(), ended.bytes);
        if !self.reserve(bytes) {
            self.counts.add_spans("dropped", spans);
        } else if self.queue.send(Message::Trace(ended)).is_err() {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.add_spans("failed", spans);
        }
    }

    /// Reserves room in the queue.
    fn reserve(&self, bytes: usize) -> bool {
        let with =
            |queued: usize| queued.checked_add(bytes).filter(|queued| *queued <= MAX_QUEUED_BYTES);
        self.queued_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).is_ok()
    }

    /// Exports the metrics in this `OpenMetrics` text at an interval.
    pub fn export_metrics(&self, text: impl Fn() -> Bytes + Send + 'static) {
        // Without a thread there is no export, and the metrics of the export show it.
        let _ = self.queue.send(Message::Metrics(Box::new(text)));
    }

    /// The metrics of the export.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// Exports what waits, within a time limit. Later traces are not exported.
    pub fn finish(&self) {
        let Some(ThreadEnd { end, ended }) = self.thread.lock().take() else { return };
        if end.send(true).is_ok() && ended.recv_timeout(MAX_END_TIME).is_err() {
            tracing::warn!("the last traces and metrics were not exported in time");
        }
    }
}

/// The attributes of this server: those of the environment, and its name and version.
fn resource(instance: Option<&str>) -> ResourceMessage {
    use opentelemetry::KeyValue;
    let found = Resource::builder().build();
    let has = |key: &'static str| found.get(&key.into()).is_some();
    let is_unnamed = found
        .get(&"service.name".into())
        .is_none_or(|name| name.as_str().starts_with("unknown_service"));
    let mut builder = Resource::builder();
    if is_unnamed {
        builder = builder.with_service_name(NAME);
    }
    if !has("service.version") {
        let version = env!("CARGO_PKG_VERSION");
        builder = builder.with_attribute(KeyValue::new("service.version", version));
    }
    if let Some(instance) = instance.filter(|_| !has("service.instance.id")) {
        let instance = instance.to_owned();
        builder = builder.with_attribute(KeyValue::new("service.instance.id", instance));
    }
    let attributes = ResourceAttributesWithSchema::from(&builder.build()).attributes.0;
    ResourceMessage { attributes, ..ResourceMessage::default() }
}

fn scope() -> InstrumentationScope {
    let (name, version) = (NAME.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    InstrumentationScope { name, version, ..InstrumentationScope::default() }
}

/// The thread that exports.
struct Exporter {
    client: Client,
    /// The signal to end, until it is there.
    end: Option<watch::Receiver<bool>>,
    resource: ResourceMessage,
    traces: Option<Uri>,
    metrics: Option<Uri>,
    metrics_source: Option<MetricsSource>,
    /// Spans that wait for the next export, with the bytes of their traces.
    pending: Vec<(Span, usize)>,
    queued_bytes: Arc<AtomicUsize>,
    counts: Counts,
    started: SystemTime,
    log: ErrorLog,
}

impl Exporter {
    async fn run(mut self, mut messages: UnboundedReceiver<Message>, metrics_interval: Duration) {
        let mut traces = tokio::time::interval(TRACES_INTERVAL);
        let mut metrics = tokio::time::interval(metrics_interval);
        for timer in [&mut traces, &mut metrics] {
            timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        let end = self.end.clone();
        let mut end = std::pin::pin!(ended(end));
        loop {
            tokio::select! {
                biased;
                () = end.as_mut() => break,
                message = messages.recv() => match message {
                    Some(Message::Trace(trace)) => self.add(trace),
                    Some(Message::Metrics(source)) => {
                        self.metrics_source = Some(source);
                        // The first export is due after an interval.
                        metrics.reset();
                    }
                    None => break,
                },
                _ = traces.tick() => self.export_traces().await,
                _ = metrics.tick() => self.export_metrics().await,
            }
            if self.pending.len() >= MAX_BATCH_SPANS {
                self.export_traces().await;
            }
        }
        self.end = None;
        while let Ok(message) = messages.try_recv() {
            match message {
                Message::Trace(trace) => self.add(trace),
                Message::Metrics(source) => self.metrics_source = Some(source),
            }
        }
        // The server waits no longer than this.
        let last = async {
            self.export_traces().await;
            self.export_metrics().await;
        };
        let _ = tokio::time::timeout(MAX_END_TIME, last).await;
    }

    /// Sends a message. After the signal to end, it waits only a little longer.
    async fn post(&self, uri: &Uri, message: Vec<u8>) -> Result<Bytes, ExportError> {
        let end = self.end.clone();
        let given_up = async {
            ended(end).await;
            tokio::time::sleep(MAX_LAST_WAIT).await;
        };
        tokio::select! {
            sent = self.client.post(uri, message) => sent,
            () = given_up => Err(ExportError::new("no response until the server ended")),
        }
    }

    /// Adds a trace. Its bytes stay reserved until its last span is exported.
    fn add(&mut self, trace: EndedTrace) {
        let last = trace.spans.len().saturating_sub(1);
        let with_bytes = |(at, span)| (span, if at == last { trace.bytes } else { 0 });
        self.pending.extend(trace.spans.into_iter().enumerate().map(with_bytes));
    }

    async fn export_traces(&mut self) {
        let Some(uri) = self.traces.clone() else { return };
        while !self.pending.is_empty() {
            let batch: Vec<_> =
                self.pending.drain(..self.pending.len().min(MAX_BATCH_SPANS)).collect();
            let bytes: usize = batch.iter().map(|(_, bytes)| bytes).sum();
            let spans: Vec<_> = batch.into_iter().map(|(span, _)| span).collect();
            let count = spans.len();
            let sent = self.post(&uri, self.traces_message(spans)).await;
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            let rejected = sent.as_ref().map_or(count, |body| rejected_spans(body).min(count));
            self.counts.add_spans("exported", count - rejected);
            self.counts.add_spans("failed", rejected);
            let is_ok = sent.is_ok();
            self.report("traces", &uri, sent);
            if !is_ok {
                // The others wait for the next time, so that metrics do not wait for all of them.
                return;
            }
        }
    }

    fn traces_message(&self, spans: Vec<Span>) -> Vec<u8> {
        let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans, ..Default::default() }];
        let resource = Some(self.resource.clone());
        let resource_spans = vec![ResourceSpans { resource, scope_spans, ..Default::default() }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    async fn export_metrics(&mut self) {
        let (Some(uri), Some(source)) = (self.metrics.clone(), &self.metrics_source) else {
            return;
        };
        let text = source();
        let times = MetricTimes { since: self.started, now: SystemTime::now() };
        let text = std::str::from_utf8(&text).unwrap_or_default();
        let request = metric_messages::request(text, &times, self.resource.clone(), scope());
        let message = request.encode_to_vec();
        let sent = self.post(&uri, message).await;
        self.report("metrics", &uri, sent);
    }

    fn report(&mut self, signal: &'static str, uri: &Uri, sent: Result<Bytes, ExportError>) {
        self.counts.count_export(signal, sent.is_ok());
        match sent {
            Ok(body) => {
                if let Some(rejection) = rejection(signal, &body) {
                    self.log.write(signal, uri, &rejection);
                }
            }
            Err(error) => self.log.write(signal, uri, &error.to_string()),
        }
    }
}

/// Waits for the signal to end; without one, forever.
async fn ended(end: Option<watch::Receiver<bool>>) {
    if let Some(mut end) = end
        && end.wait_for(|is_ended| *is_ended).await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// The number of spans that the collector did not accept.
fn rejected_spans(body: &[u8]) -> usize {
    let response = ExportTraceServiceResponse::decode(body).unwrap_or_default();
    let rejected = response.partial_success.map_or(0, |partial| partial.rejected_spans);
    usize::try_from(rejected).unwrap_or_default()
}

/// The reason why the collector did not accept all of an export.
fn rejection(signal: &str, body: &[u8]) -> Option<String> {
    let message = if signal == "traces" {
        ExportTraceServiceResponse::decode(body).ok()?.partial_success?.error_message
    } else {
        ExportMetricsServiceResponse::decode(body).ok()?.partial_success?.error_message
    };
    (!message.is_empty()).then(|| one_line(&message, 512))
}

/// Log lines about failed exports, at most one in an interval.
#[derive(Debug, Default)]
struct ErrorLog {
    last: Option<Instant>,
    suppressed: u64,
}

impl ErrorLog {
    fn write(&mut self, signal: &str, uri: &Uri, error: &str) {
        if self.last.is_some_and(|last| last.elapsed() < LOG_INTERVAL) {
            self.suppressed = self.suppressed.saturating_add(1);
            return;
        }
        self.last = Some(Instant::now());
        let suppressed = std::mem::take(&mut self.suppressed);
        // A path can have a token.
        let collector = uri.authority().map_or("", Authority::as_str);
        tracing::warn!(signal, collector, error, suppressed, "OTLP export failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SettingsOverrides;

    #[test]
    fn traces_beyond_the_queue_are_dropped_and_counted() {
        // No thread empties the queue.
        let (queue, mut messages) = unbounded_channel();
        let overrides = SettingsOverrides {
            endpoint: Some("http://127.0.0.1:1".to_owned()),
            ratio: Some(1.0),
            max_traces_per_second: u32::MAX,
            metrics_interval: None,
        };
        let settings = Settings::resolve(overrides, |_| None).unwrap().unwrap();
        let telemetry = Telemetry {
            sampler: Some(Sampler::new(settings.sampler)),
            active: Arc::default(),
            queue,
            queued_bytes: Arc::default(),
            counts: Counts::default(),
            thread: Mutex::default(),
        };
        for _ in 0..MAX_QUEUED_BYTES / 256 {
            let trace = telemetry.start_trace(None, Instant::now()).unwrap();
            telemetry.end_trace(trace, "POST /validate", None);
        }
        let queued = std::iter::from_fn(|| messages.try_recv().ok());
        let bytes: usize = queued
            .map(|message| if let Message::Trace(trace) = message { trace.bytes } else { 0 })
            .sum();
        assert!(bytes > MAX_QUEUED_BYTES / 2 && bytes <= MAX_QUEUED_BYTES, "{bytes}");
        let mut registry = prometheus_client::registry::Registry::default();
        telemetry.counts().register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let dropped =
            text.lines().find_map(|line| line.strip_prefix("spans_total{result=\"dropped\"} "));
        assert!(dropped.unwrap().parse::<usize>().unwrap() > 0, "{text}");
    }
}
