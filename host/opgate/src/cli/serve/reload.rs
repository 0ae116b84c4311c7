//! Watches the configuration and the files of its policies, and replaces the active policy set.
//!
//! ```text
//! every --reload-interval, SIGHUP ─▶ check: digest of all contents, and of the platform ─ unchanged ─▶ done
//!                             │ changed, twice in a row
//!                             ▼
//!                in a thread with low priority: parse, compile, check ─▶ candidate Set
//!                             │
//!                             ▼
//!                wait: reservations are settled ─▶ list resources that only the candidate reads ─▶ replace
//!                             │
//!                on an error: the last good configuration stays active; the error is reported
//! ```
//!
//! Contents are compared, not times: a kubelet swaps a link, an editor renames, `cp` writes in place. A change
//! must be read twice, so that a partially written file is not loaded.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};

use super::cluster_args::{ClusterArgs, ClusterSource};
use super::discovery::{Discovery, DiscoveryError};
use crate::cli::args::ConfigArgs;
use crate::cli::input;
use opgate_admission::cluster::{Connection, Source};
use opgate_admission::policy::{Configuration, PolicySet, RuleDocs, SetError};
use opgate_controller::events::{EventRecorder, Severity};
use opgate_input::read::Reader;
use opgate_server::{ActivePolicySet, DefaultLimits, lower_priority, unlisted_resources};
use opgate_supervise::Supervisor;
use opgate_text::units::bytes;

/// Time between the two looks that must find the same.
const DEBOUNCE: Duration = Duration::from_millis(500);

/// Delays after an error outside the files, doubled from the first to the last.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(10);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(300);

/// Time for the first lists where the server itself does not wait for them (`--sync-timeout 0s`).
const DEFAULT_SYNC_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of memory and file checks while the candidate policy set waits.
const WAIT_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Sets that do not serve any more and whose calls have not ended, before another one is made, and how long such
/// a call can take.
const MAX_RETIRED_SETS: usize = 8;
const MAX_CALL_TIME: Duration = Duration::from_secs(90);

/// Minimum free memory for a reload. The reload is cancelled below half of it.
const MIN_FREE_BYTES: usize = 8 << 20;

/// Replaces the configuration while the server runs.
pub(super) struct Reload {
    /// Interval of checks.
    pub(super) interval: Duration,
    pub(super) config: ConfigArgs,
    pub(super) cluster: ClusterArgs,
    /// Source of the cluster's objects; none if they are from files.
    pub(super) source: Option<ClusterSource>,
    pub(super) connection: Option<Connection>,
    /// The detected platform, for `profile: auto`.
    pub(super) discovery: Arc<Discovery>,
    pub(super) default_limits: DefaultLimits,
    pub(super) system_root: PathBuf,
    pub(super) supervisor: Supervisor,
    pub(super) active_set: Arc<ActivePolicySet>,
    /// Bytes that requests may still take.
    pub(super) free_for_requests: Box<dyn Fn() -> usize + Send + Sync>,
    pub(super) events: Option<Arc<EventRecorder>>,
    /// Whether the server shows the documentation of the rules.
    pub(super) keeps_rule_docs: bool,
}

/// The error in the files.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct InvalidFiles(String);

/// Contents of the files.
struct FileState {
    /// Identifier of the contents: the digest of the configuration, or the error.
    id: String,
    configuration: Result<Configuration, InvalidFiles>,
}

/// Why the last good set serves on.
enum ReloadError {
    /// The error is in the files: the next attempt waits for a change.
    InvalidFiles(InvalidFiles),
    /// The error may be temporary.
    Temporary(String),
    /// The files have changed meanwhile.
    FilesChanged,
}

/// The last attempt that failed.
struct FailedAttempt {
    id: String,
    reason: String,
    /// Time and delay of the next retry; none to wait for changed files.
    retry: Option<(Instant, Duration)>,
}

impl Reload {
    /// Reports whether the files or the cluster can change the configuration.
    pub(super) fn can_change(&self) -> bool {
        self.config.config.is_some()
            || self.source.is_some_and(|source| source != ClusterSource::None)
    }

