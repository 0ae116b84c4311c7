//! Denials that depend on watched objects, and the objects that the API server has.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use opgate_cluster::Query;
use tokio::time::Instant;

use super::*;

/// The objects of the API server, and the number of reads. No response if `objects` is none.
#[derive(Clone, Default)]
struct Stored {
    objects: Option<Vec<Arc<Document>>>,
    reads: Arc<AtomicUsize>,
    /// Each read finds a newer version of the object.
    changes: bool,
}

impl Stored {
    fn of(objects: &[Arc<Document>]) -> Self {
        Self { objects: Some(objects.to_vec()), ..Self::default() }
    }
}

impl DirectReadSource for Stored {
    fn list<'a>(
        &'a self,
        kind: &'a ResourceCache,
        scope: &'a QueryScope,
    ) -> BoxFuture<'a, Result<Listing, String>> {
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        let Some(objects) = &self.objects else {
            return Box::pin(async { Err("500: no answer".to_owned()) });
        };
        let mut listing = Listing { version: "90".to_owned(), ..kind.empty() };
        for object in objects {
            let name = object.get("/metadata/name").and_then(|v| v.text().map(str::to_owned));
            let name = name.unwrap();
            if scope.covers(&QueryScope::Object(key(&name))) {
                let changed = super::object(&name, &format!("{}", 50 + read), "u", "x");
                let object = if self.changes { &changed } else { object };
                kind.add_object(&mut listing, object.root(), "");
            }
        }
        Box::pin(async move { Ok(listing) })
    }
}

/// The query of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// It must be alone: all objects of the resource.
    Alone,
    /// It needs the object `needed`.
    Needed,
    /// It needs any object of the namespace.
    Any,
}

struct Request<'a> {
    cluster: &'a ClusterState,
    asks: Asks,
    evaluations: AtomicUsize,
}

impl Evaluate for Request<'_> {
    type Verdict = bool;
    type Overload = Undecided;

    async fn evaluate(&self, lens: &EvaluationView) -> Result<Evaluation<bool>, Undecided> {
        self.evaluations.fetch_add(1, Ordering::Relaxed);
        let kind = &self.cluster.caches[0];
        let scope = match self.asks {
            Asks::Alone => QueryScope::All,
            Asks::Needed => QueryScope::Object(key("needed")),
            Asks::Any => QueryScope::Namespace("ns".to_owned()),
        };
        let fresh =
            lens.direct_reads.as_ref().and_then(|fresh| fresh.listing(ResourceId(0), &scope));
        let objects = match self.asks {
            Asks::Needed => {
                let got = kind.get(&key("needed"), fresh, lens.state).unwrap();
                got.object.into_iter().collect()
            }
            Asks::Alone | Asks::Any => {
                let query = Query::default();
                kind.select(&query, usize::MAX, fresh, lens.state, None).unwrap().objects
            }
        };
        let allows = objects.is_empty() == (self.asks == Asks::Alone);
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
        no_room: ReservationLimitReached,
    ) -> Result<bool, Undecided> {
        Err(Undecided::NoRoom(no_room))
    }

    fn change(&self, _: &mut bool) -> Result<Option<ObjectWrite>, Undecided> {
        Ok(None)
    }
}

#[tokio::test(start_paused = true)]
async fn denial_is_confirmed_by_the_api_server() {
    let stored = |name: &str, version: &str| object(name, version, "u", "x");
    let other = || stored("other", "2");
    // The watched objects, the stored objects, the query; the verdict, reads, evaluations.
    for (shown, has, asks, verdict, reads, evaluations) in [
        (&[][..], Stored::of(&[]), Asks::Alone, true, 0, 1),
        (&[other()], Stored::of(&[other()]), Asks::Alone, false, 1, 1),
        (&[other()], Stored::of(&[]), Asks::Alone, true, 1, 2),
        (&[other()], Stored::default(), Asks::Alone, false, 1, 1),
        (&[stored("needed", "2")], Stored::of(&[]), Asks::Needed, true, 0, 1),
        (&[], Stored::of(&[stored("needed", "5")]), Asks::Needed, true, 1, 2),
        (&[other()], Stored::of(&[other()]), Asks::Needed, false, 1, 1),
        (&[], Stored::of(&[stored("any", "5")]), Asks::Any, true, 1, 2),
        // A namespace without an object is evaluated twice, and read once.
        (&[], Stored::of(&[]), Asks::Any, false, 1, 2),
    ] {
        let cluster = cluster(ClusterOptions::of(Source::Live));
        list(&cluster.caches[0], "9", shown);
        let direct = DirectReader::new(has.clone());
        let request = Request { cluster: &cluster, asks, evaluations: AtomicUsize::new(0) };
        let exactness =
            ReadConsistency { direct: Some(&direct), always: false, conflicting_resources: &[] };
        let deadline = Instant::now() + Duration::from_secs(5);
        let decided = decide(&cluster, exactness, deadline, &request).await;
        let counts = (has.reads.load(Ordering::Relaxed), request.evaluations.into_inner());
        assert_eq!((decided, counts), (Ok(verdict), (reads, evaluations)), "{shown:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn object_that_changes_without_end_is_confirmed_three_times() {
    let cluster = cluster(ClusterOptions::of(Source::Live));
    list(&cluster.caches[0], "9", &[object("other", "2", "u", "x")]);
    let has = Stored { changes: true, ..Stored::of(&[object("other", "2", "u", "x")]) };
    let direct = DirectReader::new(has.clone());
    let request =
        Request { cluster: &cluster, asks: Asks::Alone, evaluations: AtomicUsize::new(0) };
    let exactness =
        ReadConsistency { direct: Some(&direct), always: false, conflicting_resources: &[] };
    let deadline = Instant::now() + Duration::from_secs(5);
    assert_eq!(decide(&cluster, exactness, deadline, &request).await, Ok(false));
    assert_eq!(has.reads.load(Ordering::Relaxed), 3);
    assert_eq!(request.evaluations.into_inner(), 4);
}

#[test]
fn reads_to_confirm_a_denial_are_limited_to_named_objects() {
    let cluster = cluster(ClusterOptions::of(Source::Live));
    let kind = &cluster.caches[0];
    let all: Vec<_> = (0..99).map(|n| object(&format!("object-{n:02}"), "1", "u", "x")).collect();
    list(kind, "9", &all);
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
