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

use super::aside::Waiting;
use super::cache::{ListFailure, poll_time, watch_time};
use super::decode::{ApiError, Event};
use super::paging::LARGEST_OBJECT;
use super::requests::{Server, label_selector, no_answer, path};
use super::{CacheStatus, Options, ResourceCache};

/// Waits after errors, doubled from the first to the last.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(10);

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
const STEADY: Duration = Duration::from_secs(2);

/// After this many errors at the same version, the list is read again.
const MOST_AT_ONE_VERSION: u32 = 3;

/// Growing waits with a random part, so that replicas do not return all at once.
#[derive(Debug)]
pub(super) struct Backoff {
    /// The interval at which a watch is renewed.
    watch: Duration,
    /// The interval at which a resource is polled.
    poll: Duration,
    failures: u32,
    /// Lists in a row that found no such resource.
    absences: u32,
    /// Lists in a row that could not be served.
    outages: u32,
    /// The last logged text: the same problem is logged once.
    told: Option<String>,
}

impl Backoff {
    pub(super) fn new(options: &Options) -> Self {
        let (watch, poll) = (watch_time(options.max_age), poll_time(options));
        Self { watch, poll, failures: 0, absences: 0, outages: 0, told: None }
    }

    fn next(&mut self) -> Duration {
        let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(8)).min(LAST_WAIT);
        self.failures = self.failures.saturating_add(1);
        shortened(wait)
    }

    /// Records that the cache is ready, which shows nothing about the next watch.
    fn current(&mut self, server: &Server, kind: &ResourceCache) {
        if self.told.take().is_some() {
            tracing::info!(resource = %kind.resource(), "cluster cache synced again");
            server.notify_recovered();
        }
    }

    /// Records that the watch works, or that only the list was needed.
    fn reset(&mut self, server: &Server, kind: &ResourceCache) {
        self.current(server, kind);
        self.failures = 0;
    }

    fn log_failure(&mut self, kind: &ResourceCache, why: &str) {
        if self.told.as_deref() != Some(why) {
            tracing::warn!(resource = %kind.resource(), why, "cluster cache sync failed; retrying");
            self.told = Some(why.to_owned());
        }
    }
}

/// A wait without a random part of at most a quarter.
fn shortened(wait: Duration) -> Duration {
    let mut random = [0; 1];
    // Without randomness, all wait for the maximum.
    let _ = aws_lc_rs::rand::fill(&mut random);
    wait.mul_f64(1.0 - f64::from(random[0]) / 1024.0)
}

/// Lists, then watches until a new list is needed, if the resource can be watched. Returns the wait
/// before the next list.
pub(super) async fn follow(server: &Server, kind: &ResourceCache, waits: &mut Backoff) -> Duration {
    let began = Instant::now();
    let trouble = match server.list(kind, kind.namespace(), None, Waiting::View).await {
        Ok(listing) => {
            (waits.absences, waits.outages) = (0, 0);
            let (objects, mut version) = (listing.objects.len(), listing.version.clone());
            kind.replace(listing, began);
            waits.current(server, kind);
            if kind.is_polled() && server.watches(kind.resource()).await != Some(true) {
                let (resource, seconds) = (kind.resource(), waits.poll.as_secs());
                if kind.status().lists == 1 {
                    tracing::info!(%resource, objects, seconds, "polled");
                } else {
                    tracing::debug!(%resource, objects, "polled");
                }
                waits.reset(server, kind);
                return shortened(waits.poll);
            }
            tracing::info!(resource = %kind.resource(), objects, "listed");
            match watch_on(server, kind, waits, &mut version).await {
                // A list determines whether it is gone.
                ApiError::Absent => ApiError::Gone,
                trouble if is_unwatchable(server, kind, &trouble).await => {
                    poll(kind, waits);
                    waits.reset(server, kind);
                    return shortened(waits.poll);
                }
                trouble => trouble,
            }
        }
        Err(trouble) => {
            if let ApiError::Forbidden(_) = trouble
                && is_unwatchable(server, kind, &trouble).await
            {
                // No permission must be requested that is not needed.
                poll(kind, waits);
            }
            // A role for objects in a namespace can be granted only where the namespace exists.
            match (&trouble, kind.namespace()) {
                (ApiError::Forbidden(_), Some(namespace))
                    if server.lacks_namespace(namespace).await =>
                {
                    ApiError::Absent
                }
                _ => trouble,
            }
        }
    };
    let is_unavailable = matches!(trouble, ApiError::Unavailable(_));
    let is_down = is_unavailable
        && waits.outages.saturating_add(1) >= ABSENT_LISTS_REQUIRED
        && server.is_down_behind(kind.resource()).await;
    let wait = failed(kind, waits, &trouble);
    kind.refused(match trouble {
        ApiError::Forbidden(_) => ListFailure::Forbidden,
        ApiError::Unauthorized(_) => ListFailure::Unauthorized,
        _ if is_down => ListFailure::Down,
        _ => ListFailure::No,
    });
    wait
}

/// Whether an API server that denies a request cannot watch the resource at all. Without the
/// permission to watch, only discovery shows that.
async fn is_unwatchable(server: &Server, kind: &ResourceCache, trouble: &ApiError) -> bool {
    match trouble {
        ApiError::NotAllowed(_) => true,
        ApiError::Forbidden(_) => server.watches(kind.resource()).await == Some(false),
        _ => false,
    }
}

