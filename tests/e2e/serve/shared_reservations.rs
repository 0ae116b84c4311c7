//! Two servers of an installation with one ledger: requests that exclude each other, one to each.

use serde_json::{Value, json};
use testkit::fake_api_server::FakeCluster;
use testkit::reviews::{self, GOOSE_API, OLM, WriteMode, cluster, group, policies};
use testkit::{Server, wait_until};

use crate::BINARY;

const PAIRS: u32 = 10;

fn serve(cluster: &FakeCluster, pod: &str, configuration: &str) -> Server {
    let arguments = ["--installation", "opgate-system/opgate", "--pod-name", pod];
    // On a busy machine the test stores an allowed object much later than an API server.
    let arguments = [&arguments[..], &["--reservation-ttl", "30s"]].concat();
    reviews::serve_with(BINARY, cluster, configuration, &arguments)
}

async fn wait_ready(servers: &[Server]) {
    for server in servers {
        wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
    }
}

/// Whether a server allows the creation of a group.
async fn allows(server: &Server, object: &Value, mode: WriteMode) -> bool {
    let mut client = server.connect().await;
    client.review(reviews::create(object, mode)).await.unwrap().message() == "allowed"
}

/// Creates a group, as an API server does: stored if the server allows it.
async fn create(cluster: &FakeCluster, server: &Server, object: &Value) -> bool {
    let is_allowed = allows(server, object, WriteMode::Persist).await;
    if is_allowed {
        cluster.apply(OLM, "v1", "operatorgroups", object.clone());
    }
    is_allowed
}

fn ledger(cluster: &FakeCluster) -> String {
    let object = cluster.stored("", "configmaps", "opgate-system", "opgate-reservations");
    object.unwrap()["data"]["ledger.json"].as_str().unwrap().to_owned()
}

