//! The state of the cache of a resource.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::ResourceCache;
use crate::cluster::reservations::Reservations;
use crate::cluster::view::Listing;
use crate::cluster::{Options, Source};
use opgate_engine::reader::ReadError;

/// The time after which a failing watch counts as interrupted: its cache can be outdated.
const WATCH_FAILURE_THRESHOLD: Duration = Duration::from_secs(5);

/// Whether the cache of a resource is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStatus {
    /// The first answer of the API server has not arrived yet.
    Listing,
    /// The API server has never reported it.
    Unseen,
    /// The cache is ready.
    Current,
    /// The API server does not know the resource: there are no objects.
    NotInstalled,
    /// The last contact was too long ago: the cache is stale.
    TooOld,
}

impl CacheStatus {
    /// Whether the cache is ready.
    #[must_use]
    pub fn is_current(self) -> bool {
        matches!(self, Self::Current | Self::NotInstalled)
    }

    /// Whether the cache was ever ready.
    #[must_use]
    pub fn was_listed(self) -> bool {
        !matches!(self, Self::Listing | Self::Unseen)
    }
}

/// The state of a resource, for users and metrics.
#[derive(Debug, Clone)]
pub struct Status {
    /// Whether the cache is ready.
    pub standing: CacheStatus,
    /// Whether policies work without the resource: permission to read it is optional, or its
    /// server is down.
    pub left_out: bool,
    /// Whether the API server does not accept the token of this server.
    pub unauthorized: bool,
    /// The time for which the watch has been failing, if it is long enough to matter.
    pub interrupted: Option<Duration>,
    /// Whether it is polled, because it cannot be watched.
    pub polled: bool,
    /// The time since the first list.
    pub seen: Option<Duration>,
    /// The time since the last contact. None for files, and before the first list.
    pub age: Option<Duration>,
    /// The number of lists that were stored.
    pub lists: u64,
    /// Objects.
    pub objects: usize,
    /// Objects that cannot be read.
    pub unreadable: usize,
    /// The number of unreadable objects that are kept by name because there is no memory for them.
    pub by_name: usize,
    /// Some of the namespaces of those.
    pub crowded: Vec<String>,
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
    pub(super) reserved: Reservations,
    /// The time of the first list; none before it.
    pub(super) synced: Option<Instant>,
    /// The API server does not know the resource.
    pub(super) absent: bool,
    /// It is polled, because it cannot be watched.
    pub(super) polled: bool,
    /// The API server cannot serve it now.
    pub(super) unavailable: bool,
    /// The reason why the last list failed.
    pub(super) refused: ListFailure,
    /// The time since which the API server responds but denies access to the resource.
    pub(super) locked_out: Option<Instant>,
    /// The number of lists.
    pub(super) lists: u64,
    /// The time of the last decoded message of the API server: a list, an event, a bookmark.
    pub(super) contact: Instant,
    /// The time since which there are only errors.
    pub(super) failing: Option<Instant>,
    pub(super) last_event: Option<SystemTime>,
    pub(super) error: Option<String>,
}

impl CacheState {
    /// Records a contact. `at` is the time for which the news holds.
    pub(super) fn record_contact(&mut self, is_event: bool, at: Instant) {
        self.contact = at;
        self.failing = None;
        self.error = None;
        self.unavailable = false;
        self.refused = ListFailure::No;
        self.locked_out = None;
        if is_event {
            self.last_event = Some(SystemTime::now());
        }
        self.reserved.advance_to(self.listing.version.parse().ok(), at);
    }

    pub(super) fn is_listing(&self) -> bool {
        self.synced.is_none() && self.error.is_none()
    }

    pub(super) fn standing(&self, options: &Options) -> CacheStatus {
        match (self.synced, self.absent) {
            (None, _) if self.is_listing() => CacheStatus::Listing,
            (None, _) => CacheStatus::Unseen,
            _ if self.is_too_old(options) => CacheStatus::TooOld,
            (Some(_), true) => CacheStatus::NotInstalled,
            (Some(_), false) => CacheStatus::Current,
        }
    }

