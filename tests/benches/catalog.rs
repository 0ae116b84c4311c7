//! Measures `opgate check` over a large catalog, and plain deserialisation of the same files:
//! `cargo bench -p opgate-tests --bench catalog`
//!
//! The benchmark writes the catalogs of `testkit::catalog` to a temporary directory. The baseline
//! reads the same files on all processors. It deserialises them with the same parsers into
//! `serde_json::Value`, one file after the other, and keeps none. The benchmark measures wall time
//! and CPU time: on a busy machine only CPU time is meaningful.
//!
//! `-- large tiny` measures only the catalogs `large` and `tiny`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::catalog::{CatalogFormat, Shape, write};

const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");
const ROUNDS: usize = 5;

/// Seconds: of the clock, and of the processors.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct ElapsedTime {
    wall: f64,
    cpu: f64,
}

/// What this process and those that it waited for had of the processors so far, in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks =
        fields.split_whitespace().skip(11).take(4).map(|field| field.parse::<f64>().unwrap());
    ticks.sum::<f64>() / 100.0
}

fn measure<T>(work: impl FnOnce() -> T) -> (ElapsedTime, T) {
    let (started, before) = (Instant::now(), cpu_seconds());
    let result = work();
    let clock = started.elapsed().as_secs_f64();
    (ElapsedTime { wall: clock, cpu: cpu_seconds() - before }, result)
}

/// Reads and deserialises all files on all processors.
fn deserialise(files: &[PathBuf], form: CatalogFormat, blobs: usize) {
    let (next, all) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let text = std::fs::read_to_string(path).unwrap();
                    let count = match form {
                        CatalogFormat::Yaml => serde_saphyr::from_multiple_with_options::<Value>(
                            &text,
                            unlimited_options(),
                        )
                        .unwrap()
                        .len(),
                        CatalogFormat::Json => {
                            let values = serde_json::Deserializer::from_str(&text);
                            values.into_iter::<Value>().map(Result::unwrap).count()
                        }
                    };
                    all.fetch_add(count, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(all.into_inner(), blobs);
}

/// The parser's own bounds are for small files.
fn unlimited_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
        },
    }
}

/// Runs `opgate check`; gives the largest memory that was seen, in MiB.
fn check(directory: &Path) -> f64 {
    let mut child = Command::new(BINARY)
        .args(["check", "--input-type", "catalog", "--output", "jsonl"])
        .arg(directory)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0.0f64;
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with("VmHWM"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
        most = most.max(kib.unwrap_or_default() / 1_024.0);
        if let Some(ended) = child.try_wait().unwrap() {
            assert!(ended.success(), "{ended}");
            return most;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn catalogs() {
    println!(
        "| catalog | form | on disk | opgate check | of the processors | deserialisation | of the processors | ratio | of the processors | memory at the most |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (name, shape) in Shape::NAMED_SHAPES.into_iter().filter(|(name, _)| is_selected(name)) {
        for form in [CatalogFormat::Json, CatalogFormat::Yaml] {
            catalog(name, &shape, form);
        }
    }
}

fn catalog(name: &str, shape: &Shape, form: CatalogFormat) {
    let directory = tempfile::tempdir().unwrap();
    let files = write(directory.path(), shape, form);
    let size: u64 = files.iter().map(|f| f.metadata().unwrap().len()).sum();
    let blobs = shape.packages * shape.blobs();
    let (mut checks, mut plain, mut most) = (Vec::new(), Vec::new(), 0.0f64);
    for _ in 0..ROUNDS {
        let (took, memory) = measure(|| check(directory.path()));
        checks.push(took);
        most = most.max(memory);
        plain.push(measure(|| deserialise(&files, form, blobs)).0);
    }
    let median = |all: &[ElapsedTime], of: fn(&ElapsedTime) -> f64| {
        let mut all: Vec<_> = all.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[ROUNDS / 2]
    };
    let of = |all: &[ElapsedTime]| (median(all, |t| t.wall), median(all, |t| t.cpu));
    let ((took, cpu), (plain, plain_cpu)) = (of(&checks), of(&plain));
    let (mb, ratio, cpu_ratio) = (size as f64 / 1e6, took / plain, cpu / plain_cpu);
    println!(
        "| {name} | {form:?} | {mb:.0} MB | {took:.2} s | {cpu:.2} s | {plain:.2} s | {plain_cpu:.2} s | {ratio:.2} | {cpu_ratio:.2} | {most:.0} MiB |"
    );
}

/// Whether the command line names it, or nothing at all. (`cargo bench` adds `--bench`.)
fn is_selected(part: &str) -> bool {
    let mut words = std::env::args().skip(1).filter(|a| !a.starts_with('-')).peekable();
    words.peek().is_none() || words.any(|word| word == part)
}

fn main() {
    catalogs();
}
