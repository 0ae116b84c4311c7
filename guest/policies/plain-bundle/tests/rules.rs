//! The verdicts of the policy: the cases of its rules, and properties that no case can show.
#![expect(clippy::expect_used, reason = "tests may panic")]

use opgate_plain_bundle::POLICY;
use opgate_sdk::{Document, Operation, Request, RequestParts, Verdict};
use serde_json::{Value, json};

opgate_sdk_testing::tests!(POLICY);

fn evaluate(operation: Operation, bundle: &Value) -> Verdict {
    let request = Request::from(RequestParts { operation, ..RequestParts::default() });
    let bundle = Document::parse(&bundle.to_string()).expect("JSON");
    let settings = Document::parse("{}").expect("JSON");
    POLICY.validate(&request, 1, Some(&bundle), Some(&bundle), &settings)
}

#[test]
fn update_is_evaluated_like_create_and_delete_is_not() {
    let bundle = json!({"spec": {}});
    let created = evaluate(Operation::Create, &bundle);
    assert!(!created.violations.is_empty());
    assert_eq!(evaluate(Operation::Update, &bundle), created);
    assert!(evaluate(Operation::Delete, &bundle).violations.is_empty());
}

/// Very large or very deep input takes time in proportion to its size, and is reported in part.
#[test]
fn very_many_wrong_things_are_reported_in_part() {
    let many = 20_000;
    let mut files: Vec<_> =
        (0..many).map(|i| json!({"path": format!("manifests/{i}/x")})).collect();
    files.push(json!({"path": "manifests/x.yaml", "documents": vec![json!({}); many]}));
    files.extend((0..many).map(|i| json!({"path": format!("manifests/l{i}"), "error": {}})));
    let found = evaluate(Operation::Create, &json!({"spec": {"files": files}}));
    let count = |rule: &str| found.violations.iter().filter(|v| v.rule == rule).count();
    for rule in ["PBF-03", "PBF-04", "PBF-05"] {
        assert!(count(rule) >= 85, "{rule}: {}", count(rule));
    }

    let mut deep = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    for _ in 0..150 {
        deep = json!({"kind": "List", "items": [deep]});
    }
    let file = json!({"path": "manifests/x.yaml", "documents": [deep]});
    let found = evaluate(Operation::Create, &json!({"spec": {"files": [file]}}));
    assert!(found.violations.is_empty(), "{found:?}");
}
