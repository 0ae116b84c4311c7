//! What is left of an object whose content is not kept: enough to say which queries it cannot answer.

use opgate_document::Meter;

use crate::store::{LOOK_UP, OBJECT, spend};
use crate::words::hash;
use crate::{Key, Match, Object, Query};

/// Hashes of the values of each index, four bytes for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch(Box<[Box<[u32]>]>);

/// The half of a hash that is kept: of a hundred thousand values, one in forty thousand others looks like one.
fn half(word: &str) -> u32 {
    u32::try_from(hash(word) >> 32).unwrap_or_default()
}

impl Sketch {
    /// Bytes that it takes.
    #[must_use]
    pub fn size(&self) -> usize {
        let each = self.0.iter().map(|words| size_of_val(&**words).saturating_add(32));
        each.fold(0, usize::saturating_add)
    }
}

impl Object {
    /// What is left of it without its content.
    #[must_use]
    pub fn sketch(&self) -> Sketch {
        let words = self.tokens.iter().map(|tokens| {
            let mut words: Vec<_> = tokens.iter().map(half).collect();
            words.sort_unstable();
            words.dedup();
            words.into_boxed_slice()
        });
        Sketch(words.collect())
    }
}

impl Query {
    /// Whether an object may be an answer, of which nothing is known but its key and, maybe, its sketch.
    #[must_use]
    pub fn may_hold(&self, key: &Key, sketch: Option<&Sketch>, meter: Option<&Meter>) -> bool {
        let has = |wanted: &Match| {
            let words = sketch.and_then(|sketch| sketch.0.get(wanted.index));
            let Some(words) = words else { return true };
            let mut values = wanted.values.iter().take_while(|_| spend(meter, LOOK_UP));
            if words.is_empty() {
                return wanted.absent;
            }
            values.any(|value| words.binary_search(&half(value)).is_ok())
        };
        spend(meter, OBJECT)
            && self.namespace.as_deref().is_none_or(|namespace| *key.namespace == *namespace)
            && self.matches.iter().all(has)
    }
}
