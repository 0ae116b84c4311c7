//! Reserves allowed changes, and settles them.

use std::sync::Arc;

use opgate_cluster::{Key, Object, Query};
use opgate_document::{Document, Value};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::ResourceCache;
use crate::cluster::reservations::{
    Change, Known, Question, ReservationsFull, ReservedChange, Tenant, Usage, is_newer,
};
use crate::cluster::view::Listing;

/// Numbers of reservations, to detect new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// The number of reservations that were made.
    pub made: u64,
    /// The number of those that are known to be stored, or not to be stored.
    pub settled: u64,
}

/// An allowed change of an object.
#[derive(Debug, Clone, Copy)]
pub(in crate::cluster) struct Allowed<'a> {
    pub(in crate::cluster) key: &'a Key,
    pub(in crate::cluster) object: &'a Document,
    pub(in crate::cluster) old: Option<Value<'a>>,
    /// The `resourceVersion` of the old object; empty for a new object.
    pub(in crate::cluster) before: &'a str,
    pub(in crate::cluster) tenant: &'a Tenant,
}

/// The stored part of an object before and after an allowed change.
#[derive(Debug)]
struct Forms {
    object: Option<Arc<Object>>,
    old: Option<Arc<Object>>,
}

impl ResourceCache {
    /// The numbers of reservations that were made and settled.
    pub(in crate::cluster) fn counters(&self) -> Counters {
        let state = self.state.read();
        Counters { made: state.reserved.made(), settled: state.reserved.settled() }
    }

    /// Checks whether an allowed change fits into the reservation limits.
    ///
    /// # Errors
    /// If it does not, or if there is no memory for reading the object.
    pub(in crate::cluster) fn check_room(
        &self,
        allowed: Allowed<'_>,
    ) -> Result<(), ReservationsFull> {
        let Some(Forms { object, .. }) = self.forms(allowed)? else { return Ok(()) };
        let change = self.change_of(allowed, object);
        self.state.read().reserved.check_room(&change, self.options.bounds)
    }

    /// Reserves an allowed change.
    ///
    /// # Errors
    /// If it exceeds the reservation limits, or if there is no memory for reading the
    /// object.
    pub(in crate::cluster) fn reserve(&self, allowed: Allowed<'_>) -> Result<(), ReservationsFull> {
        let Some(Forms { object, old }) = self.forms(allowed)? else { return Ok(()) };
        let (key, bounds) = (allowed.key, self.options.bounds);
        let change = self.change_of(allowed, object.clone());
        let mut state = self.state.write();
        let contact = state.contact;
        let version = state.listing.version.parse().ok();
        state.reserved.advance_to(version, contact);
        let stored = state.listing.objects.get(key).cloned();
        let made = state.reserved.forms(key, [stored.as_ref(), old.as_ref()], object, bounds);
        state.reserved.make(&change, stored.as_ref(), made, bounds)?;
        drop(state);
        self.reserved.notify_waiters();
        Ok(())
    }

