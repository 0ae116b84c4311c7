//! A client that writes all the while: it creates, changes and deletes objects that webhooks match.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::cluster::TestCluster;

/// Between two writes.
const WRITE_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
struct WriterState {
    stop: AtomicBool,
    /// The API server itself is away, or a replica was killed in the middle of a call: writes may fail.
    tolerates_failures: AtomicBool,
    written: AtomicUsize,
    tolerated: AtomicUsize,
    step: Mutex<String>,
    failures: Mutex<Vec<String>>,
    /// How long each write took, and in which step it was.
    times: Mutex<Vec<(Duration, String)>>,
}

/// The client.
pub(crate) struct Writer {
    /// Of its cluster, in each line that it prints.
    name: String,
    state: Arc<WriterState>,
    task: JoinHandle<()>,
}

/// A Bundle, with a spec that breaks no rule.
pub(crate) fn bundle(name: &str, label: &str) -> Value {
    json!({
        "apiVersion": "core.rukpak.io/v1alpha1",
        "kind": "Bundle",
        "metadata": {"name": name, "labels": {"written": label}},
        "spec": {
            "provisionerClassName": "core-rukpak-io-plain",
            "source": {"type": "image", "image": {"ref": "my-bundle@sha256:xyz123"}},
        },
    })
}

impl Writer {
    /// Begins.
    pub(crate) fn start(name: String, cluster: &Arc<TestCluster>) -> Self {
        let state = Arc::new(WriterState::default());
        let (cluster, kept) = (cluster.clone(), state.clone());
        let task = tokio::spawn(async move {
            let mut number = 0;
            while !kept.stop.load(Ordering::Relaxed) {
                number += 1;
                let name = format!("written-{number}");
                for (operation, label) in [("CREATE", "once"), ("UPDATE", "twice"), ("DELETE", "")]
                {
                    let started = Instant::now();
                    let forgives = kept.tolerates_failures.load(Ordering::Relaxed);
                    let done = cluster.write(operation, &bundle(&name, label)).await;
                    kept.record(operation, done, started.elapsed(), forgives);
                    tokio::time::sleep(WRITE_INTERVAL).await;
                }
            }
        });
        Self { name, state, task }
    }

    /// What happens now.
    pub(crate) fn set_step(&self, step: &str) {
        println!("{}: {step} ({} writes so far)", self.name, self.written());
        step.clone_into(&mut self.state.step.lock().unwrap());
    }

    /// Whether writes may fail from now on.
    pub(crate) fn set_tolerates_failures(&self, forgives: bool) {
        self.state.tolerates_failures.store(forgives, Ordering::Relaxed);
    }

    /// How many writes have succeeded.
    pub(crate) fn written(&self) -> usize {
        self.state.written.load(Ordering::Relaxed)
    }

    /// What failed so far.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.state.failures.lock().unwrap().clone()
    }

    /// Ends; prints figures, and gives what failed.
    pub(crate) async fn end(self) -> Vec<String> {
        self.state.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
        let mut times = self.state.times.lock().unwrap().clone();
        times.sort();
        let at = |permille: usize| {
            let time = times.get(times.len().saturating_sub(1) * permille / 1_000);
            time.map_or(0, |(time, _)| time.as_millis())
        };
        println!(
            "{}: {} writes, {} failed, {} failed while a replica was killed or the API server was away; p50 {} ms, p99 {} ms",
            self.name,
            self.state.written.load(Ordering::Relaxed),
            self.state.failures.lock().unwrap().len(),
            self.state.tolerated.load(Ordering::Relaxed),
            at(500),
            at(990),
        );
        for (time, step) in times.iter().rev().take(5) {
            println!("{}: {} ms: {step}", self.name, time.as_millis());
        }
        self.state.failures.lock().unwrap().clone()
    }
}

impl WriterState {
    fn record(&self, operation: &str, done: Result<(), String>, took: Duration, forgave: bool) {
        let forgives = forgave || self.tolerates_failures.load(Ordering::Relaxed);
        match done {
            Ok(()) => {
                self.written.fetch_add(1, Ordering::Relaxed);
                if !forgives {
                    let step = format!("{operation}, {}", self.step.lock().unwrap());
                    self.times.lock().unwrap().push((took, step));
                }
            }
            Err(_) if forgives => {
                self.tolerated.fetch_add(1, Ordering::Relaxed);
            }
            // An earlier create or delete failed because a server was away, and this write depends
            // on it.
            Err(why) if why.contains("not found") || why.contains("already exists") => {}
            Err(why) => {
                let step = self.step.lock().unwrap().clone();
                self.failures.lock().unwrap().push(format!("{step}: {operation}: {why}"));
            }
        }
    }
}
