//! The simulated cluster: the API server, the replicas, and the requests. A new one plans all
//! requests and failures of its setup.

use std::collections::BTreeMap;
use std::time::Duration;

use opgate_ledger::{
    Config, EntryId, Input, LedgerKey, Machine, Observation, ReplicaId, Resource, Write,
};

use crate::common::Store;
use crate::replica::Replica;
use crate::request::{Evaluation, Key, Object, Phase, Request};
use crate::setup::{Random, Setup, TIMEOUT, TTL};

#[derive(Debug, Clone)]
pub(crate) enum Event {
    Arrive(usize),
    Evaluate(usize, u64),
    Evaluated(usize, u64, Evaluation),
    Respond(usize),
    Store(usize),
    /// A read or write reaches the API server.
    Access(Access),
    AccessEnds(Input),
    ShowObject(usize, u64, Key, Option<Object>),
    /// A state of the ledger; without one, the current one.
    ShowLedger(Option<Observation>),
    Wake,
    /// Direct reads, which begin at this time.
    ReadOwn(usize),
    ReadImported(EntryId, u32),
    LateWrite(Write),
    Crash(usize),
    Pause(usize),
    DeleteLedger,
    BreakLedger,
    DeleteObject,
}

#[derive(Debug, Clone)]
pub(crate) enum Access {
    Read,
    Write(Write),
    Version(u64, Resource),
}

/// A replica, and its run.
pub(crate) type Target = (usize, u64);

pub(crate) struct Simulation {
    pub(crate) setup: Setup,
    pub(crate) random: Random,
    pub(crate) now: u64,
    /// By time, then by order. Events of a replica have its number and run.
    pub(crate) events: BTreeMap<(u64, u64), (Option<Target>, Event)>,
    pub(crate) next_event: u64,
    pub(crate) store: Store,
    pub(crate) broken: Option<LedgerKey>,
    pub(crate) objects: BTreeMap<Key, Object>,
    pub(crate) version: u64,
    pub(crate) next_uid: u64,
    pub(crate) requests: Vec<Request>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) writes: usize,
    pub(crate) ledger_losses: u64,
}

impl Simulation {
    pub(crate) fn new(setup: Setup, mut random: Random) -> Self {
        let store = if setup.is_established {
            Store::established(BTreeMap::new())
        } else {
            Store::default()
        };
        let mut simulation = Self {
            replicas: Vec::new(),
            requests: Vec::new(),
            now: 0,
            events: BTreeMap::new(),
            next_event: 0,
            store,
            broken: None,
            objects: BTreeMap::new(),
            version: 10,
            next_uid: 0,
            writes: 0,
            ledger_losses: 0,
            random: Random(random.next()),
            setup,
        };
        for number in 0..simulation.setup.replicas {
            let replica = simulation.start(number, 0);
            simulation.replicas.push(replica);
            simulation.input(number, Input::Tick);
        }
        let Setup { requests, load_time, repeat_percent, .. } = simulation.setup;
        for request in 0..requests {
            let at = simulation.random.between(1, load_time);
            simulation.schedule(at, None, Event::Arrive(request));
            let key_count = u64::try_from(requests).unwrap();
            let key = (simulation.random.below(2), simulation.random.between(1, key_count));
            let colors = simulation.setup.colors;
            let color = simulation.random.between(1, colors);
            let replica = simulation.random.below(simulation.setup.replicas);
            let tenant = simulation.random.next() % simulation.setup.tenants;
            // A controller that repeats its request.
            let repeated = Some(request).filter(|_| simulation.random.percent(repeat_percent));
            let repeated = repeated.map(|count| simulation.random.below(count.max(1)));
            let repeated = repeated.and_then(|number| simulation.requests.get(number));
            let (replica, key, color, tenant) = match repeated {
                Some(Request { replica, key, color, tenant, .. }) => {
                    (*replica, *key, *color, *tenant)
                }
                None => (replica, key, color, tenant),
            };
            simulation.requests.push(Request {
                replica,
                key,
                color,
                tenant,
                uid: 0,
                base: None,
                arrival: at,
                phase: Phase::Evaluating,
                over_at: None,
                attempt: 0,
                must_reach: 0,
                is_reserved: false,
                appended_at: 0,
                commit_time: None,
            });
        }
        let failures = [
            (simulation.setup.deletions, Event::DeleteLedger),
            (simulation.setup.breaks, Event::BreakLedger),
            (simulation.setup.object_deletions, Event::DeleteObject),
        ];
        for (count, event) in failures {
            for _ in 0..count {
                let at = simulation.random.between(1, load_time);
                simulation.schedule(at, None, event.clone());
            }
        }
        let Setup { crashes, pauses, .. } = simulation.setup;
        for number in 0..crashes + pauses {
            let at = simulation.random.between(1, load_time);
            let replica = simulation.random.below(simulation.setup.replicas);
            let is_crash = number < crashes;
            let event = if is_crash { Event::Crash(replica) } else { Event::Pause(replica) };
            simulation.schedule(at, None, event);
        }
        simulation
    }

    fn start(&mut self, number: usize, run: u64) -> Replica {
        let config = Config {
            replica: ReplicaId::new(&format!("{number}-{run}")),
            reservation_ttl: Duration::from_millis(TTL),
            max_hold: Duration::from_millis(TIMEOUT + TTL),
            removal_delay: Duration::from_millis(250),
            retry_delay: Duration::from_millis(50),
            limits: self.setup.limits,
        };
        let of = |number: usize| {
            let own = self.objects.iter().filter(|((resource, _), _)| *resource == number);
            (self.version, own.map(|(key, object)| (*key, object.clone())).collect())
        };
        let views = [of(0), of(1)];
        Replica {
            machine: Machine::new(config),
            run,
            origin: self.random.next() % 1_000_000_000_000,
            rate: self.random.between(995, 1_005),
            paused_until: 0,
            views,
            watch_times: [self.now; 3],
            imported: BTreeMap::new(),
            made: Vec::new(),
        }
    }

    pub(crate) fn crash(&mut self, number: usize) {
        let run = self.replicas[number].run + 1;
        let replica = self.start(number, run);
        self.replicas[number] = replica;
        for request in &mut self.requests {
            let is_here = request.replica == number && request.arrival <= self.now;
            request.is_reserved &= !is_here;
            let is_open =
                matches!(request.phase, Phase::Evaluating | Phase::Waiting | Phase::Appended);
            if is_here && is_open {
                request.phase = Phase::Crashed;
                request.over_at = Some(self.now);
                request.attempt += 1;
            }
        }
        self.input(number, Input::Tick);
    }

    pub(crate) fn count(&self, is: impl Fn(&Phase) -> bool) -> usize {
        self.requests.iter().filter(|request| is(&request.phase)).count()
    }

    pub(crate) fn entries(&self) -> usize {
        self.store.object.as_ref().map_or(0, |(_, document)| document.entries.len())
    }
}
