//! The objects of one resource, and the questions about them.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

use opgate_compat::labels::Selector;
use opgate_document::Meter;

use crate::index::{Index, Objects, PostingList};
use crate::tokens::Tokens;
use crate::words::{MAX_INDEXED_VALUES, Words, hash};
use crate::{Key, Object};

/// Conditions for objects. Every condition that is set must hold.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// In this namespace.
    pub namespace: Option<String>,
    /// With labels that this selects.
    pub label_selector: Selector,
    /// With these values in indexes.
    pub matches: Vec<IndexMatch>,
    /// Behind this one in the order of keys.
    pub after: Option<Key>,
    /// Maximum number of objects; 0 for all.
    pub limit: usize,
}

/// A condition on an index.
#[derive(Debug, Clone, Default)]
pub struct IndexMatch {
    /// Position of the index in the store's declaration.
    pub index: usize,
    /// One of these values. Shared, because recorded queries contain the same thousands of them.
    pub values: Arc<HashSet<String>>,
    /// Or none at all.
    pub include_missing: bool,
}

impl Query {
    /// Reports whether the conditions hold for an object; order and limit do not count.
    #[must_use]
    pub fn is_match(&self, object: &Object) -> bool {
        self.is_match_metered(object, None)
    }

    /// [`Query::is_match`] with limited work. If the meter stops, the caller must ignore the result.
    #[must_use]
    pub fn is_match_metered(&self, object: &Object, meter: Option<&Meter>) -> bool {
        let look_up =
            LOOKUP_COST.saturating_add(object.labels.bytes_per_label() / LABEL_BYTES_PER_UNIT);
        let label = |key: &str| if spend(meter, look_up) { object.label(key) } else { None };
        spend(meter, OBJECT_COST)
            && self.namespace.as_deref().is_none_or(|ns| *object.key.namespace == *ns)
            && self.matches.iter().all(|m| m.is_match(object, meter))
            && (self.label_selector.is_empty() || self.label_selector.matches(label))
    }
}

/// Units of work for an object that is read, for a value that is looked up, and for an object that is
/// indexed. Bytes of labels that are read for one unit.
pub(crate) const OBJECT_COST: usize = 8;
pub(crate) const LOOKUP_COST: usize = 16;
const INDEXING_COST: usize = 64;
const LABEL_BYTES_PER_UNIT: usize = 64;

pub(crate) fn spend(meter: Option<&Meter>, units: usize) -> bool {
    meter.is_none_or(|meter| meter.spend(units))
}

impl IndexMatch {
    fn is_match(&self, object: &Object, meter: Option<&Meter>) -> bool {
        let look_up = |is_there: bool| spend(meter, LOOKUP_COST) && is_there;
        object.tokens.get(self.index).is_some_and(|tokens| {
            if tokens.is_empty() {
                return self.include_missing;
            }
            // The tokens are sorted: whichever are fewer are looked up among the others.
            if self.values.len() < tokens.len() / 8 {
                self.values.iter().any(|value| look_up(tokens.contains(value)))
            } else {
                tokens.iter().any(|token| look_up(self.values.contains(token)))
            }
        })
    }
}

#[derive(Debug, Default)]
struct Postings {
    by_value: Index,
    missing: PostingList,
}

impl Postings {
    fn insert(&mut self, object: &Arc<Object>, tokens: &Tokens) {
        if tokens.is_empty() {
            self.missing.insert(object);
        }
        self.by_value.insert(object, index_words(tokens));
    }

    fn remove(&mut self, key: &Key, tokens: &Tokens) {
        if tokens.is_empty() {
            self.missing.remove(key);
        }
        self.by_value.remove(key, index_words(tokens));
    }
}

fn index_words(tokens: &Tokens) -> Words<impl Iterator<Item = u64>> {
    match tokens.len() {
        0..=MAX_INDEXED_VALUES => Words::Hashes(tokens.iter().map(hash)),
        _ => Words::TooMany,
    }
}

/// The objects of one resource.
#[derive(Debug, Default)]
pub struct Store {
    objects: Objects,
    postings: Vec<Postings>,
    labels: Index,
    bytes: usize,
}

impl Store {
    /// Creates an empty store for objects with this number of indexes.
    #[must_use]
    pub fn new(indexes: usize) -> Self {
        let postings = std::iter::repeat_with(Postings::default).take(indexes).collect();
        Self { postings, ..Self::default() }
    }

