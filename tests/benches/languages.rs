//! The same policy in each language: `cargo bench -p opgate-tests --bench languages -- NAME=COMPONENT…`
//!
//! The benchmark measures each component in a separate process, so that the memory of a process is
//! that of one component. The review is the CREATE of a Pod of 2 KB. "Served" is one client over
//! loopback TLS, which sends one request after the other; client and server share the processors.
//! `page_faults` counts only minor ones, of that process.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster;
use opgate::engine::Budget;
use opgate::policy::{Configuration, PolicySet};
use opgate::review::{self, Review};
use opgate::server::{Options, Server};
use opgate_certs::{Reloader, Source};
use serde_json::{Value, json};
use testkit::{Certificates, Client, configuration};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

const WARMUP_RUNS: usize = 200;
const RUNS: usize = 3_000;

/// Set for the process of one component.
const COMPONENT_ENV: &str = "OPGATE_BENCH_ONE";

fn main() {
    if let Ok(component) = std::env::var(COMPONENT_ENV) {
        measure_component(Path::new(&component));
        return;
    }
    // Cargo itself adds `--bench`.
    let named: Vec<_> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.split_once('=').map(|(n, p)| (n.to_owned(), p.to_owned())))
        .collect();
    if named.is_empty() {
        println!(
            "no components: cargo bench -p opgate-tests --bench languages -- rust=house-images.wasm …"
        );
        return;
    }
    println!(
        "| language | component | load | cached load | evaluation p50, p99 | served p50, p99 | page faults | calls run twice | memory of a call | of the process after load | after the calls |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, path) in named {
        let path = fs::canonicalize(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let this = std::env::current_exe().unwrap();
        let done = Command::new(this).env(COMPONENT_ENV, path).output().unwrap();
        let row = String::from_utf8_lossy(&done.stdout);
        let error = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{name}: {error}");
        println!("| {name} {}", row.trim_end());
    }
}

/// The CREATE of a Pod whose images have digests and come from a registry.
fn review() -> String {
    let digest = "0123456789abcdef".repeat(4);
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/house/{name}@sha256:{digest}"),
            "command": ["/bin/server", "--listen=:8080", "--log-level=info"],
            "env": (0..6).map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value {n}")}))
                .collect::<Vec<Value>>(),
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "resources": {"limits": {"memory": "128Mi"}, "requests": {"cpu": "50m", "memory": "64Mi"}},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            "terminationMessagePath": "/dev/termination-log",
            "volumeMounts": [{"mountPath": "/tmp", "name": "tmp"}],
        })
    };
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-7d4b9c6f5-x2x7p", "namespace": "shop", "generateName": "web-7d4b9c6f5-",
            "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5"},
            "annotations": {"example.com/owner": "team-shop"},
        },
        "spec": {
            "containers": [container("web"), container("sidecar")],
            "initContainers": [{"name": "prepare", "image": format!("registry.example.com/house/prepare@sha256:{digest}")}],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "serviceAccountName": "web",
            "tolerations": [{"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    });
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "5a7c2f6e-0000-4000-8000-000000000001",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "name": "web-7d4b9c6f5-x2x7p", "namespace": "shop", "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller",
                "groups": ["system:serviceaccounts", "system:authenticated"]},
            "object": object, "oldObject": null, "dryRun": false, "options": null,
        },
    })
    .to_string()
}

fn load(component: &Path, cache: Option<PathBuf>) -> PolicySet {
    let policy = json!({
        "name": "measured", "module": component, "allowedReads": ["v1/namespaces"],
        "limits": {"time": "1s"},
    });
    let configuration =
        Configuration::parse(Path::new("bench.yaml"), &configuration(&[policy]), BUILTINS).unwrap();
    let options = cluster::ClusterOptions::of(cluster::Source::Absent);
    let set = PolicySet::load(&configuration, cache, 64, options).unwrap();
    assert!(set.broken().is_empty(), "{:?}", set.broken());
    set
}

