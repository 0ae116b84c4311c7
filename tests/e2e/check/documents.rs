//! What the documents print as working is not denied: every complete object in the examples of the
//! documents, in a cluster that has nothing else, with every policy at its default levels.
//!
//! `documents/<edition>.yaml` has the objects with their lines, `documents/findings.txt` what is said of
//! each, and `documents/denied.tsv` why the few that are denied do not work as they are printed.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs};

use serde_json::{Value, json};

use opgate::builtin::BUILTINS;
use opgate::cluster::{ClusterOptions, Source};
use opgate::policy::{Configuration, Effect, PolicySet, Profile};
use opgate::review::{self, Review};

const DIRECTORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/check/documents");
const EDITIONS: [&str; 3] = ["ocp-4.12", "ocp-4.15", "ocp-4.5"];

/// The request that creates an object.
fn create(object: &Value) -> Value {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let api = text("/apiVersion");
    let (group, version) = api.split_once('/').unwrap_or(("", api));
    let kind = text("/kind");
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": opgate_sdk_testing::plural(kind)},
        "name": text("/metadata/name"),
        "namespace": text("/metadata/namespace"),
        "operation": "CREATE",
        "userInfo": {"username": "admin"},
        "dryRun": true,
        "object": object,
    }})
}

/// The examples of an edition: line and object.
fn examples(edition: &str) -> Vec<(u64, Value)> {
    let path = Path::new(DIRECTORY).join(format!("{edition}.yaml"));
    let list = opgate_sdk_testing::yaml(&fs::read_to_string(&path).unwrap(), &path);
    let example = |entry: &Value| (entry["line"].as_u64().unwrap(), entry["object"].clone());
    list.as_array().unwrap().iter().map(example).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_working_examples_are_not_denied() {
    let configuration = Configuration::builtin(Profile::default(), BUILTINS);
    let set =
        PolicySet::load(&configuration, None, 64, ClusterOptions::of(Source::Absent)).unwrap();
    let mut found = String::new();
    let mut denied = BTreeSet::new();
    let mut count = 0;
    for edition in EDITIONS {
        for (line, object) in examples(edition) {
            count += 1;
            let text = review::text(create(&object).to_string().into_bytes()).unwrap();
            let review = Review::read(&text).unwrap();
            let deadline = Instant::now() + Duration::from_secs(60);
            let decision = set.decide(&review, None, deadline, &()).await.unwrap();
            assert!(
                decision.policy_errors.is_empty(),
                "{edition} line {line}: {:?}",
                decision.policy_errors
            );
            if decision.violations.is_empty() {
                continue;
            }
            let kind = object["kind"].as_str().unwrap_or_default();
            writeln!(found, "{edition}:{line} {kind}").unwrap();
            for violation in &decision.violations {
                let level = if violation.effect == Effect::Deny { "deny" } else { "warn" };
                let (rule, field) = (&violation.rule, &violation.field);
                if level == "deny" {
                    denied.insert((format!("{edition}:{line}"), rule.clone()));
                }
                writeln!(found, "    {level} {rule} {field}: {}", violation.message).unwrap();
            }
        }
    }
    assert!(count > 200, "{count}");
    let path = Path::new(DIRECTORY).join("findings.txt");
    if env::var_os("OPGATE_WRITE").is_some() {
        fs::write(&path, &found).unwrap();
    }
    let known = include_str!("documents/denied.tsv").lines().filter_map(|line| {
        let (example, rest) = line.split_once('\t')?;
        let (rule, why) = rest.split_once('\t')?;
        assert!(!why.is_empty(), "{line}");
        Some((example.to_owned(), rule.to_owned()))
    });
    assert_eq!(denied, known.collect(), "denied.tsv has the reasons");
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let expected: Vec<_> = expected.lines().collect();
    let found: Vec<_> = found.lines().collect();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(
            found, expected,
            "set OPGATE_WRITE=1 to write findings.txt, and read what changed"
        );
    }
    assert_eq!(found.len(), expected.len(), "set OPGATE_WRITE=1 to write findings.txt");
}
