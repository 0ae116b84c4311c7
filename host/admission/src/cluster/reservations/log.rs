//! The last reservations, which show whether an evaluation has missed one that affects it.

use std::collections::VecDeque;
use std::sync::Arc;

use opgate_cluster::{Key, Object, Outline, Query};

/// Number of reservations whose objects are recorded. An evaluation that started before the oldest
/// of them counts as having missed one.
const MAX_ENTRIES: usize = 1_024;

/// A query of an evaluation about a resource.
#[derive(Debug, Clone)]
pub enum RecordedQuery {
    /// One object.
    Object(Key),
    /// All objects that match, wherever the page starts and ends.
    Query(Box<Query>),
    /// Too much to be recorded.
    Anything,
}

impl RecordedQuery {
    /// Whether a change of an object can change the result.
    fn is_affected_by(&self, reserved_change: &ReservedChange) -> bool {
        match self {
            Self::Object(key) => *key == reserved_change.key,
            Self::Anything => true,
            Self::Query(query) => {
                reserved_change.versions.iter().any(|form| query.is_match(form))
                    || reserved_change.outlines.iter().any(|outline| outline.may_match(query))
            }
        }
    }
}

/// A reservation: the object, in all versions that it had or can get.
#[derive(Debug)]
pub(in crate::cluster) struct ReservedChange {
    pub(super) key: Key,
    pub(super) versions: Vec<Arc<Object>>,
    /// The versions of which only an outline is kept.
    pub(super) outlines: Vec<Arc<Outline>>,
    /// The replica that allowed the change.
    pub(super) origin: Origin,
}

/// The replica that allowed a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cluster) enum Origin {
    /// This one.
    Own,
    /// Another one: the change was read from the ledger.
    Foreign,
}

impl ReservedChange {
    /// Whether one of the queries can have another result now.
    pub(in crate::cluster) fn affects<'q>(
        &self,
        mut asked: impl Iterator<Item = &'q RecordedQuery>,
    ) -> bool {
        asked.any(|question| question.is_affected_by(self))
    }

    fn size(&self) -> usize {
        let outlines: usize = self.outlines.iter().map(|outline| outline.size()).sum();
        self.versions.iter().map(|form| form.size()).sum::<usize>().saturating_add(outlines)
    }
}

/// The log of one resource.
#[derive(Debug, Default)]
pub(super) struct ReservationLog {
    /// The number of reservations so far.
    count: u64,
    entries: VecDeque<ReservedChange>,
    bytes: usize,
}

impl ReservationLog {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds a reservation, and removes the oldest ones if the log is full.
    pub(super) fn push(&mut self, reserved_change: ReservedChange, max_bytes: usize) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(reserved_change.size());
        self.entries.push_back(reserved_change);
        while self.entries.len() > MAX_ENTRIES || self.bytes > max_bytes {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(oldest.size());
        }
    }

    /// Records a change of unknown content: every query since before it counts as affected.
    pub(super) fn push_unknown(&mut self) {
        self.count += 1;
        self.entries.clear();
        self.bytes = 0;
    }

    /// Whether a reservation after the first `count` can change the result of one of the queries. With an
    /// origin, only reservations of that origin count.
    pub(super) fn affects_since<'q>(
        &self,
        count: u64,
        asked: &(impl Iterator<Item = &'q RecordedQuery> + Clone),
        origin: Option<Origin>,
    ) -> bool {
        let since = usize::try_from(self.count.saturating_sub(count)).unwrap_or(usize::MAX);
        // Reservations that are no longer recorded can affect any object.
        since > self.entries.len()
            || self
                .entries
                .iter()
                .rev()
                .take(since)
                .filter(|change| origin.is_none_or(|origin| change.origin == origin))
                .any(|reserved_change| reserved_change.affects(asked.clone()))
    }
}
