//! The verdicts of the policy: the cases of its rules, and properties that no case can show.
#![expect(clippy::expect_used, reason = "tests may panic")]

use std::collections::BTreeSet;

use opgate_registry_bundle::POLICY;
use opgate_sdk::{Document, Operation, Request, RequestParts, Verdict};
use serde_json::{Map, Value, json};

opgate_sdk_testing::tests!(POLICY);

fn parsed(value: &Value) -> Document {
    Document::parse(&value.to_string()).expect("JSON")
}

fn evaluate(operation: Operation, bundle: &Value, settings: &Value) -> Verdict {
    let request = Request::from(RequestParts { operation, ..RequestParts::default() });
    let bundle = parsed(bundle);
    POLICY.validate(&request, 1, Some(&bundle), Some(&bundle), &parsed(settings))
}

#[test]
fn update_is_evaluated_like_create_and_delete_is_not() {
    let bundle = json!({"spec": {}});
    let ask = |operation| evaluate(operation, &bundle, &json!({}));
    let created = ask(Operation::Create);
    assert!(!created.violations.is_empty());
    assert_eq!(ask(Operation::Update), created);
    assert!(ask(Operation::Delete).violations.is_empty());
}

/// Fields are paths in the document, so that the host finds the line.
#[test]
fn fields_lead_to_files_of_the_document() {
    for case in opgate_sdk_testing::native::cases(&POLICY, DIRECTORY) {
        let document = case.object.as_ref().expect("an object");
        // Other objects are separate manifests.
        let Some(files) = document["spec"]["files"].as_array() else { continue };
        for violation in opgate_sdk_testing::native::verdict(&POLICY, &case).violations {
            let Some(rest) = violation.field.strip_prefix("spec.files[") else { continue };
            let index: usize = rest.split_once(']').expect("an index").0.parse().expect("a number");
            assert!(index < files.len(), "{}: {}", case.name, violation.field);
        }
    }
}

/// The registry reads a comment above `---` as a separate document. The host reports it.
#[test]
fn file_that_starts_with_an_empty_document_is_denied_once() {
    let annotations: Map<_, _> = ["mediatype", "manifests", "metadata", "package", "channels"]
        .into_iter()
        .map(|name| format!("operators.operatorframework.io.bundle.{name}.v1"))
        .map(|key| (key, json!("registry+v1")))
        .collect();
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "a.v1.0.0"}});
    let bundle = |is_empty: bool| {
        json!({"spec": {"files": [
            {"path": "manifests/a.yaml", "documents": [csv], "startsEmpty": is_empty},
            {"path": "metadata/a.yaml", "documents": [{"annotations": annotations}],
                "startsEmpty": is_empty},
        ]}})
    };
    assert_eq!(evaluate(Operation::Create, &bundle(false), &json!({})).violations, []);
    let found = evaluate(Operation::Create, &bundle(true), &json!({})).violations;
    let found: Vec<_> =
        found.iter().map(|v| (v.rule.as_str(), v.field.as_str(), v.message.as_str())).collect();
    assert_eq!(
        found,
        [
            (
                "RBF-02",
                "spec.files[1]",
                "Could not find annotations file: the first document is empty, and the registry reads no other one"
            ),
            (
                "RBF-12",
                "spec.files[0]",
                "manifests/a.yaml: cannot parse manifest: the first document is empty, and the registry reads no other one: remove the line --- before the object"
            ),
        ]
    );
}

#[test]
fn ids_can_be_put_before_messages() {
    let settings = json!({"messages": {"prefixRuleId": true}});
    let bundle = json!({"spec": {"directories": ["manifests"]}});
    let found = evaluate(Operation::Create, &bundle, &settings);
    let first = &found.violations.first().expect("a finding").message;
    assert!(first.starts_with("RBF-01: Unable to locate metadata directory"), "{first}");
}

/// RBF-26 needs no pointer to deny, but the host must know that the setting can make it deny.
#[test]
fn settings_that_change_a_rule_are_declared() {
    let rules = POLICY.describe().rules;
    let enabled = |id: &str| {
        let rule = rules.iter().find(|rule| rule.id == id).expect("a rule");
        rule.enabled_by.clone()
    };
    assert_eq!(enabled("RBF-26"), ["/bundle/k8sVersion"]);
    assert_eq!(enabled("RBF-27"), ["/bundle/optional"]);
}

/// Settings that the schema rejects do not crash the policy either.
#[test]
fn invalid_settings_cause_no_panic() {
    let settings = json!({"profile": "ocp-4.5", "bundle": {"redHatCatalog": true,
        "allowLabelDependency": true, "optional": ["good-practices"], "k8sVersion": "1.30",
        "extraKinds": ["A"]}});
    let cases = opgate_sdk_testing::native::cases(&POLICY, DIRECTORY);
    let directory = cases.iter().find(|case| case.name == "a bundle that breaks many rules");
    let directory = directory.and_then(|case| case.object.clone()).expect("a directory");
    let members = settings["bundle"].as_object().expect("an object");
    for wrong in [json!(null), json!(true), json!(-1), json!("x/\u{0}"), json!([[""]]), json!({})] {
        let mut mutated = vec![wrong.clone(), json!({"bundle": wrong}), json!({"profile": wrong})];
        mutated.extend(members.keys().map(|name| json!({"bundle": {name: wrong}})));
        for settings in mutated {
            let found = evaluate(Operation::Create, &directory, &settings);
            assert!(!found.violations.is_empty(), "{settings}");
        }
    }
}

