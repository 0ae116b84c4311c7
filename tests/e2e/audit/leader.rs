//! `opgate serve --audit-interval`: the leader of the servers keeps reports and metrics of stored objects.

use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::{Certificates, ConfigMap, Server, create_bundle, good_spec, wait_until};

use super::{OLM, POLICY_REPORT, REPORTS, RUKPAK, cluster as audited_objects};
use crate::BINARY;

mod incremental;

const COMPLETE: &str = "opgate_audit_runs_total{result=\"complete\"}";
const FAILED: &str = "opgate_audit_runs_total{result=\"failed\"}";
const OBJECTS: &str = "opgate_audit_objects";

/// The configuration of the other tests, with all the time that an unoptimised build may need.
fn configuration() -> String {
    let policy = |name: &str| json!({"name": name, "limits": {"time": "20s"}});
    let policies = [policy("operator-group"), policy("bundle-immutability")];
    testkit::configuration(&policies)
}

/// A cluster with objects that violate rules, an API for reports, and an installation.
fn cluster() -> FakeCluster {
    let cluster = audited_objects();
    POLICY_REPORT.install(&cluster);
    cluster.install_ledger("opgate-system");
    cluster.install("coordination.k8s.io", "v1", "leases", "Lease", Scope::Namespaced);
    cluster.install("events.k8s.io", "v1", "events", "Event", Scope::Namespaced);
    cluster
}

fn serve_with(cluster: &FakeCluster, configuration: &str, name: &str, more: &[&str]) -> Server {
    let kubeconfig = cluster.kubeconfig();
    let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().unwrap(), "--drain-delay", "0s"];
    arguments.extend(["--installation", "opgate-system/opgate", "--pod-name", name]);
    arguments.extend(more);
    Server::start_with(BINARY, Some(configuration), &arguments, Certificates::new())
}

fn serve(cluster: &FakeCluster, name: &str) -> Server {
    serve_with(cluster, &configuration(), name, &["--audit-interval", "100ms"])
}

/// Waits until this many more audits are complete.
async fn wait_audits(server: &Server, count: f64) {
    let before = server.metric(COMPLETE).await.unwrap();
    let text = format!("{count} more audits");
    wait_until(&text, async || server.metric(COMPLETE).await.unwrap() >= before + count).await;
}

async fn wait_reports(cluster: &FakeCluster, expected: &[&str]) {
    let text = format!("the reports {expected:?}");
    wait_until(&text, async || POLICY_REPORT.installation_reports(cluster) == expected).await;
}

async fn violations(server: &Server, rule: &str, namespace: &str, effect: &str) -> Option<f64> {
    let policy = if rule.starts_with("RPK") { "bundle-immutability" } else { "operator-group" };
    let labels = format!(
        "policy=\"{policy}\",rule=\"{rule}\",namespace=\"{namespace}\",effect=\"{effect}\""
    );
    server.metric(&format!("opgate_audit_violations{{{labels}}}")).await
}

