//! Time, CPU time and memory of audits of a generated cluster, and reviews during one:
//! `cargo bench -p opgate-tests --bench audit`
//!
//! `OPGATE_AUDIT_OBJECTS` is the number of objects, 100,000 without it. The API server is a stand-in in this
//! process that sends prepared pages. Each audit must find the violations that were planted, and nothing else.
//! CPU time and memory are those of opgate's process.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::Server;
use testkit::audited_cluster::AuditedCluster;
use testkit::compared_load::{Load, drive_load, mixed_reviews};
use tokio::runtime::{Builder, Runtime};

const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");
/// All built-in policies with their default settings.
const CONFIGURATION: &str =
    "{apiVersion: opgate.dev/v1alpha1, kind: Configuration, profile: upstream}";
const COMPLETE: &str = "opgate_audit_runs_total{result=\"complete\"}";
const DURATION: &str = "opgate_audit_last_run_duration_seconds";
const REVIEWS_PER_SECOND: usize = 500;
const LOAD: Load = Load {
    connections: 8,
    per_second: Some(REVIEWS_PER_SECOND),
    duration: Duration::from_secs(20),
};

/// CPU seconds of a process so far, with those of its ended children.
fn cpu_seconds(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<f64> =
        stat.rsplit(')').next()?.split_whitespace().filter_map(|text| text.parse().ok()).collect();
    // Without the state, a letter: utime, stime, cutime, cstime.
    Some(fields.get(10..14)?.iter().sum::<f64>() / 100.0)
}

/// Maximum resident memory of a process so far, in MiB.
fn peak_mib(process: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim_end_matches("kB").trim().parse::<f64>().ok()? / 1_024.0)
}

/// Violations in the output.
fn found(output: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in output.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        assert!(record["error"].is_null(), "{record}");
        let text = |name: &str| record[name].as_str().unwrap();
        for violation in record["violations"].as_array().unwrap() {
            let rule = violation["rule"].as_str().unwrap();
            found.insert(format!("{} {}/{} {rule}", text("kind"), text("namespace"), text("name")));
        }
    }
    found
}

