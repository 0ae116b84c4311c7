//! Runs the cases of the rules, and tests what no case can express.
#![expect(clippy::expect_used, reason = "tests may panic, and so may what they share")]

use std::sync::LazyLock;

use opgate_operator_condition::POLICY;
use opgate_sdk_testing::Case;
use opgate_sdk_testing::native::verdict;
use serde_json::{Value, json};

opgate_sdk_testing::tests!(POLICY);

static CASES: LazyLock<Vec<Case>> =
    LazyLock::new(|| opgate_sdk_testing::native::cases(&POLICY, DIRECTORY));

/// Names and values that the rules query.
const WORDS: [&str; 26] = [
    "Upgradeable",
    "True",
    "False",
    "Unknown",
    "Pending",
    "Copied",
    "cluster",
    "conditions",
    "overrides",
    "type",
    "status",
    "reason",
    "message",
    "observedGeneration",
    "generation",
    "metadata",
    "spec",
    "features",
    "sources",
    "name",
    "disabled",
    "replaces",
    "skips",
    "labels",
    "olm.copiedFrom",
    "phase",
];

#[test]
fn any_value_in_any_field_has_a_verdict() {
    opgate_sdk_testing::any::value_in_any_place_has_a_verdict(&POLICY, DIRECTORY, &WORDS);
}

fn creation(rule: &str, change: impl FnOnce(&mut Value)) -> Case {
    let case = CASES.iter().find(|case| case.rule == rule && case.operation == "CREATE");
    let mut case = case.expect("a case").clone();
    change(case.object.as_mut().expect("an object"));
    case
}

fn count(case: &Case, rule: &str) -> (usize, String) {
    let found = verdict(&POLICY, case).violations;
    let found: Vec<_> = found.into_iter().filter(|violation| violation.rule == rule).collect();
    let last = found.last().map(|violation| violation.message.clone());
    (found.len(), last.unwrap_or_default())
}

/// Lists of many entries are evaluated completely, and reported in part.
#[test]
fn very_many_wrong_entries_are_reported_in_part() {
    let many = 20_000;
    let condition = creation("CND-01", |condition| {
        condition["spec"] = json!({"overrides": vec![json!({"type": "x"}); many]});
    });
    let hub = creation("CND-12", |hub| {
        hub["spec"] = json!({"sources": vec![json!({"name": "x", "disabled": 1}); many]});
    });
    for (case, rule, all) in [
        (&condition, "CND-01", many),
        (&condition, "CND-02", 3 * many),
        (&condition, "CND-03", many),
        (&hub, "CND-12", many),
        (&hub, "CND-13", many),
    ] {
        let (shown, last) = count(case, rule);
        assert!(shown >= 80, "{rule}: {shown}");
        let start = format!("{} more violations of this rule are omitted; ", all - shown);
        assert!(last.starts_with(&start), "{rule}: {last}");
    }
}

/// A list that cannot be valid within the size limit of an object is rejected without a check of
/// each entry.
#[test]
fn a_list_of_more_entries_than_an_object_holds_is_refused() {
    let case = creation("CND-01", |condition| {
        condition["spec"] = json!({"conditions": vec![0; 32_769]});
    });
    let message = "spec.conditions: Too many: 32769: must have at most 32768 items";
    assert_eq!(count(&case, "CND-01"), (1, message.to_owned()));
    assert_eq!(verdict(&POLICY, &case).violations.len(), 1);
}

/// An OperatorHub with this many empty entries is valid. The policy skips the rule.
#[test]
fn a_list_of_very_many_sources_is_not_evaluated() {
    let case = creation("CND-12", |hub| {
        hub["spec"] = json!({"sources": vec![json!({}); 32_769]});
    });
    let verdict = verdict(&POLICY, &case);
    assert_eq!(verdict.violations.len(), 0);
    let skipped: Vec<_> = verdict.skipped.iter().map(|skipped| skipped.rule.as_str()).collect();
    assert_eq!(skipped, ["CND-12", "CND-13", "CND-15"]);
}

/// A version that skips many others is compared with the installed ones.
#[test]
fn very_many_skipped_versions_are_compared() {
    let case = CASES.iter().find(|case| case.name == "a version that is skipped");
    let mut case = case.expect("a case").clone();
    let mut skips: Vec<_> = (0..20_000).map(|n| json!(format!("a.v{n}"))).collect();
    skips.push(json!("my-operator.v1.0.0"));
    case.object.as_mut().expect("an object")["spec"]["skips"] = skips.into();
    let found = verdict(&POLICY, &case).violations;
    assert_eq!(found.iter().map(|v| v.field.as_str()).collect::<Vec<_>>(), ["spec.skips[20000]"]);
}
