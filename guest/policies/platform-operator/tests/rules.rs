//! Runs the cases of the rules, and tests what no case can express.

use std::sync::LazyLock;

use opgate_platform_operator::POLICY;
use opgate_sdk_testing::Case;
use opgate_sdk_testing::native::verdict;
use serde_json::json;

opgate_sdk_testing::tests!(POLICY);

static CASES: LazyLock<Vec<Case>> =
    LazyLock::new(|| opgate_sdk_testing::native::cases(&POLICY, DIRECTORY));

/// Names and values that the rules query.
const WORDS: [&str; 29] = [
    "TechPreviewNoUpgrade",
    "AllNamespaces",
    "Completed",
    "redhat-operators",
    "openshift-marketplace",
    "cluster",
    "stable",
    "featureSet",
    "package",
    "name",
    "catalogSource",
    "catalogSourceNamespace",
    "defaultChannel",
    "channels",
    "currentCSVDesc",
    "installModes",
    "supported",
    "owned",
    "required",
    "sources",
    "disabled",
    "desiredUpdate",
    "version",
    "image",
    "history",
    "state",
    "status",
    "spec",
    "metadata",
];

#[test]
fn any_value_in_any_field_has_a_verdict() {
    opgate_sdk_testing::any::value_in_any_place_has_a_verdict(&POLICY, DIRECTORY, &WORDS);
}

/// An OperatorHub with many empty entries is valid. The policy skips the rule.
#[test]
fn a_list_of_very_many_sources_is_not_evaluated() {
    let case = CASES.iter().find(|case| case.name == "an OperatorHub that enables all sources");
    let mut case = case.expect("a case").clone();
    let object = case.object.as_mut().expect("an object");
    object["spec"]["sources"] = json!(vec![json!({}); 32_769]);
    let verdict = verdict(&POLICY, &case);
    assert_eq!(verdict.violations.len(), 0);
    let skipped: Vec<_> = verdict.skipped.iter().map(|skipped| skipped.rule.as_str()).collect();
    assert_eq!(skipped, ["PLT-09"]);
}
