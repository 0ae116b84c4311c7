//! One resource: its objects, what was allowed and is not seen yet, and how current all that is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use opgate_context::{Declaration, Key, Object, Query, Resource, Selector, Store};
use opgate_document::{Document, Value};
use parking_lot::RwLock;

use super::{Options, Reading, Source};

/// The objects of one resource that any policy reads.
#[derive(Debug)]
pub struct Kind {
    reading: Reading,
    options: Options,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    objects: Store,
    /// Allowed, and not yet shown by the watch.
    pending: Store,
    pendings: HashMap<Key, Pending>,
    /// How many reservations there have been.
    reservations: u64,
    synced: bool,
    /// The API server does not know the resource.
    absent: bool,
    contact: Instant,
    /// `resourceVersion` up to which everything was heard.
    version: String,
    last_event: Option<SystemTime>,
    error: Option<String>,
}

#[derive(Debug)]
struct Pending {
    /// `resourceVersion` before the change; empty for a new object.
    before: String,
    ends: Instant,
}

impl Pending {
    /// Whether an object of this version is what was waited for, or comes after it.
    fn is_shown_by(&self, version: &str) -> bool {
        match (self.before.parse::<u64>(), version.parse::<u64>()) {
            (Ok(before), Ok(shown)) => shown > before,
            _ => self.before != version,
        }
    }
}

/// How a resource stands, for people and metrics.
#[derive(Debug, Clone)]
pub struct Status {
    /// Whether there is an answer.
    pub current: bool,
    /// Whether there ever was one.
    pub synced: bool,
    /// The API server does not know the resource: there are no objects.
    pub absent: bool,
    /// Objects.
    pub objects: usize,
    /// Bytes that they take.
    pub bytes: usize,
    /// `resourceVersion` of the API server up to which everything is known; empty for files.
    pub version: String,
    /// When an object was last heard of.
    pub last_event: Option<SystemTime>,
    /// Why there is no answer, or why there will be none soon.
    pub error: Option<String>,
}

impl Kind {
    pub(super) fn new(reading: Reading, options: Options) -> Self {
        let empty = || Store::new(reading.declaration.index_count());
        let state = State {
            objects: empty(),
            pending: empty(),
            pendings: HashMap::new(),
            reservations: 0,
            synced: options.source == Source::Snapshot,
            absent: false,
            contact: Instant::now(),
            version: String::new(),
            last_event: None,
            error: None,
        };
        Self { options, state: RwLock::new(state), reading }
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
    pub(super) fn project(&self, object: Value<'_>, namespace: &str) -> Option<Object> {
        let object = self.declaration().project(object)?.in_namespace(namespace);
        let inside = self.namespace().is_none_or(|ns| *ns == *object.key().namespace);
        (inside && self.labels().matches(|key| object.label(key))).then_some(object)
    }

    /// Takes over a whole list.
    pub(super) fn replace(&self, objects: Vec<Object>) {
        let mut store = Store::new(self.declaration().index_count());
        for object in objects {
            store.insert(object);
        }
        let mut state = self.state.write();
        let shown: Vec<Key> = state
            .pendings
            .iter()
            .filter(|(key, pending)| match store.get(key) {
                Some(object) => pending.is_shown_by(object.resource_version()),
                None => !pending.before.is_empty(),
            })
            .map(|(key, _)| key.clone())
            .collect();
        for key in &shown {
            state.settle(key);
        }
        state.objects = store;
        state.synced = true;
        state.absent = false;
        state.heard();
    }

    /// The API server does not know the resource: an empty list until it does.
    pub(super) fn absent(&self) {
        self.replace(Vec::new());
        self.state.write().absent = true;
    }

    /// Takes over an object that was added or has changed.
    pub(super) fn apply(&self, object: Value<'_>, namespace: &str) {
        let Some(key) = key_of(object, namespace) else { return };
        let projected = self.project(object, namespace);
        let version = object.get("/metadata/resourceVersion").and_then(|v| v.text());
        let mut state = self.state.write();
        if state.pendings.get(&key).is_some_and(|p| p.is_shown_by(version.unwrap_or_default())) {
            state.settle(&key);
        }
        match projected {
            Some(object) => state.objects.insert(object),
            // It has lost the labels by which it was kept.
            None => drop(state.objects.remove(&key)),
        }
        state.heard();
    }

    /// An object is gone.
    pub(super) fn delete(&self, key: &Key) {
        let mut state = self.state.write();
        // What comes after the deletion of an object of that name is not settled by it.
        if state.pendings.get(key).is_some_and(|pending| !pending.before.is_empty()) {
            state.settle(key);
        }
        state.objects.remove(key);
        state.heard();
    }

    /// The API server was heard of, and has nothing new.
    pub(super) fn contact(&self) {
        let mut state = self.state.write();
        state.contact = Instant::now();
        state.error = None;
    }

    /// Everything up to this version was heard.
    pub(super) fn heard_up_to(&self, version: &str) {
        version.clone_into(&mut self.state.write().version);
    }

    /// Something went wrong; what is known stays until it is too old.
    pub(super) fn failed(&self, error: String) {
        self.state.write().error = Some(error);
    }

    /// Remembers what was allowed.
    pub(super) fn reserve(&self, key: &Key, object: &Arc<Document>, before: &str) {
        let Some(object) = self.project(object.root(), &key.namespace) else { return };
        let now = Instant::now();
        let mut state = self.state.write();
        let over: Vec<_> = state
            .pendings
            .iter()
            .filter(|(_, p)| p.ends <= now)
            .map(|(key, _)| key.clone())
            .collect();
        for key in &over {
            state.settle(key);
        }
        let pending = Pending { before: before.to_owned(), ends: now + self.options.reservation };
        state.pendings.insert(object.key().clone(), pending);
        state.pending.insert(object);
        state.reservations += 1;
    }

    /// How many reservations there have been.
    pub(super) fn reservations(&self) -> u64 {
        self.state.read().reservations
    }

    /// One object, as it will be where a change was allowed.
    ///
    /// # Errors
    /// Why there is no current view.
    pub(super) fn get(
        &self,
        key: &Key,
        fresh: Option<&Store>,
    ) -> Result<Option<Arc<Object>>, String> {
        let state = self.current()?;
        let pending = state.pending(key, Instant::now());
        Ok(pending.or_else(|| fresh.unwrap_or(&state.objects).get(key)).cloned())
    }

    /// Objects that match. One that is about to change is found by what it was and by what it will
    /// be, and shown as it will be where that matches too: a change may still be refused by another
    /// webhook, so that both count.
    ///
    /// # Errors
    /// Why there is no current view.
    pub(super) fn select(
        &self,
        query: &Query,
        fresh: Option<&Store>,
    ) -> Result<Vec<Arc<Object>>, String> {
        let state = self.current()?;
        let mut found = fresh.unwrap_or(&state.objects).select(query);
        if !state.pendings.is_empty() {
            let now = Instant::now();
            let mut pending = state.pending.select(query);
            pending.retain(|object| state.pending(object.key(), now).is_some());
            if !pending.is_empty() {
                found.retain(|object| !pending.iter().any(|p| p.key() == object.key()));
                found.extend(pending);
                found.sort_by(|a, b| a.key().cmp(b.key()));
                if query.limit > 0 {
                    found.truncate(query.limit);
                }
            }
        }
        Ok(found)
    }

    fn current(&self) -> Result<parking_lot::RwLockReadGuard<'_, State>, String> {
        let state = self.state.read();
        match state.why_not_current(&self.options) {
            None => Ok(state),
            Some(why) => Err(format!("{} {why}", self.resource())),
        }
    }

