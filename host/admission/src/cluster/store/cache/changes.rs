//! Objects as the API server reports them: read and projected outside the lock, stored under the
//! lock.
//!
//! ```text
//! JSON ─▶ ResolvedRead::change ─▶ Change ─┬▶ ResourceCache::add, to a listing ─▶ ResourceCache::replace ─┐
//!        (on any thread)             └▶ ResourceCache::apply_change ──────────────────────────┴▶ visible to queries
//! ```
//!
//! Queries wait while the lock is held for writing. So under the lock, opgate does not read,
//! project, compare or drop anything whose size a tenant determines.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use opgate_cluster::{Key, Object, Query, Sketch, Store, UnreadableReason};
use opgate_document::Value;
use tokio::time::Instant;

use super::{ResourceCache, key_of};
use tokio::runtime::Handle;

use crate::cluster::ResolvedRead;
use crate::cluster::reservations::is_newer;
use crate::cluster::store::listing::Listing;
use crate::cluster::store::unreadable::{MissingContent, UnreadableObject};

/// Listings of more objects are dropped on another thread.
const MAX_INLINE_DROP_OBJECTS: usize = 1_024;

/// An object as the API server reports it.
#[derive(Debug)]
pub(crate) struct Change {
    key: Key,
    version: String,
    uid: String,
    /// The part that is stored; `None` if the object is not.
    object: Result<Option<Object>, UnreadableReason>,
    /// The index values of a large object that exceeds the memory: computed where it is read.
    sketch: Option<Sketch>,
}

/// Sketches of objects of fewer bytes are made when they are needed.
const MIN_SKETCH_BYTES: usize = 64 << 10;

impl ResolvedRead {
    /// Projects the stored part of an object; `None` if the object is not stored. `namespace` is
    /// that of the request, for objects without one.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(in crate::cluster) fn project(
        &self,
        object: Value<'_>,
        namespace: &str,
    ) -> Result<Option<Object>, UnreadableReason> {
        let projected = match self.declaration.project(object) {
            Ok(projected) => projected.with_default_namespace(namespace),
            // The content of an object that is not stored does not matter.
            Err(_) if !self.may_store(object, namespace) => return Ok(None),
            Err(why) => return Err(why),
        };
        let is_inside = self.namespace.as_ref().is_none_or(|ns| **ns == *projected.key().namespace);
        let is_stored = is_inside && self.labels.matches(|key| projected.label(key));
        Ok(is_stored.then_some(projected))
    }

    /// Whether an object has the namespace and the labels of the stored ones.
    fn may_store(&self, object: Value<'_>, namespace: &str) -> bool {
        let own = object.get("/metadata/namespace").and_then(|value| value.text());
        if self.namespace.as_ref().is_some_and(|ns| **ns != *own.unwrap_or(namespace)) {
            return false;
        }
        let labels = object.get("/metadata/labels");
        let label = |key: &str| {
            let mut members = labels?.members();
            members.find(|(name, _)| *name == key).and_then(|(_, value)| value.text())
        };
        self.labels.matches(label)
    }

    /// Reads an object of the API server; `None` if it has no name.
    pub(in crate::cluster) fn read_change(
        &self,
        object: Value<'_>,
        namespace: &str,
    ) -> Option<Change> {
        let text = |pointer: &str| object.get(pointer).and_then(|v| v.text()).unwrap_or_default();
        let (version, uid) = (text("/metadata/resourceVersion"), text("/metadata/uid"));
        let (version, uid) = (version.to_owned(), uid.to_owned());
        let (key, object) = (key_of(object, namespace)?, self.project(object, namespace));
        let stored = object.as_ref().ok().and_then(Option::as_ref);
        let sketch = stored.filter(|object| object.size() > MIN_SKETCH_BYTES).map(Object::sketch);
        Some(Change { key, version, uid, object, sketch })
    }
}

/// The stored part of an object.
enum StoredEntry {
    Object(Arc<Object>),
    Name(UnreadableObject),
    Nothing,
}

