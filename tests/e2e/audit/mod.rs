//! `opgate audit`: reports in the cluster for stored objects that violate rules, and only for these.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::wait_until;

use crate::BINARY;

mod leader;
mod manifests;
mod page;

const OLM: &str = "operators.coreos.com";
const RUKPAK: &str = "core.rukpak.io";

/// Objects of a cluster, of which some violate rules.
const OBJECTS: &str = include_str!("objects.json");

/// Names of the reports about them.
const REPORTS: [&str; 5] = [
    "one/opgate-00000000-0000-4000-8000-000000000011",
    "one/opgate-00000000-0000-4000-8000-000000000012",
    "two/opgate-00000000-0000-4000-8000-000000000013",
    "two/opgate-00000000-0000-4000-8000-000000000021",
    "opgate-00000000-0000-4000-8000-000000000031",
];

/// An API for reports: group, version, and the resources with their kinds.
struct ReportApi {
    group: &'static str,
    version: &'static str,
    namespaced: [&'static str; 2],
    cluster: [&'static str; 2],
}

const POLICY_REPORT: ReportApi = ReportApi {
    group: "wgpolicyk8s.io",
    version: "v1alpha2",
    namespaced: ["policyreports", "PolicyReport"],
    cluster: ["clusterpolicyreports", "ClusterPolicyReport"],
};

const OPEN_REPORTS: ReportApi = ReportApi {
    group: "openreports.io",
    version: "v1alpha1",
    namespaced: ["reports", "Report"],
    cluster: ["clusterreports", "ClusterReport"],
};

impl ReportApi {
    fn install(&self, cluster: &FakeCluster) {
        let [plural, kind] = self.namespaced;
        cluster.install(self.group, self.version, plural, kind, Scope::Namespaced);
        let [plural, kind] = self.cluster;
        cluster.install(self.group, self.version, plural, kind, Scope::Cluster);
    }

    /// A stored report, by `NAMESPACE/NAME` or `NAME`.
    fn stored(&self, cluster: &FakeCluster, name: &str) -> Option<Value> {
        match name.split_once('/') {
            Some((namespace, name)) => {
                cluster.stored(self.group, self.namespaced[0], namespace, name)
            }
            None => cluster.stored(self.group, self.cluster[0], "", name),
        }
    }

    /// Which of the reports are stored: of an audit that a user started.
    fn reports(&self, cluster: &FakeCluster) -> Vec<&'static str> {
        REPORTS.into_iter().filter(|name| self.stored(cluster, name).is_some()).collect()
    }

    /// Which of the reports are stored: of the audits of the installation `opgate-system/opgate`.
    fn installation_reports(&self, cluster: &FakeCluster) -> Vec<&'static str> {
        let stored = |name: &&str| {
            // The digits are the first of the SHA-256 of that name.
            let name = name.replacen("opgate-", "opgate-f0d3f428-", 1);
            self.stored(cluster, &name).is_some()
        };
        REPORTS.into_iter().filter(stored).collect()
    }
}

fn empty_cluster() -> FakeCluster {
    let cluster = FakeCluster::start();
    for (group, version, plural, kind, scope) in [
        ("", "v1", "namespaces", "Namespace", Scope::Cluster),
        (OLM, "v1", "operatorgroups", "OperatorGroup", Scope::Namespaced),
        (OLM, "v1alpha1", "clusterserviceversions", "ClusterServiceVersion", Scope::Namespaced),
        (RUKPAK, "v1alpha1", "bundles", "Bundle", Scope::Cluster),
    ] {
        cluster.install(group, version, plural, kind, scope);
    }
    cluster
}

fn cluster() -> FakeCluster {
    let cluster = empty_cluster();
    let objects: Value = serde_json::from_str(OBJECTS).unwrap();
    for entry in objects.as_array().unwrap() {
        let text = |name: &str| entry[name].as_str().unwrap();
        cluster.apply(text("group"), text("version"), text("plural"), entry["object"].clone());
    }
    cluster
}

