//! A resource behind an API server: one list and watch, or one list after the other.
//!
//! ```text
//! list (pages) ─▶ watch ─▶ ADDED MODIFIED DELETED BOOKMARK ─▶ ResourceCache
//!   ▲              │ ended or cut: watch on from the last version
//!   ├── 410 Gone ──┤ 403, 404, 5xx: wait, list again
//!   └── interval ──┘ 405, or no such verb: the resource is polled
//! ```
//!
//! There are two reasons for a separate loop in addition to that of `kube`: objects are projected
//! from the text of the response without a tree in between, and bookmarks are visible, which show
//! the age of a quiet resource (docs/adr/0011). Aggregated APIs need not support watches: see
//! docs/adr/0023.

use std::time::Duration;

use futures_util::{AsyncBufReadExt as _, AsyncReadExt as _};
use kube::core::Request;
use kube::core::params::WatchParams;
use tokio::time::Instant;

use crate::cluster::store::cache::{ListFailure, poll_interval, watch_interval};
use crate::cluster::watch::decode::MAX_OBJECT_BYTES;
use crate::cluster::watch::decode::{ApiError, Event};
use crate::cluster::watch::parse_limiter::ReadPriority;
use crate::cluster::watch::requests::{ApiServer, label_selector, resource_path, timeout_text};
use crate::cluster::{CacheStatus, ClusterOptions, ResourceCache};

/// Waits after errors, doubled from the first to the last.
const MIN_BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// Number of lists in a row without such a resource after which its objects count as gone, and
/// number of lists that cannot be served after which nothing waits for the resource.
const ABSENT_LISTS_REQUIRED: u32 = 3;

/// The interval at which to check a resource that the API server does not know.
const ABSENT_WAIT: Duration = Duration::from_secs(5);

/// A watch that does not end by itself is stopped after this additional time.
const WATCH_END_GRACE: Duration = Duration::from_secs(15);

/// A watch that ends sooner has failed. Otherwise a server that accepts and closes would get
/// hundreds of requests a second.
const MIN_WATCH_DURATION: Duration = Duration::from_secs(5);

/// A watch that was open for this time has not failed.
const MIN_STEADY_DURATION: Duration = Duration::from_secs(2);

/// After this many errors at the same version, the list is read again.
const MAX_ERRORS_PER_VERSION: u32 = 3;

/// Growing waits with a random part, so that replicas do not return all at once.
#[derive(Debug)]
pub(in crate::cluster) struct Backoff {
    /// The interval at which a watch is renewed.
    watch_interval: Duration,
    /// The interval at which a resource is polled.
    poll_interval: Duration,
    failures: u32,
    /// Lists in a row that found no such resource.
    absences: u32,
    /// Lists in a row that could not be served.
    outages: u32,
    /// The last logged text: the same problem is logged once.
    last_logged: Option<String>,
}

impl Backoff {
    pub(in crate::cluster) fn new(options: &ClusterOptions) -> Self {
        let (watch, poll) = (watch_interval(options.max_age), poll_interval(options));
        Self {
            watch_interval: watch,
            poll_interval: poll,
            failures: 0,
            absences: 0,
            outages: 0,
            last_logged: None,
        }
    }

    fn next_wait(&mut self) -> Duration {
        let wait = MIN_BACKOFF.saturating_mul(1 << self.failures.min(8)).min(MAX_BACKOFF);
        self.failures = self.failures.saturating_add(1);
        with_jitter(wait)
    }

    /// Records that the cache is ready, which shows nothing about the next watch.
    fn mark_synced(&mut self, server: &ApiServer, cache: &ResourceCache) {
        if self.last_logged.take().is_some() {
            tracing::info!(resource = %cache.resource(), "cluster cache synced again");
            server.notify_recovered();
        }
    }

    /// Records that the watch works, or that only the list was needed.
    fn reset(&mut self, server: &ApiServer, cache: &ResourceCache) {
        self.mark_synced(server, cache);
        self.failures = 0;
    }

    fn log_failure(&mut self, cache: &ResourceCache, why: &str) {
        if self.last_logged.as_deref() != Some(why) {
            tracing::warn!(resource = %cache.resource(), why, "cluster cache sync failed; retrying");
            self.last_logged = Some(why.to_owned());
        }
    }
}

/// A wait without a random part of at most a quarter.
fn with_jitter(wait: Duration) -> Duration {
    let mut random = [0; 1];
    // Without randomness, all wait for the maximum.
    let _ = aws_lc_rs::rand::fill(&mut random);
    wait.mul_f64(1.0 - f64::from(random[0]) / 1024.0)
}

