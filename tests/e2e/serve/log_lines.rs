//! The lines of the JSON log about a decision: their keys are those of `docs/operate/logs-and-denials.md`, which are
//! part of the stable interface.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use testkit::{
    Server, builtin_policy, configuration, create_bundle, good_spec, misbehaves, recorded_review,
    wait_until,
};

use crate::BINARY;

const DECIDED: &str = "review decided";
const FAILED: &str = "policy evaluation failed";

fn keys(line: &Value) -> BTreeSet<String> {
    line.as_object().unwrap().keys().cloned().collect()
}

/// The keys of the documented lines, by message.
fn documented_keys() -> BTreeMap<String, BTreeSet<String>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operate/logs-and-denials.md");
    let text = std::fs::read_to_string(page).unwrap();
    let examples = text.lines().map(str::trim).filter(|line| line.starts_with("{\"timestamp\""));
    let example = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        (line["message"].as_str().unwrap().to_owned(), keys(&line))
    };
    examples.map(example).collect()
}

/// What a server logs about one decision.
struct Case {
    name: &'static str,
    policy: Value,
    review: String,
    /// Message of the line.
    message: &'static str,
    /// Some of its values.
    expected: Value,
    /// Documented keys that it does not have.
    absent: &'static [&'static str],
}

fn cases() -> Vec<Case> {
    let mut warning_policy = builtin_policy();
    warning_policy["mode"] = "warn".into();
    let failing_review = || create_bundle("1", "b", &good_spec()).to_string();
    let failing_policy = || misbehaves("evil", &json!({"do": "panic"}));
    let failed = json!({"allowed": false, "failed": true, "rules": "", "level": "INFO"});
    vec![
        Case {
            name: "denial",
            policy: builtin_policy(),
            review: recorded_review("007"),
            message: DECIDED,
            expected: json!({"allowed": false, "failed": false, "rules": "RPK-01", "denial": "bundle.spec is immutable"}),
            absent: &[],
        },
        Case {
            name: "warning",
            policy: warning_policy,
            review: recorded_review("007"),
            message: DECIDED,
            expected: json!({"allowed": true, "failed": false, "rules": "RPK-01"}),
            absent: &["denial"],
        },
        Case {
            name: "failed call",
            policy: failing_policy(),
            review: failing_review(),
            message: DECIDED,
            expected: failed,
            absent: &["denial"],
        },
        Case {
            name: "policy error",
            policy: failing_policy(),
            review: failing_review(),
            message: FAILED,
            expected: json!({"level": "ERROR", "policy": "evil", "uid": "1"}),
            absent: &[],
        },
    ]
}

#[tokio::test]
async fn keys_of_a_decision_are_the_documented_ones() {
    let documented = documented_keys();
    assert_eq!(documented.keys().collect::<Vec<_>>(), [FAILED, DECIDED]);
    for Case { name, policy, review, message, expected, absent } in cases() {
        let server = Server::start(BINARY, Some(&configuration(&[policy])), &[]);
        let status = server.connect().await.review(review).await.unwrap().status;
        assert_eq!(status, if name.contains("fail") || name.contains("error") { 500 } else { 200 });
        let lines = || -> Vec<Value> {
            server.log().into_iter().filter(|line| line["message"] == message).collect()
        };
        wait_until(name, async || !lines().is_empty()).await;
        let lines = lines();
        assert_eq!(lines.len(), 1, "{name}: {lines:?}");
        let mut wanted = documented[message].clone();
        wanted.retain(|key| !absent.contains(&key.as_str()));
        assert_eq!(keys(&lines[0]), wanted, "{name}");
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(lines[0][key], *value, "{name}: {key}");
        }
    }
}
