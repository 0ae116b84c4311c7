//! Reserves allowed changes, and settles them.

use std::sync::Arc;

use opgate_cluster::{Key, Object};
use opgate_document::{Document, Value};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Kind;
use crate::cluster::lens::Listing;
use crate::cluster::reservations::{Full, Made, Question, is_newer};

/// Numbers of reservations, to detect new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// The number of reservations that were made.
    pub made: u64,
    /// The number of those that are known to be stored, or not to be stored.
    pub settled: u64,
}

/// The stored part of an object, and of the object before.
type NewAndOld = (Option<Arc<Object>>, Option<Arc<Object>>);

impl Kind {
    /// The numbers of reservations that were made and settled.
    pub(in crate::cluster) fn counters(&self) -> Counters {
        let state = self.state.read();
        Counters { made: state.reserved.made(), settled: state.reserved.settled() }
    }

    /// Reserves an allowed change: the new object, which had the version `before` (none for a new
    /// one).
    ///
    /// # Errors
    /// If there is no memory for a reservation, or for reading the object. Nothing is reserved in
    /// part.
    pub(in crate::cluster) fn reserve(
        &self,
        key: &Key,
        document: &Document,
        old: Option<Value<'_>>,
        before: &str,
    ) -> Result<(), Full> {
        let forms = self.forms(key, document.root(), old, before);
        if document.is_exhausted() {
            return Err(Full);
        }
        let Some((object, old)) = forms else { return Ok(()) };
        let ends = Instant::now() + self.options.reservation;
        let mut state = self.state.write();
        let contact = state.contact;
        let version = state.listing.version.parse().ok();
        state.reserved.heard(version, contact);
        let stored = [state.listing.objects.get(key), old.as_ref()];
        let made = state.reserved.forms(key, stored, object.as_ref());
        state.reserved.make(key, object, made, before, ends, self.options.bounds)
    }

    /// The stored parts of an allowed object and of the one before; none if nothing would be
    /// reserved.
    fn forms(
        &self,
        key: &Key,
        object: Value<'_>,
        old: Option<Value<'_>>,
        before: &str,
    ) -> Option<NewAndOld> {
        let form = |object| self.project(object, &key.namespace).ok().flatten().map(Arc::new);
        let object = form(object);
        // No API server sends an object with the name of another one: it will not be stored.
        let is_another = object.as_ref().is_some_and(|object| object.key() != key);
        let is_nothing = object.is_none() && before.is_empty();
        (!is_another && !is_nothing).then(|| (object, old.and_then(form)))
    }

    /// The objects that a reservation would be about.
    pub(in crate::cluster) fn made(
        &self,
        key: &Key,
        object: Value<'_>,
        old: Option<Value<'_>>,
        before: &str,
    ) -> Option<Made> {
        let (object, old) = self.forms(key, object, old, before)?;
        let state = self.state.read();
        let stored = [state.listing.objects.get(key), old.as_ref()];
        Some(state.reserved.forms(key, stored, object.as_ref()))
    }

    /// Whether a reservation since `seen` can change the answer to one of the queries.
    pub(in crate::cluster) fn is_touched<'q>(
        &self,
        seen: Option<&Counters>,
        asked: &(impl Iterator<Item = &'q Question> + Clone),
    ) -> bool {
        let state = self.state.read();
        seen.is_none_or(|seen| state.reserved.touch(seen.made, asked))
    }

    /// Bytes of reservations.
    pub(in crate::cluster) fn reserved_bytes(&self) -> usize {
        self.state.read().reserved.bytes()
    }

    /// Drops direct reads that are not needed any more: those that the watch has shown, and those
    /// that are older than any view that is used.
    pub(in crate::cluster) fn expire(&self) {
        let mut state = self.state.write();
        let version = state.listing.version.parse().ok();
        let contact = state.contact;
        state.reserved.heard(version, contact);
        if let Some(at) = Instant::now().checked_sub(self.options.max_age) {
            state.reserved.heard(None, at);
        }
    }

    /// Takes over the result of a direct read for an object, which started at this time.
    pub(in crate::cluster) fn learn(&self, key: &Key, found: &Listing, asked: Instant) {
        let mut state = self.state.write();
        if found.unreadable.contains_key(key) {
            return;
        }
        let object = found.objects.get(key).cloned();
        let newer = object.filter(|object| {
            let known = state.listing.objects.get(key);
            known.is_none_or(|known| is_newer(object.resource_version(), known.resource_version()))
        });
        let is_there = found.objects.get(key);
        state.reserved.read(key, is_there, newer, asked, !self.labels().is_empty());
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