    /// How the resource stands.
    #[must_use]
    pub fn status(&self) -> Status {
        let state = self.state.read();
        let why = state.why_not_current(&self.options);
        Status {
            current: why.is_none(),
            synced: state.synced,
            absent: state.absent,
            objects: state.objects.len(),
            version: state.version.clone(),
            bytes: state.objects.bytes().saturating_add(state.pending.bytes()),
            last_event: state.last_event,
            error: why.or_else(|| state.error.clone()),
        }
    }
}

impl State {
    fn heard(&mut self) {
        self.contact = Instant::now();
        self.last_event = Some(SystemTime::now());
        self.error = None;
    }

    fn pending(&self, key: &Key, now: Instant) -> Option<&Arc<Object>> {
        self.pendings.get(key).filter(|pending| pending.ends > now)?;
        self.pending.get(key)
    }

    fn settle(&mut self, key: &Key) {
        self.pendings.remove(key);
        self.pending.remove(key);
    }

    fn why_not_current(&self, options: &Options) -> Option<String> {
        let because = self.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        if !self.synced {
            return Some(format!("is not synced yet{because}"));
        }
        let age = self.contact.elapsed();
        if options.source == Source::Live && age > options.max_age {
            return Some(format!("was last heard of {} s ago{because}", age.as_secs()));
        }
        None
    }
}

/// Namespace and name of an object.
fn key_of(object: Value<'_>, namespace: &str) -> Option<Key> {
    let text = |pointer: &str| object.get(pointer).and_then(|v| v.text());
    let namespace = text("/metadata/namespace").unwrap_or(namespace);
    Some(Key::new(namespace, text("/metadata/name")?))
}