fn poll(kind: &ResourceCache, waits: &Backoff) {
    if kind.set_polled(true) {
        let seconds = waits.poll.as_secs();
        tracing::info!(
            resource = %kind.resource(), seconds,
            "resource does not support watch; polling"
        );
    }
}

/// Records an error. Returns the wait before the next list.
fn failed(kind: &ResourceCache, waits: &mut Backoff, trouble: &ApiError) -> Duration {
    match trouble {
        ApiError::Absent if kind.status().objects > 0 && waits.absences < ABSENT_LISTS_REQUIRED => {
            // A proxy or a starting server responds with 404 as well, which does not mean that
            // objects are gone.
            waits.absences += 1;
        }
        ApiError::Absent => {
            if kind.status().standing != CacheStatus::NotInstalled {
                tracing::info!(resource = %kind.resource(), "not installed; looking for it again");
            }
            kind.absent();
            return ABSENT_WAIT;
        }
        ApiError::Gone | ApiError::Silence | ApiError::Memory => {
            tracing::debug!(resource = %kind.resource(), why = %trouble, "listing again");
            return waits.next();
        }
        ApiError::Unavailable(_) => waits.outages = waits.outages.saturating_add(1),
        ApiError::Unauthorized(_)
        | ApiError::Forbidden(_)
        | ApiError::NotAllowed(_)
        | ApiError::Other(_) => {}
    }
    let why = trouble.told(kind);
    kind.failed(why.clone());
    if waits.outages >= ABSENT_LISTS_REQUIRED {
        kind.unavailable();
    }
    waits.log_failure(kind, &why);
    waits.next()
}

/// One watch after another from a version on. Returns the reason why the list must be read again.
async fn watch_on(
    server: &Server,
    kind: &ResourceCache,
    waits: &mut Backoff,
    version: &mut String,
) -> ApiError {
    let watch = waits.watch;
    let short = MIN_WATCH_DURATION.min(watch / 2);
    let mut failed_here = 0;
    loop {
        let (started, before) = (Instant::now(), version.clone());
        let ended = watch_once(server, kind, watch, waits.poll, version).await;
        if *version != before {
            failed_here = 0;
            waits.reset(server, kind);
        }
        let (why, is_error) = match ended {
            Ok(()) if started.elapsed() >= short => {
                waits.reset(server, kind);
                if kind.time_since_contact() > watch.saturating_add(watch / 2) {
                    // It sends no bookmarks; a list has the same effect.
                    return ApiError::Silence;
                }
                if kind.has_memory_again() {
                    return ApiError::Memory;
                }
                continue;
            }
            Ok(()) => (format!("the API server ends watches within {short:?}"), false),
            Err(ApiError::Other(why) | ApiError::Unavailable(why)) => (why, true),
            Err(trouble) => return trouble,
        };
        failed_here += 1;
        if is_error || failed_here > 1 {
            kind.failed(why.clone());
            waits.log_failure(kind, &why);
        }
        if failed_here >= MOST_AT_ONE_VERSION {
            return ApiError::Other(why);
        }
        tokio::time::sleep(waits.next()).await;
    }
}

/// One watch, until it ends. `version` advances with it. Opening it is no contact; only its
/// messages are. It ends after `look` or a multiple of it if a list would show more.
async fn watch_once(
    server: &Server,
    kind: &ResourceCache,
    watch: Duration,
    look: Duration,
    version: &mut String,
) -> Result<(), ApiError> {
    let params = WatchParams {
        label_selector: label_selector(kind),
        field_selector: None,
        timeout: u32::try_from(watch.as_secs().max(1)).ok(),
        bookmarks: true,
        send_initial_events: false,
    };
    let request = Request::new(path(kind.resource(), kind.namespace()));
    let request = request.watch(&params, version).map_err(|e| ApiError::Other(e.to_string()))?;
    let stream = server.ask(request).await?;
    if kind.set_polled(false) {
        tracing::info!(resource = %kind.resource(), "resource supports watch; no longer polling");
    }
    let mut stream = std::pin::pin!(stream);
    let silence = watch.saturating_add(WATCH_END_GRACE);
    let (mut line, mut steady) = (Vec::new(), std::pin::pin!(tokio::time::sleep(STEADY)));
    let look = look.max(FIRST_WAIT);
    let mut looks = tokio::time::interval_at(Instant::now() + look, look);
    loop {
        line.clear();
        let mut rest = stream.as_mut().take(LARGEST_OBJECT);
        let reading = tokio::time::timeout(silence, rest.read_until(b'\n', &mut line));
        let mut reading = std::pin::pin!(reading);
        let read = loop {
            tokio::select! {
                read = &mut reading => break read,
                () = &mut steady, if !steady.is_elapsed() => kind.steady(),
                _ = looks.tick() => {
                    if kind.has_memory_again() {
                        return Err(ApiError::Memory);
                    }
                }
            }
        };
        let read = read.map_err(|_| ApiError::Other(no_answer(silence)))?;
        let read = read?;
        if read == 0 {
            return Ok(());
        }
        if u64::try_from(read) == Ok(LARGEST_OBJECT) {
            return Err(ApiError::Other(format!("an event of more than {LARGEST_OBJECT} bytes")));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let reading = kind.shared_reading();
        let read = move |line| Event::read(&reading, line);
        let event = server.readers.read(std::mem::take(&mut line), Waiting::View, read).await?;
        event.take_over(kind, version)?;
    }
}
