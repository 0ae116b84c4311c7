//! Two cluster states at once: one replaces the other.

use super::*;
use crate::cluster::ledger::MAX_APPEND_TIME;

/// A read of these fields in addition to those that are always stored.
fn resolved_read(fields: &[&str]) -> ResolvedRead {
    let resource = Resource { group: "g".into(), version: "v1".into(), resource: "r".into() };
    let fields: Vec<_> = fields.iter().map(|field| (*field).to_owned()).collect();
    let declaration = Declaration::new(&fields, &[], &[]).unwrap();
    let labels = Selector::default();
    ResolvedRead { resource, declaration, labels, namespace: None, optional: false }
}

fn live_cluster(readings: &[ResolvedRead]) -> ClusterState {
    ClusterState::new(readings, ClusterOptions::of(Source::Live))
}

/// A change of an object that policies with either cluster state may decide.
fn write(cluster: &ClusterState, name: &str) -> ObjectWrite {
    let kinds = cluster.caches_with_ids().map(|(id, _)| id).collect();
    let resource = Some(("g".to_owned(), "r".to_owned()));
    let object = Some(object(name, "", name, "x"));
    ObjectWrite { caches: kinds, resource, key: key(name), user: user(), object, old: None }
}

/// Queries for all objects, which conflict with any other change.
fn query_all(cluster: &ClusterState) -> Vec<(ResourceId, RecordedQuery)> {
    cluster.caches_with_ids().map(|(id, _)| (id, RecordedQuery::Anything)).collect()
}

fn reserve(cluster: &ClusterState, name: &str, seen: &[ReservationCounters]) -> ReservationResult {
    cluster.reserve(&write(cluster, name), seen, &query_all(cluster), None).unwrap()
}

