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

use super::super::{ConfigArgs, input};
use super::cluster::{ClusterArgs, ClusterSource};
use super::discovery::Discovery;
use opgate_admission::cluster::{Connection, Source};
use opgate_admission::policy::{Configuration, PolicySet, SetError};
use opgate_controller::events::{Events, Severity};
use opgate_input::read::Reader;
use opgate_server::{ActivePolicySet, DefaultLimits, give_way, unseen};
use opgate_supervise::Supervisor;
use opgate_text::units::bytes;

/// Time between the two looks that must find the same.
const DEBOUNCE: Duration = Duration::from_millis(500);

/// Delays after an error outside the files, doubled from the first to the last.
const FIRST_RETRY: Duration = Duration::from_secs(10);
const LAST_RETRY: Duration = Duration::from_secs(300);

/// Time for the first lists where the server itself does not wait for them (`--sync-timeout 0s`).
const SYNC: Duration = Duration::from_secs(10);

/// Interval of memory and file checks while the candidate policy set waits.
const STEP: Duration = Duration::from_millis(250);

/// Sets that do not serve any more and whose calls have not ended, before another one is made, and how long such
/// a call can take.
const MOST_RETIRED: usize = 8;
const LONGEST_CALL: Duration = Duration::from_secs(90);

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
    pub(super) room: DefaultLimits,
    pub(super) system_root: PathBuf,
    pub(super) supervisor: Supervisor,
    pub(super) serving: Arc<ActivePolicySet>,
    /// Bytes that requests may still take.
    pub(super) free_for_requests: Box<dyn Fn() -> usize + Send + Sync>,
    pub(super) events: Option<Arc<Events>>,
}

/// Contents of the files.
struct FileState {
    /// Identifier of the contents: the digest of the configuration, or the error.
    id: String,
    configuration: Result<Configuration, String>,
}

/// Why the last good set serves on.
enum ReloadError {
    /// The error is in the files: the next attempt waits for a change.
    Files(String),
    /// The error may be temporary.
    Later(String),
    /// The files have changed meanwhile.
    Changed,
}

/// The last attempt that failed.
struct Failed {
    id: String,
    why: String,
    /// Time and delay of the next retry; none to wait for changed files.
    retry: Option<(Instant, Duration)>,
}

impl Reload {
    /// Reports whether the files or the cluster can change the configuration.
    pub(super) fn has_work(&self) -> bool {
        self.config.config.is_some()
            || self.source.is_some_and(|source| source != ClusterSource::None)
    }

