//! The policy `constraint-limits` over constraints of four sizes:
//! `cargo bench -p opgate-tests --bench constraint`
//!
//! A whole decision is timed: instance, call, verdict. Reading the review is not, because the API
//! server's object is read once for all policies.

use std::time::{Duration, Instant};

use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Source};
use opgate::policy::{Configuration, PolicySet, Profile};
use opgate::review::{self, Review};
use serde_json::json;

const RUNS: usize = 200;

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
    let configuration = Configuration::builtin(Profile::default(), BUILTINS);
    let set =
        PolicySet::load(&configuration, None, 64, ClusterOptions::of(Source::Absent)).unwrap();
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
            verdict = match (decided.policy_errors.first(), decided.denial) {
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
    constraints();
}