impl ResourceCache {
    /// [`ResolvedRead::project`].
    pub(in crate::cluster) fn project(
        &self,
        object: Value<'_>,
        namespace: &str,
    ) -> Result<Option<Object>, UnreadableReason> {
        self.resolved_read.project(object, namespace)
    }

    /// An empty listing, to be filled.
    pub(in crate::cluster) fn empty(&self) -> Listing {
        let objects = Store::new(self.declaration().index_count());
        Listing { objects, ..Listing::default() }
    }

    /// Adds an object of the API server to a listing. An unreadable object is recorded there.
    pub(in crate::cluster) fn add_object(
        &self,
        listing: &mut Listing,
        object: Value<'_>,
        namespace: &str,
    ) {
        if let Some(change) = self.resolved_read.read_change(object, namespace) {
            self.add(listing, change);
        }
    }

    /// Adds an object to a listing. It is charged separately unless the cache already holds an
    /// equal object.
    pub(crate) fn add(&self, listing: &mut Listing, change: Change) {
        let Change { key, version, object, sketch, .. } = change;
        let known = self.state.read().listing.objects.get(&key).cloned();
        if let (Ok(Some(object)), Some(known)) = (&object, known)
            && known.is_identical(object)
            && listing.objects.get(&key).is_none()
        {
            listing.objects.insert(known);
            return;
        }
        match object {
            Ok(None) => listing.excluded.add(key, version),
            Ok(Some(object)) => match self.charge(object, 0, sketch) {
                Ok(object) => listing.objects.add(object),
                Err(name) => listing.unreadable.insert(name),
            },
            Err(why) => {
                if self.state.read().listing.unreadable.get(&key).is_none() {
                    self.log_unreadable(&key, why);
                }
                let why = MissingContent::Unreadable(why);
                let name = UnreadableObject::new(key, why, || None, &self.memory);
                listing.unreadable.insert(name);
            }
        }
    }

    /// Charges the memory of an object that replaces one of `instead` bytes. Without memory, only
    /// its name is kept.
    fn charge(
        &self,
        object: Object,
        instead: usize,
        sketch: Option<Sketch>,
    ) -> Result<Object, UnreadableObject> {
        let key = object.key();
        match self.memory.charge_object(&key.namespace, object.size(), instead) {
            Ok(charge) => Ok(object.with_attachment(Box::new(charge))),
            Err(why) => {
                let sketch = || Some(sketch.unwrap_or_else(|| object.sketch()));
                let no_room = MissingContent::MemoryLimit(why.clone());
                let name = UnreadableObject::new(key.clone(), no_room, sketch, &self.memory);
                if self.memory.take_log_turn(&key.namespace) {
                    let namespace = opgate_text::one_line(&key.namespace, 253);
                    tracing::warn!(
                        resource = %self.resource(), namespace, reason = %why,
                        "no memory for objects of a namespace; queries that could return them fail"
                    );
                }
                Err(name)
            }
        }
    }

    fn log_unreadable(&self, key: &Key, why: UnreadableReason) {
        let line = |text: &str| opgate_text::one_line(text, 253);
        tracing::warn!(
            resource = %self.resource(), namespace = line(&key.namespace), name = line(&key.name),
            why = %why, "unreadable object; queries that could return it fail"
        );
    }

    /// Replaces all objects by a complete list that started at this time. The list shows nothing
    /// that came later.
    pub(crate) fn replace(&self, listing: Listing, began: Instant) {
        let has_labels = !self.labels().is_empty();
        let mut state = self.state.write();
        if is_newer(&state.listing.version, &listing.version) {
            state.reservations.reset();
        }
        for key in state.reservations.all_keys() {
            if let Some(object) = listing.objects.get(&key) {
                let (version, uid) = (object.resource_version(), object.uid());
                state.reservations.record_object(&key, version, uid, Some(object));
                continue;
            }
            // Caches of other namespaces have the reservations of the ledger, too.
            let is_elsewhere = self.namespace().is_some_and(|own| *own != *key.namespace);
            let is_filtered = has_labels || is_elsewhere;
            state.reservations.record_unlisted(&key, &listing.version, is_filtered);
        }
        self.is_partial.store(false, Ordering::Relaxed);
        let old = std::mem::replace(&mut state.listing, listing);
        state.lists = state.lists.saturating_add(1);
        state.synced.get_or_insert_with(Instant::now);
        state.absent = false;
        state.record_contact(true, began);
        drop(state);
        let objects = old.objects.len().saturating_add(old.unreadable.len());
        drop_in_background(old, objects);
        self.settled_notify.notify_waiters();
    }

