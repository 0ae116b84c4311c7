//! Writes reports, few at a time: the API server serves everyone else first.
//!
//! ```text
//! writes ─▶ rounds of `concurrency` requests ─▶ API server
//!              ▲        │ 429: each waits as long as the API server asks, and is sent again
//!              └────────┴ slow round: half as many; fast round: one more
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use opgate_certs::error_text::with_causes;
use opgate_text::one_line;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::content::{ObjectReport, ReportResult};
use super::{FIELD_MANAGER, ReportApi, ReportKey};
use crate::api::ApiError;
use crate::lease::Leadership;

/// Maximum number of requests at a time.
const MAX_CONCURRENCY: usize = 8;

/// A response that takes longer is slow.
const SLOW_RESPONSE: Duration = Duration::from_millis(500);

/// Time limit of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// How often a request is sent to an API server that answers 429, and the longest pause between two times.
const MAX_ATTEMPTS: u32 = 5;
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// After this many rounds without any response, nothing else is written.
const MAX_SILENT_ROUNDS: u32 = 4;

/// Maximum bytes of a response, and of a line about a failed write.
const MAX_RESPONSE_BYTES: usize = 1 << 20;
const MAX_LINE_BYTES: usize = 512;

/// Maximum number of failed writes with a line.
const MAX_FAILURE_LINES: usize = 20;

/// Only the metadata of a report, and errors in the usual format.
const RESPONSE_TYPES: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// A change of one report.
#[derive(Debug)]
pub(super) enum ReportWrite {
    /// Creates or replaces it.
    Apply(Box<ObjectReport>),
    /// Deletes the report with this UID.
    Delete {
        /// Its key.
        key: ReportKey,
        /// Its UID.
        uid: String,
        /// Its version: another audit can have changed it meanwhile.
        resource_version: String,
    },
}

impl ReportWrite {
    fn key(&self) -> &ReportKey {
        match self {
            Self::Apply(report) => &report.key,
            Self::Delete { key, .. } => key,
        }
    }
}

/// Writes reports with the credentials of a client.
#[derive(Debug)]
pub(super) struct ReportWriter {
    client: DebugClient,
    api: ReportApi,
    /// If it is set, only the leader writes.
    pub(super) leadership: Option<Leadership>,
    concurrency: usize,
    silent_rounds: u32,
    pub(super) written: usize,
    pub(super) deleted: usize,
    /// The first failed writes, a line each.
    pub(super) failures: Vec<String>,
    pub(super) failed: usize,
}

/// A client, which has no text for debugging.
struct DebugClient(Client);

impl std::fmt::Debug for DebugClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// The result of a request.
enum Sent {
    Done,
    /// The namespace of the report, or the report to delete, no longer exists.
    Obsolete,
    Failed(ApiError),
    /// The API server asks for a pause.
    Busy(Duration),
    Silent(String),
}

/// A write that did not fail.
#[derive(Clone, Copy)]
enum Outcome {
    Done,
    Obsolete,
}

/// The end of a write.
struct WriteResult {
    result: Result<Outcome, String>,
    /// Whether the API server has responded.
    has_response: bool,
    /// Duration of its slowest request.
    latency: Duration,
}

impl ReportWriter {
    pub(super) fn new(client: Client, api: ReportApi) -> Self {
        Self {
            client: DebugClient(client),
            api,
            leadership: None,
            concurrency: MAX_CONCURRENCY,
            silent_rounds: 0,
            written: 0,
            deleted: 0,
            failures: Vec::new(),
            failed: 0,
        }
    }

    /// Sends all writes. A failed one does not stop the others, unless the API server no longer responds.
    pub(super) async fn write_all(&mut self, writes: &[ReportWrite]) {
        let mut rest = writes;
        while !rest.is_empty() {
            if self.silent_rounds >= MAX_SILENT_ROUNDS {
                self.failed += rest.len();
                return;
            }
            let (round, later) = rest.split_at(self.concurrency.min(rest.len()));
            rest = later;
            let results = join_all(round.iter().map(|write| self.send(write))).await;
            self.adapt(&results);
            for (write, WriteResult { result, .. }) in round.iter().zip(results) {
                self.count(write, result);
            }
        }
    }

