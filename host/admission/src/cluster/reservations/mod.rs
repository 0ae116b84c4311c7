//! Allowed changes, and knowledge about them beyond the watch.
//!
//! An allowed request may be stored a moment later, or never: the name can exist already (409),
//! another webhook can deny it, its client can be gone. Until the result is known, both count
//! (docs/adr/0012):
//!
//! ```text
//! allowed ─▶ Pending ─┬─ the watch or a list shows it, or what came after it ─▶ gone from here
//!                     ├─ read directly: it is there ─▶ Known, until the watch has come so far
//!                     ├─ read directly after its time: it is not there ─▶ gone from here
//!                     └─ its time is over, and the watch has spoken since ─▶ gone from here
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use opgate_cluster::{Key, Object, Query};
use tokio::time::Instant;

/// Maximum number of different requests in progress about one object. More are refused until one of
/// them is settled.
const MOST_OF_ONE: usize = 4;

/// Maximum delay of an event. Events that arrive later than this after the end of a reservation
/// show what was stored before that end.
const LAG: Duration = Duration::from_secs(10);

/// Maximum part of the memory for the objects of one namespace.
const SHARE: usize = 4;

/// Number of reservations whose objects are recorded. An evaluation that started before the oldest
/// of them counts as having missed one.
const MOST_REMEMBERED: usize = 1_024;

/// A query of an evaluation about a resource.
#[derive(Debug, Clone)]
pub enum Question {
    /// One object.
    Object(Key),
    /// All objects that match, wherever the answer starts and ends.
    Query(Box<Query>),
    /// Too much to be recorded.
    Anything,
}

impl Question {
    /// Whether a change of an object with these forms can change the answer.
    fn is_about(&self, made: &Made) -> bool {
        match self {
            Self::Object(key) => *key == made.key,
            Self::Anything => true,
            Self::Query(query) => made.forms.iter().any(|form| query.holds(form)),
        }
    }
}

/// A reservation: the object, in all forms that it had or can get.
#[derive(Debug)]
pub(super) struct Made {
    key: Key,
    forms: Vec<Arc<Object>>,
}

impl Made {
    /// Whether one of the queries can have another answer now.
    pub(super) fn answers<'q>(&self, mut asked: impl Iterator<Item = &'q Question>) -> bool {
        asked.any(|question| question.is_about(self))
    }

    fn size(&self) -> usize {
        self.forms.iter().map(|form| form.size()).sum()
    }
}

/// The limits of reservations in one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Requests.
    pub count: usize,
    /// Bytes of the stored parts of their objects.
    pub bytes: usize,
}

impl Bounds {
    /// For callers that an API server authenticates.
    pub const AUTHENTICATED: Self = Self { count: 4_096, bytes: 16 << 20 };
    /// For anybody who reaches the port. The conflicts of an ordinary cluster fit.
    pub const ANYBODY: Self = Self { count: 512, bytes: 2 << 20 };
}

/// The reason why nothing can be reserved for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

/// An allowed request that is not settled.
#[derive(Debug)]
struct Pending {
    /// The stored part of its object; none if it removes the object from the stored ones, for
    /// example by a label.
    object: Option<Arc<Object>>,
    /// The `resourceVersion` that it changes; empty for a new object.
    before: Box<str>,
    /// The `uid` of a new object, which the API server chooses before the request; empty if
    /// unknown.
    uid: Box<str>,
    /// The time until which it may still be stored.
    ends: Instant,
}

impl Pending {
    fn size(&self) -> usize {
        size_of::<Self>() + self.object.as_ref().map_or(0, |object| object.size())
    }

    /// Whether an existing object with this version and uid is the result of the request, or a
    /// later one.
    fn is_settled_by(&self, version: &str, uid: &str) -> bool {
        if self.before.is_empty() {
            // Another object with that name can be deleted in time for this one.
            return self.uid.is_empty() || *self.uid == *uid;
        }
        match (self.before.parse::<u64>(), version.parse::<u64>()) {
            (Ok(before), Ok(shown)) => shown > before,
            _ => *self.before != *version,
        }
    }