    /// Adds an object of a list. An object that an API server stores has a uid and a unique name. A server
    /// that computes its objects can return several of one name, without a uid: OLM shows a package once for
    /// each catalog that has it. All of them are kept.
    pub fn add(&mut self, mut object: Object) {
        let is_twin = |known: &Arc<Object>| {
            known.uid.is_empty() && object.uid.is_empty() && !known.is_identical(&object)
        };
        if self.objects.get(&object.key).is_some_and(is_twin) {
            // Never the same twice: the store grows with each of them.
            let twin = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
            object.key = Arc::new(Key { ordinal: twin, ..Key::clone(&object.key) });
        }
        drop(self.insert(object));
    }

    /// Adds an object; returns the replaced one with the same key, so that a caller with a lock can drop it
    /// later.
    pub fn insert(&mut self, object: impl Into<Arc<Object>>) -> Option<Arc<Object>> {
        let object = object.into();
        let replaced = self.remove(&object.key);
        self.bytes = self.bytes.saturating_add(object.size());
        for (postings, tokens) in self.postings.iter_mut().zip(&object.tokens) {
            postings.insert(&object, tokens);
        }
        self.labels.insert(&object, object.labels.words());
        self.objects.insert(object.key.clone(), object);
        replaced
    }

    /// Takes an object out.
    pub fn remove(&mut self, key: &Key) -> Option<Arc<Object>> {
        let object = self.objects.remove(key)?;
        self.bytes = self.bytes.saturating_sub(object.size());
        for (postings, tokens) in self.postings.iter_mut().zip(&object.tokens) {
            postings.remove(key, tokens);
        }
        self.labels.remove(key, object.labels.words());
        Some(object)
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Reports whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns bytes of all objects, see [`Object::size`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Iterates over all objects, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    /// Returns one object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// Returns the objects that a query selects, in the order of their keys. The cost is that of the rarest
    /// condition on an index or on a label's value, otherwise that of the namespace.
    #[must_use]
    pub fn select(&self, query: &Query) -> Vec<Arc<Object>> {
        self.select_metered(query, query.limit, None)
    }

    /// [`Store::select`] with a maximum number of objects (0 for all) and limited work: every read is charged
    /// to the meter. If the meter stops, the caller must ignore the result.
    #[must_use]
    pub fn select_metered(
        &self,
        query: &Query,
        limit: usize,
        meter: Option<&Meter>,
    ) -> Vec<Arc<Object>> {
        let limit = if limit == 0 { usize::MAX } else { limit };
        let look_up = || spend(meter, LOOKUP_COST);
        let indexed = query.matches.iter().filter_map(|m| {
            let postings = self.postings.get(m.index)?;
            let values = m.values.iter().take_while(|_| look_up());
            let found = values.filter_map(|v| postings.by_value.candidates(v.as_str()));
            let others = m.include_missing.then_some(&postings.missing).into_iter();
            Some(found.chain(others).chain(postings.by_value.unindexed()).collect::<Vec<_>>())
        });
        let labelled = query.label_selector.required_values().map(|(key, values)| {
            let found = values.iter().take_while(|_| look_up());
            let found = found.filter_map(|value| self.labels.candidates((key, value.as_str())));
            found.chain(self.labels.unindexed()).collect::<Vec<_>>()
        });
        let count = |sets: &Vec<&PostingList>| sets.iter().map(|set| set.len()).sum::<usize>();
        let rarest = indexed.chain(labelled).min_by_key(count);
        let united: Objects;
        let among = match rarest.as_deref() {
            None => &self.objects,
            Some(&[PostingList::Large(only)]) => only,
            Some(several) => {
                // One object may be filed under each of the values.
                let mut all = Objects::new();
                for object in several.iter().flat_map(|set| set.iter()) {
                    if !spend(meter, INDEXING_COST) {
                        break;
                    }
                    all.entry(object.key.clone()).or_insert_with(|| object.clone());
                }
                united = all;
                &united
            }
        };
        let start = query.namespace.as_deref().map(|namespace| Key::new(namespace, ""));
        let from = match (&query.after, &start) {
            (Some(after), Some(start)) if after < start => Bound::Included(start),
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(start)) => Bound::Included(start),
            (None, None) => Bound::Unbounded,
        };
        let objects = among.range::<Key, _>((from, Bound::Unbounded)).map(|(_, object)| object);
        let inside = |object: &&Arc<Object>| {
            spend(meter, 1)
                && query.namespace.as_deref().is_none_or(|ns| *object.key.namespace == *ns)
        };
        let wanted = |object: &&Arc<Object>| query.is_match_metered(object, meter);
        objects.take_while(inside).filter(wanted).take(limit).cloned().collect()
    }
}