    /// Sends fewer requests at a time if the API server has become slow.
    fn adapt(&mut self, results: &[WriteResult]) {
        let latency = results.iter().map(|result| result.latency).max().unwrap_or_default();
        self.concurrency = if latency > SLOW_RESPONSE {
            (self.concurrency / 2).max(1)
        } else {
            (self.concurrency + 1).min(MAX_CONCURRENCY)
        };
        let is_silent = !results.iter().any(|result| result.has_response);
        self.silent_rounds = if is_silent { self.silent_rounds + 1 } else { 0 };
    }

    fn count(&mut self, write: &ReportWrite, result: Result<Outcome, String>) {
        match (result, write) {
            (Ok(Outcome::Done), ReportWrite::Apply(_)) => self.written += 1,
            (Ok(Outcome::Done), ReportWrite::Delete { .. }) => self.deleted += 1,
            (Ok(Outcome::Obsolete), _) => {}
            (Err(why), _) => self.add_failure(write.key(), &why),
        }
    }

    /// Reads the results of stored reports; none of one that no longer exists.
    pub(super) async fn read_results(
        &self,
        keys: &[ReportKey],
    ) -> Vec<Result<Vec<ReportResult>, String>> {
        let mut all = Vec::with_capacity(keys.len());
        for round in keys.chunks(self.concurrency.max(1)) {
            let reads = round.iter().map(|key| timeout(REQUEST_TIMEOUT, self.read_once(key)));
            let silent = || format!("no answer from the API server within {REQUEST_TIMEOUT:?}");
            let results = join_all(reads).await.into_iter();
            all.extend(results.map(|read| read.unwrap_or_else(|_| Err(silent()))));
        }
        all
    }

    /// Lists one report, because audits have no permission to get it.
    async fn read_once(&self, key: &ReportKey) -> Result<Vec<ReportResult>, String> {
        let path =
            format!("{}?fieldSelector=metadata.name%3D{}&limit=1", self.path_of(key), key.name);
        let request = http::Request::get(path).header(ACCEPT, "application/json");
        let request = request.body(Body::empty()).map_err(|error| error.to_string())?;
        let about = format!("GET {}", request.uri().path());
        let sent = self.client.0.send(request).await;
        let response = sent.map_err(|error| with_causes(&error))?;
        let code = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        if !(200..300).contains(&code) {
            return Err(ApiError::of(code, &body, &about).to_string());
        }
        let list: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
        let results = list.pointer("/items/0/results").and_then(Value::as_array);
        Ok(results.into_iter().flatten().filter_map(ReportResult::of_value).collect())
    }

    /// Notes a report that was not written.
    pub(super) fn add_failure(&mut self, key: &ReportKey, why: &str) {
        self.failed += 1;
        if self.failures.len() < MAX_FAILURE_LINES {
            let kind = self.api.kind(key.is_namespaced());
            let line = format!("{kind} {key}: not written: {why}");
            self.failures.push(one_line(&line, MAX_LINE_BYTES));
        }
    }

    /// Sends one write, again after each pause that the API server asks for.
    async fn send(&self, write: &ReportWrite) -> WriteResult {
        let mut latency = Duration::ZERO;
        let (mut has_response, mut attempts) = (true, 0);
        let result = loop {
            if self.leadership.as_ref().is_some_and(|leadership| !leadership.is_leader()) {
                break Err("this server is no longer the leader".to_owned());
            }
            attempts += 1;
            let began = Instant::now();
            let sent = timeout(REQUEST_TIMEOUT, self.send_once(write)).await;
            latency = latency.max(began.elapsed());
            match sent {
                Ok(Sent::Done) => break Ok(Outcome::Done),
                Ok(Sent::Obsolete) => break Ok(Outcome::Obsolete),
                Ok(Sent::Failed(error)) => break Err(error.to_string()),
                Ok(Sent::Busy(pause)) if attempts < MAX_ATTEMPTS => sleep(pause).await,
                Ok(Sent::Busy(_)) => break Err("the API server is overloaded (429)".to_owned()),
                Ok(Sent::Silent(why)) => {
                    has_response = false;
                    break Err(why);
                }
                Err(_) => {
                    has_response = false;
                    let seconds = REQUEST_TIMEOUT.as_secs();
                    break Err(format!("no answer from the API server within {seconds} s"));
                }
            }
        };
        WriteResult { result, has_response, latency }
    }

