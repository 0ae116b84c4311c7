//! What the policy answers, rule by rule: `cases/rules.json` holds the requests and everything that
//! must be found, with the texts that users see.
//!
//! A case gives annotations of a CSV (`csv`, `old`), properties of lookups (`plan`, `oldPlan`), a
//! ConfigMap (`configMap`; `@gzip …` in it is packed as OLM packs files), the metadata and CSV of a
//! bundle (`dependencies`, `properties`, `manifest`) or a catalog (`blobs`). Annotations that are no
//! texts are written as JSON. A finding is `[rule, level, field, message]`, any field being `*`.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic, and so may what they share"
)]

use std::collections::BTreeSet;

use opgate_constraint_limits::ConstraintLimits;
use opgate_sdk::{
    DefaultLevel, Document, GroupVersionResource, Level, Operation, Policy, Request, Verdict,
};
use serde_json::{Value, json};

fn cases() -> Vec<Value> {
    serde_json::from_str(include_str!("cases/rules.json")).expect("JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn parsed(value: &Value) -> Document {
    Document::parse(&value.to_string()).unwrap_or_else(|e| panic!("{value}: {e}"))
}

fn request(group: &str, version: &str, resource: &str) -> Request {
    let [group, version, resource] = [group, version, resource].map(str::to_owned);
    Request { resource: GroupVersionResource { group, version, resource }, ..Request::default() }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let letter = LETTERS[usize::try_from(bits >> (18 - 6 * index) & 63).expect("small")];
            text.push(if index <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// As the writer of bundles packs a file: compressed, and in base64 twice.
fn packed(file: &str) -> String {
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    gzip.extend(miniz_oxide::deflate::compress_to_vec(file.as_bytes(), 6));
    gzip.extend([0; 4]);
    gzip.extend(u32::try_from(file.len()).expect("small").to_le_bytes());
    base64(base64(&gzip).as_bytes())
}

fn csv(case: &Value, annotations: &Value) -> Value {
    let mut metadata = json!({"name": "c", "annotations": {}, "labels": case["labels"]});
    for (name, value) in annotations.as_object().expect("annotations") {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        metadata["annotations"][name] = json!(value);
    }
    if case["deleted"] == true {
        metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    json!({"kind": "ClusterServiceVersion", "metadata": metadata})
}

fn plan(lookups: &Value) -> Value {
    let lookups = lookups.as_array().expect("lookups").iter();
    let lookups: Vec<_> = lookups.map(|properties| json!({"properties": properties})).collect();
    json!({"status": {"bundleLookups": lookups}})
}

fn bundle(case: &Value) -> Value {
    json!({"spec": {"files": [
        {"path": "metadata/dependencies.yaml", "documents": [{"dependencies": case["dependencies"]}]},
        {"path": "metadata/properties.yaml", "documents": [{"properties": case["properties"]}]},
        {"path": "manifests/c.yaml", "documents": [
            {"kind": "ClusterServiceVersion", "spec": case["manifest"]},
        ]},
        {"path": "README.md", "text": "x"},
    ]}})
}

/// The request, the object and the old object of a case.
fn asked(case: &Value) -> (Request, Value, Option<Value>) {
    const OLM: &str = "operators.coreos.com";
    let has = |key: &str| case.get(key).is_some();
    let (mut request, object, old) = if has("csv") {
        let old = case.get("old").map(|old| csv(case, old));
        (request(OLM, "v1alpha1", "clusterserviceversions"), csv(case, &case["csv"]), old)
    } else if has("plan") {
        let old = case.get("oldPlan").map(plan);
        (request(OLM, "v1alpha1", "installplans"), plan(&case["plan"]), old)
    } else if has("configMap") {
        let mut map = case["configMap"].clone();
        for value in map["binaryData"].as_object_mut().into_iter().flat_map(|m| m.values_mut()) {
            if let Some(file) = text(value).strip_prefix("@gzip ") {
                *value = json!(packed(file));
            }
        }
        (request("", "v1", "configmaps"), map, None)
    } else if has("blobs") {
        let blobs = case["blobs"].as_array().expect("blobs").iter();
        let blobs: Vec<_> = blobs.map(|blob| json!({"file": "f", "value": blob})).collect();
        let catalog = json!({"spec": {"blobs": blobs}});
        (request("opgate.dev", "v1alpha1", "filebasedcatalogs"), catalog, None)
    } else {
        (request("opgate.dev", "v1alpha1", "registrybundles"), bundle(case), None)
    };
    if case["operation"] == "UPDATE" {
        request.operation = Operation::Update;
    }
    request.sub_resource.push_str(case["subResource"].as_str().unwrap_or_default());
    request.user.username.push_str(case["user"].as_str().unwrap_or_default());
    request.namespace.push_str("ns");
    (request, object, old)
}

fn verdict(case: &Value) -> Verdict {
    let (request, object, old) = asked(case);
    let settings = parsed(case.get("settings").unwrap_or(&json!({})));
    let old = old.as_ref().map(parsed);
    ConstraintLimits::validate(&request, Some(&parsed(&object)), old.as_ref(), &settings)
}

#[test]
fn every_case_is_judged_as_it_says() {
    let mut wrong = Vec::new();
    for case in cases() {
        let mut found = verdict(&case).violations;
        found.sort_by(|l, r| l.rule.cmp(&r.rule));
        let expected = case["expected"].as_array().expect("findings");
        let same = found.len() == expected.len()
            && found.iter().zip(expected).all(|(found, expected)| {
                let level = if found.level == Level::Deny { "deny" } else { "warn" };
                let [rule, wanted, field, message] = [0, 1, 2, 3].map(|i| text(&expected[i]));
                (rule, wanted, message) == (&found.rule, level, &found.message)
                    && (field == "*" || field == found.field)
            });
        if !same {
            wrong.push(format!("{}: {found:#?}", case["name"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_is_broken_by_a_case_at_the_level_that_it_declares() {
    let mut broken = BTreeSet::new();
    for case in cases() {
        for finding in case["expected"].as_array().expect("findings") {
            broken.insert((text(&finding[0]).to_owned(), text(&finding[1]).to_owned()));
        }
    }
    let declared = ConstraintLimits::describe().rules.iter().map(|rule| {
        let denies = rule.default_level == DefaultLevel::Deny || !rule.enabled_by.is_empty();
        let level = if denies { "deny" } else { "warn" };
        (rule.id.to_owned(), level.to_owned())
    });
    assert_eq!(broken, declared.collect());
}

#[test]
fn settings_of_cases_are_in_the_schema() {
    let schema: Value = serde_json::from_str(ConstraintLimits::describe().settings_schema).unwrap();
    for case in cases() {
        for (section, settings) in case["settings"].as_object().into_iter().flatten() {
            let known = &schema["properties"][section];
            assert!(known.is_object(), "{section}");
            for name in settings.as_object().into_iter().flat_map(|s| s.keys()) {
                assert!(section == "rules" || known["properties"][name].is_object(), "{name}");
            }
        }
    }
}

/// Every way to put `replacement` in the place of one value inside `value`.
fn mutations(value: &Value, replacement: &Value) -> Vec<Value> {
    let mut all = vec![replacement.clone()];
    let places: Vec<_> = match value {
        Value::Object(members) => members.keys().map(|name| opgate_sdk::escape(name)).collect(),
        Value::Array(items) => (0..items.len()).map(|index| index.to_string()).collect(),
        _ => Vec::new(),
    };
    for place in places {
        let pointer = format!("/{place}");
        for mutated in mutations(value.pointer(&pointer).expect("a value"), replacement) {
            let mut copy = value.clone();
            *copy.pointer_mut(&pointer).expect("a value") = mutated;
            all.push(copy);
        }
    }
    all
}

#[test]
fn no_value_in_any_place_brings_it_down() {
    let settings = parsed(&json!({"rules": {"CON-23": "warn", "CON-24": "warn"}}));
    let replacements = json!([null, true, 1e308, "", "{", "[[[", [], [null], {}, {"": {}}]);
    for case in cases() {
        let (request, object, _) = asked(&case);
        for replacement in replacements.as_array().unwrap() {
            for mutated in mutations(&object, replacement) {
                let object = parsed(&mutated);
                ConstraintLimits::validate(&request, Some(&object), None, &settings);
                ConstraintLimits::validate(&request, Some(&object), Some(&object), &settings);
                ConstraintLimits::validate(&request, None, None, &settings);
            }
        }
    }
}

#[test]
fn very_many_findings_are_told_up_to_a_limit_and_that_is_said() {
    let properties = json!([{"type": "olm.constraint", "value": {}}]).to_string();
    let lookups = vec![format!(r#"{{"properties":{properties}}}"#); 5_000];
    let found = verdict(&json!({"plan": lookups})).violations;
    assert_eq!(found.len(), 21);
    assert_eq!(found[20].message, "more findings of this rule are left out");
}

#[test]
fn deep_constraints_are_measured_not_followed() {
    let nested = |levels: usize| {
        let open = r#"{"all":{"constraints":["#.repeat(levels);
        let value = format!("{open}{{\"cel\":{{\"rule\":\"true\"}}}}{}", "]}}".repeat(levels));
        let list = format!(r#"[{{"type":"olm.constraint","value":{value}}}]"#);
        let settings = json!({"constraints": {"maxBytes": 131_072}});
        let found = verdict(&json!({"csv": {"olm.properties": list}, "settings": settings}));
        found.violations.into_iter().map(|v| v.rule).collect::<Vec<_>>()
    };
    assert_eq!(nested(10), Vec::<String>::new());
    assert_eq!(nested(2_500), ["CON-15"]);
    assert_eq!(nested(3_400), ["CON-16"]);
    assert_eq!(nested(20_000), ["CON-01"]);
}
