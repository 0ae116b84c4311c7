//! What a recording costs the server, and that its decisions are repeated:
//! `cargo bench -p opgate-tests --bench recording`
//!
//! Two servers, one with `--record`, get the same reviews in turns. Then `opgate replay --verify-recorded` decides the
//! reviews of the recording again.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::json;
use testkit::Server;
use testkit::compared_load::{Pace, compare, mixed_reviews};
use testkit::reviews::{GOOSE_API, group, namespace};
use tokio::runtime::{Builder, Runtime};

const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");
/// All built-in policies with their default settings.
const ALL_POLICIES: &str = "{apiVersion: opgate.dev/v1alpha1, kind: Configuration}";

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
    let (plain, reviews) = (start(None), mixed_reviews("a"));
    for pace in [Pace::Even, Pace::Unlimited] {
        let recording = directory.path().join(format!("recording-{pace:?}"));
        let mut server = start(Some(&recording));
        let servers = [("without recording", &plain), ("with recording", &server)];
        compare(&clients, &servers, &reviews, pace);
        counts(&clients, &server);
        server.signal(rustix::process::Signal::TERM);
        server.wait();
        let files = std::fs::read_dir(&recording).unwrap();
        let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        println!("  files: {:.1} MB", bytes as f64 / 1e6);
        if pace == Pace::Even {
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
