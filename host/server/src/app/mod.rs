//! The requests of the webhook port and of the ops port.

#![expect(clippy::result_large_err, reason = "an answer is as good as an error: both are sent")]

mod ui_routes;

use std::net::Ipv4Addr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Options;
use super::active_set::{ActiveConfiguration, ActivePolicySet, timestamp};
use super::body_limiter::{Arrival, BodyError, BodyLimiter};
use super::bucket::TokenBucket;
use super::connection_limiter::Origin;
use super::denial_observer::DenialObserver;
use super::liveness::Liveness;
use super::metrics::{GaugeGuard, Metrics, MetricsText, accepts_exemplars};
use super::pause_detector::PauseDetector;
use super::rate_limited_log::RateLimitedLog;
use super::readiness;
use super::registration_names::RegistrationNames;
use super::request_memory::{self, RequestMemory, ResponseCharge};
use super::request_trace::{OpenTrace, RequestTrace, ResponseTime};
use super::state::{self, ClusterStatus};
use super::ui::{ReviewReads, Ui};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::{ALLOW, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use opgate_admission::cluster::QueryStats;
use opgate_admission::evaluation::{DecideError, Observer};
use opgate_admission::policy::{Policy, response};
use opgate_admission::review::{self, Review, ReviewError};
use opgate_admission::step::StepRecorder;
use opgate_document::Charge;
use opgate_recording::Recorder;
use opgate_telemetry::Telemetry;
use opgate_text::units::parse_duration;

/// Time limit of a body. An API server waits at most 30 s for the whole response.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The response must be sent this long before the API server's timeout.
const RESPONSE_MARGIN: Duration = Duration::from_millis(200);

/// Time for a response if the request does not set it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Delay before the response to a client that has filled its share of a queue. Otherwise a client
/// that sends large objects without a pause would keep the server busy with reading and rejecting
/// them.
const SHED_DELAY: Duration = Duration::from_secs(1);

/// Delay in that case for a large review, which takes longer to read.
const LARGE_SHED_DELAY: Duration = Duration::from_secs(5);
const LARGE_REVIEW_BYTES: usize = 64 << 10;

/// Maximum bytes of the message of a denial in the log.
const MAX_LOGGED_BYTES: usize = 1_024;

/// The server discards at most this much of a body that is too large, and then ends the connection.
const MAX_DISCARDED_BYTES: usize = 64 << 20;

/// Maximum number of discarded bytes of all bodies, at once and in a second. Reading a MiB takes a
/// millisecond.
const MAX_DISCARD_BURST_BYTES: u64 = 256 << 20;
const MAX_DISCARD_BYTES_PER_SECOND: u64 = 32 << 20;

/// Counts calls, and has reads and steps recorded.
struct RecordingObserver<'m> {
    metrics: &'m Metrics,
    records: bool,
    trace: Option<&'m RequestTrace>,
    /// The queries of policies, if the page shows them.
    reads: Option<&'m ReviewReads>,
}

impl Observer for RecordingObserver<'_> {
    fn on_call(&self, policy: &Policy, took: Duration) {
        self.metrics.on_call(policy, took);
    }

    fn on_queries(&self, policy: &Policy, tallies: Vec<QueryStats>) {
        if let Some(reads) = self.reads {
            reads.record(policy, tallies);
        }
    }

    fn steps(&self) -> Option<&dyn StepRecorder> {
        self.trace.map(|trace| -> &dyn StepRecorder { trace })
    }

    fn records_reads(&self) -> bool {
        self.records
    }
}

/// The state of all requests.
pub(super) struct App {
    pub(super) serving: Arc<ActivePolicySet>,
    registration_names: Option<Arc<RegistrationNames>>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) draining: AtomicBool,
    /// Whether the webhook port is open.
    pub(super) open: AtomicBool,
    pub(super) beats: Arc<PauseDetector>,
    sync_timeout: Duration,
    max_body_bytes: usize,
    recorder: Option<Arc<Recorder>>,
    /// Traces requests, if that is on.
    telemetry: Option<Arc<Telemetry>>,
    denials: Option<DenialObserver>,
    /// The page for administrators, if it is on.
    ui: Option<Arc<Ui>>,
    pub(super) memory: Arc<RequestMemory>,
    body_limiter: Arc<BodyLimiter>,
    /// Bytes that are read only to be discarded.
    discard_budget: Arc<TokenBucket>,
    /// Log lines that clients can cause at will.
    shed_log: RateLimitedLog,
    invalid_review_log: RateLimitedLog,
}

