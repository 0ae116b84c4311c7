//! Polled resources, unavailable resources, and the version of the API server.

use serde_json::{Value, json};

use super::*;
use crate::cluster::store::cache::poll_interval;
use crate::cluster::watch::decode::{ApiError, PageReader};
use crate::cluster::watch::paging::ensure_bounded;
use crate::review::{Review, text};

/// Resources without any field.
fn resolved_reads(resources: &[&str]) -> Vec<ResolvedRead> {
    let reading = |name: &&str| {
        let mut parts = name.split('/').map(str::to_owned);
        let mut part = || parts.next().unwrap();
        let resource = Resource { group: part(), version: part(), resource: part() };
        let fields = ["/gitVersion".to_owned(), "/spec".to_owned()];
        let declaration = Declaration::new(&fields, &[], &[]).unwrap();
        ResolvedRead {
            resource,
            declaration,
            labels: Selector::default(),
            namespace: None,
            optional: false,
        }
    };
    resources.iter().map(reading).collect()
}

const VERSIONS: &str = "opgate.dev/v1alpha1/serverversions";

/// The stored fields of the object `kubernetes`.
fn version(cluster: &ClusterState) -> Option<Value> {
    let got =
        cluster.caches[0].get(&Key::new("", "kubernetes"), None, PossibleState::Stored).unwrap();
    let raw = got.object?.document().root().raw().into_owned();
    Some(serde_json::from_str(&raw).unwrap())
}

fn snapshot(documents: &[&str]) -> ClusterState {
    let cluster =
        ClusterState::new(&resolved_reads(&[VERSIONS]), ClusterOptions::of(Source::Snapshot));
    let mut snapshot = Snapshot::default();
    for json in documents {
        assert_eq!(snapshot.add(Document::parse(json).unwrap()), Ok(1), "{json}");
    }
    snapshot.replace_state(&cluster);
    cluster
}

const VERSION_RESPONSE: &str =
    r#"{"major":"1","minor":"25","gitVersion":"v1.25.4","goVersion":"go1.19"}"#;
const VERSION_OBJECT: &str = r#"{"apiVersion":"opgate.dev/v1alpha1","kind":"ServerVersion",
    "metadata":{"name":"kubernetes"},"gitVersion":"v9.9.9"}"#;

#[test]
fn version_of_files_is_an_api_server_response() {
    let kept = json!({"metadata": {"name": "kubernetes"}, "gitVersion": "v1.25.4"});
    assert_eq!(version(&snapshot(&[VERSION_RESPONSE])), Some(kept.clone()));
    assert_eq!(version(&snapshot(&[VERSION_RESPONSE, VERSION_OBJECT])), Some(kept));
    assert_eq!(
        version(&snapshot(&[VERSION_OBJECT])),
        None,
        "an object says nothing about the server"
    );
    let newer = VERSION_RESPONSE.replace("25.4", "26.0");
    let last = version(&snapshot(&[VERSION_RESPONSE, &newer])).unwrap();
    assert_eq!(last["gitVersion"], "v1.26.0", "the last one counts");
    let of_kubectl = r#"{"serverVersion":{"gitVersion":"v1.25.4"}}"#;
    let refused = Snapshot::default().add(Document::parse(of_kubectl).unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), "/apiVersion is missing: not a Kubernetes object");
}