/// How often a watch is renewed where events are at most `max_age` old: often enough to be heard of
/// three times in between.
pub(super) fn watch_time(max_age: Duration) -> Duration {
    (max_age / 3).clamp(Duration::from_secs(1), Duration::from_secs(280))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(options: Options) -> Kind {
        let resource = Resource { group: "g".into(), version: "v1".into(), resource: "r".into() };
        let declaration = Declaration::new(&["/spec".to_owned()], &[], &[]).unwrap();
        let labels = Selector::default();
        Kind::new(Reading { resource, declaration, labels, namespace: None }, options)
    }

    fn live() -> Kind {
        let kind = kind(Options::of(Source::Live));
        kind.replace(Vec::new());
        kind
    }

    fn object(name: &str, version: &str, spec: &str) -> Arc<Document> {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"ns","resourceVersion":"{version}"}},"spec":"{spec}"}}"#
        );
        Arc::new(Document::parse(&json).unwrap())
    }

    fn key(name: &str) -> Key {
        Key::new("ns", name)
    }

    /// Names and specs of all objects, as an evaluation sees them.
    fn shown(kind: &Kind) -> String {
        let objects = kind.select(&Query::default(), None).unwrap();
        let spec = |o: &Arc<Object>| o.document().get("/spec").unwrap().text().unwrap().to_owned();
        let one = |o: &Arc<Object>| format!("{}={}", o.key().name, spec(o));
        let listed = objects.iter().map(one).collect::<Vec<_>>().join(" ");
        for object in &objects {
            let got = kind.get(object.key(), None).unwrap().unwrap();
            assert_eq!(spec(&got), spec(object), "get and select agree");
        }
        listed
    }

    #[test]
    fn what_was_allowed_counts_until_the_watch_shows_it() {
        let kind = live();
        kind.reserve(&key("a"), &object("a", "", "new"), "");
        assert_eq!(shown(&kind), "a=new", "a new object counts at once");
        kind.apply(object("b", "3", "other").root(), "");
        assert_eq!(shown(&kind), "a=new b=other");
        kind.apply(object("a", "4", "stored").root(), "");
        assert_eq!(shown(&kind), "a=stored b=other", "the watch has the last word");
        kind.reserve(&key("a"), &object("a", "4", "changed"), "4");
        assert_eq!(shown(&kind), "a=changed b=other");
        kind.apply(object("a", "4", "stored").root(), "");
        assert_eq!(shown(&kind), "a=changed b=other", "an old event does not settle a change");
        kind.apply(object("a", "5", "changed and stored").root(), "");
        assert_eq!(shown(&kind), "a=changed and stored b=other");
        kind.reserve(&key("a"), &object("a", "5", "again"), "5");
        kind.delete(&key("a"));
        assert_eq!(shown(&kind), "b=other", "what was deleted meanwhile does not come back");
        kind.reserve(&key("a"), &object("a", "", "anew"), "");
        kind.delete(&key("a"));
        assert_eq!(shown(&kind), "a=anew b=other", "the deletion was that of the one before");
    }

    #[test]
    fn a_list_settles_what_it_shows() {
        let kind = live();
        kind.apply(object("old", "1", "old").root(), "");
        kind.apply(object("gone", "2", "old").root(), "");
        kind.reserve(&key("new"), &object("new", "", "new"), "");
        kind.reserve(&key("unseen"), &object("unseen", "", "unseen"), "");
        kind.reserve(&key("old"), &object("old", "1", "changed"), "1");
        kind.reserve(&key("gone"), &object("gone", "2", "changed"), "2");
        let project = |o: Arc<Document>| kind.project(o.root(), "").unwrap();
        kind.replace(vec![
            project(object("new", "7", "listed")),
            project(object("old", "1", "old")),
        ]);
        assert_eq!(shown(&kind), "new=listed old=changed unseen=unseen");
    }

    #[test]
    fn what_is_not_stored_in_time_does_not_count_any_more() {
        let options = Options { reservation: Duration::ZERO, ..Options::of(Source::Live) };
        let kind = kind(options);
        kind.replace(Vec::new());
        kind.reserve(&key("a"), &object("a", "", "refused by another webhook"), "");
        assert_eq!(shown(&kind), "");
        assert_eq!(kind.reservations(), 1, "whoever was evaluated meanwhile is evaluated again");
    }

    #[test]
    fn there_is_no_answer_without_a_current_view() {
        let kind = kind(Options::of(Source::Live));
        let ask = |kind: &Kind| kind.get(&key("a"), None).map(|found| found.is_some());
        assert_eq!(ask(&kind), Err("g/v1/r is not synced yet".to_owned()));
        kind.failed("forbidden: because".to_owned());
        assert_eq!(ask(&kind), Err("g/v1/r is not synced yet: forbidden: because".to_owned()));
        kind.absent();
        assert_eq!(ask(&kind), Ok(false), "a resource that is not installed has no objects");
        assert!(kind.status().absent);

        let options = Options { max_age: Duration::ZERO, ..Options::of(Source::Live) };
        let old = self::kind(options);
        old.replace(Vec::new());
        old.failed("no answer".to_owned());
        assert_eq!(ask(&old), Err("g/v1/r was last heard of 0 s ago: no answer".to_owned()));

        let files =
            self::kind(Options { max_age: Duration::ZERO, ..Options::of(Source::Snapshot) });
        assert_eq!(ask(&files), Ok(false), "files do not age");
    }
}
