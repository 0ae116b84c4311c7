//! Whatever stands in the objects of a case, the policy has a verdict.
//!
//! ```text
//! a case of the policy ─▶ values at random places of its objects ─▶ verdict, with rules that it has
//! ```

use std::collections::BTreeSet;

use opgate_sdk::{Policy, Report};
use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::native::{cases, verdict};

/// Changed cases that are evaluated.
const MAX_EVALUATIONS: u32 = 2_000;

fn any_text(words: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    prop_oneof![select(words).prop_map(str::to_owned), ".{0,6}"]
}

fn any_value(words: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_text(words).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let members = hash_map(any_text(words), inner.clone(), 0..4);
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

/// Whatever the object, the old one and the objects of the cluster say, there is a verdict. `words`
/// are names and values that the rules ask for.
pub fn value_in_any_place_has_a_verdict(
    policy: &Policy,
    directory: &str,
    words: &'static [&'static str],
) {
    let cases = cases(policy, directory);
    let known: BTreeSet<_> = policy.all_rules().iter().map(|rule| rule.id).collect();
    let change = (any::<Index>(), any::<Index>(), any_text(words), any_value(words));
    let config = Config { cases: MAX_EVALUATIONS, failure_persistence: None, ..Config::default() };
    let evaluated =
        TestRunner::new(config).run(&(any::<Index>(), vec(change, 1..5)), |(case, changes)| {
            let mut case = case.get(&cases).clone();
            let [_, version, resource, _] = case.resource();
            // The request keeps its identity, and so do the objects of the cluster.
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
            let found = verdict(policy, &case).violations;
            prop_assert!(found.iter().all(|violation| known.contains(violation.rule.as_str())));
            prop_assert!(found.len() <= Report::MAX_VIOLATIONS);
            Ok(())
        });
    evaluated.unwrap_or_else(|failure| panic!("{}: {failure}", policy.name));
}
