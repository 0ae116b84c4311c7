//! Resources that cannot be watched, are not there, or are not served, and the version of the API
//! server: through the engine with short intervals, and through the real binary.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{CacheStatus, ClusterOptions, Connection, ResourceStatus, Source, Watches};
use opgate::policy::{Configuration, PolicySet};
use opgate::review::{self, Review};
use opgate::supervise::Supervisor;
use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::{
    Server, WAIT_TIMEOUT, configuration, create_bundle, good_spec, polls as policy, wait_until,
};

use crate::BINARY;

const PACKAGES: &str = "packages.operators.coreos.com";
const MANIFESTS_RESOURCE: &str = "packages.operators.coreos.com/v1/packagemanifests";
const VERSIONS_RESOURCE: &str = "opgate.dev/v1alpha1/serverversions";
const CONFIG: &str = "config.openshift.io";

/// A request that makes the policy report what it reads of a resource.
fn review_for(resource: &str) -> String {
    create_bundle("1", resource, &good_spec()).to_string()
}

/// A cluster with packages that another server serves.
fn cluster(packages: &[&str]) -> FakeCluster {
    let cluster = FakeCluster::start();
    cluster.install(PACKAGES, "v1", "packagemanifests", "PackageManifest", Scope::Namespaced);
    cluster.aggregate(PACKAGES, "packagemanifests");
    for name in packages {
        cluster.apply(PACKAGES, "v1", "packagemanifests", package(name, 0));
    }
    cluster
}

fn package(name: &str, icon: usize) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "olm"},
        "status": {"packageName": name, "icon": "x".repeat(icon)},
    })
}

/// The policy with a cluster, which is polled without a pause worth mentioning.
struct PolledPolicy {
    cluster: FakeCluster,
    set: PolicySet,
    _watches: Watches,
}

impl PolledPolicy {
    async fn new(cluster: FakeCluster) -> Self {
        let text = configuration(&[policy()]);
        let configuration =
            Configuration::parse(Path::new("opgate.yaml"), &text, BUILTINS).unwrap();
        let poll = Duration::from_millis(20);
        let options = ClusterOptions { poll_interval: poll, ..ClusterOptions::of(Source::Live) };
        let set = PolicySet::load(&configuration, None, 64, options).unwrap();
        assert!(set.broken().is_empty(), "{:?}", set.broken());
        let connection = Connection::kubeconfig(&[cluster.kubeconfig()], None).await.unwrap();
        let watches = connection.watch(set.cluster(), &Supervisor::default());
        Self { cluster, set, _watches: watches }
    }

    /// What the policy sees of a resource, or why it has no answer.
    async fn reported_objects(&self, resource: &str) -> String {
        let text = review::text(review_for(resource).into_bytes()).unwrap();
        let review = Review::read(&text).unwrap();
        let decision = self.set.decide(&review, None, Instant::now() + WAIT_TIMEOUT, &()).await;
        match decision.map(|decision| (decision.violations, decision.policy_errors)) {
            Ok((violations, faults)) => match &violations[..] {
                [violation] => violation.message.clone(),
                _ => format!("{faults:?}"),
            },
            Err(overload) => format!("{overload:?}"),
        }
    }

    async fn wait_until_reported(&self, resource: &str, expected: &str) {
        wait_until(expected, async || self.reported_objects(resource).await == expected).await;
    }

    /// Waits for an error of the last list, or of the watch.
    async fn wait_refused(&self, resource: &str) -> ResourceStatus {
        let is_refused = |status: &ResourceStatus| {
            status.error.as_ref().is_some_and(|error| error.contains("forbidden"))
        };
        wait_until("the refusal", async || is_refused(&self.status(resource))).await;
        self.status(resource)
    }

    fn status(&self, resource: &str) -> ResourceStatus {
        let kinds = self.set.cluster().caches();
        let kind = kinds.iter().find(|kind| kind.resource().to_string() == resource);
        kind.unwrap().status()
    }