fn logged(server: &Server, message: &str) -> Vec<Value> {
    let mut log = server.log();
    log.retain(|line| line["message"].as_str().is_some_and(|text| text.contains(message)));
    log
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_violations_have_reports_and_metrics_until_they_are_fixed() {
    let cluster = cluster();
    let server = serve(&cluster, "a");
    wait_reports(&cluster, &REPORTS).await;
    wait_audits(&server, 1.0).await;
    assert_eq!(violations(&server, "OPG-01", "one", "deny").await, Some(2.0));
    assert_eq!(violations(&server, "RPK-12", "", "deny").await, Some(1.0));
    assert_eq!(server.metric(OBJECTS).await, Some(5.0));
    assert_eq!(server.metric("opgate_audit_errors").await, Some(0.0));
    let ended = server.metric("opgate_audit_last_run_timestamp_seconds").await;
    assert!(ended.is_some_and(|at| at > 1.7e9), "{ended:?}");
    assert!(server.metric("opgate_audit_last_run_duration_seconds").await > Some(0.0));
    let written = "opgate_audit_report_writes_total{result=\"written\"}";
    assert_eq!(server.metric(written).await, Some(5.0));
    cluster.delete(OLM, "operatorgroups", "one", "second");
    wait_reports(&cluster, &REPORTS[2..]).await;
    wait_until("no violation", async || {
        violations(&server, "OPG-01", "one", "deny").await.is_none()
    })
    .await;
    assert_eq!(violations(&server, "RPK-12", "", "deny").await, Some(1.0));
    assert!(!logged(&server, "audit finished").is_empty());
    assert_eq!(logged(&server, "audit incomplete"), [Value::Null; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_leader_audits_and_the_next_one_continues() {
    let cluster = cluster();
    let (mut leader, mut other) = (serve(&cluster, "a"), serve(&cluster, "b"));
    let leads = async |server: &Server| server.metric("opgate_leader").await == Some(1.0);
    wait_until("a leader", async || leads(&leader).await || leads(&other).await).await;
    if leads(&other).await {
        std::mem::swap(&mut leader, &mut other);
    }
    wait_reports(&cluster, &REPORTS).await;
    wait_audits(&leader, 2.0).await;
    assert_eq!(other.metric(COMPLETE).await, Some(0.0));
    assert_eq!(other.metric(OBJECTS).await, None);
    let written = "opgate_audit_report_writes_total{result=\"written\"}";
    assert_eq!(other.metric(written).await, Some(0.0));
    leader.signal(rustix::process::Signal::TERM);
    assert!(leader.wait().success());
    cluster.delete(OLM, "operatorgroups", "one", "second");
    wait_reports(&cluster, &REPORTS[2..]).await;
    wait_until("results", async || other.metric(OBJECTS).await == Some(4.0)).await;
}

const UNCHANGED: &str = "opgate_audit_unchanged_objects";

/// The numbers of unchanged objects of the audits so far.
fn unchanged_counts(server: &Server) -> Vec<u64> {
    let lines = logged(server, "audit finished");
    lines.iter().map(|line| line["unchanged"].as_u64().unwrap()).collect()
}

/// A server that loses the lead while it audits writes nothing more.
#[tokio::test(flavor = "multi_thread")]
async fn lost_lead_stops_the_audit_before_its_next_write() {
    let cluster = cluster();
    let server = serve(&cluster, "a");
    wait_reports(&cluster, &REPORTS).await;
    cluster.hold_lists(RUKPAK, "bundles");
    let is_held = |request: &str| request.starts_with("GET ") && request.contains("/bundles?");
    let before = cluster.requests().iter().filter(|request| is_held(request)).count();
    cluster.wait_requested(before + 1, is_held).await;
    // The audit that is held would delete two reports.
    cluster.delete(OLM, "operatorgroups", "one", "second");
    let (group, plural) = ("coordination.k8s.io", "leases");
    let mut lease = cluster.stored(group, plural, "opgate-system", "opgate-leader").unwrap();
    lease["spec"]["holderIdentity"] = json!("another");
    cluster.apply(group, "v1", plural, lease);
    wait_until("another leader", async || server.metric("opgate_leader").await == Some(0.0)).await;
    wait_until("no results", async || server.metric(OBJECTS).await.is_none()).await;
    let lost = cluster.requests().len();
    cluster.release_lists(RUKPAK, "bundles");
    // Time for the rest of an audit: the server reads the lease two more times.
    let is_read = |request: &str| request.starts_with("GET ") && request.contains("/leases/");
    let reads = cluster.requests().iter().filter(|request| is_read(request)).count();
    cluster.wait_requested(reads + 2, is_read).await;
    let requests = cluster.requests().split_off(lost);
    assert!(requests.iter().all(|request| !request.contains("reports")), "{requests:?}");
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), REPORTS);
    assert_eq!(server.metric(FAILED).await, Some(0.0));
    // Once it leads again, it continues.
    cluster.delete(group, plural, "opgate-system", "opgate-leader");
    wait_reports(&cluster, &REPORTS[2..]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_are_decided_during_an_audit() {
    let cluster = cluster();
    let server = serve(&cluster, "a");
    wait_audits(&server, 1.0).await;
    cluster.hold_lists(RUKPAK, "bundles");
    let is_held = |request: &str| request.starts_with("GET ") && request.contains("/bundles?");
    let before = cluster.requests().iter().filter(|request| is_held(request)).count();
    cluster.wait_requested(before + 1, is_held).await;
    let mut client = server.connect().await;
    for (spec, is_allowed) in [(good_spec(), true), (json!({"source": {"type": "image"}}), false)] {
        let review = create_bundle("1", "b", &spec).to_string();
        let response = client.review(review).await.unwrap().response();
        assert_eq!(response["allowed"], is_allowed, "{response}");
    }
    assert_eq!(server.get("/readyz").await.0, 200);
    cluster.release_lists(RUKPAK, "bundles");
    wait_audits(&server, 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_has_the_active_configuration() {
    let cluster = cluster();
    let mut files = ConfigMap::new(&[("opgate.yaml", &configuration())]);
    let path = files.path("opgate.yaml");
    let more = ["--config", path.to_str().unwrap(), "--reload-interval", "20ms"];
    let server =
        serve_with(&cluster, "", "a", &[&more[..], &["--audit-interval", "100ms"]].concat());
    wait_reports(&cluster, &REPORTS).await;
    // Invalid files change nothing: audits fail until they hold the active configuration again.
    files.swap(&[("opgate.yaml", "policies: 1\n")]);
    wait_until("failures", async || server.metric(FAILED).await >= Some(2.0)).await;
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), REPORTS);
    let bundles = json!({"name": "bundle-immutability", "limits": {"time": "20s"}});
    files.swap(&[("opgate.yaml", &testkit::configuration(&[bundles]))]);
    wait_reports(&cluster, &REPORTS[4..]).await;
    assert_eq!(server.get("/readyz").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_objects_are_counted_and_logged_once() {
    let cluster = cluster();
    let server = serve(&cluster, "a");
    wait_reports(&cluster, &REPORTS).await;
    cluster.forbid(RUKPAK, "bundles");
    wait_until("an error", async || server.metric("opgate_audit_errors").await > Some(0.0)).await;
    wait_audits(&server, 3.0).await;
    let lines = logged(&server, "audit incomplete");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0]["error"].as_str().unwrap().contains("bundles: not evaluated"), "{lines:?}");
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), REPORTS);
    // Without any list of reports, there are metrics.
    cluster.allow(RUKPAK, "bundles");
    cluster.forbid(POLICY_REPORT.group, POLICY_REPORT.cluster[0]);
    wait_until("a word about reports", async || {
        logged(&server, "audit incomplete").iter().any(|line| {
            line["error"].as_str().is_some_and(|text| text.contains("no reports are written"))
        })
    })
    .await;
    let errors = async || server.metric("opgate_audit_errors").await;
    wait_until("no error", async || errors().await == Some(0.0)).await;
    assert_eq!(server.metric(FAILED).await, Some(0.0));
    // Without any list of objects, the last results stay.
    for (group, plural) in [
        ("", "namespaces"),
        (OLM, "operatorgroups"),
        (OLM, "clusterserviceversions"),
        (RUKPAK, "bundles"),
    ] {
        cluster.forbid(group, plural);
    }
    wait_until("failures", async || server.metric(FAILED).await >= Some(3.0)).await;
    let lines = logged(&server, "audit failed");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(server.metric(OBJECTS).await > Some(0.0));
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), REPORTS);
}

