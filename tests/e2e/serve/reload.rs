//! The configuration changes while the server serves: through the real binary, with files that are swapped as a
//! kubelet does it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::reviews::{
    GOOSE_API, OLM, OPERATOR_GROUPS, WriteMode, cluster, create, group, policies,
};
use testkit::{
    ConfigMap, Server, builtin_policy, configuration, create_bundle, good_spec, hostile_component,
    misbehaves, wait_until,
};

use crate::BINARY;

const JSON: &str = "application/json";

/// The built-in policy in this mode.
fn builtin_in_mode(mode: &str) -> Value {
    let mut policy = builtin_policy();
    policy["mode"] = mode.into();
    policy
}

/// A server with the file `opgate.yaml` of these files. By default it checks the file every 20 ms.
fn serve(files: &ConfigMap, arguments: &[&str]) -> Server {
    let config = files.path("opgate.yaml");
    let mut all = vec!["--config", config.to_str().unwrap()];
    if !arguments.contains(&"--reload-interval") {
        all.extend(["--reload-interval", "20ms"]);
    }
    all.extend(arguments);
    Server::start(BINARY, None, &all)
}

fn serve_with_cluster(files: &ConfigMap, cluster: &FakeCluster, arguments: &[&str]) -> Server {
    let kubeconfig = cluster.kubeconfig();
    let mut all = vec!["--kubeconfig", kubeconfig.to_str().unwrap()];
    all.extend(arguments);
    serve(files, &all)
}

/// What `/policies` says.
async fn policies_status(server: &Server) -> Value {
    serde_json::from_str(&server.get("/policies").await.1).unwrap()
}

async fn active_digest(server: &Server) -> String {
    policies_status(server).await["configuration"]["digest"].as_str().unwrap().to_owned()
}

/// The error of the last attempt.
async fn reload_error(server: &Server) -> Option<String> {
    let told = policies_status(server).await;
    told["configuration"]["lastAttempt"]["error"].as_str().map(str::to_owned)
}

async fn wait_changed(server: &Server, before: &str) {
    wait_until("another configuration", async || active_digest(server).await != before).await;
}

