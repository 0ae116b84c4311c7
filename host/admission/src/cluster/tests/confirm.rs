//! Denials that depend on watched objects, and the objects that the API server has.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use opgate_cluster::Query;
use tokio::time::Instant;

use super::*;

/// The objects of the API server, and the number of reads. No response if `objects` is none.
#[derive(Clone, Default)]
struct FakeApi {
    objects: Option<Vec<Arc<Document>>>,
    reads: Arc<AtomicUsize>,
    /// Each read finds a newer version of the object.
    is_changing: bool,
}

impl FakeApi {
    fn of(objects: &[Arc<Document>]) -> Self {
        Self { objects: Some(objects.to_vec()), ..Self::default() }
    }
}

impl DirectReadSource for FakeApi {
    fn list<'a>(
        &'a self,
        kind: &'a ResourceCache,
        scope: &'a QueryScope,
    ) -> BoxFuture<'a, Result<Listing, DirectReadError>> {
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        let Some(objects) = &self.objects else {
            return Box::pin(async { Err(DirectReadError("500: no answer".to_owned())) });
        };
        let mut listing = Listing { version: "90".to_owned(), ..kind.empty() };
        for object in objects {
            let name = object.get("/metadata/name").and_then(|v| v.text().map(str::to_owned));
            let name = name.unwrap();
            if scope.covers(&QueryScope::Object(key(&name))) {
                let changed = super::object(&name, &format!("{}", 50 + read), "u", "x");
                let object = if self.is_changing { &changed } else { object };
                kind.add_object(&mut listing, object.root(), "");
            }
        }
        Box::pin(async move { Ok(listing) })
    }
}

/// The query of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TestQuery {
    /// It must be alone: all objects of the resource.
    NoObjects,
    /// It needs the object `needed`.
    ObjectByName,
    /// It needs any object of the namespace.
    AnyInNamespace,
}

struct Request<'a> {
    cluster: &'a ClusterState,
    query: TestQuery,
    evaluations: AtomicUsize,
}

impl Evaluate for Request<'_> {
    type Verdict = bool;
    type Overload = DecideFailure;

    async fn evaluate(&self, view: &EvaluationView) -> Result<Evaluation<bool>, DecideFailure> {
        self.evaluations.fetch_add(1, Ordering::Relaxed);
        let kind = &self.cluster.caches[0];
        let scope = match self.query {
            TestQuery::NoObjects => QueryScope::All,
            TestQuery::ObjectByName => QueryScope::Object(key("needed")),
            TestQuery::AnyInNamespace => QueryScope::Namespace("ns".to_owned()),
        };
        let fresh =
            view.direct_reads.as_ref().and_then(|fresh| fresh.listing(ResourceId(0), &scope));
        let objects = match self.query {
            TestQuery::ObjectByName => {
                let got = kind.get(&key("needed"), fresh, view.state).unwrap();
                got.object.into_iter().collect()
            }
            TestQuery::NoObjects | TestQuery::AnyInNamespace => {
                let query = Query::default();
                kind.select(&query, usize::MAX, fresh, view.state, None).unwrap().objects
            }
        };
        let allows = objects.is_empty() == (self.query == TestQuery::NoObjects);
        let mut grounds = GroundRecorder::default();
        grounds.add(ResourceId(0), &scope, &objects);
        Ok(Evaluation {
            verdict: allows,
            allows,
            is_valid: true,
            queries: vec![(ResourceId(0), scope)],
            recorded_queries: Vec::new(),
            pending_objects: Vec::new(),
            is_unsure: false,
            grounds: if allows {
                Vec::new()
            } else {
                grounds.into_denial_grounds("rests on other")
            },
            needed_samples: Vec::new(),
        })
    }

    fn on_failed_read(&self, verdict: bool, _: &str) -> bool {
        verdict
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
        Ok(None)
    }
}

