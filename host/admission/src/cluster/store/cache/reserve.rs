//! Reserves allowed changes, and settles them.

use std::sync::Arc;

use opgate_cluster::{Key, Object, Query};
use opgate_document::{Document, Value};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::ResourceCache;
use crate::cluster::reservations::{
    Change, ChangeContent, DirectReadResult, ForeignChange, Origin, RecordedQuery, ReservationId,
    ReservationsFull, ReservedChange, SettledReservation, Tenant, Usage, is_newer,
};
use crate::cluster::store::listing::Listing;

/// Numbers of reservations, to detect new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservationCounters {
    /// The number of reservations that were made.
    pub made: u64,
    /// The number of those that are known to be stored, or not to be stored.
    pub settled: u64,
}

/// An allowed change of an object.
#[derive(Debug, Clone, Copy)]
pub(in crate::cluster) struct AllowedChange<'a> {
    pub(in crate::cluster) key: &'a Key,
    pub(in crate::cluster) object: &'a Document,
    pub(in crate::cluster) old: Option<Value<'a>>,
    /// The `resourceVersion` of the old object; empty for a new object.
    pub(in crate::cluster) base_version: &'a str,
    pub(in crate::cluster) tenant: &'a Tenant,
    /// The request in the ledger; none if this is the only replica.
    pub(in crate::cluster) id: Option<&'a ReservationId>,
}

/// The stored part of an object before and after an allowed change.
#[derive(Debug)]
struct ProjectedChange {
    object: Option<Arc<Object>>,
    old: Option<Arc<Object>>,
}

impl ResourceCache {
    /// The numbers of reservations that were made and settled.
    pub(in crate::cluster) fn counters(&self) -> ReservationCounters {
        let state = self.state.read();
        ReservationCounters {
            made: state.reservations.made_count(),
            settled: state.reservations.settled_count(),
        }
    }

    /// Checks whether an allowed change fits into the reservation limits.
    ///
    /// # Errors
    /// If it does not, or if there is no memory for reading the object.
    pub(in crate::cluster) fn check_limits(
        &self,
        allowed: AllowedChange<'_>,
    ) -> Result<(), ReservationsFull> {
        let Some(ProjectedChange { object, .. }) = self.project_change(allowed)? else {
            return Ok(());
        };
        let change = self.to_change(allowed, object);
        self.state.read().reservations.check_limits(&change, self.options.reservation_limits)
    }

    /// Reserves an allowed change. Returns whether it did: not if the cache keeps nothing of it.
    ///
    /// # Errors
    /// If it exceeds the reservation limits, or if there is no memory for reading the
    /// object.
    pub(in crate::cluster) fn reserve(
        &self,
        allowed: AllowedChange<'_>,
    ) -> Result<bool, ReservationsFull> {
        let Some(ProjectedChange { object, old }) = self.project_change(allowed)? else {
            return Ok(false);
        };
        let (key, limits) = (allowed.key, self.options.reservation_limits);
        let change = self.to_change(allowed, object.clone());
        let mut state = self.state.write();
        let contact = state.last_contact;
        let version = state.listing.version.parse().ok();
        state.reservations.advance_to(version, contact);
        let stored = state.listing.objects.get(key).cloned();
        let made = state.reservations.possible_versions(
            key,
            [stored.as_ref(), old.as_ref()],
            &ChangeContent::of(object, limits.max_whole_bytes()),
            Origin::Own,
        );
        state.reservations.reserve(&change, stored.as_ref(), made, limits)?;
        drop(state);
        self.reserved_notify.notify_waiters();
        Ok(true)
    }