    pub(super) fn interrupted(&self) -> Option<Duration> {
        let failing = self.failing.map(|since| since.elapsed());
        failing.filter(|failing| self.synced.is_some() && *failing >= WATCH_FAILURE_THRESHOLD)
    }

    pub(super) fn is_too_old(&self, options: &Options) -> bool {
        options.source == Source::Live && self.contact.elapsed() > options.max_age
    }

    pub(super) fn why_not_current(&self, options: &Options) -> Option<String> {
        let because = self.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        if self.synced.is_none() {
            return Some(format!("is not synced yet{because}"));
        }
        if self.is_too_old(options) {
            let age = self.contact.elapsed().as_secs();
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
    pub(in crate::cluster) fn unavailable(&self) {
        self.state.write().unavailable = true;
        self.settled().notify_waiters();
    }

    /// Whether nothing waits for the resource: it was listed, or cannot be.
    pub(in crate::cluster) fn is_known(&self) -> bool {
        let state = self.state.read();
        let is_left_out = self.is_optional() && state.refused == ListFailure::Forbidden;
        state.synced.is_some() || state.unavailable || is_left_out
    }

    /// Records why the last list failed.
    pub(in crate::cluster) fn refused(&self, refused: ListFailure) {
        let mut state = self.state.write();
        // A resource that was not installed may now exist without permission to read it.
        if refused == ListFailure::Forbidden && state.absent {
            (state.absent, state.synced) = (false, None);
        }
        state.refused = refused;
        if matches!(refused, ListFailure::Forbidden | ListFailure::Unauthorized) {
            state.locked_out.get_or_insert_with(Instant::now);
        }
        drop(state);
        self.settled().notify_waiters();
    }

    /// The reason why policies work without the resource: it was never listed, permission to read
    /// it is optional, or the server that serves it is down.
    pub(in crate::cluster) fn refusal(&self) -> Option<ReadError> {
        let state = self.state.read();
        let is_left_out = self.is_optional() && state.refused == ListFailure::Forbidden;
        if !is_left_out && state.refused != ListFailure::Down {
            return None;
        }
        let why = format!("{} {}", self.resource(), state.why_not_current(&self.options)?);
        Some(if is_left_out { ReadError::NotGranted(why) } else { ReadError::Unavailable(why) })
    }

    /// Whether the API server responds, but has denied access to the resource for longer than the
    /// maximum age of the cache. An API server that does not respond is another case: it sends no
    /// reviews either.
    #[must_use]
    pub fn is_locked_out(&self) -> bool {
        let state = self.state.read();
        let is_left_out = self.is_optional() && state.refused == ListFailure::Forbidden;
        state.locked_out.is_some() && !is_left_out && state.is_too_old(&self.options)
    }

    /// Whether no object of the resource was ever listed.
    pub(in crate::cluster) fn shows_nothing(&self) -> bool {
        let listing = &self.state.read().listing;
        listing.objects.is_empty() && listing.unreadable.is_empty()
    }

    /// The state of the resource.
    #[must_use]
    pub fn status(&self) -> Status {
        let state = self.state.read();
        let (listing, why) = (&state.listing, state.why_not_current(&self.options));
        let is_optional = self.is_optional() && state.refused == ListFailure::Forbidden;
        let reserved = state.reserved.usage();
        Status {
            standing: state.standing(&self.options),
            left_out: is_optional || state.refused == ListFailure::Down,
            unauthorized: state.refused == ListFailure::Unauthorized,
            interrupted: state.interrupted().filter(|_| self.options.source == Source::Live),
            polled: state.polled,
            seen: state.synced.map(|since| since.elapsed()),
            age: (self.options.source == Source::Live)
                .then(|| state.synced.map(|_| state.contact.elapsed()))
                .flatten(),
            lists: state.lists,
            objects: listing.objects.len(),
            unreadable: listing.unreadable.len(),
            by_name: listing.unreadable.by_name(),
            crowded: listing.unreadable.namespaces(),
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
