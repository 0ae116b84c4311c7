//! How current is what is known of a resource.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::Kind;
use crate::cluster::lens::Listing;
use crate::cluster::reservations::Reservations;
use crate::cluster::{Options, Source};

/// A watch that has failed for so long is interrupted: what it shows may be old.
const INTERRUPTED: Duration = Duration::from_secs(5);

/// Whether there is an answer about a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The first answer of the API server is still under way.
    Listing,
    /// The API server has never told about it.
    Unseen,
    /// There is an answer.
    Current,
    /// The API server does not know the resource: there are no objects.
    NotInstalled,
    /// It was last heard of too long ago.
    TooOld,
}

impl Standing {
    /// Whether there is an answer.
    #[must_use]
    pub fn is_current(self) -> bool {
        matches!(self, Self::Current | Self::NotInstalled)
    }

    /// Whether there ever was one.
    #[must_use]
    pub fn was_seen(self) -> bool {
        !matches!(self, Self::Listing | Self::Unseen)
    }
}

/// How a resource stands, for people and metrics.
#[derive(Debug, Clone)]
pub struct Status {
    /// Whether there is an answer.
    pub standing: Standing,
    /// For how long the watch has failed, where that is long enough to matter.
    pub interrupted: Option<Duration>,
    /// For how long there has been a view.
    pub seen: Option<Duration>,
    /// Objects.
    pub objects: usize,
    /// Objects that cannot be read.
    pub unreadable: usize,
    /// Requests that were allowed and are not settled.
    pub reservations: usize,
    /// Bytes that all of it takes.
    pub bytes: usize,
    /// `resourceVersion` of the API server up to which everything is known; empty for files.
    pub version: String,
    /// When an object was last heard of.
    pub last_event: Option<SystemTime>,
    /// Why there is no answer, or why there will be none soon.
    pub error: Option<String>,
}

/// What is known of a resource, and since when.
#[derive(Debug)]
pub(super) struct State {
    pub(super) listing: Listing,
    pub(super) reserved: Reservations,
    /// Since when there is a view; none before the first list.
    pub(super) synced: Option<Instant>,
    /// The API server does not know the resource.
    pub(super) absent: bool,
    /// When something was decoded that the API server said: a list, an event, a bookmark.
    pub(super) contact: Instant,
    /// Since when nothing but failures came.
    pub(super) failing: Option<Instant>,
    pub(super) last_event: Option<SystemTime>,
    pub(super) error: Option<String>,
}

impl State {
    /// `at` is when that was so which was heard.
    pub(super) fn heard(&mut self, is_event: bool, at: Instant) {
        self.contact = at;
        self.failing = None;
        self.error = None;
        if is_event {
            self.last_event = Some(SystemTime::now());
        }
        self.reserved.heard(self.listing.version.parse().ok(), at);
    }

    pub(super) fn is_listing(&self) -> bool {
        self.synced.is_none() && self.error.is_none()
    }

    pub(super) fn standing(&self, options: &Options) -> Standing {
        match (self.synced, self.absent) {
            (None, _) if self.is_listing() => Standing::Listing,
            (None, _) => Standing::Unseen,
            _ if self.is_too_old(options) => Standing::TooOld,
            (Some(_), true) => Standing::NotInstalled,
            (Some(_), false) => Standing::Current,
        }
    }

    pub(super) fn interrupted(&self) -> Option<Duration> {
        let failing = self.failing.map(|since| since.elapsed());
        failing.filter(|failing| self.synced.is_some() && *failing >= INTERRUPTED)
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

impl Kind {
    /// How the resource stands.
    #[must_use]
    pub fn status(&self) -> Status {
        let state = self.state.read();
        let why = state.why_not_current(&self.options);
        Status {
            standing: state.standing(&self.options),
            interrupted: state.interrupted().filter(|_| self.options.source == Source::Live),
            seen: state.synced.map(|since| since.elapsed()),
            objects: state.listing.objects.len(),
            unreadable: state.listing.unreadable.len(),
            reservations: state.reserved.len(),
            version: state.listing.version.clone(),
            bytes: state.listing.objects.bytes().saturating_add(state.reserved.bytes()),
            last_event: state.last_event,
            error: why.or_else(|| state.error.clone()),
        }
    }
}