/// A row of the table.
fn measure_component(component: &Path) {
    let size = fs::metadata(component).unwrap().len();
    let cache = tempfile::tempdir().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let entered = runtime.enter();
    let started = Instant::now();
    drop(load(component, Some(cache.path().to_path_buf())));
    let cold = started.elapsed();
    let before = memory();
    let started = Instant::now();
    let set = load(component, Some(cache.path().to_path_buf()));
    let cached = started.elapsed();
    let loaded = memory().saturating_sub(before);
    drop(entered);

    let body = review();
    let evaluate = |runs| evaluate(&runtime, &set, &body, runs);
    evaluate(WARMUP_RUNS);
    let faults = page_faults();
    let times = evaluate(RUNS);
    let faults = (page_faults() - faults) / u64::try_from(RUNS).unwrap();
    let after = memory().saturating_sub(before);
    // Its memory at the end, with that of the host for it.
    let policy = set.policies().first().unwrap();
    let call = policy.module.describe(Budget::of(policy.limits)).work.memory;
    drop(set);
    let (served, repeated) = measure_server(component, cache.path(), &body);
    println!(
        "| {} | {} | {} | {} | {} | {faults} | {repeated} | {} KiB | {loaded} KiB | {after} KiB |",
        bytes(size),
        millis(cold),
        millis(cached),
        percentiles(times),
        percentiles(served),
        call >> 10,
    );
}

fn evaluate(runtime: &Runtime, set: &PolicySet, body: &str, runs: usize) -> Vec<Duration> {
    let run = |_| {
        let body = body.to_owned().into_bytes();
        let started = Instant::now();
        let text = review::text(body).unwrap();
        let review = Review::read(&text).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        let decision = runtime.block_on(set.decide(&review, None, deadline, &())).unwrap();
        assert!(decision.policy_errors.is_empty() && decision.denial.is_none(), "{decision:?}");
        started.elapsed()
    };
    (0..runs).map(run).collect()
}

/// Times of requests over TLS, and how many of their calls ran twice.
fn measure_server(component: &Path, cache: &Path, body: &str) -> (Vec<Duration>, u64) {
    let certificates = Certificates::new();
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let set = {
        let _entered = runtime.enter();
        load(component, Some(cache.to_path_buf()))
    };
    let source = Source::Directory(certificates.directory.path().to_path_buf());
    let certificate = Arc::new(Reloader::new(source).unwrap());
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = Options { listen: loopback, ops_listen: loopback, ..Options::default() };
    let policy = set.policies().first().unwrap().clone();
    let server = runtime.block_on(Server::bind(options, set, certificate)).unwrap();
    let address = server.local_addr();
    let (_reload, told) = watch::channel(());
    runtime.spawn(server.run(std::future::pending(), told));
    let clients = Builder::new_current_thread().enable_all().build().unwrap();
    let times = clients.block_on(async {
        let mut client = Client::connect(address, &certificates.authority).await.unwrap();
        let mut times = Vec::with_capacity(RUNS);
        for run in 0..WARMUP_RUNS + RUNS {
            let started = Instant::now();
            let answer = client.review(body.to_owned()).await.unwrap();
            assert_eq!(answer.response()["allowed"], true, "{}", answer.body);
            if run >= WARMUP_RUNS {
                times.push(started.elapsed());
            }
        }
        times
    });
    (times, policy.dispatcher.repeated_calls())
}

/// Kibibytes that the process has, without pages of files.
fn memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    of("RssAnon:") + of("RssShmem:")
}

fn page_faults() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    after_name.split_whitespace().nth(7).unwrap().parse().unwrap()
}

fn bytes(size: u64) -> String {
    if size < 1 << 20 { format!("{} KiB", size >> 10) } else { format!("{} MiB", size >> 20) }
}

fn millis(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1e3)
}

fn percentiles(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    format!("{:.0} µs, {:.0} µs", at(50), at(99))
}
