//! The steps of a request: evaluation, append, response, and the reads that settle it.

use std::time::Duration;

use opgate_ledger::{EntryId, Input, Outcome};

use crate::cluster::{Cluster, Mutation, TIMEOUT, TTL};
use crate::common::{creation, request_id};
use crate::state::{Phase, Refusal, State};

impl Cluster {
    /// Whether another request is visible to an evaluation: as stored, or as a reservation.
    pub(crate) fn conflicts(&self, state: &State, request: usize) -> [bool; 2] {
        let at = self.replica_of(request);
        let replica = &state.replicas[at];
        let mut found = [false; 2];
        for (other, phase) in state.requests.iter().enumerate().filter(|(at, _)| *at != request) {
            let is_own = self.replica_of(other) == at;
            match phase {
                Phase::Stored { version, .. }
                    if *version <= replica.view || replica.known.contains(&other) =>
                {
                    found[0] = true;
                }
                Phase::Stored { is_settled: false, .. }
                | Phase::Appended { .. }
                | Phase::Committed { .. }
                    if is_own =>
                {
                    found[1] = true;
                }
                Phase::Allowed { run, .. } if is_own && *run == replica.run => {
                    found[1] = true;
                }
                _ => {}
            }
        }
        let is_pending = |(other, ..): &(usize, u32, Duration)| !replica.known.contains(other);
        found[1] |= replica.imported.values().any(is_pending);
        found
    }

    pub(crate) fn evaluate(&self, state: &mut State, request: usize) {
        let deadline = match state.requests[request] {
            Phase::Idle { deadline, .. } => deadline,
            _ => state.time + TIMEOUT,
        };
        let [is_denied, _] = self.conflicts(state, request);
        if is_denied {
            state.requests[request] = Phase::Over;
            return;
        }
        let replica = &state.replicas[self.replica_of(request)];
        let (mark, view, made) = (replica.machine.import_mark(), replica.view, replica.made);
        state.requests[request] = Phase::Evaluated { deadline, mark, view, made };
        if !self.is_slow {
            self.append(state, request);
        }
    }

    pub(crate) fn append(&self, state: &mut State, request: usize) {
        let Phase::Evaluated { deadline, mark, view, made } = state.requests[request] else {
            return;
        };
        let at = self.replica_of(request);
        if state.replicas[at].made != made {
            // The comparison with reservations for requests of the same replica.
            state.requests[request] = Phase::Idle { deadline, must_reach: 0 };
            return;
        }
        let is_reached = self.mutation == Mutation::NoWaitForView;
        let view = if is_reached { u64::MAX } else { view };
        let append = creation(&request.to_string(), mark, view, Self::clock(at, deadline));
        state.replicas[at].made += 1;
        state.requests[request] = Phase::Appended { deadline };
        let id = request_id(request);
        self.input(state, at, Input::Append(id, append));
    }

    pub(crate) fn respond(&self, state: &mut State, request: usize) {
        let at = self.replica_of(request);
        let Phase::Committed { respond_before } = state.requests[request] else { return };
        let is_late = Self::clock(at, state.time) >= respond_before;
        if is_late && self.mutation != Mutation::LateResponse {
            state.requests[request] = Phase::Refused(Refusal::Deadline);
            let id = request_id(request);
            self.input(state, at, Input::Withdraw(id));
        } else {
            state.requests[request] =
                Phase::Allowed { end: state.time + TTL, run: state.replicas[at].run };
        }
    }

    /// The outcome of an own request by a direct read or the watch.
    pub(crate) fn settle(&self, state: &mut State, request: usize) {
        let at = self.replica_of(request);
        let outcome = match &mut state.requests[request] {
            Phase::Stored { version, is_settled } => {
                *is_settled = true;
                state.replicas[at].known.insert(request);
                Outcome::Stored(*version)
            }
            phase => {
                *phase = Phase::Over;
                Outcome::Absent { began: Self::clock(at, state.time) }
            }
        };
        let id = request_id(request);
        self.input(state, at, Input::Settle(id, outcome));
    }

    pub(crate) fn settle_imported(&self, state: &mut State, replica: usize, id: EntryId) {
        let at = &mut state.replicas[replica];
        let Some((request, renewal, ends)) = at.imported.remove(&id) else { return };
        let outcome = if let Phase::Stored { version, .. } = state.requests[request] {
            at.known.insert(request);
            Outcome::Stored(version)
        } else {
            Outcome::Absent { began: ends }
        };
        self.input(state, replica, Input::SettleImported { id, renewal, outcome });
    }
}