    /// Waits for lists that begin after now.
    async fn wait_listed(&self, resource: &str) {
        let before = self.status(resource).lists;
        wait_until("new lists", async || self.status(resource).lists >= before + 2).await;
    }

    fn count(&self, is_it: impl Fn(&str) -> bool) -> usize {
        self.cluster.requests().iter().filter(|request| is_it(request)).count()
    }
}

fn is_list(request: &str) -> bool {
    request.contains("/packagemanifests?") && !request.contains("watch=")
}

fn is_watch(request: &str) -> bool {
    request.contains("/packagemanifests?") && request.contains("watch=")
}

#[tokio::test(flavor = "multi_thread")]
async fn unwatchable_resource_is_polled() {
    let polled = PolledPolicy::new(cluster(&["etcd", "jaeger"])).await;
    polled.set.cluster().wait_synced().await;
    polled.wait_until_reported("packagemanifests", r#"packagemanifests: ["etcd", "jaeger"]"#).await;
    polled.cluster.apply(PACKAGES, "v1", "packagemanifests", package("kiali", 0));
    polled.cluster.delete(PACKAGES, "packagemanifests", "olm", "etcd");
    polled
        .wait_until_reported("packagemanifests", r#"packagemanifests: ["jaeger", "kiali"]"#)
        .await;
    polled.wait_listed(MANIFESTS_RESOURCE).await;
    let status = polled.status(MANIFESTS_RESOURCE);
    assert!(status.polled && status.error.is_none(), "{status:?}");
    assert_eq!(polled.count(is_watch), 1, "the API server has said that it cannot");
    // When the API server reports that it supports a watch, the server watches the resource.
    polled.cluster.unaggregate(PACKAGES, "packagemanifests");
    polled.cluster.wait_watching("packagemanifests", 1).await;
    polled.cluster.apply(PACKAGES, "v1", "packagemanifests", package("etcd", 0));
    let all = r#"packagemanifests: ["etcd", "jaeger", "kiali"]"#;
    polled.wait_until_reported("packagemanifests", all).await;
    assert!(!polled.status(MANIFESTS_RESOURCE).polled);
}

/// OLM shows a package once for each catalog that has it, under one name.
#[tokio::test(flavor = "multi_thread")]
async fn objects_with_equal_names_are_all_returned() {
    let polled = PolledPolicy::new(cluster(&["etcd@community", "etcd@mine", "etcd@redhat"])).await;
    let all = r#"packagemanifests: ["etcd@community", "etcd@mine", "etcd@redhat"]"#;
    polled.wait_until_reported("packagemanifests", all).await;
    polled.cluster.delete(PACKAGES, "packagemanifests", "olm", "etcd@community");
    let rest = r#"packagemanifests: ["etcd@mine", "etcd@redhat"]"#;
    polled.wait_until_reported("packagemanifests", rest).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polling_needs_no_watch_permission() {
    let cluster = cluster(&["etcd"]);
    cluster.forbid_watch(PACKAGES, "packagemanifests");
    let polled = PolledPolicy::new(cluster).await;
    polled.wait_until_reported("packagemanifests", r#"packagemanifests: ["etcd"]"#).await;
    polled.wait_listed(MANIFESTS_RESOURCE).await;
    let status = polled.status(MANIFESTS_RESOURCE);
    assert!(status.polled && status.error.is_none(), "{status:?}");
    // The permission that is named is the one that it takes.
    polled.cluster.forbid(PACKAGES, "packagemanifests");
    let error = polled.wait_refused(MANIFESTS_RESOURCE).await.error.unwrap();
    assert!(error.ends_with("; grant list on it to the service account of opgate"), "{error}");

    let cluster = FakeCluster::start();
    cluster.install(PACKAGES, "v1", "packagemanifests", "PackageManifest", Scope::Namespaced);
    cluster.forbid_watch(PACKAGES, "packagemanifests");
    let watched = PolledPolicy::new(cluster).await;
    let status = watched.wait_refused(MANIFESTS_RESOURCE).await;
    let error = status.error.unwrap();
    assert!(error.contains("grant list and watch on it") && !status.polled, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_polled_resource_names_the_missing_permission() {
    let cluster = cluster(&[]);
    cluster.forbid(PACKAGES, "packagemanifests");
    let polled = PolledPolicy::new(cluster).await;
    let error = polled.wait_refused(MANIFESTS_RESOURCE).await.error.unwrap();
    assert!(error.ends_with("; grant list on it to the service account of opgate"), "{error}");
    polled.cluster.allow(PACKAGES, "packagemanifests");
    polled.wait_until_reported("packagemanifests", "packagemanifests: []").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_aggregated_server_blocks_no_other_resource() {
    let cluster = cluster(&["etcd"]);
    cluster.install(CONFIG, "v1", "featuregates", "FeatureGate", Scope::Cluster);
    cluster.set_reachable(PACKAGES, false);
    let polled = PolledPolicy::new(cluster).await;
    polled.set.cluster().wait_synced().await;
    assert!(polled.set.cluster().is_synced());
    let down = format!(
        "packagemanifests: Unavailable(\"{MANIFESTS_RESOURCE} is not synced yet: 503: service unavailable\")"
    );
    polled.wait_until_reported("packagemanifests", &down).await;
    assert_eq!(polled.reported_objects("featuregates").await, "featuregates: []");
    assert_eq!(polled.reported_objects("clusterversions").await, "clusterversions: []");
    polled.cluster.set_reachable(PACKAGES, true);
    polled.wait_until_reported("packagemanifests", r#"packagemanifests: ["etcd"]"#).await;
    // Once more: what was known stays until it is too old.
    polled.cluster.set_reachable(PACKAGES, false);
    wait_until("the error", async || polled.status(MANIFESTS_RESOURCE).error.is_some()).await;
    assert_eq!(polled.reported_objects("packagemanifests").await, r#"packagemanifests: ["etcd"]"#);
    polled.cluster.apply(PACKAGES, "v1", "packagemanifests", package("jaeger", 0));
    polled.cluster.set_reachable(PACKAGES, true);
    polled.wait_until_reported("packagemanifests", r#"packagemanifests: ["etcd", "jaeger"]"#).await;
    assert!(polled.status(MANIFESTS_RESOURCE).error.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_polled_resource_yields_empty_list_until_installed() {
    let polled = PolledPolicy::new(FakeCluster::start()).await;
    polled.set.cluster().wait_synced().await;
    for resource in ["packagemanifests", "clusterversions", "featuregates"] {
        assert_eq!(polled.reported_objects(resource).await, format!("{resource}: []"));
    }
    let status = polled.status(MANIFESTS_RESOURCE);
    assert!(status.cache_status == CacheStatus::NotInstalled && !status.polled, "{status:?}");
    let cluster = &polled.cluster;
    cluster.install(PACKAGES, "v1", "packagemanifests", "PackageManifest", Scope::Namespaced);
    cluster.aggregate(PACKAGES, "packagemanifests");
    cluster.apply(PACKAGES, "v1", "packagemanifests", package("etcd", 0));
    cluster.install(CONFIG, "v1", "featuregates", "FeatureGate", Scope::Cluster);
    let gate =
        json!({"metadata": {"name": "cluster"}, "spec": {"featureSet": "TechPreviewNoUpgrade"}});
    cluster.apply(CONFIG, "v1", "featuregates", gate);
    polled.wait_until_reported("packagemanifests", r#"packagemanifests: ["etcd"]"#).await;
    polled.wait_until_reported("featuregates", r#"featuregates: ["TechPreviewNoUpgrade"]"#).await;
    polled.wait_listed(MANIFESTS_RESOURCE).await;
    assert!(polled.status(MANIFESTS_RESOURCE).polled);
    assert!(!polled.status("config.openshift.io/v1/featuregates").polled);
}

/// A server behind the API server sends all that it has, however small a page was asked for.
#[tokio::test(flavor = "multi_thread")]
async fn unpaginated_list_is_read_as_a_stream() {
    let cluster = cluster(&[]);
    for number in 0..150 {
        let package = package(&format!("package-{number:03}"), 50_000);
        cluster.apply(PACKAGES, "v1", "packagemanifests", package);
    }
    let polled = PolledPolicy::new(cluster).await;
    wait_until("all of them", async || polled.status(MANIFESTS_RESOURCE).objects == 150).await;
    assert!(
        polled.status(MANIFESTS_RESOURCE).bytes < 150 * 1_000,
        "nothing but what was declared is kept"
    );
    polled.wait_listed(MANIFESTS_RESOURCE).await;
    let lists = polled.status(MANIFESTS_RESOURCE).lists;
    let requests = u64::try_from(polled.count(is_list)).unwrap();
    assert!(requests <= lists + 4, "one each, but for the first: {requests} for {lists}");
    assert_eq!(polled.status(MANIFESTS_RESOURCE).unreadable, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_version_is_an_object() {
    let polled = PolledPolicy::new(FakeCluster::start()).await;
    polled.wait_until_reported("serverversions", r#"serverversions: ["v1.34.0"]"#).await;
    polled
        .cluster
        .set_version_response(json!({"gitVersion": "v1.35.0-rc.1", "major": "1", "minor": "35"}));
    polled.wait_until_reported("serverversions", r#"serverversions: ["v1.35.0-rc.1"]"#).await;
    let status = polled.status(VERSIONS_RESOURCE);
    assert!(status.polled && status.cache_status == CacheStatus::Ready, "{status:?}");
    assert_eq!(polled.count(|request| request.contains("opgate.dev")), 0, "no API server has it");
    for (answer, why) in [
        (json!(403), "forbidden: forbidden: User"),
        (json!({"gitVersion": 7}), "/version has no gitVersion"),
        (json!({"gitVersion": "x".repeat(2 << 20)}), "/version has more than 1048576 bytes"),
    ] {
        polled.cluster.set_version_response(answer);
        wait_until(why, async || {
            polled.status(VERSIONS_RESOURCE).error.is_some_and(|error| error.starts_with(why))
        })
        .await;
        let said = polled.reported_objects("serverversions").await;
        assert_eq!(said, r#"serverversions: ["v1.35.0-rc.1"]"#, "until it is too old");
    }
    polled.cluster.set_version_response(json!(403));
    let grant = "; grant get on /version to the service account of opgate";
    wait_until(grant, async || {
        polled.status(VERSIONS_RESOURCE).error.is_some_and(|error| error.ends_with(grant))
    })
    .await;
}

/// A server that nothing but the lists can keep from being ready.
fn serve(cluster: &FakeCluster, arguments: &[&str]) -> Server {
    let kubeconfig = cluster.kubeconfig();
    let mut all = vec!["--kubeconfig", kubeconfig.to_str().unwrap(), "--sync-timeout", "1h"];
    all.extend(arguments);
    Server::start(BINARY, Some(&configuration(&[policy()])), &all)
}

async fn metric(server: &Server, name: &str, resource: &str) -> Option<f64> {
    server.metric(&format!("opgate_cluster_cache_{name}{{resource=\"{resource}\"}}")).await
}

/// What the policy sees through the webhook, or the body of a failed call.
async fn reported_by_server(server: &Server, resource: &str) -> String {
    let answer = server.connect().await.review(review_for(resource)).await.unwrap();
    if answer.status == 200 { answer.message() } else { answer.body }
}

#[tokio::test(flavor = "multi_thread")]
async fn polled_resources_are_reported_as_polled() {
    let cluster = cluster(&["etcd", "jaeger"]);
    let server = serve(&cluster, &["--poll-interval", "1s"]);
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
    wait_until("the line", async || {
        let (_, text) = server.get("/readyz?verbose").await;
        text.contains(&format!("[+]{MANIFESTS_RESOURCE} current, 2 objects, polled "))
            && text.contains(&format!("[+]{VERSIONS_RESOURCE} current, 1 objects, polled "))
            && text.contains("[+]config.openshift.io/v1/clusterversions not installed\n")
    })
    .await;
    for (resource, polled) in [
        (MANIFESTS_RESOURCE, 1.0),
        (VERSIONS_RESOURCE, 1.0),
        ("config.openshift.io/v1/featuregates", 0.0),
    ] {
        assert_eq!(metric(&server, "polled", resource).await, Some(polled), "{resource}");
        assert_eq!(metric(&server, "ready", resource).await, Some(1.0), "{resource}");
        assert!(metric(&server, "age_seconds", resource).await.is_some(), "{resource}");
    }
    let lists = cluster.requests().iter().filter(|request| is_list(request)).count();
    cluster.wait_requested(lists + 2, is_list).await;
    cluster.apply(PACKAGES, "v1", "packagemanifests", package("kiali", 0));
    let all = r#"packagemanifests: ["etcd", "jaeger", "kiali"]"#;
    wait_until(all, async || reported_by_server(&server, "packagemanifests").await == all).await;
    assert_eq!(
        reported_by_server(&server, "serverversions").await,
        r#"serverversions: ["v1.34.0"]"#
    );
    let log = server.log();
    let of = |resource: &str, text: &str| {
        let lines = log.iter().filter(|line| line["resource"] == resource);
        lines.filter(|line| line["message"].as_str().unwrap().starts_with(text)).count()
    };
    assert_eq!(of(MANIFESTS_RESOURCE, "resource does not support watch; polling"), 1);
    assert_eq!(of(MANIFESTS_RESOURCE, ""), 2, "no line for each list: {log:?}");
    assert_eq!(of("config.openshift.io/v1/clusterversions", "not installed"), 1);
    let loud: BTreeSet<_> = log
        .iter()
        .filter(|line| line["level"] != "INFO")
        .map(|line| line["message"].to_string())
        .collect();
    assert!(loud.iter().all(|line| line.contains("--client-ca")), "{loud:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_is_ready_without_unavailable_apis() {
    let cluster = cluster(&["etcd"]);
    cluster.install(CONFIG, "v1", "featuregates", "FeatureGate", Scope::Cluster);
    cluster.set_reachable(PACKAGES, false);
    let server = serve(&cluster, &[]);
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
    let (_, text) = server.get("/readyz?verbose").await;
    let line = format!(
        "[-]{MANIFESTS_RESOURCE} is not synced yet: 503: service unavailable; needed by polls"
    );
    assert!(text.contains(&line), "{text}");
    assert_eq!(metric(&server, "ready", MANIFESTS_RESOURCE).await, Some(0.0));
    // Rules that need it are skipped with this reason.
    wait_until("the reason", async || {
        let said = reported_by_server(&server, "packagemanifests").await;
        said.contains("Unavailable(") && said.contains("503: service unavailable")
    })
    .await;
    assert_eq!(reported_by_server(&server, "featuregates").await, "featuregates: []");
    cluster.set_reachable(PACKAGES, true);
    let one = r#"packagemanifests: ["etcd"]"#;
    wait_until(one, async || reported_by_server(&server, "packagemanifests").await == one).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_with_only_version_permission_is_not_ready() {
    let cluster = cluster(&[]);
    for (group, plural) in [
        (PACKAGES, "packagemanifests"),
        (CONFIG, "clusterversions"),
        (CONFIG, "featuregates"),
        ("", "componentstatuses"),
    ] {
        cluster.forbid(group, plural);
    }
    let kubeconfig = cluster.kubeconfig();
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--sync-timeout", "0s"];
    // What it reads of the cluster itself is another matter.
    let mut fixed: Value = serde_json::from_str(&configuration(&[policy()])).unwrap();
    fixed["profile"] = json!("ocp-4.15");
    let server = Server::start(BINARY, Some(&fixed.to_string()), &arguments);
    wait_until("the version and the refusals", async || {
        let (code, text) = server.get("/readyz?verbose").await;
        assert_eq!(code, 503, "{text}");
        metric(&server, "ready", VERSIONS_RESOURCE).await == Some(1.0)
            && text.matches("is forbidden").count() >= 4
    })
    .await;
    cluster.allow(CONFIG, "featuregates");
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
}

/// 60 MB in one response, of which no policy reads more than the names.
#[tokio::test(flavor = "multi_thread")]
async fn large_list_uses_little_memory() {
    let cluster = cluster(&["etcd"]);
    let alone = serve(&cluster, &[]);
    wait_until("readiness", async || alone.get("/readyz").await.0 == 200).await;
    for number in 0..100 {
        let package = package(&format!("package-{number}"), 600_000);
        cluster.apply(PACKAGES, "v1", "packagemanifests", package);
    }
    let server = serve(&cluster, &[]);
    wait_until("the lists", async || {
        metric(&server, "objects", MANIFESTS_RESOURCE).await == Some(101.0)
    })
    .await;
    let (before, after) = (alone.memory("VmHWM"), server.memory("VmHWM"));
    println!("peak {} KiB, with 60 MB listed {} KiB", before >> 10, after >> 10);
    assert!(after < before + (24 << 20), "{before} and {after}");
}

#[test]
fn out_of_range_poll_interval_is_rejected() {
    for interval in ["0s", "999ms", "61m", "often"] {
        let mut command = Command::new(BINARY);
        let output = command.args(["serve", "--poll-interval", interval]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{interval}: {said}");
        assert!(said.contains("--poll-interval"), "{said}");
    }
}

/// What the policy says in a replay with these files as the cluster.
fn replay_with(context: &[(&str, &str)]) -> (String, String) {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("opgate.yaml", &configuration(&[policy()]));
    write("review.json", &review_for("serverversions"));
    let mut command = Command::new(BINARY);
    command.current_dir(directory.path()).env("OPGATE_CACHE_DIR", directory.path().join("cache"));
    command.args(["--log", "info", "replay", "--config", "opgate.yaml"]);
    for (name, text) in context {
        write(name, text);
        command.args(["--cluster-state", name]);
    }
    let output = command.arg("review.json").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn server_version_is_read_from_files() {
    let printed = r#"{
  "major": "1",
  "minor": "25",
  "gitVersion": "v1.25.4+77bec7a",
  "gitCommit": "",
  "platform": "linux/amd64"
}"#;
    let object = r#"{"apiVersion": "opgate.dev/v1alpha1", "kind": "ServerVersion",
        "metadata": {"name": "kubernetes"}, "gitVersion": "v9.9.9"}"#;
    let namespace = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}}"#;
    let (out, log) = replay_with(&[("version.json", printed), ("objects.json", object)]);
    assert!(out.contains(r#"serverversions: ["v1.25.4+77bec7a"]"#), "{out}{log}");
    assert!(log.contains(&format!("resource={VERSIONS_RESOURCE} objects=1")), "{log}");
    let yaml = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\ngitVersion: v1.30.0\n";
    let (out, log) = replay_with(&[("all.yaml", yaml)]);
    assert!(out.contains(r#"serverversions: ["v1.30.0"]"#), "{out}{log}");
    for other in [object, namespace] {
        let (out, log) = replay_with(&[("objects.json", other)]);
        assert!(out.contains("serverversions: []"), "{out}{log}");
    }
    let (out, log) = replay_with(&[]);
    assert!(out.contains("serverversions: NoCluster"), "{out}{log}");
}
