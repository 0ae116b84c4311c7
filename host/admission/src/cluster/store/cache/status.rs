//! The state of the cache of a resource.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::ResourceCache;
use crate::cluster::reservations::Reservations;
use crate::cluster::store::listing::Listing;
use crate::cluster::{ClusterOptions, Source};
use opgate_engine::reader::ReadError;

/// The time after which a failing watch counts as interrupted: its cache can be outdated.
const WATCH_FAILURE_THRESHOLD: Duration = Duration::from_secs(5);

/// Whether the cache of a resource is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStatus {
    /// The first answer of the API server has not arrived yet.
    Listing,
    /// The API server has never reported it.
    NeverListed,
    /// The cache is ready.
    Ready,
    /// The API server does not know the resource: there are no objects.
    NotInstalled,
    /// The last contact was too long ago: the cache is stale.
    Stale,
}

impl CacheStatus {
    /// Whether the cache is ready.
    #[must_use]
    pub fn is_ready(self) -> bool {
        matches!(self, Self::Ready | Self::NotInstalled)
    }

    /// Whether the cache was ever ready.
    #[must_use]
    pub fn was_listed(self) -> bool {
        !matches!(self, Self::Listing | Self::NeverListed)
    }
}

/// The state of a resource, for users and metrics.
#[derive(Debug, Clone)]
pub struct ResourceStatus {
    /// Whether the cache is ready.
    pub cache_status: CacheStatus,
    /// Whether policies work without the resource: permission to read it is optional, or its
    /// server is down.
    pub is_absence_tolerated: bool,
    /// Whether the API server does not accept the token of this server.
    pub unauthorized: bool,
    /// The time for which the watch has been failing, if it is long enough to matter.
    pub interrupted: Option<Duration>,
    /// Whether it is polled, because it cannot be watched.
    pub polled: bool,
    /// The time since the first list.
    pub since_first_list: Option<Duration>,
    /// The time since the last contact. None for files, and before the first list.
    pub since_contact: Option<Duration>,
    /// The number of lists that were stored.
    pub lists: u64,
    /// Objects.
    pub objects: usize,
    /// Objects that cannot be read.
    pub unreadable: usize,
    /// The number of unreadable objects that are kept by name because there is no memory for them.
    pub name_only: usize,
    /// Some of the namespaces of those.
    pub namespaces_over_limit: Vec<String>,
    /// Allowed requests that are not settled.
    pub reservations: usize,
    /// Bytes in use.
    pub bytes: usize,
    /// The `resourceVersion` of the API server up to which the cache is complete; empty for files.
    pub version: String,
    /// The time of the last contact.
    pub last_event: Option<SystemTime>,
    /// The reason why the cache is not ready, or will soon become stale.
    pub error: Option<String>,
    /// The last error without times: the text stays the same while the problem does.
    pub cause: Option<String>,
}

/// The reason why a list failed, if policies can work without the resource for that reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cluster) enum ListFailure {
    /// The list did not fail, or for another reason.
    No,
    /// The API server does not permit to read it.
    Forbidden,
    /// The API server does not accept the token.
    Unauthorized,
    /// Another server behind the API server serves it, and is down.
    Down,
}

/// The state of the cache of a resource, with times.
#[derive(Debug)]
pub(super) struct CacheState {
    pub(super) listing: Listing,
    pub(super) reservations: Reservations,
    /// The time of the first list; none before it.
    pub(super) synced: Option<Instant>,
    /// The API server does not know the resource.
    pub(super) absent: bool,
    /// It is polled, because it cannot be watched.
    pub(super) polled: bool,
    /// The API server cannot serve it now.
    pub(super) unavailable: bool,
    /// The reason why the last list failed.
    pub(super) list_failure: ListFailure,
    /// The time since which the API server responds but denies access to the resource.
    pub(super) denied_since: Option<Instant>,
    /// The number of lists.
    pub(super) lists: u64,
    /// The time of the last decoded message of the API server: a list, an event, a bookmark.
    pub(super) last_contact: Instant,
    /// The time since which there are only errors.
    pub(super) failing_since: Option<Instant>,
    pub(super) last_event: Option<SystemTime>,
    pub(super) error: Option<String>,
    /// The version that the cache must have reached, according to the ledger of all replicas.
    pub(super) required_version: u64,
}

impl CacheState {
    /// Records a contact. `at` is the time for which the news holds.
    pub(super) fn record_contact(&mut self, is_event: bool, at: Instant) {
        self.last_contact = at;
        self.failing_since = None;
        self.error = None;
        self.unavailable = false;
        self.list_failure = ListFailure::No;
        self.denied_since = None;
        if is_event {
            self.last_event = Some(SystemTime::now());
        }
        self.reservations.advance_to(self.listing.version.parse().ok(), at);
    }

    pub(super) fn is_listing(&self) -> bool {
        self.synced.is_none() && self.error.is_none()
    }

    pub(super) fn status(&self, options: &ClusterOptions) -> CacheStatus {
        match (self.synced, self.absent) {
            (None, _) if self.is_listing() => CacheStatus::Listing,
            (None, _) => CacheStatus::NeverListed,
            _ if self.is_stale(options) => CacheStatus::Stale,
            (Some(_), true) => CacheStatus::NotInstalled,
            (Some(_), false) => CacheStatus::Ready,
        }
    }

