//! The model for the checker: the first state, the actions that are possible in a state, their
//! effects, and the properties that hold.

use std::collections::BTreeMap;

use opgate_ledger::Input;
use stateright::{Model, Property};

use crate::cluster::{Cluster, Mutation};
use crate::common::{Store, groups};
use crate::state::{Access, Action, Phase, Replica, State};

pub(crate) const INVARIANTS: [&str; 3] =
    ["at most one is stored", "each refusal has a reason", "each waiting request ends"];

impl Model for Cluster {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let store = if self.is_new {
            Store::default()
        } else {
            Store::established(BTreeMap::from([(groups(), 0)]))
        };
        let mut state = State {
            time: 0,
            store,
            version: 0,
            replicas: (0..self.replicas).map(|replica| Replica::new(replica, 0)).collect(),
            requests: vec![Phase::New; self.requests],
            late: Vec::new(),
            failures: self.failures,
            unjustified: None,
        };
        for replica in 0..self.replicas {
            self.input(&mut state, replica, Input::Tick);
            self.serve(&mut state, replica);
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.time < self.horizon {
            actions.push(Action::Time);
        }
        if state.failures.deletions > 0 && state.store.object.is_some() {
            actions.push(Action::DeleteLedger);
        }
        actions.extend((0..state.late.len()).map(Action::Arrive));
        for (number, phase) in state.requests.iter().enumerate() {
            let at = self.replica_of(number);
            match phase {
                Phase::New | Phase::Idle { .. } => {
                    let must_reach = match phase {
                        Phase::Idle { must_reach, .. } => *must_reach,
                        _ => 0,
                    };
                    let is_reached = state.replicas[at].view >= must_reach
                        || self.mutation == Mutation::NoWaitForView;
                    // With a reservation of another request, it waits until that is settled.
                    let [is_denied, is_pending] = self.conflicts(state, number);
                    if is_reached && (is_denied || !is_pending) {
                        actions.push(Action::Evaluate(number));
                    }
                }
                Phase::Evaluated { .. } => actions.push(Action::Append(number)),
                Phase::Committed { .. } => actions.push(Action::Respond(number)),
                Phase::Allowed { end, .. } => {
                    let is_open = state.time <= *end;
                    let action = if is_open { Action::Store } else { Action::Settle };
                    actions.push(action(number));
                }
                Phase::Stored { is_settled: false, .. } => actions.push(Action::Settle(number)),
                Phase::Appended { .. } | Phase::Stored { .. } | Phase::Over | Phase::Refused(_) => {
                }
            }
        }
        for (number, replica) in state.replicas.iter().enumerate() {
            let now = Self::clock(number, state.time);
            if replica.machine.next_wake().is_some_and(|at| at <= now) {
                actions.push(Action::Wake(number));
            }
            if replica.view < state.version {
                actions.push(Action::ShowObject(number));
            }
            if !replica.watch.is_empty() {
                actions.push(Action::ShowLedger(number));
            }
            if replica.version_read.is_some() {
                actions.push(Action::ReadVersion(number));
            }
            if let Some(access) = &replica.access {
                actions.push(Action::Serve(number));
                if state.failures.timeouts > 0 {
                    actions.push(Action::Timeout(number, false));
                    if matches!(access, Access::Write(_)) {
                        actions.push(Action::Timeout(number, true));
                    }
                }
            }
            if state.failures.crashes > 0 {
                actions.push(Action::Crash(number));
            }
            for (id, (request, _, ends)) in &replica.imported {
                let is_stored = matches!(state.requests[*request], Phase::Stored { .. });
                if is_stored || now >= *ends || self.mutation == Mutation::NoHold {
                    actions.push(Action::SettleImported(number, id.clone()));
                }
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        let state = &mut next;
        match action {
            Action::Time => state.time += 1,
            Action::Wake(replica) => self.input(state, replica, Input::Tick),
            Action::Evaluate(request) => self.evaluate(state, request),
            Action::Append(request) => self.append(state, request),
            Action::Respond(request) => self.respond(state, request),
            Action::Store(request) => {
                state.version += 1;
                let version = state.version;
                let current = state.replicas[self.replica_of(request)].run;
                // A restarted replica does not settle requests of its last run.
                let is_settled = !matches!(
                    state.requests[request], Phase::Allowed { run, .. } if run == current
                );
                state.requests[request] = Phase::Stored { version, is_settled };
            }
            Action::Settle(request) => self.settle(state, request),
            Action::SettleImported(replica, id) => self.settle_imported(state, replica, id),
            Action::ShowObject(replica) => state.replicas[replica].view += 1,
            Action::ShowLedger(replica) => {
                let event = state.replicas[replica].watch.pop_front()?;
                self.input(state, replica, Input::Watched(event));
            }
            Action::Serve(replica) => self.serve(state, replica),
            Action::ReadVersion(replica) => {
                let number = state.replicas[replica].version_read.take()?;
                let is_read = self.mutation != Mutation::NoFloor;
                let version = Some(if is_read { state.version } else { 0 });
                let resource = groups();
                self.input(state, replica, Input::VersionRead { number, resource, version });
            }
            Action::Timeout(replica, is_executed) => self.time_out(state, replica, is_executed),
            Action::Arrive(number) => {
                let write = state.late.remove(number);
                self.execute(state, &write);
            }
            Action::Crash(replica) => self.crash(state, replica),
            Action::DeleteLedger => {
                state.failures.deletions -= 1;
                state.store.object = None;
                Self::show(state);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn stored(state: &State) -> usize {
            let is_stored = |phase: &&Phase| matches!(phase, Phase::Stored { .. });
            state.requests.iter().filter(is_stored).count()
        }
        vec![
            Property::always(INVARIANTS[0], |_, state| stored(state) <= 1),
            Property::always(INVARIANTS[1], |_, state: &State| state.unjustified.is_none()),
            Property::always(INVARIANTS[2], |_, state: &State| {
                let ends = |replica: &Replica| {
                    replica.machine.waiting() == 0 || replica.machine.next_wake().is_some()
                };
                state.replicas.iter().all(ends)
            }),
            Property::sometimes("the last request is stored", |model: &Self, state: &State| {
                matches!(state.requests[model.requests - 1], Phase::Stored { .. })
            }),
        ]
    }
}
