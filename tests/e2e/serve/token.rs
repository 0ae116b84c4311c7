//! A server whose token the API server does not accept, or no longer.

use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::reviews::{self, GOOSE_API, OLM, OPERATOR_GROUPS, WriteMode, cluster, group};
use testkit::{Server, configuration, wait_until};

use crate::BINARY;

/// What the kubeconfig of the fake API server has.
const TOKEN: &str = "not-checked";

const TOKEN_ADVICE: &str = "the API server does not accept the token of opgate (401: Unauthorized)";

async fn evaluate(server: &Server) -> (u16, String) {
    let review = reviews::create(&group("b", "new", &["shared"], GOOSE_API), WriteMode::DryRun);
    let answer = server.connect().await.review(review).await.unwrap();
    (answer.status, answer.body)
}

async fn wait_ready(server: &Server) {
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_token_is_named_everywhere() {
    let cluster = cluster();
    let server = reviews::serve(BINARY, &cluster, &[]);
    wait_ready(&server).await;
    cluster.refuse_token(TOKEN);
    cluster.cut_watches();
    let resource = format!("[!]{OPERATOR_GROUPS} interrupted for");
    wait_until("the refusal", async || {
        let (_, text) = server.get("/readyz?verbose").await;
        let mut lines = text.lines();
        lines.any(|line| line.starts_with(&resource) && line.contains(TOKEN_ADVICE))
    })
    .await;
    let (code, text) = server.get("/readyz?verbose").await;
    assert_eq!(code, 200, "what is known is not too old yet: {text}");
    assert!(!text.contains("grant"), "{text}");
    let refused = format!("opgate_cluster_cache_unauthorized{{resource=\"{OPERATOR_GROUPS}\"}}");
    assert_eq!(server.metric(&refused).await, Some(1.0));
    let policies: Value = serde_json::from_str(&server.get("/policies").await.1).unwrap();
    let mut known = policies["cluster"]["resources"].as_array().unwrap().iter();
    let groups = known.find(|one| one["resource"] == OPERATOR_GROUPS).unwrap();
    assert_eq!((&groups["state"], &groups["unauthorized"]), (&json!("interrupted"), &json!(true)));
    assert_eq!(groups["neededBy"], json!(["operator-group"]));

    cluster.accept_token(TOKEN);
    wait_until("the end of it", async || server.metric(&refused).await == Some(0.0)).await;
}

/// One policy that reads the cluster, and, if wanted, one that needs to know nothing.
fn policies(with_another: bool) -> String {
    let mut all = vec![json!({"name": "operator-group", "limits": {"time": "20s"}})];
    if with_another {
        all.push(json!({"name": "constraint-limits", "limits": {"time": "20s"}}));
    }
    configuration(&all)
}

/// Waits until calls end because the view is too old.
async fn wait_stale(server: &Server) {
    wait_until("the end of patience", async || {
        let (status, body) = evaluate(server).await;
        status == 500 && body.contains("was last heard of")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_without_usable_policies_is_not_ready() {
    let cluster = cluster();
    let start = |with_another| {
        let arguments = ["--cluster-cache-max-age", "1500ms"];
        reviews::serve_with(BINARY, &cluster, &policies(with_another), &arguments)
    };
    let (blind, useful) = (start(false), start(true));
    wait_ready(&blind).await;
    wait_ready(&useful).await;
    // An API server that does not respond calls no webhook. When it is back, it finds servers that
    // are ready.
    cluster.pause();
    wait_stale(&blind).await;
    assert_eq!(blind.get("/readyz").await, (200, "ok".to_owned()));
    // One that answers, and refuses, calls a server that knows nothing.
    cluster.refuse_token(TOKEN);
    cluster.resume();
    cluster.cut_watches();
    wait_until("no readiness", async || {
        let (code, text) = blind.get("/readyz").await;
        code == 503 && text.starts_with("no policy can decide: ") && text.contains(TOKEN_ADVICE)
    })
    .await;
    assert_eq!(blind.get("/livez").await.0, 200, "a restart of the process does not help");
    wait_stale(&useful).await;
    wait_until("the refusal", async || {
        useful.get("/readyz?verbose").await.1.contains(TOKEN_ADVICE)
    })
    .await;
    assert_eq!(useful.get("/readyz").await.0, 200, "another policy decides");
    cluster.accept_token(TOKEN);
    wait_ready(&blind).await;
    assert_eq!(evaluate(&blind).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_token_in_the_file_is_used_at_once() {
    let cluster = cluster();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    std::fs::write(&file, "first").unwrap();
    let kubeconfig = cluster.kubeconfig_of(&json!({"tokenFile": file}));
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let server = Server::start(BINARY, Some(&policies(false)), &arguments);
    wait_ready(&server).await;
    std::fs::write(&file, "second").unwrap();
    cluster.refuse_token("first");
    cluster.wait_watching("operatorgroups", 1).await;
    cluster.cut_watches();
    cluster.apply(OLM, "v1", "operatorgroups", group("a", "first", &["shared"], GOOSE_API));
    let objects = format!("opgate_cluster_cache_objects{{resource=\"{OPERATOR_GROUPS}\"}}");
    wait_until("the new group", async || server.metric(&objects).await == Some(1.0)).await;
    let refused = server.log().iter().any(|line| line.to_string().contains("does not accept"));
    assert!(!refused, "nobody has noticed: {:?}", server.log());
}

/// The doctor reads it there, whatever keeps it from the ops port.
#[tokio::test(flavor = "multi_thread")]
async fn server_reports_its_errors_in_its_lease() {
    let cluster = cluster();
    cluster.install("coordination.k8s.io", "v1", "leases", "Lease", Scope::Namespaced);
    cluster.forbid(OLM, "operatorgroups");
    // The server cannot list a resource: without a timeout it would wait for it before it serves.
    let arguments =
        ["--installation", "opgate-system/opgate", "--pod-name", "one", "--sync-timeout", "0s"];
    let server = reviews::serve_with(BINARY, &cluster, &policies(false), &arguments);
    let state = || {
        let (group, name) = ("coordination.k8s.io", "opgate-replica-one");
        let lease = cluster.stored(group, "leases", "opgate-system", name)?;
        let state = lease["metadata"]["annotations"]["opgate.dev/state"].as_str()?.to_owned();
        serde_json::from_str::<Value>(&state).ok()
    };
    wait_until("the trouble", async || {
        state().is_some_and(|state| {
            let first = &state["resources"][0];
            first["resource"] == OPERATOR_GROUPS
                && first["state"] == "unseen"
                && first["error"].as_str().is_some_and(|error| error.contains("is forbidden"))
        })
    })
    .await;
    assert!(server.metric("opgate_lease_last_renewed_seconds ").await > Some(0.0));
    cluster.allow(OLM, "operatorgroups");
    wait_until("the end of it", async || state().is_none()).await;
}

#[test]
fn rejected_doctor_credentials_are_an_error() {
    let cluster = FakeCluster::start();
    cluster.refuse_token(TOKEN);
    let kubeconfig = cluster.kubeconfig();
    let arguments = ["doctor", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let output = std::process::Command::new(BINARY).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("does not accept the credentials (401: Unauthorized)"), "{text}");
    assert!(text.contains("log in again"), "{text}");
}
