//! The memory limit of cluster state: the objects beyond it, and the queries that this affects.

use opgate_cluster::Query;

use super::*;
use crate::cluster::CacheUnavailable;

const LIMIT_BYTES: usize = 1 << 20;

/// The share of the first large namespace.
const FIRST_SHARE_BYTES: usize = LIMIT_BYTES / 4;

fn limited_cluster() -> (ClusterState, Arc<ResourceCache>) {
    let cluster =
        cluster(ClusterOptions { memory: LIMIT_BYTES, ..ClusterOptions::of(Source::Live) });
    let kind = cluster.caches[0].clone();
    apply_list(&kind, "1", &[]);
    (cluster, kind)
}

/// An object with a field of this many bytes.
fn large_object(namespace: &str, name: &str, version: u64, bytes: usize) -> Arc<Document> {
    let spec = "x".repeat(bytes);
    let json = format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","resourceVersion":"{version}","uid":"{name}"}},"spec":"{spec}"}}"#
    );
    Arc::new(Document::parse(&json).unwrap())
}

/// The number of objects in a namespace, or the reason why there is no result.
fn count(kind: &ResourceCache, namespace: Option<&str>) -> Result<usize, String> {
    let query = Query { namespace: namespace.map(str::to_owned), ..Query::default() };
    match kind.select(&query, usize::MAX, None, PossibleState::Stored, None) {
        Ok(found) => Ok(found.objects.len()),
        Err(CacheUnavailable::NotReady(why)) => Err(why),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn objects_over_the_share_fail_only_matching_queries() {
    let (cluster, kind) = limited_cluster();
    // Each of them is kept twice: as a field, and as the value of an index.
    let each = 20 << 10;
    for number in 0..20 {
        kind.apply(large_object("tenant", &format!("o{number:02}"), number + 2, each).root(), "");
    }
    kind.apply(large_object("other", "small", 30, 100).root(), "");
    kind.apply(large_object("", "wide", 31, 100).root(), "");
    let status = kind.status();
    assert_eq!((status.objects, status.unreadable, status.name_only), (8, 14, 14));
    assert_eq!(status.namespaces_over_limit, ["tenant"]);
    assert!(status.bytes <= FIRST_SHARE_BYTES + (8 << 10), "{}", status.bytes);
    assert!(cluster.memory().0 <= FIRST_SHARE_BYTES + (8 << 10), "{:?}", cluster.memory());

    assert_eq!(count(&kind, Some("other")), Ok(1));
    assert_eq!(count(&kind, Some("elsewhere")), Ok(0));
    let why = count(&kind, Some("tenant")).unwrap_err();
    let text = "g/v1/r holds tenant/o06, which cannot be read: the objects of this namespace need more than the ";
    assert!(why.starts_with(text), "{why}");
    assert!(why.contains(" bytes that the others leave of 1Mi (--max-cluster-memory)"), "{why}");
    assert_eq!(count(&kind, None).unwrap_err(), why);
    let get = |name: &str| kind.get(&Key::new("tenant", name), None, PossibleState::Stored);
    assert!(get("o05").unwrap().object.is_some());
    assert!(get("o06").is_err());
    assert!(get("not-there").unwrap().object.is_none());

    // The values of their indexes are known.
    let by_value = |spec: String| {
        let values = Arc::new(std::iter::once(spec).collect());
        let matches = vec![opgate_cluster::IndexMatch { index: 0, values, include_missing: false }];
        let query = Query { matches, ..Query::default() };
        kind.select(&query, usize::MAX, None, PossibleState::Stored, None)
            .map(|found| found.objects.len())
    };
    assert_eq!(by_value("x".repeat(100)), Ok(2));
    assert_eq!(by_value("y".to_owned()), Ok(0));
    assert!(by_value("x".repeat(each)).is_err());

    // An object can become smaller and larger in place.
    assert!(!kind.has_memory_again());
    kind.apply(large_object("tenant", "o05", 40, each).root(), "");
    assert!(get("o05").unwrap().object.is_some());
    kind.apply(large_object("tenant", "o19", 41, 10).root(), "");
    assert!(get("o19").unwrap().object.is_some());
    kind.apply(large_object("tenant", "o19", 42, each).root(), "");
    assert!(get("o19").is_err());
    assert!(!kind.has_memory_again());

    // With those that are deleted, a list shows the others.
    for number in 0..10 {
        kind.delete(&Key::new("tenant", &format!("o{number:02}")), &(number + 50).to_string(), "");
    }
    assert!(kind.has_memory_again());
    let left: Vec<_> = (10..15)
        .map(|number| large_object("tenant", &format!("o{number}"), number + 2, each))
        .collect();
    apply_list(&kind, "60", &left);
    assert_eq!((count(&kind, Some("tenant")), count(&kind, None)), (Ok(5), Ok(5)));
    assert_eq!((kind.status().name_only, kind.has_memory_again()), (0, false));
    drop(kind);
    let memory = cluster.memory.clone();
    drop(cluster);
    assert_eq!(memory.used(), 0, "whatever was kept is given back");
}

#[tokio::test(start_paused = true)]
async fn large_tenants_leave_memory_for_small_ones() {
    let (_cluster, kind) = limited_cluster();
    for tenant in 0..50 {
        for number in 0..5 {
            let name = format!("o{number}");
            kind.apply(large_object(&format!("tenant-{tenant}"), &name, 2, 30 << 10).root(), "");
        }
    }
    assert!(kind.status().name_only > 200);
    kind.apply(large_object("victim", "a", 3, 100).root(), "");
    assert_eq!(count(&kind, Some("victim")), Ok(1));
    kind.apply(large_object("", "b", 4, 10 << 10).root(), "");
    assert!(kind.get(&Key::new("", "b"), None, PossibleState::Stored).unwrap().object.is_some());
}

#[tokio::test(start_paused = true)]
async fn names_of_objects_are_limited_in_memory() {
    let (cluster, kind) = limited_cluster();
    for number in 0..10_000 {
        kind.apply(large_object("tenant", &format!("o{number:05}"), 2, 1).root(), "");
    }
    let status = kind.status();
    assert!(status.objects > 300 && status.name_only > 50, "{status:?}");
    assert!(status.objects + status.name_only < 2_000, "{status:?}");
    assert!(cluster.memory().0 < LIMIT_BYTES / 3, "{:?}", cluster.memory());
    let get = |namespace: &str, name: &str| {
        let got = kind.get(&Key::new(namespace, name), None, PossibleState::Stored);
        got.map(|got| got.object.is_some()).map_err(|why| format!("{why:?}"))
    };
    assert_eq!(get("tenant", "o00001"), Ok(true));
    let why = get("tenant", "o09999").unwrap_err();
    assert!(why.contains("g/v1/r holds tenant/more objects, which cannot be read"), "{why}");
    assert!(get("tenant", "whatever").is_err(), "it may be one of them");
    assert_eq!(get("tenants", "whatever"), Ok(false));
    assert!(count(&kind, Some("tenant")).is_err());
    assert_eq!(count(&kind, Some("other")), Ok(0));
    // Deletions have no effect on those without a name; a list does.
    for number in 0..10_000 {
        kind.delete(&Key::new("tenant", &format!("o{number:05}")), "3", "");
    }
    assert!(count(&kind, Some("tenant")).is_err());
    assert!(kind.has_memory_again());
    apply_list(&kind, "4", &[]);
    assert_eq!(count(&kind, None), Ok(0));
}

#[tokio::test(start_paused = true)]
async fn repeated_list_uses_no_additional_memory() {
    let (cluster, kind) = limited_cluster();
    let objects: Vec<_> =
        (0..5).map(|number| large_object("tenant", &format!("o{number}"), 2, 20 << 10)).collect();
    apply_list(&kind, "5", &objects);
    let used = cluster.memory().0;
    assert!(used > FIRST_SHARE_BYTES / 2);
    // A direct read, while the cache has its objects.
    let mut read = kind.empty();
    for object in &objects {
        kind.add_object(&mut read, object.root(), "");
    }
    assert_eq!((read.objects.len(), read.unreadable.len()), (5, 0));
    assert_eq!(cluster.memory().0, used);
    drop(read);
    for version in 6..10 {
        apply_list(&kind, &version.to_string(), &objects);
        assert_eq!((count(&kind, None), cluster.memory().0), (Ok(5), used));
    }
}

#[tokio::test(start_paused = true)]
async fn replacing_cluster_state_shares_memory() {
    let (old, kind) = limited_cluster();
    let objects: Vec<_> =
        (0..5).map(|number| large_object("tenant", &format!("o{number}"), 2, 20 << 10)).collect();
    apply_list(&kind, "5", &objects);
    let mut reading = kind.resolved_read().clone();
    reading.declaration = Declaration::new(&["/spec".to_owned()], &[], &[]).unwrap();
    let new = ClusterState::replacing(&[reading], &old);
    let other = new.caches[0].clone();
    assert!(!Arc::ptr_eq(&kind, &other));
    apply_list(&other, "5", &objects);
    assert!(other.status().name_only > 0, "{:?}", other.status());
    drop((kind, old));
    assert!(other.has_memory_again());
    apply_list(&other, "6", &objects);
    assert_eq!(count(&other, None), Ok(5));
}