    /// Checks the files at each interval and on each notification, while it is polled.
    pub(super) async fn watch(self: Arc<Self>, mut told: watch::Receiver<()>) {
        let (mut candidate, mut failed) = (None::<String>, None::<Failed>);
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
                    self.config.registry.forget();
                    self.discovery.forget().await;
                }
            }
            let Some(look) = self.look().await else { continue };
            if look.id == self.serving.current().configuration {
                (candidate, is_told) = (None, false);
                if failed.take().is_some() {
                    self.serving.mark_up_to_date();
                    tracing::info!("files match the active configuration again");
                    self.tell(Severity::Normal, "ConfigurationUpToDate", &look.id);
                }
                continue;
            }
            let is_due = |failed: &Failed| {
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
    async fn attempt(&self, look: FileState, before: Option<Failed>) -> Option<Failed> {
        let started = Instant::now();
        let FileState { id, configuration } = look;
        let digest = if configuration.is_ok() { id.as_str() } else { "" };
        let done = match configuration {
            Ok(configuration) => self.replace(&id, configuration).await,
            Err(why) => Err(ReloadError::Files(why)),
        };
        let (why, is_later) = match done {
            Ok(policies) => {
                let took = started.elapsed();
                tracing::info!(configuration = id, policies, ?took, "configuration replaced");
                self.tell(Severity::Normal, "ConfigurationReloaded", &id);
                return None;
            }
            // The next checks read the current files.
            Err(ReloadError::Changed) => return before,
            Err(ReloadError::Files(why)) => (why, false),
            Err(ReloadError::Later(why)) => (why, true),
        };
        self.serving.record_failure(digest, &why);
        // A repeated error is logged once.
        let before = before.filter(|failed| failed.id == id);
        if before.as_ref().is_none_or(|failed| failed.why != why) {
            tracing::error!(
                error = why,
                "configuration reload failed; keeping last good configuration"
            );
            self.tell(Severity::Warning, "ConfigurationReloadFailed", &why);
        }
        let wait = before
            .and_then(|failed| failed.retry)
            .map_or(FIRST_RETRY, |(_, wait)| wait.saturating_mul(2).min(LAST_RETRY));
        let retry = is_later.then(|| (Instant::now() + wait, wait));
        Some(Failed { id, why, retry })
    }

    /// Loads a set, makes it ready and serves it; gives the number of its policies.
    async fn replace(&self, id: &str, configuration: Configuration) -> Result<usize, ReloadError> {
        let few = async {
            while self.serving.retired() >= MOST_RETIRED {
                tokio::time::sleep(STEP).await;
            }
        };
        if !self.wait(id, LONGEST_CALL, few).await? {
            let why = "calls that began with earlier configurations have not ended";
            return Err(ReloadError::Later(why.to_owned()));
        }
        let served = self.serving.current();
        let left = self.left(MIN_FREE_BYTES)?;
        let children = self.room.children.min(left.saturating_sub(MIN_FREE_BYTES / 2));
        let (config, old) = (self.config.clone(), served.set.clone());
        let context = self.cluster.cluster_state.clone();
        let loaded = run_in_background(move || {
            let set = config.candidate_set(&old, &configuration, children)?;
            if set.cluster().options().source == Source::Snapshot {
                let filled = input::load_cluster_state(set.cluster(), &context, &Reader::default());
                return Ok((set, filled.map_err(|error| format!("--cluster-state: {error}"))));
            }
            Ok((set, Ok(())))
        });
        let (mut set, filled) = match loaded.await {
            None => return Err(ReloadError::Later("the thread that loads it failed".to_owned())),
            Some(Err(SetError::Config(error))) => {
                return Err(ReloadError::Files(error.to_string()));
            }
            Some(Err(SetError::Engine(error))) => {
                return Err(ReloadError::Later(error.to_string()));
            }
            Some(Ok(loaded)) => loaded,
        };
        filled.map_err(ReloadError::Later)?;
        if set.digest() != id {
            return Err(ReloadError::Changed);
        }
        let broken = set.newly_broken(&served.set);
        let broken: Vec<_> = broken.map(|b| format!("policy {}: {}", b.name, b.error)).collect();
        if !broken.is_empty() {
            return Err(ReloadError::Later(broken.join("; ")));
        }
        self.left(MIN_FREE_BYTES / 2)?;
        self.connect(&mut set, id, &served.set).await?;
        if !set.cluster().serves() {
            let why = "more was allowed meanwhile than can be kept until it is seen: try again";
            return Err(ReloadError::Later(why.to_owned()));
        }
        let policies = set.policies().len();
        self.serving.replace(set);
        Ok(policies)
    }

    /// Lets a set see the cluster: what it shares with the old one, and what only it reads.
    async fn connect(
        &self,
        set: &mut PolicySet,
        id: &str,
        old: &PolicySet,
    ) -> Result<(), ReloadError> {
        let reads = !set.cluster().kinds().is_empty();
        let connection = match (&self.connection, self.source) {
            (Some(connection), _) => Some(connection.clone()),
            (None, Some(source)) if reads => {
                let connection = self.cluster.connection(source).await;
                connection.map_err(|failure| ReloadError::Later(failure.error.to_string()))?
            }
            _ => None,
        };
        let Some(connection) = connection else { return Ok(()) };
        if set.has_new_reads(old) {
            // From here on what is allowed is reserved for this set, too. What was allowed before is stored
            // when this time is over, or never: then a list has it.
            let time = set.cluster().options().reservation;
            self.wait(id, time, std::future::pending()).await?;
        }
        set.keep(connection.watch_beside(set.cluster(), &self.supervisor, old.watches()));
        let most = Some(self.cluster.sync_timeout).filter(|time| !time.is_zero()).unwrap_or(SYNC);
        if !self.wait(id, most, set.cluster().wait_synced_except(old.cluster())).await? {
            let lines = unseen(set);
            let why = if lines.is_empty() { "no list yet".to_owned() } else { lines.join("; ") };
            let why = format!("what it reads could not be listed within {most:?}: {why}");
            return Err(ReloadError::Later(why));
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
        let mut looked = Instant::now();
        loop {
            let step = end.min(tokio::time::Instant::now() + STEP);
            if tokio::time::timeout_at(step, something.as_mut()).await.is_ok() {
                return Ok(true);
            }
            if tokio::time::Instant::now() >= end {
                return Ok(false);
            }
            self.left(MIN_FREE_BYTES / 2)?;
            if looked.elapsed() >= self.interval.max(DEBOUNCE) {
                looked = Instant::now();
                if self.look().await.is_some_and(|look| look.id != id) {
                    return Err(ReloadError::Changed);
                }
            }
        }
    }

    /// Returns bytes of memory that are left for a reload.
    fn left(&self, least: usize) -> Result<usize, ReloadError> {
        let Some(left) = self.room.left(&self.system_root, (self.free_for_requests)()) else {
            return Ok(usize::MAX);
        };
        if left < least {
            let limit = bytes(self.room.limit.unwrap_or_default());
            // The text is constant, so that it is logged once.
            return Err(ReloadError::Later(format!(
                "not enough memory to load another configuration in addition to the active one: less than {} of {limit} are left; raise the memory limit, lower --max-request-memory, or restart the server",
                bytes(least)
            )));
        }
        Ok(left)
    }

    /// Reads the files, and the cluster unless the files configure a profile.
    async fn look(&self) -> Option<FileState> {
        let config = self.config.clone();
        // Registries are contacted only for new references in the file, see [`super::super::registry`].
        let read =
            run_in_background(move || config.configuration().map_err(|error| error.to_string()))
                .await?;
        let failed =
            |error: String| FileState { id: format!("error: {error}"), configuration: Err(error) };
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
    async fn discover(&self, configuration: &mut Configuration) -> Result<(), String> {
        let live = self.source.filter(|source| *source != ClusterSource::None);
        let (Some(source), Some(wanted)) = (live, configuration.wanted()) else {
            self.serving.trusts(None);
            return Ok(());
        };
        let connection = if let Some(connection) = &self.connection {
            Some(connection.clone())
        } else {
            let connection = self.cluster.connection(source).await;
            connection.map_err(|failure| failure.error.to_string())?
        };
        let Some(connection) = connection else { return Ok(()) };
        let (platform, trouble) = self.discovery.look(&connection, wanted).await?;
        self.serving.trusts(trouble);
        configuration.set_platform(platform);
        Ok(())
    }

    fn tell(&self, severity: Severity, reason: &'static str, note: &str) {
        if let Some(events) = self.events.clone() {
            let note = note.to_owned();
            tokio::spawn(async move { events.tell(severity, reason, "Reload", &note).await });
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
        give_way();
        // The receiver is gone when the server stops.
        let _ = tell.send(work());
    });
    if let Err(error) = thread {
        tracing::warn!(%error, "thread for a configuration reload not created");
    }
    told.await.ok()
}
