//! Events for denied requests, in the namespace of their object: what `kubectl get events` and `kubectl
//! describe` show to users who do not see the response, such as those of a controller's owner.
//!
//! ```text
//! request: record ─▶ denial: bounded texts ─▶ queue: one entry for each series ─▶ task: run ─▶ Api
//!                                              │ limits of a tenant, of all          create, then series
//!                                              └─▶ dropped, counted
//! ```
//!
//! Denials of the same object by the same rules in an hour are one Event with a count, also of several
//! servers: the name of an Event is a digest of what it reports. No request waits for an Event. A write that fails
//! for a reason that can pass is repeated a few times; it can count its denials twice if only the response was lost.
//! After a refused write, the tenant has no Events for a minute.

mod denial;
mod queue;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;
use std::time::Duration;

use opgate_admission::policy::Decision;
use opgate_admission::review::Review;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use time::OffsetDateTime;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::denial::Denial;
use self::queue::{Admission, DenialQueue, NextWrite};
use self::write::EventWriter;
use crate::api::{Api, ApiError};

/// Interval of log lines about Events that are not written.
const LOG_INTERVAL: Duration = Duration::from_secs(600);

type Label = [(&'static str, &'static str); 1];

/// The numbers of denials.
#[derive(Debug, Clone)]
struct Counts {
    family: Family<Label, Counter>,
    /// An Event has the denial.
    written: Counter,
    /// A limit left no Event for it.
    dropped: Counter,
    /// The API server has not stored its Event.
    failed: Counter,
}

impl Default for Counts {
    fn default() -> Self {
        let family = Family::<Label, Counter>::default();
        let [written, dropped, failed] = ["written", "dropped", "failed"]
            .map(|result| family.get_or_create(&[("result", result)]).clone());
        Self { family, written, dropped, failed }
    }
}

/// Log lines about failed writes: tenants can cause failures at will, by deleting their namespace.
#[derive(Debug, Default)]
struct FailureLog {
    last: Option<Instant>,
    suppressed: u64,
}

/// Writes Events for denials of one server. [`DenialEvents::run`] is its task.
pub struct DenialEvents {
    writer: EventWriter,
    queue: Mutex<DenialQueue>,
    is_news: Notify,
    counts: Counts,
    log: Mutex<FailureLog>,
}

impl std::fmt::Debug for DenialEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DenialEvents").field("counts", &self.counts).finish_non_exhaustive()
    }
}

impl DenialEvents {
    /// Creates the events of the server with this name.
    #[must_use]
    pub fn new(api: Arc<dyn Api>, replica: &str) -> Self {
        Self {
            writer: EventWriter::new(api, replica),
            queue: Mutex::default(),
            is_news: Notify::new(),
            counts: Counts::default(),
            log: Mutex::default(),
        }
    }

    /// Adds the metrics to a registry.
    pub fn register(&self, registry: &mut Registry) {
        let text = "Denials by the outcome of their Event";
        registry.register("denial_events", text, self.counts.family.clone());
    }

    /// Reports a denied request. Never waits.
    pub fn record(&self, review: &Review<'_>, decision: &Decision) {
        let Some(denial) = Denial::of(review, decision, OffsetDateTime::now_utc()) else { return };
        let Admission { is_news, dropped } = self.queue.lock().record(denial, Instant::now());
        self.counts.dropped.inc_by(dropped);
        if is_news {
            self.is_news.notify_one();
        }
    }

    /// Writes Events, without an end.
    pub async fn run(&self) {
        loop {
            let next = self.queue.lock().next(Instant::now(), hour(OffsetDateTime::now_utc()));
            match next {
                NextWrite::Now(series) => {
                    let written = self.writer.write(&series).await;
                    let mut queue = self.queue.lock();
                    match written {
                        Ok(stored) => {
                            self.counts.written.inc_by(series.count);
                            queue.set_written(&series, stored, Instant::now());
                        }
                        Err(error) => {
                            let now = Instant::now();
                            let lost = if is_refusal(&error) {
                                queue.set_failed(&series, now)
                            } else {
                                queue.set_delayed(&series, now)
                            };
                            self.counts.failed.inc_by(lost);
                            self.log_failure(&series.denial.namespace, &error.to_string());
                        }
                    }
                }
                NextWrite::At(due) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(due) => {}
                        () = self.is_news.notified() => {}
                    }
                }
                NextWrite::Never => self.is_news.notified().await,
            }
        }
    }

    fn log_failure(&self, namespace: &str, error: &str) {
        let mut log = self.log.lock();
        let now = Instant::now();
        if log.last.is_some_and(|last| now.saturating_duration_since(last) < LOG_INTERVAL) {
            log.suppressed = log.suppressed.saturating_add(1);
            return;
        }
        log.last = Some(now);
        let suppressed = std::mem::take(&mut log.suppressed);
        tracing::warn!(namespace, error, suppressed, "event of a denial not written");
    }
}

/// Whether another attempt would fail, too.
fn is_refusal(error: &ApiError) -> bool {
    matches!(error, ApiError::Forbidden(_) | ApiError::NotFound(_) | ApiError::Invalid(_))
}

/// Returns the number of the hour.
fn hour(at: OffsetDateTime) -> i64 {
    at.unix_timestamp().div_euclid(3_600)
}
