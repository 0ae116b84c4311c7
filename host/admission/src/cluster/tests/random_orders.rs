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
const UNRESTRICTED_SPEC: u8 = 0;

/// Maximum time after a response in which an API server may store: less than a reservation.
const MAX_WRITE_DELAY_MS: u16 = 1_900;

#[derive(Debug, Clone)]
struct Step {
    /// Milliseconds after the step before.
    after_ms: u16,
    action: Action,
}

#[derive(Debug, Clone)]
enum Action {
    /// A request; `create` if it wants a new object, whether there is one or not.
    Request { name: u8, spec: u8, create: bool, outcome: StoreOutcome },
    /// Requests for new objects of one name with different specs, none of which is stored.
    Burst { name: u8, count: u8 },
    /// A user deletes an object.
    Delete { name: u8 },
    /// Events are delayed by this much from now on.
    DelayEvents(u16),
    /// The watch begins again with a list.
    Relist,
    /// The watch is cut: no events until the next list.
    CutWatch,
}

#[derive(Debug, Clone, Copy)]
enum StoreOutcome {
    Stored(u16),
    RejectedByOtherWebhook,
    Lost,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop_oneof![
        4 => (0..MAX_WRITE_DELAY_MS).prop_map(StoreOutcome::Stored),
        4 => (0..20_u16).prop_map(StoreOutcome::Stored),
        1 => Just(StoreOutcome::RejectedByOtherWebhook),
        2 => Just(StoreOutcome::Lost),
    ];
    let request = (0..4_u8, 0..3_u8, any::<bool>(), outcome)
        .prop_map(|(name, spec, create, outcome)| Action::Request { name, spec, create, outcome });
    let what = prop_oneof![
        8 => request,
        2 => (0..4_u8).prop_map(|name| Action::Delete { name }),
        1 => (0..4_u8, 1..9_u8).prop_map(|(name, count)| Action::Burst { name, count }),
        1 => (0..900_u16).prop_map(Action::DelayEvents),
        1 => Just(Action::Relist),
        1 => Just(Action::CutWatch),
    ];
    let after = prop_oneof![3 => 0..3_u16, 2 => 0..200_u16, 1 => 0..4_000_u16];
    prop::collection::vec(
        (after, what).prop_map(|(after, what)| Step { after_ms: after, action: what }),
        1..40,
    )
}

#[derive(Debug, Clone, PartialEq)]
struct StoredObject {
    version: u64,
    uid: String,
    spec: u8,
}

/// The API server.
#[derive(Debug, Default)]
struct FakeApiServer {
    version: u64,
    objects: BTreeMap<String, StoredObject>,
    /// The events that the watch has not delivered yet.
    events: VecDeque<Event>,
    /// Requests that were allowed, and the time until which they could be stored.
    pending: Vec<(String, u8, Instant)>,
    /// The objects that were stored, and until when.
    former_objects: Vec<(String, u8, Instant)>,
    event_delay: Duration,
    is_watch_cut: bool,
    max_per_spec: usize,
}

#[derive(Debug, Clone)]
enum Event {
    Put(String, StoredObject),
    Deleted(String, u64, String),
}

impl FakeApiServer {
    fn put(&mut self, name: &str, uid: &str, spec: u8) -> Duration {
        self.version += 1;
        let new = StoredObject { version: self.version, uid: uid.to_owned(), spec };
        if let Some(old) = self.objects.insert(name.to_owned(), new.clone()) {
            self.record_former(name, old.spec);
        }
        self.events.push_back(Event::Put(name.to_owned(), new));
        self.event_delay
    }

    fn delete(&mut self, name: &str) -> Option<Duration> {
        let old = self.objects.remove(name)?;
        self.version += 1;
        self.record_former(name, old.spec);
        self.events.push_back(Event::Deleted(name.to_owned(), self.version, old.uid));
        Some(self.event_delay)
    }

    /// It was stored until now.
    fn record_former(&mut self, name: &str, spec: u8) {
        self.former_objects.push((name.to_owned(), spec, Instant::now()));
    }

