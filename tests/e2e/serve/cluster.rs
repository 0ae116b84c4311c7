//! Policies that read the cluster, through the real binary and an API server that misbehaves on
//! demand.

use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope, WatchBehavior};
use testkit::reviews::{
    self, GOOSE_API, OLM, OPERATOR_GROUPS, WriteMode, cluster, group, namespace, policies,
};
use testkit::wait_until;
use testkit::{Client, HttpResponse, Server, configuration, hostile_component};

use crate::BINARY;

fn serve(cluster: &FakeCluster, arguments: &[&str]) -> Server {
    reviews::serve(BINARY, cluster, arguments)
}

/// A CREATE as an API server sends it.
fn create(object: &Value, dry_run: bool) -> String {
    reviews::create(object, if dry_run { WriteMode::DryRun } else { WriteMode::Persist })
}

async fn wait_ready(server: &Server) {
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
}

async fn object_count(server: &Server, resource: &str) -> Option<f64> {
    server.metric(&format!("opgate_cluster_cache_objects{{resource=\"{resource}\"}}")).await
}

/// Waits until the server has read this many groups.
async fn wait_for_groups(server: &Server, count: u32) {
    let what = format!("{count} groups");
    wait_until(&what, async || object_count(server, OPERATOR_GROUPS).await == Some(count.into()))
        .await;
}

fn denial_message(answer: &HttpResponse) -> String {
    answer.message()
}

