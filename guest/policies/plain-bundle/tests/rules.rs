//! What the policy answers, rule by rule: `cases/*.json` hold folders and everything that must be
//! found in them, with the texts that users see.
//!
//! A case lists `files` by path: an object is one document, a list several, a text a file that is
//! neither YAML nor JSON, `{"$error": …}` one that cannot be parsed. A finding is `at` a path and a
//! field of the file (`manifests/a.yaml#documents[0].kind`), or at a field of the document.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic, and so may what they share"
)]

use std::collections::{BTreeMap, BTreeSet};

use opgate_plain_bundle::PlainBundle;
use opgate_sdk::{DefaultLevel, Document, Level, Operation, Policy, Request, Verdict};
use serde_json::{Map, Value, json};

const CASES: &str = include_str!("cases/bundles.json");

fn value(json: &str) -> Value {
    serde_json::from_str(json).expect("JSON")
}

fn parsed(value: &Value) -> Document {
    Document::parse(&value.to_string()).expect("JSON")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn file(path: &str, content: &Value) -> Value {
    let size = content.to_string().len();
    match content {
        Value::String(text) => json!({"path": path, "size": size, "text": text}),
        Value::Array(documents) => json!({"path": path, "size": size, "documents": documents}),
        Value::Object(map) if map.contains_key("$error") => {
            json!({"path": path, "size": size,
                "error": {"line": 3, "column": 7, "message": map["$error"]}})
        }
        document => json!({"path": path, "size": size, "documents": [document]}),
    }
}

struct Case {
    name: String,
    document: Value,
    expected: Vec<(String, &'static str, String, String)>,
}

impl Case {
    fn read(case: &Value) -> Self {
        let known = ["name", "files", "directories", "expected"];
        let case = object(case);
        for key in case.keys() {
            assert!(known.contains(&key.as_str()), "unknown key {key} in {case:?}");
        }
        let get = |key: &str| case.get(key).cloned().unwrap_or_default();
        let files: BTreeMap<String, Value> = object(&get("files")).into_iter().collect();
        let paths: Vec<_> = files.keys().cloned().collect();
        let mut directories: BTreeSet<String> =
            get("directories").as_array().into_iter().flatten().map(text).collect();
        for path in &paths {
            for (end, _) in path.match_indices('/') {
                directories.insert(path.split_at(end).0.to_owned());
            }
        }
        let files: Vec<_> = files.iter().map(|(path, content)| file(path, content)).collect();
        let document = json!({
            "apiVersion": "opgate.dev/v1alpha1", "kind": "PlainBundle",
            "metadata": {"name": "bundle"},
            "spec": {"files": files, "directories": directories},
        });
        let field = |at: &str| match at.split_once('#') {
            None => at.to_owned(),
            Some((path, rest)) => {
                let index = paths.iter().position(|p| p == path);
                let index = index.unwrap_or_else(|| panic!("no file {path}"));
                let dot = if rest.is_empty() { "" } else { "." };
                format!("spec.files[{index}]{dot}{rest}")
            }
        };
        let expected = case["expected"].as_array().expect("a list").iter().map(|finding| {
            let level = match finding["level"].as_str() {
                Some("deny") => "deny",
                Some("warn") => "warn",
                other => panic!("no level: {other:?}"),
            };
            let at = field(&text(&finding["at"]));
            (text(&finding["rule"]), level, at, text(&finding["message"]))
        });
        Self { name: text(&case["name"]), document, expected: expected.collect() }
    }

    fn verdict(&self) -> Verdict {
        judge(&self.document, &json!({}))
    }

    fn complaint(&self) -> Option<String> {
        let verdict = self.verdict();
        let mut found: Vec<_> = verdict
            .violations
            .iter()
            .map(|v| {
                let level = if v.level == Level::Deny { "deny" } else { "warn" };
                (v.rule.clone(), level, v.field.clone(), v.message.clone())
            })
            .collect();
        let mut expected = self.expected.clone();
        found.sort();
        expected.sort();
        (found != expected)
            .then(|| format!("{}\nexpected {expected:#?}\n  found {found:#?}", self.name))
    }
}

fn judge(document: &Value, settings: &Value) -> Verdict {
    let request = Request::default();
    PlainBundle::validate(&request, Some(&parsed(document)), None, &parsed(settings))
}

fn cases() -> Vec<Case> {
    value(CASES).as_array().expect("a table is a list").iter().map(Case::read).collect()
}

#[test]
fn every_case_is_judged_as_it_says() {
    let cases = cases();
    let names: BTreeSet<_> = cases.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), cases.len(), "names are unique");
    let wrong: Vec<_> = cases.iter().filter_map(Case::complaint).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn every_rule_has_a_case_that_breaks_it() {
    let broken: BTreeSet<_> =
        cases().into_iter().flat_map(|case| case.expected).map(|finding| finding.0).collect();
    for rule in PlainBundle::describe().rules {
        assert!(broken.contains(rule.id), "{}", rule.id);
    }
}

#[test]
fn levels_are_those_that_the_rules_declare() {
    // PBF-04 does not know what is behind a link.
    let varies = ["PBF-04"];
    let rules = PlainBundle::describe().rules;
    for (id, level, ..) in cases().into_iter().flat_map(|case| case.expected) {
        let rule = rules.iter().find(|rule| rule.id == id).expect("a rule");
        let declared = if rule.default_level == DefaultLevel::Deny { "deny" } else { "warn" };
        assert!(level == declared || varies.contains(&id.as_str()), "{id} {level}");
    }
}

/// The fields are places in the document, so that the host finds the line. What is missing is said
/// of the nearest place that is there.
#[test]
fn fields_lead_to_files_of_the_document() {
    for case in cases() {
        for (_, _, field, _) in case.expected {
            let Some(rest) = field.strip_prefix("spec.files[") else { continue };
            let index: usize = rest.split_once(']').expect("an index").0.parse().expect("a number");
            assert!(index < case.document["spec"]["files"].as_array().expect("files").len());
        }
    }
}

#[test]
fn ids_can_be_put_before_messages() {
    let settings = json!({"messages": {"prefixRuleId": true}});
    let found = judge(&json!({"spec": {"directories": ["manifests"]}}), &settings);
    assert!(found.violations[0].message.starts_with("PBF-02: invalid bundle: found zero objects"));
}

#[test]
fn an_update_is_judged_like_a_new_folder_and_a_removal_is_not() {
    let document = parsed(&json!({"spec": {}}));
    let ask = |operation| {
        let request = Request { operation, ..Request::default() };
        let settings = parsed(&json!({}));
        PlainBundle::validate(&request, Some(&document), Some(&document), &settings)
    };
    assert_eq!(ask(Operation::Update), ask(Operation::Create));
    assert_ne!(ask(Operation::Update), Verdict::default());
    assert_eq!(ask(Operation::Delete), Verdict::default());
}

/// Every way to put `replacement` in the place of one value inside `value`.
fn mutations(value: &Value, replacement: &Value) -> Vec<Value> {
    let mut all = vec![replacement.clone()];
    match value {
        Value::Object(members) => {
            for (name, inner) in members {
                for mutated in mutations(inner, replacement) {
                    let mut copy = members.clone();
                    copy.insert(name.clone(), mutated);
                    all.push(Value::Object(copy));
                }
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                for mutated in mutations(inner, replacement) {
                    let mut copy = items.clone();
                    copy[index] = mutated;
                    all.push(Value::Array(copy));
                }
            }
        }
        _ => {}
    }
    all
}

#[test]
fn no_value_in_any_place_brings_it_down() {
    let replacements =
        json!([null, true, -1, 1e308, "", "x/\u{0}", ".", [], [null], [[""]], {}, {"": {}}]);
    let rules = PlainBundle::describe().rules;
    let mut asked = 0;
    for case in cases() {
        for replacement in replacements.as_array().expect("a list") {
            for mutated in mutations(&case.document, replacement) {
                for violation in judge(&mutated, &json!({})).violations {
                    assert!(rules.iter().any(|rule| rule.id == violation.rule));
                }
                asked += 1;
            }
        }
    }
    assert!(asked > 2_000, "{asked} mutations");
}

/// What is very large or very deep takes time in proportion, and is told in part.
#[test]
fn very_many_wrong_things_are_told_in_part() {
    let many = 20_000;
    let mut files: Vec<_> =
        (0..many).map(|i| json!({"path": format!("manifests/{i}/x")})).collect();
    files.push(json!({"path": "manifests/x.yaml", "documents": vec![json!({}); many]}));
    files.extend((0..many).map(|i| json!({"path": format!("manifests/l{i}"), "error": {}})));
    let found = judge(&json!({"spec": {"files": files}}), &json!({}));
    let count = |rule: &str| found.violations.iter().filter(|v| v.rule == rule).count();
    for rule in ["PBF-03", "PBF-04", "PBF-05"] {
        assert_eq!(count(rule), 65, "{rule}");
    }

    let mut deep = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    for _ in 0..150 {
        deep = json!({"kind": "List", "items": [deep]});
    }
    let file = json!({"path": "manifests/x.yaml", "documents": [deep]});
    assert_eq!(judge(&json!({"spec": {"files": [file]}}), &json!({})), Verdict::default());
}