    fn change_of<'a>(&self, allowed: Allowed<'a>, object: Option<Arc<Object>>) -> Change<'a> {
        let Allowed { key, before, tenant, .. } = allowed;
        let ends = Instant::now() + self.options.reservation;
        Change { key, object, before, ends, tenant }
    }

    /// The stored parts of an allowed object and of the one before; none if nothing would be
    /// reserved.
    fn forms(&self, allowed: Allowed<'_>) -> Result<Option<Forms>, ReservationsFull> {
        let Allowed { key, object: document, old, before, .. } = allowed;
        let form = |object| self.project(object, &key.namespace).ok().flatten().map(Arc::new);
        let object = form(document.root());
        if document.is_exhausted() {
            return Err(ReservationsFull);
        }
        // No API server sends an object with the name of another one: it will not be stored.
        let is_another = object.as_ref().is_some_and(|object| object.key() != key);
        let is_nothing = object.is_none() && before.is_empty();
        let old = old.and_then(form);
        Ok((!is_another && !is_nothing).then_some(Forms { object, old }))
    }

    /// The objects that a reservation would affect.
    pub(in crate::cluster) fn made(&self, allowed: Allowed<'_>) -> Option<ReservedChange> {
        let Forms { object, old } = self.forms(allowed).ok()??;
        let state = self.state.read();
        let stored = [state.listing.objects.get(allowed.key), old.as_ref()];
        Some(state.reserved.forms(allowed.key, stored, object, self.options.bounds))
    }

    /// Whether a reservation since `seen` can change the result of one of the queries.
    pub(in crate::cluster) fn is_touched<'q>(
        &self,
        seen: Option<&Counters>,
        asked: &(impl Iterator<Item = &'q Question> + Clone),
    ) -> bool {
        let state = self.state.read();
        seen.is_none_or(|seen| state.reserved.touch(seen.made, asked))
    }

    /// The usage of all reservations.
    pub(in crate::cluster) fn reserved(&self) -> Usage {
        self.state.read().reserved.usage()
    }

    /// The usage of a namespace, and of a user.
    pub(in crate::cluster) fn reserved_by(&self, tenant: &Tenant) -> [Usage; 2] {
        self.state.read().reserved.usage_of(tenant)
    }

    /// The namespaces and users with the highest usage, at most `count`.
    pub(in crate::cluster) fn largest_tenants(&self, count: usize) -> Vec<(String, Usage)> {
        self.state.read().reserved.largest(count)
    }

    /// Notified when a change is reserved.
    pub(in crate::cluster) fn has_reserved(&self) -> &Notify {
        &self.reserved
    }

    /// The earliest time at which a direct read can settle a reservation, or a time before it.
    pub(in crate::cluster) fn first_end(&self) -> Option<Instant> {
        self.state.read().reserved.first_end()
    }

    /// Objects with reservations that a read from this time on settles, at most `count`.
    pub(in crate::cluster) fn ended(&self, at: Instant, count: usize) -> Vec<Key> {
        self.state.write().reserved.ended(at, count)
    }

    /// Whether the watch shows more than `count` objects of a namespace.
    pub(in crate::cluster) fn has_more_than(&self, count: usize, namespace: &str) -> bool {
        let query = Query { namespace: Some(namespace.to_owned()), ..Query::default() };
        self.state.read().listing.objects.select_for(&query, count + 1, None).len() > count
    }

    /// Drops direct reads that are not needed any more: those that the watch has shown, and those
    /// that are older than any view that is used.
    pub(in crate::cluster) fn expire(&self) {
        let mut state = self.state.write();
        let version = state.listing.version.parse().ok();
        let contact = state.contact;
        state.reserved.advance_to(version, contact);
        if let Some(at) = Instant::now().checked_sub(self.options.max_age) {
            state.reserved.advance_to(None, at);
        }
    }

    /// Stores the result of a direct read of an object, which started at this time.
    pub(in crate::cluster) fn learn(&self, key: &Key, found: &Listing, asked: Instant) {
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
            (Some(object), _) => Some(Known::Newer(object.clone())),
            // Its deletion is still to be shown.
            (None, Some(shown)) => found
                .version
                .parse()
                .ok()
                .filter(|_| is_newer(&found.version, shown.resource_version()))
                .map(Known::Gone),
            (None, None) => None,
        };
        // A watch that shows nothing for a long time may leave many of these.
        let has_room = state.reserved.of(key).is_some()
            || state.reserved.keys() < self.options.bounds.count.saturating_mul(2);
        // A polled resource has no versions that show which list is later.
        let known = known.filter(|_| has_room && !state.polled);
        state.reserved.read(key, object, known, asked, !self.labels().is_empty());
        drop(state);
        self.settled.notify_waiters();
    }

    /// Notified when a reservation is settled.
    pub(in crate::cluster) fn settled(&self) -> &Notify {
        &self.settled
    }

    /// The number of unsettled requests about an object, and the time when the last one ends.
    pub(in crate::cluster) fn pending(&self, key: &Key) -> (usize, Option<Instant>) {
        let state = self.state.read();
        (state.reserved.depth(key), state.reserved.ends(key))
    }
}
