//! A model of an API server with any order of reviews, responses, writes that are stored, denied
//! by others, denied for a name that exists (409) or lost, of events that come late, and of lists:
//!
//! * the stored objects never break the rule: a verdict is never laxer than the stored object and
//!   the pending one allow, either of them;
//! * a denial has a reason: an object that was stored while it was decided, or a request that
//!   could still be stored. An object that only the watch still shows is none;
//! * every reservation ends a little later than its time, whatever the watch does;
//! * no burst of requests that are never stored makes another one fail because of a limit.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use opgate_cluster::{IndexMatch, Object, Query};
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::time::Instant;

use super::*;

/// The rule: at most `most` objects of different names have the same spec. Spec 0 is free.
const FREE: u8 = 0;

/// Maximum time after a response in which an API server may store: less than a reservation.
const SLOWEST_WRITE: u16 = 1_900;

#[derive(Debug, Clone)]
struct Step {
    /// Milliseconds after the step before.
    after: u16,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    /// A request; `create` if it wants a new object, whether there is one or not.
    Request { name: u8, spec: u8, create: bool, fate: Fate },
    /// Requests for new objects of one name with different specs, none of which is stored.
    Burst { name: u8, count: u8 },
    /// A user deletes an object.
    Delete { name: u8 },
    /// Events are delayed by this much from now on.
    Lag(u16),
    /// The watch begins again with a list.
    List,
    /// The watch is cut: no events until the next list.
    Cut,
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Stored(u16),
    RefusedByAnother,
    Lost,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fate = prop_oneof![
        4 => (0..SLOWEST_WRITE).prop_map(Fate::Stored),
        4 => (0..20_u16).prop_map(Fate::Stored),
        1 => Just(Fate::RefusedByAnother),
        2 => Just(Fate::Lost),
    ];
    let request = (0..4_u8, 0..3_u8, any::<bool>(), fate)
        .prop_map(|(name, spec, create, fate)| What::Request { name, spec, create, fate });
    let what = prop_oneof![
        8 => request,
        2 => (0..4_u8).prop_map(|name| What::Delete { name }),
        1 => (0..4_u8, 1..9_u8).prop_map(|(name, count)| What::Burst { name, count }),
        1 => (0..900_u16).prop_map(What::Lag),
        1 => Just(What::List),
        1 => Just(What::Cut),
    ];
    let after = prop_oneof![3 => 0..3_u16, 2 => 0..200_u16, 1 => 0..4_000_u16];
    prop::collection::vec((after, what).prop_map(|(after, what)| Step { after, what }), 1..40)
}

#[derive(Debug, Clone, PartialEq)]
struct Stored {
    version: u64,
    uid: String,
    spec: u8,
}

/// The API server.
#[derive(Debug, Default)]
struct Server {
    version: u64,
    objects: BTreeMap<String, Stored>,
    /// The events that the watch has not delivered yet.
    events: VecDeque<Event>,
    /// Requests that were allowed, and the time until which they could be stored.
    under_way: Vec<(String, u8, Instant)>,
    /// The objects that were stored, and until when.
    past: Vec<(String, u8, Instant)>,
    lag: Duration,
    is_cut: bool,
    most: usize,
}

#[derive(Debug, Clone)]
enum Event {
    Put(String, Stored),
    Gone(String, u64, String),
}

impl Server {
    fn put(&mut self, name: &str, uid: &str, spec: u8) -> Duration {
        self.version += 1;
        let new = Stored { version: self.version, uid: uid.to_owned(), spec };
        if let Some(old) = self.objects.insert(name.to_owned(), new.clone()) {
            self.forget(name, old.spec);
        }
        self.events.push_back(Event::Put(name.to_owned(), new));
        self.lag
    }

    fn delete(&mut self, name: &str) -> Option<Duration> {
        let old = self.objects.remove(name)?;
        self.version += 1;
        self.forget(name, old.spec);
        self.events.push_back(Event::Gone(name.to_owned(), self.version, old.uid));
        Some(self.lag)
    }

    /// It was stored until now.
    fn forget(&mut self, name: &str, spec: u8) {
        self.past.push((name.to_owned(), spec, Instant::now()));
    }

    /// Whether there is a reason to deny a request since `began`.
    fn has_reason(&self, name: &str, spec: u8, began: Instant) -> bool {
        let stored = self.objects.iter().map(|(other, stored)| (other, stored.spec));
        let others = [&self.under_way, &self.past].into_iter().flatten();
        let others = others.filter(|(_, _, until)| *until >= began);
        let all = stored.chain(others.map(|(other, theirs, _)| (other, *theirs)));
        let rivals = all.filter(|(other, theirs)| *other != name && *theirs == spec);
        rivals.map(|(other, _)| other).collect::<BTreeSet<_>>().len() >= self.most
    }

    fn check(&self) {
        for spec in 1..u8::MAX {
            let count = self.objects.values().filter(|stored| stored.spec == spec).count();
            assert!(count <= self.most, "the rule is broken: {:?}", self.objects);
        }
    }
}

