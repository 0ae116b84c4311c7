//! Writes the Event of a series: creates it, and then sets the count of its series.
//!
//! Another server can have written the Event before: the count continues from what is stored, and every change names
//! the version that it is based on.

use std::sync::Arc;

use opgate_text::one_line;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::denial::{Denial, ObjectReference};
use super::queue::{DueSeries, StoredEvent};
use crate::NAME_LABEL;
use crate::api::{Api, ApiError, Kind, text, version};
use crate::events::micro_time;

/// Name of the reporter in Events.
const REPORTING_CONTROLLER: &str = "opgate.dev/opgate";

/// Attempts to change an Event that other servers change, too.
const MAX_ATTEMPTS: usize = 3;

/// Writes Events of one server.
pub(super) struct EventWriter {
    api: Arc<dyn Api>,
    replica: String,
}

impl EventWriter {
    pub(super) fn new(api: Arc<dyn Api>, replica: &str) -> Self {
        // An API server accepts 128 characters.
        Self { api, replica: one_line(replica, 128) }
    }

    /// Adds the denials of a series to its Event.
    pub(super) async fn write(&self, due: &DueSeries) -> Result<StoredEvent, ApiError> {
        let Denial { namespace, event, .. } = &*due.denial;
        let mut stored = due.stored.clone();
        let mut result = Err(ApiError::Conflict(format!("{event} changes all the time")));
        for _ in 0..MAX_ATTEMPTS {
            result = match &stored {
                None => self.api.create(Kind::Event, namespace, self.event(due)).await,
                Some(stored) => {
                    let patch = series_patch(due, stored);
                    self.api.merge(Kind::Event, namespace, event, patch).await
                }
            };
            stored = match &result {
                // Another server has written it.
                Err(ApiError::AlreadyExists(_) | ApiError::Conflict(_)) => {
                    let current = self.api.get(Kind::Event, namespace, event).await?;
                    if text(&current, "/reportingController") != REPORTING_CONTROLLER {
                        let reason = format!("{event} is an Event of another reporter");
                        return Err(ApiError::Invalid(reason));
                    }
                    Some(stored_event(&current))
                }
                // It has expired.
                Err(ApiError::NotFound(_)) if stored.is_some() => None,
                _ => break,
            };
        }
        result.map(|event| stored_event(&event))
    }

    fn event(&self, due: &DueSeries) -> Value {
        let denial = &*due.denial;
        let mut event = json!({
            "apiVersion": Kind::Event.api_version(),
            "kind": Kind::Event.name(),
            "metadata": {
                "name": denial.event,
                "namespace": denial.namespace,
                "labels": {NAME_LABEL.0: NAME_LABEL.1},
            },
            "eventTime": micro_time(denial.at),
            "reportingController": REPORTING_CONTROLLER,
            "reportingInstance": self.replica,
            "type": "Warning",
            "reason": "Denied",
            "action": denial.action,
            "regarding": reference(&denial.regarding),
            "note": denial.note,
        });
        if let Some(members) = event.as_object_mut() {
            if let Some(related) = &denial.related {
                members.insert("related".to_owned(), reference(related));
            }
            if due.count > 1 {
                members.insert("series".to_owned(), series(due.count, due.last));
            }
        }
        event
    }
}

fn stored_event(event: &Value) -> StoredEvent {
    let count = event.pointer("/series/count").and_then(Value::as_u64);
    StoredEvent { version: version(event).to_owned(), count: count.unwrap_or(1) }
}

fn series_patch(due: &DueSeries, stored: &StoredEvent) -> Value {
    let count = stored.count.saturating_add(due.count);
    json!({
        "metadata": {"resourceVersion": stored.version},
        "series": series(count, due.last),
    })
}

fn series(count: u64, last: OffsetDateTime) -> Value {
    // The API has 32 bits.
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    json!({"count": count, "lastObservedTime": micro_time(last)})
}

fn reference(object: &ObjectReference) -> Value {
    let ObjectReference { api_version, kind, namespace, name, uid } = object;
    let mut reference = json!({"apiVersion": api_version, "kind": kind, "name": name});
    if let Some(members) = reference.as_object_mut() {
        for (member, text) in [("namespace", namespace), ("uid", uid)] {
            if !text.is_empty() {
                members.insert(member.to_owned(), json!(text));
            }
        }
    }
    reference
}
