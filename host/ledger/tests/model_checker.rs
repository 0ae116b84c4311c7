//! The machine in all orders of events of a small cluster, explored by a model checker.
//!
//! All requests create objects of one resource that exclude each other. A replica evaluates, and
//! asks its machine; the API server stores allowed objects, or does not, within the time that it
//! has. Time, both watches, reads, writes and failures advance independently.
//!
//! A [`Mutation`] leaves out one step of the protocol, and the checker must then find two stored
//! objects. The steps are left out around the machine: in what a replica reports to it, and in the
//! API server.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod common;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use common::{Store, creation, groups};
use opgate_ledger::{
    AppendError, Config, Document, Entry, EntryId, ImportMark, Input, Limits, Machine, Observation,
    Outcome, Output, ReplicaId, RequestId, Write, WriteResult,
};
use stateright::{Checker, HasDiscoveries, Model, Property, UniformChooser};

/// Time in units: all times of the model are multiples.
const UNIT: Duration = Duration::from_secs(1);

/// The time of a request until its deadline, and the reservation TTL.
const TIMEOUT: u8 = 2;
const TTL: u8 = 1;

/// A step of the protocol that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutation {
    None,
    /// The API server writes without comparing versions.
    NoCompare,
    /// Stored entries are removed without raising the watermark.
    NoWatermark,
    /// A replica claims that its view has reached every version.
    NoWaitForView,
    /// A replica settles imported entries before their time is over.
    NoHold,
    /// A replica responds after the deadline.
    LateResponse,
    /// A new ledger is used at once.
    NoWaitAfterLoss,
    /// The watermark of a new ledger is not read.
    NoFloor,
    /// A replica does not compare imported entries with waiting requests.
    NoRecheck,
}

/// Numbers of failures that can occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Failures {
    /// Reads and writes without a response.
    timeouts: u8,
    crashes: u8,
    deletions: u8,
}

