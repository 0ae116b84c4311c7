//! Another tenant: small requests, one after the other, over a connection that it opens again now
//! and then.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::reviews::{self, WriteMode, csv};
use testkit::{Client, Server};

/// So long an API server waits in a usual registration.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// Requests over one connection: newcomers must be let in as well.
const REQUESTS_PER_CONNECTION: usize = 10;

/// What the victim got.
#[derive(Default)]
pub(crate) struct BystanderResult {
    /// Of each answer, sorted.
    pub(crate) times: Vec<Duration>,
    /// What was no answer, and how often.
    pub(crate) failures: BTreeMap<String, usize>,
}

impl BystanderResult {
    pub(crate) fn milliseconds(&self, percent: usize) -> f64 {
        let at = self.times.len().saturating_sub(1) * percent / 100;
        self.times.get(at).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

/// Sends this many requests for a CSV in its own namespace.
pub(crate) async fn send_requests(server: &Server, count: usize) -> BystanderResult {
    let mut seen = BystanderResult::default();
    let mut client = None;
    for number in 0..count {
        let name = format!("victim.v{number}");
        // In the API group that others use as well.
        let mut csv = csv("victim", &name, &["OwnNamespace"], &["victim.birds.com"]);
        let service = json!({"group": "birds.com", "version": "v1victim", "kind": "Goose"});
        csv["spec"]["apiservicedefinitions"] = json!({"owned": [service]});
        let review = reviews::create(&csv, WriteMode::DryRun);
        let started = Instant::now();
        match tokio::time::timeout(WEBHOOK_TIMEOUT, send_request(server, &mut client, review)).await
        {
            Ok(Ok(())) => seen.times.push(started.elapsed()),
            lost => {
                let why = lost.map_or_else(|_| "no answer".to_owned(), Result::unwrap_err);
                *seen.failures.entry(why).or_default() += 1;
                client = None;
            }
        }
        if number % REQUESTS_PER_CONNECTION == REQUESTS_PER_CONNECTION - 1 {
            client = None;
        }
        // As people and controllers do.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    seen.times.sort_unstable();
    seen
}

async fn send_request(
    server: &Server,
    client: &mut Option<Client>,
    review: String,
) -> Result<(), String> {
    if client.is_none() {
        let connected = Client::connect(server.address, &server.certificates.authority).await;
        *client = Some(connected.map_err(|e| format!("no connection: {e}"))?);
    }
    let client = client.as_mut().ok_or("no connection")?;
    let answer = client.post("/validate/operator-group?timeout=10s", "application/json", review);
    let answer = answer.await.map_err(|e| format!("the connection ended: {e}"))?;
    if answer.status != 200 {
        return Err(format!("{}: {}", answer.status, answer.body));
    }
    let verdict = answer.message();
    if verdict == "allowed" { Ok(()) } else { Err(verdict) }
}
