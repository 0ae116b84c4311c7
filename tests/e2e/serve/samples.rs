//! Samples of custom resources, and Secrets: through the engine with a fake API server, and through the
//! real binary.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Connection, Snapshot, Source, Watches};
use opgate::policy::{Configuration, PolicySet};
use opgate::review::{self, Review};
use opgate::supervise::Supervisor;
use opgate_document::Document;
use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::{Server, WAIT_TIMEOUT, configuration, create_bundle, samples, wait_until};

use crate::BINARY;

const GROUP: &str = "example.com";
const GRANTED_SAMPLES: &[&str] = &["*.example.com"];
const SECRET_VALUE: &str = "hunter2";

/// A request that makes the policy report the content of samples: `widgets.example.com/v1/500`,
/// several with spaces between them.
fn review_for(samples: &str) -> String {
    let spec = json!({"source": {"type": "image", "image": {"ref": samples}}});
    create_bundle("1", "b", &spec).to_string()
}

/// A request that makes the policy report the Secrets that it finds.
fn review_for_secrets() -> String {
    create_bundle("1", "secrets", &json!({})).to_string()
}

fn widget(number: usize, size: usize) -> Value {
    json!({
        "metadata": {
            "name": format!("w-{number:04}"), "namespace": "n",
            "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {"text": "x".repeat(size)},
    })
}

/// A cluster with widgets of this size.
fn cluster(count: usize, size: usize) -> FakeCluster {
    let cluster = FakeCluster::start();
    cluster.install(GROUP, "v1", "widgets", "Widget", Scope::Namespaced);
    cluster.install("", "v1", "secrets", "Secret", Scope::Namespaced);
    for number in 0..count {
        cluster.apply(GROUP, "v1", "widgets", widget(number, size));
    }
    cluster
}

/// The policy with a cluster.
struct SamplingPolicy {
    cluster: FakeCluster,
    set: PolicySet,
    _watches: Watches,
}

impl SamplingPolicy {
    async fn new(cluster: FakeCluster, granted: &[&str], settings: Value) -> Arc<Self> {
        let set = load(granted, &settings, ClusterOptions::of(Source::Live));
        let connection = Connection::kubeconfig(&[cluster.kubeconfig()], None).await.unwrap();
        let watches = connection.watch(set.cluster(), &Supervisor::default());
        let mut set = set;
        set.read_directly(connection, false);
        Arc::new(Self { cluster, set, _watches: watches })
    }

    async fn sample_report(&self, request: String) -> String {
        sample_report_within(&self.set, request, WAIT_TIMEOUT).await
    }

    /// The lists of widgets so far.
    fn list_requests(&self) -> Vec<String> {
        self.cluster.requests().into_iter().filter(|request| is_list(request)).collect()
    }
}

fn is_list(request: &str) -> bool {
    request.contains("/widgets?")
}

fn load(granted: &[&str], settings: &Value, options: ClusterOptions) -> PolicySet {
    let text = configuration(&[samples(granted, settings)]);
    let configuration = Configuration::parse(Path::new("opgate.yaml"), &text, BUILTINS).unwrap();
    let set = PolicySet::load(&configuration, None, 64, options).unwrap();
    assert!(set.broken().is_empty(), "{:?}", set.broken());
    set
}

/// What the policy says within this time, or why it has no answer.
async fn sample_report_within(set: &PolicySet, request: String, time: Duration) -> String {
    let text = review::text(request.into_bytes()).unwrap();
    let review = Review::read(&text).unwrap();
    let decision = set.decide(&review, None, Instant::now() + time, &()).await;
    match decision.map(|decision| (decision.violations, decision.policy_errors)) {
        Ok((violations, faults)) => match &violations[..] {
            [violation] => violation.message.clone(),
            _ => format!("{faults:?}"),
        },
        Err(overload) => format!("{overload}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_any_kind_come_in_pages_of_one_list() {
    let sampled = SamplingPolicy::new(cluster(250, 10), GRANTED_SAMPLES, json!({})).await;
    let all = "250 complete=true first=w-0000 whole=true";
    assert_eq!(sampled.sample_report(review_for("widgets.example.com/v1")).await, all);
    let lists = sampled.list_requests();
    let parameter = |list: &String, name: &str| {
        let mut parameters = list.split(['?', '&', ' ']);
        parameters.find_map(|p| p.strip_prefix(name)).map(str::to_owned)
    };
    let limits: Vec<_> = lists.iter().map(|list| parameter(list, "limit=").unwrap()).collect();
    assert_eq!(limits, ["20", "80", "100", "100"]);
    // What is stored, not what is cached.
    assert!(lists.iter().all(|list| parameter(list, "resourceVersion=").is_none()), "{lists:?}");
    // Nothing is kept for the next review.
    sampled.cluster.apply(GROUP, "v1", "widgets", widget(250, 10));
    let more = "251 complete=true first=w-0000 whole=true";
    assert_eq!(sampled.sample_report(review_for("widgets.example.com/v1")).await, more);
}

#[tokio::test(flavor = "multi_thread")]
async fn sample_size_is_limited_as_requested() {
    let sampled = SamplingPolicy::new(cluster(30, 10), GRANTED_SAMPLES, json!({})).await;
    for (asked, said) in [
        ("widgets.example.com/v1/7", "7 complete=false first=w-0000 whole=true"),
        ("widgets.example.com/v1/0", "1 complete=false first=w-0000 whole=true"),
        ("widgets.example.com/v1/30", "30 complete=true first=w-0000 whole=true"),
        // More than before is listed again.
        (
            "widgets.example.com/v1/7 widgets.example.com/v1/29 widgets.example.com/v1/3",
            "7 complete=false first=w-0000 whole=true | 29 complete=false first=w-0000 whole=true | 3 complete=false first=w-0000 whole=true",
        ),
    ] {
        assert_eq!(sampled.sample_report(review_for(asked)).await, said, "{asked}");
    }
    // A server that knows no pages sends all.
    sampled.cluster.aggregate(GROUP, "widgets");
    let some = "7 complete=false first=w-0000 whole=true";
    assert_eq!(sampled.sample_report(review_for("widgets.example.com/v1/7")).await, some);
}

#[tokio::test(flavor = "multi_thread")]
async fn sample_without_grant_is_not_requested() {
    let sampled = SamplingPolicy::new(cluster(3, 10), &["gadgets.example.com"], json!({})).await;
    for (asked, why) in [
        (
            "widgets.example.com/v1",
            "NotGranted(\"widgets.example.com may not be listed: add it to `allowedSamples` of the policy in the configuration\")",
        ),
        ("secrets./v1", "Unavailable(\"secrets. is not a custom resource\")"),
        ("secrets/v1", "Unavailable(\"secrets. is not a custom resource\")"),
        ("gadgets.example.com/..", "Unavailable(\"gadgets.example.com is not a custom resource\")"),
        ("Gadgets.example.com/v1", "Unavailable(\"Gadgets.example.com is not a custom resource\")"),
    ] {
        assert_eq!(sampled.sample_report(review_for(asked)).await, why, "{asked}");
    }
    // Granted, and not there.
    let none = "0 complete=true first= whole=false";
    assert_eq!(sampled.sample_report(review_for("gadgets.example.com/v1")).await, none);
    let requests = sampled.cluster.requests();
    let all: Vec<_> = requests.iter().filter(|request| !request.contains("secrets")).collect();
    assert_eq!(all.len(), 1, "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sample_refused_by_the_api_server_reports_cause() {
    let sampled = SamplingPolicy::new(cluster(3, 10), GRANTED_SAMPLES, json!({})).await;
    sampled.cluster.forbid(GROUP, "widgets");
    let said = sampled.sample_report(review_for("widgets.example.com/v1")).await;
    assert!(said.starts_with("NotGranted(\"example.com/v1/widgets: forbidden: "), "{said}");
    assert!(said.ends_with("; grant list on it to the service account of opgate\")"), "{said}");
    sampled.cluster.allow(GROUP, "widgets");
    sampled.cluster.set_reachable(GROUP, false);
    let said = sampled.sample_report(review_for("widgets.example.com/v1")).await;
    assert_eq!(said, "Unavailable(\"example.com/v1/widgets: 503: service unavailable\")");
    sampled.cluster.set_reachable(GROUP, true);
    sampled.cluster.fail_next_requests(500, 1);
    let said = sampled.sample_report(review_for("widgets.example.com/v1")).await;
    assert!(said.starts_with("Unavailable(\"example.com/v1/widgets: 500: "), "{said}");
    let all = "3 complete=true first=w-0000 whole=true";
    assert_eq!(sampled.sample_report(review_for("widgets.example.com/v1")).await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_list_is_restarted_once() {
    let sampled = SamplingPolicy::new(cluster(250, 10), GRANTED_SAMPLES, json!({})).await;
    sampled.cluster.expire_history_after(GROUP, "widgets", 2);
    let all = "250 complete=true first=w-0000 whole=true";
    assert_eq!(sampled.sample_report(review_for("widgets.example.com/v1")).await, all);
    let starts = sampled.list_requests().iter().filter(|list| !list.contains("continue=")).count();
    assert_eq!(starts, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_objects_end_a_sample() {
    let sampled = SamplingPolicy::new(cluster(40, 900 << 10), GRANTED_SAMPLES, json!({})).await;
    let some = "4 complete=false first=w-0000 whole=true";
    assert_eq!(sampled.sample_report(review_for("widgets.example.com/v1")).await, some);
    assert_eq!(sampled.list_requests().len(), 1);
    // Two versions: both samples together have 8 MiB.
    sampled.cluster.install(GROUP, "v2", "widgets", "Widget", Scope::Namespaced);
    sampled.cluster.install(GROUP, "v3", "widgets", "Widget", Scope::Namespaced);
    let asked = "widgets.example.com/v1 widgets.example.com/v2 widgets.example.com/v3";
    let said = sampled.sample_report(review_for(asked)).await;
    let counts: Vec<_> = said.split(" | ").map(|one| one.split(' ').next().unwrap()).collect();
    assert_eq!(counts, ["4", "4", "1"], "{said}");
    // One that is larger than a sample may be.
    let sampled = SamplingPolicy::new(cluster(2, 5 << 20), GRANTED_SAMPLES, json!({})).await;
    let none = "0 complete=false first= whole=false";
    assert_eq!(sampled.sample_report(review_for("widgets.example.com/v1")).await, none);
}

#[tokio::test(flavor = "multi_thread")]
async fn review_may_start_eight_lists() {
    let sampled = SamplingPolicy::new(cluster(1, 10), GRANTED_SAMPLES, json!({})).await;
    let asked: Vec<_> = (1..=9).map(|version| format!("widgets.example.com/v{version}")).collect();
    let said = sampled.sample_report(review_for(&asked.join(" "))).await;
    let last = "Unavailable(\"example.com/v9/widgets: more than 8 lists for one review\")";
    assert!(said.ends_with(last), "{said}");
    assert_eq!(said.matches("complete=true").count(), 8, "{said}");
}

/// While the API server does not answer, two reviews wait for it, further ones wait for these, and all
/// others are decided.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_samples_delay_no_other_reviews() {
    let sampled = SamplingPolicy::new(cluster(3, 10), GRANTED_SAMPLES, json!({})).await;
    sampled.cluster.hold_lists(GROUP, "widgets");
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let sampled = sampled.clone();
            tokio::spawn(async move {
                sampled.sample_report(review_for("widgets.example.com/v1")).await
            })
        })
        .collect();
    sampled.cluster.wait_requested(2, is_list).await;
    let said_at_once = sampled.sample_report(review_for("widgets.example.org/v1")).await;
    assert!(said_at_once.starts_with("NotGranted"), "{said_at_once}");
    // Too late for a place: nothing is skipped because others ask for much.
    let busy = sample_report_within(
        &sampled.set,
        review_for("widgets.example.com/v1"),
        Duration::from_millis(200),
    )
    .await;
    assert!(busy.contains("too many reviews wait for a list of custom resources"), "{busy}");
    assert_eq!(sampled.list_requests().len(), 2);
    sampled.cluster.release_lists(GROUP, "widgets");
    for review in waiting {
        assert_eq!(review.await.unwrap(), "3 complete=true first=w-0000 whole=true");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn list_ends_before_the_request_deadline() {
    let sampled = SamplingPolicy::new(cluster(3, 10), GRANTED_SAMPLES, json!({})).await;
    sampled.cluster.hold_lists(GROUP, "widgets");
    let late = sample_report_within(
        &sampled.set,
        review_for("widgets.example.com/v1"),
        Duration::from_secs(4),
    )
    .await;
    let why = "example.com/v1/widgets: the API server did not list it in time";
    assert_eq!(late, format!("Unavailable(\"{why}\")"));
}

/// Files show custom resources in whatever version they are written.
#[tokio::test(flavor = "multi_thread")]
async fn samples_come_from_files_as_well() {
    let object = |version: &str, name: &str| {
        json!({
            "apiVersion": version, "kind": "Widget", "metadata": {"name": name, "namespace": "n"},
            "spec": {},
        })
    };
    let objects = [
        object("example.com/v1", "b"),
        object("example.com/v2", "a"),
        object("example.org/v1", "c"),
    ];
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    for (source, none) in [
        (Source::Snapshot, "0 complete=true first= whole=false"),
        (Source::PartialSnapshot, "NoCluster"),
    ] {
        let set = load(&[], &json!({}), ClusterOptions::of(source));
        let mut snapshot = Snapshot::default();
        snapshot.add(Document::parse(&list).unwrap()).unwrap();
        snapshot.replace_state(set.cluster());
        for (asked, expected) in [
            ("widgets.example.com/v1", "2 complete=true first=a whole=true"),
            ("widgets.example.com/v1/1", "1 complete=false first=a whole=true"),
            ("gadgets.example.com/v1", none),
        ] {
            assert_eq!(
                sample_report_within(&set, review_for(asked), WAIT_TIMEOUT).await,
                expected,
                "{source:?} {asked}"
            );
        }
    }
    let set = load(GRANTED_SAMPLES, &json!({}), ClusterOptions::of(Source::Absent));
    assert_eq!(
        sample_report_within(&set, review_for("widgets.example.com/v1"), WAIT_TIMEOUT).await,
        "NoCluster"
    );
}

fn secret(namespace: &str, name: &str) -> Value {
    json!({
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": name, "namespace": namespace},
        "data": {".dockerconfigjson": SECRET_VALUE, "other": SECRET_VALUE},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_not_read_without_the_setting() {
    let sampled = SamplingPolicy::new(cluster(0, 0), &[], json!({})).await;
    sampled.set.cluster().wait_synced().await;
    let said = sampled.sample_report(review_for_secrets()).await;
    assert_eq!(said, "Unavailable(\"v1/secrets is read only with the setting secrets.read\")");
    assert_eq!(sampled.cluster.requests(), Vec::<String>::new());
    let off = SamplingPolicy::new(cluster(0, 0), &[], json!({"secrets": {"read": false}})).await;
    assert!(off.set.cluster().caches().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_keep_names_types_and_keys_of_one_namespace() {
    let fake = cluster(0, 0);
    fake.apply("", "v1", "secrets", secret("openshift-marketplace", "here"));
    fake.apply("", "v1", "secrets", secret("elsewhere", "there"));
    let sampled = SamplingPolicy::new(fake, &[], json!({"secrets": {"read": true}})).await;
    sampled.set.cluster().wait_synced().await;
    let here = "here kubernetes.io/dockerconfigjson .dockerconfigjson,other";
    assert_eq!(sampled.sample_report(review_for_secrets()).await, here);
    let requests = sampled.cluster.requests();
    let within = "/namespaces/openshift-marketplace/secrets";
    assert!(requests.iter().all(|request| request.contains(within)), "{requests:?}");
    let kept = format!("{:?}", sampled.set.cluster());
    assert!(kept.contains("here") && !kept.contains(SECRET_VALUE), "{kept}");
}

/// Without the permission the rules are not evaluated, and nothing else waits or fails.
#[tokio::test(flavor = "multi_thread")]
async fn forbidden_secrets_block_no_other_samples() {
    let fake = cluster(3, 10);
    fake.forbid("", "secrets");
    let sampled =
        SamplingPolicy::new(fake, GRANTED_SAMPLES, json!({"secrets": {"read": true}})).await;
    sampled.set.cluster().wait_synced().await;
    assert!(sampled.set.cluster().is_synced());
    let said = sampled.sample_report(review_for_secrets()).await;
    assert!(said.starts_with("Unavailable(\"v1/secrets is not synced yet: forbidden: "), "{said}");
    assert!(said.contains("grant list and watch on it to the service account of opgate"), "{said}");
    let all = "3 complete=true first=w-0000 whole=true";
    assert_eq!(sampled.sample_report(review_for("widgets.example.com/v1")).await, all);
    sampled.cluster.apply("", "v1", "secrets", secret("openshift-marketplace", "here"));
    sampled.cluster.allow("", "secrets");
    let here = "here kubernetes.io/dockerconfigjson .dockerconfigjson,other";
    wait_until("the permission", async || {
        sampled.sample_report(review_for_secrets()).await == here
    })
    .await;
}

/// A policy that puts all it gets of a Secret into a message: no answer and no line of the log has a value.
#[tokio::test(flavor = "multi_thread")]
async fn secret_values_never_leave_the_server() {
    let config = configuration(&[samples(&[], &json!({}))]);
    let server =
        Server::start(BINARY, Some(&config), &["--cluster-source", "none", "--log", "debug"]);
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
    let encoded = "aHVudGVyMg==";
    let mut object = secret("n", "s");
    object["apiVersion"] = json!("v1");
    object["kind"] = json!("Secret");
    object["data"] = json!({"password": encoded});
    object["stringData"] = json!({"password": SECRET_VALUE});
    let last_applied =
        json!({"kubectl.kubernetes.io/last-applied-configuration": object.to_string()});
    object["metadata"]["annotations"] = last_applied;
    let mut review: Value = serde_json::from_str(&review_for("x")).unwrap();
    let request = &mut review["request"];
    for member in ["kind", "requestKind"] {
        request[member] = json!({"group": "", "version": "v1", "kind": "Secret"});
    }
    for member in ["resource", "requestResource"] {
        request[member] = json!({"group": "", "version": "v1", "resource": "secrets"});
    }
    request["object"] = object.clone();
    request["oldObject"] = object;
    request["operation"] = json!("UPDATE");
    let answer = server.connect().await.review(review.to_string()).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.message().contains("kubernetes.io/dockerconfigjson"), "{}", answer.body);
    let log = format!("{:?}", server.log());
    let (_, policies) = server.get("/policies").await;
    for hidden in [SECRET_VALUE, encoded] {
        for (what, text) in [("answer", &answer.body), ("log", &log), ("policies", &policies)] {
            assert!(!text.contains(hidden), "{hidden} in the {what}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_writes_no_core_dumps() {
    let config = configuration(&[samples(&[], &json!({}))]);
    let server = Server::start(BINARY, Some(&config), &["--cluster-source", "none"]);
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
    let limits = server.limits();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let words: Vec<_> = core.split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"], "{core}");
}
