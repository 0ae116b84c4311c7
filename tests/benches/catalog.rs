//! `opgate check` over a large catalog, beside plain deserialisation of the same files, and the policy
//! `constraint-limits` over large constraints: `cargo bench -p opgate-tests --bench catalog`
//!
//! The catalog has 5,000 bundles in 250 packages and some 100 MB, once as JSON and once as YAML. It
//! is made in a temporary folder. The baseline reads and deserialises the same files on all
//! processors, and keeps nothing.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "a benchmark"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use opgate::cluster::{Options, Source};
use opgate::policy::{Configuration, Profile, Set};
use opgate::review::{self, Review};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");
const PACKAGES: usize = 250;
const BUNDLES: usize = 20;
const ROUNDS: usize = 3;
const RUNS: usize = 100;

fn blobs(package: usize) -> Vec<Value> {
    let name = format!("operator-{package}");
    let bundle = |number: usize| format!("{name}.v1.{number}.0");
    let entry = |number: usize| match number {
        0 => json!({"name": bundle(0)}),
        _ => json!({
            "name": bundle(number),
            "replaces": bundle(number - 1),
            "skipRange": format!(">=1.0.0 <1.{number}.0"),
        }),
    };
    let entries: Vec<_> = (0..BUNDLES).map(entry).collect();
    let mut blobs = vec![
        json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": entries}),
    ];
    blobs.extend((0..BUNDLES).map(|number| {
        let image = format!("quay.io/example/{name}@sha256:{:064x}", package * BUNDLES + number);
        json!({
            "schema": "olm.bundle",
            "package": name,
            "name": bundle(number),
            "image": image,
            "properties": [
                {"type": "olm.package", "value": {"packageName": name, "version": format!("1.{number}.0")}},
                {"type": "olm.gvk", "value": {"group": format!("{name}.example.com"), "version": "v1", "kind": "Thing"}},
                {"type": "olm.csv.metadata", "value": {
                    "displayName": name,
                    "description": "what the Operator does, at length. ".repeat(560),
                }},
            ],
            "relatedImages": [{"name": "operator", "image": image}],
        })
    }));
    blobs
}

/// A list of scalars, objects and lists as YAML that a tool would write.
fn yaml(value: &Value, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match member {
                    Value::Object(_) | Value::Array(_) => {
                        let _ = writeln!(out, "{pad}{key}:");
                        yaml(member, indent + 2, out);
                    }
                    scalar => {
                        let _ = writeln!(out, "{pad}{key}: {scalar}");
                    }
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                let mut inner = String::new();
                yaml(item, indent + 2, &mut inner);
                let _ = write!(out, "{pad}- {}", inner.trim_start());
            }
        }
        scalar => {
            let _ = writeln!(out, "{pad}{scalar}");
        }
    }
}

fn write(folder: &Path, as_yaml: bool) -> Vec<PathBuf> {
    let file = |package: usize| {
        let folder = folder.join(format!("operator-{package}"));
        std::fs::create_dir_all(&folder).unwrap();
        let mut text = String::new();
        for blob in blobs(package) {
            if as_yaml {
                text.push_str("---\n");
                yaml(&blob, 0, &mut text);
            } else {
                let _ = writeln!(text, "{blob:#}");
            }
        }
        let path = folder.join(if as_yaml { "catalog.yaml" } else { "catalog.json" });
        std::fs::write(&path, text).unwrap();
        path
    };
    (0..PACKAGES).map(file).collect()
}

/// Reads and deserialises all files on all processors.
fn deserialise(files: &[PathBuf], as_yaml: bool) -> Duration {
    let started = Instant::now();
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let text = std::fs::read_to_string(path).unwrap();
                    let count = if as_yaml {
                        serde_saphyr::from_multiple::<Value>(&text).unwrap().len()
                    } else {
                        let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
                        values.map(Result::unwrap).count()
                    };
                    assert_eq!(count, BUNDLES + 2);
                }
            });
        }
    });
    started.elapsed()
}