/// Sends pairs of groups that exclude each other to two servers: one of each pair is allowed.
async fn race_pairs(cluster: &FakeCluster) {
    let servers = ["a", "b"].map(|pod| serve(cluster, pod, &policies()));
    wait_ready(&servers).await;
    for number in 0..PAIRS {
        // Two groups that provide one API to one namespace.
        let api = format!("Goose{number}.v1alpha1.birds.com");
        let group = |namespace: &str| group(namespace, &format!("g{number}"), &["shared"], &api);
        let (first, second) = (group("a"), group("b"));
        let (first, second) = tokio::join!(
            create(cluster, &servers[0], &first),
            create(cluster, &servers[1], &second)
        );
        assert!(!(first && second), "pair {number}: both are allowed");
        assert!(first || second, "pair {number}: both are denied");
        let stored = if first { "a" } else { "b" };
        cluster.delete(OLM, "operatorgroups", stored, &format!("g{number}"));
    }
    // Either server may have allowed all of them.
    let mut appends = 0.0;
    for server in &servers {
        appends += server.metric("opgate_ledger_appends_total").await.unwrap();
    }
    assert!(appends >= f64::from(PAIRS), "{appends}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_allow_one_of_two_requests_that_exclude_each_other() {
    let cluster = cluster();
    cluster.install_ledger("opgate-system");
    race_pairs(&cluster).await;
}

/// The watch only saves round trips.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_without_a_watch_of_the_ledger_allow_one_of_two_requests() {
    let cluster = cluster();
    cluster.install_ledger("opgate-system");
    cluster.forbid_watch("", "configmaps");
    race_pairs(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dry_run_writes_nothing_to_the_ledger() {
    let cluster = cluster();
    cluster.install_ledger("opgate-system");
    let servers = [serve(&cluster, "a", &policies())];
    wait_ready(&servers).await;
    let before = ledger(&cluster);
    let object = group("a", "new", &["shared"], GOOSE_API);
    assert!(allows(&servers[0], &object, WriteMode::DryRun).await);
    assert_eq!(ledger(&cluster), before);
    assert!(allows(&servers[0], &object, WriteMode::Persist).await);
    assert_ne!(ledger(&cluster), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_fails_without_permission_for_the_ledger() {
    let cluster = cluster();
    cluster.install_ledger("opgate-system");
    let servers = [serve(&cluster, "a", &policies())];
    wait_ready(&servers).await;
    cluster.forbid("", "configmaps");
    let mut client = servers[0].connect().await;
    let object = group("a", "new", &["shared"], GOOSE_API);
    let answer = client.review(reviews::create(&object, WriteMode::Persist)).await.unwrap();
    assert_eq!(answer.status, 500, "{}", answer.body);
    assert!(answer.body.contains("the ledger cannot be written"), "{}", answer.body);
    // A request that reserves nothing does not need it.
    assert!(allows(&servers[0], &object, WriteMode::DryRun).await);
}

/// The object matters for requests that other policies evaluate.
#[tokio::test(flavor = "multi_thread")]
async fn request_whose_policy_queries_nothing_fails_without_the_ledger() {
    let cluster = cluster();
    cluster.install_ledger("opgate-system");
    let policies = testkit::configuration(&[
        json!({"name": "operator-group", "match": {"namespaces": {"exclude": ["a"]}}}),
        json!({"name": "constraint-limits"}),
    ]);
    let servers = [serve(&cluster, "a", &policies)];
    wait_ready(&servers).await;
    let csv = |name: &str| reviews::csv("a", name, &["OwnNamespace"], &[]);
    assert!(allows(&servers[0], &csv("first.v1"), WriteMode::Persist).await);
    cluster.forbid("", "configmaps");
    let mut client = servers[0].connect().await;
    let review = reviews::create(&csv("second.v1"), WriteMode::Persist);
    let answer = client.review(review).await.unwrap();
    assert_eq!(answer.status, 500, "{}", answer.body);
    assert!(answer.body.contains("the ledger cannot be written"), "{}", answer.body);
}

/// The ledger has a version of the resource, and this server cannot list it.
#[tokio::test(flavor = "multi_thread")]
async fn server_decides_about_a_resource_that_was_uninstalled_before_its_start() {
    let cluster = cluster();
    cluster.install_ledger("opgate-system");
    let first = [serve(&cluster, "a", &policies())];
    wait_ready(&first).await;
    assert!(create(&cluster, &first[0], &group("a", "first", &["shared"], GOOSE_API)).await);
    wait_until("a version of the resource", async || {
        ledger(&cluster).contains("operators.coreos.com/operatorgroups\":")
    })
    .await;
    cluster.uninstall(OLM, "operatorgroups");
    let second = [serve(&cluster, "b", &policies())];
    wait_ready(&second).await;
    let object = group("b", "second", &["shared"], GOOSE_API);
    assert!(allows(&second[0], &object, WriteMode::Persist).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn local_reservations_need_no_ledger() {
    let cluster = cluster();
    let mut local: Value = serde_json::from_str(&policies()).unwrap();
    local["reservations"] = json!("local");
    let servers = [serve(&cluster, "a", &local.to_string())];
    wait_ready(&servers).await;
    let object = group("a", "new", &["shared"], GOOSE_API);
    assert!(allows(&servers[0], &object, WriteMode::Persist).await);
    assert!(cluster.stored("", "configmaps", "opgate-system", "opgate-reservations").is_none());
    assert_eq!(servers[0].metric("opgate_ledger_ready").await, Some(0.0));
}

#[test]
fn unknown_scope_of_reservations_is_an_error() {
    let configuration = json!({
        "apiVersion": "opgate.dev/v1alpha1", "kind": "Configuration", "reservations": "both",
    });
    let files = testkit::ConfigMap::new(&[("opgate.yaml", &configuration.to_string())]);
    let path = files.path("opgate.yaml");
    let command = std::process::Command::new(BINARY)
        .args(["config", "validate", path.to_str().unwrap()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&command.stderr).into_owned();
    assert!(text.contains("expected `shared` or `local`"), "{text}");
    assert_eq!(command.status.code(), Some(1));
}
