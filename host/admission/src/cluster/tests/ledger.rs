//! One replica, and a ledger whose states the test makes.

use std::sync::Barrier;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use opgate_ledger::{
    Content, Document as LedgerDocument, Entry, EntryId, Input, LedgerKey, LedgerUid,
    LedgerVersion, Observation, ReplicaId, Resource as LedgerResource, Tenant as LedgerTenant,
};
use tokio::time::Instant;

use super::*;
use crate::cluster::store::listing::ExcludedObjects;
use crate::cluster::watch::parse_limiter::ReadPriority;
use crate::cluster::watch::requests::ApiServer;

/// Both threads take about as long, so that one round of twenty hits the moment between two steps.
const ROUNDS: usize = 500;

/// A ledger in use, at this revision. All changes up to `stored` have left it.
fn ledger(revision: u64, stored: u64, entry: Option<Entry>) -> Observation {
    let key = LedgerKey {
        uid: LedgerUid("ledger".into()),
        version: LedgerVersion(revision.to_string().into()),
    };
    let document = LedgerDocument {
        revision,
        established: Some("ledger".into()),
        versions: [(LedgerResource::new("g/r"), stored)].into(),
        entries: entry.into_iter().map(|entry| (entry.id.clone(), Arc::new(entry))).collect(),
    };
    Observation::Present(key, Ok(Arc::new(document)))
}

/// The creation of an object by another replica.
fn foreign_entry(name: &str) -> Entry {
    Entry {
        id: EntryId { replica: ReplicaId::new("other"), number: 1 },
        renewal: 0,
        tenant: LedgerTenant { namespace: "ns".into(), user: "developer".into() },
        resource: LedgerResource::new("g/r"),
        namespace: "ns".into(),
        name: name.into(),
        uids: vec!["u".into()],
        base_version: "".into(),
        hold: 10_000,
        content: Content::Reference("0".into()),
    }
}

/// A replica whose cache is at version 10, with a ledger without entries.
fn replica(stored: u64) -> (ClusterState, Arc<SharedReservations>, LedgerRequests) {
    let cluster = cluster(ClusterOptions::of(Source::Live));
    apply_list(&cluster.caches[0], "10", &[]);
    let (shared, requests) = cluster.share_reservations("this");
    shared.handle(Input::Tick);
    shared.handle(Input::ReadFinished(Ok(ledger(1, stored, None))));
    (cluster, shared, requests)
}

fn creation() -> ObjectWrite {
    ObjectWrite {
        caches: vec![ResourceId(0)],
        resource: Some(("g".to_owned(), "r".to_owned())),
        key: key("mine"),
        user: user(),
        object: Some(object("mine", "", "m", "x")),
        old: None,
    }
}

fn every_object() -> RecordedQuery {
    RecordedQuery::Query(Box::default())
}

/// Appends a reservation. None if it waits for a write, which these tests do not make.
fn share(
    cluster: &ClusterState,
    open: Option<Box<OpenReservation>>,
    mark: LedgerMark,
) -> Option<Result<(), ShareError>> {
    let cache = cluster.caches[0].clone();
    let query = SharedQuery { id: ResourceId(0), cache, query: every_object() };
    let deadline = Instant::now() + Duration::from_secs(5);
    open.unwrap().share(vec![query], mark, deadline).now_or_never()
}

/// The import runs on another thread, so that it can come between any two steps of the reservation.
#[tokio::test]
async fn change_imported_during_a_reservation_outdates_the_evaluation() {
    let queries = vec![(ResourceId(0), every_object())];
    for round in 0..ROUNDS {
        let (cluster, shared, _requests) = replica(10);
        let seen = cluster.counters();
        let mark = cluster.ledger_mark(None).unwrap();
        let start = Barrier::new(2);
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                shared.handle(Input::Watched(ledger(2, 10, Some(foreign_entry("other")))));
            });
            start.wait();
            cluster.reserve(&creation(), &seen, &queries, None).unwrap()
        });
        let ReservationResult::Made(open) = result else { continue };
        let shared = share(&cluster, open, mark);
        assert!(matches!(shared, Some(Err(ShareError::Outdated))), "round {round}: {shared:?}");
    }
}

