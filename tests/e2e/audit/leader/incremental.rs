//! Audits after the first one: what changes is evaluated again, and nothing else.

use serde_json::{Value, json};
use testkit::fake_api_server::FakeCluster;
use testkit::{ConfigMap, Server, good_spec, wait_until};

use super::{
    COMPLETE, FAILED, OBJECTS, UNCHANGED, cluster, serve, serve_with, unchanged_counts, violations,
    wait_audits, wait_reports,
};
use crate::audit::{OLM, POLICY_REPORT, REPORTS, RUKPAK};

const ERRORS: &str = "opgate_audit_errors";

/// Starts a server, and waits until an audit has evaluated nothing again.
async fn serve_unchanged(cluster: &FakeCluster) -> Server {
    let server = serve(cluster, "a");
    wait_unchanged(&server, 5).await;
    server
}

/// Waits until the last audit has kept this many results.
async fn wait_unchanged(server: &Server, count: u64) {
    let text = format!("{count} unchanged objects");
    wait_until(&text, async || unchanged_counts(server).last() == Some(&count)).await;
}

/// Waits until audits have evaluated this many objects again, and then none. Returns the numbers of unchanged objects of
/// the audits after the first `before`, without repetitions.
async fn counts_after(server: &Server, before: usize, changed: u64) -> Vec<u64> {
    let after = || unchanged_counts(server).split_off(before);
    wait_until("an audit after the change", async || after().contains(&(5 - changed))).await;
    wait_unchanged(server, 5).await;
    let mut counts = after();
    counts.dedup();
    // An audit can have ended before the change.
    counts.into_iter().skip_while(|count| *count == 5).collect()
}

/// Changes an object.
fn change(cluster: &FakeCluster, of: [&str; 5], change: impl FnOnce(&mut Value)) {
    let [group, version, plural, namespace, name] = of;
    let mut object = cluster.stored(group, plural, namespace, name).unwrap();
    change(&mut object);
    cluster.apply(group, version, plural, object);
}

const BUNDLE: [&str; 5] = [RUKPAK, "v1alpha1", "bundles", "", "bad"];
const CSV: [&str; 5] = [OLM, "v1alpha1", "clusterserviceversions", "two", "bad.v1"];

/// Requests for objects of a resource, after the first `before` requests.
fn requests_for(cluster: &FakeCluster, before: usize, plural: &str) -> Vec<String> {
    let mut requests = cluster.requests().split_off(before);
    requests
        .retain(|request| request.starts_with("GET ") && request.contains(&format!("/{plural}?")));
    requests
}

fn is_of_one(request: &str) -> bool {
    request.contains("fieldSelector")
}