    /// Adds the objects of a file, and replaces those with the same names.
    pub(in crate::cluster) fn merge(&self, listing: Listing) {
        let mut state = self.state.write();
        for object in listing.objects.select(&Query::default()) {
            state.listing.unreadable.remove(object.key());
            state.listing.objects.insert(object);
        }
        for object in listing.unreadable.into_objects() {
            state.listing.objects.remove(object.key());
            state.listing.unreadable.insert(object);
        }
    }

    /// Stores an added or changed object.
    pub(in crate::cluster) fn apply(&self, object: Value<'_>, namespace: &str) {
        if let Some(change) = self.resolved_read.read_change(object, namespace) {
            self.apply_change(change);
        }
    }

    /// Stores an added or changed object.
    pub(crate) fn apply_change(&self, change: Change) {
        let Change { key, version, uid, object, sketch } = change;
        let stored = match object {
            Ok(Some(object)) => {
                let known = self.state.read().listing.objects.get(&key).map(|known| known.size());
                match self.charge(object, known.unwrap_or_default(), sketch) {
                    Ok(object) => StoredEntry::Object(Arc::new(object)),
                    Err(name) => StoredEntry::Name(name),
                }
            }
            // It no longer has the required labels.
            Ok(None) => StoredEntry::Nothing,
            Err(why) => {
                self.log_unreadable(&key, why);
                let why = MissingContent::Unreadable(why);
                StoredEntry::Name(UnreadableObject::new(key.clone(), why, || None, &self.memory))
            }
        };
        let shown = match &stored {
            StoredEntry::Object(object) => Some(object),
            StoredEntry::Nothing | StoredEntry::Name(_) => None,
        };
        let mut state = self.state.write();
        state.reservations.record_object(&key, &version, &uid, shown);
        state.listing.unreadable.remove(&key);
        let old = match stored {
            StoredEntry::Object(object) => state.listing.objects.insert(object),
            StoredEntry::Nothing => state.listing.objects.remove(&key),
            StoredEntry::Name(object) => {
                state.listing.unreadable.insert(object);
                state.listing.objects.remove(&key)
            }
        };
        state.listing.advance_to(&version);
        state.record_contact(true, Instant::now());
        drop(state);
        drop(old);
        self.settled_notify.notify_waiters();
    }

    /// Removes an object. `version` is that of its deletion. `uid` distinguishes it from others
    /// with its name.
    pub(in crate::cluster) fn delete(&self, key: &Key, version: &str, uid: &str) {
        let mut state = self.state.write();
        state.reservations.record_deletion(key, version, uid);
        let old = state.listing.objects.remove(key);
        state.listing.unreadable.remove(key);
        state.listing.advance_to(version);
        state.record_contact(true, Instant::now());
        drop(state);
        drop(old);
        self.settled_notify.notify_waiters();
    }

    /// Whether there is memory now for an object that is kept by name. A new list then reads it.
    pub(in crate::cluster) fn has_memory_again(&self) -> bool {
        self.state.read().listing.unreadable.has_memory_for_any(&self.memory)
    }
}

/// Drops a value that holds `objects` objects, on another thread if they are many.
fn drop_in_background<T: Send + 'static>(old: T, objects: usize) {
    match Handle::try_current() {
        Ok(runtime) if objects > MAX_INLINE_DROP_OBJECTS => {
            drop(runtime.spawn_blocking(move || drop(old)));
        }
        _ => drop(old),
    }
}
