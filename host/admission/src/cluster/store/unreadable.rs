//! Objects of which only the names are known, and the values of their indexes as hashes. Queries
//! that one of them could match have no result.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash as _, Hasher};
use std::sync::Arc;

use opgate_cluster::{Key, Query, Sketch, UnreadableReason};
use opgate_document::Meter;

use crate::cluster::store::memory::{CacheMemory, Charge, MemoryLimitReached};

/// Bytes of an entry in addition to its key, with the overhead of the allocator.
const ENTRY_BYTES: usize = size_of::<Key>() + size_of::<Entry>() + 64;

/// Maximum number of namespaces in messages.
const MAX_NAMED_NAMESPACES: usize = 3;

/// The reason why only the name of an object is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MissingContent {
    /// It cannot be read.
    Unreadable(UnreadableReason),
    /// There is no memory for it.
    MemoryLimit(MemoryLimitReached),
}

impl fmt::Display for MissingContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => why.fmt(f),
            Self::MemoryLimit(why) => why.fmt(f),
        }
    }
}

#[derive(Debug)]
struct Entry {
    reason: MissingContent,
    sketch: Option<Sketch>,
    charge: Charge,
}

/// An unreadable object, charged.
#[derive(Debug)]
pub(in crate::cluster) struct UnreadableObject {
    key: Key,
    entry: Entry,
}

impl UnreadableObject {
    /// Keeps the name of an object. Without memory for the name, one entry without a name
    /// represents all such objects of its namespace. Its key has an empty name, which no object
    /// has.
    pub(in crate::cluster) fn new(
        key: Key,
        why: MissingContent,
        sketch: impl FnOnce() -> Option<Sketch>,
        memory: &Arc<CacheMemory>,
    ) -> Self {
        let length = key.namespace.len().saturating_add(key.name.len()).saturating_add(ENTRY_BYTES);
        let Ok(mut charge) = memory.charge_name(&key.namespace, length) else {
            let (charge, why) = memory.charge_over_share(&key.namespace, length);
            let (key, why) = (Key::new(&key.namespace, ""), MissingContent::MemoryLimit(why));
            return Self { key, entry: Entry { reason: why, sketch: None, charge } };
        };
        let mut sketch = sketch();
        if let Some(made) = &sketch {
            match memory.charge_name(&key.namespace, length.saturating_add(made.size())) {
                Ok(both) => charge = both,
                Err(_) => sketch = None,
            }
        }
        Self { key, entry: Entry { reason: why, sketch, charge } }
    }
}

/// The unreadable objects of a listing.
#[derive(Debug, Default)]
pub struct UnreadableObjects {
    entries: BTreeMap<Key, Entry>,
    /// The number of those without memory.
    name_only_count: usize,
    bytes: usize,
}

impl UnreadableObjects {
    /// Adds one, or replaces the one of the same name.
    pub(in crate::cluster) fn insert(&mut self, object: UnreadableObject) {
        let UnreadableObject { key, entry } = object;
        self.remove(&key);
        self.name_only_count += usize::from(matches!(entry.reason, MissingContent::MemoryLimit(_)));
        self.bytes = self.bytes.saturating_add(entry.charge.bytes());
        self.entries.insert(key, entry);
    }

    /// Removes an object, if its name is known.
    pub(in crate::cluster) fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.name_only_count -=
                usize::from(matches!(entry.reason, MissingContent::MemoryLimit(_)));
            self.bytes = self.bytes.saturating_sub(entry.charge.bytes());
        }
    }

    /// The reason why an object is unreadable, if it is, or if it can be one without a name.
    pub(in crate::cluster) fn get(&self, key: &Key) -> Option<(&Key, &MissingContent)> {
        let known = self.entries.get_key_value(key);
        let known = known.or_else(|| self.entries.get_key_value(&Key::new(&key.namespace, "")));
        known.map(|(key, entry)| (key, &entry.reason))
    }

    /// Whether the object can be an unreadable one.
    pub(in crate::cluster) fn contains_key(&self, key: &Key) -> bool {
        self.get(key).is_some()
    }

    /// The first one that may match a query. If the meter stops, the result is not used.
    pub(in crate::cluster) fn first(
        &self,
        query: &Query,
        meter: Option<&Meter>,
    ) -> Option<(&Key, &MissingContent)> {
        let namespace = query.namespace.as_deref();
        let start = Key::new(namespace.unwrap_or_default(), "");
        let entries = self.entries.range(start..);
        let is_inside = |key: &Key| namespace.is_none_or(|namespace| *key.namespace == *namespace);
        let mut entries = entries.take_while(|(key, _)| is_inside(key));
        let may = |key: &Key, entry: &Entry| query.may_match(key, entry.sketch.as_ref(), meter);
        let found = entries.find(|(key, entry)| may(key, entry));
        found.map(|(key, entry)| (key, &entry.reason))
    }

    /// A reason, if there are objects whose names are not kept either.
    pub(in crate::cluster) fn nameless_reason(&self) -> Option<&MissingContent> {
        let nameless = self.entries.iter().find(|(key, _)| key.name.is_empty());
        nameless.map(|(_, entry)| &entry.reason)
    }

    /// Feeds the name of each, and the reason, to a hasher.
    pub(in crate::cluster) fn hash_names(&self, hasher: &mut impl Hasher) {
        for (key, entry) in &self.entries {
            (key, entry.reason.to_string()).hash(hasher);
        }
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
    pub(in crate::cluster) fn name_only_count(&self) -> usize {
        self.name_only_count
    }

    /// Their bytes.
    pub(in crate::cluster) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Some of the namespaces of those that are kept by name.
    pub(in crate::cluster) fn namespaces(&self) -> Vec<String> {
        let (mut named, mut from) = (Vec::new(), Key::new("", ""));
        if self.name_only_count == 0 {
            return named;
        }
        loop {
            let mut rest = self.entries.range(from..);
            let is_by_name = |entry: &Entry| matches!(entry.reason, MissingContent::MemoryLimit(_));
            let Some((key, _)) = rest.find(|(_, entry)| is_by_name(entry)) else { break };
            if named.len() == MAX_NAMED_NAMESPACES {
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
    pub(in crate::cluster) fn has_memory_for_any(&self, memory: &CacheMemory) -> bool {
        if self.name_only_count == 0 {
            return false;
        }
        let mut left: Option<(&str, usize)> = None;
        self.entries.iter().any(|(key, entry)| {
            let MissingContent::MemoryLimit(why) = &entry.reason else { return false };
            let left = match left {
                Some((namespace, left)) if *namespace == *key.namespace => left,
                _ => left.insert((&key.namespace, memory.remaining_bytes(&key.namespace))).1,
            };
            why.needs <= left
        })
    }

    /// All of them.
    pub(in crate::cluster) fn into_objects(self) -> impl Iterator<Item = UnreadableObject> {
        self.entries.into_iter().map(|(key, entry)| UnreadableObject { key, entry })
    }
}

impl UnreadableObject {
    /// Its namespace and name.
    pub(in crate::cluster) fn key(&self) -> &Key {
        &self.key
    }
}
