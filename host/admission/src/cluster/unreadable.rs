//! Objects of which only the names are known, and the values of their indexes as hashes. Queries
//! that one of them could match have no result.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use opgate_cluster::{Key, Query, Sketch, Unreadable};
use opgate_document::Meter;

use super::memory::{Charge, Memory, NoRoom};

/// Bytes of an entry in addition to its key, with the overhead of the allocator.
const ENTRY: usize = size_of::<Key>() + size_of::<Entry>() + 64;

/// Maximum number of namespaces in messages.
const MAX_NAMED: usize = 3;

/// The reason why only the name of an object is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotKept {
    /// It cannot be read.
    Unreadable(Unreadable),
    /// There is no memory for it.
    NoRoom(NoRoom),
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => why.fmt(f),
            Self::NoRoom(why) => why.fmt(f),
        }
    }
}

#[derive(Debug)]
struct Entry {
    why: NotKept,
    sketch: Option<Sketch>,
    charge: Charge,
}

/// An unreadable object, charged.
#[derive(Debug)]
pub(super) struct UnreadableObject {
    key: Key,
    entry: Entry,
}

impl UnreadableObject {
    /// Keeps the name of an object. Without memory for the name, one entry without a name
    /// represents all such objects of its namespace. Its key has an empty name, which no object
    /// has.
    pub(super) fn new(
        key: Key,
        why: NotKept,
        sketch: impl FnOnce() -> Option<Sketch>,
        memory: &Arc<Memory>,
    ) -> Self {
        let length = key.namespace.len().saturating_add(key.name.len()).saturating_add(ENTRY);
        let Ok(mut charge) = memory.name(&key.namespace, length) else {
            let (charge, why) = memory.more(&key.namespace, length);
            let (key, why) = (Key::new(&key.namespace, ""), NotKept::NoRoom(why));
            return Self { key, entry: Entry { why, sketch: None, charge } };
        };
        let mut sketch = sketch();
        if let Some(made) = &sketch {
            match memory.name(&key.namespace, length.saturating_add(made.size())) {
                Ok(both) => charge = both,
                Err(_) => sketch = None,
            }
        }
        Self { key, entry: Entry { why, sketch, charge } }
    }
}

/// The unreadable objects of a listing.
#[derive(Debug, Default)]
pub struct UnreadableObjects {
    entries: BTreeMap<Key, Entry>,
    /// The number of those without memory.
    by_name: usize,
    bytes: usize,
}

impl UnreadableObjects {
    /// Adds one, or replaces the one of the same name.
    pub(super) fn insert(&mut self, object: UnreadableObject) {
        let UnreadableObject { key, entry } = object;
        self.remove(&key);
        self.by_name += usize::from(matches!(entry.why, NotKept::NoRoom(_)));
        self.bytes = self.bytes.saturating_add(entry.charge.bytes());
        self.entries.insert(key, entry);
    }

    /// Removes an object, if its name is known.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.by_name -= usize::from(matches!(entry.why, NotKept::NoRoom(_)));
            self.bytes = self.bytes.saturating_sub(entry.charge.bytes());
        }
    }

    /// The reason why an object is unreadable, if it is, or if it can be one without a name.
    pub(super) fn get(&self, key: &Key) -> Option<(&Key, &NotKept)> {
        let known = self.entries.get_key_value(key);
        let known = known.or_else(|| self.entries.get_key_value(&Key::new(&key.namespace, "")));
        known.map(|(key, entry)| (key, &entry.why))
    }

    /// Whether the object can be an unreadable one.
    pub(super) fn contains_key(&self, key: &Key) -> bool {
        self.get(key).is_some()
    }

    /// The first one that may match a query. If the meter stops, the result is not used.
    pub(super) fn first(&self, query: &Query, meter: Option<&Meter>) -> Option<(&Key, &NotKept)> {
        let namespace = query.namespace.as_deref();
        let start = Key::new(namespace.unwrap_or_default(), "");
        let entries = self.entries.range(start..);
        let is_inside = |key: &Key| namespace.is_none_or(|namespace| *key.namespace == *namespace);
        let mut entries = entries.take_while(|(key, _)| is_inside(key));
        let may = |key: &Key, entry: &Entry| query.may_hold(key, entry.sketch.as_ref(), meter);
        let found = entries.find(|(key, entry)| may(key, entry));
        found.map(|(key, entry)| (key, &entry.why))
    }

    /// A reason, if there are objects whose names are not kept either.
    pub(super) fn nameless(&self) -> Option<&NotKept> {
        let nameless = self.entries.iter().find(|(key, _)| key.name.is_empty());
        nameless.map(|(_, entry)| &entry.why)
    }

    /// Number of them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of those that are kept by name because there is no memory.
    pub(super) fn by_name(&self) -> usize {
        self.by_name
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Some of the namespaces of those that are kept by name.
    pub(super) fn namespaces(&self) -> Vec<String> {
        let (mut named, mut from) = (Vec::new(), Key::new("", ""));
        if self.by_name == 0 {
            return named;
        }
        loop {
            let mut rest = self.entries.range(from..);
            let is_by_name = |entry: &Entry| matches!(entry.why, NotKept::NoRoom(_));
            let Some((key, _)) = rest.find(|(_, entry)| is_by_name(entry)) else { break };
            if named.len() == MAX_NAMED {
                named.push("…".to_owned());
                break;
            }
            named.push(opgate_text::one_line(&key.namespace, 253));
            // No name of a namespace sorts between the two.
            from = Key::new(&format!("{}\0", key.namespace), "");
        }
        named
    }

    /// Whether there is memory now for one of those that are kept by name.
    pub(super) fn fits(&self, memory: &Memory) -> bool {
        if self.by_name == 0 {
            return false;
        }
        let mut left: Option<(&str, usize)> = None;
        self.entries.iter().any(|(key, entry)| {
            let NotKept::NoRoom(why) = &entry.why else { return false };
            let left = match left {
                Some((namespace, left)) if *namespace == *key.namespace => left,
                _ => left.insert((&key.namespace, memory.left(&key.namespace))).1,
            };
            why.needs <= left
        })
    }

    /// All of them.
    pub(super) fn into_objects(self) -> impl Iterator<Item = UnreadableObject> {
        self.entries.into_iter().map(|(key, entry)| UnreadableObject { key, entry })
    }
}

impl UnreadableObject {
    /// Its namespace and name.
    pub(super) fn key(&self) -> &Key {
        &self.key
    }
}
