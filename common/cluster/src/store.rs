//! The objects of one resource, and the questions about them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use opgate_document::Meter;
use opgate_upstream::labels::Selector;

use crate::{Key, Object};

/// Which objects. Every condition that is there must hold.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// In this namespace.
    pub namespace: Option<String>,
    /// With labels that this selects.
    pub labels: Selector,
    /// With these values in indexes.
    pub matches: Vec<Match>,
    /// Behind this one in the order of keys.
    pub after: Option<Key>,
    /// At the most so many; 0 for all.
    pub limit: usize,
}

/// A condition on an index.
#[derive(Debug, Clone, Default)]
pub struct Match {
    /// Position of the index in the store's declaration.
    pub index: usize,
    /// One of these. Shared, because who remembers what was asked has the same thousands of them.
    pub values: Arc<HashSet<String>>,
    /// Or none at all.
    pub absent: bool,
}

impl Query {
    /// Whether the conditions hold for an object; order and number of the answer do not count.
    #[must_use]
    pub fn holds(&self, object: &Object) -> bool {
        self.holds_for(object, None)
    }

    /// [`Query::holds`] for somebody who may not take for ever. Where the meter stops, nobody believes
    /// the answer.
    #[must_use]
    pub fn holds_for(&self, object: &Object, meter: Option<&Meter>) -> bool {
        let label = |key: &str| if spend(meter, LOOK_UP) { object.label(key) } else { None };
        spend(meter, OBJECT)
            && self.namespace.as_deref().is_none_or(|ns| *object.key.namespace == *ns)
            && self.matches.iter().all(|m| m.holds(object, meter))
            && (self.labels.is_empty() || self.labels.matches(label))
    }
}

/// Units of work for an object that is looked at, for a value that is looked up, and for an object that
/// is filed.
const OBJECT: usize = 8;
const LOOK_UP: usize = 16;
const FILED: usize = 64;

fn spend(meter: Option<&Meter>, units: usize) -> bool {
    meter.is_none_or(|meter| meter.spend(units))
}

impl Match {
    fn holds(&self, object: &Object, meter: Option<&Meter>) -> bool {
        let look_up = |is_there: bool| spend(meter, LOOK_UP) && is_there;
        object.tokens.get(self.index).is_some_and(|tokens| {
            if tokens.is_empty() {
                return self.absent;
            }
            // The tokens are sorted: whichever are fewer are looked up among the others.
            if self.values.len() < tokens.len() / 8 {
                let has = |value: &String| tokens.binary_search_by(|token| (**token).cmp(value));
                self.values.iter().any(|value| look_up(has(value).is_ok()))
            } else {
                tokens.iter().any(|token| look_up(self.values.contains(&**token)))
            }
        })
    }
}

type Objects = BTreeMap<Arc<Key>, Arc<Object>>;

/// Objects by a value that conditions ask for.
type ByValue = HashMap<Box<str>, Posting>;

/// Objects of one value up to here are a list: most values are those of one object, and one object of
/// 1 MiB may have a hundred thousand of them. A tree takes 200 bytes, a list of one 8.
const FEW: usize = 8;

/// The objects of one value.
#[derive(Debug)]
enum Posting {
    /// In the order of their keys.
    Few(Vec<Arc<Object>>),
    Many(Objects),
}

impl Posting {
    fn len(&self) -> usize {
        match self {
            Self::Few(objects) => objects.len(),
            Self::Many(objects) => objects.len(),
        }
    }

    fn insert(&mut self, object: &Arc<Object>) {
        match self {
            Self::Many(objects) => drop(objects.insert(object.key.clone(), object.clone())),
            Self::Few(objects) if objects.len() == FEW => {
                let all = objects.drain(..).chain([object.clone()]);
                *self = Self::Many(all.map(|object| (object.key.clone(), object)).collect());
            }
            Self::Few(objects) => {
                let at = objects.partition_point(|other| other.key < object.key);
                objects.reserve_exact(1);
                objects.insert(at, object.clone());
            }
        }
    }