    /// Whether the deletion of an object at this version settles it: a change of a deleted object
    /// is refused. An earlier one was the end of the view only: the object lost a label, and got it
    /// again.
    fn is_settled_by_end(&self, version: &str, uid: &str) -> bool {
        if self.before.is_empty() {
            return !uid.is_empty() && *self.uid == *uid;
        }
        !is_newer(&self.before, version) && *self.before != *version
    }

    /// Whether the absence of the object settles it. With a label selector, an absent object
    /// settles nothing, because it may not have the label any more, or not yet.
    fn is_settled_by_nothing(&self, is_filtered: bool) -> bool {
        !is_filtered && !self.before.is_empty()
    }
}

/// The knowledge about one object beyond the watch.
#[derive(Debug, Default)]
struct Overlay {
    /// The result of a direct read.
    known: Option<Arc<Object>>,
    /// The oldest first.
    pending: Vec<Pending>,
}

/// All allowed and unsettled changes of one resource.
#[derive(Debug, Default)]
pub(super) struct Reservations {
    by_key: BTreeMap<Key, Overlay>,
    count: usize,
    bytes: usize,
    /// The number of reservations so far.
    made: u64,
    /// The objects of the last of them, and their bytes.
    last: VecDeque<Made>,
    last_bytes: usize,
    /// The number of settled ones.
    settled: u64,
    /// No reservation ends before this time.
    first_end: Option<Instant>,
}

/// The overlay of one key.
pub(super) struct Shown<'r> {
    pub(super) key: &'r Key,
    /// The result of a direct read, if there is one.
    pub(super) known: Option<&'r Arc<Object>>,
    /// The results of unsettled requests, the oldest first.
    pub(super) pending: Vec<Option<&'r Arc<Object>>>,
}

impl Reservations {
    /// Whether the watch shows everything.
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The number of reservations so far.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Whether a reservation since `made` can change the answer to one of the queries.
    pub(super) fn touch<'q>(
        &self,
        made: u64,
        asked: &(impl Iterator<Item = &'q Question> + Clone),
    ) -> bool {
        let since = usize::try_from(self.made.saturating_sub(made)).unwrap_or(usize::MAX);
        // Reservations that are not recorded any more can be about any object.
        since > self.last.len()
            || self.last.iter().rev().take(since).any(|made| made.answers(asked.clone()))
    }

    /// The forms of an object that any world can show beside the `stored` one.
    pub(super) fn forms(
        &self,
        key: &Key,
        stored: [Option<&Arc<Object>>; 2],
        new: Option<&Arc<Object>>,
    ) -> Made {
        let overlay = self.by_key.get(key);
        let known = overlay.and_then(|overlay| overlay.known.as_ref());
        let pending = overlay.map(|overlay| overlay.pending.as_slice()).unwrap_or_default();
        let pending = pending.iter().filter_map(|pending| pending.object.as_ref());
        let forms = stored.into_iter().flatten().chain(known).chain(pending).chain(new).cloned();
        Made { key: key.clone(), forms: forms.collect() }
    }

    fn remember(&mut self, made: Made, bounds: Bounds) {
        self.made += 1;
        self.last_bytes = self.last_bytes.saturating_add(made.size());
        self.last.push_back(made);
        while self.last.len() > MOST_REMEMBERED || self.last_bytes > bounds.bytes / SHARE {
            let Some(oldest) = self.last.pop_front() else { break };
            self.last_bytes = self.last_bytes.saturating_sub(oldest.size());
        }
    }

    /// The number of settled reservations.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// The number of reservations.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Objects with knowledge beyond the watch.
    pub(super) fn keys(&self) -> usize {
        self.by_key.len()
    }

