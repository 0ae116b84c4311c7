//! One resource: its objects, what was allowed and is not seen yet, and how current all that is.
//!
//! ```text
//! list, watch ─▶ Listing ───────┐
//! read directly ─▶ Listing ─────┼▶ get, select (in a World) ─▶ Reader
//! allowed ─▶ Reservations ──────┘
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opgate_cluster::{Declaration, Key, Object, Query, Resource, Selector, Store, Unreadable};
use opgate_document::{Document, Meter, Value};
use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::lens::{Listing, World, copies, stored};
use super::reservations::{Full, Made, Question, Reservations, is_newer};
use super::{Options, Reading, Source};
use opgate_engine::reader::NotCurrent;

/// A watch that has failed for so long is interrupted: what it shows may be old.
const INTERRUPTED: Duration = Duration::from_secs(5);

/// The objects of one resource that any policy reads.
#[derive(Debug)]
pub struct Kind {
    reading: Reading,
    options: Options,
    state: RwLock<State>,
    /// Told whenever something is heard that may settle a reservation.
    settled: Notify,
}

#[derive(Debug)]
struct State {
    listing: Listing,
    reserved: Reservations,
    /// Since when there is a view; none before the first list.
    synced: Option<Instant>,
    /// The API server does not know the resource.
    absent: bool,
    /// When something was decoded that the API server said: a list, an event, a bookmark.
    contact: Instant,
    /// Since when nothing but failures came.
    failing: Option<Instant>,
    last_event: Option<SystemTime>,
    error: Option<String>,
}

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

/// Numbers of reservations, to notice that there was one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// So many there have been.
    pub made: u64,
    /// So many of them are known to be stored, or not to come.
    pub settled: u64,
}

/// One object in a world.
#[derive(Debug, Default)]
pub(crate) struct Got {
    pub(crate) object: Option<Arc<Object>>,
    /// Whether it is another one in another world.
    pub(super) touches: bool,
}

/// A page of objects in a world.
#[derive(Debug, Default)]
pub(super) struct Selected {
    pub(super) objects: Vec<Arc<Object>>,
    /// Objects that make the answer another one in other worlds.
    pub(super) touched: Vec<Key>,
    /// How many copies of its last object were shown so far.
    pub(super) copies_of_last: usize,
}