#[tokio::test]
async fn evaluation_is_as_new_as_its_oldest_query() {
    let queries = vec![(ResourceId(0), every_object())];
    // The version up to which changes have left the ledger, those of direct reads, whether another
    // query was answered by the cache, which is at 10, and whether the evaluation is outdated.
    for (stored, direct_reads, has_cached_read, is_outdated) in [
        (10, &[][..], false, false),
        (12, &[], false, true),
        (12, &[12], false, false),
        (12, &[11], false, true),
        (12, &[15, 11], false, true),
        (12, &[15, 13], false, false),
        (12, &[15], true, true),
        (10, &[15], true, false),
    ] {
        let (cluster, _shared, _requests) = replica(stored);
        let mut mark = cluster.ledger_mark(None).unwrap();
        for version in direct_reads {
            mark.record_direct_read(ResourceId(0), *version);
        }
        if has_cached_read {
            mark.record_cached_read(ResourceId(0));
        }
        let made = cluster.reserve(&creation(), &cluster.counters(), &queries, None).unwrap();
        let ReservationResult::Made(open) = made else { panic!("{made:?}") };
        let shared = share(&cluster, open, mark);
        let case = format!("{stored} {direct_reads:?} {has_cached_read}: {shared:?}");
        assert_eq!(matches!(shared, Some(Err(ShareError::Outdated))), is_outdated, "{case}");
        assert_eq!(shared.is_none(), !is_outdated, "{case}");
    }
}

/// A change of the stored object `name` by another replica.
fn foreign_update(name: &str, renewal: u32, base_version: &str) -> Entry {
    Entry { renewal, uids: Vec::new(), base_version: base_version.into(), ..foreign_entry(name) }
}

fn open_requests(cluster: &ClusterState, name: &str) -> usize {
    cluster.caches[0].pending_summary(&key(name)).0
}

#[tokio::test]
async fn extended_entry_waits_for_a_later_version() {
    let (cluster, shared, _requests) = replica(10);
    shared.handle(Input::Watched(ledger(2, 10, Some(foreign_update("other", 0, "10")))));
    shared.handle(Input::Watched(ledger(3, 10, Some(foreign_update("other", 1, "11")))));
    for (version, open) in [("11", 1), ("12", 0)] {
        cluster.caches[0].apply(object("other", version, "u", "x").root(), "");
        assert_eq!(open_requests(&cluster, "other"), open, "{version}");
    }
}

#[tokio::test]
async fn settled_entry_is_open_again_after_an_extension() {
    let (cluster, shared, _requests) = replica(10);
    shared.handle(Input::Watched(ledger(2, 10, Some(foreign_update("other", 0, "10")))));
    cluster.caches[0].apply(object("other", "11", "u", "x").root(), "");
    assert_eq!(open_requests(&cluster, "other"), 0);
    shared.handle(Input::Watched(ledger(3, 10, Some(foreign_update("other", 1, "11")))));
    shared.sweep();
    assert_eq!(open_requests(&cluster, "other"), 1);
    assert!(shared.has_imported(), "the ledger still needs it");
}

#[tokio::test]
async fn entry_without_uids_is_settled_by_no_object() {
    let (cluster, shared, _requests) = replica(10);
    let entry = Entry { uids: Vec::new(), ..foreign_entry("other") };
    shared.handle(Input::Watched(ledger(2, 10, Some(entry))));
    cluster.caches[0].apply(object("other", "11", "another", "x").root(), "");
    assert_eq!(open_requests(&cluster, "other"), 1);
}