    /// The knowledge about one object.
    pub(super) fn of(&self, key: &Key) -> Option<Shown<'_>> {
        self.by_key.get_key_value(key).map(|(key, overlay)| overlay.show(key))
    }

    /// The knowledge about the objects of a namespace, or about all.
    pub(super) fn within(&self, namespace: Option<&str>) -> impl Iterator<Item = Shown<'_>> {
        let start = namespace.map(|namespace| Key::new(namespace, ""));
        let from = start.map_or(Bound::Unbounded, Bound::Included);
        let inside =
            move |key: &Key| namespace.is_none_or(|namespace| *key.namespace == *namespace);
        let found = self.by_key.range((from, Bound::Unbounded));
        found.take_while(move |(key, _)| inside(key)).map(|(key, overlay)| overlay.show(key))
    }

    /// The latest time at which a request about an object can be stored, if one is unsettled.
    pub(super) fn ends(&self, key: &Key) -> Option<Instant> {
        self.by_key.get(key)?.pending.iter().map(|pending| pending.ends).max()
    }

    /// Maximum number of unsettled requests about one of these objects.
    pub(super) fn depth(&self, key: &Key) -> usize {
        self.by_key.get(key).map_or(0, |overlay| overlay.pending.len())
    }

    /// Adds a request.
    ///
    /// # Errors
    /// If the limit is reached.
    pub(super) fn make(
        &mut self,
        key: &Key,
        object: Option<Arc<Object>>,
        made: Made,
        before: &str,
        ends: Instant,
        bounds: Bounds,
    ) -> Result<(), Full> {
        let uid = object.as_ref().map(|object| object.uid()).unwrap_or_default();
        let uid: Box<str> = if before.is_empty() { uid.into() } else { Box::default() };
        let pending = Pending { object, before: before.into(), uid, ends };
        let size = pending.size();
        let overlay = self.by_key.get_mut(key);
        let of_one = overlay.as_ref().map_or(0, |overlay| overlay.pending.len());
        if let Some(overlay) = overlay
            && let Some(same) = overlay.pending.iter_mut().find(|known| known.is_same(&pending))
        {
            // It is the same, and changes no answer.
            same.ends = ends;
            return Ok(());
        }
        let bytes = self.bytes.saturating_add(size);
        // Direct reads of objects without pending requests use memory as well.
        let count = self.count.max(self.by_key.len());
        // A single one always fits: an API server limits its size.
        let is_full = count >= bounds.count || (bytes > bounds.bytes && self.count > 0);
        if of_one >= MOST_OF_ONE || is_full || self.has_its_share(&key.namespace, bounds) {
            return Err(Full);
        }
        self.by_key.entry(key.clone()).or_default().pending.push(pending);
        self.first_end = Some(self.first_end.map_or(ends, |first| first.min(ends)));
        self.count += 1;
        self.bytes = bytes;
        self.remember(made, bounds);
        Ok(())
    }

    /// Whether a namespace has reached its part of the memory.
    fn has_its_share(&self, namespace: &str, bounds: Bounds) -> bool {
        if namespace.is_empty() {
            return false;
        }
        let start = Key::new(namespace, "");
        let inside = self.by_key.range(start..).take_while(|(key, _)| *key.namespace == *namespace);
        let add = |(count, bytes): (usize, usize), (_, overlay): (_, &Overlay)| {
            (count + overlay.pending.len().max(1), bytes + overlay.size())
        };
        let (count, bytes) = inside.fold((0, 0), add);
        count >= bounds.count.div_ceil(SHARE) || bytes >= bounds.bytes.div_ceil(SHARE)
    }

    /// The watch or a list shows an object with this version and uid.
    pub(super) fn shown(&mut self, key: &Key, version: &str, uid: &str) {
        self.change(key, |overlay| {
            overlay.forget_known(version);
            overlay.pending.retain(|pending| !pending.is_settled_by(version, uid));
        });
    }

    /// The watch shows that an object with this uid is gone since this version.
    pub(super) fn gone(&mut self, key: &Key, version: &str, uid: &str) {
        self.change(key, |overlay| {
            overlay.forget_known(version);
            overlay.pending.retain(|pending| !pending.is_settled_by_end(version, uid));
        });
    }

    /// A list of this version does not have the object.
    pub(super) fn not_listed(&mut self, key: &Key, version: &str, is_filtered: bool) {
        self.change(key, |overlay| {
            overlay.forget_known(version);
            overlay.pending.retain(|pending| {
                // The list does not have changes since its start yet.
                is_newer(&pending.before, version) || !pending.is_settled_by_nothing(is_filtered)
            });
        });
    }

    /// Versions have gone backwards: the knowledge belongs to another history, and the objects to
    /// be changed do not exist any more.
    pub(super) fn start_anew(&mut self) {
        for key in self.all() {
            self.change(&key, |overlay| {
                overlay.known = None;
                overlay.pending.retain(|pending| pending.before.is_empty());
            });
        }
    }

    /// A direct read started at this time found the object or not. `newer` is its state if the
    /// watch does not know it yet.
    pub(super) fn read(
        &mut self,
        key: &Key,
        found: Option<&Arc<Object>>,
        newer: Option<Arc<Object>>,
        asked: Instant,
        is_filtered: bool,
    ) {
        self.change(key, |overlay| {
            match found {
                Some(object) => {
                    let (version, uid) = (object.resource_version(), object.uid());
                    overlay.pending.retain(|pending| !pending.is_settled_by(version, uid));
                }
                None => {
                    overlay.pending.retain(|pending| !pending.is_settled_by_nothing(is_filtered));
                }
            }
            overlay.pending.retain(|pending| pending.ends > asked);
            // An answer that took longer than another one is older.
            let is_old = |known: &Arc<Object>| {
                newer.as_ref().is_some_and(|newer| {
                    is_newer(known.resource_version(), newer.resource_version())
                })
            };
            if !overlay.known.as_ref().is_some_and(is_old) {
                overlay.known = newer;
            }
        });
    }

    /// All events up to this version have arrived, the last one at this time.
    pub(super) fn heard(&mut self, version: Option<u64>, at: Instant) {
        if self.by_key.is_empty() {
            return;
        }
        let known = self.by_key.values().any(|overlay| overlay.known.is_some());
        if !known && self.first_end.is_none_or(|first| first + LAG >= at) {
            return;
        }
        let keys: Vec<_> = self.by_key.keys().cloned().collect();
        for key in keys {
            self.change(&key, |overlay| {
                if let Some(version) = version {
                    overlay.forget_known(&version.to_string());
                }
                overlay.pending.retain(|pending| pending.ends + LAG >= at);
            });
        }
        let ends = self.by_key.values().flat_map(|overlay| &overlay.pending);
        self.first_end = ends.map(|pending| pending.ends).min();
    }

    /// All keys.
    pub(super) fn all(&self) -> Vec<Key> {
        self.by_key.keys().cloned().collect()
    }

    fn change(&mut self, key: &Key, change: impl FnOnce(&mut Overlay)) {
        let Some(overlay) = self.by_key.get_mut(key) else { return };
        let before = (overlay.pending.len(), overlay.size());
        change(overlay);
        let after = (overlay.pending.len(), overlay.size());
        if overlay.pending.is_empty() && overlay.known.is_none() {
            self.by_key.remove(key);
        }
        let settled = before.0.saturating_sub(after.0);
        self.count = self.count.saturating_sub(settled);
        self.settled += u64::try_from(settled).unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(before.1).saturating_add(after.1);
    }
}

