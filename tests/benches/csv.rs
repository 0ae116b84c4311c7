//! Decisions about ClusterServiceVersions, with all policies and with each one alone, in a cluster of
//! 10,000 namespaces: `cargo bench -p opgate-tests --bench csv`
//!
//! Times are of whole decisions in process: the envelope is read, all policies are called. The text is
//! checked and indexed before, once for all policies; the last line of each table has what it takes.
//! Instructions are those of user space, of guest and host together: `perf stat` runs this program
//! again in two lengths, so that start and end do not count. Without perf the column is empty.

use std::process::Command;
use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Snapshot, Source};
use opgate::policy::{Configuration, PolicySet, Profile};
use opgate::review::{self, Review};
use opgate_document::Document;
use serde_json::{Value, json};
use testkit::csv::{
    LARGE_SHAPE, Shape, USUAL_SHAPE, csv, with_description, with_label, with_status,
};
use tokio::runtime::Runtime;

const NAMESPACES: usize = 10_000;
const CSVS: usize = 300;
const HOME_NAMESPACE: &str = "namespace-7";
/// Marks the process that is counted, before policy, review and number of decisions.
const COUNTED_PROCESS_ARG: &str = "counted";

fn namespace(number: usize) -> Value {
    let name = format!("namespace-{number}");
    let labels = json!({
        "kubernetes.io/metadata.name": name,
        "team": format!("team-{}", number % 100),
        "pod-security.kubernetes.io/enforce": "restricted",
    });
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

/// Those of CSVs target their own namespace; that of the CSV under review targets all.
fn group(number: usize) -> Value {
    let namespace = format!("namespace-{number}");
    let is_home = namespace == HOME_NAMESPACE;
    let spec = if is_home { json!({}) } else { json!({"targetNamespaces": [namespace]}) };
    let targets = if is_home { json!([""]) } else { json!([namespace]) };
    json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "group", "namespace": namespace, "annotations": {
            "olm.providedAPIs": format!("Kind{number}.v1.group-{number}.example.com"),
        }},
        "spec": spec,
        "status": {"namespaces": targets},
    })
}

fn neighbour(number: usize) -> Value {
    let own = json!({
        "name": format!("kinds.group-{number}.example.com"), "version": "v1",
        "kind": format!("Kind{number}"),
    });
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("operator-{number}.v1.0.0"), "namespace": format!("namespace-{number}"),
        },
        "spec": {
            "version": "1.0.0",
            "installModes": [{"type": "OwnNamespace", "supported": true}],
            "customresourcedefinitions": {"owned": [own]},
        },
    })
}

fn set(runtime: &Runtime) -> PolicySet {
    let _entered = runtime.enter();
    let configuration = Configuration::builtin(Profile::default(), BUILTINS);
    let set =
        PolicySet::load(&configuration, None, 64, ClusterOptions::of(Source::Snapshot)).unwrap();
    let mut snapshot = Snapshot::default();
    let groups = (0..CSVS).map(group);
    let csvs = (0..CSVS).filter(|n| *n != 7).map(neighbour);
    for object in (0..NAMESPACES).map(namespace).chain(groups).chain(csvs) {
        snapshot.add(Document::parse(&object.to_string()).unwrap()).unwrap();
    }
    snapshot.replace_state(set.cluster());
    set
}

fn request(object: &Value, old: Option<&Value>) -> String {
    let group = "operators.coreos.com";
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": group, "version": "v1alpha1", "kind": "ClusterServiceVersion"},
            "resource": {"group": group, "version": "v1alpha1", "resource": "clusterserviceversions"},
            "name": object["metadata"]["name"], "namespace": HOME_NAMESPACE,
            "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
            "userInfo": {"username": "admin"},
            "object": object, "oldObject": old, "dryRun": false,
        },
    })
    .to_string()
}