    pub(super) fn interrupted(&self) -> Option<Duration> {
        let failing = self.failing_since.map(|since| since.elapsed());
        failing.filter(|failing| self.synced.is_some() && *failing >= WATCH_FAILURE_THRESHOLD)
    }

    pub(super) fn is_stale(&self, options: &ClusterOptions) -> bool {
        options.source == Source::Live && self.last_contact.elapsed() > options.max_age
    }

    pub(super) fn not_ready_reason(&self, options: &ClusterOptions) -> Option<String> {
        let because = self.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        if self.synced.is_none() {
            return Some(format!("is not synced yet{because}"));
        }
        if self.is_stale(options) {
            let age = self.last_contact.elapsed().as_secs();
            return Some(format!("was last heard of {age} s ago{because}"));
        }
        None
    }
}

impl ResourceCache {
    /// Whether the resource is polled, because it cannot be watched.
    pub(in crate::cluster) fn is_polled(&self) -> bool {
        self.state.read().polled
    }

    /// Records whether it is polled; returns whether that is new.
    pub(in crate::cluster) fn set_polled(&self, polled: bool) -> bool {
        std::mem::replace(&mut self.state.write().polled, polled) != polled
    }

    /// Records that the API server cannot serve the resource, for an unknown time.
    pub(in crate::cluster) fn mark_unavailable(&self) {
        self.state.write().unavailable = true;
        self.settled_notify().notify_waiters();
    }

    /// Whether nothing waits for the resource: it was listed, or cannot be.
    pub(in crate::cluster) fn is_resolved(&self) -> bool {
        let state = self.state.read();
        let is_left_out = self.is_optional() && state.list_failure == ListFailure::Forbidden;
        state.synced.is_some() || state.unavailable || is_left_out
    }

    /// Records why the last list failed.
    pub(in crate::cluster) fn record_list_failure(&self, refused: ListFailure) {
        let mut state = self.state.write();
        // A resource that was not installed may now exist without permission to read it.
        if refused == ListFailure::Forbidden && state.absent {
            (state.absent, state.synced) = (false, None);
        }
        state.list_failure = refused;
        if matches!(refused, ListFailure::Forbidden | ListFailure::Unauthorized) {
            state.denied_since.get_or_insert_with(Instant::now);
        }
        drop(state);
        self.settled_notify().notify_waiters();
    }

    /// The reason why policies work without the resource: it was never listed, permission to read
    /// it is optional, or the server that serves it is down.
    pub(in crate::cluster) fn unavailable_error(&self) -> Option<ReadError> {
        let state = self.state.read();
        let is_left_out = self.is_optional() && state.list_failure == ListFailure::Forbidden;
        if !is_left_out && state.list_failure != ListFailure::Down {
            return None;
        }
        let why = format!("{} {}", self.resource(), state.not_ready_reason(&self.options)?);
        Some(if is_left_out { ReadError::NotGranted(why) } else { ReadError::Unavailable(why) })
    }

    /// Whether the API server responds, but has denied access to the resource for longer than the
    /// maximum age of the cache. An API server that does not respond is another case: it sends no
    /// reviews either.
    #[must_use]
    pub fn is_access_denied(&self) -> bool {
        let state = self.state.read();
        let is_left_out = self.is_optional() && state.list_failure == ListFailure::Forbidden;
        state.denied_since.is_some() && !is_left_out && state.is_stale(&self.options)
    }

    /// Whether no object of the resource was ever listed.
    pub(in crate::cluster) fn has_no_objects(&self) -> bool {
        let listing = &self.state.read().listing;
        listing.objects.is_empty() && listing.unreadable.is_empty()
    }

    /// The state of the resource.
    #[must_use]
    pub fn status(&self) -> ResourceStatus {
        let state = self.state.read();
        let (listing, why) = (&state.listing, state.not_ready_reason(&self.options));
        let is_optional = self.is_optional() && state.list_failure == ListFailure::Forbidden;
        let reserved = state.reservations.usage();
        ResourceStatus {
            cache_status: state.status(&self.options),
            is_absence_tolerated: is_optional || state.list_failure == ListFailure::Down,
            unauthorized: state.list_failure == ListFailure::Unauthorized,
            interrupted: state.interrupted().filter(|_| self.options.source == Source::Live),
            polled: state.polled,
            since_first_list: state.synced.map(|since| since.elapsed()),
            since_contact: (self.options.source == Source::Live)
                .then(|| state.synced.map(|_| state.last_contact.elapsed()))
                .flatten(),
            lists: state.lists,
            objects: listing.objects.len(),
            unreadable: listing.unreadable.len(),
            name_only: listing.unreadable.name_only_count(),
            namespaces_over_limit: listing.unreadable.namespaces(),
            reservations: reserved.count,
            version: listing.version.clone(),
            bytes: [listing.objects.bytes(), listing.unreadable.bytes(), reserved.bytes]
                .into_iter()
                .fold(0, usize::saturating_add),
            last_event: state.last_event,
            error: why.or_else(|| state.error.clone()),
            cause: state.error.clone(),
        }
    }
}
