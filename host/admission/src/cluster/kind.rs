//! One resource: its objects, the reserved changes, and the age of the view.
//!
//! ```text
//! list, watch ─▶ Listing ───────┐
//! read directly ─▶ Listing ─────┼▶ get, select (in a World) ─▶ Reader
//! allowed ─▶ Reservations ──────┘
//! ```

mod answers;
mod reserving;
mod standing;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opgate_cluster::{Declaration, Key, Object, Query, Resource, Selector, Store, Unreadable};
use opgate_document::Value;
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::desk::Awaited;
use super::lens::Listing;
use super::reservations::{Reservations, is_newer};
use super::{Options, Reading, Source};

pub(super) use reserving::Allowed;
pub use reserving::Counters;
pub(super) use standing::Refused;
use standing::State;
pub use standing::{Standing, Status};

/// The objects of one resource that any policy reads.
#[derive(Debug)]
pub struct Kind {
    reading: Reading,
    /// Its name for people: the resource, and the namespace where other kinds have the same resource.
    name: String,
    options: Options,
    state: RwLock<State>,
    /// What became of changes that were allowed before its view serves.
    awaited: Awaited,
    /// Notified of all news that can settle a reservation.
    settled: Notify,
    /// Notified of each reservation.
    reserved: Notify,
    /// Whether its objects are some of those that there are: what is not among them may exist.
    is_partial: AtomicBool,
}

impl Kind {
    pub(super) fn new(reading: Reading, options: Options) -> Self {
        let objects = Store::new(reading.declaration.index_count());
        let state = State {
            listing: Listing { objects, ..Listing::default() },
            reserved: Reservations::default(),
            synced: matches!(options.source, Source::Snapshot | Source::Excerpt).then(Instant::now),
            absent: false,
            polled: reading.resource.is_server_version(),
            unavailable: false,
            refused: Refused::No,
            locked_out: None,
            lists: 0,
            contact: Instant::now(),
            failing: None,
            last_event: None,
            error: None,
        };
        let name = reading.resource.to_string();
        let (state, awaited) = (RwLock::new(state), Awaited::default());
        let (settled, reserved) = (Notify::new(), Notify::new());
        let is_partial = AtomicBool::new(false);
        Self { reading, name, options, state, awaited, settled, reserved, is_partial }
    }

    /// The same in a view that does not serve yet.
    pub(super) fn awaited(self) -> Self {
        Self { awaited: Awaited::new(), ..self }
    }