impl App {
    pub(super) fn new(served: ActiveConfiguration, options: &Options) -> Arc<Self> {
        let metrics = Arc::new(Metrics::new(&options.supervisor, &options.external_metrics));
        let serving = Arc::new(ActivePolicySet::new(served, metrics.clone()));
        let body_limit = options.max_body_bytes;
        let sync_timeout = options.sync_timeout;
        let memory = Arc::new(RequestMemory::new(options.max_request_memory, body_limit));
        let bodies = BodyLimiter::new(memory.clone());
        metrics.memory_limit.set(i64::try_from(memory.limit()).unwrap_or(i64::MAX));
        let draining = AtomicBool::new(false);
        let open = AtomicBool::new(false);
        let beats = Arc::new(PauseDetector::new(Instant::now()));
        Arc::new(Self {
            serving,
            registration_names: options.registration_names.clone(),
            metrics,
            draining,
            open,
            beats,
            sync_timeout,
            max_body_bytes: body_limit,
            recorder: options.recorder.clone(),
            telemetry: options.telemetry.clone(),
            denials: options.denials.clone(),
            ui: options.ui.then(|| Arc::new(Ui::new(options.ui_options.clone()))),
            memory,
            body_limiter: bodies,
            discard_budget: Arc::new(TokenBucket::new(
                MAX_DISCARD_BURST_BYTES,
                MAX_DISCARD_BYTES_PER_SECOND,
            )),
            shed_log: RateLimitedLog::default(),
            invalid_review_log: RateLimitedLog::default(),
        })
    }

