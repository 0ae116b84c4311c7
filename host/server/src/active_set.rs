//! The active policy set, and its replacement.
//!
//! ```text
//! a candidate set ─▶ ActivePolicySet::replace ─▶ current ─▶ calls that begin from now on
//!                         │                 └──────▶ ActiveConfiguration, for subscribers (watch channel)
//!                         └─▶ retired: the old set, until its last call has ended ─▶ dropped here
//! ActivePolicySet::failed ─▶ the last attempt, for /policies, /readyz?verbose and metrics
//! ```
//!
//! A call gets the set once, when it begins, and keeps it to its end. An old set is dropped by the
//! task that sweeps, never by a call: returning its memory can take milliseconds.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::sync::watch;

use super::metrics::Metrics;
use opgate_admission::policy::PolicySet;
use opgate_text::one_line;

/// The interval at which retired sets are checked.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum bytes of an error in `/readyz` and `/policies`.
const MAX_ERROR_BYTES: usize = 2 << 10;

/// The active configuration.
#[derive(Debug, Clone)]
pub struct ActiveConfiguration {
    /// `sha256:…` of the configuration and its components, see [`PolicySet::digest`].
    pub configuration: String,
    /// The policies.
    pub set: Arc<PolicySet>,
    /// The time when it became active.
    pub since: SystemTime,
    /// Whether it is the first one.
    pub(super) is_first: bool,
}

impl From<PolicySet> for ActiveConfiguration {
    fn from(set: PolicySet) -> Self {
        let configuration = set.digest().to_owned();
        Self { configuration, set: Arc::new(set), since: SystemTime::now(), is_first: true }
    }
}

/// The last attempt to replace the configuration.
#[derive(Debug, Clone)]
pub(super) struct ReloadAttempt {
    /// The time when it ended.
    pub(super) at: SystemTime,
    /// The digest of the files; empty if they could not be read.
    pub(super) configuration: String,
    /// The reason why the last good configuration stays active.
    pub(super) error: Option<String>,
}

/// The active policy set. Shared by all calls, and by the task that replaces it.
#[derive(Debug)]
pub struct ActivePolicySet {
    current: ArcSwap<ActiveConfiguration>,
    updates: watch::Sender<Arc<ActiveConfiguration>>,
    /// Retired sets, whose calls may still run.
    retired: Mutex<Vec<Arc<PolicySet>>>,
    attempt: Mutex<Option<ReloadAttempt>>,
    /// The reason why it is unknown whether the platform of the cluster is still the detected one.
    platform_error: Mutex<Option<String>>,
    metrics: Arc<Metrics>,
}

impl ActivePolicySet {
    pub(super) fn new(active: ActiveConfiguration, metrics: Arc<Metrics>) -> Self {
        let active = Arc::new(active);
        metrics.set_active(&active.set, &active.configuration, active.since);
        let told = watch::Sender::new(active.clone());
        let current = ArcSwap::new(active);
        Self {
            current,
            updates: told,
            retired: Mutex::default(),
            attempt: Mutex::default(),
            platform_error: Mutex::default(),
            metrics,
        }
    }

    /// Returns the active configuration.
    #[must_use]
    pub fn current(&self) -> Arc<ActiveConfiguration> {
        self.current.load_full()
    }

