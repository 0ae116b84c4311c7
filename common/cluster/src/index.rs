//! Finds the objects of a store by words: tokens of a declared index, or labels.
//!
//! ```text
//! object ─▶ its words, hashed ─▶ Index ─ word ─▶ PostingList ─▶ candidates, which the query then checks
//!             └─ more than are filed ─▶ `many`: candidates for every word
//! ```
//!
//! A tenant chooses the words. So an index keeps hashes with a random seed and not the words, and files few of
//! each object: what an object adds to an index, in bytes and in time, has a bound.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use crate::words::{Words, hash};
use crate::{Key, Object};

/// Objects in the order of their keys.
pub(crate) type Objects = BTreeMap<Arc<Key>, Arc<Object>>;

/// Hashes that are hashes already.
#[derive(Debug, Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Objects of one word up to here are a list: most words are those of one object. A tree takes 200 bytes.
const MAX_SMALL_POSTING: usize = 8;

/// The objects of one word.
#[derive(Debug)]
pub(crate) enum PostingList {
    One(Arc<Object>),
    /// In the order of their keys.
    Small(Vec<Arc<Object>>),
    Large(Objects),
}

impl Default for PostingList {
    fn default() -> Self {
        Self::Small(Vec::new())
    }
}

impl PostingList {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Small(objects) => objects.len(),
            Self::Large(objects) => objects.len(),
        }
    }

    pub(crate) fn insert(&mut self, object: &Arc<Object>) {
        match self {
            Self::Large(objects) => drop(objects.insert(object.shared_key(), object.clone())),
            Self::One(other) if other.key() == object.key() => *other = object.clone(),
            Self::One(other) => {
                let mut both = vec![other.clone(), object.clone()];
                both.sort_by(|a, b| a.key().cmp(b.key()));
                *self = Self::Small(both);
            }
            Self::Small(objects) => {
                let at = objects.partition_point(|other| other.key() < object.key());
                // Two words of one object may have one hash.
                if let Some(same) = objects.get_mut(at).filter(|other| other.key() == object.key())
                {
                    *same = object.clone();
                } else if objects.len() == MAX_SMALL_POSTING {
                    let all = objects.drain(..).chain([object.clone()]);
                    *self = Self::Large(all.map(|object| (object.shared_key(), object)).collect());
                } else {
                    objects.reserve_exact(1);
                    objects.insert(at, object.clone());
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        match self {
            Self::One(object) if object.key() == key => *self = Self::default(),
            Self::One(_) => {}
            Self::Small(objects) => objects.retain(|object| object.key() != key),
            Self::Large(objects) => drop(objects.remove(key)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        let (one, few, many) = match self {
            Self::One(object) => (Some(object), None, None),
            Self::Small(objects) => (None, Some(objects.iter()), None),
            Self::Large(objects) => (None, None, Some(objects.values())),
        };
        one.into_iter().chain(few.into_iter().flatten()).chain(many.into_iter().flatten())
    }
}

/// Objects by their words.
#[derive(Debug, Default)]
pub(crate) struct Index {
    by_word: HashMap<u64, PostingList, BuildHasherDefault<IdentityHasher>>,
    /// Objects with more words than are filed.
    unindexed: PostingList,
}

impl Index {
    pub(crate) fn insert(&mut self, object: &Arc<Object>, words: Words<impl Iterator<Item = u64>>) {
        match words {
            Words::TooMany => self.unindexed.insert(object),
            Words::Hashes(words) => {
                for word in words {
                    match self.by_word.get_mut(&word) {
                        Some(posting) => posting.insert(object),
                        None => drop(self.by_word.insert(word, PostingList::One(object.clone()))),
                    }
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &Key, words: Words<impl Iterator<Item = u64>>) {
        match words {
            Words::TooMany => self.unindexed.remove(key),
            Words::Hashes(words) => {
                for word in words {
                    if let Some(posting) = self.by_word.get_mut(&word) {
                        posting.remove(key);
                        if posting.len() == 0 {
                            self.by_word.remove(&word);
                        }
                    }
                }
            }
        }
    }

    /// Returns objects that may have the word, in addition to [`Index::unindexed`].
    pub(crate) fn candidates(&self, word: impl Hash) -> Option<&PostingList> {
        self.by_word.get(&hash(word))
    }

    /// Objects that may have any word.
    pub(crate) fn unindexed(&self) -> Option<&PostingList> {
        Some(&self.unindexed).filter(|many| many.len() > 0)
    }
}
