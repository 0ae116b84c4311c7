//! Ends of decisions that the model of `random_orders.rs` does not reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use opgate_cluster::Query;
use tokio::time::Instant;

use super::*;

/// Denies if there is any object except for its result.
pub(super) struct SoleObjectRequest<'a> {
    cluster: &'a ClusterState,
    evaluations: AtomicUsize,
    name: &'a str,
    uid: &'a str,
}

impl<'a> SoleObjectRequest<'a> {
    fn new(cluster: &'a ClusterState) -> Self {
        Self::named(cluster, "mine", "m")
    }

    /// The request to create an object.
    pub(super) fn named(cluster: &'a ClusterState, name: &'a str, uid: &'a str) -> Self {
        Self { cluster, evaluations: AtomicUsize::new(0), name, uid }
    }
}

impl Evaluate for SoleObjectRequest<'_> {
    type Verdict = String;
    type Overload = DecideFailure;

    async fn evaluate(
        &self,
        evaluation_view: &EvaluationView,
    ) -> Result<Evaluation<String>, DecideFailure> {
        self.evaluations.fetch_add(1, Ordering::Relaxed);
        let asked = vec![(ResourceId(0), QueryScope::All)];
        let questions = vec![(ResourceId(0), RecordedQuery::Query(Box::default()))];
        let fresh = evaluation_view
            .direct_reads
            .as_ref()
            .and_then(|fresh| fresh.listing(ResourceId(0), &QueryScope::All));
        let kind = &self.cluster.caches[0];
        match kind.select(&Query::default(), usize::MAX, fresh, evaluation_view.state, None) {
            Ok(found) => {
                let allows = found.objects.iter().all(|object| *object.key().name == *self.name);
                let mut grounds = GroundRecorder::default();
                grounds.add(ResourceId(0), &QueryScope::All, &found.objects);
                let grounds = if allows { Vec::new() } else { grounds.into_denial_grounds("") };
                let touched =
                    found.pending_objects.into_iter().map(|key| (ResourceId(0), key)).collect();
                let verdict = if allows { "allowed" } else { "denied" }.to_owned();
                Ok(Evaluation {
                    verdict,
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
            Err(why) => {
                let (verdict, touched) = (format!("{why:?}"), Vec::new());
                Ok(Evaluation {
                    verdict,
                    allows: false,
                    is_valid: false,
                    queries: asked,
                    recorded_queries: questions,
                    pending_objects: touched,
                    is_unsure: false,
                    grounds: Vec::new(),
                    needed_samples: Vec::new(),
                })
            }
        }
    }

    fn on_failed_read(&self, _: String, why: &str) -> String {
        why.to_owned()
    }

    fn with_pending_note(&self, verdict: String, objects: &[String]) -> String {
        format!("{verdict}: {}", objects.join(", "))
    }

    fn on_reservation_limit(
        &self,
        _: String,
        limit_reached: ReservationLimitReached,
    ) -> Result<String, DecideFailure> {
        Err(DecideFailure::NoRoom(limit_reached))
    }

    fn change(&self, _: &mut String) -> Result<Option<ObjectWrite>, DecideFailure> {
        let object = Some(object(self.name, "", self.uid, "x"));
        Ok(Some(ObjectWrite {
            caches: vec![ResourceId(0)],
            resource: Some(("g".to_owned(), "r".to_owned())),
            key: key(self.name),
            user: user(),
            object,
            old: None,
        }))
    }
}

/// Responds with an empty list, or not at all.
struct FakeApi(Option<&'static str>);

impl DirectReadSource for FakeApi {
    fn list<'a>(
        &'a self,
        kind: &'a ResourceCache,
        _: &'a QueryScope,
    ) -> BoxFuture<'a, Result<Listing, DirectReadError>> {
        let listing = Listing { version: "9".to_owned(), ..kind.empty() };
        let answer = self.0.map_or(Ok(listing), |why| Err(DirectReadError(why.to_owned())));
        Box::pin(async move { answer })
    }
}

fn synced_cluster(options: ClusterOptions) -> ClusterState {
    let cluster = cluster(options);
    apply_list(&cluster.caches[0], "1", &[]);
    cluster
}

async fn decide_sole_object(
    cluster: &ClusterState,
    direct: Option<&DirectReader>,
    seconds: u64,
) -> Result<String, DecideFailure> {
    let consistency =
        ReadConsistency { direct, always: false, conflicting_resources: &[ResourceId(0)] };
    let deadline = Instant::now() + Duration::from_secs(seconds);
    decide(cluster, consistency, deadline, &SoleObjectRequest::new(cluster)).await
}

fn reservation_count(cluster: &ClusterState) -> usize {
    cluster.caches[0].status().reservations
}

#[tokio::test(start_paused = true)]
async fn late_decision_reserves_nothing() {
    let cluster = synced_cluster(ClusterOptions::of(Source::Live));
    assert_eq!(
        decide_sole_object(&cluster, None, 0).await,
        Err(DecideFailure::Unsettled(EvaluationError::Late))
    );
    assert_eq!(reservation_count(&cluster), 0);
    assert_eq!(decide_sole_object(&cluster, None, 1).await, Ok("allowed".to_owned()));
    assert_eq!(reservation_count(&cluster), 1);
}

#[tokio::test(start_paused = true)]
async fn full_reservation_limit_ends_in_an_error() {
    let bounds = ReservationLimits { count: 0, bytes: 0 };
    let cluster = synced_cluster(ClusterOptions {
        reservation_limits: bounds,
        ..ClusterOptions::of(Source::Live)
    });
    let refused = decide_sole_object(&cluster, None, 1).await;
    assert!(matches!(&refused, Err(DecideFailure::NoRoom(_))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn unresolved_reservation_denies_before_the_deadline() {
    let reserve = |cluster: &ClusterState, name: &str| {
        let other = object(name, "", "o", "x");
        assert!(reserve_for(&cluster.caches[0], "u", &key(name), &other, ""));
    };
    let rests = Ok("denied: r ns/other".to_owned());
    let silent = DirectReader::new(FakeApi(Some("500: no answer")));
    let empty = DirectReader::new(FakeApi(None));
    for (direct, seconds, expected, took) in [
        // No direct reads.
        (None, 10, &rests, 0..=60),
        (Some(&silent), 10, &rests, 50..=60),
        // It could still be stored at the deadline.
        (Some(&empty), 1, &rests, 50..=60),
        (Some(&empty), 10, &Ok("allowed".to_owned()), 2_000..=2_010),
    ] {
        let cluster = synced_cluster(ClusterOptions::of(Source::Live));
        reserve(&cluster, "other");
        let began = Instant::now();
        assert_eq!(decide_sole_object(&cluster, direct, seconds).await, *expected);
        let milliseconds = began.elapsed().as_millis();
        assert!(took.contains(&milliseconds), "{expected:?} after {milliseconds} ms");
    }
    // So is a verdict that depends on too many.
    let cluster = synced_cluster(ClusterOptions::of(Source::Live));
    for number in 0..40 {
        reserve(&cluster, &format!("other-{number}"));
    }
    let denied = decide_sole_object(&cluster, Some(&empty), 10).await.unwrap();
    assert_eq!(denied, "denied: r ns/other-0, r ns/other-1, r ns/other-10");
}

#[tokio::test(start_paused = true)]
async fn failed_watch_is_replaced_by_a_read_or_an_error() {
    let direct = DirectReader::new(FakeApi(None));
    let silent = DirectReader::new(FakeApi(Some("500: no answer")));
    let failing = "the watch of g/v1/r fails, it was last heard of 6 s ago: cut";
    let unread = format!("{failing}; read directly: 500: no answer");
    for (interrupted, direct, before, expected) in [
        // The denial is confirmed: the watched object is gone.
        (OnWatchFailure::Read, Some(&direct), "allowed", "allowed"),
        (OnWatchFailure::Read, Some(&silent), "denied", unread.as_str()),
        (OnWatchFailure::Read, None, "denied", failing),
        (OnWatchFailure::Fail, Some(&direct), "allowed", failing),
    ] {
        let cluster = synced_cluster(ClusterOptions {
            on_watch_failure: interrupted,
            ..ClusterOptions::of(Source::Live)
        });
        cluster.caches[0].apply(object("stored", "2", "s", "x").root(), "");
        cluster.caches[0].record_error("cut".to_owned());
        assert_eq!(decide_sole_object(&cluster, direct, 10).await.unwrap(), before, "it may pass");
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(decide_sole_object(&cluster, direct, 10).await.unwrap(), expected);
    }
}

/// Queries all objects with a spec, and allows in any case.
struct AllowedRequest<'a> {
    cluster: &'a ClusterState,
    name: String,
    spec: &'a str,
    evaluation_time: Duration,
    evaluations: AtomicUsize,
}

impl<'a> AllowedRequest<'a> {
    fn new(cluster: &'a ClusterState, name: &str, spec: &'a str, milliseconds: u64) -> Self {
        let takes = Duration::from_millis(milliseconds);
        Self {
            cluster,
            name: name.to_owned(),
            spec,
            evaluation_time: takes,
            evaluations: AtomicUsize::new(0),
        }
    }

    async fn decide(&self, seconds: u64) -> Result<(), DecideFailure> {
        let consistency = ReadConsistency {
            direct: None,
            always: false,
            conflicting_resources: &[ResourceId(0)],
        };
        decide(self.cluster, consistency, Instant::now() + Duration::from_secs(seconds), self).await
    }
}

impl Evaluate for AllowedRequest<'_> {
    type Verdict = ();
    type Overload = DecideFailure;

    async fn evaluate(&self, _: &EvaluationView) -> Result<Evaluation<()>, DecideFailure> {
        self.evaluations.fetch_add(1, Ordering::Relaxed);
        let matches = vec![opgate_cluster::IndexMatch {
            index: 0,
            values: Arc::new([self.spec.to_owned()].into()),
            include_missing: false,
        }];
        let query = Query { matches, ..Query::default() };
        tokio::time::sleep(self.evaluation_time).await;
        Ok(Evaluation {
            verdict: (),
            allows: true,
            is_valid: true,
            queries: vec![(ResourceId(0), QueryScope::All)],
            recorded_queries: vec![(ResourceId(0), RecordedQuery::Query(Box::new(query)))],
            pending_objects: Vec::new(),
            is_unsure: false,
            grounds: Vec::new(),
            needed_samples: Vec::new(),
        })
    }

    fn on_failed_read(&self, (): (), _: &str) {}

    fn with_pending_note(&self, (): (), _: &[String]) {}

    fn on_reservation_limit(
        &self,
        (): (),
        limit_reached: ReservationLimitReached,
    ) -> Result<(), DecideFailure> {
        Err(DecideFailure::NoRoom(limit_reached))
    }

    fn change(&self, (): &mut ()) -> Result<Option<ObjectWrite>, DecideFailure> {
        let object = Some(object(&self.name, "", &self.name, self.spec));
        Ok(Some(ObjectWrite {
            caches: vec![ResourceId(0)],
            resource: None,
            key: key(&self.name),
            user: user(),
            object,
            old: None,
        }))
    }
}

/// Small writes without a pause, until dropped; each is decided as any other.
async fn write_repeatedly(cluster: &ClusterState, spec: &str) -> usize {
    let mut number = 0;
    loop {
        let write = AllowedRequest::new(cluster, &format!("w{number}"), spec, 0);
        match write.decide(5).await {
            Ok(()) => number += 1,
            Err(DecideFailure::NoRoom(_)) => return number,
            Err(other) => panic!("{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(6)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn unrelated_writes_repeat_no_evaluation() {
    let cluster = synced_cluster(ClusterOptions::of(Source::Live));
    let slow = AllowedRequest::new(&cluster, "slow", "mine", 40);
    tokio::select! {
        biased;
        decided = slow.decide(5) => assert_eq!(decided, Ok(())),
        count = write_repeatedly(&cluster, "theirs") => panic!("{count}"),
    }
    assert_eq!(slow.evaluations.into_inner(), 1);
    assert!(reservation_count(&cluster) > 5, "meanwhile others wrote");
}

#[tokio::test(start_paused = true)]
async fn often_repeated_evaluation_gets_priority() {
    let cluster = synced_cluster(ClusterOptions::of(Source::Live));
    let slow = AllowedRequest::new(&cluster, "slow", "shared", 40);
    let other = AllowedRequest::new(&cluster, "other", "shared", 30);
    let began = Instant::now();
    tokio::select! {
        biased;
        decided = async { tokio::join!(slow.decide(5), other.decide(5)) } => {
            assert_eq!(decided, (Ok(()), Ok(())));
        }
        count = write_repeatedly(&cluster, "shared") => panic!("{count}"),
    }
    let evaluated = slow.evaluations.into_inner().max(other.evaluations.into_inner());
    assert!(evaluated <= 6, "{evaluated} rounds");
    assert!(began.elapsed() < Duration::from_millis(400), "{:?}", began.elapsed());
    assert!(!cluster.claims.has_claims());
}

/// A claim of a request that hangs, or whose client is gone, delays others only briefly.
#[tokio::test(start_paused = true)]
async fn priority_claim_ends() {
    let cluster = synced_cluster(ClusterOptions::of(Source::Live));
    let everything = || vec![(ResourceId(0), RecordedQuery::Anything)];
    let hangs = cluster.claims.claim(everything());
    let began = Instant::now();
    assert_eq!(AllowedRequest::new(&cluster, "a", "x", 0).decide(5).await, Ok(()));
    assert_eq!(began.elapsed().as_secs(), 1);
    drop(hangs);
    let gone = cluster.claims.claim(everything());
    let waits = AllowedRequest::new(&cluster, "b", "x", 0);
    let began = Instant::now();
    let goes = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(gone);
    };
    let (decided, ()) = tokio::join!(waits.decide(5), goes);
    assert_eq!((decided, began.elapsed().as_millis()), (Ok(()), 20));
    let all: Vec<_> = (0..100).filter_map(|_| cluster.claims.claim(everything())).collect();
    assert_eq!(all.len(), 64, "there is an end");
}

/// A repeated change that was allowed already changes nothing.
#[tokio::test(start_paused = true)]
async fn repeated_allowed_request_causes_no_reevaluation() {
    let cluster = synced_cluster(ClusterOptions::of(Source::Live));
    let again = || AllowedRequest::new(&cluster, "again", "mine", 0);
    assert_eq!(again().decide(5).await, Ok(()));
    let slow = AllowedRequest::new(&cluster, "slow", "mine", 40);
    let repeats = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        again().decide(5).await
    };
    assert_eq!(tokio::join!(slow.decide(5), repeats), (Ok(()), Ok(())));
    assert_eq!(slow.evaluations.into_inner(), 1);
    assert_eq!(reservation_count(&cluster), 2);
}

#[tokio::test(start_paused = true)]
async fn reservations_expire_without_requests() {
    let cluster = synced_cluster(ClusterOptions::of(Source::Live));
    assert_eq!(AllowedRequest::new(&cluster, "a", "x", 0).decide(5).await, Ok(()));
    tokio::time::advance(Duration::from_secs(60)).await;
    cluster.caches[0].expire();
    assert_eq!(reservation_count(&cluster), 1, "the watch has not spoken: it may be stored");
    tokio::time::advance(Duration::from_secs(300)).await;
    cluster.caches[0].expire();
    assert_eq!(reservation_count(&cluster), 0, "no view is as old");
}

/// All kinds together have twice the limit of one.
#[tokio::test(start_paused = true)]
async fn reservations_of_all_kinds_are_limited_in_bytes() {
    let bounds = ReservationLimits { count: 1_000, bytes: 20_000 };
    let reading = |name: &str| {
        let resource = Resource { group: "g".into(), version: "v1".into(), resource: name.into() };
        let declaration = Declaration::new(&["/spec".to_owned()], &[], &[]).unwrap();
        ResolvedRead {
            resource,
            declaration,
            labels: Selector::default(),
            namespace: None,
            optional: false,
        }
    };
    let readings: Vec<_> = (0..8).map(|number| reading(&format!("r{number}"))).collect();
    let cluster = ClusterState::new(
        &readings,
        ClusterOptions { reservation_limits: bounds, ..ClusterOptions::of(Source::Live) },
    );
    let mut made = 0;
    for number in 0..800 {
        // Many namespaces: one has only its share.
        let name = format!("{number}-{}", "x".repeat(200));
        let json = format!(r#"{{"metadata":{{"name":"{name}","namespace":"n{number}"}}}}"#);
        let object = Some(Arc::new(Document::parse(&json).unwrap()));
        let key = Key::new(&format!("n{number}"), &name);
        let write = ObjectWrite {
            caches: vec![ResourceId(number % 8)],
            resource: None,
            key,
            user: format!("u{number}").into(),
            object,
            old: None,
        };
        made += usize::from(cluster.reserve(&write, &cluster.counters(), &[], None).is_ok());
    }
    let bytes: usize = cluster.caches.iter().map(|kind| kind.reservation_usage().bytes).sum();
    assert!(made > 20 && (38_000..42_000).contains(&bytes), "{made} of {bytes} bytes");
}