/// Lists, then watches until a new list is needed, if the resource can be watched. Returns the wait
/// before the next list.
pub(in crate::cluster) async fn list_and_watch(
    server: &ApiServer,
    cache: &ResourceCache,
    backoff: &mut Backoff,
) -> Duration {
    let began = Instant::now();
    let error = match server.list(cache, cache.namespace(), None, ReadPriority::Cache).await {
        Ok(listing) => {
            (backoff.absences, backoff.outages) = (0, 0);
            let (objects, mut version) = (listing.objects.len(), listing.version.clone());
            cache.replace(listing, began);
            backoff.mark_synced(server, cache);
            if cache.is_polled() && server.is_watchable(cache.resource()).await != Some(true) {
                let (resource, seconds) = (cache.resource(), backoff.poll_interval.as_secs());
                if cache.status().lists == 1 {
                    tracing::info!(%resource, objects, seconds, "polled");
                } else {
                    tracing::debug!(%resource, objects, "polled");
                }
                backoff.reset(server, cache);
                return with_jitter(backoff.poll_interval);
            }
            tracing::info!(resource = %cache.resource(), objects, "listed");
            match watch_from(server, cache, backoff, &mut version).await {
                // A list determines whether it is gone.
                ApiError::Absent => ApiError::Gone,
                error if is_unwatchable(server, cache, &error).await => {
                    start_polling(cache, backoff);
                    backoff.reset(server, cache);
                    return with_jitter(backoff.poll_interval);
                }
                error => error,
            }
        }
        Err(error) => {
            if let ApiError::Forbidden(_) = error
                && is_unwatchable(server, cache, &error).await
            {
                // No permission must be requested that is not needed.
                start_polling(cache, backoff);
            }
            // A role for objects in a namespace can be granted only where the namespace exists.
            match (&error, cache.namespace()) {
                (ApiError::Forbidden(_), Some(namespace))
                    if server.lacks_namespace(namespace).await =>
                {
                    ApiError::Absent
                }
                _ => error,
            }
        }
    };
    let is_unavailable = matches!(error, ApiError::Unavailable(_));
    let is_down = is_unavailable
        && backoff.outages.saturating_add(1) >= ABSENT_LISTS_REQUIRED
        && server.is_down_behind(cache.resource()).await;
    let wait = record_failure(cache, backoff, &error);
    cache.record_list_failure(match error {
        ApiError::Forbidden(_) => ListFailure::Forbidden,
        ApiError::Unauthorized(_) => ListFailure::Unauthorized,
        _ if is_down => ListFailure::Down,
        _ => ListFailure::No,
    });
    wait
}

/// Whether an API server that denies a request cannot watch the resource at all. Without the
/// permission to watch, only discovery shows that.
async fn is_unwatchable(server: &ApiServer, cache: &ResourceCache, error: &ApiError) -> bool {
    match error {
        ApiError::NotAllowed(_) => true,
        ApiError::Forbidden(_) => server.is_watchable(cache.resource()).await == Some(false),
        _ => false,
    }
}

fn start_polling(cache: &ResourceCache, backoff: &Backoff) {
    if cache.set_polled(true) {
        let seconds = backoff.poll_interval.as_secs();
        tracing::info!(
            resource = %cache.resource(), seconds,
            "resource does not support watch; polling"
        );
    }
}

/// Records an error. Returns the wait before the next list.
fn record_failure(cache: &ResourceCache, backoff: &mut Backoff, error: &ApiError) -> Duration {
    match error {
        ApiError::Absent
            if cache.status().objects > 0 && backoff.absences < ABSENT_LISTS_REQUIRED =>
        {
            // A proxy or a starting server responds with 404 as well, which does not mean that
            // objects are gone.
            backoff.absences += 1;
        }
        ApiError::Absent => {
            if cache.status().cache_status != CacheStatus::NotInstalled {
                tracing::info!(resource = %cache.resource(), "not installed; looking for it again");
            }
            cache.mark_absent();
            return ABSENT_WAIT;
        }
        ApiError::Gone | ApiError::Expired(_) | ApiError::Silence | ApiError::Memory => {
            tracing::debug!(resource = %cache.resource(), why = %error, "listing again");
            return backoff.next_wait();
        }
        ApiError::Unavailable(_) => backoff.outages = backoff.outages.saturating_add(1),
        ApiError::Unauthorized(_)
        | ApiError::Forbidden(_)
        | ApiError::NotAllowed(_)
        | ApiError::Busy { .. }
        | ApiError::Other(_) => {}
    }
    let why = error.message_for(cache);
    cache.record_error(why.clone());
    if backoff.outages >= ABSENT_LISTS_REQUIRED {
        cache.mark_unavailable();
    }
    backoff.log_failure(cache, &why);
    backoff.next_wait()
}