#[derive(Debug, Clone)]
struct Cluster {
    replicas: usize,
    requests: usize,
    horizon: u8,
    failures: Failures,
    /// Whether time passes between the evaluation of a request and its append.
    is_slow: bool,
    /// Whether there is no ledger in the beginning.
    is_new: bool,
    mutation: Mutation,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    New,
    /// Is evaluated when the view has reached the version.
    Idle {
        deadline: u8,
        must_reach: u64,
    },
    Evaluated {
        deadline: u8,
        mark: ImportMark,
        view: u64,
        /// The number of reservations for requests of this replica before.
        made: u8,
    },
    Appended {
        deadline: u8,
    },
    Committed {
        respond_before: Duration,
    },
    /// The API server stores it at this time or earlier.
    Allowed {
        end: u8,
        /// The run of the replica that has allowed it.
        run: u8,
    },
    Stored {
        version: u64,
        is_settled: bool,
    },
    /// Not stored, or not allowed.
    Over,
    /// Refused without another object as a reason.
    Refused(Refusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Refusal {
    Deadline,
    New,
    Crash,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Access {
    Read,
    Write(Write),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Replica {
    machine: Machine,
    run: u8,
    made: u8,
    access: Option<Access>,
    version_read: Option<u64>,
    /// The version up to which the watch has shown objects.
    view: u64,
    /// Stored objects that direct reads have found.
    known: BTreeSet<usize>,
    /// Reservations for other replicas: request, renewal, end.
    imported: BTreeMap<EntryId, (usize, u32, Duration)>,
    /// Events of the ledger that the watch has not shown yet.
    watch: VecDeque<Observation>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    time: u8,
    store: Store,
    /// Version of the last stored object.
    version: u64,
    replicas: Vec<Replica>,
    requests: Vec<Phase>,
    /// Writes that may still arrive.
    late: Vec<Write>,
    failures: Failures,
    /// An output of a machine without a reason.
    unjustified: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Time,
    Wake(usize),
    Evaluate(usize),
    Append(usize),
    Respond(usize),
    Store(usize),
    /// A direct read of an own request.
    Settle(usize),
    /// A direct read of an imported entry.
    SettleImported(usize, EntryId),
    ShowObject(usize),
    ShowLedger(usize),
    Serve(usize),
    ReadVersion(usize),
    /// No response, before or after the API server did it.
    Timeout(usize, bool),
    Arrive(usize),
    Crash(usize),
    DeleteLedger,
}

impl Cluster {
    fn machine(replica: usize, run: u8) -> Machine {
        Machine::new(Config {
            replica: ReplicaId::new(&format!("{replica}-{run}")),
            reservation_ttl: UNIT * u32::from(TTL),
            max_hold: UNIT * u32::from(TIMEOUT + TTL),
            removal_delay: UNIT,
            retry_delay: UNIT,
            limits: Limits::default(),
        })
    }

    /// The replica that a request reaches.
    fn replica_of(&self, request: usize) -> usize {
        request % self.replicas
    }

    /// The clock of a replica; no two agree.
    fn clock(replica: usize, time: u8) -> Duration {
        UNIT * u32::from(time) + UNIT * 100 * u32::try_from(replica + 1).unwrap()
    }

    fn input(&self, state: &mut State, replica: usize, input: Input) {
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
        let index = |request: RequestId| usize::try_from(request.0).unwrap();
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
                state.requests[index(request)] = Phase::Committed { respond_before };
            }
            Output::Outdated { request, must_reach } => {
                let must_reach = must_reach.get(&groups()).copied().unwrap_or_default();
                let request = index(request);
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
                let request = index(request);
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

    /// Whether another request is visible to an evaluation: as stored, or as a reservation.
    fn conflicts(&self, state: &State, request: usize) -> [bool; 2] {
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

    fn evaluate(&self, state: &mut State, request: usize) {
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

    fn append(&self, state: &mut State, request: usize) {
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
        let id = RequestId(u64::try_from(request).unwrap());
        self.input(state, at, Input::Append(id, append));
    }

    /// Executes a write at the API server, and adds the event for all watches.
    fn execute(&self, state: &mut State, write: &Write) -> WriteResult {
        let store = &mut state.store;
        let result = match (self.mutation, write) {
            (Mutation::NoCompare, Write::Update(key, document)) if store.object.is_some() => {
                store.put(key.uid.clone(), document.clone())
            }
            (Mutation::NoWatermark, Write::Update(key, document)) => {
                let versions = store.object.as_ref().map(|(_, stored)| stored.versions.clone());
                let versions = versions.unwrap_or_default();
                let document = Document { versions, ..(**document).clone() };
                store.write(&Write::Update(key.clone(), Arc::new(document)))
            }
            (Mutation::NoWaitAfterLoss, Write::Create(document)) if store.object.is_none() => {
                let uid = format!("uid-{}", store.uids + 1);
                let established = Some(uid.into());
                store.create(Arc::new(Document { established, ..(**document).clone() }));
                WriteResult::Conflict
            }
            _ => store.write(write),
        };
        let is_written = matches!(result, WriteResult::Done(_))
            || (self.mutation == Mutation::NoWaitAfterLoss && matches!(write, Write::Create(_)));
        if is_written {
            Self::show(state);
        }
        result
    }

    fn show(state: &mut State) {
        let event = state.store.read();
        for replica in &mut state.replicas {
            replica.watch.push_back(event.clone());
        }
    }

    fn serve(&self, state: &mut State, replica: usize) {
        match state.replicas[replica].access.take() {
            Some(Access::Read) => {
                let read = state.store.read();
                self.input(state, replica, Input::ReadFinished(Ok(read)));
            }
            Some(Access::Write(write)) => {
                let result = self.execute(state, &write);
                self.input(state, replica, Input::WriteFinished(result));
            }
            None => {}
        }
    }

    fn time_out(&self, state: &mut State, replica: usize, is_executed: bool) {
        state.failures.timeouts -= 1;
        let problem = String::from("timeout");
        match state.replicas[replica].access.take() {
            Some(Access::Read) => self.input(state, replica, Input::ReadFinished(Err(problem))),
            Some(Access::Write(write)) => {
                if is_executed {
                    self.execute(state, &write);
                } else {
                    state.late.push(write);
                }
                self.input(state, replica, Input::WriteFinished(WriteResult::Unknown(problem)));
            }
            None => {}
        }
    }

    fn crash(&self, state: &mut State, replica: usize) {
        state.failures.crashes -= 1;
        let access = state.replicas[replica].access.take();
        if let Some(Access::Write(write)) = access {
            state.late.push(write);
        }
        let run = state.replicas[replica].run + 1;
        state.replicas[replica] = Replica {
            machine: Self::machine(replica, run),
            run,
            made: 0,
            access: None,
            version_read: None,
            view: 0,
            known: BTreeSet::new(),
            imported: BTreeMap::new(),
            watch: VecDeque::new(),
        };
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

    fn respond(&self, state: &mut State, request: usize) {
        let at = self.replica_of(request);
        let Phase::Committed { respond_before } = state.requests[request] else { return };
        let is_late = Self::clock(at, state.time) >= respond_before;
        if is_late && self.mutation != Mutation::LateResponse {
            state.requests[request] = Phase::Refused(Refusal::Deadline);
            let id = RequestId(u64::try_from(request).unwrap());
            self.input(state, at, Input::Withdraw(id));
        } else {
            state.requests[request] =
                Phase::Allowed { end: state.time + TTL, run: state.replicas[at].run };
        }
    }

    /// The outcome of an own request by a direct read or the watch.
    fn settle(&self, state: &mut State, request: usize) {
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
        let id = RequestId(u64::try_from(request).unwrap());
        self.input(state, at, Input::Settle(id, outcome));
    }

    fn settle_imported(&self, state: &mut State, replica: usize, id: EntryId) {
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

impl Model for Cluster {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut store = Store::default();
        if !self.is_new {
            let established = Some("uid-1".into());
            let versions = BTreeMap::from([(groups(), 0)]);
            let entries = BTreeMap::new();
            store.create(Arc::new(Document { revision: 1, established, versions, entries }));
        }
        let replica = |replica| Replica {
            machine: Self::machine(replica, 0),
            run: 0,
            made: 0,
            access: None,
            version_read: None,
            view: 0,
            known: BTreeSet::new(),
            imported: BTreeMap::new(),
            watch: VecDeque::new(),
        };
        let mut state = State {
            time: 0,
            store,
            version: 0,
            replicas: (0..self.replicas).map(replica).collect(),
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

const INVARIANTS: [&str; 3] =
    ["at most one is stored", "each refusal has a reason", "each waiting request ends"];

/// Explores all states.
fn explore_all(cluster: Cluster) {
    let text = format!("{cluster:?}");
    let checker = cluster.checker().spawn_bfs().join();
    report(&text, &checker);
    checker.assert_properties();
}

/// Explores this number of states nearest to the first, and as many on random paths to the end.
fn explore(cluster: &Cluster, states: usize) {
    let builder = || cluster.clone().checker().target_state_count(states);
    let checker = builder().spawn_bfs().join();
    report(&format!("nearest: {cluster:?}"), &checker);
    assert_safe(&checker);
    let checker = builder().spawn_simulation(1, UniformChooser).join();
    report(&format!("random: {cluster:?}"), &checker);
    assert_safe(&checker);
}

fn assert_safe(checker: &impl Checker<Cluster>) {
    for property in INVARIANTS {
        checker.assert_no_discovery(property);
    }
}

/// Asserts that the checker finds two stored objects. Depth first, which finds a long path sooner
/// than a short one.
fn find_violation(cluster: Cluster) {
    let text = format!("{cluster:?}");
    let finish = HasDiscoveries::AnyOf([INVARIANTS[0]].into_iter().collect());
    let builder = cluster.checker().finish_when(finish).target_state_count(10_000_000);
    let checker = builder.spawn_dfs().join();
    report(&text, &checker);
    let path = checker.discovery(INVARIANTS[0]);
    let path = path.unwrap_or_else(|| panic!("no violation: {text}"));
    println!("{:?}", path.into_actions());
}

fn report(text: &str, checker: &impl Checker<Cluster>) {
    let (states, unique) = (checker.state_count(), checker.unique_state_count());
    println!("{states} states, {unique} different, depth {}: {text}", checker.max_depth());
}

const NONE: Failures = Failures { timeouts: 0, crashes: 0, deletions: 0 };
const TIMEOUTS: Failures = Failures { timeouts: 2, ..NONE };
const CRASH: Failures = Failures { crashes: 1, ..NONE };
const DELETION: Failures = Failures { deletions: 1, ..NONE };

const SMALL: Cluster = Cluster {
    replicas: 2,
    requests: 2,
    horizon: 4,
    failures: NONE,
    is_slow: false,
    is_new: false,
    mutation: Mutation::None,
};

/// One cluster for each kind of failure, and larger ones.
const CLUSTERS: [Cluster; 9] = [
    Cluster { is_slow: true, ..SMALL },
    Cluster { failures: TIMEOUTS, ..SMALL },
    Cluster { failures: CRASH, ..SMALL },
    Cluster { failures: DELETION, horizon: 7, ..SMALL },
    Cluster { is_new: true, horizon: 7, ..SMALL },
    Cluster { failures: Failures { timeouts: 1, crashes: 1, deletions: 1 }, horizon: 7, ..SMALL },
    Cluster { requests: 3, ..SMALL },
    Cluster { replicas: 3, requests: 3, ..SMALL },
    Cluster { replicas: 3, requests: 3, failures: TIMEOUTS, is_slow: true, horizon: 7, ..SMALL },
];

#[test]
fn two_replicas_store_at_most_one_in_all_orders() {
    explore_all(Cluster { horizon: 3, ..SMALL });
}

#[test]
fn failures_store_at_most_one() {
    for cluster in &CLUSTERS {
        explore(cluster, 100_000);
    }
}

#[test]
#[ignore = "takes ten minutes"]
fn failures_store_at_most_one_in_many_orders() {
    explore_all(SMALL);
    for cluster in &CLUSTERS {
        explore(cluster, 2_000_000);
    }
}

#[test]
fn write_without_comparison_is_found() {
    find_violation(Cluster { mutation: Mutation::NoCompare, ..SMALL });
}

#[test]
fn missing_check_of_imports_is_found() {
    find_violation(Cluster { mutation: Mutation::NoRecheck, ..SMALL });
}

#[test]
fn early_removal_is_found() {
    find_violation(Cluster { mutation: Mutation::NoWatermark, ..SMALL });
}

#[test]
fn missing_wait_for_the_view_is_found() {
    find_violation(Cluster { mutation: Mutation::NoWaitForView, ..SMALL });
}

#[test]
fn missing_hold_is_found() {
    find_violation(Cluster { mutation: Mutation::NoHold, ..SMALL });
}

#[test]
fn late_response_is_found() {
    find_violation(Cluster { mutation: Mutation::LateResponse, ..SMALL });
}

#[test]
fn missing_wait_after_loss_is_found() {
    let mutation = Mutation::NoWaitAfterLoss;
    find_violation(Cluster { mutation, failures: DELETION, horizon: 0, ..SMALL });
}

#[test]
fn missing_read_after_loss_is_found() {
    find_violation(Cluster { mutation: Mutation::NoFloor, failures: DELETION, ..SMALL });
}