    /// Notifies of the active configuration, now and after each change.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<ActiveConfiguration>> {
        self.updates.subscribe()
    }

    /// Activates another set. Calls that have begun end with the old one.
    pub fn replace(&self, set: PolicySet) {
        let active =
            Arc::new(ActiveConfiguration { is_first: false, ..ActiveConfiguration::from(set) });
        let attempt = ReloadAttempt {
            at: SystemTime::now(),
            configuration: active.configuration.clone(),
            error: None,
        };
        self.metrics.set_active(&active.set, &active.configuration, active.since);
        let old = self.current.swap(active.clone());
        self.retired.lock().push(old.set.clone());
        *self.attempt.lock() = Some(attempt);
        self.metrics.count_configuration_reload("replaced");
        self.updates.send_replace(active);
    }

    /// Records the reason why the configuration of the files is not active. `configuration` is its
    /// digest, if there is one.
    pub fn record_failure(&self, configuration: &str, error: &str) {
        let error = Some(one_line(error, MAX_ERROR_BYTES));
        let (at, configuration) = (SystemTime::now(), configuration.to_owned());
        *self.attempt.lock() = Some(ReloadAttempt { at, configuration, error });
        self.metrics.count_configuration_reload("failed");
        self.metrics.set_configuration_stale(true);
    }

    /// Records that the configuration of the files is active.
    pub fn mark_up_to_date(&self) {
        self.metrics.set_configuration_stale(false);
        let mut attempt = self.attempt.lock();
        if let Some(attempt) = &mut *attempt
            && attempt.error.take().is_some()
        {
            attempt.at = SystemTime::now();
            self.current.load().configuration.clone_into(&mut attempt.configuration);
        }
    }

    /// Records whether the platform of the cluster is still the one that policies received;
    /// otherwise the reason why that is unknown.
    pub fn set_platform_error(&self, trouble: Option<String>) {
        *self.platform_error.lock() = trouble.map(|trouble| one_line(&trouble, MAX_ERROR_BYTES));
    }

    /// A line for `/readyz?verbose` about the profile and the identities.
    pub(super) fn platform_line(&self) -> String {
        let trust = one_line(&self.current.load().set.trust().to_string(), MAX_ERROR_BYTES);
        match &*self.platform_error.lock() {
            None => format!("[+]{trust}"),
            Some(trouble) => format!("[!]{trust}: as it was found before: {trouble}"),
        }
    }

    /// The profile and the identities for `/policies`.
    pub(super) fn platform_json(&self) -> serde_json::Value {
        let mut json = serde_json::json!(self.current.load().set.trust());
        if let (Some(members), Some(trouble)) = (json.as_object_mut(), &*self.platform_error.lock())
        {
            members.insert("error".to_owned(), trouble.clone().into());
        }
        json
    }

    /// The number of retired sets whose calls have not ended.
    #[must_use]
    pub fn retired(&self) -> usize {
        self.retired.lock().len()
    }

    /// Drops old sets whose calls have ended, while it is polled.
    pub(super) async fn sweep(&self) {
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            let mut ended = Vec::new();
            // No call gets a retired set: once its calls have ended, there is one owner.
            self.retired.lock().retain_mut(|set| {
                let has_ended = Arc::strong_count(set) == 1;
                if has_ended {
                    ended.push(set.clone());
                }
                !has_ended
            });
            if ended.is_empty() {
                continue;
            }
            // Not on a thread that serves requests.
            let dropped = tokio::task::spawn_blocking(move || {
                drop(ended);
                opgate_system::release_free_memory();
            });
            let _ = dropped.await;
            self.metrics.remove_policies_not_in(&self.current.load().set);
        }
    }

    /// A line for `/readyz?verbose`.
    pub(super) fn readyz_line(&self) -> String {
        let active = self.current.load();
        let since = timestamp(active.since).unwrap_or_default();
        match self.last_error() {
            None => format!("[+]configuration {} since {since}", active.configuration),
            Some(error) => format!(
                "[!]configuration {} since {since}, the last good one: {error}",
                active.configuration
            ),
        }
    }

    /// The reason why the configuration of the files is not active.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        self.attempt.lock().as_ref().and_then(|attempt| attempt.error.clone())
    }

    /// The state for `/policies`.
    pub(super) fn json(&self) -> serde_json::Value {
        let active = self.current.load();
        let attempt = self.attempt.lock().clone().map(|attempt| {
            serde_json::json!({
                "at": timestamp(attempt.at),
                "digest": attempt.configuration,
                "error": attempt.error,
            })
        });
        serde_json::json!({
            "digest": active.configuration,
            "since": timestamp(active.since),
            "lastAttempt": attempt,
            "retired": self.retired(),
        })
    }
}

/// `2026-11-20T15:19:09Z`
pub(super) fn timestamp(at: SystemTime) -> Option<String> {
    let at = OffsetDateTime::from(at).replace_nanosecond(0).ok()?;
    at.format(&Rfc3339).ok()
}