    async fn send_once(&self, write: &ReportWrite) -> Sent {
        let request = match self.request(write) {
            Ok(request) => request,
            Err(error) => return Sent::Failed(ApiError::Invalid(error.to_string())),
        };
        let about = format!("{} {}", request.method(), request.uri().path());
        let response = match self.client.0.send(request).await {
            Ok(response) => response,
            Err(error) => return Sent::Silent(with_causes(&error)),
        };
        let code = response.status().as_u16();
        if code == 429 {
            let seconds = response.headers().get(RETRY_AFTER);
            let seconds = seconds.and_then(|value| value.to_str().ok()?.trim().parse().ok());
            let pause = Duration::from_secs(seconds.unwrap_or(1));
            return Sent::Busy(pause.clamp(Duration::from_secs(1), MAX_PAUSE));
        }
        let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
        let body = match body {
            Ok(body) => body.to_bytes(),
            Err(error) => return Sent::Silent(error.to_string()),
        };
        let is_obsolete = match write {
            ReportWrite::Apply(_) => is_namespace_gone(code, &body),
            // Another version, or none: another client has deleted this one.
            ReportWrite::Delete { .. } => matches!(code, 404 | 409),
        };
        match code {
            200..300 => Sent::Done,
            _ if is_obsolete => Sent::Obsolete,
            _ => Sent::Failed(ApiError::of(code, &body, &about)),
        }
    }

    /// Returns the path of the reports next to one.
    fn path_of(&self, ReportKey { namespace, .. }: &ReportKey) -> String {
        let (version, is_namespaced) = (self.api.group_version(), !namespace.is_empty());
        let resource = self.api.resource(is_namespaced);
        let place = if is_namespaced { format!("namespaces/{namespace}/") } else { String::new() };
        format!("/apis/{version}/{place}{resource}")
    }

    fn request(&self, write: &ReportWrite) -> http::Result<http::Request<Body>> {
        let path = format!("{}/{}", self.path_of(write.key()), write.key().name);
        let request = http::Request::builder().header(ACCEPT, RESPONSE_TYPES);
        match write {
            ReportWrite::Apply(report) => request
                .method("PATCH")
                .uri(format!("{path}?fieldManager={FIELD_MANAGER}&force=true"))
                .header(CONTENT_TYPE, "application/apply-patch+yaml")
                .body(Body::from(report.body(self.api, now()).to_string().into_bytes())),
            ReportWrite::Delete { uid, resource_version, .. } => {
                let options = json!({
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "preconditions": {"uid": uid, "resourceVersion": resource_version},
                });
                request
                    .method("DELETE")
                    .uri(path)
                    .header(CONTENT_TYPE, "application/json")
                    .body(Body::from(options.to_string().into_bytes()))
            }
        }
    }
}

/// Reports whether the namespace of a report does not exist, or is being deleted with all its objects.
fn is_namespace_gone(code: u16, body: &[u8]) -> bool {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    let is_missing =
        || status.pointer("/details/kind").and_then(Value::as_str) == Some("namespaces");
    let is_terminating = || {
        let causes = status.pointer("/details/causes").and_then(Value::as_array);
        let reasons = causes.into_iter().flatten().filter_map(|cause| cause.get("reason"));
        reasons.into_iter().any(|reason| reason == "NamespaceTerminating")
    };
    code == 404 && is_missing() || code == 403 && is_terminating()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