impl Pending {
    fn is_same(&self, other: &Self) -> bool {
        let same = match (&self.object, &other.object) {
            (Some(left), Some(right)) => left.is_same(right),
            (None, None) => true,
            _ => false,
        };
        same && self.before == other.before && self.uid == other.uid
    }
}

impl Overlay {
    fn show<'r>(&'r self, key: &'r Key) -> Shown<'r> {
        let pending = self.pending.iter().map(|pending| pending.object.as_ref());
        Shown { key, known: self.known.as_ref(), pending: pending.collect() }
    }

    fn size(&self) -> usize {
        let pending: usize = self.pending.iter().map(Pending::size).sum();
        self.known.as_ref().map_or(pending, |known| pending.saturating_add(known.size()))
    }

    /// A direct read is obsolete when the watch has reached its version.
    fn forget_known(&mut self, version: &str) {
        let is_older = |known: &Arc<Object>| !is_newer(known.resource_version(), version);
        if self.known.as_ref().is_some_and(is_older) {
            self.known = None;
        }
    }
}

/// Whether one version is later than another. Versions that are not numbers have no order: then the
/// watch decides.
pub(super) fn is_newer(version: &str, than: &str) -> bool {
    match (version.parse::<u64>(), than.parse::<u64>()) {
        (Ok(version), Ok(than)) => version > than,
        _ => false,
    }
}
