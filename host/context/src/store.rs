//! The objects of one resource, and the questions about them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use opgate_labels::Selector;

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
    /// One of these.
    pub values: HashSet<String>,
    /// Or none at all.
    pub absent: bool,
}

impl Match {
    fn holds(&self, object: &Object) -> bool {
        object.tokens.get(self.index).is_some_and(|tokens| {
            (self.absent && tokens.is_empty())
                || tokens.iter().any(|token| self.values.contains(&**token))
        })
    }
}

#[derive(Debug, Default)]
struct Postings {
    by_value: HashMap<Box<str>, BTreeSet<Arc<Key>>>,
    absent: BTreeSet<Arc<Key>>,
}

/// The objects of one resource.
#[derive(Debug, Default)]
pub struct Store {
    objects: BTreeMap<Arc<Key>, Arc<Object>>,
    postings: Vec<Postings>,
    bytes: usize,
}

impl Store {
    /// An empty store for objects with so many indexes.
    #[must_use]
    pub fn new(indexes: usize) -> Self {
        let postings = std::iter::repeat_with(Postings::default).take(indexes).collect();
        Self { objects: BTreeMap::new(), postings, bytes: 0 }
    }

    /// Adds an object, or replaces the one of the same key.
    pub fn insert(&mut self, object: Object) {
        self.remove(&object.key.clone());
        self.bytes = self.bytes.saturating_add(object.size());
        for (postings, tokens) in self.postings.iter_mut().zip(&object.tokens) {
            if tokens.is_empty() {
                postings.absent.insert(object.key.clone());
            }
            for token in tokens {
                postings.by_value.entry(token.clone()).or_default().insert(object.key.clone());
            }
        }
        self.objects.insert(object.key.clone(), Arc::new(object));
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
                if let Some(keys) = postings.by_value.get_mut(token) {
                    keys.remove(key);
                    if keys.is_empty() {
                        postings.by_value.remove(token);
                    }
                }
            }
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

    /// The keys of all objects.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<Key>> {
        self.objects.keys()
    }

    /// The objects that a query asks for, in the order of their keys. The cost is that of the rarest
    /// condition on an index, otherwise that of the namespace.
    #[must_use]
    pub fn select(&self, query: &Query) -> Vec<Arc<Object>> {
        let limit = if query.limit == 0 { usize::MAX } else { query.limit };
        let wanted = |object: &&Arc<Object>| {
            query.namespace.as_deref().is_none_or(|ns| *object.key.namespace == *ns)
                && query.matches.iter().all(|m| m.holds(object))
                && (query.labels.is_empty() || query.labels.matches(|key| object.label(key)))
        };
        let rarest = query.matches.iter().min_by_key(|m| self.count(m));
        if let Some(rarest) = rarest {
            let keys = self.keys_of(rarest).into_iter();
            let keys = keys.filter(|key| query.after.as_ref().is_none_or(|after| ***key > *after));
            let objects = keys.filter_map(|key| self.objects.get(key));
            return objects.filter(wanted).take(limit).cloned().collect();
        }
        let start = query.namespace.as_deref().map(|namespace| Key::new(namespace, ""));
        let from = match (&query.after, &start) {
            (Some(after), Some(start)) if after < start => Bound::Included(start),
            (Some(after), _) => Bound::Excluded(after),
            (None, Some(start)) => Bound::Included(start),
            (None, None) => Bound::Unbounded,
        };
        let objects = self.objects.range::<Key, _>((from, Bound::Unbounded)).map(|(_, o)| o);
        let inside = |object: &&Arc<Object>| {
            query.namespace.as_deref().is_none_or(|ns| *object.key.namespace == *ns)
        };
        objects.take_while(inside).filter(wanted).take(limit).cloned().collect()
    }

    fn count(&self, m: &Match) -> usize {
        let Some(postings) = self.postings.get(m.index) else { return 0 };
        let found = m.values.iter().filter_map(|v| postings.by_value.get(v.as_str()));
        let absent = if m.absent { postings.absent.len() } else { 0 };
        found.map(BTreeSet::len).sum::<usize>().saturating_add(absent)
    }

    fn keys_of(&self, m: &Match) -> BTreeSet<&Arc<Key>> {
        let Some(postings) = self.postings.get(m.index) else { return BTreeSet::new() };
        let found = m.values.iter().filter_map(|v| postings.by_value.get(v.as_str())).flatten();
        let absent = postings.absent.iter().filter(|_| m.absent);
        found.chain(absent).collect()
    }
}
