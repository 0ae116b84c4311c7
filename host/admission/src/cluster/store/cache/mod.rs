//! One resource: its objects, the reserved changes, and the age of the cache.
//!
//! ```text
//! list, watch ─▶ Listing ───────┐
//! read directly ─▶ Listing ─────┼▶ get, select (in a World) ─▶ Reader
//! allowed ─▶ Reservations ──────┘
//! ```

mod changes;
mod query;
mod reserve;
mod status;

use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opgate_cluster::{Declaration, Key, Resource, Selector, Store};
use opgate_document::Value;
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cluster::reservations::Reservations;
use crate::cluster::store::listing::Listing;
use crate::cluster::store::memory::CacheMemory;
use crate::cluster::store::reservation_registry::StandbyState;
use crate::cluster::{ClusterOptions, ResolvedRead, Source};

pub(crate) use changes::Change;
pub(in crate::cluster) use reserve::AllowedChange;
pub use reserve::ReservationCounters;
use status::CacheState;
pub(in crate::cluster) use status::ListFailure;
pub use status::{CacheStatus, ResourceStatus};

/// The objects of one resource that any policy reads.
#[derive(Debug)]
pub struct ResourceCache {
    resolved_read: Arc<ResolvedRead>,
    /// The display name: the resource, and the namespace if other kinds have the same resource.
    name: String,
    options: ClusterOptions,
    state: RwLock<CacheState>,
    /// The outcome of changes that were allowed before its cluster state serves.
    standby: StandbyState,
    /// Notified of all news that can settle a reservation.
    settled_notify: Notify,
    /// Notified of each reservation.
    reserved_notify: Notify,
    /// Whether only some of the existing objects are known: an unknown object may exist.
    is_partial: AtomicBool,
    /// The memory for its objects, shared with the other kinds of its cluster state.
    memory: Arc<CacheMemory>,
}

impl ResourceCache {
    pub(in crate::cluster) fn new(
        reading: ResolvedRead,
        options: ClusterOptions,
        memory: Arc<CacheMemory>,
    ) -> Self {
        let objects = Store::new(reading.declaration.index_count());
        let state = CacheState {
            listing: Listing { objects, ..Listing::default() },
            reservations: Reservations::default(),
            synced: matches!(options.source, Source::Snapshot | Source::PartialSnapshot)
                .then(Instant::now),
            absent: false,
            polled: reading.resource.is_server_version(),
            unavailable: false,
            list_failure: ListFailure::No,
            denied_since: None,
            lists: 0,
            last_contact: Instant::now(),
            failing_since: None,
            last_event: None,
            error: None,
            required_version: 0,
        };
        let name = reading.resource.to_string();
        let (state, awaited) = (RwLock::new(state), StandbyState::default());
        let (settled, reserved) = (Notify::new(), Notify::new());
        let (is_partial, reading) = (AtomicBool::new(false), Arc::new(reading));
        Self {
            resolved_read: reading,
            name,
            options,
            state,
            standby: awaited,
            settled_notify: settled,
            reserved_notify: reserved,
            is_partial,
            memory,
        }
    }

    /// Converts it to a kind of cluster state that does not serve yet.
    pub(in crate::cluster) fn into_standby(self) -> Self {
        Self { standby: StandbyState::new(), ..self }
    }

    /// Sets another display name.
    pub(in crate::cluster) fn with_name(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// The display name, unique in its cluster state.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The read that it serves.
    pub(crate) fn resolved_read(&self) -> &ResolvedRead {
        &self.resolved_read
    }

    /// A shared pointer to the read, for another thread.
    pub(in crate::cluster) fn shared_resolved_read(&self) -> Arc<ResolvedRead> {
        self.resolved_read.clone()
    }

    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resolved_read.resource
    }

    /// Whether it keeps objects of this group and resource, in any version.
    pub(in crate::cluster) fn holds_resource(&self, group: &str, resource: &str) -> bool {
        let known = self.resource();
        known.group == group
            && known.resource == resource
            // No API server stores it, even if a cluster has a resource of the same name.
            && !known.is_server_version()
    }

    /// Whether its cluster state serves, and whether it missed changes before.
    pub(in crate::cluster) fn standby_state(&self) -> &StandbyState {
        &self.standby
    }

    /// Whether policies work without it if the server is not permitted to read it.
    pub(in crate::cluster) fn is_optional(&self) -> bool {
        self.resolved_read.optional
    }

    /// Only objects with these labels are kept.
    #[must_use]
    pub fn labels(&self) -> &Selector {
        &self.resolved_read.labels
    }

