//! Inputs of the machines, the effects of their outputs on the state, and crashes, after which a
//! replica begins with a new machine.

use opgate_ledger::{AppendError, Entry, Input, Output, RequestId};

use crate::cluster::{Cluster, Mutation};
use crate::common::{groups, request_number};
use crate::state::{Access, Phase, Refusal, Replica, State};

impl Cluster {
    pub(crate) fn input(&self, state: &mut State, replica: usize, input: Input) {
        let now = Self::clock(replica, state.time);
        let is_checked = self.mutation != Mutation::NoRecheck;
        // All objects exclude each other.
        let mut affects = |_: RequestId, _: &Entry| is_checked;
        let outputs = state.replicas[replica].machine.handle(now, input, &mut affects);
        for output in outputs {
            self.output(state, replica, output);
        }
    }

    fn output(&self, state: &mut State, replica: usize, output: Output) {
        let time = state.time;
        let at = &mut state.replicas[replica];
        match output {
            Output::Write(write) => at.access = Some(Access::Write(write)),
            Output::Read => at.access = Some(Access::Read),
            Output::ReadVersion { number, .. } => at.version_read = Some(number),
            Output::Import { entry, ends } => {
                let request = entry.name.parse().unwrap();
                at.imported.insert(entry.id.clone(), (request, entry.renewal, ends));
            }
            Output::Release(id) => {
                at.imported.remove(&id);
            }
            Output::Committed { request, respond_before } => {
                state.requests[request_number(request)] = Phase::Committed { respond_before };
            }
            Output::Outdated { request, must_reach } => {
                let must_reach = must_reach.get(&groups()).copied().unwrap_or_default();
                let request = request_number(request);
                let Phase::Appended { deadline } = state.requests[request] else {
                    panic!("outdated: {:?}", state.requests[request])
                };
                if must_reach > state.version {
                    state.unjustified = Some("a version that does not exist");
                }
                let is_other =
                    |(other, phase): (usize, &Phase)| other != request && *phase != Phase::New;
                if !state.requests.iter().enumerate().any(is_other) {
                    state.unjustified = Some("outdated without another request");
                }
                state.requests[request] = Phase::Idle { deadline, must_reach };
            }
            Output::Failed { request, error } => {
                let refusal = match error {
                    AppendError::Deadline { .. } => Refusal::Deadline,
                    AppendError::New { .. } => Refusal::New,
                    error => panic!("{error}"),
                };
                let request = request_number(request);
                let is_early = matches!(
                    state.requests[request], Phase::Appended { deadline } if time < deadline
                );
                if refusal == Refusal::Deadline && is_early {
                    state.unjustified = Some("failed before the deadline");
                }
                if refusal == Refusal::New
                    && !self.is_new
                    && state.store.uids < 2
                    && self.failures.deletions == 0
                {
                    state.unjustified = Some("the ledger was never lost");
                }
                state.requests[request] = Phase::Refused(refusal);
            }
        }
    }

    pub(crate) fn crash(&self, state: &mut State, replica: usize) {
        state.failures.crashes -= 1;
        let access = state.replicas[replica].access.take();
        if let Some(Access::Write(write)) = access {
            state.late.push(write);
        }
        let run = state.replicas[replica].run + 1;
        state.replicas[replica] = Replica::new(replica, run);
        for request in 0..self.requests {
            let phase = &mut state.requests[request];
            if self.replica_of(request) != replica {
                continue;
            }
            match phase {
                Phase::Evaluated { .. }
                | Phase::Idle { .. }
                | Phase::Appended { .. }
                | Phase::Committed { .. } => *phase = Phase::Refused(Refusal::Crash),
                // Its next run knows nothing of it.
                Phase::Stored { is_settled, .. } => *is_settled = true,
                _ => {}
            }
        }
        self.input(state, replica, Input::Tick);
    }
}