#[tokio::test(flavor = "multi_thread")]
async fn only_objects_with_changes_are_evaluated_again() {
    let cluster = cluster();
    let server = serve(&cluster, "a");
    wait_until("no changes", async || server.metric(UNCHANGED).await == Some(5.0)).await;
    assert_eq!(unchanged_counts(&server)[0], 0);
    assert_eq!(violations(&server, "OPG-01", "one", "deny").await, Some(2.0));
    assert_eq!(server.metric(OBJECTS).await, Some(5.0));
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), REPORTS);
    // One object that no policy reads.
    let before = unchanged_counts(&server).len();
    let mut bundle = cluster.stored(RUKPAK, "bundles", "", "bad").unwrap();
    bundle["metadata"]["labels"] = json!({"changed": "true"});
    cluster.apply(RUKPAK, "v1alpha1", "bundles", bundle);
    let after = || unchanged_counts(&server).split_off(before);
    wait_until("an audit after the change", async || after().contains(&4)).await;
    wait_until("no more changes", async || after().last() == Some(&5)).await;
    assert!(after().iter().all(|count| *count >= 4), "{:?}", after());
    assert_eq!(violations(&server, "RPK-12", "", "deny").await, Some(1.0));
    // What an unchanged object depends on.
    cluster.delete(OLM, "operatorgroups", "one", "second");
    wait_until("no violation", async || {
        violations(&server, "OPG-01", "one", "deny").await.is_none()
    })
    .await;
    wait_reports(&cluster, &REPORTS[2..]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_objects_of_a_repeated_page_are_counted_once() {
    let cluster = cluster();
    // Their metadata makes the first page too large, which is then listed again.
    for number in 0..12 {
        let metadata = json!({
            "name": format!("large-{number}"), "annotations": {"note": "x".repeat(256 << 10)},
        });
        let bundle = json!({"kind": "Bundle", "metadata": metadata, "spec": good_spec()});
        cluster.apply(RUKPAK, "v1alpha1", "bundles", bundle);
    }
    let server = serve(&cluster, "a");
    wait_until("no changes", async || server.metric(UNCHANGED).await > Some(0.0)).await;
    wait_audits(&server, 1.0).await;
    assert_eq!(server.metric(OBJECTS).await, Some(17.0));
    assert_eq!(server.metric(UNCHANGED).await, Some(17.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_objects_that_are_not_evaluated_are_not_read() {
    let cluster = cluster();
    let mut bundle = cluster.stored(RUKPAK, "bundles", "", "bad").unwrap();
    bundle["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    bundle["metadata"]["finalizers"] = json!(["example.com/x"]);
    cluster.apply(RUKPAK, "v1alpha1", "bundles", bundle);
    let server = serve(&cluster, "a");
    wait_until("no changes", async || server.metric(UNCHANGED).await == Some(4.0)).await;
    let before = cluster.requests().len();
    wait_audits(&server, 2.0).await;
    let mut requests = cluster.requests().split_off(before);
    requests.retain(|request| request.contains("/bundles?"));
    assert!(
        !requests.is_empty() && !requests.iter().any(|request| is_of_one(request)),
        "{requests:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_unchanged_objects_are_restored() {
    let cluster = cluster();
    let server = serve(&cluster, "a");
    wait_until("no changes", async || server.metric(UNCHANGED).await == Some(5.0)).await;
    let [plural, _] = POLICY_REPORT.namespaced;
    let name = REPORTS[0].replacen("one/opgate-", "opgate-f0d3f428-", 1);
    cluster.delete(POLICY_REPORT.group, plural, "one", &name);
    wait_reports(&cluster, &REPORTS).await;
    let mut report = cluster.stored(POLICY_REPORT.group, plural, "one", &name).unwrap();
    report["results"] = json!([]);
    report["metadata"]["managedFields"] = json!([
        {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:results": {}}},
    ]);
    cluster.apply(POLICY_REPORT.group, POLICY_REPORT.version, plural, report);
    wait_until("the results", async || {
        let report = cluster.stored(POLICY_REPORT.group, plural, "one", &name).unwrap();
        report["results"] != json!([])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_object_is_read_and_evaluated_alone() {
    let cluster = cluster();
    let server = serve_unchanged(&cluster).await;
    let (audits, requests) = (unchanged_counts(&server).len(), cluster.requests().len());
    change(&cluster, CSV, |csv| csv["spec"]["description"] = json!("Another one."));
    assert_eq!(counts_after(&server, audits, 1).await, [4, 5]);
    let requests = requests_for(&cluster, requests, "clusterserviceversions");
    let of_one: Vec<_> = requests.iter().filter(|request| is_of_one(request)).collect();
    assert!(of_one.len() == 1 && of_one[0].contains("bad.v1"), "{requests:?}");
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), REPORTS);
    // Its new result counts.
    change(&cluster, BUNDLE, |bundle| bundle["spec"] = good_spec());
    wait_reports(&cluster, &REPORTS[..4]).await;
    wait_until("no violation", async || violations(&server, "RPK-12", "", "deny").await.is_none())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn report_of_a_removed_object_is_deleted() {
    let cluster = cluster();
    let server = serve_unchanged(&cluster).await;
    let before = unchanged_counts(&server).len();
    cluster.delete(RUKPAK, "bundles", "", "bad");
    wait_reports(&cluster, &REPORTS[..4]).await;
    wait_unchanged(&server, 4).await;
    wait_until("the metrics", async || server.metric(OBJECTS).await == Some(4.0)).await;
    assert_eq!(violations(&server, "RPK-12", "", "deny").await, None);
    let after = unchanged_counts(&server).split_off(before);
    assert!(after.iter().all(|count| *count >= 4), "{after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_leader_evaluates_everything_once() {
    let cluster = cluster();
    let (mut leader, mut other) = (serve(&cluster, "a"), serve(&cluster, "b"));
    let leads = async |server: &Server| server.metric("opgate_leader").await == Some(1.0);
    wait_until("a leader", async || leads(&leader).await || leads(&other).await).await;
    if leads(&other).await {
        std::mem::swap(&mut leader, &mut other);
    }
    wait_unchanged(&leader, 5).await;
    assert_eq!(unchanged_counts(&other), [0; 0]);
    leader.signal(rustix::process::Signal::TERM);
    assert!(leader.wait().success());
    wait_unchanged(&other, 5).await;
    assert_eq!(unchanged_counts(&other)[..2], [0, 5]);
    assert_eq!(violations(&other, "OPG-01", "one", "deny").await, Some(2.0));
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), REPORTS);
}

/// The policies of the other tests; violations of OPG-01 have this effect.
fn configuration_with(effect: &str) -> String {
    let policy =
        |name: &str, rules: Value| json!({"name": name, "limits": {"time": "20s"}, "rules": rules});
    testkit::configuration(&[
        policy("operator-group", json!({"OPG-01": effect})),
        policy("bundle-immutability", json!({})),
    ])
}

/// A server with files for its configuration.
async fn serve_files(cluster: &FakeCluster) -> (Server, ConfigMap) {
    let files = ConfigMap::new(&[("opgate.yaml", &configuration_with("deny"))]);
    let path = files.path("opgate.yaml");
    let more = ["--config", path.to_str().unwrap(), "--reload-interval", "20ms"];
    let server =
        serve_with(cluster, "", "a", &[&more[..], &["--audit-interval", "100ms"]].concat());
    wait_unchanged(&server, 5).await;
    assert_eq!(violations(&server, "OPG-01", "one", "deny").await, Some(2.0));
    (server, files)
}

/// Checks that OPG-01 only warns, in metrics and reports.
async fn assert_warned(cluster: &FakeCluster, server: &Server) {
    assert_eq!(violations(server, "OPG-01", "one", "deny").await, None);
    assert_eq!(violations(server, "OPG-01", "one", "warn").await, Some(2.0));
    let name = REPORTS[0].replacen("opgate-", "opgate-f0d3f428-", 1);
    let report = POLICY_REPORT.stored(cluster, &name).unwrap();
    assert_eq!(report["results"][0]["result"], "warn", "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_configuration_evaluates_everything_once() {
    let cluster = cluster();
    let (server, mut files) = serve_files(&cluster).await;
    let before = unchanged_counts(&server).len();
    files.swap(&[("opgate.yaml", &configuration_with("warn"))]);
    assert_eq!(counts_after(&server, before, 5).await, [0, 5]);
    assert_warned(&cluster, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_during_an_audit_takes_effect_in_the_next_one() {
    let cluster = cluster();
    let (server, mut files) = serve_files(&cluster).await;
    cluster.hold_lists(RUKPAK, "bundles");
    let is_held = |request: &str| request.starts_with("GET ") && request.contains("/bundles?");
    let held = cluster.requests().iter().filter(|request| is_held(request)).count();
    cluster.wait_requested(held + 1, is_held).await;
    let (audits, complete) =
        (unchanged_counts(&server).len(), server.metric(COMPLETE).await.unwrap());
    files.swap(&[("opgate.yaml", &configuration_with("warn"))]);
    let replaced = "opgate_configuration_reloads_total{result=\"replaced\"}";
    wait_until("the reload", async || server.metric(replaced).await == Some(1.0)).await;
    assert_eq!(server.metric(COMPLETE).await, Some(complete));
    cluster.release_lists(RUKPAK, "bundles");
    assert_eq!(counts_after(&server, audits, 5).await, [0, 5]);
    assert_warned(&cluster, &server).await;
    assert_eq!(server.metric(FAILED).await, Some(0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_kind_does_not_lose_the_results_of_others() {
    let cluster = cluster();
    let server = serve_unchanged(&cluster).await;
    let before = unchanged_counts(&server).len();
    cluster.forbid(RUKPAK, "bundles");
    wait_unchanged(&server, 4).await;
    wait_audits(&server, 1.0).await;
    assert!(server.metric(ERRORS).await > Some(0.0));
    cluster.allow(RUKPAK, "bundles");
    wait_unchanged(&server, 5).await;
    let after = unchanged_counts(&server).split_off(before);
    assert!(after.iter().all(|count| *count >= 4), "{after:?}");
    assert_eq!(server.metric(ERRORS).await, Some(0.0));
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), REPORTS);
}

/// An update of a `CustomResourceDefinition` can change defaults of objects that keep their version.
#[tokio::test(flavor = "multi_thread")]
async fn changed_schema_evaluates_the_objects_of_its_version() {
    let cluster = cluster();
    let version = format!("{RUKPAK}/v1alpha1");
    cluster.set_schema_hash("v1", "a");
    cluster.set_schema_hash(&version, "a");
    let server = serve_unchanged(&cluster).await;
    let before = unchanged_counts(&server).len();
    cluster.set_schema_hash(&version, "b");
    assert_eq!(counts_after(&server, before, 1).await, [4, 5]);
    // Without the index, the last one counts.
    let before = unchanged_counts(&server).len();
    cluster.fail_next_requests_to("GET /openapi/v3", 503, 2);
    wait_audits(&server, 4.0).await;
    assert_eq!(unchanged_counts(&server).split_off(before)[..4], [5; 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_object_is_reported_without_another_read() {
    let cluster = cluster();
    let mut deep = json!(1);
    for _ in 0..600 {
        deep = json!({"f": deep});
    }
    change(&cluster, BUNDLE, |bundle| {
        bundle["metadata"]["managedFields"] = json!([{"fieldsV1": deep}]);
    });
    let server = serve(&cluster, "a");
    wait_unchanged(&server, 4).await;
    let before = cluster.requests().len();
    wait_audits(&server, 2.0).await;
    let requests = requests_for(&cluster, before, "bundles");
    assert!(
        !requests.is_empty() && !requests.iter().any(|request| is_of_one(request)),
        "{requests:?}"
    );
    assert_eq!(server.metric(ERRORS).await, Some(1.0));
    assert_eq!(unchanged_counts(&server).last(), Some(&4));
}
