//! `opgate serve --events`: Events for denied requests.

use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::{
    Certificates, Client, Server, builtin_policy, configuration, create_bundle, good_spec,
    wait_until,
};

use crate::BINARY;

const GROUP: &str = "events.k8s.io";

fn cluster() -> FakeCluster {
    let cluster = FakeCluster::start();
    cluster.install_ledger("opgate-system");
    cluster.install("coordination.k8s.io", "v1", "leases", "Lease", Scope::Namespaced);
    cluster.install(GROUP, "v1", "events", "Event", Scope::Namespaced);
    cluster
}

fn serve(cluster: &FakeCluster, name: &str, more: &[&str]) -> Server {
    let kubeconfig = cluster.kubeconfig();
    let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().unwrap(), "--drain-delay", "0s"];
    arguments.extend(["--installation", "opgate-system/opgate", "--pod-name", name]);
    arguments.extend(more);
    let configuration = configuration(&[builtin_policy()]);
    Server::start_with(BINARY, Some(&configuration), &arguments, Certificates::new())
}

/// A review of a Bundle without an image, which RPK-03 or another rule denies.
fn denied_review(namespace: &str, name: &str) -> Value {
    let mut review = create_bundle("u", name, &json!({"source": {"type": "image"}}));
    review["request"]["namespace"] = namespace.into();
    review
}

async fn deny(client: &mut Client, review: &Value) -> Value {
    let answer = client.review(review.to_string()).await.unwrap();
    let response = answer.response();
    assert_eq!(response["allowed"], false, "{}", answer.body);
    response
}

/// The Events of a namespace for denials.
fn events(cluster: &FakeCluster, namespace: &str) -> Vec<Value> {
    let mut events = cluster.objects(GROUP, "events");
    events
        .retain(|event| event["metadata"]["namespace"] == namespace && event["reason"] == "Denied");
    events
}

/// The number of denials that the Events of a namespace report.
fn reported(cluster: &FakeCluster, namespace: &str) -> u64 {
    let count = |event: &Value| event["series"]["count"].as_u64().unwrap_or(1);
    events(cluster, namespace).iter().map(count).sum()
}

/// The number of the hour. An Event has the denials of one hour.
fn hour() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_secs() / 3_600
}

#[tokio::test(flavor = "multi_thread")]
async fn denial_has_an_event_in_the_namespace_of_its_object() {
    let cluster = cluster();
    let server = serve(&cluster, "a", &["--events"]);
    let mut client = server.connect().await;
    let mut dry = denied_review("dry", "bundle");
    dry["request"]["dryRun"] = json!(true);
    deny(&mut client, &dry).await;
    let mut allowed = create_bundle("u", "bundle", &good_spec());
    allowed["request"]["namespace"] = json!("allowed");
    let answer = client.review(allowed.to_string()).await.unwrap();
    assert_eq!(answer.response()["allowed"], true, "{}", answer.body);
    let response = deny(&mut client, &denied_review("team-a", "bundle")).await;
    deny(&mut client, &denied_review("", "bundle")).await;
    wait_until("both Events", async || {
        reported(&cluster, "team-a") == 1 && reported(&cluster, "default") == 1
    })
    .await;
    let event = events(&cluster, "team-a").remove(0);
    let bundle = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle", "namespace": "team-a", "name": "bundle",
    });
    assert_eq!(event["regarding"], bundle);
    let note = event["note"].as_str().unwrap();
    let causes = &response["status"]["details"]["causes"];
    let (rule, message) = (&causes[0]["reason"], &causes[0]["message"]);
    assert!(note.starts_with("CREATE of Bundle bundle denied: RPK-"), "{note}");
    for part in [rule, message] {
        assert!(note.contains(part.as_str().unwrap()), "{part}: {note}");
    }
    let plain = ["type", "reason", "action", "reportingController", "reportingInstance"];
    let plain = plain.map(|member| event[member].as_str().unwrap());
    assert_eq!(plain, ["Warning", "Denied", "Create", "opgate.dev/opgate", "a"]);
    assert!(events(&cluster, "dry").is_empty() && events(&cluster, "allowed").is_empty());
    let written = "opgate_denial_events_total{result=\"written\"}";
    wait_until("the metric", async || server.metric(written).await == Some(2.0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_denials_of_two_servers_are_one_event() {
    let cluster = cluster();
    let servers = ["a", "b"].map(|name| serve(&cluster, name, &["--events"]));
    let begun = hour();
    let review = denied_review("team-a", "bundle");
    for server in &servers {
        let mut client = server.connect().await;
        for _ in 0..500 {
            deny(&mut client, &review).await;
        }
    }
    wait_until("all denials", async || reported(&cluster, "team-a") == 1_000).await;
    let hours = usize::try_from(hour() - begun).unwrap() + 1;
    assert!(events(&cluster, "team-a").len() <= hours);
    let is_write = |request: &&String| !request.starts_with("GET") && request.contains("/events");
    let writes = cluster.requests().iter().filter(is_write).count();
    assert!(writes <= 60, "{writes} writes for 1000 denials");
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_one_namespace_hides_no_event_of_another() {
    let cluster = cluster();
    let server = serve(&cluster, "a", &["--events"]);
    let mut client = server.connect().await;
    for number in 0..300 {
        deny(&mut client, &denied_review("loud", &format!("bundle-{number}"))).await;
    }
    deny(&mut client, &denied_review("quiet", "bundle")).await;
    wait_until("the Event", async || reported(&cluster, "quiet") == 1).await;
    // Ten at once, and one a minute.
    let loud = events(&cluster, "loud").len();
    assert!((10..=30).contains(&loud), "{loud}");
    let dropped = server.metric("opgate_denial_events_total{result=\"dropped\"}").await;
    assert!(dropped >= Some(270.0), "{dropped:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_events_change_no_response_and_are_logged_once() {
    let cluster = cluster();
    cluster.forbid(GROUP, "events");
    let server = serve(&cluster, "a", &["--events"]);
    let mut client = server.connect().await;
    for number in 0..30 {
        deny(&mut client, &denied_review(&format!("team-{number}"), "bundle")).await;
    }
    let failed = "opgate_denial_events_total{result=\"failed\"}";
    wait_until("failed Events", async || server.metric(failed).await == Some(30.0)).await;
    let log = server.log();
    let lines = log.iter().filter(|line| line["message"] == "event of a denial not written");
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0]["error"].as_str().unwrap().contains("forbidden"), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_flag_no_event_is_written() {
    let cluster = cluster();
    let server = serve(&cluster, "a", &[]);
    let mut client = server.connect().await;
    deny(&mut client, &denied_review("team-a", "bundle")).await;
    let (_, metrics) = server.get("/metrics").await;
    assert!(!metrics.contains("opgate_denial_events") && !metrics.contains("task=\"events\""));
    assert!(events(&cluster, "team-a").is_empty());
}

#[test]
fn events_need_an_installation_and_a_cluster() {
    for arguments in ["--events", "--events --installation a/b --cluster-source none"] {
        let certificates = Certificates::new();
        let mut command = std::process::Command::new(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]);
        command.arg("--tls-dir").arg(certificates.directory.path()).args(arguments.split(' '));
        for variable in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "OPGATE_INSTALLATION"] {
            command.env_remove(variable);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let expected = "--events needs a cluster, and an installation";
        assert!(output.status.code() == Some(2) && text.contains(expected), "{arguments}: {text}");
    }
}