#[test]
fn list_in_a_file_may_repeat_object_names() {
    let list = |specs: &[&str]| {
        let item =
            |spec: &&str| json!({"metadata": {"name": "etcd", "namespace": "ns"}, "spec": spec});
        let items: Vec<_> = specs.iter().map(item).collect();
        let list = json!({"apiVersion": "g/v1", "kind": "PackageList", "items": items});
        Document::parse(&list.to_string()).unwrap()
    };
    let cluster = ClusterState::new(
        &resolved_reads(&["g/v1/packages"]),
        ClusterOptions::of(Source::Snapshot),
    );
    let said = |documents: &[&[&str]]| {
        let mut snapshot = Snapshot::default();
        for specs in documents {
            snapshot.add(list(specs)).unwrap();
        }
        snapshot.replace_state(&cluster);
        let query = opgate_cluster::Query::default();
        let found = cluster.caches[0]
            .select(&query, usize::MAX, None, PossibleState::Stored, None)
            .unwrap();
        let spec = |o: &Arc<opgate_cluster::Object>| {
            o.document().get("/spec").unwrap().text().unwrap().to_owned()
        };
        found.objects.iter().map(spec).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(said(&[&["a", "b", "c"]]), "a b c");
    assert_eq!(said(&[&["a", "b"], &["a", "b"]]), "a b", "the same file twice");
    assert_eq!(said(&[&["a"], &["b"]]), "b", "of several files the last one counts");
}

#[test]
fn no_request_changes_the_version_of_the_api_server() {
    let object: Value = serde_json::from_str(VERSION_OBJECT).unwrap();
    let kind = json!({"group": "opgate.dev", "version": "v1alpha1", "kind": "ServerVersion"});
    let resource =
        json!({"group": "opgate.dev", "version": "v1alpha1", "resource": "serverversions"});
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "kind": kind, "resource": resource, "name": "kubernetes",
            "operation": "CREATE", "userInfo": {}, "object": object,
        },
    });
    let review = text(review.to_string().into_bytes()).unwrap();
    let review = Review::read(&review).unwrap();
    let files = snapshot(&[VERSION_RESPONSE]);
    files.apply_allowed(&review);
    assert_eq!(version(&files).unwrap()["gitVersion"], "v1.25.4");
    let live = ClusterState::new(&resolved_reads(&[VERSIONS]), ClusterOptions::of(Source::Live));
    let inputs = review.inputs();
    assert!(live.change(&review, inputs.object.as_ref(), None).is_none(), "nothing to reserve");
}

#[tokio::test]
async fn unavailable_resource_does_not_block_sync_of_others() {
    let resources = ["g/v1/a", "g/v1/b", VERSIONS];
    let cluster = ClusterState::new(&resolved_reads(&resources), ClusterOptions::of(Source::Live));
    let [a, b, own] = &cluster.caches[..] else { panic!() };
    assert!(!cluster.is_synced() && cluster.time_since_first_list().is_none());
    apply_list(own, "", &[]);
    b.record_error("503: service unavailable".to_owned());
    b.mark_unavailable();
    assert!(!cluster.is_synced(), "a is still listed");
    a.mark_unavailable();
    assert!(!cluster.is_synced(), "nothing is served, and everybody may read the version");
    assert!(cluster.time_since_first_list().is_none());
    apply_list(a, "1", &[]);
    assert!(cluster.is_synced() && cluster.time_since_first_list().is_some());
    cluster.wait_synced().await;
    assert_eq!(b.status().cache_status, CacheStatus::NeverListed);
    let why = b.get(&key("x"), None, PossibleState::Stored).map(|_| ());
    let expected = "g/v1/b is not synced yet: 503: service unavailable".to_owned();
    assert_eq!(why, Err(CacheUnavailable::NotReady(expected)));

    let own = ClusterState::new(&resolved_reads(&[VERSIONS]), ClusterOptions::of(Source::Live));
    assert!(!own.is_synced());
    apply_list(&own.caches[0], "", &[]);
    assert!(own.is_synced() && own.time_since_first_list().is_some(), "nothing else is read");
}

