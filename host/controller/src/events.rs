//! Events for this server, for users who read events of the cluster rather than its log.
//!
//! Events are best effort: the server never waits for them, and a failed write is one line of the log. A
//! repeated event is dropped until the server reports another one with the same reason; and a server writes
//! no more than `MAX_EVENTS_PER_MINUTE` events per minute, to limit the load on the API server.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::Instant;

use crate::api::{Api, Kind};
use crate::{Installation, NAME_LABEL};
use opgate_text::one_line;

/// Maximum number of events in a minute. Further events are only logged.
const MAX_EVENTS_PER_MINUTE: usize = 6;
const MINUTE: Duration = Duration::from_secs(60);

/// An API server accepts a note of 1,024 bytes.
const MAX_NOTE_BYTES: usize = 1_000;

/// Severity of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// No action is necessary.
    Normal,
    /// An administrator must act.
    Warning,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Writes the events of one server.
pub struct EventRecorder {
    api: Arc<dyn Api>,
    installation: Installation,
    /// UID of the pod, if it is known.
    uid: Option<String>,
    state: Mutex<State>,
}

impl std::fmt::Debug for EventRecorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventRecorder")
            .field("installation", &self.installation)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    /// Reason and note of the last one.
    last: Option<(&'static str, String)>,
    /// Times of the last written events.
    written: Vec<Instant>,
    /// Whether the last write failed, which is logged once.
    is_failing: bool,
}

impl EventRecorder {
    /// Events about the pod of this server, which has this UID.
    #[must_use]
    pub fn new(api: Arc<dyn Api>, installation: Installation, uid: Option<String>) -> Self {
        Self { api, installation, uid, state: Mutex::default() }
    }

    /// Writes an event, unless the last one with this reason said the same. `reason` is one word in capitals
    /// (`ConfigurationReloadFailed`), `action` what the server did (`Reload`).
    pub async fn record(
        &self,
        severity: Severity,
        reason: &'static str,
        action: &'static str,
        note: &str,
    ) {
        let note = one_line(note, MAX_NOTE_BYTES);
        if !self.state.lock().admit(reason, &note, Instant::now()) {
            return;
        }
        let Installation { namespace, replica, .. } = &self.installation;
        let event = self.event(severity, reason, action, &note);
        let written = self.api.create(Kind::Event, namespace, event).await;
        let failed = std::mem::replace(&mut self.state.lock().is_failing, written.is_err());
        if let Err(error) = written
            && !failed
        {
            tracing::warn!(replica, reason, %error, "event not written");
        }
    }

    fn event(
        &self,
        severity: Severity,
        reason: &str,
        action: &str,
        note: &str,
    ) -> serde_json::Value {
        let Installation { namespace, replica, .. } = &self.installation;
        let now = OffsetDateTime::now_utc();
        let unique = now.unix_timestamp_nanos();
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": replica,
        });
        if let (Some(pod), Some(uid)) = (pod.as_object_mut(), &self.uid) {
            pod.insert("uid".to_owned(), json!(uid));
        }
        json!({
            "apiVersion": Kind::Event.api_version(),
            "kind": Kind::Event.name(),
            "metadata": {
                // A name has at most 253 characters; that of a pod can have as many.
                "name": format!("{}.{unique:x}", one_line(replica, 220)),
                "namespace": namespace,
                "labels": {NAME_LABEL.0: NAME_LABEL.1},
            },
            "eventTime": micro_time(now),
            "reportingController": "opgate.dev/opgate",
            // At most 128 characters.
            "reportingInstance": one_line(replica, 128),
            "type": severity.as_str(),
            "reason": reason,
            "action": action,
            "regarding": pod,
            "note": note,
        })
    }
}

impl State {
    /// Reports whether an event is news, and there is room for it in this minute. Then it counts as written.
    fn admit(&mut self, reason: &'static str, note: &str, now: Instant) -> bool {
        let is_last = |(of, last): &(&'static str, String)| *of == reason && last == note;
        if self.last.as_ref().is_some_and(is_last) {
            return false;
        }
        self.written.retain(|at| now.saturating_duration_since(*at) < MINUTE);
        if self.written.len() >= MAX_EVENTS_PER_MINUTE {
            return false;
        }
        self.written.push(now);
        // Trouble that comes back after something else is news.
        self.last = Some((reason, note.to_owned()));
        true
    }
}

/// Formats a time with exactly six digits: `2026-11-20T15:19:09.000000Z`.
pub(crate) fn micro_time(at: OffsetDateTime) -> String {
    let seconds = at.replace_nanosecond(0).unwrap_or(at);
    let text = seconds.format(&Rfc3339).unwrap_or_default();
    format!("{}.{:06}Z", text.trim_end_matches('Z'), at.microsecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::text;
    use crate::fake::{FakeApiServer, run_ready};

    fn events(server: &FakeApiServer) -> EventRecorder {
        let installation = Installation {
            namespace: "opgate-system".into(),
            service: "opgate".into(),
            replica: "opgate-7d9f".into(),
        };
        EventRecorder::new(Arc::new(server.client("a")), installation, Some("u1".into()))
    }

    fn event_writes(server: &FakeApiServer) -> usize {
        server.writes().len()
    }

    #[test]
    fn repeated_event_is_written_once_until_it_changes() {
        let server = FakeApiServer::default();
        let events = events(&server);
        let kept = |note: &str| {
            run_ready(events.record(
                Severity::Warning,
                "ConfigurationReloadFailed",
                "Reload",
                note,
            ));
        };
        kept("line 3 is wrong");
        kept("line 3 is wrong");
        assert_eq!(event_writes(&server), 1);
        kept("line 4 is wrong");
        assert_eq!(event_writes(&server), 2);
        run_ready(events.record(Severity::Normal, "ConfigurationReloaded", "Reload", "sha256:1"));
        kept("line 4 is wrong");
        assert_eq!(event_writes(&server), 4);
        let (_, kind, name) = server.writes().remove(0);
        let event = server.stored(kind, "opgate-system", &name).unwrap();
        assert_eq!(text(&event, "/regarding/name"), "opgate-7d9f");
        assert_eq!(text(&event, "/regarding/uid"), "u1");
        assert_eq!(text(&event, "/type"), "Warning");
        let at = text(&event, "/eventTime");
        assert_eq!(
            (at.len(), at.ends_with('Z')),
            ("2026-11-20T15:19:09.000000Z".len(), true),
            "{at}"
        );
    }

    #[test]
    fn events_are_rate_limited() {
        let server = FakeApiServer::default();
        let events = events(&server);
        for number in 0..100 {
            let note = format!("line {number}");
            run_ready(events.record(
                Severity::Warning,
                "ConfigurationReloadFailed",
                "Reload",
                &note,
            ));
        }
        assert_eq!(event_writes(&server), MAX_EVENTS_PER_MINUTE);
        let mut state = State::default();
        let start = Instant::now();
        let admitted = (0..600).filter(|second| {
            let note = second.to_string();
            state.admit("ConfigurationReloadFailed", &note, start + Duration::from_secs(*second))
        });
        assert_eq!(admitted.count(), 10 * MAX_EVENTS_PER_MINUTE);
    }

    #[test]
    fn forbidden_events_are_ignored() {
        let server = FakeApiServer::default();
        server.forbid(Kind::Event, true);
        let events = events(&server);
        run_ready(events.record(Severity::Warning, "ConfigurationReloadFailed", "Reload", "x"));
        run_ready(events.record(Severity::Warning, "ConfigurationReloadFailed", "Reload", "y"));
        assert_eq!(event_writes(&server), 0);
    }
}
