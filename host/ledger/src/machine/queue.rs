//! The requests of this replica that wait for their entry, or whose outcome is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::change::RequestId;
use crate::limits::{Limits, TenantUsage, Usage};
use crate::message::Append;

/// Bytes of a request besides the texts of its change.
const REQUEST_BYTES: usize = 256;

/// The place of a request between its arrival and its settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// In the next write.
    Waiting,
    /// Until the watermark of a resource is known.
    Parked,
    /// In the write under way.
    Writing,
    /// In the ledger.
    Committed,
}

/// The first state of an entry that covers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Assignment {
    pub(super) number: u64,
    pub(super) renewal: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) append: Arc<Append>,
    pub(super) respond_before: Duration,
    pub(super) phase: Phase,
    /// Set from the first write on that has the request. A ledger with this entry has the request.
    pub(super) assignment: Option<Assignment>,
    /// The position in the order of arrival, which a request keeps if its write fails.
    sequence: u64,
}

impl Request {
    fn usage(&self) -> Usage {
        usage_of(&self.append)
    }
}

fn usage_of(append: &Append) -> Usage {
    Usage { entries: 1, bytes: REQUEST_BYTES.saturating_add(append.change.projection.len()) }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Queue {
    requests: BTreeMap<RequestId, Request>,
    /// The waiting ones by arrival.
    waiting: BTreeMap<u64, RequestId>,
    parked: BTreeSet<RequestId>,
    /// Of those that are not committed.
    deadlines: BTreeSet<(Duration, RequestId)>,
    /// Of those that are not committed.
    usage: TenantUsage,
    next_sequence: u64,
}

impl Queue {
    pub(super) fn get(&self, id: RequestId) -> Option<&Request> {
        self.requests.get(&id)
    }

    pub(super) fn phase(&self, id: RequestId) -> Option<Phase> {
        self.requests.get(&id).map(|request| request.phase)
    }

    /// Adds a request, or returns the usage that leaves no place for it.
    pub(super) fn push(
        &mut self,
        id: RequestId,
        append: Append,
        respond_before: Duration,
        limits: Limits,
    ) -> Result<(), &TenantUsage> {
        let usage = usage_of(&append);
        if !self.usage.admits(&append.change.tenant, usage, limits) {
            return Err(&self.usage);
        }
        self.usage.add(&append.change.tenant, usage);
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let append = Arc::new(append);
        let phase = Phase::Waiting;
        let request = Request { append, respond_before, phase, assignment: None, sequence };
        self.requests.insert(id, request);
        self.waiting.insert(sequence, id);
        self.deadlines.insert((respond_before, id));
        Ok(())
    }

    pub(super) fn set_phase(&mut self, id: RequestId, phase: Phase) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        self.waiting.remove(&request.sequence);
        self.parked.remove(&id);
        request.phase = phase;
        match phase {
            Phase::Waiting => {
                self.waiting.insert(request.sequence, id);
            }
            Phase::Parked => {
                self.parked.insert(id);
            }
            Phase::Writing => {}
            Phase::Committed => {
                self.deadlines.remove(&(request.respond_before, id));
                self.usage.remove(&request.append.change.tenant, request.usage());
            }
        }
    }

    pub(super) fn assign(&mut self, id: RequestId, assignment: Assignment) {
        if let Some(request) = self.requests.get_mut(&id) {
            request.assignment.get_or_insert(assignment);
        }
    }

    pub(super) fn remove(&mut self, id: RequestId) -> Option<Request> {
        let request = self.requests.remove(&id)?;
        self.waiting.remove(&request.sequence);
        self.parked.remove(&id);
        if request.phase != Phase::Committed {
            self.deadlines.remove(&(request.respond_before, id));
            self.usage.remove(&request.append.change.tenant, request.usage());
        }
        Some(request)
    }

    /// The requests of the next write, in the order of their arrival.
    pub(super) fn waiting(&self) -> impl Iterator<Item = RequestId> {
        self.waiting.values().copied()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// All requests that are not in the ledger and not in a write under way.
    pub(super) fn queued(&self) -> Vec<RequestId> {
        self.waiting.values().chain(&self.parked).copied().collect()
    }

    /// A request that is not committed and has no time after this one.
    pub(super) fn first_before(&self, time: Duration) -> Option<RequestId> {
        let (deadline, id) = self.deadlines.first()?;
        (*deadline <= time).then_some(*id)
    }

    pub(super) fn first_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// The number of requests that are not committed.
    pub(super) fn len(&self) -> usize {
        self.deadlines.len()
    }
}
