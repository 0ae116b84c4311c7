//! The objects of a kind in each possible state, and the age of its cache.

use std::sync::Arc;
use std::time::Duration;

use opgate_cluster::{Object, Query};

use super::*;
use crate::cluster::CacheUnavailable;

const PENDING: PossibleState = PossibleState::Pending(0);

fn live_cache() -> Arc<ResourceCache> {
    let kind = cluster(ClusterOptions::of(Source::Live)).caches.remove(0);
    apply_list(&kind, "1", &[]);
    kind
}

/// A kind that only stores objects without the label `hidden`.
fn cache_without_hidden() -> Arc<ResourceCache> {
    let selector = r#"{"matchExpressions":[{"key":"hidden","operator":"DoesNotExist"}]}"#;
    let kind = cluster_with_selector(ClusterOptions::of(Source::Live), selector).caches.remove(0);
    apply_list(&kind, "1", &[]);
    kind
}

/// Names and specs of all objects in a possible state.
fn names_and_specs(kind: &ResourceCache, world: PossibleState) -> String {
    let found = kind.select(&Query::default(), usize::MAX, None, world, None).unwrap();
    texts(&found.objects)
}

fn texts(objects: &[Arc<Object>]) -> String {
    let spec = |o: &Arc<Object>| o.document().get("/spec").unwrap().text().unwrap().to_owned();
    let one = |o: &Arc<Object>| format!("{}={}", o.key().name, spec(o));
    objects.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn all_possible_states(kind: &ResourceCache) -> [String; 3] {
    [PossibleState::Stored, PENDING, PossibleState::UnionPreferPending]
        .map(|world| names_and_specs(kind, world))
}

fn reserve(kind: &ResourceCache, name: &str, uid: &str, before: &str, spec: &str) {
    let object = object(name, before, uid, spec);
    assert!(reserve_for(kind, "u", &key(name), &object, before));
}

async fn advance_time(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn reservation_does_not_hide_stored_objects() {
    let kind = live_cache();
    kind.apply(object("a", "2", "u", "old").root(), "");
    kind.apply(object("b", "3", "v", "other").root(), "");
    reserve(&kind, "a", "u", "2", "new");
    let both = "a=old a=new b=other";
    assert_eq!(all_possible_states(&kind), ["a=old b=other", "a=new b=other", both]);
    assert_eq!(names_and_specs(&kind, PossibleState::UnionPreferStored), both);
    let single = [
        (PossibleState::Stored, "old"),
        (PENDING, "new"),
        (PossibleState::UnionPreferPending, "new"),
        (PossibleState::UnionPreferStored, "old"),
    ];
    for (world, spec) in single {
        let got = kind.get(&key("a"), None, world).unwrap();
        assert_eq!(texts(&[got.object.unwrap()]), format!("a={spec}"));
        assert!(got.differs_by_state);
    }
    assert!(!kind.get(&key("b"), None, PossibleState::Stored).unwrap().differs_by_state);

    // A second request about the same object leaves the first one in its place.
    reserve(&kind, "a", "u", "2", "third");
    assert_eq!(names_and_specs(&kind, PENDING), "a=new b=other");
    assert_eq!(names_and_specs(&kind, PossibleState::Pending(1)), "a=third b=other");
    assert_eq!(
        names_and_specs(&kind, PossibleState::UnionPreferPending),
        "a=old a=new a=third b=other"
    );

    // However small the pages are, all copies are on them.
    for limit in 1..4 {
        let (mut after, mut skip, mut found) = (None, usize::MAX, Vec::new());
        loop {
            let query = Query { limit, after: after.clone(), ..Query::default() };
            let page =
                kind.select(&query, skip, None, PossibleState::UnionPreferPending, None).unwrap();
            found.extend(page.objects.iter().cloned());
            if page.objects.len() < limit {
                break;
            }
            after = page.objects.last().map(|object| object.key().clone());
            skip = page.copies_of_last;
        }
        assert_eq!(texts(&found), "a=old a=new a=third b=other", "pages of {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn pending_change_touches_queries_for_old_and_new_value() {
    let kind = live_cache();
    kind.apply(object("a", "2", "u", "old").root(), "");
    reserve(&kind, "a", "u", "2", "new");
    for (spec, worlds) in [("old", ["a=old", "", "a=old"]), ("new", ["", "a=new", "a=new"])] {
        let values = Arc::new(std::iter::once(spec.to_owned()).collect());
        let matches = vec![opgate_cluster::IndexMatch { index: 0, values, include_missing: false }];
        let query = Query { matches, ..Query::default() };
        for (world, expected) in [PossibleState::Stored, PENDING, PossibleState::UnionPreferPending]
            .into_iter()
            .zip(worlds)
        {
            let found = kind.select(&query, usize::MAX, None, world, None).unwrap();
            assert_eq!(texts(&found.objects), expected, "{spec} in {world:?}");
            assert_eq!(found.pending_objects, [key("a")], "{spec} in {world:?}");
        }
    }
    let elsewhere = Query { namespace: Some("other".to_owned()), ..Query::default() };
    let found =
        kind.select(&elsewhere, usize::MAX, None, PossibleState::UnionPreferPending, None).unwrap();
    assert!(found.pending_objects.is_empty() && found.objects.is_empty());
}

#[tokio::test(start_paused = true)]
async fn object_hidden_by_a_change_is_gone_in_one_possible_state() {
    let kind = cache_without_hidden();
    kind.apply(object("a", "2", "u", "old").root(), "");
    let json = r#"{"metadata":{"name":"a","namespace":"ns","uid":"u","resourceVersion":"2","labels":{"hidden":""}},"spec":"old"}"#;
    assert!(reserve_for(&kind, "u", &key("a"), &Document::parse(json).unwrap(), "2"));
    assert_eq!(all_possible_states(&kind), ["a=old", "", "a=old"]);
}

#[tokio::test(start_paused = true)]
async fn events_settle_only_covered_reservations() {
    let kind = live_cache();
    let pending = |name: &str| kind.pending_summary(&key(name)).0;
    // A new object is settled by its uid, not by another one of its name (409).
    reserve(&kind, "a", "new", "", "wanted");
    kind.apply(object("a", "2", "old", "stored").root(), "");
    assert_eq!(pending("a"), 1);
    assert_eq!(all_possible_states(&kind), ["a=stored", "a=wanted", "a=stored a=wanted"]);
    kind.delete(&key("a"), "3", "old");
    assert_eq!(pending("a"), 1, "now there is room for it");
    kind.apply(object("a", "4", "new", "wanted").root(), "");
    assert_eq!(pending("a"), 0);
    // A change is settled by any version after the one that it changes.
    reserve(&kind, "a", "new", "4", "changed");
    kind.apply(object("a", "4", "new", "wanted").root(), "");
    assert_eq!(pending("a"), 1, "an old event settles nothing");
    kind.apply(object("a", "5", "new", "changed by another").root(), "");
    assert_eq!(pending("a"), 0);
    reserve(&kind, "a", "new", "5", "again");
    kind.delete(&key("a"), "6", "new");
    assert_eq!(
        (pending("a"), names_and_specs(&kind, PossibleState::UnionPreferPending)),
        (0, String::new())
    );
    // If the uid is not known, any object of the name settles a new one.
    reserve(&kind, "b", "", "", "wanted");
    kind.apply(object("b", "7", "u", "wanted").root(), "");
    assert_eq!(pending("b"), 0);

    // So do lists.
    reserve(&kind, "new", "n", "", "wanted");
    reserve(&kind, "unseen", "x", "", "wanted");
    reserve(&kind, "b", "u", "7", "changed");
    reserve(&kind, "gone", "g", "5", "changed");
    apply_list(&kind, "9", &[object("new", "8", "n", "wanted"), object("b", "7", "u", "wanted")]);
    assert_eq!(["new", "unseen", "b", "gone"].map(pending), [0, 1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn reservation_ends_with_a_watch_event_after_its_ttl() {
    let kind = live_cache();
    reserve(&kind, "a", "u", "", "refused by another webhook");
    advance_time(1).await;
    kind.record_bookmark("2");
    assert_eq!(kind.pending_summary(&key("a")).0, 1, "it may still be stored");
    advance_time(60).await;
    assert_eq!(kind.pending_summary(&key("a")).0, 1, "the watch has said nothing since");
    kind.record_error("forbidden".to_owned());
    assert_eq!(kind.pending_summary(&key("a")).0, 1, "and a failure tells nothing");
    kind.record_bookmark("3");
    assert_eq!(kind.pending_summary(&key("a")).0, 0);
}

#[tokio::test(start_paused = true)]
async fn direct_read_settles_covered_reservations() {
    let kind = live_cache();
    let read = |objects: &[Arc<Document>], version: &str| {
        let mut listing = Listing { version: version.to_owned(), ..kind.empty() };
        for object in objects {
            kind.add_object(&mut listing, object.root(), "");
        }
        kind.record_direct_read(&key("a"), &listing, tokio::time::Instant::now());
    };
    let pending = || kind.pending_summary(&key("a")).0;
    reserve(&kind, "a", "u", "", "wanted");
    read(&[], "5");
    assert_eq!(pending(), 1, "it may be on its way");
    read(&[object("a", "4", "other", "stored")], "5");
    assert_eq!(pending(), 1, "it may follow another one of its name");
    assert_eq!(
        names_and_specs(&kind, PossibleState::Stored),
        "a=stored",
        "what was read counts before the watch"
    );
    advance_time(3).await;
    read(&[], "5");
    assert_eq!(
        (pending(), names_and_specs(&kind, PossibleState::UnionPreferPending)),
        (0, String::new()),
        "it never came"
    );

    reserve(&kind, "a", "u", "", "wanted");
    read(&[object("a", "6", "u", "wanted")], "6");
    assert_eq!(pending(), 0);
    assert_eq!(all_possible_states(&kind), ["a=wanted", "a=wanted", "a=wanted"]);
    kind.apply(object("a", "4", "old", "late event").root(), "");
    assert_eq!(
        names_and_specs(&kind, PossibleState::Stored),
        "a=wanted",
        "the watch is still behind"
    );
    kind.delete(&key("a"), "7", "u");
    assert_eq!(names_and_specs(&kind, PossibleState::Stored), "", "now it is ahead");
}

#[tokio::test(start_paused = true)]
async fn direct_read_counts_until_the_watch_catches_up() {
    let kind = live_cache();
    kind.apply(object("a", "5", "u", "watched").root(), "");
    let fresh = |version: &str, objects: &[Arc<Document>]| {
        let mut listing = Listing { version: version.to_owned(), ..kind.empty() };
        for object in objects {
            kind.add_object(&mut listing, object.root(), "");
        }
        listing
    };
    let newer = fresh("7", &[object("a", "6", "u", "read"), object("b", "7", "v", "read")]);
    let see = |listing: &Listing| {
        let query = Query::default();
        let found =
            kind.select(&query, usize::MAX, Some(listing), PossibleState::Stored, None).unwrap();
        texts(&found.objects)
    };
    assert_eq!(see(&newer), "a=read b=read");
    // Reserved and settled since the read: the watch is ahead of it, and nothing is missed.
    kind.apply(object("c", "8", "w", "meanwhile").root(), "");
    assert_eq!(see(&newer), "a=watched c=meanwhile");
}

#[tokio::test(start_paused = true)]
async fn unreadable_object_fails_only_matching_queries() {
    let kind = live_cache();
    kind.apply(object("a", "2", "u", "readable").root(), "");
    let deep = format!("{}1{}", "[".repeat(600), "]".repeat(600));
    let json = format!(
        r#"{{"metadata":{{"name":"bad","namespace":"elsewhere","resourceVersion":"3"}},"spec":{deep}}}"#
    );
    let bad = Document::parse_deep(json).unwrap();
    kind.apply(bad.root(), "");
    let ask = |namespace: Option<&str>| {
        let query = Query { namespace: namespace.map(str::to_owned), ..Query::default() };
        kind.select(&query, usize::MAX, None, PossibleState::Stored, None)
            .map(|found| found.objects.len())
    };
    let why = "g/v1/r holds elsewhere/bad, which cannot be read: a field that policies read nests deeper than 512 levels";
    let error = CacheUnavailable::NotReady(why.to_owned());
    assert_eq!(ask(Some("ns")), Ok(1));
    assert_eq!(ask(Some("elsewhere")), Err(error.clone()));
    assert_eq!(ask(None), Err(error.clone()));
    let bad_key = Key::new("elsewhere", "bad");
    assert_eq!(kind.get(&bad_key, None, PossibleState::Stored).err(), Some(error));
    assert!(kind.get(&Key::new("elsewhere", "x"), None, PossibleState::Stored).is_ok());
    assert_eq!(kind.status().unreadable, 1);
    // A list skips it as well; it is good again once it can be read or is gone.
    let mut listing = kind.empty();
    kind.add_object(&mut listing, bad.root(), "");
    kind.replace(listing, tokio::time::Instant::now());
    assert_eq!((ask(Some("ns")), kind.status().unreadable), (Ok(0), 1));
    kind.delete(&bad_key, "4", "");
    assert_eq!((ask(None), kind.status().unreadable), (Ok(0), 0));
}

/// Queries that do not return an unreadable object have the same results while its name is the same.
#[tokio::test(start_paused = true)]
async fn fingerprint_has_the_names_of_unreadable_objects() {
    let keys = std::hash::RandomState::new();
    let deep = format!("{}1{}", "[".repeat(600), "]".repeat(600));
    let bad = |name: &str, version: &str| {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"ns","resourceVersion":"{version}"}},"spec":{deep}}}"#
        );
        Arc::new(Document::parse_deep(json).unwrap())
    };
    let fingerprint = |objects: &[Arc<Document>]| {
        let kind = live_cache();
        let mut listing = kind.empty();
        for object in objects {
            kind.add_object(&mut listing, object.root(), "");
        }
        kind.replace(listing, tokio::time::Instant::now());
        kind.content_fingerprint(&keys).unwrap()
    };
    let good = || object("a", "2", "u", "readable");
    let expected = fingerprint(&[good(), bad("b", "3")]);
    assert_eq!(fingerprint(&[good(), bad("b", "4")]), expected);
    for others in [vec![good()], vec![bad("b", "3")], vec![good(), bad("c", "3")]] {
        assert_ne!(fingerprint(&others), expected);
    }
}

/// An object that is hidden by its labels is not gone: a change that shows it again may follow.
#[tokio::test(start_paused = true)]
async fn object_hidden_by_labels_does_not_count_as_deleted() {
    let kind = cache_without_hidden();
    let pending = || kind.pending_summary(&key("a")).0;
    let now = tokio::time::Instant::now;
    reserve(&kind, "a", "u", "6", "visible again");
    // The event that hid it comes late; a read and a list do not show it yet.
    kind.delete(&key("a"), "6", "u");
    let read = |version: &str, labels: &str| {
        let json = format!(
            r#"{{"metadata":{{"name":"a","namespace":"ns","uid":"u","resourceVersion":"6","labels":{labels}}}}}"#
        );
        let mut listing = Listing { version: version.to_owned(), ..kind.empty() };
        kind.add_object(&mut listing, Document::parse(&json).unwrap().root(), "");
        kind.record_direct_read(&key("a"), &listing, now());
    };
    read("7", r#"{"hidden":""}"#);
    apply_list(&kind, "7", &[]);
    assert_eq!(pending(), 1);
    advance_time(3).await;
    read("8", r#"{"hidden":""}"#);
    assert_eq!(pending(), 0, "it never came");
    reserve(&kind, "a", "u", "6", "visible again");
    kind.record_direct_read(&key("a"), &Listing { version: "8".to_owned(), ..kind.empty() }, now());
    assert_eq!(pending(), 0, "without the object no change of it can be stored");
    reserve(&kind, "a", "u", "8", "again");
    kind.delete(&key("a"), "9", "u");
    assert_eq!(pending(), 0, "this is a later end");
}

/// A list shows the objects at its start, however long it takes.
#[tokio::test(start_paused = true)]
async fn slow_list_settles_only_changes_before_its_start() {
    let kind = live_cache();
    let began = tokio::time::Instant::now();
    advance_time(1).await;
    reserve(&kind, "new", "n", "", "wanted");
    reserve(&kind, "changed", "c", "20", "wanted");
    let mut there = Listing { version: "22".to_owned(), ..kind.empty() };
    kind.add_object(&mut there, object("known", "21", "k", "read directly").root(), "");
    reserve(&kind, "known", "k", "", "read directly");
    kind.record_direct_read(&key("known"), &there, tokio::time::Instant::now());
    advance_time(30).await;
    kind.replace(Listing { version: "10".to_owned(), ..kind.empty() }, began);
    let pending = |name: &str| kind.pending_summary(&key(name)).0;
    assert_eq!((pending("new"), pending("changed")), (1, 1));
    assert_eq!(names_and_specs(&kind, PossibleState::Stored), "known=read directly");
    // The watch continues from there.
    kind.record_bookmark("30");
    assert_eq!((pending("new"), pending("changed")), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn restored_etcd_resets_the_cache() {
    let kind = live_cache();
    kind.apply(object("a", "900", "u", "later").root(), "");
    let mut there = Listing { version: "1000".to_owned(), ..kind.empty() };
    kind.add_object(&mut there, object("b", "1000", "v", "later").root(), "");
    reserve(&kind, "b", "v", "", "later");
    kind.record_direct_read(&key("b"), &there, tokio::time::Instant::now());
    reserve(&kind, "a", "u", "900", "changed");
    apply_list(&kind, "500", &[object("a", "400", "u", "earlier")]);
    assert_eq!(all_possible_states(&kind), ["a=earlier", "a=earlier", "a=earlier"]);
}

#[tokio::test(start_paused = true)]
async fn object_with_a_different_name_is_not_reserved() {
    let kind = live_cache();
    let forged = object("a", "", "u", "x");
    for number in 0..300 {
        assert!(reserve_for(&kind, "u", &key(&format!("z{number}")), &forged, ""));
    }
    assert_eq!(
        (names_and_specs(&kind, PossibleState::UnionPreferPending), kind.status().reservations),
        (String::new(), 0)
    );
}

/// Tries to reserve the creation of an object.
fn try_reserve(kind: &ResourceCache, user: &str, namespace: &str, name: &str, spec: &str) -> bool {
    let json =
        format!(r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}},"spec":"{spec}"}}"#);
    let object = Document::parse(&json).unwrap();
    reserve_for(kind, user, &Key::new(namespace, name), &object, "")
}

#[tokio::test(start_paused = true)]
async fn reservations_of_all_tenants_are_bounded() {
    let bounds = ReservationLimits { count: 16, bytes: 100_000 };
    let kind =
        cluster(ClusterOptions { reservation_limits: bounds, ..ClusterOptions::of(Source::Live) })
            .caches
            .remove(0);
    apply_list(&kind, "1", &[]);
    let numbers = |count: u32| (0..count).map(|number| number.to_string());
    assert!(numbers(8).all(|name| try_reserve(&kind, "eve", "a", &name, "x")));
    assert!(
        !try_reserve(&kind, "eve", "a", "8", "x"),
        "eve and her namespace have half of the room"
    );
    assert!(!try_reserve(&kind, "eve", "b", "a", "x"), "in another namespace, too");
    assert!(!try_reserve(&kind, "bob", "a", "b", "x"), "and the namespace for another user");
    assert!(try_reserve(&kind, "eve", "a", "7", "x"), "an equal request needs no room");
    assert!(numbers(4).all(|n| try_reserve(&kind, &format!("u{n}"), &format!("n{n}"), "x", "x")));
    assert_eq!(kind.status().reservations, 12);
    advance_time(20).await;
    assert!(!try_reserve(&kind, "eve", "a", "8", "x"), "the watch has not spoken");
    kind.record_bookmark("2");
    assert!(try_reserve(&kind, "eve", "a", "8", "x"));
    assert_eq!(kind.status().reservations, 1);
}

/// The result of a query for this value with requests in progress: whether it cannot be answered,
/// and how many objects differ in other possible states.
fn select_with_pending(kind: &ResourceCache, namespace: &str, spec: &str) -> (bool, usize) {
    let values = Arc::new(std::iter::once(spec.to_owned()).collect());
    let matches = vec![opgate_cluster::IndexMatch { index: 0, values, include_missing: false }];
    let query = Query { namespace: Some(namespace.to_owned()), matches, ..Query::default() };
    let found =
        kind.select(&query, usize::MAX, None, PossibleState::UnionPreferPending, None).unwrap();
    (found.is_unsure, found.pending_objects.len())
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_tenant_for_an_object_share_a_reservation() {
    let bounds = ReservationLimits { count: 16, bytes: 100_000 };
    let kind =
        cluster(ClusterOptions { reservation_limits: bounds, ..ClusterOptions::of(Source::Live) })
            .caches
            .remove(0);
    apply_list(&kind, "1", &[]);
    for number in 0..300 {
        assert!(try_reserve(&kind, "eve", "a", "a", &format!("v{number}")), "{number}");
    }
    assert_eq!(kind.status().reservations, 8);
    assert!(try_reserve(&kind, "bob", "b", "a", "x"), "others have their places");
    // Each of them can still be the one that is stored.
    for (spec, expected) in
        [("v0", (false, 1)), ("v6", (false, 1)), ("v7", (true, 1)), ("v299", (true, 1))]
    {
        assert_eq!(select_with_pending(&kind, "a", spec), expected, "{spec}");
    }
    assert_eq!(select_with_pending(&kind, "a", "other"), (false, 0));
    assert_eq!(select_with_pending(&kind, "b", "v299"), (false, 0));
    // More values than an outline may have: they need separate entries again, of which the user
    // has used her half.
    let admitted = (300..2_000).filter(|n| try_reserve(&kind, "eve", "a", "a", &format!("v{n}")));
    assert!((600..1_200).contains(&admitted.count()));
    assert_eq!(
        select_with_pending(&kind, "a", "other"),
        (false, 0),
        "another value is still known to be free"
    );
    assert!(try_reserve(&kind, "carol", "c", "c", "x"));
    advance_time(20).await;
    kind.record_bookmark("2");
    assert!(try_reserve(&kind, "eve", "a", "a", "x"));
    assert_eq!(kind.status().reservations, 1, "all of them end");
}

#[tokio::test(start_paused = true)]
async fn large_object_is_reserved_as_an_outline() {
    let bounds = ReservationLimits { count: 16, bytes: 100_000 };
    let kind =
        cluster(ClusterOptions { reservation_limits: bounds, ..ClusterOptions::of(Source::Live) })
            .caches
            .remove(0);
    apply_list(&kind, "1", &[]);
    let large = "x".repeat(2_000_000);
    assert!(try_reserve(&kind, "eve", "a", "large", &large));
    assert!(try_reserve(&kind, "bob", "b", "small", "y"), "it leaves room for others");
    assert_eq!(select_with_pending(&kind, "a", &large), (true, 1), "it cannot be shown");
    assert_eq!(select_with_pending(&kind, "a", "other"), (false, 0));
    assert_eq!(select_with_pending(&kind, "b", &large), (false, 0));
    let got = kind.get(&Key::new("a", "large"), None, PENDING).unwrap();
    assert!(got.is_unsure && got.differs_by_state);
    assert!(!kind.get(&Key::new("a", "large"), None, PossibleState::Stored).unwrap().is_unsure);
}

#[tokio::test(start_paused = true)]
async fn equal_requests_are_one_reservation_that_is_extended() {
    let kind = live_cache();
    kind.apply(object("a", "2", "u", "stored").root(), "");
    for uid in 0..40 {
        reserve(&kind, "a", &format!("uid-{uid}"), "", "wanted");
        advance_time(1).await;
    }
    assert_eq!(kind.status().reservations, 1);
    assert_eq!(
        kind.ended_keys(tokio::time::Instant::now(), 9),
        [],
        "the last one has one more second"
    );
    advance_time(1).await;
    assert_eq!(kind.ended_keys(tokio::time::Instant::now(), 9), [key("a")]);
    // A creation of an object that is stored already changes nothing while it is stored.
    reserve(&kind, "a", "other", "", "stored");
    let shown = |kind: &ResourceCache| names_and_specs(kind, PossibleState::UnionPreferPending);
    assert_eq!(shown(&kind), "a=stored a=wanted");
    kind.delete(&key("a"), "3", "u");
    assert_eq!(shown(&kind), "a=wanted a=stored");
    kind.apply(object("a", "4", "v", "wanted").root(), "");
    assert_eq!(shown(&kind), "a=wanted a=stored", "now the other one is stored");
}

#[tokio::test(start_paused = true)]
async fn uid_of_an_equal_request_settles_only_that_request() {
    let kind = live_cache();
    for uid in ["first", "second"] {
        reserve(&kind, "a", uid, "", "wanted");
    }
    kind.apply(object("a", "2", "second", "wanted").root(), "");
    assert_eq!(kind.status().reservations, 1, "the first one can be stored after a deletion");
    kind.apply(object("a", "3", "first", "wanted").root(), "");
    assert_eq!(kind.status().reservations, 0);
}

#[tokio::test(start_paused = true)]
async fn excess_requests_for_an_object_share_one_possible_state() {
    let kind = live_cache();
    for spec in 0..7 {
        reserve(&kind, "a", &format!("u{spec}"), "", &format!("s{spec}"));
    }
    let world = |number: usize| {
        let found = kind
            .select(&Query::default(), usize::MAX, None, PossibleState::Pending(number), None)
            .unwrap();
        (texts(&found.objects), found.is_unsure)
    };
    assert_eq!(world(0), ("a=s0".to_owned(), false));
    assert_eq!(world(2), ("a=s2".to_owned(), false));
    assert_eq!(world(3), ("a=s3 a=s4 a=s5 a=s6".to_owned(), false), "in the way of others");
    assert_eq!(world(4), (String::new(), false), "needed by others");
    let get = |number| kind.get(&key("a"), None, PossibleState::Pending(number)).unwrap();
    assert!(get(3).is_unsure, "it is one of four objects");
    assert!(!get(2).is_unsure);
}

#[tokio::test(start_paused = true)]
async fn object_under_review_is_shown_as_it_is_stored() {
    let cluster = cluster(ClusterOptions::of(Source::Live));
    let kind = &cluster.caches[0];
    apply_list(kind, "1", &[object("a", "1", "u", "stored")]);
    reserve(kind, "a", "v", "", "wanted");
    reserve(kind, "b", "w", "", "other");
    let reviewed = Some(Arc::new(ReviewedObject { caches: vec![ResourceId(0)], key: key("a") }));
    let lens = EvaluationView {
        state: PossibleState::UnionPreferPending,
        reviewed,
        ..EvaluationView::default()
    };
    let select = |kind_of_lens| {
        let sight = lens.resource_view(ResourceId(kind_of_lens));
        kind.select(&Query::default(), usize::MAX, None, sight, None).unwrap()
    };
    assert_eq!(texts(&select(0).objects), "a=stored b=other");
    assert_eq!(select(0).pending_objects, [key("b")]);
    assert_eq!(texts(&select(1).objects), "a=stored a=wanted b=other", "of another resource");
    assert!(
        !kind.get(&key("a"), None, lens.resource_view(ResourceId(0))).unwrap().differs_by_state
    );
}

#[tokio::test(start_paused = true)]
async fn empty_direct_read_hides_older_watched_objects() {
    let kind = live_cache();
    kind.apply(object("a", "5", "u", "stored").root(), "");
    kind.apply(object("b", "6", "v", "stored").root(), "");
    let read = |version: &str| {
        let found = Listing { version: version.to_owned(), ..kind.empty() };
        kind.record_direct_read(&key("a"), &found, tokio::time::Instant::now());
    };
    read("4");
    assert_eq!(
        names_and_specs(&kind, PossibleState::Stored),
        "a=stored b=stored",
        "the read is older"
    );
    read("7");
    assert_eq!(names_and_specs(&kind, PossibleState::Stored), "b=stored");
    assert!(kind.get(&key("a"), None, PossibleState::Stored).unwrap().object.is_none());
    // Events up to the read are no news.
    kind.apply(object("a", "6", "u", "changed").root(), "");
    assert_eq!(names_and_specs(&kind, PossibleState::Stored), "b=stored");
    kind.apply(object("a", "8", "w", "new").root(), "");
    assert_eq!(names_and_specs(&kind, PossibleState::Stored), "a=new b=stored");
}

#[tokio::test(start_paused = true)]
async fn query_without_a_current_cache_fails() {
    let kind = cluster(ClusterOptions::of(Source::Live)).caches.remove(0);
    let ask = |kind: &ResourceCache| {
        kind.get(&key("a"), None, PossibleState::Stored).map(|found| found.object.is_some())
    };
    let listing = CacheUnavailable::Listing("g/v1/r is not synced yet".to_owned());
    assert_eq!(ask(&kind), Err(listing), "soon there is one");
    kind.record_error("forbidden: because".to_owned());
    let unknown = |why: &str| Err(CacheUnavailable::NotReady(why.to_owned()));
    assert_eq!(ask(&kind), unknown("g/v1/r is not synced yet: forbidden: because"));
    kind.mark_absent();
    assert_eq!(ask(&kind), Ok(false), "a resource that is not installed has no objects");
    assert_eq!(kind.status().cache_status, CacheStatus::NotInstalled);

    advance_time(200).await;
    kind.record_error("no answer".to_owned());
    assert!(!kind.is_interrupted());
    advance_time(6).await;
    assert!(kind.is_interrupted() && kind.status().interrupted.is_some());
    assert_eq!(ask(&kind), Ok(false), "it is still current");
    kind.mark_watch_open();
    assert!(!kind.is_interrupted());
    advance_time(100).await;
    kind.record_error("no answer".to_owned());
    assert_eq!(ask(&kind), unknown("g/v1/r was last heard of 306 s ago: no answer"));
    let listing = Listing { version: "9".to_owned(), ..kind.empty() };
    let read = kind.get(&key("a"), Some(&listing), PossibleState::Stored);
    assert!(read.is_ok(), "what was read directly needs no watch");

    let files = cluster(ClusterOptions::of(Source::Snapshot)).caches.remove(0);
    advance_time(1_000_000).await;
    assert_eq!(ask(&files), Ok(false), "files do not age");
}

#[test]
fn incompletely_read_object_is_not_reserved() {
    let cluster = cluster(ClusterOptions::of(Source::Live));
    let kind = &cluster.caches[0];
    let account = opgate_document::Account::new(1 << 20);
    let whole = object("a", "", "a", "x").with_account(&account);
    assert!(!account.charge(2 << 20), "reading it has found no memory");
    assert!(!reserve_for(kind, "u", &key("a"), &whole, ""));
    assert_eq!(kind.status().reservations, 0);
}

#[tokio::test(start_paused = true)]
async fn rejected_and_silent_resource_is_locked_out() {
    use crate::cluster::store::cache::ListFailure;
    let kind = live_cache();
    let pass = async || tokio::time::advance(Duration::from_secs(301)).await;
    kind.record_list_failure(ListFailure::Unauthorized);
    assert!(kind.status().unauthorized && !kind.is_access_denied(), "what is known still counts");
    pass().await;
    assert!(kind.is_access_denied());
    kind.record_list_failure(ListFailure::No);
    assert!(kind.is_access_denied() && !kind.status().unauthorized, "a time-out changes nothing");
    apply_list(&kind, "2", &[]);
    assert!(!kind.is_access_denied());
    pass().await;
    kind.record_list_failure(ListFailure::No);
    assert!(
        !kind.status().cache_status.is_ready() && !kind.is_access_denied(),
        "it is only silent"
    );
    kind.record_list_failure(ListFailure::Forbidden);
    assert!(kind.is_access_denied());
}

#[test]
fn rejected_token_does_not_suggest_a_missing_permission() {
    let kind = live_cache();
    let told = |code| watch::decode::ApiError::from_status(code, "Unauthorized").message_for(&kind);
    assert!(told(401).starts_with("the API server does not accept the token of opgate (401: "));
    assert!(!told(401).contains("grant") && told(403).contains("grant list and watch"));
}