/// A system with a limit of 256 MiB, of which the process uses this much.
fn system_with_memory(used_mib: u64) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
    std::fs::write(root.path().join("proc/meminfo"), "MemTotal: 262144 kB\n").unwrap();
    set_used_memory(&root, used_mib);
    root
}

fn set_used_memory(root: &tempfile::TempDir, used_mib: u64) {
    let (path, new) = (root.path().join("proc/self/status"), root.path().join("new"));
    std::fs::write(&new, format!("RssAnon: {} kB\n", used_mib << 10)).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_without_memory_fails_and_reviews_continue() {
    let cluster = cluster();
    let system = system_with_memory(200);
    let more = ["--audit-interval", "20ms", "--system-root", system.path().to_str().unwrap()];
    let server = serve_with(&cluster, &configuration(), "a", &more);
    wait_until("failures", async || server.metric(FAILED).await >= Some(3.0)).await;
    let lines = logged(&server, "audit failed");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let error = lines[0]["error"].as_str().unwrap();
    assert!(error.contains("less than 32Mi of 256Mi are left"), "{error}");
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), [""; 0]);
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
    let mut client = server.connect().await;
    let review = create_bundle("1", "b", &good_spec()).to_string();
    assert_eq!(client.review(review).await.unwrap().response()["allowed"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_forgotten_if_an_audit_needs_their_memory() {
    let cluster = cluster();
    let system = system_with_memory(20);
    let more = ["--audit-interval", "100ms", "--system-root", system.path().to_str().unwrap()];
    let server = serve_with(&cluster, &configuration(), "a", &more);
    wait_until("no changes", async || server.metric(UNCHANGED).await == Some(5.0)).await;
    set_used_memory(&system, 200);
    wait_until("failures", async || server.metric(FAILED).await >= Some(2.0)).await;
    let before = unchanged_counts(&server).len();
    set_used_memory(&system, 20);
    wait_audits(&server, 2.0).await;
    assert_eq!(unchanged_counts(&server)[before..][..2], [0, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_are_optional() {
    let cluster = cluster();
    let more = ["--audit-interval", "100ms", "--audit-reports", "none"];
    let server = serve_with(&cluster, &configuration(), "a", &more);
    wait_audits(&server, 2.0).await;
    assert_eq!(violations(&server, "OPG-01", "one", "deny").await, Some(2.0));
    let requests = cluster.requests();
    assert!(requests.iter().all(|request| !request.contains("reports")), "{requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_flag_nothing_is_audited() {
    let cluster = cluster();
    let server = serve_with(&cluster, &configuration(), "a", &[]);
    wait_until("a leader", async || server.metric("opgate_leader").await == Some(1.0)).await;
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
    let (_, metrics) = server.get("/metrics").await;
    for name in ["opgate_audit_runs", "opgate_audit_report_writes", OBJECTS] {
        assert!(!metrics.contains(name), "{name}");
    }
    assert!(!metrics.contains("task=\"audit\""), "{metrics}");
    // Discovery belongs to an audit.
    let requests = cluster.requests();
    let is_of_audit = |request: &&String| request.contains("reports") || *request == "GET /apis";
    assert_eq!(requests.iter().filter(is_of_audit).count(), 0, "{requests:?}");
}

#[test]
fn audit_flags_need_an_installation_and_a_cluster() {
    for (arguments, expected) in [
        ("--audit-interval 1h", "--installation"),
        ("--audit-interval 1h --installation a/b --cluster-source none", "cannot be `none`"),
        ("--audit-interval 0s --installation a/b", "must be more than 0"),
        ("--audit-interval often --installation a/b", "is not a duration"),
        ("--audit-reports none --installation a/b", "--audit-interval"),
    ] {
        let certificates = Certificates::new();
        let mut command = std::process::Command::new(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]);
        command.arg("--tls-dir").arg(certificates.directory.path()).args(arguments.split(' '));
        for variable in ["KUBECONFIG", "KUBERNETES_SERVICE_HOST", "OPGATE_INSTALLATION"] {
            command.env_remove(variable);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(expected), "{arguments}: {text}");
    }
}