    /// Checks the files at each interval and on each notification, while it is polled.
    pub(super) async fn watch(self: Arc<Self>, mut told: watch::Receiver<()>) {
        let (mut candidate, mut failed) = (None::<String>, None::<FailedAttempt>);
        let mut is_told = false;
        loop {
            let wait =
                if candidate.is_some() { DEBOUNCE.min(self.interval) } else { self.interval };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                changed = told.changed() => {
                    if changed.is_err() {
                        // The sender is gone.
                        tokio::time::sleep(wait).await;
                    }
                    is_told = true;
                    // A tag can name another component by now.
                    self.config.registry.expire_tags();
                    self.discovery.force_discovery().await;
                }
            }
            let Some(look) = self.read_files().await else { continue };
            if look.id == self.active_set.current().configuration {
                (candidate, is_told) = (None, false);
                if failed.take().is_some() {
                    self.active_set.mark_up_to_date();
                    tracing::info!("files match the active configuration again");
                    self.publish_event(Severity::Normal, "ConfigurationUpToDate", &look.id);
                }
                continue;
            }
            let is_due = |failed: &FailedAttempt| {
                is_told || failed.retry.is_some_and(|(at, _)| Instant::now() >= at)
            };
            if failed.as_ref().is_some_and(|failed| failed.id == look.id && !is_due(failed)) {
                candidate = None;
                continue;
            }
            if candidate.as_ref() != Some(&look.id) {
                candidate = Some(look.id);
                continue;
            }
            (candidate, is_told) = (None, false);
            failed = self.attempt(look, failed).await;
        }
    }

    /// Tries to serve what the files hold. Returns what failed.
    async fn attempt(
        &self,
        look: FileState,
        before: Option<FailedAttempt>,
    ) -> Option<FailedAttempt> {
        let started = Instant::now();
        let FileState { id, configuration } = look;
        let digest = if configuration.is_ok() { id.as_str() } else { "" };
        let done = match configuration {
            Ok(configuration) => self.replace(&id, configuration).await,
            Err(why) => Err(ReloadError::InvalidFiles(why)),
        };
        let (why, is_later) = match done {
            Ok(policies) => {
                let took = started.elapsed();
                tracing::info!(configuration = id, policies, ?took, "configuration replaced");
                self.publish_event(Severity::Normal, "ConfigurationReloaded", &id);
                return None;
            }
            // The next checks read the current files.
            Err(ReloadError::FilesChanged) => return before,
            Err(ReloadError::InvalidFiles(why)) => (why.to_string(), false),
            Err(ReloadError::Temporary(why)) => (why, true),
        };
        self.active_set.record_failure(digest, &why);
        // A repeated error is logged once.
        let before = before.filter(|failed| failed.id == id);
        if before.as_ref().is_none_or(|failed| failed.reason != why) {
            tracing::error!(
                error = why,
                "configuration reload failed; keeping last good configuration"
            );
            self.publish_event(Severity::Warning, "ConfigurationReloadFailed", &why);
        }
        let wait = before
            .and_then(|failed| failed.retry)
            .map_or(MIN_RETRY_DELAY, |(_, wait)| wait.saturating_mul(2).min(MAX_RETRY_DELAY));
        let retry = is_later.then(|| (Instant::now() + wait, wait));
        Some(FailedAttempt { id, reason: why, retry })
    }

    /// Loads a set, makes it ready and serves it; gives the number of its policies.
    async fn replace(&self, id: &str, configuration: Configuration) -> Result<usize, ReloadError> {
        let few = async {
            while self.active_set.retired() >= MAX_RETIRED_SETS {
                tokio::time::sleep(WAIT_CHECK_INTERVAL).await;
            }
        };
        if !self.wait(id, MAX_CALL_TIME, few).await? {
            let why = "calls that began with earlier configurations have not ended";
            return Err(ReloadError::Temporary(why.to_owned()));
        }
        let served = self.active_set.current();
        let left = self.free_memory(MIN_FREE_BYTES)?;
        let children =
            self.default_limits.subprocess_bytes.min(left.saturating_sub(MIN_FREE_BYTES / 2));
        let (config, old) = (self.config.clone(), served.set.clone());
        let context = self.cluster.cluster_state.clone();
        let keeps_rule_docs = self.keeps_rule_docs;
        let loaded = run_in_background(move || {
            let mut set = config.candidate_set(&old, &configuration, children)?;
            if keeps_rule_docs {
                set.keep_rule_docs(RuleDocs::of(&configuration));
            }
            if set.cluster().options().source == Source::Snapshot {
                let filled = input::load_cluster_state(set.cluster(), &context, &Reader::default());
                return Ok((set, filled.map_err(|error| format!("--cluster-state: {error}"))));
            }
            Ok((set, Ok(())))
        });
        let (mut set, filled) = match loaded.await {
            None => {
                return Err(ReloadError::Temporary("the thread that loads it failed".to_owned()));
            }
            Some(Err(SetError::Config(error))) => {
                return Err(ReloadError::InvalidFiles(InvalidFiles(error.to_string())));
            }
            Some(Err(SetError::Engine(error))) => {
                return Err(ReloadError::Temporary(error.to_string()));
            }
            Some(Ok(loaded)) => loaded,
        };
        filled.map_err(ReloadError::Temporary)?;
        if set.digest() != id {
            return Err(ReloadError::FilesChanged);
        }
        let broken = set.newly_broken(&served.set);
        let broken: Vec<_> = broken.map(|b| format!("policy {}: {}", b.name, b.error)).collect();
        if !broken.is_empty() {
            return Err(ReloadError::Temporary(broken.join("; ")));
        }
        self.free_memory(MIN_FREE_BYTES / 2)?;
        self.connect(&mut set, id, &served.set).await?;
        if !set.cluster().activate() {
            let why = "more was allowed meanwhile than can be kept until it is seen: try again";
            return Err(ReloadError::Temporary(why.to_owned()));
        }
        let policies = set.policies().len();
        self.active_set.replace(set);
        Ok(policies)
    }

    /// Lets a set see the cluster: what it shares with the old one, and what only it reads.
    async fn connect(
        &self,
        set: &mut PolicySet,
        id: &str,
        old: &PolicySet,
    ) -> Result<(), ReloadError> {
        let reads = !set.cluster().caches().is_empty();
        let connection = match (&self.connection, self.source) {
            (Some(connection), _) => Some(connection.clone()),
            (None, Some(source)) if reads => {
                let connection = self.cluster.connection(source).await;
                connection.map_err(|failure| ReloadError::Temporary(failure.error.to_string()))?
            }
            _ => None,
        };
        let Some(connection) = connection else { return Ok(()) };
        if set.has_new_reads(old) {
            // From here on what is allowed is reserved for this set, too. What was allowed before is stored
            // when this time is over, or never: then a list has it.
            let time = set.cluster().max_reservation_time();
            self.wait(id, time, std::future::pending()).await?;
        }
        set.keep_watches(connection.watch_beside(set.cluster(), &self.supervisor, old.watches()));
        let most = Some(self.cluster.sync_timeout)
            .filter(|time| !time.is_zero())
            .unwrap_or(DEFAULT_SYNC_TIMEOUT);
        if !self.wait(id, most, set.cluster().wait_synced_except(old.cluster())).await? {
            let lines = unlisted_resources(set);
            let why = if lines.is_empty() { "no list yet".to_owned() } else { lines.join("; ") };
            let why = format!("what it reads could not be listed within {most:?}: {why}");
            return Err(ReloadError::Temporary(why));
        }
        set.read_directly(connection, self.cluster.consistent_reads);
        Ok(())
    }

    /// Waits for something, but not longer than this. Says whether it has come. Ends early if the files change,
    /// or if memory runs short.
    async fn wait(
        &self,
        id: &str,
        most: Duration,
        something: impl Future<Output = ()>,
    ) -> Result<bool, ReloadError> {
        let end = tokio::time::Instant::now() + most;
        let mut something = std::pin::pin!(something);
        let mut last_check = Instant::now();
        loop {
            let step = end.min(tokio::time::Instant::now() + WAIT_CHECK_INTERVAL);
            if tokio::time::timeout_at(step, something.as_mut()).await.is_ok() {
                return Ok(true);
            }
            if tokio::time::Instant::now() >= end {
                return Ok(false);
            }
            self.free_memory(MIN_FREE_BYTES / 2)?;
            if last_check.elapsed() >= self.interval.max(DEBOUNCE) {
                last_check = Instant::now();
                if self.read_files().await.is_some_and(|look| look.id != id) {
                    return Err(ReloadError::FilesChanged);
                }
            }
        }
    }

    /// Returns bytes of memory that are left for a reload.
    fn free_memory(&self, least: usize) -> Result<usize, ReloadError> {
        let Some(left) =
            self.default_limits.remaining_bytes(&self.system_root, (self.free_for_requests)())
        else {
            return Ok(usize::MAX);
        };
        if left < least {
            let limit = bytes(self.default_limits.limit.unwrap_or_default());
            // The text is constant, so that it is logged once.
            return Err(ReloadError::Temporary(format!(
                "not enough memory to load another configuration in addition to the active one: less than {} of {limit} are left; raise the memory limit, lower --max-request-memory, or restart the server",
                bytes(least)
            )));
        }
        Ok(left)
    }

    /// Reads the files, and the cluster unless the files configure a profile.
    async fn read_files(&self) -> Option<FileState> {
        let config = self.config.clone();
        // Registries are contacted only for new references in the file, see [`crate::cli::registry`].
        let read =
            run_in_background(move || config.configuration().map_err(|error| error.to_string()))
                .await?;
        let failed = |error: String| FileState {
            id: format!("error: {error}"),
            configuration: Err(InvalidFiles(error)),
        };
        let mut configuration = match read {
            Ok(configuration) => configuration,
            Err(error) => return Some(failed(error)),
        };
        if let Err(why) = self.discover(&mut configuration).await {
            return Some(failed(format!("profile auto: {why}")));
        }
        run_in_background(move || FileState {
            id: configuration.digest(),
            configuration: Ok(configuration),
        })
        .await
    }

    /// Completes a configuration that leaves it to the cluster what the cluster is.
    async fn discover(&self, configuration: &mut Configuration) -> Result<(), DiscoveryError> {
        let live = self.source.filter(|source| *source != ClusterSource::None);
        let (Some(source), Some(wanted)) = (live, configuration.platform_query()) else {
            self.active_set.set_platform_error(None);
            return Ok(());
        };
        let connection = if let Some(connection) = &self.connection {
            Some(connection.clone())
        } else {
            let connection = self.cluster.connection(source).await;
            connection.map_err(|failure| DiscoveryError(failure.error.to_string()))?
        };
        let Some(connection) = connection else { return Ok(()) };
        let (platform, discovery_error) = self.discovery.discover(&connection, wanted).await?;
        self.active_set.set_platform_error(discovery_error.map(|why| why.to_string()));
        configuration.set_platform(platform);
        Ok(())
    }

    fn publish_event(&self, severity: Severity, reason: &'static str, note: &str) {
        if let Some(events) = self.events.clone() {
            let note = note.to_owned();
            tokio::spawn(async move { events.record(severity, reason, "Reload", &note).await });
        }
    }
}

/// Runs work on a separate thread with lower priority than serving threads; none if the thread cannot be
/// created.
async fn run_in_background<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = oneshot::channel();
    let thread = std::thread::Builder::new().name("opgate-reload".to_owned()).spawn(move || {
        lower_priority();
        // The receiver is gone when the server stops.
        let _ = tell.send(work());
    });
    if let Err(error) = thread {
        tracing::warn!(%error, "thread for a configuration reload not created");
    }
    told.await.ok()
}
