//! Writes reports, few at a time: the API server serves everyone else first.
//!
//! ```text
//! writes ─▶ rounds of `concurrency` requests ─▶ API server
//!              ▲        │ 429: BusyRetries: each waits as long as the API server asks, and is sent again
//!              └────────┴ slow round: half as many; fast round: one more
//! ```

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use opgate_admission::cluster::{BusyRetries, retry_after};
use opgate_certs::error_text::with_causes;
use opgate_text::one_line;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

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

/// A response to one request.
enum Response {
    /// The API server asks for a pause.
    Busy(Duration),
    /// Any other code, with its body.
    Complete(u16, Bytes),
}

/// The reason why a request has no response.
struct RequestError {
    reason: String,
    /// Whether it was sent, and the API server did not respond.
    is_silent: bool,
}

impl RequestError {
    fn silent(reason: String) -> Self {
        Self { reason, is_silent: true }
    }

    fn unsent(reason: String) -> Self {
        Self { reason, is_silent: false }
    }
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
            all.extend(join_all(round.iter().map(|key| self.read(key))).await);
        }
        all
    }

    /// Lists one report, because audits have no permission to get it.
    async fn read(&self, key: &ReportKey) -> Result<Vec<ReportResult>, String> {
        let path = self.path_of(key);
        let new_request = || {
            let path = format!("{path}?fieldSelector=metadata.name%3D{}&limit=1", key.name);
            http::Request::get(path).header(ACCEPT, "application/json").body(Body::empty())
        };
        let mut latency = Duration::ZERO;
        let response = self.request(new_request, &mut latency).await;
        let (code, body) = response.map_err(|error| error.reason)?;
        if !(200..300).contains(&code) {
            return Err(ApiError::of(code, &body, &format!("GET {path}")).to_string());
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

    /// Sends one write.
    async fn send(&self, write: &ReportWrite) -> WriteResult {
        let mut latency = Duration::ZERO;
        let response = self.request(|| self.write_request(write), &mut latency).await;
        let has_response = !matches!(&response, Err(error) if error.is_silent);
        let result = match response {
            Ok((code, body)) => self.outcome(write, code, &body),
            Err(error) => Err(error.reason),
        };
        WriteResult { result, has_response, latency }
    }

    /// Returns what a response to a write means.
    fn outcome(&self, write: &ReportWrite, code: u16, body: &[u8]) -> Result<Outcome, String> {
        let (method, is_obsolete) = match write {
            ReportWrite::Apply(_) => ("PATCH", is_namespace_gone(code, body)),
            // Another version, or none: another client has deleted this one.
            ReportWrite::Delete { .. } => ("DELETE", matches!(code, 404 | 409)),
        };
        match code {
            200..300 => Ok(Outcome::Done),
            _ if is_obsolete => Ok(Outcome::Obsolete),
            _ => {
                let about = format!("{method} {}/{}", self.path_of(write.key()), write.key().name);
                Err(ApiError::of(code, body, &about).to_string())
            }
        }
    }

    /// Sends a request, again after each pause that the API server asks for. Returns code and body of the response, and
    /// the duration of the slowest attempt.
    async fn request(
        &self,
        new_request: impl Fn() -> http::Result<http::Request<Body>>,
        latency: &mut Duration,
    ) -> Result<(u16, Bytes), RequestError> {
        let mut retries = BusyRetries::default();
        loop {
            if self.leadership.as_ref().is_some_and(|leadership| !leadership.is_leader()) {
                let reason = "this server is no longer the leader";
                return Err(RequestError::unsent(reason.to_owned()));
            }
            let request = new_request().map_err(|error| RequestError::unsent(error.to_string()))?;
            let began = Instant::now();
            let response = timeout(REQUEST_TIMEOUT, self.send_once(request)).await;
            *latency = (*latency).max(began.elapsed());
            let silent = |_| {
                let seconds = REQUEST_TIMEOUT.as_secs();
                Err(format!("no answer from the API server within {seconds} s"))
            };
            match response.unwrap_or_else(silent) {
                Ok(Response::Complete(code, body)) => return Ok((code, body)),
                Ok(Response::Busy(pause)) if retries.wait(pause).await => {}
                Ok(Response::Busy(_)) => {
                    let reason = "the API server is overloaded (429)";
                    return Err(RequestError::unsent(reason.to_owned()));
                }
                Err(reason) => return Err(RequestError::silent(reason)),
            }
        }
    }

    /// Sends a request once. Without a response, returns the reason.
    async fn send_once(&self, request: http::Request<Body>) -> Result<Response, String> {
        let response = self.client.0.send(request).await.map_err(|error| with_causes(&error))?;
        let code = response.status().as_u16();
        if code == 429 {
            return Ok(Response::Busy(retry_after(response.headers())));
        }
        let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|error| error.to_string())?;
        Ok(Response::Complete(code, body.to_bytes()))
    }

    /// Returns the path of the reports next to one.
    fn path_of(&self, ReportKey { namespace, .. }: &ReportKey) -> String {
        let (version, is_namespaced) = (self.api.group_version(), !namespace.is_empty());
        let resource = self.api.resource(is_namespaced);
        let place = if is_namespaced { format!("namespaces/{namespace}/") } else { String::new() };
        format!("/apis/{version}/{place}{resource}")
    }

    fn write_request(&self, write: &ReportWrite) -> http::Result<http::Request<Body>> {
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