    /// The same under another name.
    pub(super) fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    /// Its name for people, unique in its view.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it reads.
    pub(super) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.reading.resource
    }

    /// Whether it keeps objects of this group and resource, in any version.
    pub(super) fn is_of(&self, group: &str, resource: &str) -> bool {
        let known = self.resource();
        known.group == group
            && known.resource == resource
            // Nobody stores it, whatever a cluster may call by the same name.
            && !known.is_server_version()
    }

    /// Whether its view serves, and what it has missed before.
    pub(super) fn awaits(&self) -> &Awaited {
        &self.awaited
    }

    /// Whether policies do without it if the server is not permitted to read it.
    pub(super) fn is_optional(&self) -> bool {
        self.reading.optional
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

    /// The stored fields.
    #[must_use]
    pub fn declaration(&self) -> &Declaration {
        &self.reading.declaration
    }

    /// The stored part of an object; `None` if the object is not stored. `namespace` is that of the
    /// request, for objects without one.
    ///
    /// # Errors
    /// If it cannot be read.
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

    /// Adds an object of the API server to a listing. An unreadable one is recorded there.
    pub(super) fn take(&self, listing: &mut Listing, object: Value<'_>, namespace: &str) {
        match self.project(object, namespace) {
            Ok(Some(object)) => listing.objects.add(object),
            Ok(None) => {}
            Err(why) => {
                // An API server has no objects without a name.
                let Some(key) = key_of(object, namespace) else { return };
                if !self.state.read().listing.unreadable.contains_key(&key) {
                    self.tell_unreadable(&key, why);
                }
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

    /// Takes over a complete list that started at this time. It shows nothing that came later.
    pub(crate) fn replace(&self, listing: Listing, began: Instant) {
        let is_filtered = !self.labels().is_empty();
        let mut state = self.state.write();
        if is_newer(&state.listing.version, &listing.version) {
            state.reserved.start_anew();
        }
        for key in state.reserved.all() {
            match listing.objects.get(&key) {
                Some(object) => {
                    let (version, uid) = (object.resource_version(), object.uid());
                    state.reserved.shown(&key, version, uid, Some(object));
                }
                None => state.reserved.not_listed(&key, &listing.version, is_filtered),
            }
        }
        self.is_partial.store(false, Ordering::Relaxed);
        state.listing = listing;
        state.lists = state.lists.saturating_add(1);
        state.synced.get_or_insert_with(Instant::now);
        state.absent = false;
        state.heard(true, began);
        drop(state);
        self.settled.notify_waiters();
    }

    /// Takes over the objects of a file, instead of those of the same names.
    pub(super) fn merge(&self, listing: Listing) {
        let mut state = self.state.write();
        for object in listing.objects.select(&Query::default()) {
            state.listing.unreadable.remove(object.key());
            state.listing.objects.insert(object);
        }
        for (key, why) in listing.unreadable {
            state.listing.objects.remove(&key);
            state.listing.unreadable.insert(key, why);
        }
    }

    /// Whether it knows some objects only, and cannot say which others there are.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial.load(Ordering::Relaxed)
    }

    /// Takes over objects that come on top of those it has. Where it has none, these are not all there are.
    pub(super) fn merge_some(&self, listing: Listing) {
        if self.shows_nothing() {
            self.is_partial.store(true, Ordering::Relaxed);
        }
        self.merge(listing);
    }

    /// The API server does not know the resource: the list is empty until it does.
    pub(super) fn absent(&self) {
        self.replace(self.empty(), Instant::now());
        let mut state = self.state.write();
        state.absent = true;
        // What is installed later can be another API.
        state.polled = self.resource().is_server_version();
    }

    /// Takes over an added or changed object.
    pub(super) fn apply(&self, object: Value<'_>, namespace: &str) {
        let Some(key) = key_of(object, namespace) else { return };
        let projected = self.project(object, namespace);
        let text = |pointer: &str| object.get(pointer).and_then(|v| v.text()).unwrap_or_default();
        let (version, uid) = (text("/metadata/resourceVersion"), text("/metadata/uid"));
        if let Err(why) = &projected {
            self.tell_unreadable(&key, *why);
        }
        let projected = projected.map(|object| object.map(Arc::new));
        let shown = projected.as_ref().ok().and_then(Option::as_ref);
        let mut state = self.state.write();
        state.reserved.shown(&key, version, uid, shown);
        state.listing.unreadable.remove(&key);
        match projected {
            Ok(Some(object)) => state.listing.objects.insert(object),
            // It no longer has the required labels.
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

    /// Removes an object. `version` is that of its deletion. `uid` distinguishes it from others
    /// with its name.
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

    /// The API server has no news up to this version.
    pub(super) fn bookmark(&self, version: &str) {
        let mut state = self.state.write();
        state.listing.move_to(version);
        state.heard(false, Instant::now());
        drop(state);
        self.settled.notify_waiters();
    }

    /// Whether the API server has ever reported the resource.
    pub(super) fn was_seen(&self) -> bool {
        self.state.read().synced.is_some()
    }

    /// The time since the last contact.
    pub(super) fn silence(&self) -> Duration {
        self.state.read().contact.elapsed()
    }

    /// The watch is open and does not fail. That is no contact, because it may have no news yet.
    pub(super) fn steady(&self) {
        let mut state = self.state.write();
        state.failing = None;
        state.error = None;
        state.locked_out = None;
    }

    /// Records an error. The known objects remain until they are too old.
    pub(super) fn failed(&self, error: String) {
        let mut state = self.state.write();
        state.failing.get_or_insert_with(Instant::now);
        state.error = Some(error);
    }

    /// Whether the view can be outdated because its watch fails, and a direct read knows more.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        let state = self.state.read();
        state.synced.is_some() && (state.interrupted().is_some() || state.is_too_old(&self.options))
    }

    /// Whether two objects of the API server differ in their stored fields.
    pub(super) fn differ(&self, left: Value<'_>, right: Value<'_>, namespace: &str) -> bool {
        match (self.project(left, namespace), self.project(right, namespace)) {
            // A change of an object need not name its version.
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

/// The interval at which a resource is polled: no view becomes too old for one list that fails.
pub(super) fn poll_time(options: &Options) -> Duration {
    options.poll.min((options.max_age / 3).max(Duration::from_secs(1)))
}

/// The interval at which a watch is renewed if events are at most `max_age` old: three contacts in
/// that time.
pub(super) fn watch_time(max_age: Duration) -> Duration {
    (max_age / 3).clamp(Duration::from_secs(1), Duration::from_secs(280))
}