#[tokio::test]
async fn waiting_update_is_evaluated_again_if_another_write_comes_first() {
    let (cluster, shared, _requests) = replica(10);
    let stored = object("mine", "9", "m", "x");
    apply_list(&cluster.caches[0], "10", std::slice::from_ref(&stored));
    let update = ObjectWrite {
        object: Some(object("mine", "9", "m", "y")),
        old: Some(stored),
        ..creation()
    };
    let queries = vec![(ResourceId(0), every_object())];
    let mark = cluster.ledger_mark(None).unwrap();
    let made = cluster.reserve(&update, &cluster.counters(), &queries, None).unwrap();
    let ReservationResult::Made(Some(open)) = made else { panic!("{made:?}") };
    let (id, cache) = (ResourceId(0), cluster.caches[0].clone());
    let query = SharedQuery { id, cache, query: every_object() };
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut sharing = std::pin::pin!(open.share(vec![query], mark, deadline));
    assert!(sharing.as_mut().now_or_never().is_none());
    cluster.caches[0].apply(object("mine", "11", "m", "z").root(), "");
    shared.sweep();
    let shared = sharing.now_or_never();
    assert!(matches!(shared, Some(Err(ShareError::Outdated))), "{shared:?}");
}

/// The owner has found that the object is not stored, long before the time of its entry is over.
#[tokio::test(start_paused = true)]
async fn entry_that_leaves_the_ledger_is_settled_at_once() {
    let (cluster, shared, _requests) = replica(10);
    shared.handle(Input::Watched(ledger(2, 10, Some(foreign_entry("other")))));
    let api = EmptyApi;
    let settle = watch::settle_reservations::settle_forever(&cluster.caches[0], &api);
    let rest = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(open_requests(&cluster, "other"), 1);
        shared.handle(Input::Watched(ledger(3, 10, None)));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(open_requests(&cluster, "other"), 0);
    };
    tokio::select! {
        () = settle => {}
        () = rest => {}
    }
}

/// An API server without objects.
struct EmptyApi;

impl DirectReadSource for EmptyApi {
    fn list<'a>(
        &'a self,
        cache: &'a ResourceCache,
        _: &'a QueryScope,
    ) -> BoxFuture<'a, Result<Listing, DirectReadError>> {
        Box::pin(async { Ok(Listing { version: "20".to_owned(), ..cache.empty() }) })
    }
}

#[tokio::test]
async fn creation_that_no_cache_keeps_is_not_appended() {
    let cluster = cluster_with_selector(
        ClusterOptions::of(Source::Live),
        r#"{"matchLabels": {"team": "a"}}"#,
    );
    apply_list(&cluster.caches[0], "10", &[]);
    let (_shared, _requests) = cluster.share_reservations("this");
    let queries = vec![(ResourceId(0), every_object())];
    let made = cluster.reserve(&creation(), &cluster.counters(), &queries, None).unwrap();
    assert!(matches!(made, ReservationResult::Made(None)), "{made:?}");
}

/// An update can take a label away: then other replicas must know the version that did. A creation that was never
/// stored raises no watermark: that of the read is newer than what a watch of a quiet resource reports for a minute,
/// and all evaluations would read directly until then.
#[tokio::test(start_paused = true)]
async fn version_of_an_object_that_a_selector_hides_is_the_outcome() {
    let one = |name: &str| ExcludedObjects::One(key(name), "15".to_owned());
    let any = || ExcludedObjects::Any("20".to_owned());
    let none = ExcludedObjects::None;
    for (entry, excluded, outcome) in [
        (foreign_update("other", 0, "9"), one("other"), Some("15")),
        (foreign_update("other", 0, "9"), one("another"), None),
        (foreign_update("other", 0, "9"), any(), Some("20")),
        (foreign_update("other", 0, "9"), none.clone(), None),
        (foreign_entry("other"), any(), Some("20")),
        (foreign_entry("other"), none, None),
    ] {
        let selector = r#"{"matchLabels": {"team": "a"}}"#;
        let cluster = cluster_with_selector(ClusterOptions::of(Source::Live), selector);
        let cache = &cluster.caches[0];
        apply_list(cache, "10", &[]);
        let (shared, _requests) = cluster.share_reservations("this");
        shared.handle(Input::Tick);
        shared.handle(Input::ReadFinished(Ok(ledger(1, 10, None))));
        shared.handle(Input::Watched(ledger(2, 10, Some(entry))));
        tokio::time::advance(Duration::from_secs(11)).await;
        let listing = Listing { version: "20".to_owned(), excluded, ..cache.empty() };
        cache.record_direct_read(&key("other"), &listing, Instant::now());
        let settled = cache.take_settled();
        assert_eq!(settled.len(), 1, "{:?}", listing.excluded);
        assert_eq!(settled[0].stored_version.as_deref(), outcome, "{:?}", listing.excluded);
    }
}

