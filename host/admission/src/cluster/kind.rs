//! One resource: its objects, what was allowed and is not seen yet, and how current all that is.
//!
//! ```text
//! list, watch ─▶ Listing ───────┐
//! read directly ─▶ Listing ─────┼▶ get, select (in a World) ─▶ Reader
//! allowed ─▶ Reservations ──────┘
//! ```

mod answers;
mod reserving;
mod standing;

use std::time::Duration;

use opgate_cluster::{Declaration, Key, Object, Resource, Selector, Store, Unreadable};
use opgate_document::Value;
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::lens::Listing;
use super::reservations::{Reservations, is_newer};
use super::{Options, Reading, Source};

pub use reserving::Counters;
use standing::State;
pub use standing::{Standing, Status};

/// The objects of one resource that any policy reads.
#[derive(Debug)]
pub struct Kind {
    reading: Reading,
    options: Options,
    state: RwLock<State>,
    /// Told whenever something is heard that may settle a reservation.
    settled: Notify,
}

impl Kind {
    pub(super) fn new(reading: Reading, options: Options) -> Self {
        let objects = Store::new(reading.declaration.index_count());
        let state = State {
            listing: Listing { objects, ..Listing::default() },
            reserved: Reservations::default(),
            synced: (options.source == Source::Snapshot).then(Instant::now),
            absent: false,
            contact: Instant::now(),
            failing: None,
            last_event: None,
            error: None,
        };
        Self { options, state: RwLock::new(state), reading, settled: Notify::new() }
    }

