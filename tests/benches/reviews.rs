//! Each recorded review in process, with all policies: `cargo bench -p opgate-tests --bench reviews`
//!
//! `-- DIRECTORY` takes the reviews of another directory. The cluster has what the reviews create.
//! Times are of whole decisions: opgate checks and indexes the text, reads the envelope, calls all
//! policies and writes the answer. The columns after them are the times of the policies that match.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, fs};

use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Snapshot, Source};
use opgate::policy::{Configuration, Policy, PolicySet, Profile, response};
use opgate::review::{self, Review};
use opgate_document::Document;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

const RUNS: usize = 3_000;
/// The goal for the median, in microseconds.
const GOAL_MICROSECONDS: f64 = 60.0;

/// What each policy takes.
struct CallTimes(parking_lot::Mutex<Vec<(String, Duration)>>);

impl opgate::evaluation::Observer for CallTimes {
    fn on_call(&self, policy: &Policy, took: Duration) {
        self.0.lock().push((policy.name.clone(), took));
    }
}

fn reviews() -> Vec<(String, String)> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/reviews");
    // Cargo itself adds `--bench`.
    let named = env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let directory = named.map_or_else(|| PathBuf::from(own), PathBuf::from);
    let mut paths: Vec<_> =
        fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    paths.iter().map(read).collect()
}

fn set(reviews: &[(String, String)]) -> PolicySet {
    let configuration = Configuration::builtin(Profile::default(), BUILTINS);
    let set =
        PolicySet::load(&configuration, None, 64, ClusterOptions::of(Source::Snapshot)).unwrap();
    let mut snapshot = Snapshot::default();
    for (_, text) in reviews {
        let review: Value = serde_json::from_str(text).unwrap();
        if review["request"]["operation"] == "CREATE" {
            let object = review["request"]["object"].to_string();
            // What is there already is enough.
            let _ = snapshot.add(Document::parse(&object).unwrap());
        }
    }
    snapshot.replace_state(set.cluster());
    set
}

fn decide(runtime: &Runtime, set: &PolicySet, body: Vec<u8>, calls: &CallTimes) -> usize {
    let text = review::text(body).unwrap();
    let review = Review::read(&text).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let decision = runtime.block_on(set.decide(&review, None, deadline, calls)).unwrap();
    assert!(decision.policy_errors.is_empty(), "{:?}", decision.policy_errors);
    response::body(&review, &decision).len()
}

fn median(mut times: Vec<Duration>, percent: usize) -> f64 {
    times.sort_unstable();
    times
        .get((times.len().saturating_sub(1)) * percent / 100)
        .map_or(0.0, |t| t.as_secs_f64() * 1e6)
}

fn main() {
    let reviews = reviews();
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let set = {
        let _entered = runtime.enter();
        set(&reviews)
    };
    println!("| review | bytes | p50 µs | p99 µs | of which policies, p50 µs |");
    println!("|---|---|---|---|---|");
    let mut slow = Vec::new();
    for (name, text) in &reviews {
        let mut times = Vec::with_capacity(RUNS);
        let mut by_policy: Vec<(String, Vec<Duration>)> = Vec::new();
        for _ in 0..RUNS {
            let calls = CallTimes(parking_lot::Mutex::default());
            let body = text.clone().into_bytes();
            let started = Instant::now();
            decide(&runtime, &set, body, &calls);
            times.push(started.elapsed());
            for (policy, took) in calls.0.into_inner() {
                match by_policy.iter_mut().find(|(known, _)| *known == policy) {
                    Some((_, times)) => times.push(took),
                    None => by_policy.push((policy, vec![took])),
                }
            }
        }
        let p50 = median(times.clone(), 50);
        let policies = by_policy.into_iter();
        let policies = policies.map(|(name, times)| format!("{name} {:.0}", median(times, 50)));
        let policies = policies.collect::<Vec<_>>().join(", ");
        println!("| {name} | {} | {p50:.0} | {:.0} | {policies} |", text.len(), median(times, 99));
        if p50 > GOAL_MICROSECONDS {
            slow.push(name.as_str());
        }
    }
    println!(
        "\n{} of {} reviews take more than {GOAL_MICROSECONDS} µs: {slow:?}",
        slow.len(),
        reviews.len()
    );
}