async fn wait_ready(server: &Server) {
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn swapped_config_map_is_loaded() {
    let mut files =
        ConfigMap::new(&[("opgate.yaml", &configuration(&[builtin_in_mode("enforce")]))]);
    let server = serve(&files, &[]);
    let mut client = server.connect().await;
    let before = active_digest(&server).await;
    let answer = client.review(testkit::recorded_review("007")).await.unwrap();
    assert_eq!(answer.message(), "bundle.spec is immutable");
    assert_eq!(policies_status(&server).await["configuration"]["lastAttempt"], Value::Null);

    files.swap(&[("opgate.yaml", &configuration(&[builtin_in_mode("warn")]))]);
    wait_changed(&server, &before).await;
    let answer = client.review(testkit::recorded_review("007")).await.unwrap();
    assert_eq!(answer.message(), "allowed");
    assert!(answer.body.contains("bundle.spec is immutable"), "{}", answer.body);
    let after = active_digest(&server).await;
    let told = policies_status(&server).await;
    assert_eq!(told["policies"][0]["mode"], "warn");
    assert_eq!(told["configuration"]["lastAttempt"]["error"], Value::Null);
    let (code, text) = server.get("/readyz?verbose").await;
    assert_eq!(code, 200);
    assert!(text.contains(&format!("[+]configuration {after} since 20")), "{text}");
    // Counters go on, and there is one configuration.
    let calls = "opgate_evaluation_duration_seconds_count{policy=\"bundle-immutability\"}";
    wait_until("the metric", async || server.metric(calls).await == Some(2.0)).await;
    let info = |digest: &str| format!("opgate_configuration_info{{digest=\"{digest}\"}}");
    wait_until("the metric", async || server.metric(&info(&after)).await == Some(1.0)).await;
    assert_eq!(server.metric(&info(&before)).await, None);
    let replaced = "opgate_configuration_reloads_total{result=\"replaced\"}";
    assert_eq!(server.metric(replaced).await, Some(1.0));
    // The old contents are the old configuration.
    files.swap(&[("opgate.yaml", &configuration(&[builtin_in_mode("enforce")]))]);
    wait_changed(&server, &after).await;
    assert_eq!(active_digest(&server).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_configuration_keeps_last_good() {
    let good = configuration(&[builtin_in_mode("enforce")]);
    let mut rule = builtin_policy();
    rule["rules"] = json!({"RPK-99": "warn"});
    let mut setting = builtin_policy();
    setting["settings"] = json!({"nonsense": 1});
    let with = |policy: Value| configuration(&[builtin_in_mode("enforce"), policy]);
    let mut files = ConfigMap::new(&[("opgate.yaml", &good), ("bad.wasm", "none")]);
    let module = |path: &Path| with(json!({"name": "other", "module": path}));
    let cases = [
        ("policies: [", "opgate.yaml:1:"),
        (&good[..good.len() / 2], "opgate.yaml:1:"),
        (&*configuration(&[rule]), "has no rule \"RPK-99\""),
        (&*configuration(&[setting]), "nonsense"),
        (&*with(json!({"name": "bundle-immutability"})), "is already there"),
        (&*module(&files.path("bad.wasm")), "policy other: "),
        (&*module(&files.path("missing.wasm")), "policy other: "),
        (
            &*module(&hostile_component("loops-in-describe")),
            "policy other: describe: exceeded the CPU time limit of 100ms",
        ),
        (&*module(&hostile_component("imports-wasi")), "policy other: "),
    ];
    let server = serve(&files, &[]);
    let digest = active_digest(&server).await;
    let mut client = server.connect().await;
    let failed = "opgate_configuration_reloads_total{result=\"failed\"}";
    for (text, says) in cases {
        let before = server.metric(failed).await.unwrap();
        files.swap(&[("opgate.yaml", text), ("bad.wasm", "none")]);
        wait_until(says, async || server.metric(failed).await.unwrap() > before).await;
        let error = reload_error(&server).await.unwrap();
        assert!(error.contains(says), "{error}");
        assert_eq!(active_digest(&server).await, digest);
        let answer = client.review(testkit::recorded_review("007")).await.unwrap();
        assert_eq!(answer.message(), "bundle.spec is immutable");
        let (code, text) = server.get("/readyz?verbose").await;
        assert_eq!(code, 200, "{text}");
        let line = text.lines().find(|line| line.starts_with("[!]configuration")).unwrap();
        assert!(line.contains(&digest) && line.contains(says), "{line}");
        let stale = "opgate_configuration_stale";
        wait_until("the metric", async || server.metric(stale).await == Some(1.0)).await;
    }
    let kept = |line: &&Value| {
        line["message"] == "configuration reload failed; keeping last good configuration"
    };
    let log = server.log();
    let kept: Vec<_> = log.iter().filter(kept).map(|line| line["error"].to_string()).collect();
    let mut once = kept.clone();
    once.dedup();
    assert_eq!(kept, once, "told once");
    // What it was before needs no reload.
    files.swap(&[("opgate.yaml", &good), ("bad.wasm", "none")]);
    wait_until("the end of it", async || reload_error(&server).await.is_none()).await;
    let stale = "opgate_configuration_stale";
    wait_until("the metric", async || server.metric(stale).await == Some(0.0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_reloads_an_edited_file_immediately() {
    let files = ConfigMap::new(&[("opgate.yaml", &configuration(&[builtin_in_mode("enforce")]))]);
    let server = serve(&files, &["--reload-interval", "1h"]);
    let before = active_digest(&server).await;
    let path = std::fs::canonicalize(files.path("opgate.yaml")).unwrap();
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    // In place, of the same length, and with the time that it had.
    let text = configuration(&[builtin_in_mode("enforce")]).replace("enforce", "audit  ");
    std::fs::write(&path, text.replace("audit  \"", "audit\"  ")).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(active_digest(&server).await, before);
    server.signal(Signal::HUP);
    wait_changed(&server, &before).await;
    let mut client = server.connect().await;
    assert_eq!(client.review(testkit::recorded_review("007")).await.unwrap().message(), "allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_module_causes_a_reload() {
    let directory = tempfile::tempdir().unwrap();
    let module = directory.path().join("policy.wasm");
    std::fs::copy(hostile_component("misbehaves"), &module).unwrap();
    let settings = json!({"do": "many-violations", "number": 1});
    let policy = json!({
        "name": "evil", "module": module, "settings": settings, "limits": {"time": "20s"},
    });
    let files = ConfigMap::new(&[("opgate.yaml", &configuration(&[policy]))]);
    let server = serve(&files, &[]);
    let mut client = server.connect().await;
    let bundle = create_bundle("u", "b", &good_spec()).to_string();
    assert_eq!(client.review(bundle.clone()).await.unwrap().message(), "no");
    let before = active_digest(&server).await;
    let new = directory.path().join("new.wasm");
    std::fs::copy(hostile_component("advises"), &new).unwrap();
    std::fs::rename(new, &module).unwrap();
    // It has another schema or other rules: whichever it is, it is noticed, and the server answers.
    wait_until("a look at it", async || {
        active_digest(&server).await != before || reload_error(&server).await.is_some()
    })
    .await;
    assert_eq!(client.review(bundle).await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_policy_still_responds_by_its_name() {
    let both = configuration(&[builtin_policy(), misbehaves("evil", &json!({"do": "panic"}))]);
    let mut files = ConfigMap::new(&[("opgate.yaml", &both)]);
    let server = serve(&files, &[]);
    let mut client = server.connect().await;
    let bundle = create_bundle("u", "b", &good_spec()).to_string();
    let answer = client.post("/validate/evil", JSON, bundle.clone()).await.unwrap();
    assert_eq!(answer.status, 500);
    let faults = "opgate_policy_errors_total{policy=\"evil\",cause=\"panic\"}";
    wait_until("the metric", async || server.metric(faults).await == Some(1.0)).await;
    let before = active_digest(&server).await;
    files.swap(&[("opgate.yaml", &configuration(&[builtin_policy()]))]);
    wait_changed(&server, &before).await;
    for path in ["/validate/evil", "/validate/evil/bundle-immutability", "/validate"] {
        let answer = client.post(path, JSON, bundle.clone()).await.unwrap();
        assert_eq!(answer.message(), "allowed", "{path}");
    }
    assert_eq!(client.post("/validate/never", JSON, bundle).await.unwrap().status, 404);
    // Its series end with its last call.
    wait_until("the end of its series", async || {
        !server.get("/metrics").await.1.contains("policy=\"evil\"")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_reads_are_synced_before_activation() {
    let cluster = cluster();
    cluster.apply(OLM, "v1", "operatorgroups", group("a", "first", &["shared"], GOOSE_API));
    let mut files = ConfigMap::new(&[("opgate.yaml", &configuration(&[builtin_policy()]))]);
    let server = serve_with_cluster(&files, &cluster, &["--reservation-ttl", "50ms"]);
    wait_ready(&server).await;
    let before = active_digest(&server).await;
    let mut client = server.connect().await;
    let new = create(&group("b", "new", &["shared"], GOOSE_API), WriteMode::DryRun);
    cluster.hold_lists(OLM, "operatorgroups");
    files.swap(&[("opgate.yaml", &policies())]);
    let is_list = |request: &str| request.contains("/operatorgroups?");
    cluster.wait_requested(1, is_list).await;
    assert_eq!(active_digest(&server).await, before);
    let answer = client.review(new.clone()).await.unwrap();
    assert_eq!(answer.message(), "allowed", "the old set does not ask");
    cluster.release_lists(OLM, "operatorgroups");
    // From the first call on, there is an answer, and it is the right one.
    wait_until("the new rule", async || {
        let answer = client.review(new.clone()).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.message() != "allowed"
    })
    .await;
    // The way back: the server stops the watch that no policy needs.
    let objects = format!("opgate_cluster_cache_objects{{resource=\"{OPERATOR_GROUPS}\"}}");
    wait_until("its series", async || server.metric(&objects).await == Some(1.0)).await;
    let before = active_digest(&server).await;
    files.swap(&[("opgate.yaml", &configuration(&[builtin_policy()]))]);
    wait_changed(&server, &before).await;
    cluster.wait_unwatched("operatorgroups").await;
    wait_until("the end of its series", async || server.metric(&objects).await.is_none()).await;
    assert_eq!(client.review(new).await.unwrap().message(), "allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn shared_reads_are_not_listed_or_watched_again() {
    let cluster = cluster();
    let mut files = ConfigMap::new(&[("opgate.yaml", &policies())]);
    let server = serve_with_cluster(&files, &cluster, &["--reservation-ttl", "1h"]);
    wait_ready(&server).await;
    cluster.wait_watching("operatorgroups", 1).await;
    let mut client = server.connect().await;
    let mut review = async |object: &Value| {
        client.review(create(object, WriteMode::Persist)).await.unwrap().message()
    };
    assert_eq!(review(&group("a", "first", &["shared"], GOOSE_API)).await, "allowed");
    let requests = cluster.requests().len();
    let before = active_digest(&server).await;
    files.swap(&[("opgate.yaml", &policies().replace("20s", "21s"))]);
    wait_changed(&server, &before).await;
    // What the old set allowed is in the way of what the new one is asked.
    let refused = review(&group("b", "second", &["shared"], GOOSE_API)).await;
    assert!(refused.starts_with("intersecting"), "{refused}");
    let mut again = cluster.requests().split_off(requests);
    // What the cluster is, is read again all the time: single objects, by name.
    let names = ["/clusterversions/version", "/clusterrolebindings/", "/clusterroles/"];
    again.retain(|request| !names.iter().any(|name| request.contains(name)));
    let again: Vec<_> = again
        .iter()
        // One that is allowed and not known to be stored is read by its name.
        .filter(|request| !request.contains("fieldSelector") && !request.contains("/version"))
        .collect();
    assert!(again.is_empty(), "{again:?}");
}

/// Files of a cluster are read again with each configuration, so that the new set has them, too.
#[tokio::test(flavor = "multi_thread")]
async fn cluster_state_files_are_reloaded() {
    let context = tempfile::tempdir().unwrap();
    let objects = context.path().join("objects.json");
    let list = |objects: &[Value]| json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let first = group("a", "first", &["shared"], GOOSE_API);
    std::fs::write(&objects, list(std::slice::from_ref(&first)).to_string()).unwrap();
    let mut files = ConfigMap::new(&[("opgate.yaml", &policies())]);
    let server = serve(&files, &["--cluster-state", context.path().to_str().unwrap()]);
    let mut client = server.connect().await;
    let new = create(&group("b", "new", &["shared"], GOOSE_API), WriteMode::DryRun);
    let refused = client.review(new.clone()).await.unwrap().message();
    assert!(refused.starts_with("intersecting"), "{refused}");
    // A change of these files alone is not noticed.
    std::fs::write(&objects, list(&[testkit::reviews::namespace("a")]).to_string()).unwrap();
    let before = active_digest(&server).await;
    files.swap(&[("opgate.yaml", &policies().replace("20s", "21s"))]);
    wait_changed(&server, &before).await;
    assert_eq!(client.review(new.clone()).await.unwrap().message(), "allowed");
    // Without them there is no new set.
    std::fs::write(&objects, "{").unwrap();
    files.swap(&[("opgate.yaml", &policies())]);
    wait_until("the trouble", async || {
        reload_error(&server).await.is_some_and(|error| error.starts_with("--cluster-state: "))
    })
    .await;
    assert_eq!(client.review(new).await.unwrap().message(), "allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn forbidden_read_keeps_last_good() {
    let cluster = cluster();
    cluster.forbid(OLM, "operatorgroups");
    let mut files = ConfigMap::new(&[("opgate.yaml", &configuration(&[builtin_policy()]))]);
    let arguments = ["--reservation-ttl", "50ms", "--sync-timeout", "1s"];
    let server = serve_with_cluster(&files, &cluster, &arguments);
    wait_ready(&server).await;
    let before = active_digest(&server).await;
    files.swap(&[("opgate.yaml", &policies())]);
    let forbidden = "operatorgroups.operators.coreos.com is forbidden";
    wait_until("the refusal", async || {
        reload_error(&server).await.is_some_and(|error| error.contains(forbidden))
    })
    .await;
    assert_eq!(active_digest(&server).await, before);
    assert_eq!(server.get("/readyz").await.0, 200);
    cluster.allow(OLM, "operatorgroups");
    server.signal(Signal::HUP);
    wait_changed(&server, &before).await;
}

/// Limits, modes, policies and queues change under load: no call fails.
#[tokio::test(flavor = "multi_thread")]
async fn configuration_changes_fail_no_calls() {
    const CLIENT_COUNT: usize = 6;
    const RELOAD_COUNT: usize = 20;
    let with = |mode: &str, concurrency: usize, others: &[Value]| {
        let mut policy = builtin_in_mode(mode);
        policy["limits"]["concurrency"] = concurrency.into();
        let mut all = vec![policy];
        all.extend_from_slice(others);
        configuration(&all)
    };
    let other = |name: &str| json!({"name": name, "limits": {"time": "20s"}});
    let (groups, file) = (other("operator-group"), misbehaves("file", &json!({"do": "nothing"})));
    let configurations = [
        with("enforce", 4, &[]),
        with("enforce", 4, std::slice::from_ref(&groups)),
        with("warn", 1, &[groups, file.clone()]),
        // More than the pool of the first one has.
        with("audit", 200, std::slice::from_ref(&file)),
        with("enforce", 2, &[file]),
    ];
    let mut files = ConfigMap::new(&[("opgate.yaml", &configurations[0])]);
    let server = Arc::new(serve(&files, &["--cluster-source", "none"]));
    let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..CLIENT_COUNT)
        .map(|_| {
            let (server, stop, calls) = (server.clone(), stop.clone(), calls.clone());
            tokio::spawn(async move {
                let mut client = server.connect().await;
                let review = testkit::recorded_review("006");
                while !stop.load(Ordering::Relaxed) {
                    let path = "/validate/bundle-immutability?timeout=60s";
                    for path in [path, "/validate?timeout=60s"] {
                        let answer = client.post(path, JSON, review.clone()).await.unwrap();
                        assert_eq!(answer.message(), "allowed");
                        calls.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    for number in 1..=RELOAD_COUNT {
        let before = active_digest(&server).await;
        let enough = calls.load(Ordering::Relaxed) + 20;
        files.swap(&[("opgate.yaml", &configurations[number % configurations.len()])]);
        wait_changed(&server, &before).await;
        wait_until("some calls", async || calls.load(Ordering::Relaxed) > enough).await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    println!("{} calls during {RELOAD_COUNT} reloads", calls.load(Ordering::Relaxed));
    let answers = server.get("/metrics").await.1;
    let failed: Vec<_> = answers
        .lines()
        .filter(|line| line.starts_with("opgate_requests_total{") && !line.contains("\"200\""))
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_reports_the_result_of_a_reload() {
    let cluster = cluster();
    cluster.install_ledger("opgate-system");
    cluster.install("events.k8s.io", "v1", "events", "Event", Scope::Namespaced);
    let good = configuration(&[builtin_in_mode("enforce")]);
    let mut files = ConfigMap::new(&[("opgate.yaml", &good)]);
    let arguments = ["--installation", "opgate-system/opgate", "--pod-name", "opgate-1"];
    let server = serve_with_cluster(&files, &cluster, &arguments);
    let event = async |count: usize| {
        let is_event = |request: &str| request.starts_with("POST /apis/events.k8s.io/v1");
        cluster.wait_requested(count, is_event).await;
    };
    let failed = "opgate_configuration_reloads_total{result=\"failed\"}";
    files.swap(&[("opgate.yaml", "policies: [")]);
    event(1).await;
    // The same once more, and then something else.
    server.signal(Signal::HUP);
    wait_until("another attempt", async || server.metric(failed).await == Some(2.0)).await;
    let before = active_digest(&server).await;
    files.swap(&[("opgate.yaml", &configuration(&[builtin_in_mode("warn")]))]);
    wait_changed(&server, &before).await;
    event(2).await;
    // A failure to write an Event has no effect.
    cluster.forbid("events.k8s.io", "events");
    let before = active_digest(&server).await;
    files.swap(&[("opgate.yaml", &good)]);
    wait_changed(&server, &before).await;
    assert_eq!(server.get("/readyz").await.0, 200);
    let requests = cluster.requests();
    let is_event = |request: &&String| request.starts_with("POST /apis/events.k8s.io/v1");
    let events = requests.iter().filter(is_event);
    assert!(events.clone().count() <= 3, "{:?}", events.collect::<Vec<_>>());
}