type Shared = Arc<Mutex<Server>>;

struct Model(Shared);

impl Model {
    fn now(&self, kind: &ResourceCache, scope: &QueryScope) -> Listing {
        let server = self.0.lock();
        let mut listing = Listing { version: server.version.to_string(), ..kind.empty() };
        let asked = |name: &&String| scope.covers(&QueryScope::Object(key(name)));
        for name in server.objects.keys().filter(asked) {
            kind.add_object(&mut listing, document(name, &server.objects[name]).root(), "");
        }
        listing
    }
}

impl DirectReadSource for Model {
    fn list<'a>(
        &'a self,
        kind: &'a ResourceCache,
        scope: &'a QueryScope,
    ) -> BoxFuture<'a, Result<Listing, String>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(3)).await;
            let listing = self.now(kind, scope);
            tokio::time::sleep(Duration::from_millis(3)).await;
            Ok(listing)
        })
    }
}

fn document(name: &str, stored: &Stored) -> Arc<Document> {
    object(name, &stored.version.to_string(), &stored.uid, &stored.spec.to_string())
}

/// The rule as a policy queries it: do other objects have this spec?
struct Rule<'r> {
    cluster: &'r ClusterState,
    name: String,
    spec: u8,
    most: usize,
    object: Arc<Document>,
    old: Option<Arc<Document>>,
}

impl Evaluate for Rule<'_> {
    type Verdict = bool;
    type Overload = Undecided;

    async fn evaluate(&self, lens: &EvaluationView) -> Result<Evaluation<bool>, Undecided> {
        let values = Arc::new(std::iter::once(self.spec.to_string()).collect());
        let matches = vec![IndexMatch { index: 0, values, include_missing: false }];
        let query = Query { matches, ..Query::default() };
        let fresh = lens
            .direct_reads
            .as_ref()
            .and_then(|fresh| fresh.listing(ResourceId(0), &QueryScope::All));
        let reviewed =
            Some(Arc::new(ReviewedObject { caches: vec![ResourceId(0)], key: key(&self.name) }));
        let sight = EvaluationView { reviewed, state: lens.state, ..EvaluationView::default() };
        let sight = sight.resource_view(ResourceId(0));
        let found = self.cluster.caches[0].select(&query, usize::MAX, fresh, sight, None).unwrap();
        let names = found.objects.iter().map(|object: &Arc<Object>| &object.key().name);
        let others: BTreeSet<_> = names.filter(|name| ***name != *self.name).collect();
        let allows = self.spec == FREE || others.len() < self.most;
        // An evaluation takes time.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut grounds = GroundRecorder::default();
        grounds.add(ResourceId(0), &QueryScope::All, &found.objects);
        let grounds = if allows { Vec::new() } else { grounds.into_denial_grounds("") };
        let touched = found.pending_objects.into_iter().map(|key| (ResourceId(0), key)).collect();
        let asked = vec![(ResourceId(0), QueryScope::All)];
        // Exactly the query: reservations about other specs do not matter.
        let questions = vec![(ResourceId(0), RecordedQuery::Query(Box::new(query)))];
        Ok(Evaluation {
            verdict: allows,
            allows,
            is_valid: true,
            queries: asked,
            recorded_queries: questions,
            pending_objects: touched,
            is_unsure: found.is_unsure,
            grounds,
            needed_samples: Vec::new(),
        })
    }

    fn on_failed_read(&self, _: bool, why: &str) -> bool {
        panic!("{why}")
    }

    fn with_pending_note(&self, verdict: bool, _: &[String]) -> bool {
        verdict
    }

    fn on_reservation_limit(
        &self,
        _: bool,
        no_room: ReservationLimitReached,
    ) -> Result<bool, Undecided> {
        Err(Undecided::NoRoom(no_room))
    }

    fn change(&self, _: &mut bool) -> Result<Option<ObjectWrite>, Undecided> {
        let (object, old) = (Some(self.object.clone()), self.old.clone());
        Ok(Some(ObjectWrite {
            caches: vec![ResourceId(0)],
            resource: None,
            key: key(&self.name),
            user: user(),
            object,
            old,
        }))
    }
}

struct Play {
    cluster: Arc<ClusterState>,
    direct: Arc<DirectReader>,
    server: Shared,
    consistent: bool,
    uids: RefCell<u32>,
}