/// One watch after another from a version on. Returns the reason why the list must be read again.
async fn watch_from(
    server: &ApiServer,
    cache: &ResourceCache,
    backoff: &mut Backoff,
    version: &mut String,
) -> ApiError {
    let watch = backoff.watch_interval;
    let short = MIN_WATCH_DURATION.min(watch / 2);
    let mut failed_here = 0;
    loop {
        let (started, before) = (Instant::now(), version.clone());
        let ended = watch_once(server, cache, watch, backoff.poll_interval, version).await;
        if *version != before {
            failed_here = 0;
            backoff.reset(server, cache);
        }
        let (why, is_error) = match ended {
            Ok(()) if started.elapsed() >= short => {
                backoff.reset(server, cache);
                if cache.time_since_contact() > watch.saturating_add(watch / 2) {
                    // It sends no bookmarks; a list has the same effect.
                    return ApiError::Silence;
                }
                if cache.has_memory_again() {
                    return ApiError::Memory;
                }
                continue;
            }
            Ok(()) => (format!("the API server ends watches within {short:?}"), false),
            Err(ApiError::Other(why) | ApiError::Unavailable(why)) => (why, true),
            Err(error @ ApiError::Busy { .. }) => (error.to_string(), true),
            Err(error) => return error,
        };
        failed_here += 1;
        if is_error || failed_here > 1 {
            cache.record_error(why.clone());
            backoff.log_failure(cache, &why);
        }
        if failed_here >= MAX_ERRORS_PER_VERSION {
            return ApiError::Other(why);
        }
        tokio::time::sleep(backoff.next_wait()).await;
    }
}

/// One watch, until it ends. `version` advances with it. Opening it is no contact; only its
/// messages are. It ends after `look` or a multiple of it if a list would show more.
async fn watch_once(
    server: &ApiServer,
    cache: &ResourceCache,
    watch: Duration,
    look: Duration,
    version: &mut String,
) -> Result<(), ApiError> {
    let params = WatchParams {
        label_selector: label_selector(cache),
        field_selector: None,
        timeout: u32::try_from(watch.as_secs().max(1)).ok(),
        bookmarks: true,
        send_initial_events: false,
    };
    let request = Request::new(resource_path(cache.resource(), cache.namespace()));
    let request = request.watch(&params, version).map_err(|e| ApiError::Other(e.to_string()))?;
    let stream = server.send(request).await?;
    if cache.set_polled(false) {
        tracing::info!(resource = %cache.resource(), "resource supports watch; no longer polling");
    }
    let mut stream = std::pin::pin!(stream);
    let silence = watch.saturating_add(WATCH_END_GRACE);
    let (mut line, mut steady) =
        (Vec::new(), std::pin::pin!(tokio::time::sleep(MIN_STEADY_DURATION)));
    let look = look.max(MIN_BACKOFF);
    let mut looks = tokio::time::interval_at(Instant::now() + look, look);
    loop {
        line.clear();
        let mut rest = stream.as_mut().take(MAX_OBJECT_BYTES);
        let reading = tokio::time::timeout(silence, rest.read_until(b'\n', &mut line));
        let mut reading = std::pin::pin!(reading);
        let read = loop {
            tokio::select! {
                read = &mut reading => break read,
                () = &mut steady, if !steady.is_elapsed() => cache.mark_watch_open(),
                _ = looks.tick() => {
                    if cache.has_memory_again() {
                        return Err(ApiError::Memory);
                    }
                }
            }
        };
        let read = read.map_err(|_| ApiError::Other(timeout_text(silence)))?;
        let read = read?;
        if read == 0 {
            return Ok(());
        }
        if u64::try_from(read) == Ok(MAX_OBJECT_BYTES) {
            return Err(ApiError::Other(format!("an event of more than {MAX_OBJECT_BYTES} bytes")));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let reading = cache.shared_resolved_read();
        let read = move |line| Event::read(&reading, line);
        let event =
            server.parse_limiter.read(std::mem::take(&mut line), ReadPriority::Cache, read).await?;
        event.apply_to(cache, version)?;
    }
}