    fn to_change<'a>(&self, allowed: AllowedChange<'a>, object: Option<Arc<Object>>) -> Change<'a> {
        let AllowedChange { key, base_version: before, tenant, id, .. } = allowed;
        let ends = Instant::now() + self.options.reservation_ttl;
        Change { key, object, base_version: before, ends, tenant, id: id.cloned() }
    }

    /// The stored parts of an allowed object and of the one before; none if nothing would be
    /// reserved.
    fn project_change(
        &self,
        allowed: AllowedChange<'_>,
    ) -> Result<Option<ProjectedChange>, ReservationsFull> {
        let AllowedChange { key, object: document, old, base_version: before, .. } = allowed;
        let form = |object| self.project(object, &key.namespace).ok().flatten().map(Arc::new);
        let object = form(document.root());
        if document.is_exhausted() {
            return Err(ReservationsFull);
        }
        // No API server sends an object with the name of another one: it will not be stored.
        let is_another = object.as_ref().is_some_and(|object| object.key() != key);
        let is_nothing = object.is_none() && before.is_empty();
        let old = old.and_then(form);
        Ok((!is_another && !is_nothing).then_some(ProjectedChange { object, old }))
    }

    /// The objects that a reservation would affect.
    pub(in crate::cluster) fn reserved_change(
        &self,
        allowed: AllowedChange<'_>,
    ) -> Option<ReservedChange> {
        let ProjectedChange { object, old } = self.project_change(allowed).ok()??;
        let state = self.state.read();
        let stored = [state.listing.objects.get(allowed.key), old.as_ref()];
        Some(state.reservations.possible_versions(
            allowed.key,
            stored,
            &ChangeContent::of(object, self.options.reservation_limits.max_whole_bytes()),
            Origin::Own,
        ))
    }

    /// Whether a reservation since `seen` can change the result of one of the queries. With an origin, only
    /// reservations of that origin count.
    pub(in crate::cluster) fn is_affected_since<'q>(
        &self,
        seen: Option<&ReservationCounters>,
        asked: &(impl Iterator<Item = &'q RecordedQuery> + Clone),
        origin: Option<Origin>,
    ) -> bool {
        let state = self.state.read();
        seen.is_none_or(|seen| state.reservations.affects_since(seen.made, asked, origin))
    }

    /// Adds a change that another replica has allowed.
    pub(in crate::cluster) fn import(&self, change: ForeignChange<'_>) {
        let key = change.key;
        let mut state = self.state.write();
        let stored = state.listing.objects.get(key).cloned();
        let made = state.reservations.possible_versions(
            key,
            [stored.as_ref(), None],
            &change.content,
            Origin::Foreign,
        );
        let limits = self.options.reservation_limits;
        state.reservations.import(change, stored.as_ref(), made, limits);
        drop(state);
        self.reserved_notify.notify_waiters();
    }

    /// Removes a request that was not allowed in the end.
    pub(in crate::cluster) fn withdraw(&self, key: &Key, id: &ReservationId) {
        self.state.write().reservations.withdraw(key, id);
        self.settled_notify.notify_waiters();
    }

    /// Sets the time until which a request may be stored.
    pub(in crate::cluster) fn set_reservation_end(
        &self,
        key: &Key,
        id: &ReservationId,
        ends: Instant,
    ) {
        self.state.write().reservations.set_end(key, id, ends);
        self.reserved_notify.notify_waiters();
    }

    /// Records that a request will not be stored any more unless it is already: a read now shows that.
    pub(in crate::cluster) fn end_reservation(&self, key: &Key, id: &ReservationId) {
        self.set_reservation_end(key, id, Instant::now());
        self.settled_notify.notify_waiters();
    }

    /// The time for which an allowed request may be stored.
    pub(in crate::cluster) fn reservation_ttl(&self) -> std::time::Duration {
        self.options.reservation_ttl
    }

    /// Restarts the time of a request that is allowed now.
    pub(in crate::cluster) fn restart_reservation(&self, key: &Key, id: &ReservationId) {
        self.set_reservation_end(key, id, Instant::now() + self.options.reservation_ttl);
    }

    /// The content of a stored part, within the limit of this cache.
    pub(in crate::cluster) fn limit_content(&self, object: Option<Arc<Object>>) -> ChangeContent {
        ChangeContent::of(object, self.options.reservation_limits.max_whole_bytes())
    }

    /// The version up to which the cache is complete; 0 if there is none.
    pub(in crate::cluster) fn listing_version(&self) -> u64 {
        self.state.read().listing.version.parse().unwrap_or_default()
    }

    /// Takes the settled reservations of the ledger.
    pub(in crate::cluster) fn take_settled(&self) -> Vec<SettledReservation> {
        self.state.write().reservations.take_settled()
    }

    /// Records that the ledger rests on this version: until the cache has reached it, it may lack an
    /// object whose entry has left the ledger.
    pub(in crate::cluster) fn require_version(&self, version: u64) {
        let mut state = self.state.write();
        let reached = state.listing.version.parse::<u64>().unwrap_or_default();
        if version > reached.max(state.required_version) {
            state.required_version = version;
            state.reservations.record_unknown_change();
        }
    }

    /// The version that the ledger rests on, if the cache has not reached it.
    pub(crate) fn missing_version(&self) -> Option<u64> {
        let state = self.state.read();
        // A resource that is not installed has none.
        let reached = state.listing.version.parse::<u64>().unwrap_or_default();
        Some(state.required_version).filter(|required| reached < *required)
    }

    /// The usage of all reservations.
    pub(in crate::cluster) fn reservation_usage(&self) -> Usage {
        self.state.read().reservations.usage()
    }

    /// The usage of a namespace, and of a user.
    pub(in crate::cluster) fn tenant_usage(&self, tenant: &Tenant) -> [Usage; 2] {
        self.state.read().reservations.usage_of(tenant)
    }

    /// The namespaces and users with the highest usage, at most `count`.
    pub(in crate::cluster) fn largest_tenants(&self, count: usize) -> Vec<(String, Usage)> {
        self.state.read().reservations.largest(count)
    }

    /// Notified when a change is reserved.
    pub(in crate::cluster) fn reserved_notify(&self) -> &Notify {
        &self.reserved_notify
    }

    /// The earliest time at which a direct read can settle a reservation, or a time before it.
    pub(in crate::cluster) fn first_end(&self) -> Option<Instant> {
        self.state.read().reservations.first_end()
    }

    /// Objects with reservations that a read from this time on settles, at most `count`.
    pub(in crate::cluster) fn ended_keys(&self, at: Instant, count: usize) -> Vec<Key> {
        self.state.write().reservations.ended_keys(at, count)
    }

    /// Whether the watch shows more than `count` objects of a namespace.
    pub(in crate::cluster) fn has_more_objects_than(&self, count: usize, namespace: &str) -> bool {
        let query = Query { namespace: Some(namespace.to_owned()), ..Query::default() };
        self.state.read().listing.objects.select_metered(&query, count + 1, None).len() > count
    }

    /// Drops direct reads that are not needed any more: those that the watch has shown, and those
    /// that are older than any view that is used.
    pub(in crate::cluster) fn expire(&self) {
        let mut state = self.state.write();
        let version = state.listing.version.parse().ok();
        let contact = state.last_contact;
        state.reservations.advance_to(version, contact);
        if let Some(at) = Instant::now().checked_sub(self.options.max_age) {
            state.reservations.advance_to(None, at);
        }
    }

    /// Stores the result of a direct read of an object, which started at this time.
    pub(in crate::cluster) fn record_direct_read(
        &self,
        key: &Key,
        found: &Listing,
        asked: Instant,
    ) {
        let mut state = self.state.write();
        if found.unreadable.contains_key(key) {
            return;
        }
        let (object, shown) = (found.objects.get(key), state.listing.objects.get(key));
        let known = match (object, shown) {
            (Some(object), Some(shown))
                if !is_newer(object.resource_version(), shown.resource_version()) =>
            {
                None
            }
            (Some(object), _) => Some(DirectReadResult::Newer(object.clone())),
            // Its deletion is still to be shown.
            (None, Some(shown)) => found
                .version
                .parse()
                .ok()
                .filter(|_| is_newer(&found.version, shown.resource_version()))
                .map(DirectReadResult::Gone),
            (None, None) => None,
        };
        // A watch that shows nothing for a long time may leave many of these.
        let has_room = state.reservations.of(key).is_some()
            || state.reservations.key_count()
                < self.options.reservation_limits.count.saturating_mul(2);
        // A polled resource has no versions that show which list is later.
        let known = known.filter(|_| has_room && !state.polled);
        let excluded = found.excluded.version_of(key);
        state.reservations.record_direct_read(key, object, known, asked, excluded);
        drop(state);
        self.settled_notify.notify_waiters();
    }

    /// Notified when a reservation is settled.
    pub(crate) fn settled_notify(&self) -> &Notify {
        &self.settled_notify
    }

    /// The number of unsettled requests about an object, and the time when the last one ends.
    pub(crate) fn pending_summary(&self, key: &Key) -> (usize, Option<Instant>) {
        let state = self.state.read();
        (state.reservations.pending_count(key), state.reservations.latest_end(key))
    }
}