/// A cluster whose reports were written.
fn audited_cluster() -> FakeCluster {
    let cluster = cluster();
    POLICY_REPORT.install(&cluster);
    let output = audit(&cluster, &[]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert_eq!(POLICY_REPORT.reports(&cluster), REPORTS);
    cluster
}

fn audit_with(cluster: &FakeCluster, configuration: &str, arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("opgate.yaml"), configuration).unwrap();
    let mut command = Command::new(BINARY);
    command.args(["audit", "--config", "opgate.yaml", "--kubeconfig"]).arg(cluster.kubeconfig());
    command.args(arguments).current_dir(directory.path());
    command.env("OPGATE_CACHE_DIR", directory.path().join("cache"));
    command.output().unwrap()
}

fn audit(cluster: &FakeCluster, arguments: &[&str]) -> Output {
    audit_with(cluster, include_str!("opgate.yaml"), arguments)
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Requests that change something.
fn writes(cluster: &FakeCluster) -> Vec<String> {
    let mut requests = cluster.requests();
    requests.retain(|request| !request.starts_with("GET "));
    requests
}

fn rules_of(report: &Value) -> BTreeSet<&str> {
    let results = report["results"].as_array().unwrap();
    results.iter().filter_map(|result| result["rule"].as_str()).collect()
}

#[test]
fn violating_objects_get_one_report_that_is_written_once() {
    for (api, flags) in [
        (&POLICY_REPORT, &[][..]),
        (&POLICY_REPORT, &["--reports", "policyreport"]),
        (&OPEN_REPORTS, &["--reports", "openreports"]),
    ] {
        let cluster = cluster();
        api.install(&cluster);
        let output = audit(&cluster, flags);
        assert_eq!(status(&output), 0, "{}", err(&output));
        assert!(out(&output).contains("4 of 5 objects would be denied today"), "{}", out(&output));
        assert!(err(&output).contains("reports: 5 written, 0 deleted"), "{}", err(&output));
        assert_eq!(api.reports(&cluster), REPORTS);
        let report = api.stored(&cluster, REPORTS[0]).unwrap();
        assert_eq!(report["metadata"]["labels"]["app.kubernetes.io/managed-by"], "opgate");
        let owner = json!([{
            "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "name": "first",
            "uid": "00000000-0000-4000-8000-000000000011", "blockOwnerDeletion": false,
        }]);
        assert_eq!(report["metadata"]["ownerReferences"], owner);
        assert_eq!(report["scope"]["name"], "first");
        let summary = json!({"pass": 0, "fail": 1, "warn": 0, "error": 0, "skip": 0});
        assert_eq!(report["summary"], summary, "{report}");
        let result = &report["results"][0];
        for (member, value) in [
            ("source", "opgate"),
            ("policy", "operator-group"),
            ("rule", "OPG-01"),
            ("result", "fail"),
        ] {
            assert_eq!(result[member], value, "{report}");
        }
        assert!(result["message"].as_str().unwrap().contains("one already has"), "{report}");
        assert!(result["timestamp"]["seconds"].as_u64().unwrap() > 1_700_000_000, "{report}");
        let warned = api.stored(&cluster, REPORTS[2]).unwrap();
        assert_eq!(
            (&warned["summary"]["warn"], &warned["results"][0]["result"]),
            (&json!(1), &json!("warn"))
        );
        let of_cluster = api.stored(&cluster, REPORTS[4]).unwrap();
        assert_eq!(rules_of(&of_cluster), BTreeSet::from(["RPK-12"]), "{of_cluster}");
        // Nothing has changed.
        let before = writes(&cluster).len();
        let output = audit(&cluster, flags);
        assert_eq!(writes(&cluster).len(), before, "{:?}", writes(&cluster));
        assert!(err(&output).contains("0 written, 0 deleted, 5 unchanged"), "{}", err(&output));
    }
}

#[test]
fn reports_of_fixed_and_deleted_objects_are_deleted() {
    let cluster = audited_cluster();
    // Without the second group, the first one is alone. The report of the second one is left to a
    // garbage collector, which this cluster lacks.
    cluster.delete(OLM, "operatorgroups", "one", "second");
    let before = writes(&cluster).len();
    let output = audit(&cluster, &[]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert_eq!(POLICY_REPORT.reports(&cluster), REPORTS[2..]);
    let written = writes(&cluster).split_off(before);
    assert!(written.len() == 2 && written.iter().all(|w| w.starts_with("DELETE ")), "{written:?}");
    // Objects that no policy matches any more.
    let rukpak_only = include_str!("opgate.yaml").replace("  - name: operator-group\n", "");
    let output = audit_with(&cluster, &rukpak_only, &[]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert_eq!(POLICY_REPORT.reports(&cluster), REPORTS[4..]);
}

#[test]
fn unknown_objects_keep_their_reports() {
    let cluster = audited_cluster();
    let before = writes(&cluster).len();
    // The policy lists OperatorGroups for the rule that the ClusterServiceVersion violates.
    cluster.forbid(OLM, "operatorgroups");
    let output = audit(&cluster, &[]);
    assert_eq!(status(&output), 2, "{}", err(&output));
    assert!(err(&output).contains("operatorgroups: not evaluated: forbidden"), "{}", err(&output));
    cluster.allow(OLM, "operatorgroups");
    // A group whose resources cannot be discovered.
    cluster.set_reachable(RUKPAK, false);
    let output = audit(&cluster, &[]);
    assert_eq!(status(&output), 2, "{}", err(&output));
    cluster.set_reachable(RUKPAK, true);
    // An object that is being deleted.
    let mut bundle = cluster.stored(RUKPAK, "bundles", "", "bad").unwrap();
    bundle["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    bundle["metadata"]["finalizers"] = json!(["example.com/x"]);
    cluster.apply(RUKPAK, "v1alpha1", "bundles", bundle);
    assert_eq!(status(&audit(&cluster, &[])), 0);
    assert_eq!(POLICY_REPORT.reports(&cluster), REPORTS);
    assert_eq!(writes(&cluster).len(), before, "{:?}", writes(&cluster));
}

#[test]
fn reports_are_optional() {
    let cluster = cluster();
    let output = audit(&cluster, &[]);
    let warning = "no reports are written: the cluster serves neither openreports.io/v1alpha1 nor wgpolicyk8s.io/v1alpha2";
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert_eq!(err(&output).matches(warning).count(), 1, "{}", err(&output));
    assert!(err(&output).contains("--no-reports"), "{}", err(&output));
    let output = audit(&cluster, &["--reports", "policyreport"]);
    assert_eq!(status(&output), 2, "{}", err(&output));
    assert!(err(&output).contains("does not serve wgpolicyk8s.io/v1alpha2"), "{}", err(&output));
    // An empty variable of a script: neither all namespaces nor none.
    let output = audit(&cluster, &["--no-reports", "--namespace", ""]);
    assert_eq!((status(&output), out(&output).as_str()), (2, ""));
    POLICY_REPORT.install(&cluster);
    OPEN_REPORTS.install(&cluster);
    for (flags, expected) in [
        (&["--no-reports"][..], 0),
        (&["--no-reports", "--fail-on", "deny"], 1),
        (&["--no-reports", "--fail-on", "warn", "-o", "json"], 1),
    ] {
        let output = audit(&cluster, flags);
        assert_eq!(status(&output), expected, "{flags:?}: {}", err(&output));
        assert!(!err(&output).contains("reports"), "{}", err(&output));
    }
    assert_eq!(writes(&cluster), [""; 0]);
    // Of both APIs.
    assert_eq!(status(&audit(&cluster, &["--fail-on", "deny"])), 1);
    assert_eq!(OPEN_REPORTS.reports(&cluster), REPORTS);
    assert_eq!(POLICY_REPORT.reports(&cluster), [""; 0]);
}

#[test]
fn reports_that_cannot_be_listed_are_not_written() {
    let cluster = cluster();
    POLICY_REPORT.install(&cluster);
    cluster.forbid(POLICY_REPORT.group, POLICY_REPORT.cluster[0]);
    let output = audit(&cluster, &[]);
    assert_eq!(status(&output), 2, "{}", err(&output));
    assert!(
        err(&output).contains(
            "no reports are written: wgpolicyk8s.io/v1alpha2/clusterpolicyreports: forbidden"
        ),
        "{}",
        err(&output)
    );
    assert!(out(&output).contains("4 of 5 objects would be denied today"), "{}", out(&output));
    assert_eq!(writes(&cluster), [""; 0]);
}

#[test]
fn one_namespace_changes_no_report_of_others() {
    let cluster = cluster();
    POLICY_REPORT.install(&cluster);
    assert_eq!(status(&audit(&cluster, &["--namespace", "one"])), 0);
    assert_eq!(POLICY_REPORT.reports(&cluster), REPORTS[..2]);
    assert_eq!(status(&audit(&cluster, &[])), 0);
    for name in ["first", "second"] {
        cluster.delete(OLM, "operatorgroups", "one", name);
    }
    cluster.delete(OLM, "clusterserviceversions", "two", "bad.v1");
    assert_eq!(status(&audit(&cluster, &["--namespace", "one"])), 0);
    assert_eq!(POLICY_REPORT.reports(&cluster), REPORTS[2..]);
}

/// A tenant can write reports in its namespace.
#[test]
fn reports_of_other_clients_stay_and_changed_ones_are_restored() {
    let cluster = audited_cluster();
    let [plural, _] = POLICY_REPORT.namespaced;
    let report = POLICY_REPORT.stored(&cluster, REPORTS[0]).unwrap();
    let mut other = report.clone();
    other["metadata"]["name"] = json!("mine");
    other["metadata"]["uid"] = Value::Null;
    cluster.apply(POLICY_REPORT.group, POLICY_REPORT.version, plural, other);
    let mut changed = report.clone();
    changed["results"] = json!([]);
    changed["metadata"]["managedFields"] = json!([
        {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:results": {}}},
    ]);
    cluster.apply(POLICY_REPORT.group, POLICY_REPORT.version, plural, changed);
    let output = audit(&cluster, &[]);
    assert!(err(&output).contains("1 written, 0 deleted, 4 unchanged"), "{}", err(&output));
    let restored = POLICY_REPORT.stored(&cluster, REPORTS[0]).unwrap();
    assert_eq!(rules_of(&restored), BTreeSet::from(["OPG-01"]));
    assert!(cluster.stored(POLICY_REPORT.group, plural, "one", "mine").is_some());
}

#[test]
fn hostile_objects_have_bounded_reports() {
    let cluster = empty_cluster();
    POLICY_REPORT.install(&cluster);
    let uid = "00000000-0000-4000-8000-000000000041";
    let markup = "<script>\"\u{1b}[31m\n\u{202e}";
    let owned = |number: usize| {
        let name = format!("{number}{}", markup.repeat(200));
        json!({"name": name, "version": "v1", "kind": "K"})
    };
    let owned: Vec<_> = (0..500).map(owned).collect();
    let csv = json!({
        "kind": "ClusterServiceVersion",
        "metadata": {"name": "hostile.v1", "namespace": "one", "uid": uid},
        "spec": {"displayName": markup.repeat(5_000), "customresourcedefinitions": {"owned": owned}},
    });
    cluster.apply(OLM, "v1alpha1", "clusterserviceversions", csv.clone());
    // No report can have the name of this one.
    let mut nameless = csv;
    nameless["metadata"]["name"] = json!("hostile.v2");
    nameless["metadata"]["uid"] = json!("../../../api/v1/namespaces/one");
    cluster.apply(OLM, "v1alpha1", "clusterserviceversions", nameless);
    let all = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\nprofile: upstream\npolicies: [{name: cluster-service-version}]\n";
    let output = audit_with(&cluster, all, &[]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert!(err(&output).contains("no report: no valid UID or name objects=1"), "{}", err(&output));
    let report = POLICY_REPORT.stored(&cluster, &format!("one/opgate-{uid}")).unwrap();
    let bytes = report.to_string().len();
    assert!(bytes <= 64 << 10, "{bytes} bytes");
    let results = report["results"].as_array().unwrap();
    assert!((10..=101).contains(&results.len()), "{}", results.len());
    for result in results {
        let message = result["message"].as_str().unwrap();
        assert!(
            message.len() <= 1_024 && !message.contains(['\n', '\u{1b}', '\u{202e}']),
            "{message}"
        );
    }
    assert_eq!(writes(&cluster).len(), 1, "{:?}", writes(&cluster));
}

#[test]
fn object_that_nests_too_deep_stops_no_audit() {
    let cluster = audited_cluster();
    let mut deep = json!(1);
    for _ in 0..600 {
        deep = json!({"f": deep});
    }
    let mut object = cluster.stored(OLM, "operatorgroups", "one", "first").unwrap();
    object["metadata"]["managedFields"] = json!([{"fieldsV1": deep}]);
    cluster.apply(OLM, "v1", "operatorgroups", object);
    cluster.delete(RUKPAK, "bundles", "", "bad");
    let output = audit(&cluster, &[]);
    assert_eq!(status(&output), 2, "{}", err(&output));
    let line = "not evaluated: OperatorGroup one/first: the body nests deeper than 512 levels";
    assert!((out(&output) + &err(&output)).contains(line), "{}{}", out(&output), err(&output));
    // The others were evaluated, and its report stays.
    assert!(out(&output).contains("OperatorGroup two/"), "{}", out(&output));
    assert_eq!(POLICY_REPORT.reports(&cluster), &REPORTS[..4]);
}

#[test]
fn overloaded_api_server_gets_the_pauses_that_it_asks_for() {
    let cluster = audited_cluster();
    // The second one is a kind that policies read.
    for (times, expected, reports) in [(2, 0, &REPORTS[..]), (6, 2, &REPORTS[..])] {
        cluster.fail_next_lists(RUKPAK, "bundles", 429, times);
        cluster.fail_next_lists(OLM, "operatorgroups", 429, 1);
        let output = audit(&cluster, &[]);
        assert_eq!(status(&output), expected, "{times}: {}", err(&output));
        let is_told = err(&output).contains("bundles: not evaluated: 429");
        assert_eq!(is_told, expected == 2, "{times}: {}", err(&output));
        assert_eq!(POLICY_REPORT.reports(&cluster), reports, "{times}");
    }
}

#[test]
fn overloaded_discovery_and_writes_are_repeated() {
    let cluster = cluster();
    POLICY_REPORT.install(&cluster);
    let discovery = format!("GET /apis/{RUKPAK}/v1alpha1");
    let reports = format!("/apis/{}/{}", POLICY_REPORT.group, POLICY_REPORT.version);
    let uid = "00000000-0000-4000-8000-000000000031";
    for request in [
        "GET /apis",
        &discovery,
        &format!("GET {reports}/policyreports"),
        &format!("PATCH {reports}/clusterpolicyreports/opgate-{uid}"),
    ] {
        cluster.fail_next_requests_to(request, 429, 1);
    }
    let output = audit(&cluster, &[]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert_eq!(POLICY_REPORT.reports(&cluster), REPORTS);
    // A few times only; what is unknown keeps its report.
    cluster.fail_next_requests_to(&discovery, 429, 5);
    let output = audit(&cluster, &[]);
    assert_eq!(status(&output), 2, "{}", err(&output));
    assert!(err(&output).contains(&format!("/apis/{RUKPAK}/v1alpha1: 429")), "{}", err(&output));
    assert_eq!(POLICY_REPORT.reports(&cluster), REPORTS);
}

#[test]
fn expired_list_continues_after_its_last_page() {
    let cluster = empty_cluster();
    let object = |number: usize| json!({"kind": "Bundle", "metadata": {"name": format!("b{number:03}")}, "spec": {}});
    (0..60).for_each(|n| cluster.apply(RUKPAK, "v1alpha1", "bundles", object(n)));
    // The first two lists are those of the cluster state.
    cluster.expire_history_after(RUKPAK, "bundles", 3);
    let before = cluster.requests().len();
    let output = audit(&cluster, &["--no-reports"]);
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert!(out(&output).contains("60 of 60 objects"), "{}", out(&output));
    let requests = cluster.requests().split_off(before);
    let lists = requests.iter().filter(|request| request.contains("/bundles?"));
    let first_pages = lists.filter(|request| !request.contains("continue="));
    assert_eq!(first_pages.count(), 2, "{requests:?}");
}

#[test]
fn reports_of_an_installation_move_to_the_api_that_is_chosen() {
    let cluster = audited_cluster();
    let installation = ["--installation", "opgate-system/opgate"];
    assert_eq!(status(&audit(&cluster, &installation)), 0);
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), REPORTS);
    OPEN_REPORTS.install(&cluster);
    // What is unknown stays.
    cluster.fail_next_lists(RUKPAK, "bundles", 500, 1);
    let output = audit(&cluster, &installation);
    assert_eq!(status(&output), 2, "{}", err(&output));
    assert_eq!(OPEN_REPORTS.installation_reports(&cluster), REPORTS[..4]);
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), REPORTS[4..]);
    let output = audit(&cluster, &installation);
    assert!(
        err(&output).contains("reports: 1 written, 1 deleted, 4 unchanged"),
        "{}",
        err(&output)
    );
    assert_eq!(OPEN_REPORTS.installation_reports(&cluster), REPORTS);
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), [""; 0]);
    // Those of users stay.
    assert_eq!(POLICY_REPORT.reports(&cluster), REPORTS);
}

#[test]
fn titles_name_the_command() {
    let cluster = cluster();
    for (format, title, other) in [
        ("junit", "<testsuite name=\"opgate audit\"", "<testsuite name=\"opgate check\""),
        ("sarif", "\"id\": \"opgate-audit/\"", "\"id\": \"opgate-check/\""),
        ("html", "opgate audit", "opgate check</title>"),
    ] {
        let output = audit(&cluster, &["--no-reports", "-o", format]);
        assert_eq!(status(&output), 0, "{}", err(&output));
        let text = out(&output);
        assert!(text.contains(title) && !text.contains(other), "{format}: {text}");
    }
}

#[test]
fn audits_of_an_installation_have_separate_reports() {
    let cluster = audited_cluster();
    let installation = ["--installation", "opgate-system/opgate"];
    let output = audit(&cluster, &installation);
    assert!(err(&output).contains("reports: 5 written, 0 deleted"), "{}", err(&output));
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), REPORTS);
    // A user tries another configuration.
    let nothing = "{apiVersion: opgate.dev/v1alpha1, kind: Configuration, policies: []}";
    let output = audit_with(&cluster, nothing, &[]);
    assert!(err(&output).contains("reports: 0 written, 5 deleted"), "{}", err(&output));
    assert_eq!(POLICY_REPORT.reports(&cluster), [""; 0]);
    assert_eq!(POLICY_REPORT.installation_reports(&cluster), REPORTS);
    let output = audit(&cluster, &["--installation", "opgate-system"]);
    assert_eq!(status(&output), 2);
}

