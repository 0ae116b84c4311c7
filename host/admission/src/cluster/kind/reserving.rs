//! What was allowed and may be stored: how it is reserved, and what settles it.

use std::sync::Arc;

use opgate_cluster::{Key, Object};
use opgate_document::{Document, Value};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Kind;
use crate::cluster::lens::Listing;
use crate::cluster::reservations::{Full, Made, Question, is_newer};

/// Numbers of reservations, to notice that there was one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// So many there have been.
    pub made: u64,
    /// So many of them are known to be stored, or not to come.
    pub settled: u64,
}

/// What would be kept of an object, and of the one before it.
type NewAndOld = (Option<Arc<Object>>, Option<Arc<Object>>);

impl Kind {
    /// How many reservations there have been and were settled.
    pub(in crate::cluster) fn counters(&self) -> Counters {
        let state = self.state.read();
        Counters { made: state.reserved.made(), settled: state.reserved.settled() }
    }

    /// Remembers what was allowed: what it leaves of the object, which had the version `before`
    /// (none for a new one).
    ///
    /// # Errors
    /// Where there is no room, for a reservation or for a look at the object: half of it is not reserved.
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

    /// What would be kept of an object that was allowed, and of what it was; none where nothing would be
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
        // No API server asks about one object under the name of another: nothing will be stored.
        let is_another = object.as_ref().is_some_and(|object| object.key() != key);
        let is_nothing = object.is_none() && before.is_empty();
        (!is_another && !is_nothing).then(|| (object, old.and_then(form)))
    }

    /// What a reservation would be about.
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

    /// Whether a reservation since `seen` may change the answer to one of the questions.
    pub(in crate::cluster) fn is_touched<'q>(
        &self,
        seen: Option<&Counters>,
        asked: &(impl Iterator<Item = &'q Question> + Clone),
    ) -> bool {
        let state = self.state.read();
        seen.is_none_or(|seen| state.reserved.touch(seen.made, asked))
    }

    /// Bytes that reservations take.
    pub(in crate::cluster) fn reserved_bytes(&self) -> usize {
        self.state.read().reserved.bytes()
    }

    /// Lets go of reservations that nobody asks about: those of which the watch has told, and those that
    /// are older than any view that is used.
    pub(in crate::cluster) fn expire(&self) {
        let mut state = self.state.write();
        let version = state.listing.version.parse().ok();
        let contact = state.contact;
        state.reserved.heard(version, contact);
        if let Some(at) = Instant::now().checked_sub(self.options.max_age) {
            state.reserved.heard(None, at);
        }
    }

    /// What one direct read has found about an object that was asked for at this time.
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

    /// Told whenever something is settled.
    pub(in crate::cluster) fn settled(&self) -> &Notify {
        &self.settled
    }

    /// How many requests about an object are not settled, and when the last of them ends.
    pub(in crate::cluster) fn pending(&self, key: &Key) -> (usize, Option<Instant>) {
        let state = self.state.read();
        (state.reserved.depth(key), state.reserved.ends(key))
    }
}
