//! What a server needs, by the size of its cluster and by the rate of calls: the tables of `docs/capacity.md`.
//! `cargo bench -p opgate-tests --bench capacity`; with `-- --quick` in a minute, with fewer rows.
//!
//! The real binary with all policies as they are by default. Its cluster is an API server on loopback; calls
//! come at a fixed rate over HTTP/1.1. CPU time and memory are those of its process, whatever else the machine
//! does; times of calls are not.

use std::time::{Duration, Instant};

use bytes::Bytes;
use opgate::builtin::BUILTINS;
use serde_json::json;
use testkit::fleet::load;
use testkit::large::{cluster, create, csv, new_group};
use testkit::webhook_client::{Endpoints, Protocol, WebhookClient};
use testkit::{SERVICE, Server, recorded_review};
use tokio::runtime::{Builder, Runtime};

const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");

/// Namespaces, OperatorGroups, CSVs.
const SIZES: [(usize, usize, usize); 5] = [
    (0, 0, 0),
    (1_000, 200, 500),
    (2_500, 500, 1_250),
    (5_000, 1_000, 2_500),
    (10_000, 2_000, 5_000),
];

/// Calls a second.
const CALL_RATES: [u32; 5] = [100, 500, 1_000, 2_000, 4_000];

/// The size of the cluster while calls are measured.
const MEASURED_SIZE: (usize, usize, usize) = (1_000, 200, 500);

const MIB: f64 = 1_048_576.0;

/// Seconds of CPU time of a process so far. `/proc` counts in hundredths of a second.
fn cpu_seconds(server: &Server) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks = |index: usize| fields[index].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

fn resident_mib(server: &Server, name: &str) -> f64 {
    server.memory(name) as f64 / MIB
}

/// All policies; an unoptimised build gets all the time that it needs.
fn configuration() -> String {
    let policy = |name: &str| {
        if cfg!(debug_assertions) {
            json!({"name": name, "limits": {"time": "20s"}})
        } else {
            json!({"name": name})
        }
    };
    let policies: Vec<_> = BUILTINS.iter().map(|builtin| policy(builtin.name)).collect();
    testkit::configuration(&policies)
}

async fn start(kubeconfig: &str) -> (Server, Duration) {
    let started = Instant::now();
    let configuration = configuration();
    let arguments = ["--kubeconfig", kubeconfig];
    let server = Server::start(BINARY, Some(&configuration), &arguments);
    while server.get("/readyz").await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (server, started.elapsed())
}

/// What a cluster takes.
fn measure_sizes(runtime: &Runtime, sizes: &[(usize, usize, usize)]) {
    println!(
        "| namespaces, OperatorGroups, CSVs of 30 KB | ready after | CPU time until then | memory | maximum |"
    );
    println!("|---|---|---|---|---|");
    for size in sizes {
        let cluster = cluster(*size);
        let kubeconfig = cluster.kubeconfig();
        let (server, ready) = runtime.block_on(start(kubeconfig.to_str().unwrap()));
        let (n, g, c) = size;
        println!(
            "| {n}, {g}, {c} | {:.1} s | {:.1} s | {:.0} MiB | {:.0} MiB |",
            ready.as_secs_f64(),
            cpu_seconds(&server),
            resident_mib(&server, "VmRSS"),
            resident_mib(&server, "VmHWM"),
        );
    }
}

/// What is asked, with its path.
fn calls() -> [(&'static str, String); 3] {
    let mut member = csv(7);
    member["metadata"]["name"] = json!("another.v1.0.0");
    let csv = create("ClusterServiceVersion", "clusterserviceversions", "v1alpha1", &member);
    [
        ("UPDATE of a Bundle, 4 KB", recorded_review("008")),
        ("CREATE of an OperatorGroup", new_group(&json!({"targetNamespaces": ["new"]}), "")),
        ("CREATE of a CSV, 30 KB", csv),
    ]
}

/// What calls take.
fn measure_rates(runtime: &Runtime, rates: &[u32], time: Duration) {
    println!(
        "| calls | a second | CPUs | CPU time of a call | p50 | p99 | not answered | memory |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let cluster = cluster(MEASURED_SIZE);
    let kubeconfig = cluster.kubeconfig();
    for (name, review) in calls() {
        // Dry runs reserve nothing: each call finds the same cluster.
        let review = Bytes::from(review.replace("\"dryRun\":false", "\"dryRun\":true"));
        let (server, _) = runtime.block_on(start(kubeconfig.to_str().unwrap()));
        for rate in rates {
            let endpoints = Endpoints::default();
            endpoints.add(server.address);
            let authority = (&server.certificates.authority, SERVICE);
            let timeout = Duration::from_secs(10);
            let caller = WebhookClient::new(Protocol::Http1, &endpoints, authority, timeout);
            let before = cpu_seconds(&server);
            let started = Instant::now();
            let during = async { tokio::time::sleep(time).await };
            let seen = runtime.block_on(load(caller, "/validate", review.clone(), *rate, during));
            let (spent, took) = (cpu_seconds(&server) - before, started.elapsed().as_secs_f64());
            let calls = seen.times.len() + seen.count_failed();
            println!(
                "| {name} | {rate} | {:.2} | {:.0} µs | {:.1} ms | {:.1} ms | {} of {calls} | {:.0} MiB |",
                spent / took,
                spent / calls as f64 * 1e6,
                seen.milliseconds(500),
                seen.milliseconds(990),
                seen.count_failed(),
                resident_mib(&server, "VmRSS"),
            );
        }
    }
}

fn main() {
    // `cargo test --benches` only wants to know that it starts.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let is_quick = std::env::args().any(|a| a == "--quick");
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    measure_sizes(&runtime, if is_quick { &SIZES[..2] } else { &SIZES });
    println!();
    let time = Duration::from_secs(if is_quick { 3 } else { 10 });
    measure_rates(&runtime, if is_quick { &CALL_RATES[..2] } else { &CALL_RATES }, time);
}
