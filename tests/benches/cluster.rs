//! Evaluations that read the cluster, and what the cluster takes in memory, at three sizes:
//! `cargo bench -p opgate-tests --bench cluster`
//!
//! Times are of whole decisions in process. The same run decides the same reviews with an empty
//! cluster for comparison. Memory is that of the real binary after it has listed everything from an
//! API server on loopback.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Snapshot, Source};
use opgate::policy::{Configuration, PolicySet, Profile};
use opgate::review::{self, Review};
use opgate_document::Document;
use serde_json::json;
use testkit::Server;
use testkit::large::{api, cluster, create, csv, group, namespace, new_group};
use tokio::runtime::Runtime;

const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");
const RUNS: usize = 2_000;

/// Namespaces, OperatorGroups, CSVs.
const SIZES: [(usize, usize, usize); 3] =
    [(2_500, 500, 1_250), (5_000, 1_000, 2_500), (10_000, 2_000, 5_000)];

/// What is decided, by name.
fn reviews() -> Vec<(&'static str, String)> {
    let mut member = csv(7);
    member["metadata"]["namespace"] = json!("namespace-7");
    member["metadata"]["name"] = json!("another.v1.0.0");
    let own = json!({"targetNamespaces": ["new"]});
    let tenth = json!({"selector": {"matchLabels": {"ten": "3"}}});
    vec![
        ("group, own namespace, provides nothing", new_group(&own, "")),
        ("group, own namespace, an API of others", new_group(&own, &api(3))),
        ("group, selects a tenth, an API of others", new_group(&tenth, &api(3))),
        ("group, global, an API of others", new_group(&json!({}), &api(3))),
        (
            "CSV in a group, 30 KB",
            create("ClusterServiceVersion", "clusterserviceversions", "v1alpha1", &member),
        ),
    ]
}

fn set(runtime: &Runtime, size: (usize, usize, usize)) -> PolicySet {
    let _entered = runtime.enter();
    let configuration = Configuration::builtin(Profile::default(), BUILTINS);
    let set =
        PolicySet::load(&configuration, None, 64, ClusterOptions::of(Source::Snapshot)).unwrap();
    let mut snapshot = Snapshot::default();
    let (namespaces, groups, csvs) = size;
    let objects = (0..namespaces).map(namespace).chain((0..groups).map(group));
    for object in objects.chain((0..csvs).map(csv)) {
        snapshot.add(Document::parse(&object.to_string()).unwrap()).unwrap();
    }
    snapshot.replace_state(set.cluster());
    set
}

/// Median and 99th percentile, in microseconds, and whether it was allowed.
fn decide(runtime: &Runtime, set: &PolicySet, json: &str) -> (f64, f64, bool) {
    let text = review::text(json.as_bytes().to_vec()).unwrap();
    let mut times = Vec::with_capacity(RUNS);
    let mut allowed = false;
    for _ in 0..RUNS {
        let started = Instant::now();
        let review = Review::read(&text).unwrap();
        let deadline = started + Duration::from_secs(10);
        let decided = runtime.block_on(set.decide(&review, None, deadline, &())).unwrap();
        times.push(started.elapsed());
        assert!(decided.policy_errors.is_empty(), "{:?}", decided.policy_errors);
        allowed = decided.denial.is_none();
    }
    times.sort_unstable();
    let at = |permille: usize| times[(RUNS - 1) * permille / 1_000].as_secs_f64() * 1e6;
    (at(500), at(990), allowed)
}

fn memory(pid: u32, name: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1_024.0
}

/// Resident memory of a server that has listed a cluster of this size: the current value and the
/// peak. The third value is the time until the server was ready.
fn measure_server(runtime: &Runtime, size: (usize, usize, usize)) -> (f64, f64, Duration) {
    runtime.block_on(async {
        let cluster = cluster(size);
        let started = Instant::now();
        let kubeconfig = cluster.kubeconfig();
        let kubeconfig = kubeconfig.to_str().unwrap();
        let configuration = testkit::configuration(&[
            json!({"name": "bundle-immutability"}),
            json!({"name": "operator-group"}),
        ]);
        let server = Server::start(BINARY, Some(&configuration), &["--kubeconfig", kubeconfig]);
        while server.get("/readyz").await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let ready = started.elapsed();
        let pid = server.id();
        (memory(pid, "VmRSS:"), memory(pid, "VmHWM:"), ready)
    })
}

fn main() {
    let runtime = Runtime::new().unwrap();
    let empty = Arc::new(set(&runtime, (0, 0, 0)));
    println!(
        "decisions in process, {RUNS} of each: p50 µs, p99 µs, and p50 with an empty cluster\n"
    );
    println!("| review | namespaces, groups, CSVs | p50 | p99 | empty | |");
    println!("|---|---|---|---|---|---|");
    for size in SIZES {
        let set = set(&runtime, size);
        for (name, review) in reviews() {
            let (p50, p99, allowed) = decide(&runtime, &set, &review);
            let (without, _, _) = decide(&runtime, &empty, &review);
            let verdict = if allowed { "allowed" } else { "denied" };
            let (n, g, c) = size;
            println!("| {name} | {n}, {g}, {c} | {p50:.0} | {p99:.0} | {without:.0} | {verdict} |");
        }
    }
    println!("\nmemory of `opgate serve` with all of it listed, both built-in policies\n");
    println!("| namespaces, groups, CSVs | resident MiB | at the most | ready after |");
    println!("|---|---|---|---|");
    for size in std::iter::once((0, 0, 0)).chain(SIZES) {
        let (now, most, ready) = measure_server(&runtime, size);
        let (n, g, c) = size;
        println!("| {n}, {g}, {c} | {now:.0} | {most:.0} | {} ms |", ready.as_millis());
    }
}