/// Runs `opgate audit`, and prints its figures.
fn audit(cluster: &AuditedCluster, title: &str, arguments: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("opgate.yaml"), CONFIGURATION).unwrap();
    let started = Instant::now();
    let mut child = Command::new(BINARY)
        .args(["audit", "--config", "opgate.yaml", "--kubeconfig"])
        .arg(cluster.api_server.kubeconfig())
        .args(arguments)
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (mut output, mut errors) = (String::new(), String::new());
    let (mut cpu, mut peak) = (0.0, 0.0);
    let status = std::thread::scope(|scope| {
        scope.spawn(|| out.read_to_string(&mut output));
        scope.spawn(|| err.read_to_string(&mut errors));
        loop {
            cpu = cpu_seconds(child.id()).unwrap_or(cpu);
            peak = peak_mib(child.id()).unwrap_or(peak);
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let seconds = started.elapsed().as_secs_f64();
    println!("{title}: {seconds:.1} s, CPU {cpu:.1} s, {peak:.0} MiB");
    assert!(status.success(), "{errors}");
    for line in errors.lines().filter(|line| line.starts_with("reports:")) {
        println!("  {line}");
    }
    if arguments.contains(&"jsonl") {
        check(cluster, &found(&output));
    }
}

fn check(cluster: &AuditedCluster, found: &BTreeSet<String>) {
    let of = |left: &BTreeSet<String>, right: &BTreeSet<String>| {
        left.difference(right).take(5).cloned().collect::<Vec<_>>()
    };
    let missing = of(&cluster.violations, found);
    let unexpected = of(found, &cluster.violations);
    assert!(
        missing.is_empty() && unexpected.is_empty(),
        "missing {missing:?}, unexpected {unexpected:?}"
    );
    println!("  found the {} planted violations, and nothing else", found.len());
}

fn serve(cluster: &AuditedCluster, more: &[&str]) -> Server {
    let kubeconfig = cluster.api_server.kubeconfig();
    let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().unwrap(), "--drain-delay", "0s"];
    arguments.extend(["--installation", "opgate-system/opgate", "--pod-name", "a"]);
    arguments.extend(more);
    Server::start(BINARY, Some(CONFIGURATION), &arguments)
}

/// Waits for the end of the next audit.
fn wait_audit(clients: &Runtime, server: &Server, before: f64) {
    while clients.block_on(server.metric(COMPLETE)).unwrap_or_default() <= before {
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Three audits by a server: of all objects, and twice when nothing has changed.
fn leader(clients: &Runtime, cluster: &AuditedCluster) {
    let server = serve(cluster, &["--audit-interval", "10s"]);
    for (number, title) in [(0.0, "first"), (1.0, "second"), (2.0, "third")] {
        let requests = cluster.api_server.requests().len();
        let cpu = cpu_seconds(server.id()).unwrap();
        wait_audit(clients, &server, number);
        let cpu = cpu_seconds(server.id()).unwrap() - cpu;
        let requests = cluster.api_server.requests().len() - requests;
        let seconds = clients.block_on(server.metric(DURATION)).unwrap();
        let mib = server.memory("VmHWM") >> 20;
        println!(
            "leader, {title} audit: {seconds:.1} s, CPU {cpu:.1} s, {mib} MiB, {requests} requests"
        );
        let objects = clients.block_on(server.metric("opgate_audit_objects")).unwrap();
        let (_, metrics) = clients.block_on(server.get("/metrics"));
        let violations: usize = metrics
            .lines()
            .filter(|line| line.starts_with("opgate_audit_violations{"))
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<usize>().unwrap())
            .sum();
        println!("  {objects} objects, {violations} violations");
        assert_eq!(violations, cluster.violations.len());
    }
}

/// Reviews with and without an audit at the same time, in turns.
fn reviews(clients: &Runtime, cluster: &AuditedCluster) {
    for (title, more) in [
        ("without an audit", &[][..]),
        ("during an audit", &["--audit-interval", "1s"]),
        ("without an audit", &[]),
        ("during an audit", &["--audit-interval", "1s"]),
    ] {
        let server = serve(cluster, more);
        let before = cluster.api_server.requests().len();
        // The first request of an audit.
        let has_begun = || {
            cluster.api_server.requests().split_off(before).iter().any(|line| line == "GET /apis")
        };
        while !more.is_empty() && !has_begun() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let result = drive_load(clients, &server, &mixed_reviews("team-1"), LOAD);
        let audits = clients.block_on(server.metric(COMPLETE)).unwrap_or_default();
        // The progress of an audit that has not ended; the first audit of a leader needs all of them.
        let requests = cluster.api_server.requests().len() - before;
        println!(
            "reviews {title}: {REVIEWS_PER_SECOND}/s, p50 {:.0} us, p99 {:.0} us; \
             {audits} audits ended and {requests} requests sent to the API server meanwhile",
            result.percentile(500),
            result.percentile(990),
        );
    }
}

fn main() {
    // `cargo test --benches` only wants to know that it starts.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let objects =
        std::env::var("OPGATE_AUDIT_OBJECTS").map_or(100_000, |text| text.parse().unwrap());
    let cluster = AuditedCluster::start(objects);
    println!("{} objects, {} violations", cluster.objects, cluster.violations.len());
    let output = ["-o", "jsonl"];
    audit(&cluster, "audit --no-reports", &[&output[..], &["--no-reports"]].concat());
    audit(&cluster, "audit --no-reports, table", &["--no-reports"]);
    audit(&cluster, "audit that writes reports", &output);
    audit(&cluster, "audit with the same reports", &output);
    let clients = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    leader(&clients, &cluster);
    reviews(&clients, &cluster);
}
