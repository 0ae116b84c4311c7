//! What a recording costs the server, and that its decisions are repeated:
//! `cargo bench -p opgate-tests --bench recording`
//!
//! Two servers, one with `--record`, get the same reviews in turns. The CPU time is that of the server's process.
//! Then `opgate replay --verify-recorded` decides the reviews of the recording again.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::reviews::{GOOSE_API, WriteMode, create, group, namespace};
use testkit::{Server, csv, recorded_review};
use tokio::runtime::{Builder, Runtime};

const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");
/// All built-in policies with their default settings.
const ALL_POLICIES: &str = "{apiVersion: opgate.dev/v1alpha1, kind: Configuration}";
const ROUNDS: usize = 7;
const CONNECTIONS: usize = 16;
const PACED_PER_SECOND: usize = 2_000;
const PACED_REVIEWS: usize = 4_000;
const UNPACED_DURATION: Duration = Duration::from_secs(2);

/// Requests a second, and microseconds of each request, sorted.
struct LoadResult {
    rate: f64,
    times: Vec<u64>,
    cpu_micros_each: f64,
}

impl LoadResult {
    fn percentile(&self, permille: usize) -> f64 {
        self.times[(self.times.len() - 1) * permille / 1_000] as f64
    }
}

/// CPU time of a process so far, in microseconds.
fn cpu_micros(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks * 10_000.0
}

/// Sends reviews: this many, evenly over time, or without a number as many as the server answers.
fn drive_load(
    clients: &Runtime,
    server: &Server,
    reviews: &Arc<Vec<String>>,
    paced: Option<usize>,
) -> LoadResult {
    let (started, before) = (Instant::now(), cpu_micros(server.id()));
    let next = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let (reviews, next) = (reviews.clone(), next.clone());
            let mut client = clients.block_on(server.connect());
            clients.spawn(async move {
                let mut times = Vec::with_capacity(100_000);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if paced.is_some_and(|count| number >= count)
                        || paced.is_none() && started.elapsed() >= UNPACED_DURATION
                    {
                        return times;
                    }
                    if paced.is_some() {
                        let micros = 1_000_000 * number as u64 / PACED_PER_SECOND as u64;
                        let due = started + Duration::from_micros(micros);
                        tokio::time::sleep_until(due.into()).await;
                    }
                    let review = reviews[number % reviews.len()].clone();
                    let sent = Instant::now();
                    let answer =
                        client.post("/validate", "application/json", review).await.unwrap();
                    assert_eq!(answer.status, 200, "{}", answer.body);
                    times.push(u64::try_from(sent.elapsed().as_micros()).unwrap());
                }
            })
        })
        .collect();
    let mut times: Vec<u64> = Vec::new();
    for task in tasks {
        times.extend(clients.block_on(task).unwrap());
    }
    times.sort_unstable();
    let count = times.len() as f64;
    let cpu_micros_each = (cpu_micros(server.id()) - before) / count;
    LoadResult { rate: count / started.elapsed().as_secs_f64(), times, cpu_micros_each }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Three of four reviews are of small objects, the others of ClusterServiceVersions. A fourth reads the cluster.
fn reviews() -> Arc<Vec<String>> {
    let denied = group("a", "second", &["a"], GOOSE_API);
    let large = create(&csv::csv(csv::USUAL_SHAPE, "a"), WriteMode::DryRun);
    Arc::new(vec![
        create(&denied, WriteMode::DryRun),
        recorded_review("008"),
        recorded_review("007"),
        large,
    ])
}

fn measure(clients: &Runtime, plain: &Server, recording: &Server, paced: Option<usize>) {
    let reviews = reviews();
    let columns = |server: &Server| drive_load(clients, server, &reviews, paced);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (first, second) = (columns(plain), columns(recording));
        // The first round warms up.
        if round > 0 {
            without.push(first);
            with.push(second);
        }
    }
    let of = |results: &[LoadResult], what: fn(&LoadResult) -> f64| {
        median(results.iter().map(what).collect())
    };
    let load = paced.map_or("as many as possible".to_owned(), |_| format!("{PACED_PER_SECOND}/s"));
    println!("{load}:");
    for (name, results) in [("without recording", &without), ("with recording", &with)] {
        println!(
            "  {name}: {:.0}/s, p50 {:.0} us, p99 {:.0} us, CPU {:.1} us each",
            of(results, |result| result.rate),
            of(results, |result| result.percentile(500)),
            of(results, |result| result.percentile(990)),
            of(results, |result| result.cpu_micros_each),
        );
    }
    let ratio = |what: fn(&LoadResult) -> f64| {
        median(with.iter().zip(&without).map(|(one, other)| what(one) / what(other)).collect())
    };
    println!(
        "  ratio: rate {:.3}, CPU {:.3}",
        ratio(|result| result.rate),
        ratio(|result| result.cpu_micros_each)
    );
}

fn counts(clients: &Runtime, server: &Server) {
    for result in ["written", "dropped", "failed"] {
        let name = format!("opgate_recorded_reviews_total{{result=\"{result}\"}}");
        let count = clients.block_on(server.metric(&name)).unwrap_or_default();
        println!("  {result}: {count}");
    }
}

fn main() {
    // `cargo test --benches` only wants to know that it starts.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let clients = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state.json");
    let objects = [namespace("a"), group("a", "first", &["a"], GOOSE_API)];
    std::fs::write(
        &state,
        json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string(),
    )
    .unwrap();
    let state = state.to_str().unwrap();
    let start = |recording: Option<&Path>| {
        let mut arguments = vec!["--cluster-state", state, "--drain-delay", "0s"];
        arguments.extend(recording.iter().flat_map(|path| ["--record", path.to_str().unwrap()]));
        Server::start(BINARY, Some(ALL_POLICIES), &arguments)
    };
    let plain = start(None);
    for paced in [Some(PACED_REVIEWS), None] {
        let recording = directory.path().join(format!("recording-{}", paced.is_some()));
        let mut server = start(Some(&recording));
        measure(&clients, &plain, &server, paced);
        counts(&clients, &server);
        server.signal(rustix::process::Signal::TERM);
        server.wait();
        let files = std::fs::read_dir(&recording).unwrap();
        let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        println!("  files: {:.1} MB", bytes as f64 / 1e6);
        if paced.is_some() {
            verify(&recording);
        }
    }
}

/// Decides the reviews of a recording again.
fn verify(recording: &Path) {
    let started = Instant::now();
    let output = Command::new(BINARY).args(["replay", "--verify-recorded"]).arg(recording).output();
    let output = output.unwrap();
    let seconds = started.elapsed().as_secs_f64();
    println!("  replay: {seconds:.1} s, {}", String::from_utf8_lossy(&output.stderr).trim());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
