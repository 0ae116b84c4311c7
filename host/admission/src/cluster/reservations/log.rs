//! The last reservations, which show whether an evaluation has missed one that affects it.

use std::collections::VecDeque;
use std::sync::Arc;

use opgate_cluster::{Key, Object, Outline, Query};

/// Number of reservations whose objects are recorded. An evaluation that started before the oldest
/// of them counts as having missed one.
const MAX_ENTRIES: usize = 1_024;

/// A query of an evaluation about a resource.
#[derive(Debug, Clone)]
pub enum Question {
    /// One object.
    Object(Key),
    /// All objects that match, wherever the page starts and ends.
    Query(Box<Query>),
    /// Too much to be recorded.
    Anything,
}

impl Question {
    /// Whether a change of an object can change the result.
    fn is_about(&self, made: &ReservedChange) -> bool {
        match self {
            Self::Object(key) => *key == made.key,
            Self::Anything => true,
            Self::Query(query) => {
                made.forms.iter().any(|form| query.holds(form))
                    || made.outlines.iter().any(|outline| outline.may_match(query))
            }
        }
    }
}

/// A reservation: the object, in all versions that it had or can get.
#[derive(Debug)]
pub(in crate::cluster) struct ReservedChange {
    pub(super) key: Key,
    pub(super) forms: Vec<Arc<Object>>,
    /// The versions of which only an outline is kept.
    pub(super) outlines: Vec<Arc<Outline>>,
}

impl ReservedChange {
    /// Whether one of the queries can have another result now.
    pub(in crate::cluster) fn answers<'q>(
        &self,
        mut asked: impl Iterator<Item = &'q Question>,
    ) -> bool {
        asked.any(|question| question.is_about(self))
    }

    fn size(&self) -> usize {
        let outlines: usize = self.outlines.iter().map(|outline| outline.size()).sum();
        self.forms.iter().map(|form| form.size()).sum::<usize>().saturating_add(outlines)
    }
}

/// The log of one resource.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The number of reservations so far.
    count: u64,
    entries: VecDeque<ReservedChange>,
    bytes: usize,
}

impl Log {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds a reservation, and removes the oldest ones if the log is full.
    pub(super) fn push(&mut self, made: ReservedChange, max_bytes: usize) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(made.size());
        self.entries.push_back(made);
        while self.entries.len() > MAX_ENTRIES || self.bytes > max_bytes {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.size());
        }
    }

    /// Whether a reservation after the first `count` can change the result of one of the queries.
    pub(super) fn touches<'q>(
        &self,
        count: u64,
        asked: &(impl Iterator<Item = &'q Question> + Clone),
    ) -> bool {
        let since = usize::try_from(self.count.saturating_sub(count)).unwrap_or(usize::MAX);
        // Reservations that are no longer recorded can affect any object.
        since > self.entries.len()
            || self.entries.iter().rev().take(since).any(|made| made.answers(asked.clone()))
    }
}
