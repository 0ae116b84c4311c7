//! What the policy answers: the cases of its rules, and what no case can show.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests may panic, and so may what they share"
)]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use opgate_cases::Case;
use opgate_cases::native::verdict;
use opgate_platform_operator::POLICY;
use opgate_sdk::Report;
use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

opgate_cases::tests!(POLICY);

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| opgate_cases::native::cases(&POLICY, FOLDER));

/// Names and values that the rules ask for.
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

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![select(&WORDS[..]).prop_map(str::to_owned), ".{0,6}"]
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let members = hash_map(any_text(), inner.clone(), 0..4);
        let object = members.prop_map(|members| members.into_iter().collect::<Value>());
        prop_oneof![vec(inner, 0..4).prop_map(Value::from), object]
    })
}

/// Puts a value in a place below an object, a member that is new in one of four.
fn put(object: &mut Value, place: Index, name: &str, value: Value) {
    let mut places = vec![String::new()];
    let mut seen = 0;
    while let Some(pointer) = places.get(seen).cloned() {
        seen += 1;
        let found = object.pointer(&pointer).expect("a place");
        let below: Vec<String> = match found {
            Value::Object(members) => members.keys().cloned().collect(),
            Value::Array(items) => (0..items.len()).map(|index| index.to_string()).collect(),
            _ => Vec::new(),
        };
        let below = below.iter().map(|name| name.replace('~', "~0").replace('/', "~1"));
        places.extend(below.map(|name| format!("{pointer}/{name}")));
    }
    let at = object.pointer_mut(&places[place.index(places.len())]).expect("a place");
    match at {
        Value::Object(members) if place.index(4) == 0 => {
            members.insert(name.to_owned(), value);
        }
        at => *at = value,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the object, the old one and the objects of the cluster say, there is a verdict.
    #[test]
    fn any_value_in_any_place_has_a_verdict(
        case in any::<Index>(),
        changes in vec((any::<Index>(), any::<Index>(), any_text(), any_value()), 1..5),
    ) {
        let mut case = case.get(&CASES).clone();
        let [_, version, resource, _] = case.resource();
        // The request still says what it is about, and so do the objects of the cluster.
        case.request.resource = Some(resource);
        case.request.version = Some(version);
        let kinds: Vec<Value> =
            case.cluster.iter().flatten().map(|object| object["kind"].clone()).collect();
        for (which, place, name, value) in changes {
            let objects = case.object.iter_mut().chain(&mut case.old);
            let objects = objects.chain(case.cluster.iter_mut().flatten());
            let mut objects: Vec<&mut Value> = objects.collect();
            let which = which.index(objects.len());
            put(objects.swap_remove(which), place, &name, value);
        }
        for (object, kind) in case.cluster.iter_mut().flatten().zip(kinds) {
            if !object.is_object() {
                *object = json!({});
            }
            object["kind"] = kind;
        }
        let found = verdict(&POLICY, &case).violations;
        let known: BTreeSet<_> = POLICY.all_rules().iter().map(|rule| rule.id).collect();
        prop_assert!(found.iter().all(|violation| known.contains(violation.rule.as_str())));
        prop_assert!(found.len() <= Report::ROOM);
    }
}

/// An OperatorHub with very many empty entries is valid. It is not evaluated.
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