/// An API server with one object, `other`, without the labels of a cache. It evaluates `labelSelector`.
fn api_with_unlabelled_object() -> ApiServer {
    let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let object = object("other", "15", "o", "x").root().raw().into_owned();
        let items = if query.contains("labelSelector") { String::new() } else { object };
        let list =
            format!(r#"{{"kind":"List","metadata":{{"resourceVersion":"20"}},"items":[{items}]}}"#);
        Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(
            list.into_bytes(),
        )))
    });
    ApiServer::new(kube::Client::new(service, "default"), None)
}

/// A read of one object finds it without the labels of the cache. A list does not, and proves no absence.
#[tokio::test]
async fn reads_tell_absent_objects_from_those_with_other_labels() {
    let api = api_with_unlabelled_object();
    let excluded = async |selector: &str, name: Option<&str>| {
        let cluster = cluster_with_selector(ClusterOptions::of(Source::Live), selector);
        let read = api.list(&cluster.caches[0], Some("ns"), name, ReadPriority::Request).await;
        let listing = read.unwrap();
        (listing.objects.get(&key("other")).is_some(), listing.excluded)
    };
    let team = r#"{"matchLabels": {"team": "a"}}"#;
    let one = ExcludedObjects::One(key("other"), "15".to_owned());
    assert_eq!(excluded(team, Some("other")).await, (false, one));
    assert_eq!(excluded(team, None).await, (false, ExcludedObjects::Any("20".to_owned())));
    assert_eq!(excluded("{}", Some("other")).await, (true, ExcludedObjects::None));
    assert_eq!(excluded("{}", None).await, (true, ExcludedObjects::None));
}

/// A cache of one namespace has the reservations of all: its lists do not show the outcome of the others.
#[tokio::test(start_paused = true)]
async fn list_of_one_namespace_settles_no_objects_of_others() {
    for (namespace, pending) in [(None, 0), (Some("ns"), 0), (Some("another"), 1)] {
        let cluster = cluster_of(ClusterOptions::of(Source::Live), "{}", namespace);
        let cache = &cluster.caches[0];
        apply_list(cache, "10", &[]);
        let (shared, _requests) = cluster.share_reservations("this");
        shared.handle(Input::Tick);
        shared.handle(Input::ReadFinished(Ok(ledger(1, 10, None))));
        shared.handle(Input::Watched(ledger(2, 10, Some(foreign_update("other", 0, "9")))));
        assert_eq!(cache.pending_summary(&key("other")).0, 1, "{namespace:?}");
        apply_list(cache, "20", &[]);
        assert_eq!(cache.pending_summary(&key("other")).0, pending, "{namespace:?}");
    }
}

/// The ledger has a watermark of a resource that was removed from the cluster.
#[tokio::test]
async fn resource_that_is_gone_is_read_directly() {
    let (cluster, _shared, _requests) = replica(12);
    cluster.caches[0].mark_absent();
    cluster.caches[0].require_version(12);
    assert_eq!(cluster.caches[0].missing_version(), Some(12));
}

/// What shared reservations add to a request that reserves nothing, for one cache.
#[test]
#[ignore = "prints figures; see docs/performance.md"]
fn figures() {
    const CALLS: u32 = 1_000_000;
    let local = cluster(ClusterOptions::of(Source::Live));
    let (shared, _machine, _requests) = replica(0);
    for (name, cluster) in [("local", &local), ("shared", &shared)] {
        let began = std::time::Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(std::hint::black_box(cluster).ledger_mark(None));
        }
        println!("{name}: {} ns a request", began.elapsed().as_nanos() / u128::from(CALLS));
    }
}