    /// Whether there is a reason to deny a request since `began`.
    fn has_reason_to_deny(&self, name: &str, spec: u8, began: Instant) -> bool {
        let stored = self.objects.iter().map(|(other, stored)| (other, stored.spec));
        let others = [&self.pending, &self.former_objects].into_iter().flatten();
        let others = others.filter(|(_, _, until)| *until >= began);
        let all = stored.chain(others.map(|(other, theirs, _)| (other, *theirs)));
        let rivals = all.filter(|(other, theirs)| *other != name && *theirs == spec);
        rivals.map(|(other, _)| other).collect::<BTreeSet<_>>().len() >= self.max_per_spec
    }

    fn assert_rule(&self) {
        for spec in 1..u8::MAX {
            let count = self.objects.values().filter(|stored| stored.spec == spec).count();
            assert!(count <= self.max_per_spec, "the rule is broken: {:?}", self.objects);
        }
    }
}

type Shared = Arc<Mutex<FakeApiServer>>;

struct FakeApi(Shared);

impl FakeApi {
    fn listing(&self, kind: &ResourceCache, scope: &QueryScope) -> Listing {
        let server = self.0.lock();
        let mut listing = Listing { version: server.version.to_string(), ..kind.empty() };
        let asked = |name: &&String| scope.covers(&QueryScope::Object(key(name)));
        for name in server.objects.keys().filter(asked) {
            kind.add_object(&mut listing, document(name, &server.objects[name]).root(), "");
        }
        listing
    }
}

impl DirectReadSource for FakeApi {
    fn list<'a>(
        &'a self,
        kind: &'a ResourceCache,
        scope: &'a QueryScope,
    ) -> BoxFuture<'a, Result<Listing, DirectReadError>> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(3)).await;
            let listing = self.listing(kind, scope);
            tokio::time::sleep(Duration::from_millis(3)).await;
            Ok(listing)
        })
    }
}

fn document(name: &str, stored: &StoredObject) -> Arc<Document> {
    object(name, &stored.version.to_string(), &stored.uid, &stored.spec.to_string())
}

/// The rule as a policy queries it: do other objects have this spec?
struct Rule<'r> {
    cluster: &'r ClusterState,
    name: String,
    spec: u8,
    max_per_spec: usize,
    object: Arc<Document>,
    old: Option<Arc<Document>>,
}

impl Evaluate for Rule<'_> {
    type Verdict = bool;
    type Overload = DecideFailure;

    async fn evaluate(&self, view: &EvaluationView) -> Result<Evaluation<bool>, DecideFailure> {
        let values = Arc::new(std::iter::once(self.spec.to_string()).collect());
        let matches = vec![IndexMatch { index: 0, values, include_missing: false }];
        let query = Query { matches, ..Query::default() };
        let fresh = view
            .direct_reads
            .as_ref()
            .and_then(|fresh| fresh.listing(ResourceId(0), &QueryScope::All));
        let reviewed =
            Some(Arc::new(ReviewedObject { caches: vec![ResourceId(0)], key: key(&self.name) }));
        let sight = EvaluationView { reviewed, state: view.state, ..EvaluationView::default() };
        let sight = sight.resource_view(ResourceId(0));
        let found = self.cluster.caches[0].select(&query, usize::MAX, fresh, sight, None).unwrap();
        let names = found.objects.iter().map(|object: &Arc<Object>| &object.key().name);
        let others: BTreeSet<_> = names.filter(|name| ***name != *self.name).collect();
        let allows = self.spec == UNRESTRICTED_SPEC || others.len() < self.max_per_spec;
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
        limit_reached: ReservationLimitReached,
    ) -> Result<bool, DecideFailure> {
        Err(DecideFailure::NoRoom(limit_reached))
    }

    fn change(&self, _: &mut bool) -> Result<Option<ObjectWrite>, DecideFailure> {
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

struct Simulation {
    cluster: Arc<ClusterState>,
    direct: Arc<DirectReader>,
    server: Shared,
    consistent: bool,
    uids: RefCell<u32>,
}

impl Simulation {
    /// A request from its review to its end.
    async fn request(self: Rc<Self>, name: u8, spec: u8, create: bool, outcome: StoreOutcome) {
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
            max_per_spec: self.server.lock().max_per_spec,
            object: object(&name, &version, &uid, &spec.to_string()),
            old: old.as_ref().map(|old| document(&name, old)),
        };
        let consistency = ReadConsistency {
            direct: Some(&self.direct),
            always: self.consistent,
            conflicting_resources: &[ResourceId(0)],
        };
        let deadline = began + Duration::from_secs(5);
        let verdict = decide(&self.cluster, consistency, deadline, &rule).await;
        let now = Instant::now();
        match verdict {
            Ok(true) => {}
            Ok(false) => {
                let reason = self.server.lock().has_reason_to_deny(&name, spec, began);
                assert!(reason, "{name}={spec} is refused for nothing after {:?}", now - began);
                return;
            }
            // Requests in progress about an object that cannot be evaluated, one after the other.
            Err(DecideFailure::Unsettled(EvaluationError::Contention)) => return,
            Err(other) => panic!("{other:?}"),
        }
        let until = now + self.cluster.options.reservation_ttl;
        self.server.lock().pending.push((name.clone(), spec, until));
        let StoreOutcome::Stored(delay) = outcome else { return };
        tokio::time::sleep(Duration::from_millis(delay.into())).await;
        let mut server = self.server.lock();
        // Like an API server: stores a new name, or the version that was evaluated.
        if server.objects.get(&name) == old.as_ref() {
            let lag = server.put(&name, &uid, spec);
            server.assert_rule();
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
            if server.is_watch_cut {
                return;
            }
            let kind = &this.cluster.caches[0];
            match server.events.pop_front() {
                Some(Event::Put(name, stored)) => {
                    kind.apply(document(&name, &stored).root(), "");
                }
                Some(Event::Deleted(name, version, uid)) => {
                    kind.delete(&key(&name), &version.to_string(), &uid);
                }
                None => {}
            }
        });
    }

    fn list(&self) {
        let mut server = self.server.lock();
        (server.is_watch_cut, server.event_delay) = (false, Duration::ZERO);
        server.events.clear();
        let objects: Vec<_> =
            server.objects.iter().map(|(n, stored)| document(n, stored)).collect();
        apply_list(&self.cluster.caches[0], &server.version.to_string(), &objects);
    }
}

