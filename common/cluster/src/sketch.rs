//! A summary of an object whose content is not stored: enough to find the queries that it cannot affect.

use opgate_document::Meter;

use crate::store::{LOOKUP_COST, OBJECT_COST, spend};
use crate::words::hash;
use crate::{IndexMatch, Key, Object, Query};

/// Hashes of the values of each index, four bytes for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch(Box<[IndexSketch]>);

/// The values of one index.
#[derive(Debug, Clone, PartialEq, Eq)]
struct IndexSketch {
    /// Sorted hashes.
    hashes: Box<[u32]>,
    /// Whether the object, or one of several, has no value.
    may_be_missing: bool,
}

/// Returns the stored half of a hash: with a hundred thousand values, one in forty thousand others collides.
fn short_hash(word: &str) -> u32 {
    u32::try_from(hash(word) >> 32).unwrap_or_default()
}

impl Sketch {
    /// Returns bytes that it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        let each = self.0.iter().map(|words| size_of_val(&*words.hashes).saturating_add(32));
        each.fold(0, usize::saturating_add)
    }

    /// Returns the sketch of one of two objects, if it is unknown which one is stored.
    pub(crate) fn union(&self, other: &Self) -> Self {
        let both = self.0.iter().zip(&other.0).map(|(left, right)| {
            let mut hashes: Vec<_> = left.hashes.iter().chain(&right.hashes).copied().collect();
            hashes.sort_unstable();
            hashes.dedup();
            let may_be_absent = left.may_be_missing || right.may_be_missing;
            IndexSketch { hashes: hashes.into_boxed_slice(), may_be_missing: may_be_absent }
        });
        // A sketch without an index gives no information for that index.
        Self(both.collect())
    }
}

impl Object {
    /// Returns its summary without its content.
    #[must_use]
    pub fn sketch(&self) -> Sketch {
        let words = self.tokens.iter().map(|tokens| {
            let mut hashes: Vec<_> = tokens.iter().map(short_hash).collect();
            hashes.sort_unstable();
            hashes.dedup();
            IndexSketch { may_be_missing: hashes.is_empty(), hashes: hashes.into_boxed_slice() }
        });
        Sketch(words.collect())
    }
}

impl Query {
    /// Reports whether an object may match, of which only the key and possibly the sketch are known.
    #[must_use]
    pub fn may_match(&self, key: &Key, sketch: Option<&Sketch>, meter: Option<&Meter>) -> bool {
        let has = |wanted: &IndexMatch| {
            let words = sketch.and_then(|sketch| sketch.0.get(wanted.index));
            let Some(words) = words else { return true };
            let mut values = wanted.values.iter().take_while(|_| spend(meter, LOOKUP_COST));
            (wanted.include_missing && words.may_be_missing)
                || values.any(|value| words.hashes.binary_search(&short_hash(value)).is_ok())
        };
        spend(meter, OBJECT_COST)
            && self.namespace.as_deref().is_none_or(|namespace| *key.namespace == *namespace)
            && self.matches.iter().all(has)
    }
}