/// What would be kept of an object, and of the one before it.
type NewAndOld = (Option<Arc<Object>>, Option<Arc<Object>>);

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

    /// How many reservations there have been and were settled.
    pub(super) fn counters(&self) -> Counters {
        let state = self.state.read();
        Counters { made: state.reserved.made(), settled: state.reserved.settled() }
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

    /// Remembers what was allowed: what it leaves of the object, which had the version `before`
    /// (none for a new one).
    ///
    /// # Errors
    /// Where there is no room, for a reservation or for a look at the object: half of it is not reserved.
    pub(super) fn reserve(
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
    pub(super) fn made(
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
    pub(super) fn is_touched<'q>(
        &self,
        seen: Option<&Counters>,
        asked: &(impl Iterator<Item = &'q Question> + Clone),
    ) -> bool {
        let state = self.state.read();
        seen.is_none_or(|seen| state.reserved.touch(seen.made, asked))
    }

    /// Bytes that reservations take.
    pub(super) fn reserved_bytes(&self) -> usize {
        self.state.read().reserved.bytes()
    }

    /// Lets go of reservations that nobody asks about: those of which the watch has told, and those that
    /// are older than any view that is used.
    pub(super) fn expire(&self) {
        let mut state = self.state.write();
        let version = state.listing.version.parse().ok();
        let contact = state.contact;
        state.reserved.heard(version, contact);
        if let Some(at) = Instant::now().checked_sub(self.options.max_age) {
            state.reserved.heard(None, at);
        }
    }

    /// What one direct read has found about an object that was asked for at this time.
    pub(super) fn learn(&self, key: &Key, found: &Listing, asked: Instant) {
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
    pub(super) fn settled(&self) -> &Notify {
        &self.settled
    }

    /// How many requests about an object are not settled, and when the last of them ends.
    pub(super) fn pending(&self, key: &Key) -> (usize, Option<Instant>) {
        let state = self.state.read();
        (state.reserved.depth(key), state.reserved.ends(key))
    }

    /// One object in a world. What was read directly counts where it is newer.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) fn get(
        &self,
        key: &Key,
        fresh: Option<&Listing>,
        world: World,
    ) -> Result<Got, NotCurrent> {
        let state = self.state.read();
        let base = self.base(&state, fresh)?;
        if let Some(why) = base.unreadable.get(key) {
            return Err(self.unreadable(key, *why));
        }
        let object = base.objects.get(key);
        let Some(shown) = state.reserved.of(key) else {
            return Ok(Got { object: object.cloned(), touches: false });
        };
        let world = if world == World::Apart { World::Stored } else { world };
        let found = copies(world, object, &shown).last().map(|found| (*found).clone());
        Ok(Got { object: found, touches: !shown.pending.is_empty() })
    }

    /// Objects that match in a world. Of the object after which the page begins, `skip` copies were
    /// shown before. Work is spent on the meter; where that stops, nobody believes the answer.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) fn select(
        &self,
        query: &Query,
        skip: usize,
        fresh: Option<&Listing>,
        world: World,
        meter: Option<&Meter>,
    ) -> Result<Selected, NotCurrent> {
        let spend = |units| meter.is_none_or(|meter| meter.spend(units));
        let state = self.state.read();
        let base = self.base(&state, fresh)?;
        let namespace = query.namespace.as_deref();
        let asked = |key: &&Key| namespace.is_none_or(|namespace| *key.namespace == *namespace);
        let mut unreadable = base.unreadable.iter().take_while(|_| spend(1));
        if let Some((key, why)) = unreadable.find(|(key, _)| asked(key)) {
            return Err(self.unreadable(key, *why));
        }
        if state.reserved.is_empty() {
            let objects = base.objects.select_for(query, query.limit, meter);
            return Ok(Selected { objects, touched: Vec::new(), copies_of_last: usize::MAX });
        }
        let more = match query.limit {
            0 => 0,
            limit => limit.saturating_add(state.reserved.keys()),
        };
        let mut objects = base.objects.select_for(query, more, meter);
        objects.retain(|object| spend(8) && state.reserved.of(object.key()).is_none());
        let mut touched = Vec::new();
        for shown in state.reserved.within(namespace).take_while(|_| spend(8)) {
            let object = base.objects.get(shown.key);
            let stored = stored(object, &shown);
            let pending = shown.pending.iter().copied().flatten();
            if !shown.pending.is_empty()
                && stored.into_iter().chain(pending).any(|o| query.holds_for(o, meter))
            {
                touched.push(shown.key.clone());
            }
            let seen = match &query.after {
                Some(after) if shown.key < after => continue,
                Some(after) if shown.key == after => skip,
                _ => 0,
            };
            let copies = copies(world, object, &shown).into_iter();
            objects.extend(copies.filter(|copy| query.holds_for(copy, meter)).skip(seen).cloned());
        }
        // Copies of one object stay in their order.
        objects.sort_by(|a, b| a.key().cmp(b.key()));
        if query.limit > 0 {
            objects.truncate(query.limit);
        }
        let last = objects.last().map(|object| object.key());
        let copies_of_last = objects.iter().rev().take_while(|o| Some(o.key()) == last).count();
        let before = if last.is_some() && last == query.after.as_ref() { skip } else { 0 };
        let copies_of_last = copies_of_last.saturating_add(before);
        Ok(Selected { objects, touched, copies_of_last })
    }

    /// What a question is asked of: the watch, or what was read directly where that is newer. A
    /// direct answer needs no current watch.
    fn base<'s>(
        &self,
        state: &'s State,
        fresh: Option<&'s Listing>,
    ) -> Result<&'s Listing, NotCurrent> {
        if let Some(fresh) = fresh
            && (state.synced.is_none()
                || state.interrupted().is_some()
                || state.is_too_old(&self.options)
                || !is_at_least(&state.listing.version, &fresh.version))
        {
            return Ok(fresh);
        }
        // The watch is ahead of what was read directly: current it is, then.
        let why = state.why_not_current(&self.options).filter(|_| fresh.is_none());
        let Some(why) = why else { return Ok(&state.listing) };
        let why = format!("{} {why}", self.resource());
        Err(if state.is_listing() { NotCurrent::Listing(why) } else { NotCurrent::Unknown(why) })
    }

    fn unreadable(&self, key: &Key, why: Unreadable) -> NotCurrent {
        let line = |text: &str| opgate_text::one_line(text, 253);
        NotCurrent::Unknown(format!(
            "{} holds {}/{}, which cannot be read: {why}",
            self.resource(),
            line(&key.namespace),
            line(&key.name)
        ))
    }

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

impl Listing {
    fn move_to(&mut self, version: &str) {
        if !version.is_empty() {
            version.clone_into(&mut self.version);
        }
    }
}

impl State {
    /// `at` is when that was so which was heard.
    fn heard(&mut self, is_event: bool, at: Instant) {
        self.contact = at;
        self.failing = None;
        self.error = None;
        if is_event {
            self.last_event = Some(SystemTime::now());
        }
        self.reserved.heard(self.listing.version.parse().ok(), at);
    }

    fn is_listing(&self) -> bool {
        self.synced.is_none() && self.error.is_none()
    }

    fn standing(&self, options: &Options) -> Standing {
        match (self.synced, self.absent) {
            (None, _) if self.is_listing() => Standing::Listing,
            (None, _) => Standing::Unseen,
            _ if self.is_too_old(options) => Standing::TooOld,
            (Some(_), true) => Standing::NotInstalled,
            (Some(_), false) => Standing::Current,
        }
    }

    fn interrupted(&self) -> Option<Duration> {
        let failing = self.failing.map(|since| since.elapsed());
        failing.filter(|failing| self.synced.is_some() && *failing >= INTERRUPTED)
    }

    fn is_too_old(&self, options: &Options) -> bool {
        options.source == Source::Live && self.contact.elapsed() > options.max_age
    }

    fn why_not_current(&self, options: &Options) -> Option<String> {
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

/// Whether a version is another one or a later one. Versions that are no numbers have no order.
fn is_at_least(version: &str, other: &str) -> bool {
    match (version.parse::<u64>(), other.parse::<u64>()) {
        (Ok(version), Ok(other)) => version >= other,
        _ => false,
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
