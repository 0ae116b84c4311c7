//! Random schedules of a cluster in virtual time: latencies, failures, many objects and tenants.
//!
//! ```text
//! Arrive ─▶ evaluate ─▶ Append ─▶ (Machine) ─▶ Committed ─▶ response ─▶ the API server stores it, or not
//!   ▲          │                     │                                        │
//!   └── wait ──┴───── Outdated ──────┘        watches, direct reads ◀─────────┘
//! ```
//!
//! The rule: at most one object of each resource has a color. Requests create objects and change
//! colors, and objects are deleted. A seed determines everything.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use common::Store;
use opgate_ledger::{
    Append, AppendError, Change, Config, Content, Document, DocumentError, Entry, EntryId,
    ImportMark, Input, LedgerKey, Limits, Machine, Observation, Outcome, Output, ReplicaId,
    RequestId, Resource, Tenant, Write, WriteResult,
};

const TIMEOUT: u64 = 10_000;
const TTL: u64 = 2_000;

/// Splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from + 1)
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(count).unwrap()).unwrap()
    }

    fn one_of<const N: usize>(&mut self, values: [u64; N]) -> u64 {
        values[self.below(N)]
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// The knobs of a run.
#[derive(Debug, Clone)]
struct Setup {
    replicas: usize,
    requests: usize,
    /// Time in which the requests arrive.
    load_time: u64,
    colors: u64,
    tenants: u64,
    max_latency: u64,
    max_watch_lag: u64,
    limits: Limits,
    /// Of reads and writes.
    timeout_percent: u64,
    /// Of allowed requests that are never stored.
    lost_percent: u64,
    crashes: u64,
    pauses: u64,
    deletions: u64,
    breaks: u64,
    object_deletions: u64,
    /// Of requests that equal another one.
    repeat_percent: u64,
    /// Whether the ledger exists and is established in the beginning.
    is_established: bool,
}

impl Setup {
    fn calm() -> Self {
        Self {
            replicas: 3,
            requests: 30,
            load_time: 2_000,
            colors: 1_000_000,
            tenants: 4,
            max_latency: 10,
            max_watch_lag: 40,
            limits: Limits::default(),
            timeout_percent: 0,
            lost_percent: 10,
            crashes: 0,
            pauses: 0,
            deletions: 0,
            breaks: 0,
            object_deletions: 0,
            repeat_percent: 0,
            is_established: true,
        }
    }

    /// Different failures for each seed.
    fn rough(random: &mut Random) -> Self {
        let entries = [2_048, 2_048, 12][random.below(3)];
        let projection_bytes = if random.percent(25) { 40 } else { 28 << 10 };
        let longest = if random.percent(50) { 2_000 } else { 60_000 };
        let load_time = random.between(10, longest);
        Self {
            replicas: 1 + random.below(5),
            requests: 10 + random.below(31),
            load_time,
            colors: random.between(1, 8),
            tenants: random.between(1, 6),
            max_latency: random.one_of([2, 20, 300]),
            max_watch_lag: random.one_of([5, 100, 6_000]),
            limits: Limits { entries, projection_bytes, ..Limits::default() },
            timeout_percent: random.one_of([0, 5, 40]),
            lost_percent: random.one_of([0, 30, 90]),
            crashes: random.between(0, 2),
            pauses: random.between(0, 2),
            deletions: random.between(0, 3) / 2,
            breaks: random.between(0, 3) / 3,
            object_deletions: random.between(0, 8),
            repeat_percent: random.one_of([0, 20, 60]),
            is_established: random.percent(80),
        }
    }
}

type Key = (usize, u64);

#[derive(Debug, Clone)]
struct Object {
    color: u64,
    uid: u64,
    version: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum Phase {
    Evaluating,
    Waiting,
    Appended,
    /// At this time of the API server.
    Allowed(u64),
    Stored,
    /// Not stored by the API server.
    Lost,
    Denied,
    Failed(AppendError),
    /// Its replica crashed.
    Crashed,
}

#[derive(Debug)]
struct Request {
    replica: usize,
    key: Key,
    color: u64,
    tenant: u64,
    /// The uid of a new object, or the version that is changed.
    uid: u64,
    base: Option<u64>,
    arrival: u64,
    phase: Phase,
    /// The time at which its outcome was known to the API server.
    over_at: Option<u64>,
    attempt: u64,
    must_reach: u64,
    /// Whether its replica counts it as a pending change.
    is_reserved: bool,
    appended_at: u64,
    /// The time from the last append to the commit.
    commit_time: Option<u64>,
}

impl Request {
    fn deadline(&self) -> u64 {
        self.arrival + TIMEOUT
    }
}

/// What an evaluation has seen, from before its first query.
#[derive(Debug, Clone)]
struct Evaluation {
    mark: ImportMark,
    view: u64,
    made: usize,
    is_denied: bool,
    is_pending: bool,
}

#[derive(Debug, Clone)]
struct Imported {
    entry: Arc<Entry>,
    ends: Duration,
    uids: BTreeSet<u64>,
}

#[derive(Debug)]
struct Replica {
    machine: Machine,
    run: u64,
    /// The clock: an origin, and its rate in thousandths.
    origin: u64,
    rate: u64,
    paused_until: u64,
    /// The views of the resources: the version, and the objects.
    views: [(u64, BTreeMap<Key, Object>); 2],
    /// The time of the last event of each watch, and of that of the ledger.
    watch_times: [u64; 3],
    imported: BTreeMap<EntryId, Imported>,
    /// All own reservations so far.
    made: Vec<usize>,
}

impl Replica {
    fn clock(&self, time: u64) -> Duration {
        Duration::from_micros(self.origin + time * self.rate)
    }

    /// The deadline of a request by this clock.
    fn deadline(&self, request: &Request) -> Duration {
        self.clock(request.arrival) + Duration::from_millis(TIMEOUT)
    }

    /// The first time at which the clock shows at least this.
    fn time_of(&self, clock: Duration) -> u64 {
        let micros = u64::try_from(clock.as_micros()).unwrap();
        micros.saturating_sub(self.origin).div_ceil(self.rate)
    }
}

#[derive(Debug, Clone)]
enum Event {
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
enum Access {
    Read,
    Write(Write),
    Version(u64, Resource),
}

/// A replica, and its run.
type Target = (usize, u64);

struct Simulation {
    setup: Setup,
    random: Random,
    now: u64,
    /// By time, then by order. Events of a replica have its number and run.
    events: BTreeMap<(u64, u64), (Option<Target>, Event)>,
    next_event: u64,
    store: Store,
    broken: Option<LedgerKey>,
    objects: BTreeMap<Key, Object>,
    version: u64,
    next_uid: u64,
    requests: Vec<Request>,
    replicas: Vec<Replica>,
    writes: usize,
    ledger_losses: u64,
}

fn resource(number: usize) -> Resource {
    Resource::new(["groups", "versions"][number])
}

fn resource_number(resource: &Resource) -> usize {
    usize::from(resource.as_str() == "versions")
}

/// The color of an entry, if it has the whole object.
fn color_of(entry: &Entry) -> Option<u64> {
    match &entry.content {
        Content::Whole(text) => Some(text.split('"').nth(3).unwrap().parse().unwrap()),
        Content::Reference(_) => None,
    }
}

fn key_of(entry: &Entry) -> Key {
    (resource_number(&entry.resource), entry.name.parse().unwrap())
}

fn affects(entry: &Entry, request: &Request) -> bool {
    let key = key_of(entry);
    key.0 == request.key.0
        && key != request.key
        && color_of(entry).is_none_or(|color| color == request.color)
}

impl Simulation {
    fn new(setup: Setup, mut random: Random) -> Self {
        let mut store = Store::default();
        if setup.is_established {
            let established = Some("uid-1".into());
            store.create(Arc::new(Document { revision: 1, established, ..Document::default() }));
        }
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

    fn schedule(&mut self, at: u64, replica: Option<usize>, event: Event) {
        let target = replica.map(|replica| (replica, self.replicas[replica].run));
        self.events.insert((at, self.next_event), (target, event));
        self.next_event += 1;
    }

    fn latency(&mut self) -> u64 {
        self.now + self.random.between(1, self.setup.max_latency)
    }

    fn run(&mut self) {
        while let Some(((at, order), (target, event))) = self.events.pop_first() {
            self.now = at;
            if let Some((number, run)) = target {
                let replica = &self.replicas[number];
                if replica.run != run {
                    // The API server executes what a crashed replica has sent.
                    if let Event::Access(Access::Write(write)) = event {
                        self.execute(&write);
                    }
                    continue;
                }
                let is_remote = matches!(event, Event::Access(_));
                if replica.paused_until > at && !is_remote {
                    self.events.insert((replica.paused_until, order), (target, event));
                    continue;
                }
            }
            self.event(target.map(|(number, _)| number), event);
        }
    }

    fn event(&mut self, replica: Option<usize>, event: Event) {
        match event {
            Event::Arrive(request) => self.arrive(request),
            Event::Evaluate(request, attempt) => self.evaluate(request, attempt),
            Event::Evaluated(request, attempt, seen) => self.evaluated(request, attempt, &seen),
            Event::Respond(request) => self.respond(request),
            Event::Store(request) => self.store_object(request),
            Event::Access(access) => self.access(replica.unwrap(), access),
            Event::AccessEnds(input) => self.input(replica.unwrap(), input),
            Event::ShowObject(resource, version, key, object) => {
                self.show_object(replica.unwrap(), resource, version, key, object);
            }
            Event::ShowLedger(observation) => {
                let observation = observation.unwrap_or_else(|| self.read());
                self.input(replica.unwrap(), Input::Watched(observation));
            }
            Event::Wake => {
                let number = replica.unwrap();
                let clock = self.replicas[number].clock(self.now);
                if self.replicas[number].machine.next_wake().is_some_and(|at| at <= clock) {
                    self.input(number, Input::Tick);
                }
            }
            Event::ReadOwn(request) => self.read_own(request),
            Event::ReadImported(id, renewal) => self.read_imported(replica.unwrap(), &id, renewal),
            Event::LateWrite(write) => {
                self.execute(&write);
            }
            Event::Crash(number) => self.crash(number),
            Event::Pause(number) => {
                let until = self.now + self.random.between(100, 15_000);
                let replica = &mut self.replicas[number];
                replica.paused_until = replica.paused_until.max(until);
            }
            Event::DeleteLedger => {
                self.store.object = None;
                self.ledger_losses += 1;
                self.watch_ledger();
            }
            Event::BreakLedger => {
                if let Some((key, document)) = self.store.object.clone() {
                    self.store.put(key.uid, document);
                    self.broken = self.store.object.as_ref().map(|(key, _)| key.clone());
                    self.ledger_losses += 1;
                    self.watch_ledger();
                }
            }
            Event::DeleteObject => {
                let index = self.random.below(self.objects.len().max(1));
                if let Some(key) = self.objects.keys().nth(index).copied() {
                    self.objects.remove(&key);
                    self.changed(key);
                }
            }
        }
    }

    // Requests.

    fn arrive(&mut self, number: usize) {
        let object = self.objects.get(&self.requests[number].key);
        self.next_uid += 1;
        let request = &mut self.requests[number];
        (request.uid, request.base) = match object {
            Some(object) => (object.uid, Some(object.version)),
            None => (self.next_uid, None),
        };
        self.evaluate_at(self.now, number);
    }

    /// Plans an evaluation; earlier ones are void.
    fn evaluate_at(&mut self, at: u64, number: usize) {
        let request = &mut self.requests[number];
        request.phase = Phase::Waiting;
        request.attempt += 1;
        let (replica, attempt) = (request.replica, request.attempt);
        self.schedule(at, Some(replica), Event::Evaluate(number, attempt));
    }

    fn evaluate(&mut self, number: usize, attempt: u64) {
        let request = &self.requests[number];
        if request.attempt != attempt {
            return;
        }
        let replica = &self.replicas[request.replica];
        let (version, view) = &replica.views[request.key.0];
        // A direct read, if the view has not reached the version after a while.
        let is_direct = *version < request.must_reach;
        let (version, objects) =
            if is_direct { (self.version, &self.objects) } else { (*version, view) };
        let is_denied = objects.iter().any(|(key, object)| {
            key.0 == request.key.0 && *key != request.key && object.color == request.color
        });
        let is_reserved = |made: &usize| {
            let made = &self.requests[*made];
            made.is_reserved
                && made.key.0 == request.key.0
                && made.key != request.key
                && made.color == request.color
        };
        let is_pending = replica.made.iter().any(is_reserved)
            || replica.imported.values().any(|imported| affects(&imported.entry, request));
        let made = replica.made.len();
        let mark = replica.machine.import_mark();
        let evaluation = Evaluation { mark, view: version, made, is_denied, is_pending };
        let at = self.now + self.random.between(1, 40);
        let replica = self.requests[number].replica;
        self.requests[number].phase = Phase::Evaluating;
        self.schedule(at, Some(replica), Event::Evaluated(number, attempt, evaluation));
    }

    fn evaluated(&mut self, number: usize, attempt: u64, seen: &Evaluation) {
        let request = &self.requests[number];
        if request.attempt != attempt {
            return;
        }
        let is_late = self.now >= request.deadline();
        if seen.is_denied {
            // The direct read that confirms a denial.
            let is_confirmed = self.objects.iter().any(|(key, object)| {
                key.0 == request.key.0 && *key != request.key && object.color == request.color
            });
            if is_confirmed || is_late {
                self.requests[number].phase = Phase::Denied;
            } else {
                self.evaluate_at(self.now + 10, number);
            }
            return;
        }
        if seen.is_pending {
            if is_late {
                self.assert_open_conflict(number);
                self.requests[number].phase = Phase::Denied;
            } else {
                self.evaluate_at(self.now + 20, number);
            }
            return;
        }
        let made = &self.replicas[request.replica].made[seen.made..];
        let is_outdated = made.iter().any(|made| {
            let made = &self.requests[*made];
            made.key.0 == request.key.0 && made.key != request.key && made.color == request.color
        });
        if is_outdated {
            self.evaluate_at(self.now, number);
            return;
        }
        let change = Change {
            tenant: Tenant {
                namespace: format!("namespace-{}", request.tenant).into(),
                user: format!("user-{}", request.tenant).into(),
            },
            resource: resource(request.key.0),
            namespace: "".into(),
            name: request.key.1.to_string().into(),
            is_creation: request.base.is_none(),
            projection: format!(
                r#"{{"color":"{}","pad":"{}"}}"#,
                request.color,
                "x".repeat(number % 3 * 20)
            )
            .into(),
        };
        let replica = request.replica;
        let append = Append {
            change: Arc::new(change),
            uid: Some(request.uid.to_string().into()),
            base_version: request.base.map(|base| base.to_string()).unwrap_or_default().into(),
            deadline: self.replicas[replica].deadline(request),
            mark: seen.mark,
            views: BTreeMap::from([(resource(request.key.0), seen.view)]),
        };
        self.requests[number].phase = Phase::Appended;
        self.requests[number].appended_at = self.now;
        self.requests[number].is_reserved = true;
        self.replicas[replica].made.push(number);
        self.input(replica, Input::Append(id(number), append));
    }

    /// A request waited for another one until its deadline. That one was open not long ago.
    fn assert_open_conflict(&self, number: usize) {
        let request = &self.requests[number];
        let slack = TIMEOUT + TTL + 12_000 + 20 * self.setup.max_latency;
        let is_open = |other: &Request| {
            other.key.0 == request.key.0
                && other.key != request.key
                && other.over_at.is_none_or(|over| over + slack > self.now)
        };
        assert!(self.requests.iter().any(is_open), "denied without a reason: {request:?}");
    }

    fn respond(&mut self, number: usize) {
        let request = &self.requests[number];
        let deadline = request.deadline();
        // The API server has given up, or another webhook denies it, or the connection broke.
        if self.now > deadline || self.random.percent(self.setup.lost_percent) {
            self.requests[number].over_at = Some(self.now);
            let is_known = self.requests[number].phase == Phase::Crashed;
            if !is_known {
                self.requests[number].phase = Phase::Lost;
            }
        } else {
            let latest = if self.random.percent(20) { TTL - 100 } else { 20 };
            let at = self.now + self.random.between(1, latest);
            self.schedule(at, None, Event::Store(number));
        }
    }

    fn store_object(&mut self, number: usize) {
        let request = &mut self.requests[number];
        request.over_at = Some(self.now);
        let (key, base) = (request.key, request.base);
        let current = self.objects.get(&key).map(|object| object.version);
        if current != base {
            // 409.
            request.phase = Phase::Lost;
            return;
        }
        request.phase = Phase::Stored;
        let object = Object { color: request.color, uid: request.uid, version: self.version + 1 };
        let is_conflict = |(other, stored): (&Key, &Object)| {
            other.0 == key.0 && *other != key && stored.color == object.color
        };
        let conflict = self.objects.iter().find(|object| is_conflict(*object));
        assert!(conflict.is_none(), "{key:?} {object:?} and {conflict:?}");
        self.objects.insert(key, object);
        self.changed(key);
    }

    /// Adds the event of an object to all watches.
    fn changed(&mut self, key: Key) {
        self.version += 1;
        let (version, object) = (self.version, self.objects.get(&key).cloned());
        for number in 0..self.replicas.len() {
            let at = self.now + self.random.between(1, self.setup.max_watch_lag);
            let last = &mut self.replicas[number].watch_times[key.0];
            *last = at.max(*last);
            let at = *last;
            self.schedule(at, Some(number), Event::ShowObject(key.0, version, key, object.clone()));
        }
    }

    fn show_object(
        &mut self,
        number: usize,
        resource: usize,
        version: u64,
        key: Key,
        object: Option<Object>,
    ) {
        let replica = &mut self.replicas[number];
        let view = &mut replica.views[resource];
        if view.0 >= version {
            return;
        }
        view.0 = version;
        if view.1.get(&key).is_some_and(|known| known.version > version) {
            // A direct read has found a later one.
            return;
        }
        match &object {
            Some(object) => view.1.insert(key, object.clone()),
            None => view.1.remove(&key),
        };
        let Some(object) = object else { return };
        let shows = |request: &Request| {
            request.is_reserved
                && request.key == key
                && match request.base {
                    None => request.uid == object.uid,
                    Some(base) => object.version > base,
                }
        };
        let own: Vec<_> =
            replica.made.iter().filter(|made| shows(&self.requests[**made])).collect();
        let own: Vec<_> = own.into_iter().copied().collect();
        let mut imported = Vec::new();
        for (id, known) in &mut replica.imported {
            if key_of(&known.entry) != key {
                continue;
            }
            let is_settled = if known.entry.is_creation() {
                known.uids.remove(&object.uid) && known.uids.is_empty()
            } else {
                object.version > known.entry.base_version.parse().unwrap()
            };
            if is_settled {
                imported.push((id.clone(), known.entry.renewal));
            }
        }
        for request in own {
            if matches!(self.requests[request].phase, Phase::Appended) {
                continue;
            }
            self.settle_own(request, Outcome::Stored(object.version));
        }
        for (id, renewal) in imported {
            self.replicas[number].imported.remove(&id);
            let outcome = Outcome::Stored(object.version);
            self.input(number, Input::SettleImported { id, renewal, outcome });
        }
    }

    fn settle_own(&mut self, number: usize, outcome: Outcome) {
        self.requests[number].is_reserved = false;
        self.input(self.requests[number].replica, Input::Settle(id(number), outcome));
    }

    fn read_own(&mut self, number: usize) {
        let request = &self.requests[number];
        if !request.is_reserved {
            return;
        }
        let replica = &self.replicas[request.replica];
        let began = replica.clock(self.now);
        let outcome = match self.objects.get(&request.key) {
            Some(object) => self.found(request.replica, request.key, object.clone()),
            None => Outcome::Absent { began },
        };
        self.settle_own(number, outcome);
    }

    /// Takes an object that a direct read has found into the view: it counts as stored.
    fn found(&mut self, number: usize, key: Key, object: Object) -> Outcome {
        let version = object.version;
        self.replicas[number].views[key.0].1.insert(key, object);
        Outcome::Stored(version)
    }

    fn read_imported(&mut self, number: usize, id: &EntryId, renewal: u32) {
        let replica = &self.replicas[number];
        let Some(known) = replica.imported.get(id) else { return };
        let began = replica.clock(self.now);
        if known.entry.renewal != renewal || began < known.ends {
            return;
        }
        let key = key_of(&known.entry);
        let outcome = match self.objects.get(&key) {
            Some(object) => self.found(number, key, object.clone()),
            None => Outcome::Absent { began },
        };
        self.replicas[number].imported.remove(id);
        self.input(number, Input::SettleImported { id: id.clone(), renewal, outcome });
    }

    fn crash(&mut self, number: usize) {
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

    // The machine.

    fn input(&mut self, number: usize, input: Input) {
        let (requests, replica) = (&self.requests, &mut self.replicas[number]);
        let clock = replica.clock(self.now);
        let mut is_affected = |request: RequestId, entry: &Entry| {
            affects(entry, &requests[usize::try_from(request.0).unwrap()])
        };
        let outputs = replica.machine.handle(clock, input, &mut is_affected);
        for output in outputs {
            self.output(number, output);
        }
        if let Some(wake) = self.replicas[number].machine.next_wake() {
            let at = self.replicas[number].time_of(wake).max(self.now);
            self.schedule(at, Some(number), Event::Wake);
        }
    }

    fn output(&mut self, replica: usize, output: Output) {
        let index = |request: RequestId| usize::try_from(request.0).unwrap();
        match output {
            Output::Write(write) => {
                self.writes += 1;
                let at = self.latency();
                self.schedule(at, Some(replica), Event::Access(Access::Write(write)));
            }
            Output::Read => {
                let at = self.latency();
                self.schedule(at, Some(replica), Event::Access(Access::Read));
            }
            Output::ReadVersion { number, resource } => {
                let at = self.latency();
                let access = Access::Version(number, resource);
                self.schedule(at, Some(replica), Event::Access(access));
            }
            Output::Import { entry, ends } => self.import(replica, &entry, ends),
            Output::Release(id) => {
                self.replicas[replica].imported.remove(&id);
            }
            Output::Committed { request, respond_before } => {
                let number = index(request);
                assert_eq!(self.requests[number].phase, Phase::Appended);
                let time = self.now - self.requests[number].appended_at;
                self.requests[number].commit_time = Some(time);
                let clock = self.replicas[replica].clock(self.now);
                if self.random.percent(5) || clock >= respond_before {
                    // Another policy denies it.
                    self.requests[number].is_reserved = false;
                    self.requests[number].over_at = Some(self.now);
                    self.requests[number].phase = Phase::Lost;
                    self.input(replica, Input::Withdraw(request));
                    return;
                }
                self.requests[number].phase = Phase::Allowed(self.now);
                let at = self.now + self.random.between(1, 5);
                self.schedule(at, None, Event::Respond(number));
                let end = self.replicas[replica].clock(self.now) + Duration::from_millis(TTL);
                // By the clock of the replica, which can be fast: the TTL has a margin.
                let at = self.replicas[replica].time_of(end) + self.random.between(20, 100);
                self.schedule(at, Some(replica), Event::ReadOwn(number));
            }
            Output::Outdated { request, must_reach } => {
                let number = index(request);
                self.requests[number].is_reserved = false;
                let resource = resource(self.requests[number].key.0);
                let must_reach = must_reach.get(&resource).copied().unwrap_or_default();
                assert!(must_reach <= self.version);
                self.requests[number].must_reach = must_reach;
                let delay = if must_reach > 0 { 20 } else { 0 };
                self.evaluate_at(self.now + delay, number);
            }
            Output::Failed { request, error } => {
                let number = index(request);
                self.assert_reason(number, &error);
                self.requests[number].is_reserved = false;
                self.requests[number].over_at = Some(self.now);
                self.requests[number].phase = Phase::Failed(error);
            }
        }
    }

    fn assert_reason(&self, number: usize, error: &AppendError) {
        let limits = self.setup.limits;
        let request = &self.requests[number];
        let is_lost = !self.setup.is_established || self.ledger_losses > 0;
        let has_reason = match error {
            // A share is half of what others leave.
            AppendError::Full { used, .. } => used.entries * 2 + 2 >= limits.entries,
            AppendError::Deadline { .. } => {
                let replica = &self.replicas[request.replica];
                replica.clock(self.now) >= replica.deadline(request)
            }
            AppendError::New { .. } | AppendError::Broken(_) => is_lost,
            AppendError::Rejected(_) | AppendError::TooManyResources(_) => false,
        };
        assert!(has_reason, "{error} {request:?}");
    }

    fn import(&mut self, number: usize, entry: &Arc<Entry>, ends: Duration) {
        let id = entry.id.clone();
        let uids = entry.uids.iter().map(|uid| uid.parse().unwrap()).collect();
        let known = Imported { entry: entry.clone(), ends, uids };
        let at = self.replicas[number].time_of(ends) + self.random.between(0, 200);
        let renewal = entry.renewal;
        self.replicas[number].imported.insert(id.clone(), known);
        self.schedule(at, Some(number), Event::ReadImported(id, renewal));
    }

    // The API server.

    fn access(&mut self, replica: usize, access: Access) {
        let is_timeout = self.random.percent(self.setup.timeout_percent);
        let problem = || String::from("timeout");
        let input = match access {
            Access::Read if is_timeout => Input::ReadFinished(Err(problem())),
            Access::Read => Input::ReadFinished(Ok(self.read())),
            Access::Write(write) if is_timeout => {
                match self.random.between(0, 2) {
                    0 => {
                        self.execute(&write);
                    }
                    1 => {
                        let at = self.now + self.random.between(1, 8_000);
                        self.schedule(at, None, Event::LateWrite(write));
                    }
                    _ => {}
                }
                Input::WriteFinished(WriteResult::Unknown(problem()))
            }
            Access::Write(write) => Input::WriteFinished(self.execute(&write)),
            Access::Version(number, resource) => {
                let version = Some(self.version).filter(|_| !is_timeout);
                Input::VersionRead { number, resource, version }
            }
        };
        let at = if is_timeout { self.now + 500 } else { self.latency() };
        self.schedule(at, Some(replica), Event::AccessEnds(input));
    }

    fn read(&self) -> Observation {
        match self.store.read() {
            Observation::Present(key, _) if self.broken.as_ref() == Some(&key) => {
                Observation::Present(key, Err(DocumentError::Syntax("edited".into())))
            }
            observation => observation,
        }
    }

    fn execute(&mut self, write: &Write) -> WriteResult {
        let result = self.store.write(write);
        if matches!(result, WriteResult::Done(_)) {
            if let Some((_, document)) = &self.store.object {
                let used = document.usage();
                let limits = self.setup.limits;
                assert!(used.entries <= limits.entries && used.bytes <= limits.bytes);
                if document.revision % 16 == 0 {
                    let text = document.encode().unwrap();
                    assert_eq!(Document::decode(&text).as_ref(), Ok(&**document));
                }
            }
            self.watch_ledger();
        }
        result
    }

    fn watch_ledger(&mut self) {
        let observation = self.read();
        for number in 0..self.replicas.len() {
            let at = self.now + self.random.between(1, self.setup.max_watch_lag);
            let last = &mut self.replicas[number].watch_times[2];
            *last = at.max(*last);
            let at = *last;
            // A watch can skip states, and show them again.
            let observation = Some(observation.clone()).filter(|_| !self.random.percent(20));
            self.schedule(at, Some(number), Event::ShowLedger(observation));
        }
    }

    fn count(&self, is: impl Fn(&Phase) -> bool) -> usize {
        self.requests.iter().filter(|request| is(&request.phase)).count()
    }

    fn entries(&self) -> usize {
        self.store.object.as_ref().map_or(0, |(_, document)| document.entries.len())
    }
}

fn id(number: usize) -> RequestId {
    RequestId(u64::try_from(number).unwrap())
}

/// Asserts what holds at the end: everything is decided, and the ledger is empty.
fn assert_drained(simulation: &Simulation) {
    assert_eq!(simulation.entries(), 0);
    for replica in &simulation.replicas {
        assert_eq!(replica.machine.waiting(), 0);
        assert_eq!(replica.machine.next_wake(), None);
        assert!(replica.imported.is_empty());
    }
    let is_undecided =
        |phase: &Phase| matches!(phase, Phase::Evaluating | Phase::Waiting | Phase::Appended);
    assert_eq!(simulation.count(is_undecided), 0);
}

fn simulate(seed: u64, setup: impl Fn(&mut Random) -> Setup) -> Simulation {
    struct Report(u64, bool);
    impl Drop for Report {
        fn drop(&mut self) {
            if !self.1 {
                println!("seed {}", self.0);
            }
        }
    }
    let mut report = Report(seed, false);
    let mut random = Random(seed);
    let setup = setup(&mut random);
    let mut simulation = Simulation::new(setup, random);
    simulation.run();
    assert_drained(&simulation);
    report.1 = true;
    simulation
}

#[test]
fn failures_store_at_most_one_object_of_each_color() {
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..3_000 {
        let simulation = simulate(seed, Setup::rough);
        for request in &simulation.requests {
            let phase = format!("{:?}", request.phase);
            let name = phase.split([' ', '(']).take(2).collect::<Vec<_>>().join(" ");
            *outcomes.entry(name).or_default() += 1;
        }
    }
    println!("{outcomes:#?}");
    for expected in ["Stored", "Lost", "Denied", "Crashed", "Failed Full", "Failed Broken"] {
        assert!(outcomes[expected] > 100, "{expected}");
    }
}

#[test]
fn requests_without_conflict_are_allowed() {
    for seed in 0..300 {
        let simulation = simulate(seed, |_| Setup::calm());
        let is_refused = |phase: &Phase| matches!(phase, Phase::Denied | Phase::Failed(_));
        assert_eq!(simulation.count(is_refused), 0, "seed {seed}");
    }
}

#[test]
fn burst_takes_few_writes() {
    for replicas in 1..=5 {
        for requests in [100, 200, 400] {
            let simulation = simulate(1, |_| Setup {
                replicas,
                requests,
                load_time: 1,
                tenants: 400,
                ..Setup::calm()
            });
            println!("{replicas} replicas, {requests} requests: {} writes", simulation.writes);
            assert!(simulation.writes <= 20 * replicas, "{}", simulation.writes);
        }
    }
}

#[test]
fn sustained_load_commits_within_some_round_trips() {
    for replicas in [1, 2, 3, 5] {
        let simulation = simulate(1, |_| Setup {
            replicas,
            requests: 2_000,
            load_time: 10_000,
            tenants: 400,
            max_watch_lag: 6,
            ..Setup::calm()
        });
        let times = simulation.requests.iter().filter_map(|request| request.commit_time);
        let mut times: Vec<_> = times.collect();
        times.sort_unstable();
        let part = |percent: usize| times[(times.len() - 1) * percent / 100];
        let attempts: u64 = simulation.requests.iter().map(|request| request.attempt).sum();
        let (p50, p99, max) = (part(50), part(99), part(100));
        println!(
            "{replicas} replicas: {attempts} evaluations, {} commits in {} writes, \
             p50 {p50} ms, p99 {p99} ms, max {max} ms",
            times.len(),
            simulation.writes
        );
        let round_trip = 2 * simulation.setup.max_latency;
        assert!(p99 <= 40 * round_trip, "{p99}");
    }
}