async fn decide(client: &mut Client, object: &Value) -> String {
    denial_message(&client.review(create(object, false)).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn decision_follows_the_watched_objects() {
    let cluster = cluster();
    let server = serve(&cluster, &[]);
    wait_ready(&server).await;
    let mut client = server.connect().await;
    let new = group("b", "new", &["shared"], GOOSE_API);
    assert_eq!(denial_message(&client.review(create(&new, true)).await.unwrap()), "allowed");

    cluster.apply(OLM, "v1", "operatorgroups", group("a", "first", &["shared"], GOOSE_API));
    wait_for_groups(&server, 1).await;
    let refused = decide(&mut client, &new).await;
    assert!(refused.starts_with("intersecting operatorgroups provide the same apis"), "{refused}");
    assert!(refused.contains("a/first") && refused.contains(GOOSE_API), "{refused}");
    let elsewhere = group("b", "new", &["b"], GOOSE_API);
    assert_eq!(denial_message(&client.review(create(&elsewhere, true)).await.unwrap()), "allowed");

    // What it reaches is found out from namespaces, too, as long as it has no status.
    let mut selecting = group("a", "first", &[], GOOSE_API);
    selecting["spec"] = json!({"selector": {"matchLabels": {"team": "b"}}});
    cluster.apply(OLM, "v1", "operatorgroups", selecting);
    wait_until("the change", async || {
        let mut client = server.connect().await;
        denial_message(&client.review(create(&new, true)).await.unwrap())
            .contains("(namespaces: b)")
    })
    .await;

    cluster.delete(OLM, "operatorgroups", "a", "first");
    wait_for_groups(&server, 0).await;
    assert_eq!(decide(&mut client, &new).await, "allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_list_is_read_in_pages() {
    let cluster = cluster();
    for number in 0..250 {
        let name = format!("n{number}");
        cluster.apply("", "v1", "namespaces", namespace(&name));
        cluster.apply(OLM, "v1", "operatorgroups", group(&name, "g", &[&name], GOOSE_API));
    }
    let server = serve(&cluster, &[]);
    wait_ready(&server).await;
    wait_for_groups(&server, 250).await;
    let pages = cluster.requests();
    let pages = pages.iter().filter(|r| r.contains("/operatorgroups?") && !r.contains("watch="));
    let limits: Vec<_> =
        pages.filter_map(|r| r.split(['?', '&']).find(|p| p.starts_with("limit="))).collect();
    // Small objects: more of them each time.
    assert_eq!(limits, ["limit=20", "limit=80", "limit=320"]);
    let copied = "labelSelector=%21olm.copiedFrom";
    let requests = cluster.requests();
    let csvs = requests.iter().filter(|r| r.contains("/clusterserviceversions?"));
    assert!(csvs.clone().all(|request| request.contains(copied)), "copies are not read");
    let maps = requests.iter().find(|r| r.contains("/configmaps")).unwrap();
    assert!(maps.contains("/namespaces/rukpak-system/"), "{maps}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_synced_cache_asks_clients_to_retry() {
    let cluster = cluster();
    cluster.apply(OLM, "v1", "operatorgroups", group("a", "first", &["shared"], GOOSE_API));
    cluster.pause();
    // With `profile: auto` a server waits for the cluster before it listens.
    let mut configuration: Value = serde_json::from_str(&policies()).unwrap();
    configuration["profile"] = json!("ocp-4.15");
    let more = ["--sync-timeout", "0s"];
    let server = reviews::serve_with(BINARY, &cluster, &configuration.to_string(), &more);
    let (code, text) = server.get("/readyz").await;
    assert_eq!(code, 503);
    assert!(
        text.contains(&format!("policy operator-group: {OPERATOR_GROUPS} is not synced yet")),
        "{text}"
    );
    assert_eq!(server.get("/livez").await.0, 200);
    let mut client = server.connect().await;
    let review = create(&group("b", "new", &["shared"], GOOSE_API), false);
    let answer = client.review(review.clone()).await.unwrap();
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("operator-group"), "{}", answer.body);
    assert!(answer.body.contains("is not synced yet"), "{}", answer.body);
    // What needs no cluster is decided.
    let answer = client.review(testkit::recorded_review("007")).await.unwrap();
    assert_eq!(denial_message(&answer), "bundle.spec is immutable");
    cluster.resume();
    wait_ready(&server).await;
    wait_until("the groups", async || {
        let mut client = server.connect().await;
        client.review(review.clone()).await.unwrap().status == 200
    })
    .await;
    let refused = denial_message(&client.review(review).await.unwrap());
    assert!(refused.starts_with("intersecting operatorgroups"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_crd_yields_empty_list_until_installed() {
    let cluster = cluster();
    cluster.uninstall(OLM, "operatorgroups");
    cluster.uninstall("core.rukpak.io", "bundles");
    let server = serve(&cluster, &[]);
    wait_ready(&server).await;
    let mut client = server.connect().await;
    let new = group("b", "new", &["shared"], GOOSE_API);
    assert_eq!(denial_message(&client.review(create(&new, true)).await.unwrap()), "allowed");
    cluster.install(OLM, "v1", "operatorgroups", "OperatorGroup", Scope::Namespaced);
    cluster.apply(OLM, "v1", "operatorgroups", group("a", "first", &["shared"], GOOSE_API));
    cluster.wait_watching("operatorgroups", 1).await;
    wait_for_groups(&server, 1).await;
    let refused = decide(&mut client, &new).await;
    assert!(refused.starts_with("intersecting operatorgroups"), "{refused}");
    // And back: the CRD is removed.
    cluster.uninstall(OLM, "operatorgroups");
    wait_for_groups(&server, 0).await;
    assert_eq!(decide(&mut client, &new).await, "allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permission_is_named_everywhere() {
    let cluster = cluster();
    cluster.forbid(OLM, "operatorgroups");
    let server = serve(&cluster, &["--sync-timeout", "1s"]);
    let forbidden = "operatorgroups.operators.coreos.com is forbidden";
    wait_until("the refusal", async || {
        let (_, text) = server.get("/readyz?verbose").await;
        text.contains(forbidden) && text.contains("grant list and watch")
    })
    .await;
    let current = format!("opgate_cluster_cache_ready{{resource=\"{OPERATOR_GROUPS}\"}}");
    assert_eq!(server.metric(&current).await, Some(0.0));
    let mut client = server.connect().await;
    let new = group("b", "new", &["shared"], GOOSE_API);
    let answer = client.review(create(&new, false)).await.unwrap();
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains(forbidden), "{}", answer.body);
    let told = |line: &Value| {
        line["level"] == "WARN"
            && line["resource"] == OPERATOR_GROUPS
            && line.to_string().contains(forbidden)
    };
    assert_eq!(server.log().iter().filter(|line| told(line)).count(), 1, "told once");
    cluster.allow(OLM, "operatorgroups");
    wait_until("the permission", async || server.metric(&current).await == Some(1.0)).await;
    assert_eq!(decide(&mut client, &new).await, "allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_resumes_at_last_version() {
    let cluster = cluster();
    let server = serve(&cluster, &[]);
    wait_ready(&server).await;
    cluster.wait_watching("operatorgroups", 1).await;
    cluster.cut_watches();
    cluster.apply(OLM, "v1", "operatorgroups", group("a", "first", &["shared"], GOOSE_API));
    wait_for_groups(&server, 1).await;
    let requests = cluster.requests();
    let lists = requests.iter().filter(|r| r.contains("/operatorgroups?") && !r.contains("watch="));
    assert_eq!(lists.count(), 1, "nothing is listed again");
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_history_causes_a_new_list() {
    let cluster = cluster();
    cluster.apply(OLM, "v1", "operatorgroups", group("a", "gone", &["shared"], GOOSE_API));
    let server = serve(&cluster, &[]);
    wait_ready(&server).await;
    wait_for_groups(&server, 1).await;
    cluster.wait_watching("operatorgroups", 1).await;
    cluster.pause();
    cluster.delete(OLM, "operatorgroups", "a", "gone");
    cluster.apply(OLM, "v1", "operatorgroups", group("b", "first", &["b"], GOOSE_API));
    cluster.apply(OLM, "v1", "operatorgroups", group("c", "second", &["c"], GOOSE_API));
    cluster.expire_history();
    cluster.cut_watches();
    cluster.resume();
    wait_for_groups(&server, 2).await;
    let mut client = server.connect().await;
    let new = group("a", "new", &["shared"], GOOSE_API);
    assert_eq!(decide(&mut client, &new).await, "allowed", "what is gone does not count");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_recovers_from_api_server_errors() {
    for code in [429, 500, 503] {
        let cluster = cluster();
        cluster.apply(OLM, "v1", "operatorgroups", group("a", "first", &["shared"], GOOSE_API));
        cluster.fail_next_requests(code, 12);
        let server = serve(&cluster, &[]);
        wait_ready(&server).await;
        wait_for_groups(&server, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_cache_is_a_policy_error() {
    let cluster = cluster();
    let server = serve(&cluster, &["--cluster-cache-max-age", "1500ms"]);
    wait_ready(&server).await;
    let mut client = server.connect().await;
    let review = create(&group("b", "new", &["shared"], GOOSE_API), true);
    assert_eq!(denial_message(&client.review(review.clone()).await.unwrap()), "allowed");
    cluster.pause();
    wait_until("the end of patience", async || {
        let mut client = server.connect().await;
        let answer = client.review(review.clone()).await.unwrap();
        answer.status == 500 && answer.body.contains("was last heard of")
    })
    .await;
    assert_eq!(server.get("/readyz").await.0, 200, "other replicas know no more");
    cluster.resume();
    cluster.cut_watches();
    wait_until("the return", async || {
        let mut client = server.connect().await;
        client.review(review.clone()).await.unwrap().status == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_change_counts_before_the_watch_shows_it() {
    let cluster = cluster();
    let server = serve(&cluster, &["--reservation-ttl", "1h"]);
    wait_ready(&server).await;
    let mut client = server.connect().await;
    let first = group("a", "first", &["shared"], GOOSE_API);
    let second = group("b", "second", &["shared"], GOOSE_API);
    // What is not stored leaves nothing behind.
    assert_eq!(denial_message(&client.review(create(&first, true)).await.unwrap()), "allowed");
    assert_eq!(denial_message(&client.review(create(&second, true)).await.unwrap()), "allowed");
    // Neither does what is denied.
    let mut wrong = group("c", "wrong", &["shared", ""], GOOSE_API);
    assert!(decide(&mut client, &wrong).await.contains("NamespaceAll"));
    assert_eq!(decide(&mut client, &first).await, "allowed");
    assert!(decide(&mut client, &second).await.starts_with("intersecting"));
    assert_eq!(decide(&mut client, &first).await, "allowed", "a retry is in nobody's way");
    cluster.apply(OLM, "v1", "operatorgroups", first);
    wait_for_groups(&server, 1).await;
    assert!(decide(&mut client, &second).await.starts_with("intersecting"));
    cluster.delete(OLM, "operatorgroups", "a", "first");
    wait_for_groups(&server, 0).await;
    assert_eq!(decide(&mut client, &second).await, "allowed", "it lives as long as the object");
    wrong["spec"]["targetNamespaces"] = json!(["c"]);
    assert_eq!(decide(&mut client, &wrong).await, "allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn reservation_ends_by_direct_read_while_watch_is_silent() {
    let cluster = cluster();
    let server = serve(&cluster, &["--reservation-ttl", "1s"]);
    wait_ready(&server).await;
    let mut client = server.connect().await;
    let first = group("a", "first", &["shared"], GOOSE_API);
    let second = group("b", "second", &["shared"], GOOSE_API);
    // It is never stored: a quota, another webhook, a name that exists.
    assert_eq!(decide(&mut client, &first).await, "allowed");
    let reservations = format!("opgate_reservations{{resource=\"{OPERATOR_GROUPS}\"}}");
    assert_eq!(server.metric(&reservations).await, Some(1.0));
    wait_until("the end of the reservation", async || {
        server.metric(&reservations).await == Some(0.0)
    })
    .await;
    assert_eq!(decide(&mut client, &second).await, "allowed");
    // Stored, and not shown: the API server is asked, and the object counts.
    cluster.pause();
    let third = group("c", "third", &["other"], "Swan.v1.birds.com");
    let fourth = group("d", "fourth", &["other"], "Swan.v1.birds.com");
    assert_eq!(decide(&mut client, &third).await, "allowed");
    cluster.apply(OLM, "v1", "operatorgroups", third);
    cluster.resume();
    wait_until("its end", async || {
        let text = decide(&mut client, &fourth).await;
        text.starts_with("intersecting")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn full_tenant_share_does_not_affect_other_tenants() {
    let cluster = cluster();
    let server = serve(&cluster, &["--reservation-ttl", "1h"]);
    wait_ready(&server).await;
    let mut client = server.connect().await;
    let of = |user: &str, object: &Value| {
        let mut review: Value = serde_json::from_str(&create(object, false)).unwrap();
        review["request"]["userInfo"]["username"] = json!(user);
        review.to_string()
    };
    // A controller that creates one object again and again needs no more places the faster it is.
    for number in 0..300 {
        let never = group("a", "one", &["a"], &format!("Kind{number}.v1.a.com"));
        let answer = client.review(of("eve", &never)).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let reservations = format!("opgate_reservations{{resource=\"{OPERATOR_GROUPS}\"}}");
    assert_eq!(server.metric(&reservations).await, Some(8.0));
    let mut refused = 0;
    for number in 0..600 {
        let namespace = format!("eve-{number}");
        let apis = format!("Kind{number}.v1.{namespace}.com");
        let never = group(&namespace, "one", &[&namespace], &apis);
        let answer = client.review(of("eve", &never)).await.unwrap();
        if answer.status == 503 {
            refused += 1;
            let told = ["namespace", "user eve", "at most half of the rest"];
            assert!(told.iter().all(|part| answer.body.contains(part)), "{}", answer.body);
        } else {
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
    }
    assert_eq!(refused, 600 - (256 - 8), "half of 512 places are hers");
    for number in 0..20 {
        let namespace = format!("other-{number}");
        let group = group(&namespace, "g", &[&namespace], "Goose.v1.other.com");
        let answer = client.review(of("bob", &group)).await.unwrap();
        assert_eq!((answer.status, denial_message(&answer).as_str()), (200, "allowed"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn denial_by_a_deleted_object_is_rechecked() {
    let cluster = cluster();
    cluster.apply(OLM, "v1", "operatorgroups", group("a", "first", &["shared"], GOOSE_API));
    let server = serve(&cluster, &[]);
    wait_ready(&server).await;
    wait_for_groups(&server, 1).await;
    let mut client = server.connect().await;
    let new = group("b", "new", &["shared"], GOOSE_API);
    assert!(decide(&mut client, &new).await.starts_with("intersecting"));
    // The watch is cut, and cannot be opened again: it still shows the group.
    cluster.set_watch_behavior(OLM, "operatorgroups", WatchBehavior::InternalError);
    cluster.delete(OLM, "operatorgroups", "a", "first");
    assert_eq!(object_count(&server, OPERATOR_GROUPS).await, Some(1.0));
    assert_eq!(decide(&mut client, &new).await, "allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn consistent_reads_query_the_api_server() {
    let cluster = cluster();
    let server = serve(&cluster, &["--consistent-reads"]);
    wait_ready(&server).await;
    cluster.apply(OLM, "v1", "operatorgroups", group("a", "first", &["shared"], GOOSE_API));
    let mut client = server.connect().await;
    let before = cluster.requests().len();
    let refused = decide(&mut client, &group("b", "new", &["shared"], GOOSE_API)).await;
    assert!(refused.starts_with("intersecting"), "{refused}");
    let requests = cluster.requests().split_off(before);
    let asked =
        |part: &str| requests.iter().filter(|r| r.contains(part) && !r.contains("watch=")).count();
    assert!(asked("/operatorgroups") > 0, "{requests:?}");
    assert_eq!(asked("/namespaces?"), 0, "nobody changes namespaces under review: {requests:?}");
    // A narrow question stays narrow.
    let before = cluster.requests().len();
    let quiet = group("c", "quiet", &["c"], "");
    assert_eq!(decide(&mut client, &quiet).await, "allowed");
    let requests = cluster.requests().split_off(before);
    let lists = requests.iter().filter(|r| r.contains("/operatorgroups") && !r.contains("watch="));
    assert!(lists.clone().all(|r| r.contains("/namespaces/c/")), "{requests:?}");
    // Without a response of the API server, the server returns an error.
    cluster.forbid(OLM, "operatorgroups");
    let review = create(&group("b", "new", &["shared"], GOOSE_API), false);
    let answer = client.review(review).await.unwrap();
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains("forbidden"), "{}", answer.body);
}

#[tokio::test]
async fn rules_that_need_cluster_state_are_skipped_without_it() {
    let server = Server::start(BINARY, Some(&policies()), &["--cluster-source", "none"]);
    assert_eq!(server.get("/readyz").await.0, 200);
    let mut client = server.connect().await;
    let review = create(&group("b", "new", &["shared"], GOOSE_API), false);
    let answer = client.review(review).await.unwrap();
    assert_eq!(denial_message(&answer), "allowed");
    let response = answer.response();
    let left_out = response["auditAnnotations"]["operator-group.skipped-rules"].as_str().unwrap();
    assert!(left_out.split(' ').any(|rule| rule == "OPG-18"), "{left_out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn undeclared_objects_are_not_returned_to_policies() {
    let cluster = cluster();
    cluster.install("", "v1", "secrets", "Secret", Scope::Namespaced);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "a"},
        "data": {"password": "eA=="},
    });
    cluster.apply("", "v1", "secrets", secret);
    let module: PathBuf = hostile_component("reads-cluster");
    let policy = json!({
        "name": "curious", "module": module, "allowedReads": ["v1/namespaces", "v1/secrets"],
        "limits": {"time": "20s"},
    });
    let kubeconfig = cluster.kubeconfig();
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let server = Server::start(BINARY, Some(&configuration(&[policy])), &arguments);
    let mut client = server.connect().await;
    let bundle = testkit::create_bundle("1", "x", &testkit::good_spec());
    let answer = client.review(bundle.to_string()).await.unwrap();
    assert_eq!(denial_message(&answer), "0 secrets");
    assert!(!cluster.requests().iter().any(|request| request.contains("secrets")));
}

/// A role in a namespace can be granted only where the namespace exists. Where it does not, nothing is in it.
#[tokio::test(flavor = "multi_thread")]
async fn missing_namespace_contains_no_objects() {
    let cluster = cluster();
    cluster.forbid("", "configmaps");
    let server = serve(&cluster, &[]);
    wait_ready(&server).await;
    let says = async |line: &str| {
        wait_until(line, async || server.get("/readyz?verbose").await.1.contains(line)).await;
    };
    says("[+]v1/configmaps not installed\n").await;
    // From then on it takes the permission.
    cluster.apply("", "v1", "namespaces", namespace("rukpak-system"));
    says("[-]v1/configmaps is not synced yet: forbidden: ").await;
    cluster.allow("", "configmaps");
    says("[+]v1/configmaps current, 0 objects\n").await;
}