impl Play {
    /// A request from its review to its end.
    async fn request(self: Rc<Self>, name: u8, spec: u8, create: bool, fate: Fate) {
        let (name, began) = (format!("n{name}"), Instant::now());
        let old = self.server.lock().objects.get(&name).cloned().filter(|_| !create);
        if old.is_none() && !create {
            return;
        }
        let uid = if let Some(old) = &old {
            old.uid.clone()
        } else {
            *self.uids.borrow_mut() += 1;
            format!("u{}", self.uids.borrow())
        };
        let version = old.as_ref().map(|old| old.version.to_string()).unwrap_or_default();
        let rule = Rule {
            cluster: &self.cluster,
            name: name.clone(),
            spec,
            most: self.server.lock().most,
            object: object(&name, &version, &uid, &spec.to_string()),
            old: old.as_ref().map(|old| document(&name, old)),
        };
        let exactness = ReadConsistency {
            direct: Some(&self.direct),
            always: self.consistent,
            conflicting_resources: &[ResourceId(0)],
        };
        let deadline = began + Duration::from_secs(5);
        let verdict = decide(&self.cluster, exactness, deadline, &rule).await;
        let now = Instant::now();
        match verdict {
            Ok(true) => {}
            Ok(false) => {
                let reason = self.server.lock().has_reason(&name, spec, began);
                assert!(reason, "{name}={spec} is refused for nothing after {:?}", now - began);
                return;
            }
            // Requests in progress about an object that cannot be evaluated, one after the other.
            Err(Undecided::Unsettled(EvaluationError::Contention)) => return,
            Err(other) => panic!("{other:?}"),
        }
        let until = now + self.cluster.options.reservation_ttl;
        self.server.lock().under_way.push((name.clone(), spec, until));
        let Fate::Stored(delay) = fate else { return };
        tokio::time::sleep(Duration::from_millis(delay.into())).await;
        let mut server = self.server.lock();
        // Like an API server: stores a new name, or the version that was evaluated.
        if server.objects.get(&name) == old.as_ref() {
            let lag = server.put(&name, &uid, spec);
            server.check();
            drop(server);
            self.deliver(lag);
        }
    }

    /// The next event is shown after a while, in its turn.
    fn deliver(self: &Rc<Self>, lag: Duration) {
        let this = self.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(lag).await;
            let mut server = this.server.lock();
            if server.is_cut {
                return;
            }
            let kind = &this.cluster.caches[0];
            match server.events.pop_front() {
                Some(Event::Put(name, stored)) => {
                    kind.apply(document(&name, &stored).root(), "");
                }
                Some(Event::Gone(name, version, uid)) => {
                    kind.delete(&key(&name), &version.to_string(), &uid);
                }
                None => {}
            }
        });
    }

    fn list(&self) {
        let mut server = self.server.lock();
        (server.is_cut, server.lag) = (false, Duration::ZERO);
        server.events.clear();
        let objects: Vec<_> =
            server.objects.iter().map(|(n, stored)| document(n, stored)).collect();
        list(&self.cluster.caches[0], &server.version.to_string(), &objects);
    }
}

async fn play(steps: &[Step], consistent: bool, most: usize) {
    let server = Shared::new(Mutex::new(Server { version: 1, most, ..Server::default() }));
    let cluster = Arc::new(cluster(ClusterOptions::of(Source::Live)));
    let (kind, api) = (cluster.caches[0].clone(), Model(server.clone()));
    let settler =
        tokio::task::spawn_local(
            async move { reservations::settle::settle_forever(&kind, &api).await },
        );
    let world = Rc::new(Play {
        cluster,
        direct: Arc::new(DirectReader::new(Model(server.clone()))),
        server,
        consistent,
        uids: RefCell::default(),
    });
    world.list();
    let mut requests = Vec::new();
    for step in steps {
        tokio::time::sleep(Duration::from_millis(step.after.into())).await;
        match step.what.clone() {
            What::Request { name, spec, create, fate } => {
                let request = world.clone().request(name, spec, create, fate);
                requests.push(tokio::task::spawn_local(request));
            }
            What::Burst { name, count } => {
                for spec in 0..count {
                    // Specs of no other request: they conflict with none.
                    let request = world.clone().request(name, 100 + spec, true, Fate::Lost);
                    requests.push(tokio::task::spawn_local(request));
                }
            }
            What::Delete { name } => {
                let lag = world.server.lock().delete(&format!("n{name}"));
                if let Some(lag) = lag {
                    world.deliver(lag);
                }
            }
            // Events keep their order: a shorter lag holds from the next list on.
            What::Lag(lag) => {
                let mut server = world.server.lock();
                server.lag = server.lag.max(Duration::from_millis(lag.into()));
            }
            What::List => world.list(),
            What::Cut => world.server.lock().is_cut = true,
        }
    }
    for request in requests {
        request.await.unwrap();
    }
    assert_eq!(world.direct.reads_in_progress(), 0);
    tokio::time::sleep(world.cluster.options.reservation_ttl + Duration::from_millis(200)).await;
    assert_eq!(world.cluster.caches[0].status().reservations, 0);
    settler.abort();
}

fn run(steps: &[Step], consistent: bool, most: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().start_paused(true).build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, play(steps, consistent, most));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn allowed_changes_hold_for_every_stored_state(steps in steps(), consistent: bool, most in 1..3_usize) {
        run(&steps, consistent, most);
    }
}