/// A resource that discovery lists can be gone at the next request, or only seem so behind a proxy.
#[tokio::test(flavor = "multi_thread")]
async fn unserved_resource_keeps_its_reports() {
    let cluster = audited_cluster();
    cluster.hold_lists(OLM, "operatorgroups");
    let before = cluster.requests().len();
    let kubeconfig = cluster.kubeconfig();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("opgate.yaml"), include_str!("opgate.yaml")).unwrap();
    let mut command = Command::new(BINARY);
    command.args(["audit", "--config", "opgate.yaml", "--kubeconfig"]).arg(kubeconfig);
    command.current_dir(directory.path()).env("OPGATE_CACHE_DIR", directory.path().join("cache"));
    let audit = tokio::task::spawn_blocking(move || command.output().unwrap());
    wait_until("the list", async || {
        let requests = cluster.requests();
        requests.iter().skip(before).any(|request| request.contains("/operatorgroups?"))
    })
    .await;
    cluster.uninstall(OLM, "operatorgroups");
    cluster.release_lists(OLM, "operatorgroups");
    let output = audit.await.unwrap();
    assert_eq!(status(&output), 2, "{}", err(&output));
    assert!(err(&output).contains("0 deleted"), "{}", err(&output));
    assert_eq!(POLICY_REPORT.reports(&cluster)[..3], REPORTS[..3]);
}