#[test]
fn identical_reads_share_a_cache() {
    let old = live_cluster(&[resolved_read(&["/spec", "/status"])]);
    for (fields, shared) in [
        (&["/spec", "/status"][..], true),
        (&["/status", "/spec"], true),
        (&["/spec"], false),
        (&["/spec", "/status", "/data"], false),
    ] {
        let new = ClusterState::replacing(&[resolved_read(fields)], &old);
        assert_eq!(new.shares(&old.caches[0]), shared, "{fields:?}");
    }
    let elsewhere =
        ResolvedRead { namespace: Some("ns".into()), ..resolved_read(&["/spec", "/status"]) };
    let labels = opgate_cluster::parse_selector(
        Document::parse(r#"{"matchLabels":{"a":"b"}}"#).unwrap().root(),
    );
    let labelled = ResolvedRead { labels: labels.unwrap(), ..resolved_read(&["/spec", "/status"]) };
    let optional = ResolvedRead { optional: true, ..resolved_read(&["/spec", "/status"]) };
    for other in [elsewhere, labelled, optional] {
        assert!(!ClusterState::replacing(&[other], &old).shares(&old.caches[0]));
    }
}

/// If two requests are evaluated at the same time, one with each cluster state, the second one
/// must be evaluated again, whichever it is and whatever the two store.
#[tokio::test]
async fn two_caches_never_allow_conflicting_requests() {
    for fields in [&["/spec"][..], &["/spec", "/data"], &["/data"]] {
        for old_first in [true, false] {
            let old = live_cluster(&[resolved_read(&["/spec"])]);
            let new = ClusterState::replacing(&[resolved_read(fields)], &old);
            let (first, second) = if old_first { (&old, &new) } else { (&new, &old) };
            let (seen_first, seen_second) = (first.counters(), second.counters());
            assert!(matches!(reserve(first, "a", &seen_first), ReservationResult::Made(None)));
            assert!(
                matches!(reserve(second, "b", &seen_second), ReservationResult::Outdated),
                "{fields:?}"
            );
            // The repeated evaluation sees the other one.
            let found = second.caches[0].get(&key("a"), None, PossibleState::Pending(0));
            let why = format!("{fields:?} {old_first}");
            apply_list(&second.caches[0], "1", &[]);
            assert!(found.is_err() || found.unwrap().differs_by_state, "{why}");
            let found =
                second.caches[0].get(&key("a"), None, PossibleState::UnionPreferPending).unwrap();
            assert!(found.differs_by_state && found.object.is_some(), "{why}");
            assert!(matches!(
                reserve(second, "b", &second.counters()),
                ReservationResult::Made(None)
            ));
        }
    }
}

/// A dropped cluster state receives nothing, and the other one is alone again.
#[tokio::test]
async fn dropped_cache_gets_no_reservations() {
    let old = live_cluster(&[resolved_read(&["/spec"])]);
    let kind = Arc::downgrade(&old.caches[0]);
    let new = ClusterState::replacing(&[resolved_read(&["/data"])], &old);
    assert!(!old.registry_handle.is_only_handle());
    drop(old);
    assert!(new.registry_handle.is_only_handle() && kind.upgrade().is_none());
    assert!(matches!(reserve(&new, "a", &new.counters()), ReservationResult::Made(None)));
    // Three generations at a time.
    let next = ClusterState::replacing(&[resolved_read(&["/spec"])], &new);
    let last = ClusterState::replacing(&[resolved_read(&["/spec", "/data"])], &next);
    assert!(matches!(reserve(&last, "b", &last.counters()), ReservationResult::Made(None)));
    for cluster in [&new, &next, &last] {
        assert_eq!(cluster.caches[0].pending_summary(&key("b")).0, 1);
    }
}

/// The content of a shared kind stays: no list, no gap.
#[tokio::test]
async fn reservation_survives_a_change_of_the_policy_set() {
    let old = live_cluster(&[resolved_read(&["/spec"])]);
    apply_list(&old.caches[0], "1", &[object("there", "1", "t", "x")]);
    assert!(matches!(reserve(&old, "a", &old.counters()), ReservationResult::Made(None)));
    let more = ResolvedRead {
        resource: Resource { group: "g".into(), version: "v1".into(), resource: "more".into() },
        ..resolved_read(&["/spec"])
    };
    let new = ClusterState::replacing(&[more, resolved_read(&["/spec"])], &old);
    drop(old);
    let kind = &new.caches[1];
    assert!(kind.get(&key("there"), None, PossibleState::Stored).unwrap().object.is_some());
    assert!(kind.get(&key("a"), None, PossibleState::Stored).unwrap().differs_by_state);
    // The list that shows it settles it, in the new cluster state as in the old one.
    apply_list(kind, "2", &[object("there", "1", "t", "x"), object("a", "2", "a", "x")]);
    assert!(!kind.get(&key("a"), None, PossibleState::Stored).unwrap().differs_by_state);
}

/// The new cluster state is synced as soon as the kinds are that only it has, except for those
/// that the old one has not listed either.
#[tokio::test]
async fn only_new_reads_delay_the_candidate_cache() {
    use futures_util::FutureExt as _;
    let of = |resource: &str, fields: &[&str]| ResolvedRead {
        resource: Resource { group: "g".into(), version: "v1".into(), resource: resource.into() },
        ..resolved_read(fields)
    };
    let old = live_cluster(&[of("shared", &["/spec"]), of("missing", &["/spec"])]);
    let new = ClusterState::replacing(
        &[of("shared", &["/spec"]), of("missing", &["/data"]), of("new", &["/spec"])],
        &old,
    );
    assert!(new.wait_synced_except(&old).now_or_never().is_none());
    apply_list(&new.caches[2], "1", &[]);
    assert!(new.wait_synced_except(&old).now_or_never().is_some());
    assert!(!new.is_synced());
}

/// If a change exceeds the limits of a cluster state that does not serve yet, no request fails,
/// and that cluster state does not serve.
#[tokio::test]
async fn cache_that_missed_a_reservation_is_not_activated() {
    let bounds = ReservationLimits { count: 8, bytes: 1 << 20 };
    let options = ClusterOptions { reservation_limits: bounds, ..ClusterOptions::of(Source::Live) };
    let bundle = |fields: &[&str]| resolved_read(fields);
    let old = ClusterState::new(&[bundle(&["/spec"])], options);
    apply_list(&old.caches[0], "1", &[]);
    let new = ClusterState::replacing(&[bundle(&["/data"])], &old);
    let good = ClusterState::replacing(&[bundle(&["/data"])], &old);
    assert!(matches!(reserve(&old, "first", &old.counters()), ReservationResult::Made(None)));
    assert!(good.activate());
    drop(good);
    for number in 0..20 {
        let name = format!("r{number}");
        // The watch of the old cluster state shows each at once, that of the new one has not
        // begun.
        assert!(matches!(reserve(&old, &name, &old.counters()), ReservationResult::Made(None)));
        old.caches[0].apply(object(&name, "2", &name, "x").root(), "");
    }
    assert!(!new.activate());
}

/// Other replicas may have begun to serve with the new cluster state.
#[tokio::test]
async fn change_that_only_a_waiting_cache_cannot_keep_is_appended() {
    let bounds = ReservationLimits { count: 2, bytes: 1 << 20 };
    let options = ClusterOptions { reservation_limits: bounds, ..ClusterOptions::of(Source::Live) };
    let old = ClusterState::new(&[], options);
    let (_shared, _requests) = old.share_reservations("this");
    let new = ClusterState::replacing(&[resolved_read(&["/spec"])], &old);
    let mut open = Vec::new();
    for name in ["a", "b", "c"] {
        let made = reserve(&old, name, &[]);
        let ReservationResult::Made(Some(reservation)) = made else { panic!("{name}: {made:?}") };
        open.push(reservation);
    }
    assert!(!new.activate());
}

/// A reload waits this long before its first list: what was allowed before may be stored until then.
#[tokio::test]
async fn reservation_time_includes_the_wait_for_the_ledger() {
    let local = live_cluster(&[resolved_read(&["/spec"])]);
    let ttl = ClusterOptions::of(Source::Live).reservation_ttl;
    assert_eq!(local.max_reservation_time(), ttl);
    let (_shared, _requests) = local.share_reservations("this");
    let new = ClusterState::replacing(&[resolved_read(&["/data"])], &local);
    assert_eq!(new.max_reservation_time(), ttl + MAX_APPEND_TIME);
}