/// Very large input takes time in proportion to its size, and is reported in part.
#[test]
fn very_many_wrong_things_are_reported_in_part() {
    let many = 20_000;
    let labels: Map<_, _> = (0..many).map(|i| (format!("-{i}"), json!("-"))).collect();
    let rule =
        json!({"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["*"]});
    let owned: Vec<_> =
        (0..many).map(|i| json!({"name": format!("a{i}.b"), "kind": "A"})).collect();
    let versions: Vec<_> = (0..many).map(|i| json!({"name": format!("v{}", i / 2)})).collect();
    let dependencies = vec![json!({"type": "x"}); many];
    let mut files = vec![
        json!({"path": "manifests/a.yaml", "documents": [{"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": labels}}]}),
        json!({"path": "manifests/b.yaml", "documents": [{"apiVersion": "r/v1", "kind": "Role",
            "metadata": {"name": "b"}, "rules": vec![rule; many]}]}),
        json!({"path": "manifests/c.yaml", "documents": [{"apiVersion": "o/v1",
            "kind": "ClusterServiceVersion", "metadata": {"name": "c"},
            "spec": {"customresourcedefinitions": {"owned": owned}}}]}),
        json!({"path": "manifests/d.yaml", "documents": [{"apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition", "metadata": {"name": "d"},
            "spec": {"versions": versions}}]}),
        json!({"path": "metadata/dependencies.yaml", "documents": [{"dependencies": dependencies}]}),
    ];
    files.extend((0..many).map(|i| json!({"path": format!("manifests/{i}/x/y")})));
    let found = evaluate(Operation::Create, &json!({"spec": {"files": files}}), &json!({}));
    let of = |rule: &str| found.violations.iter().filter(|v| v.rule == rule).collect::<Vec<_>>();
    for rule in ["RBF-07", "RBF-08", "RBF-09", "RBF-12", "RBF-18", "RBF-25"] {
        assert!(of(rule).len() >= 40, "{rule}: {}", of(rule).len());
    }
    let types = of("RBF-18");
    let last = &types.last().expect("a finding").message;
    let more = format!("{} more violations of this rule are omitted; ", many - types.len());
    assert!(last.starts_with(&more), "{last}");

    let directories: Vec<_> = (0..many).map(|i| json!(format!("{i}"))).collect();
    let mut files = vec![json!({"path": "a.package.yaml", "documents": [{}]})];
    files.extend((0..many).map(|i| json!({"path": format!("{i}/x.yaml"), "documents": []})));
    let bundle = json!({"spec": {"files": files, "directories": directories}});
    let found = evaluate(Operation::Create, &bundle, &json!({}));
    assert!(found.violations.len() <= 256, "{}", found.violations.len());
}

/// Only the kinds of the table reach the rule.
#[test]
fn kinds_of_the_table_match_the_rule() {
    let rule = POLICY.all_rules().into_iter().find(|rule| rule.id == "RBF-34").expect("a rule");
    let [(target, _)] = rule.on else { panic!("{:?}", rule.on) };
    let mut seen = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    for (api_version, kind) in opgate_schema::kinds() {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        for (seen, word) in seen.iter_mut().zip([group, version, &opgate_sdk_testing::plural(kind)])
        {
            seen.insert(word.to_owned());
        }
    }
    for (seen, matched) in seen.iter().zip([target.groups, target.versions, target.resources]) {
        let matched: BTreeSet<_> = matched.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(seen, &matched);
    }
    assert_eq!(target.enabled_by, ["/files"]);
}

fn manifest(object: &Value) -> Verdict {
    let mut parts = RequestParts::default();
    "opgate:check".clone_into(&mut parts.user.username);
    let request = Request::from(parts);
    let route = 2;
    POLICY.validate(&request, route, Some(&parsed(object)), None, &json_files())
}

fn json_files() -> Document {
    parsed(&json!({"files": true}))
}

#[test]
fn unknown_fields_are_counted_and_large_manifests_are_skipped() {
    let mut deployment =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}});
    let names: Map<_, _> = (0..1_000).map(|n| (format!("replicas{n}"), json!(1))).collect();
    deployment["spec"] = names.into();
    let verdict = manifest(&deployment);
    assert_eq!(verdict.violations.len(), 256);
    let last = &verdict.violations.last().expect("violations").message;
    assert!(last.starts_with("744 more violations of this rule are omitted; "), "{last}");
    // Long names have no suggestion, and are not printed in full.
    let name = "x".repeat(100_000);
    deployment["spec"] = json!({name: 1});
    let verdict = manifest(&deployment);
    assert!(verdict.violations.first().expect("a violation").message.len() < 200);
    deployment["metadata"]["annotations"] = json!({"a": "x".repeat(3 << 20)});
    let verdict = manifest(&deployment);
    assert_eq!((verdict.violations.len(), verdict.skipped.len()), (0, 1));
}