/// What is decided, by name.
fn reviews(shape: Shape) -> Vec<(&'static str, String)> {
    let csv = csv(shape, HOME_NAMESPACE);
    vec![
        ("CREATE", request(&csv, None)),
        ("UPDATE of the status", request(&with_status(&csv), Some(&csv))),
        ("UPDATE of a label", request(&with_label(&csv), Some(&csv))),
        ("UPDATE of the description", request(&with_description(&csv), Some(&csv))),
    ]
}

/// The times of decisions, sorted, and the number of findings.
fn decide(
    runtime: &Runtime,
    set: &PolicySet,
    only: Option<&str>,
    json: &str,
    runs: usize,
) -> (Vec<Duration>, usize) {
    let text = review::text(json.as_bytes().to_vec()).unwrap();
    let mut times = Vec::with_capacity(runs);
    let mut findings = 0;
    for _ in 0..runs {
        let started = Instant::now();
        let review = Review::read(&text).unwrap();
        let deadline = started + Duration::from_secs(10);
        let decided = runtime.block_on(set.decide(&review, only, deadline, &())).unwrap();
        times.push(started.elapsed());
        assert!(decided.policy_errors.is_empty(), "{:?}", decided.policy_errors);
        assert!(decided.denial.is_none(), "{:?}", decided.denial);
        findings = decided.warnings.len();
    }
    times.sort_unstable();
    (times, findings)
}

/// Instructions of one decision, if perf counts them here.
fn instructions(policy: &str, size: &str, review: usize, runs: usize) -> Option<u64> {
    let count = |runs: usize| {
        let program = std::env::current_exe().ok()?;
        let perf = Command::new("perf")
            .args(["stat", "-x", ",", "-e", "instructions:u", "--"])
            .arg(program)
            .args([COUNTED_PROCESS_ARG, policy, size, &review.to_string(), &runs.to_string()])
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&perf.stderr).into_owned();
        let line = text.lines().find(|line| line.contains("instructions"))?;
        line.split(',').next()?.parse::<u64>().ok()
    };
    Some(count(runs * 3)?.saturating_sub(count(runs)?) / (runs as u64 * 2))
}

fn shape(size: &str) -> (Shape, usize) {
    if size == "30KB" { (USUAL_SHAPE, 2_000) } else { (LARGE_SHAPE, 60) }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = Runtime::new().unwrap();
    let set = set(&runtime);
    let only = |policy: &str| (policy != "all").then(|| policy.to_owned());
    if let [_, mark, policy, size, review, runs] = &arguments[..]
        && mark == COUNTED_PROCESS_ARG
    {
        let (_, json) = reviews(shape(size).0).swap_remove(review.parse().unwrap());
        decide(&runtime, &set, only(policy).as_deref(), &json, runs.parse().unwrap());
        return;
    }
    let policies = std::iter::once("all").chain(BUILTINS.iter().map(|policy| policy.name));
    for size in ["30KB", "1MB"] {
        let (shape, runs) = shape(size);
        println!("\nCSV of {} KB", csv(shape, HOME_NAMESPACE).to_string().len() / 1_000);
        for (number, (name, json)) in reviews(shape).iter().enumerate() {
            println!("\n| {name} | p50 µs | p99 µs | findings | 1,000 instructions |");
            println!("|---|---|---|---|---|");
            for policy in policies.clone() {
                let (times, findings) = decide(&runtime, &set, only(policy).as_deref(), json, runs);
                let at = |percent: usize| times[(runs - 1) * percent / 100].as_secs_f64() * 1e6;
                let counted = instructions(policy, size, number, runs / 3);
                let counted = counted.map_or_else(String::new, |n| (n / 1_000).to_string());
                let (p50, p99) = (at(50), at(99));
                println!("| {policy} | {p50:.0} | {p99:.0} | {findings} | {counted} |");
            }
            let mut texts: Vec<_> = (0..runs)
                .map(|_| {
                    let bytes = json.as_bytes().to_vec();
                    let started = Instant::now();
                    drop(review::text(bytes).unwrap());
                    started.elapsed()
                })
                .collect();
            texts.sort_unstable();
            let p50 = texts[runs / 2].as_secs_f64() * 1e6;
            println!("| the text, before all policies | {p50:.0} | | | |");
        }
    }
}