#[tokio::test(start_paused = true)]
async fn denial_is_confirmed_by_the_api_server() {
    let stored = |name: &str, version: &str| object(name, version, "u", "x");
    let other = || stored("other", "2");
    // The watched objects, the stored objects, the query; the verdict, reads, evaluations.
    for (shown, has, asks, verdict, reads, evaluations) in [
        (&[][..], FakeApi::of(&[]), TestQuery::NoObjects, true, 0, 1),
        (&[other()], FakeApi::of(&[other()]), TestQuery::NoObjects, false, 1, 1),
        (&[other()], FakeApi::of(&[]), TestQuery::NoObjects, true, 1, 2),
        (&[other()], FakeApi::default(), TestQuery::NoObjects, false, 1, 1),
        (&[stored("needed", "2")], FakeApi::of(&[]), TestQuery::ObjectByName, true, 0, 1),
        (&[], FakeApi::of(&[stored("needed", "5")]), TestQuery::ObjectByName, true, 1, 2),
        (&[other()], FakeApi::of(&[other()]), TestQuery::ObjectByName, false, 1, 1),
        (&[], FakeApi::of(&[stored("any", "5")]), TestQuery::AnyInNamespace, true, 1, 2),
        // A namespace without an object is evaluated twice, and read once.
        (&[], FakeApi::of(&[]), TestQuery::AnyInNamespace, false, 1, 2),
    ] {
        let cluster = cluster(ClusterOptions::of(Source::Live));
        apply_list(&cluster.caches[0], "9", shown);
        let direct = DirectReader::new(has.clone());
        let request = Request { cluster: &cluster, query: asks, evaluations: AtomicUsize::new(0) };
        let consistency =
            ReadConsistency { direct: Some(&direct), always: false, conflicting_resources: &[] };
        let deadline = Instant::now() + Duration::from_secs(5);
        let decided = decide(&cluster, consistency, deadline, &request).await;
        let counts = (has.reads.load(Ordering::Relaxed), request.evaluations.into_inner());
        assert_eq!((decided, counts), (Ok(verdict), (reads, evaluations)), "{shown:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn object_that_changes_without_end_is_confirmed_three_times() {
    let cluster = cluster(ClusterOptions::of(Source::Live));
    apply_list(&cluster.caches[0], "9", &[object("other", "2", "u", "x")]);
    let has = FakeApi { is_changing: true, ..FakeApi::of(&[object("other", "2", "u", "x")]) };
    let direct = DirectReader::new(has.clone());
    let request = Request {
        cluster: &cluster,
        query: TestQuery::NoObjects,
        evaluations: AtomicUsize::new(0),
    };
    let consistency =
        ReadConsistency { direct: Some(&direct), always: false, conflicting_resources: &[] };
    let deadline = Instant::now() + Duration::from_secs(5);
    assert_eq!(decide(&cluster, consistency, deadline, &request).await, Ok(false));
    assert_eq!(has.reads.load(Ordering::Relaxed), 3);
    assert_eq!(request.evaluations.into_inner(), 4);
}

#[test]
fn reads_to_confirm_a_denial_are_limited_to_named_objects() {
    let cluster = cluster(ClusterOptions::of(Source::Live));
    let kind = &cluster.caches[0];
    let all: Vec<_> = (0..99).map(|n| object(&format!("object-{n:02}"), "1", "u", "x")).collect();
    apply_list(kind, "9", &all);
    let found =
        kind.select(&Query::default(), usize::MAX, None, PossibleState::Stored, None).unwrap();
    let mut grounds = GroundRecorder::default();
    grounds.add(ResourceId(0), &QueryScope::All, &found.objects);
    grounds.add(ResourceId(0), &QueryScope::Object(key("missing")), &[]);
    grounds.add(ResourceId(0), &QueryScope::All, &[]);
    let scopes = |grounds: Vec<DenialGround>| -> Vec<QueryScope> {
        grounds.into_iter().map(|ground| ground.scope).collect()
    };
    let object = |name: &str| QueryScope::Object(key(name));
    let named = grounds.clone().into_denial_grounds("object-07 and object-05 already have it");
    assert_eq!(scopes(named), [object("missing"), object("object-05"), object("object-07")]);
    let unnamed = scopes(grounds.into_denial_grounds("it is there already"));
    assert_eq!((unnamed.len(), &unnamed[1]), (8, &object("object-00")));
}
