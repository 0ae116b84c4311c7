//! Runs the cases of the rules, and tests what no case can express.

use std::sync::LazyLock;

use opgate_platform_configuration::POLICY;
use opgate_sdk::Report;
use opgate_sdk_testing::Case;
use opgate_sdk_testing::native::verdict;
use serde_json::{Value, json};

opgate_sdk_testing::tests!(POLICY);

static CASES: LazyLock<Vec<Case>> =
    LazyLock::new(|| opgate_sdk_testing::native::cases(&POLICY, DIRECTORY));

/// Names and values that the rules query.
const WORDS: [&str; 40] = [
    "apiGroups",
    "resources",
    "verbs",
    "resourceNames",
    "*",
    "*/status",
    "true",
    "data",
    "binaryData",
    "labels",
    "annotations",
    "rbac.authorization.k8s.io/aggregate-to-view",
    "rbac.authorization.k8s.io/aggregate-to-edit",
    "config.openshift.io/inject-trusted-cabundle",
    "ansible.operator-sdk/reconcile-period",
    "ansible.operator-sdk/max-runner-artifacts",
    "scaleTargetRef",
    "MachineSet",
    "files",
    "path",
    "contents",
    "source",
    "compression",
    "data:,-----BEGIN%20PRIVATE%20KEY-----",
    "data:;base64,%%",
    "controlPlaneTopology",
    "providerSpec",
    "stsIAMRoleARN",
    "cloudTokenPath",
    "cgroupMode",
    "v2",
    "documents",
    "group",
    "version",
    "kind",
    "role",
    "reconcilePeriod",
    "overrideValues",
    "finalizer",
    "error",
];

#[test]
fn any_value_in_any_field_has_a_verdict() {
    opgate_sdk_testing::any::value_in_any_place_has_a_verdict(&POLICY, DIRECTORY, &WORDS);
}

fn case(rule: &str, name: &str) -> Option<Case> {
    CASES.iter().find(|case| case.rule == rule && case.name == name).cloned()
}

/// The number of violations of a verdict, from the message of the last one.
fn counted(case: &Case) -> (usize, String) {
    let found = verdict(&POLICY, case).violations;
    let last = found.last().map(|last| last.message.clone()).unwrap_or_default();
    (found.len(), last)
}

#[test]
fn each_of_very_many_entries_counts() {
    let mut many = case("MSC-13", "entries that are no maps").unwrap();
    many.object.as_mut().unwrap()["spec"]["files"][0]["documents"][0] = json!(vec![1; 100_000]);
    let (count, last) = counted(&many);
    assert_eq!(count, Report::MAX_VIOLATIONS);
    assert!(last.starts_with("99744 more violations of this rule are omitted; "), "{last}");
    let mut many = case("MSC-20", "a list").unwrap();
    let annotations = (0..10_000).map(|n| (format!("a{n}"), json!(n)));
    many.object.as_mut().unwrap()["metadata"]["annotations"] = Value::Object(annotations.collect());
    let (count, last) = counted(&many);
    assert_eq!(count, Report::MAX_VIOLATIONS);
    assert!(last.starts_with("9744 more violations of this rule are omitted; "), "{last}");
}

/// The policy skips a rule if its input is too large for the memory of a call.
#[test]
fn oversized_input_skips_the_rule() {
    let skipped = |case: &Case| {
        let verdict = verdict(&POLICY, case);
        assert_eq!(verdict.violations.len(), 0, "{:?}", case.rule);
        verdict.skipped.into_iter().map(|skipped| skipped.rule).collect::<Vec<_>>()
    };
    let mut files = case("MSC-08", "a private key").unwrap();
    let list = vec![json!({}); 32_769];
    files.object.as_mut().unwrap()["spec"]["config"]["storage"]["files"] = json!(list);
    assert_eq!(skipped(&files), ["MSC-08"]);
    let mut role = case("MSC-01", "no role for edit or admin").unwrap();
    let texts: Vec<_> = (0..100).map(|n| format!("t{n}")).collect();
    role.object.as_mut().unwrap()["rules"] =
        json!([{"apiGroups": texts, "resources": texts, "verbs": texts}]);
    assert_eq!(skipped(&role), ["MSC-01"]);
    role.object.as_mut().unwrap()["rules"] = json!([{"verbs": vec!["get"; 100_000]}]);
    assert_eq!(skipped(&role), ["MSC-01"]);
    let mut watches = case("MSC-13", "no group").unwrap();
    watches.object.as_mut().unwrap()["spec"]["files"][0]["documents"][0] =
        json!(["x".repeat(3 << 20)]);
    assert_eq!(skipped(&watches), ["MSC-12", "MSC-13", "MSC-21"]);
}

/// A verdict contains no part of a secret or a key.
#[test]
fn verdict_contains_no_secret_content() {
    let mut asked = 0;
    for mut case in
        CASES.iter().filter(|case| ["MSC-03", "MSC-08"].contains(&case.rule.as_str())).cloned()
    {
        let object = case.object.as_mut().unwrap();
        if case.rule == "MSC-03" {
            object["data"] = json!({"hunter2": "aHVudGVyMg=="});
        } else {
            let source = "data:,hunter2-----BEGIN%20PRIVATE%20KEY-----hunter2";
            object["spec"]["config"]["storage"]["files"] =
                json!([{"path": "/etc/x", "contents": {"source": source}}]);
        }
        let verdict = format!("{:?}", verdict(&POLICY, &case));
        assert!(!verdict.contains("hunter2") && !verdict.contains("aHVudGVyMg"), "{verdict}");
        asked += usize::from(verdict.contains(&case.rule));
    }
    assert!(asked > 8, "{asked}");
}