#[tokio::test(start_paused = true)]
async fn sync_wait_ends_when_every_resource_has_reported() {
    let cluster = Arc::new(ClusterState::new(
        &resolved_reads(&["g/v1/a", "g/v1/b"]),
        ClusterOptions::of(Source::Live),
    ));
    let waiting = tokio::spawn({
        let cluster = cluster.clone();
        async move { cluster.wait_synced().await }
    });
    tokio::task::yield_now().await;
    apply_list(&cluster.caches[0], "1", &[]);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    cluster.caches[1].mark_unavailable();
    waiting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn age_of_a_polled_resource_counts_from_its_last_list() {
    let kind = polled_cache();
    assert!(kind.status().polled);
    tokio::time::advance(Duration::from_secs(70)).await;
    let status = kind.status();
    assert_eq!((status.since_contact, status.lists), (Some(Duration::from_secs(70)), 1));
    apply_list(&kind, "", &[object("a", "", "", "x")]);
    let status = kind.status();
    assert_eq!((status.since_contact, status.lists, status.objects), (Some(Duration::ZERO), 2, 1));
    tokio::time::advance(Duration::from_secs(301)).await;
    kind.record_error("503: service unavailable".to_owned());
    let why = kind.get(&key("a"), None, PossibleState::Stored).map(|_| ());
    let expected = "g/v1/r was last heard of 301 s ago: 503: service unavailable".to_owned();
    assert_eq!(why, Err(CacheUnavailable::NotReady(expected)));
    kind.mark_absent();
    assert!(!kind.status().polled, "what is installed next can be watched");
}

fn polled_cache() -> Arc<ResourceCache> {
    let kind = cluster(ClusterOptions::of(Source::Live)).caches.remove(0);
    apply_list(&kind, "", &[]);
    assert!(kind.set_polled(true) && !kind.set_polled(true));
    kind
}

#[test]
fn missing_permission_error_names_the_needed_verbs() {
    let told = |resource: &str, polled: bool| {
        let cluster =
            ClusterState::new(&resolved_reads(&[resource]), ClusterOptions::of(Source::Live));
        let kind = &cluster.caches[0];
        kind.set_polled(polled || kind.is_polled());
        ApiError::from_status(403, "because").message_for(kind)
    };
    for (resource, polled, grant) in [
        ("g/v1/r", false, "grant list and watch on it"),
        ("g/v1/r", true, "grant list on it"),
        (VERSIONS, false, "grant get on /version"),
    ] {
        let text = format!("forbidden: because; {grant} to the service account of opgate");
        assert_eq!(told(resource, polled), text);
    }
}

#[test]
fn poll_interval_keeps_the_cache_younger_than_max_age() {
    for (poll, max_age, seconds) in [(60, 300, 60), (600, 300, 100), (60, 6, 2), (60, 1, 1)] {
        let options = ClusterOptions {
            poll_interval: Duration::from_secs(poll),
            max_age: Duration::from_secs(max_age),
            ..ClusterOptions::of(Source::Live)
        };
        assert_eq!(poll_interval(&options), Duration::from_secs(seconds));
    }
}

#[test]
fn unstored_polled_objects_are_limited_in_bytes() {
    let kind = polled_cache();
    let mut listing = kind.empty();
    // Stored twice: it is a value of an index, too.
    let large = |name: usize| object(&name.to_string(), "", "", &"x".repeat(1 << 20));
    for name in 0..31 {
        kind.add_object(&mut listing, large(name).root(), "");
        assert!(ensure_bounded(&listing).is_ok(), "{name}");
    }
    kind.add_object(&mut listing, large(31).root(), "");
    let why = ensure_bounded(&listing).unwrap_err().to_string();
    assert_eq!(why, "objects of which more than 67108864 bytes would be kept");
}

/// All objects of a text that arrives in parts, or the reason why it is no list.
fn read_list(text: &[u8]) -> Result<usize, String> {
    let (mut page, mut rest) = (PageReader::default(), text);
    while page.next(&mut rest).map_err(|trouble| trouble.to_string())?.is_some() {}
    page.finish().map(|page| page.count).map_err(|trouble| trouble.to_string())
}

#[test]
fn response_without_items_is_an_error_not_an_empty_list() {
    let none = || Err("the API server's answer is no list".to_owned());
    for (text, expected) in [
        (r#"{"items":[{},{}]}"#, Ok(2)),
        (r#"{"items":null}"#, Ok(0)),
        ("{}", none()),
        ("[]", none()),
        (r#"{"kind":"Status","status":"Success"}"#, none()),
        (r#"{"items":{}}"#, none()),
        (r#"{"it\u0065ms":[{}]}"#, none()),
        (r#"{"items":[{}],"items":[]}"#, none()),
    ] {
        assert_eq!(read_list(text.as_bytes()), expected, "{text}");
    }
    let cut = read_list(br#"{"items":[{},{"#).unwrap_err();
    assert!(cut.starts_with("the API server's answer is not JSON"), "{cut}");
    let large = [br#"{"items":["#.as_slice(), &vec![b'['; 32 << 20]].concat();
    assert_eq!(read_list(&large), Err("an object of more than 33554432 bytes".to_owned()));
    let extra = [br#"{"a":""#.as_slice(), &vec![b'x'; 2 << 20]].concat();
    let expected = "a response of more than 1048576 bytes without its objects";
    assert_eq!(read_list(&extra), Err(expected.to_owned()));
}