    fn remove(&mut self, key: &Key) {
        match self {
            Self::Few(objects) => objects.retain(|object| *object.key != *key),
            Self::Many(objects) => drop(objects.remove(key)),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        let (few, many) = match self {
            Self::Few(objects) => (Some(objects.iter()), None),
            Self::Many(objects) => (None, Some(objects.values())),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten())
    }
}

#[derive(Debug, Default)]
struct Postings {
    by_value: ByValue,
    absent: Posting,
}

impl Default for Posting {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

/// The objects of one resource.
#[derive(Debug, Default)]
pub struct Store {
    objects: Objects,
    postings: Vec<Postings>,
    /// By `key=value`.
    labels: ByValue,
    bytes: usize,
}

fn file(by_value: &mut ByValue, value: &str, object: &Arc<Object>) {
    match by_value.get_mut(value) {
        Some(posting) => posting.insert(object),
        None => drop(by_value.insert(value.into(), Posting::Few(vec![object.clone()]))),
    }
}

fn unfile(by_value: &mut ByValue, value: &str, key: &Key) {
    if let Some(posting) = by_value.get_mut(value) {
        posting.remove(key);
        if posting.len() == 0 {
            by_value.remove(value);
        }
    }
}

fn label(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

impl Store {
    /// An empty store for objects with so many indexes.
    #[must_use]
    pub fn new(indexes: usize) -> Self {
        let postings = std::iter::repeat_with(Postings::default).take(indexes).collect();
        Self { postings, ..Self::default() }
    }

    /// Adds an object of a list. What an API server stores has a uid, and a name of its own. A server
    /// that makes up its objects can have several of one name, without a uid: OLM shows a package
    /// once for each catalog that has it. All of them are kept.
    pub fn add(&mut self, mut object: Object) {
        let is_twin = |known: &Arc<Object>| {
            known.uid.is_empty() && object.uid.is_empty() && !known.is_same(&object)
        };
        if self.objects.get(&object.key).is_some_and(is_twin) {
            // Never the same twice: the store grows with each of them.
            let twin = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
            object.key = Arc::new(Key { twin, ..Key::clone(&object.key) });
        }
        self.insert(object);
    }

    /// Adds an object, or replaces the one of the same key.
    pub fn insert(&mut self, object: impl Into<Arc<Object>>) {
        let object = object.into();
        self.remove(&object.key);
        self.bytes = self.bytes.saturating_add(object.size());
        for (postings, tokens) in self.postings.iter_mut().zip(&object.tokens) {
            if tokens.is_empty() {
                postings.absent.insert(&object);
            }
            for token in tokens {
                file(&mut postings.by_value, token, &object);
            }
        }
        for (name, value) in &object.labels {
            file(&mut self.labels, &label(name, value), &object);
        }
        self.objects.insert(object.key.clone(), object);
    }

    /// Takes an object out.
    pub fn remove(&mut self, key: &Key) -> Option<Arc<Object>> {
        let object = self.objects.remove(key)?;
        self.bytes = self.bytes.saturating_sub(object.size());
        for (postings, tokens) in self.postings.iter_mut().zip(&object.tokens) {
            if tokens.is_empty() {
                postings.absent.remove(key);
            }
            for token in tokens {
                unfile(&mut postings.by_value, token, key);
            }
        }
        for (name, value) in &object.labels {
            unfile(&mut self.labels, &label(name, value), key);
        }
        Some(object)
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Bytes of all objects, see [`Object::size`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    /// The objects that a query asks for, in the order of their keys. The cost is that of the rarest
    /// condition on an index or on a label's value, otherwise that of the namespace.
    #[must_use]
    pub fn select(&self, query: &Query) -> Vec<Arc<Object>> {
        self.select_for(query, query.limit, None)
    }

    /// [`Store::select`] of so many (0 for all) for somebody who may not take for ever: what is looked at
    /// is spent on the meter. Where that stops, nobody believes the answer.
    #[must_use]
    pub fn select_for(
        &self,
        query: &Query,
        limit: usize,
        meter: Option<&Meter>,
    ) -> Vec<Arc<Object>> {
        let limit = if limit == 0 { usize::MAX } else { limit };
        let look_up = || spend(meter, LOOK_UP);
        let indexed = query.matches.iter().filter_map(|m| {
            let postings = self.postings.get(m.index)?;
            let values = m.values.iter().take_while(|_| look_up());
            let found = values.filter_map(|v| postings.by_value.get(v.as_str()));
            Some(found.chain(m.absent.then_some(&postings.absent)).collect::<Vec<_>>())
        });
        let labelled = query.labels.listed().map(|(key, values)| {
            let found = values.iter().take_while(|_| look_up()).map(|value| label(key, value));
            found.filter_map(|label| self.labels.get(label.as_str())).collect::<Vec<_>>()
        });
        let count = |sets: &Vec<&Posting>| sets.iter().map(|set| set.len()).sum::<usize>();
        let rarest = indexed.chain(labelled).min_by_key(count);
        let united: Objects;
        let among = match rarest.as_deref() {
            None => &self.objects,
            Some(&[Posting::Many(only)]) => only,
            Some(several) => {
                // One object may be filed under each of the values.
                let mut all = Objects::new();
                for object in several.iter().flat_map(|set| set.iter()) {
                    if !spend(meter, FILED) {
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
        let wanted = |object: &&Arc<Object>| query.holds_for(object, meter);
        objects.take_while(inside).filter(wanted).take(limit).cloned().collect()
    }
}