    #[cfg(test)]
    pub(super) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Which resource.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.reading.resource
    }

    /// Only objects with these labels are kept.
    #[must_use]
    pub fn labels(&self) -> &Selector {
        &self.reading.labels
    }

    /// Only objects of this namespace are kept.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.reading.namespace.as_deref()
    }

    /// What is kept of them.
    #[must_use]
    pub fn declaration(&self) -> &Declaration {
        &self.reading.declaration
    }

    /// What is kept of an object; `None` where it is none of those that are kept. `namespace` is
    /// the one of the request that brought it, for objects that do not say it themselves.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub(super) fn project(
        &self,
        object: Value<'_>,
        namespace: &str,
    ) -> Result<Option<Object>, Unreadable> {
        let object = self.declaration().project(object)?.in_namespace(namespace);
        let inside = self.namespace().is_none_or(|ns| *ns == *object.key().namespace);
        Ok((inside && self.labels().matches(|key| object.label(key))).then_some(object))
    }

    /// An empty listing, to be filled.
    pub(super) fn empty(&self) -> Listing {
        let objects = Store::new(self.declaration().index_count());
        Listing { objects, ..Listing::default() }
    }

    /// Takes an object of the API server into a listing; one that cannot be read is noted there.
    pub(super) fn take(&self, listing: &mut Listing, object: Value<'_>, namespace: &str) {
        match self.project(object, namespace) {
            Ok(Some(object)) => listing.objects.insert(object),
            Ok(None) => {}
            Err(why) => {
                // What has no name is no object of an API server.
                let Some(key) = key_of(object, namespace) else { return };
                self.tell_unreadable(&key, why);
                listing.unreadable.insert(key, why);
            }
        }
    }

    fn tell_unreadable(&self, key: &Key, why: Unreadable) {
        let line = |text: &str| opgate_text::one_line(text, 253);
        tracing::warn!(
            resource = %self.resource(), namespace = line(&key.namespace), name = line(&key.name),
            why = %why, "an object cannot be read; questions that it may be an answer to have none"
        );
    }

    /// Takes over a whole list that was begun at this time: it shows nothing that came after.
    pub(crate) fn replace(&self, listing: Listing, began: Instant) {
        let is_filtered = !self.labels().is_empty();
        let mut state = self.state.write();
        if is_newer(&state.listing.version, &listing.version) {
            state.reserved.start_anew();
        }
        for key in state.reserved.all() {
            match listing.objects.get(&key) {
                Some(object) => {
                    state.reserved.shown(&key, object.resource_version(), object.uid());
                }
                None => state.reserved.not_listed(&key, &listing.version, is_filtered),
            }
        }
        state.listing = listing;
        state.synced.get_or_insert_with(Instant::now);
        state.absent = false;
        state.heard(true, began);
        drop(state);
        self.settled.notify_waiters();
    }

    /// The API server does not know the resource: an empty list until it does.
    pub(super) fn absent(&self) {
        self.replace(self.empty(), Instant::now());
        self.state.write().absent = true;
    }

    /// Takes over an object that was added or has changed.
    pub(super) fn apply(&self, object: Value<'_>, namespace: &str) {
        let Some(key) = key_of(object, namespace) else { return };
        let projected = self.project(object, namespace);
        let text = |pointer: &str| object.get(pointer).and_then(|v| v.text()).unwrap_or_default();
        let (version, uid) = (text("/metadata/resourceVersion"), text("/metadata/uid"));
        if let Err(why) = &projected {
            self.tell_unreadable(&key, *why);
        }
        let mut state = self.state.write();
        state.reserved.shown(&key, version, uid);
        state.listing.unreadable.remove(&key);
        match projected {
            Ok(Some(object)) => state.listing.objects.insert(object),
            // It has lost the labels by which it was kept.
            Ok(None) => drop(state.listing.objects.remove(&key)),
            Err(why) => {
                state.listing.objects.remove(&key);
                state.listing.unreadable.insert(key, why);
            }
        }
        state.listing.move_to(version);
        state.heard(true, Instant::now());
        drop(state);
        self.settled.notify_waiters();
    }

    /// An object is gone. `version` is that of its end, `uid` tells it from others of its name.
    pub(super) fn delete(&self, key: &Key, version: &str, uid: &str) {
        let mut state = self.state.write();
        state.reserved.gone(key, version, uid);
        state.listing.objects.remove(key);
        state.listing.unreadable.remove(key);
        state.listing.move_to(version);
        state.heard(true, Instant::now());
        drop(state);
        self.settled.notify_waiters();
    }

    /// The API server has nothing new up to this version.
    pub(super) fn bookmark(&self, version: &str) {
        let mut state = self.state.write();
        state.listing.move_to(version);
        state.heard(false, Instant::now());
        drop(state);
        self.settled.notify_waiters();
    }

    /// Whether the API server has ever told about it.
    pub(super) fn was_seen(&self) -> bool {
        self.state.read().synced.is_some()
    }

    /// For how long nothing was heard.
    pub(super) fn silence(&self) -> Duration {
        self.state.read().contact.elapsed()
    }

    /// The watch is open and does not fail. That is no contact: it may still have nothing to say.
    pub(super) fn steady(&self) {
        let mut state = self.state.write();
        state.failing = None;
        state.error = None;
    }

    /// Something went wrong; what is known stays until it is too old.
    pub(super) fn failed(&self, error: String) {
        let mut state = self.state.write();
        state.failing.get_or_insert_with(Instant::now);
        state.error = Some(error);
    }

    /// Whether the view may be old, because its watch fails, and others know more.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        let state = self.state.read();
        state.synced.is_some() && (state.interrupted().is_some() || state.is_too_old(&self.options))
    }

    /// Whether two objects of the API server differ in what is kept of them.
    pub(super) fn differ(&self, left: Value<'_>, right: Value<'_>, namespace: &str) -> bool {
        match (self.project(left, namespace), self.project(right, namespace)) {
            // Whoever changes an object need not name its version.
            (Ok(Some(left)), Ok(Some(right))) => !left.is_alike(&right),
            (Ok(None), Ok(None)) => false,
            _ => true,
        }
    }
}

impl Listing {
    fn move_to(&mut self, version: &str) {
        if !version.is_empty() {
            version.clone_into(&mut self.version);
        }
    }
}

/// Namespace and name of an object.
pub(super) fn key_of(object: Value<'_>, namespace: &str) -> Option<Key> {
    let text = |pointer: &str| object.get(pointer).and_then(|v| v.text());
    let namespace = text("/metadata/namespace").unwrap_or(namespace);
    Some(Key::new(namespace, text("/metadata/name")?))
}

/// How often a watch is renewed where events are at most `max_age` old: often enough to be heard of
/// three times in between.
pub(super) fn watch_time(max_age: Duration) -> Duration {
    (max_age / 3).clamp(Duration::from_secs(1), Duration::from_secs(280))
}