async fn simulate(steps: &[Step], consistent: bool, most: usize) {
    let server = Shared::new(Mutex::new(FakeApiServer {
        version: 1,
        max_per_spec: most,
        ..FakeApiServer::default()
    }));
    let cluster = Arc::new(cluster(ClusterOptions::of(Source::Live)));
    let (kind, api) = (cluster.caches[0].clone(), FakeApi(server.clone()));
    let settler = tokio::task::spawn_local(async move {
        watch::settle_reservations::settle_forever(&kind, &api).await;
    });
    let world = Rc::new(Simulation {
        cluster,
        direct: Arc::new(DirectReader::new(FakeApi(server.clone()))),
        server,
        consistent,
        uids: RefCell::default(),
    });
    world.list();
    let mut requests = Vec::new();
    for step in steps {
        tokio::time::sleep(Duration::from_millis(step.after_ms.into())).await;
        match step.action.clone() {
            Action::Request { name, spec, create, outcome } => {
                let request = world.clone().request(name, spec, create, outcome);
                requests.push(tokio::task::spawn_local(request));
            }
            Action::Burst { name, count } => {
                for spec in 0..count {
                    // Specs of no other request: they conflict with none.
                    let request = world.clone().request(name, 100 + spec, true, StoreOutcome::Lost);
                    requests.push(tokio::task::spawn_local(request));
                }
            }
            Action::Delete { name } => {
                let lag = world.server.lock().delete(&format!("n{name}"));
                if let Some(lag) = lag {
                    world.deliver(lag);
                }
            }
            // Events keep their order: a shorter lag holds from the next list on.
            Action::DelayEvents(lag) => {
                let mut server = world.server.lock();
                server.event_delay = server.event_delay.max(Duration::from_millis(lag.into()));
            }
            Action::Relist => world.list(),
            Action::CutWatch => world.server.lock().is_watch_cut = true,
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

fn run_simulation(steps: &[Step], consistent: bool, most: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().start_paused(true).build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, simulate(steps, consistent, most));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn allowed_changes_hold_for_every_stored_state(steps in steps(), consistent: bool, most in 1..3_usize) {
        run_simulation(&steps, consistent, most);
    }
}