    /// The webhook port.
    pub(super) fn webhook(self: &Arc<Self>) -> Router {
        let every = |State(app): State<Arc<Self>>, request: Request| async move {
            app.review(None, request).await
        };
        let one = |State(app): State<Arc<Self>>, Path(name): Path<String>, request: Request| async move {
            app.review(Some(&name), request).await
        };
        let elsewhere = async |State(app): State<Arc<Self>>, request: Request| {
            let (head, body) = request.into_parts();
            app.discard(&head.headers, body);
            plain(
                StatusCode::NOT_FOUND,
                "there is POST /validate and POST /validate/{policy}, with more names after it",
            )
        };
        let other_method = async |State(app): State<Arc<Self>>, request: Request| {
            let (head, body) = request.into_parts();
            app.discard(&head.headers, body);
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "send the review with POST");
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            response
        };
        Router::new()
            .route("/validate", post(every))
            .route("/validate/{*policies}", post(one))
            .method_not_allowed_fallback(other_method)
            .fallback(elsewhere)
            .with_state(self.clone())
    }

    /// The ops port.
    pub(super) fn ops(self: &Arc<Self>, liveness: Arc<Liveness>) -> Router {
        let live = async move |State(app): State<Arc<Self>>| app.liveness(&liveness).await;
        let ready = |State(app): State<Arc<Self>>, request: Request| async move {
            let query = request.uri().query().unwrap_or_default();
            app.readiness(query.split('&').any(|part| part.split('=').next() == Some("verbose")))
        };
        let metrics = |State(app): State<Arc<Self>>, headers: HeaderMap| async move {
            let media = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            let text = app.metrics_text();
            let text = if accepts_exemplars(&headers) { text.with_exemplars } else { text.plain };
            response_of_type(StatusCode::OK, media, text)
        };
        let policies = |State(app): State<Arc<Self>>| async move {
            response_of_type(StatusCode::OK, "application/json", app.policies().to_string())
        };
        let elsewhere = async |State(app): State<Arc<Self>>| {
            let ui = if app.ui.is_some() { "; for a browser, /ui/" } else { "" };
            let text = format!("there is GET /livez, /readyz, /metrics and /policies{ui}");
            plain(StatusCode::NOT_FOUND, &text)
        };
        let router = Router::new()
            .route("/livez", get(live))
            .route("/readyz", get(ready))
            .route("/metrics", get(metrics))
            .route("/policies", get(policies));
        self.with_ui(router).fallback(elsewhere).with_state(self.clone())
    }

    /// The text of all metrics.
    pub(super) fn metrics_text(&self) -> MetricsText {
        self.metrics.memory_used.set(i64::try_from(self.memory.used()).unwrap_or(i64::MAX));
        self.metrics.encode_text(self.serving.current().set.cluster())
    }

    /// A draining server must not be killed because it no longer accepts connections.
    async fn liveness(&self, liveness: &Liveness) -> Response {
        if self.draining.load(Ordering::Relaxed) {
            return plain(StatusCode::OK, "ok");
        }
        match liveness.check(self.open.load(Ordering::Relaxed)).await {
            Ok(()) => plain(StatusCode::OK, "ok"),
            Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, &why.to_string()),
        }
    }

    /// The reasons why the server is not ready.
    pub(super) fn why_not_ready(&self) -> Vec<String> {
        let served = self.serving.current();
        let time = served.is_first.then_some(self.sync_timeout);
        readiness::unready_reasons(&served.set, &self.draining, &self.open, time)
    }

    fn readiness(&self, verbose: bool) -> Response {
        let served = self.serving.current();
        let why_not = self.why_not_ready();
        let code =
            if why_not.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let mut lines = if why_not.is_empty() { vec!["ok".to_owned()] } else { why_not };
        if verbose {
            lines.push(self.serving.readyz_line());
            lines.push(self.serving.platform_line());
            lines.extend(self.registration());
            lines.extend(readiness::resource_lines(&served.set));
            lines.extend(state::nearly_full_lines(served.set.cluster()));
        }
        plain(code, &lines.join("\n"))
    }

    fn policies(&self) -> serde_json::Value {
        let set = &self.serving.current().set;
        let serving = set.policies().iter().map(|policy| {
            serde_json::json!({
                "name": policy.name,
                "version": policy.descriptor.version,
                "digest": policy.module.digest(),
                "source": policy.source.to_string(),
                "mode": policy.mode.as_str(),
                "onError": policy.on_error.as_str(),
                "loadedAt": timestamp(policy.loaded_at),
                "lastError": policy.last_error(),
            })
        });
        let broken = set.broken().iter().map(|broken| {
            serde_json::json!({
                "name": broken.name,
                "version": null,
                "digest": null,
                "source": broken.source,
                "mode": broken.mode.as_str(),
                "onError": broken.on_error.as_str(),
                "loadedAt": null,
                "lastError": broken.error.to_string(),
            })
        });
        let policies: Vec<_> = serving.chain(broken).collect();
        let registration = self.registration();
        serde_json::json!({
            "configuration": self.serving.json(),
            "registration": registration,
            "trust": self.serving.platform_json(),
            "policies": policies,
            "cluster": ClusterStatus::of(set),
        })
    }

    /// The state of the webhook registration, if the server reads it.
    fn registration(&self) -> Option<String> {
        let line = self.registration_names.as_ref()?.status_line();
        (!line.is_empty()).then_some(line)
    }

    async fn review(&self, only: Option<&str>, request: Request) -> Response {
        let started = Instant::now();
        let _counted = GaugeGuard::new(&self.metrics.in_flight);
        let telemetry = self.telemetry.as_deref();
        let open_trace = telemetry
            .map(|telemetry| OpenTrace::start(telemetry, only, request.headers(), started));
        let trace = open_trace.as_ref().and_then(OpenTrace::trace);
        let evaluated = self.evaluate_review(only, request, started, trace);
        let answered = AssertUnwindSafe(evaluated).catch_unwind().await;
        let response = answered.unwrap_or_else(|_| {
            self.metrics.panics.inc();
            plain(StatusCode::INTERNAL_SERVER_ERROR, "opgate failed: a panic, see its log")
        });
        let code = response.status().as_u16();
        let time = ResponseTime { duration: started.elapsed(), trace };
        self.metrics.count_response(code, &time);
        if let Some(ui) = &self.ui {
            self.report("page", || ui.record_response(started.elapsed()));
        }
        if let Some(trace) = open_trace {
            self.report("trace", || trace.end(code));
        }
        response
    }

    /// Reports a decision to `output`. A panic there does not change the response.
    fn report(&self, output: &'static str, report: impl FnOnce()) {
        if std::panic::catch_unwind(AssertUnwindSafe(report)).is_err() {
            self.metrics.panics.inc();
            tracing::error!(output, "decision not reported after a panic");
        }
    }

    async fn evaluate_review(
        &self,
        only: Option<&str>,
        request: Request,
        started: Instant,
        trace: Option<&RequestTrace>,
    ) -> Response {
        let deadline = deadline(request.uri().query(), self.beats.earliest_start(started));
        let (head, body) = request.into_parts();
        if let Err(refusal) = check_content(&head.headers) {
            self.discard(&head.headers, body);
            return refusal;
        }
        // Only the server itself has no connection slot, and it sends no reviews.
        let origin = head.extensions.get::<Origin>().copied();
        let origin = origin.unwrap_or(Origin::of(Ipv4Addr::LOCALHOST.into()));
        let time = BODY_TIMEOUT.min(deadline.saturating_duration_since(Instant::now()));
        let (bytes, request) =
            match tokio::time::timeout(time, self.read_body(origin, &head.headers, body)).await {
                Ok(Ok(read)) => read,
                Ok(Err(refusal)) => return refusal,
                Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
            };
        let (charge, account) = request.into_parts();
        let text = match review::charged_text(bytes, charge) {
            Ok(text) => text,
            Err(ReviewError::Memory) => return self.out_of_memory(),
            Err(error) => return self.reject_invalid(&error),
        };
        let review = match Review::read(&text) {
            Ok(review) => review,
            Err(error) => return self.reject_invalid(&error),
        };
        if let Some(trace) = trace {
            trace.set_review(&review);
        }
        let envelope = Charge::on(&account);
        if !envelope.grow(review.envelope_bytes()) {
            return self.out_of_memory();
        }
        // Until the end of the call, whichever set is active by then.
        let set = self.serving.current().set.clone();
        let recorder = self.recorder.as_ref().filter(|recorder| recorder.can_record(&review.uid));
        let reads = ReviewReads::default();
        let observer = RecordingObserver {
            metrics: &self.metrics,
            records: recorder.is_some(),
            trace,
            reads: self.ui.as_ref().map(|_| &reads),
        };
        let resolved = match (&self.registration_names, only) {
            (Some(registered), Some(only)) => {
                registered.resolve(&set, only, deadline).await.unwrap_or_default()
            }
            _ => None,
        };
        let decided = match &resolved {
            Some(names) => {
                let decided = set.decide_among(&review, Some(names), deadline, &observer);
                decided.await.map_err(DecideError::from)
            }
            None => set.decide(&review, only, deadline, &observer).await,
        };
        if account.is_exhausted() {
            // Without memory, the policies would have evaluated missing data as absent fields.
            return self.out_of_memory();
        }
        let mut decision = match decided {
            Ok(decision) => decision,
            Err(DecideError::Overload(overload)) => {
                if overload.is_full() {
                    // The server keeps nothing of the request during the delay.
                    let pause = if review.size() > LARGE_REVIEW_BYTES {
                        LARGE_SHED_DELAY
                    } else {
                        SHED_DELAY
                    };
                    drop((text, envelope, account, set));
                    let pause = deadline.min(Instant::now() + pause);
                    tokio::time::sleep_until(pause.into()).await;
                }
                return self.shed(&overload.to_string());
            }
            Err(error @ DecideError::NoPolicy { .. }) => {
                return plain(StatusCode::NOT_FOUND, &error.to_string());
            }
        };
        if decision.denial.is_none() && self.beats.was_paused(Instant::now()) {
            // A request that is allowed this late may be stored when no client waits for the
            // response any more.
            return self.shed("opgate was stopped for a while: try again");
        }
        let is_failed = decision.failure.is_some();
        let body = (!is_failed).then(|| response::body(&review, &decision));
        self.report("metrics", || {
            self.metrics.count_decision(review.own_namespace(), &decision);
        });
        self.report("log", || log_decision(&review, &decision, started.elapsed(), trace));
        if let Some(trace) = trace {
            self.report("trace", || trace.set_decision(&decision));
        }
        if let Some(ui) = &self.ui {
            self.report("page", || ui.record_decision(&review, &decision, &reads));
        }
        if let Some(denials) = self.denials.as_ref().filter(|_| decision.denial.is_some()) {
            self.report("event", || denials.on_denial(&review, &decision));
        }
        if let Some(recorder) = recorder {
            let addressed = resolved.or_else(|| Some(only?.split('/').collect()));
            self.report("recording", || {
                recorder.record(&set, &review, addressed.as_ref(), &decision, body.as_deref());
            });
        }
        drop(set);
        if let Some(fault) = &decision.failure {
            let text = format!("policy {}: {}", fault.policy, fault.cause);
            return plain(StatusCode::INTERNAL_SERVER_ERROR, &text);
        }
        let mut response = json(body.unwrap_or_default());
        response
            .extensions_mut()
            .insert(ResponseCharge::for_charge(decision.take_response_charge()));
        response
    }

    fn reject_invalid(&self, error: &ReviewError) -> Response {
        if let Some(more) = self.invalid_review_log.suppressed_since_last() {
            tracing::warn!(%error, more, "invalid AdmissionReview rejected");
        }
        let code = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
        plain(code, &error.to_string())
    }

    /// The response if memory has run out.
    fn out_of_memory(&self) -> Response {
        self.shed(&format!(
            "opgate: no room for the review in the {} bytes for requests (--max-request-memory)",
            self.memory.limit()
        ))
    }

    fn shed(&self, text: &str) -> Response {
        self.metrics.shed.inc();
        if let Some(more) = self.shed_log.suppressed_since_last() {
            tracing::warn!(text, more, "request shed");
        }
        let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, text);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        response
    }

    /// Reads the body. Memory is reserved for the received bytes, not for the announced length. A
    /// body that is too large is rejected as soon as that is known.
    async fn read_body(
        &self,
        origin: Origin,
        headers: &HeaderMap,
        mut body: Body,
    ) -> Result<(Vec<u8>, request_memory::RequestCharge), Response> {
        let announced = body_hint(&body);
        if announced > self.max_body_bytes {
            return Err(self.too_large(headers, body));
        }
        let mut arrival = match self.body_limiter.begin(origin, announced) {
            Ok(arrival) => arrival,
            Err(ended) => return Err(self.body_error_response(ended, headers, body)),
        };
        loop {
            let frame = tokio::select! {
                // Received data has priority over a timeout: this task may have waited for a CPU.
                biased;
                frame = body.frame() => frame,
                ended = arrival.wait_for_error() => return Err(self.reject_partial_body(ended, arrival, headers, body)),
            };
            let Some(frame) = frame else { break };
            let frame = frame
                .map_err(|_| plain(StatusCode::BAD_REQUEST, "the body ended before its end"))?;
            let Ok(data) = frame.into_data() else { continue };
            if arrival.received() + data.len() > self.max_body_bytes {
                return Err(self.too_large(headers, body));
            }
            if let Err(ended) = arrival.push(&data) {
                return Err(self.reject_partial_body(ended, arrival, headers, body));
            }
        }
        arrival.finish().map_err(|ended| self.body_error_response(ended, headers, body))
    }

    /// The response to a body that is not read to its end. Its memory is free before the rest is
    /// discarded.
    fn reject_partial_body(
        &self,
        ended: BodyError,
        arrival: Arrival,
        headers: &HeaderMap,
        body: Body,
    ) -> Response {
        drop(arrival);
        self.body_error_response(ended, headers, body)
    }

    fn body_error_response(&self, ended: BodyError, headers: &HeaderMap, body: Body) -> Response {
        self.metrics.count_body_error(ended);
        match ended {
            BodyError::Slow => {
                // The rest is not read: a client that sends nothing would hold the connection as
                // well.
                let text = "the body arrived too slowly: send at least 128 KiB a second";
                let mut response = plain(StatusCode::REQUEST_TIMEOUT, text);
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                response
            }
            BodyError::Evicted => {
                self.discard(headers, body);
                self.shed(
                    "the body was still arriving when others needed its memory (--max-request-memory): send it again",
                )
            }
            BodyError::Full => {
                self.discard(headers, body);
                self.out_of_memory()
            }
        }
    }

    /// Reads a body that is not needed, while the response is sent: a client that is still sending
    /// would otherwise get a broken connection and no response. Bytes are limited, also for all
    /// bodies together, and so is the time. Beyond the limit the connection ends. A client that
    /// waits for `100 Continue` does not get it.
    fn discard(&self, headers: &HeaderMap, mut body: Body) {
        if headers.contains_key(EXPECT) {
            return;
        }
        let all = self.discard_budget.clone();
        let reading = async move {
            let mut left = MAX_DISCARDED_BYTES;
            while let Some(Ok(frame)) = body.frame().await {
                let length = frame.data_ref().map_or(0, bytes::Buf::remaining);
                left = left.saturating_sub(length);
                let bytes = u64::try_from(length).unwrap_or(u64::MAX);
                if left == 0 || !all.try_take(bytes, Instant::now()) {
                    return;
                }
            }
        };
        tokio::spawn(tokio::time::timeout(BODY_TIMEOUT, reading));
    }

    fn too_large(&self, headers: &HeaderMap, body: Body) -> Response {
        self.discard(headers, body);
        let text = format!("the body has more than {} bytes", self.max_body_bytes);
        let mut response = plain(StatusCode::PAYLOAD_TOO_LARGE, &text);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

fn body_hint(body: &Body) -> usize {
    let lower = hyper::body::Body::size_hint(body).lower();
    usize::try_from(lower).unwrap_or(usize::MAX)
}

/// `?timeout=10s` is the time that the API server waits.
fn deadline(query: Option<&str>, started: Instant) -> Instant {
    let mut pairs = query.into_iter().flat_map(|query| query.split('&'));
    let timeout = pairs.find_map(|pair| pair.strip_prefix("timeout="));
    let time = timeout.and_then(|text| parse_duration(text).ok()).unwrap_or(DEFAULT_TIMEOUT);
    let time = time.min(Duration::from_secs(60));
    started
        + time
            .checked_sub(RESPONSE_MARGIN)
            .filter(|left| *left > RESPONSE_MARGIN)
            .unwrap_or(time / 2)
}

fn check_content(headers: &HeaderMap) -> Result<(), Response> {
    let unsupported = |text: &str| Err(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    let media = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") {
        return unsupported("send the review with Content-Type: application/json");
    }
    let encoding = headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
    if encoding.is_some_and(|e| !e.eq_ignore_ascii_case(b"identity")) {
        return unsupported("send the review without Content-Encoding");
    }
    Ok(())
}

fn log_decision(
    review: &Review<'_>,
    decision: &opgate_admission::policy::Decision,
    took: Duration,
    trace: Option<&RequestTrace>,
) {
    if decision.violations.is_empty() && decision.failure.is_none() {
        return;
    }
    let rules: Vec<_> = decision.violations.iter().map(|v| v.rule.as_str()).collect();
    let denial = decision.denial.as_ref();
    let denial = denial.map(|denial| opgate_text::one_line(&denial.message, MAX_LOGGED_BYTES));
    tracing::info!(
        uid = opgate_text::one_line(&review.uid, 128),
        operation = review.operation.as_str(),
        resource = opgate_text::one_line(&review.resource_path(), 512),
        namespace = opgate_text::one_line(&review.namespace, 253),
        name = opgate_text::one_line(&review.name, 253),
        user = opgate_text::one_line(&review.username, 253),
        dry_run = review.dry_run,
        allowed = decision.denial.is_none() && decision.failure.is_none(),
        failed = decision.failure.is_some(),
        rules = rules.join(","),
        denial = denial.as_deref(),
        microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        trace_id = trace.map(StepRecorder::trace_id),
        "review decided"
    );
}

fn json(body: Vec<u8>) -> Response {
    response_of_type(StatusCode::OK, "application/json", body)
}

/// A line of text for the reader of the API server's error.
pub(super) fn plain(code: StatusCode, text: &str) -> Response {
    response_of_type(code, "text/plain; charset=utf-8", text.to_owned())
}

fn response_of_type(code: StatusCode, media: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

#[cfg(test)]
mod tests;
