//! The server under load over loopback TLS, compared with baselines:
//! `cargo bench -p opgate-tests --bench load`
//!
//! Clients and server share the machine's processors. Every figure and its baseline are measured in
//! turns in the same run, and the medians of the rounds are compared.

use std::hint::black_box;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::routing::post;
use opgate::builtin::BUILTINS;
use opgate::cluster;
use opgate::policy::{Configuration, PolicySet, response};
use opgate::review::{self, Review};
use opgate::server::{Options, Server};
use opgate_certs::{Reloader, Source};
use serde_json::json;
use testkit::{
    Certificates, Client, configuration, create_bundle, good_spec, misbehaves, recorded_review,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

const ROUNDS: usize = 7;
const ROUND_DURATION: Duration = Duration::from_secs(2);
const CONNECTIONS: usize = 16;

/// A server on separate threads.
struct RunningServer {
    address: SocketAddr,
    _runtime: Runtime,
    _reload: watch::Sender<()>,
}

/// What the native handler does with the text of a review before it allows the request.
type NativeStep = fn(&str);

/// A webhook without policies: it reads body and envelope, and allows the request.
fn native_router(step: NativeStep) -> Router {
    let allow = move |body: Body| async move {
        let bytes = to_bytes(body, 7 << 20).await.unwrap();
        let text = review::text(bytes.into()).unwrap();
        let review = Review::read(&text).unwrap();
        step(&text);
        let content_type = [("content-type", "application/json")];
        (content_type, response::allow(review.version, &review.uid))
    };
    Router::new().route("/validate", post(allow))
}

fn start(
    webhook_router: Option<Router>,
    certificates: &Certificates,
    policies: &[serde_json::Value],
) -> RunningServer {
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let text = configuration(policies);
    let configuration = Configuration::parse(Path::new("bench.yaml"), &text, BUILTINS).unwrap();
    let set = PolicySet::load(
        &configuration,
        None,
        64,
        cluster::ClusterOptions::of(cluster::Source::Absent),
    )
    .unwrap();
    let source = Source::Directory(certificates.directory.path().to_path_buf());
    let certificate = Arc::new(Reloader::new(source).unwrap());
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let options =
        Options { listen: loopback, ops_listen: loopback, webhook_router, ..Options::default() };
    let server = runtime.block_on(Server::bind(options, set, certificate)).unwrap();
    let address = server.local_addr();
    let (reload, told) = watch::channel(());
    runtime.spawn(server.run(std::future::pending(), told));
    RunningServer { address, _runtime: runtime, _reload: reload }
}

/// Requests a second, and microseconds of each request, sorted.
struct LoadResult {
    rate: f64,
    times: Vec<u64>,
}

impl LoadResult {
    fn percentile(&self, permille: usize) -> u64 {
        self.times[(self.times.len() - 1) * permille / 1_000]
    }
}

/// Every connection sends one request after the other for the whole round.
fn drive_load(
    clients: &Runtime,
    certificates: &Arc<Certificates>,
    address: SocketAddr,
    connections: usize,
    path: &'static str,
    body: &str,
) -> LoadResult {
    let started = Instant::now();
    let tasks: Vec<_> = (0..connections)
        .map(|_| {
            let (certificates, body) = (certificates.clone(), bytes::Bytes::from(body.to_owned()));
            clients.spawn(async move {
                let mut client = Client::connect(address, &certificates.authority).await.unwrap();
                let mut times = Vec::with_capacity(100_000);
                while started.elapsed() < ROUND_DURATION {
                    let sent = Instant::now();
                    let answer = client.post(path, "application/json", body.clone()).await.unwrap();
                    assert!(matches!(answer.status, 200 | 500 | 503), "{}", answer.body);
                    times.push(u64::try_from(sent.elapsed().as_micros()).unwrap());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(clients.block_on(task).unwrap());
    }
    times.sort_unstable();
    let count = u32::try_from(times.len()).unwrap();
    LoadResult { rate: f64::from(count) / started.elapsed().as_secs_f64(), times }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn measure_throughput(clients: &Runtime, certificates: &Arc<Certificates>) {
    let policies = [json!({"name": "bundle-immutability"})];
    let large = large_update();
    let none: NativeStep = |_| {};
    let parse: NativeStep =
        |review| drop(black_box(serde_json::from_str::<serde_json::Value>(review)));
    for (what, body, (baseline, step)) in [
        ("2 KB Bundle UPDATE, label", recorded_review("008"), ("Native", none)),
        ("2 KB Bundle UPDATE, tag (denied)", recorded_review("007"), ("Native", none)),
        ("1.6 MB CRD UPDATE", large, ("NativeParsed", parse)),
    ] {
        let server = start(None, certificates, &policies);
        let native = start(Some(native_router(step)), certificates, &policies);
        let (mut ratios, mut rates, mut natives, mut p50, mut p99) =
            (vec![], vec![], vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            let ours =
                drive_load(clients, certificates, server.address, CONNECTIONS, "/validate", &body);
            let theirs =
                drive_load(clients, certificates, native.address, CONNECTIONS, "/validate", &body);
            ratios.push(ours.rate / theirs.rate);
            p50.push(ours.percentile(500) as f64);
            p99.push(ours.percentile(990) as f64);
            rates.push(ours.rate);
            natives.push(theirs.rate);
        }
        println!(
            "{what}, {CONNECTIONS} connections: {:.0} requests/s (p50 {:.0} us, p99 {:.0} us); {baseline} {:.0} requests/s; ratio {:.2}",
            median(rates),
            median(p50),
            median(p99),
            median(natives),
            median(ratios)
        );
    }
}

/// A CRD with much schema, as old and new object: no policy matches it.
fn large_update() -> String {
    let mut review = create_bundle("u", "c.example.com", &json!({}));
    let resource = json!({"group": "apiextensions.k8s.io", "version": "v1", "resource": "customresourcedefinitions"});
    review["request"]["resource"] = resource;
    review["request"]["operation"] = "UPDATE".into();
    let property =
        json!({"type": "string", "description": "one of very many properties of a large schema"});
    let properties: serde_json::Map<_, _> =
        (0..8_500).map(|n| (format!("property{n}"), property.clone())).collect();
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": properties}});
    let object = json!({"metadata": {"name": "c.example.com"}, "spec": {"versions": [{"name": "v1", "schema": schema}]}});
    review["request"]["object"] = object.clone();
    review["request"]["oldObject"] = object;
    review.to_string()
}

/// p99 of a healthy policy alone, and while another one is asked without a pause and burns its
/// whole deadline on every request.
fn measure_neighbour(clients: &Runtime, certificates: &Arc<Certificates>) {
    let policies =
        [misbehaves("evil", &json!({"do": "spin"})), json!({"name": "bundle-immutability"})];
    let server = start(None, certificates, &policies);
    let path = "/validate/bundle-immutability";
    let spin = create_bundle("u", "b", &good_spec()).to_string();
    let (mut alone, mut contended, mut rate_alone, mut rate_beside) =
        (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let measured =
            drive_load(clients, certificates, server.address, 4, path, &recorded_review("008"));
        alone.push(measured.percentile(990) as f64);
        rate_alone.push(measured.rate);
        // The load on the slow policy has a separate thread: its clients mostly wait.
        std::thread::scope(|scope| {
            let burning = scope.spawn(|| {
                let others = Builder::new_current_thread().enable_all().build().unwrap();
                drive_load(&others, certificates, server.address, 8, "/validate/evil", &spin)
            });
            let measured =
                drive_load(clients, certificates, server.address, 4, path, &recorded_review("008"));
            contended.push(measured.percentile(990) as f64);
            rate_beside.push(measured.rate);
            burning.join().unwrap();
        });
    }
    let (alone, contended) = (median(alone), median(contended));
    println!(
        "healthy policy, 4 connections: p99 {alone:.0} us at {:.0} requests/s alone; p99 {contended:.0} us at {:.0} requests/s beside 8 connections to a policy that spins for 100 ms; ratio {:.2}",
        median(rate_alone),
        median(rate_beside),
        contended / alone
    );
}

/// The real binary: from start to ready, and its memory under load.
fn measure_process(clients: &Runtime, certificates: &Arc<Certificates>) {
    let mut ready = Vec::new();
    for round in 0..ROUNDS * 3 {
        let started = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_opgate-under-test"))
            .args([
                "--log-format",
                "json",
                "serve",
                "--cluster-source",
                "none",
                "--listen",
                "127.0.0.1:0",
                "--ops-listen",
                "127.0.0.1:0",
                "--tls-dir",
            ])
            .arg(certificates.directory.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let lines = std::io::BufRead::lines(std::io::BufReader::new(stderr));
        let lines = lines.map(|line| serde_json::from_str::<serde_json::Value>(&line.unwrap()));
        // The ops port answers before that: it reports which policies are being loaded.
        let line = lines.map(Result::unwrap).find(|line| line["address"].is_string()).unwrap();
        let ops = line["ops"].as_str().unwrap();
        let mut stream = std::net::TcpStream::connect(ops).unwrap();
        std::io::Write::write_all(&mut stream, b"GET /readyz HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        assert!(answer.contains("200 OK"), "{answer}");
        ready.push(started.elapsed().as_secs_f64() * 1e3);
        if round == 0 {
            let memory = |what: &str| {
                let status =
                    std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
                let line = status.lines().find(|l| l.starts_with(what)).unwrap();
                line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
            };
            let idle = memory("VmRSS");
            let address = line["address"].as_str().unwrap().parse().unwrap();
            for _ in 0..3 {
                drive_load(
                    clients,
                    certificates,
                    address,
                    CONNECTIONS,
                    "/validate",
                    &recorded_review("007"),
                );
            }
            println!(
                "resident memory: {idle:.1} MiB after start, {:.1} MiB after load ({:.1} MiB at most)",
                memory("VmRSS"),
                memory("VmHWM")
            );
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    println!(
        "from start to ready (GET /readyz answered): median {:.1} ms of {}",
        median(ready.clone()),
        ready.len()
    );
}

fn main() {
    // `cargo test --benches` only wants to know that it starts.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let clients = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let certificates = Arc::new(Certificates::new());
    measure_process(&clients, &certificates);
    measure_throughput(&clients, &certificates);
    measure_neighbour(&clients, &certificates);
}