    /// Only objects of this namespace are kept.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.resolved_read.namespace.as_deref()
    }

    /// The stored fields.
    #[must_use]
    pub fn declaration(&self) -> &Declaration {
        &self.resolved_read.declaration
    }

    /// Whether only some objects are known, so that queries for others cannot be answered.
    pub(in crate::cluster) fn is_partial(&self) -> bool {
        self.is_partial.load(Ordering::Relaxed)
    }

    /// Adds objects to the known ones. If there were none, the result is partial.
    pub(in crate::cluster) fn merge_partial(&self, listing: Listing) {
        if self.has_no_objects() {
            self.is_partial.store(true, Ordering::Relaxed);
        }
        self.merge(listing);
    }

    /// Records that the API server does not know the resource: the list is empty until it does.
    pub(in crate::cluster) fn mark_absent(&self) {
        self.replace(self.empty(), Instant::now());
        let mut state = self.state.write();
        state.absent = true;
        // A resource that is installed later can be another API.
        state.polled = self.resource().is_server_version();
    }

    /// Records that the API server has no news up to this version.
    pub(in crate::cluster) fn record_bookmark(&self, version: &str) {
        let mut state = self.state.write();
        state.listing.advance_to(version);
        state.record_contact(false, Instant::now());
        drop(state);
        self.settled_notify.notify_waiters();
    }

    /// Whether the API server has ever reported the resource.
    pub(in crate::cluster) fn was_listed(&self) -> bool {
        self.state.read().synced.is_some()
    }

    /// The time since the last contact.
    pub(crate) fn time_since_contact(&self) -> Duration {
        self.state.read().last_contact.elapsed()
    }

    /// Records that the watch is open and does not fail. That is no contact, because it may have
    /// no news yet.
    pub(in crate::cluster) fn mark_watch_open(&self) {
        let mut state = self.state.write();
        state.failing_since = None;
        state.error = None;
        state.denied_since = None;
    }

    /// Records an error. The known objects remain until they are too old.
    pub(in crate::cluster) fn record_error(&self, error: String) {
        let mut state = self.state.write();
        state.failing_since.get_or_insert_with(Instant::now);
        state.error = Some(error);
    }

    /// A hash of everything that policies can read of it, except for the versions of objects; none if not all of it
    /// is known. Of an unreadable object, it has the name and the reason, because queries that could return it fail.
    #[must_use]
    pub fn content_fingerprint(&self, keys: &RandomState) -> Option<u64> {
        let state = self.state.read();
        let Listing { objects, unreadable, .. } = &state.listing;
        if state.synced.is_none() || self.is_partial() || unreadable.name_only_count() > 0 {
            return None;
        }
        let mut hasher = keys.build_hasher();
        (self.name(), state.absent, objects.len(), unreadable.len()).hash(&mut hasher);
        unreadable.hash_names(&mut hasher);
        objects.iter().for_each(|object| object.hash_content(&mut hasher));
        Some(hasher.finish())
    }

    /// Whether the cache can be outdated because its watch fails, so that a direct read is newer.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        let state = self.state.read();
        state.synced.is_some() && (state.interrupted().is_some() || state.is_stale(&self.options))
    }

    /// Whether two objects of the API server differ in their stored fields.
    pub(in crate::cluster) fn differs_in_stored_fields(
        &self,
        left: Value<'_>,
        right: Value<'_>,
        namespace: &str,
    ) -> bool {
        match (self.project(left, namespace), self.project(right, namespace)) {
            // A change of an object need not name its version.
            (Ok(Some(left)), Ok(Some(right))) => !left.is_equivalent(&right),
            (Ok(None), Ok(None)) => false,
            _ => true,
        }
    }
}

impl Listing {
    fn advance_to(&mut self, version: &str) {
        if !version.is_empty() {
            version.clone_into(&mut self.version);
        }
    }
}

/// Namespace and name of an object.
pub(in crate::cluster) fn key_of(object: Value<'_>, namespace: &str) -> Option<Key> {
    let text = |pointer: &str| object.get(pointer).and_then(|v| v.text());
    let namespace = text("/metadata/namespace").unwrap_or(namespace);
    Some(Key::new(namespace, text("/metadata/name")?))
}

/// The interval at which a resource is polled: one failed list does not make the cache stale.
pub(in crate::cluster) fn poll_interval(options: &ClusterOptions) -> Duration {
    options.poll_interval.min((options.max_age / 3).max(Duration::from_secs(1)))
}

/// The interval at which a watch is renewed if events are at most `max_age` old: three contacts in
/// that time.
pub(in crate::cluster) fn watch_interval(max_age: Duration) -> Duration {
    (max_age / 3).clamp(Duration::from_secs(1), Duration::from_secs(280))
}