/// Runs `opgate check`: how long it took, and the largest memory that was seen, in MiB.
fn check(folder: &Path) -> (Duration, f64) {
    let started = Instant::now();
    let mut child = Command::new(BINARY)
        .args(["check", "--as", "catalog", "--output", "jsonl"])
        .arg(folder)
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
            return (started.elapsed(), most);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn catalogs() {
    println!("| form | on disk | opgate check | deserialisation | ratio | memory at the most |");
    println!("|---|---|---|---|---|---|");
    for (form, as_yaml) in [("JSON", false), ("YAML", true)] {
        let folder = tempfile::tempdir().unwrap();
        let files = write(folder.path(), as_yaml);
        let size: u64 = files.iter().map(|f| f.metadata().unwrap().len()).sum();
        let mut rounds: Vec<_> =
            (0..ROUNDS).map(|_| (check(folder.path()), deserialise(&files, as_yaml))).collect();
        rounds.sort_by_key(|((took, _), _)| *took);
        let ((took, memory), _) = rounds[ROUNDS / 2];
        rounds.sort_by_key(|(_, plain)| *plain);
        let (_, plain) = rounds[ROUNDS / 2];
        let (took, plain) = (took.as_secs_f64(), plain.as_secs_f64());
        let mb = size as f64 / 1e6;
        let ratio = took / plain;
        println!(
            "| {form} | {mb:.0} MB | {took:.2} s | {plain:.2} s | {ratio:.2} | {memory:.0} MiB |"
        );
    }
}

fn constraint(bytes: usize) -> String {
    let part = r#"{"package":{"packageName":"etcd","versionRange":">=1.0.0 <2.0.0"}}"#;
    let parts = vec![part; (bytes - 80) / (part.len() + 1)].join(",");
    let value = format!(r#"{{"failureMessage":"none","all":{{"constraints":[{parts}]}}}}"#);
    let properties = format!(r#"{{"properties":[{{"type":"olm.constraint","value":{value}}}]}}"#);
    let object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": "c",
            "namespace": "n",
            "annotations": {"operatorframework.io/properties": properties},
        },
        "spec": {},
    });
    let group = "operators.coreos.com";
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": group, "version": "v1alpha1", "kind": "ClusterServiceVersion"},
            "resource": {"group": group, "version": "v1alpha1", "resource": "clusterserviceversions"},
            "name": "c", "namespace": "n", "operation": "CREATE",
            "userInfo": {"username": "admin"}, "object": object, "oldObject": null,
        },
    })
    .to_string()
}

fn constraints() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let configuration = Configuration::builtin(Profile::default());
    let set = Set::load(&configuration, None, 64, Options::of(Source::Absent)).unwrap();
    println!("\n| constraint in a CSV | whole decision, p50 | p99 | |");
    println!("|---|---|---|---|");
    for bytes in [1 << 10, 64 << 10, 200 << 10, 10 << 20] {
        let text = review::text(constraint(bytes).into_bytes()).unwrap();
        let review = Review::read(&text).unwrap();
        let mut times = Vec::new();
        let mut verdict = String::new();
        for _ in 0..=RUNS {
            let started = Instant::now();
            let deadline = started + Duration::from_secs(10);
            let only = Some("constraint-limits");
            let decided = runtime.block_on(set.decide(&review, only, deadline, &())).unwrap();
            times.push(started.elapsed());
            verdict = match (decided.faults.first(), decided.denial) {
                (Some(fault), _) => fault.cause.clone(),
                (None, Some(_)) => "denied".to_owned(),
                (None, None) => "allowed".to_owned(),
            };
        }
        times.sort_unstable();
        let at = |percent: usize| times[RUNS * percent / 100].as_secs_f64() * 1e6;
        println!("| {bytes} bytes | {:.0} µs | {:.0} µs | {verdict} |", at(50), at(99));
    }
}

fn main() {
    catalogs();
    constraints();
}
