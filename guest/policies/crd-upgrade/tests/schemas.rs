//! Schemas that no case can show: very large ones, and any.
#![expect(clippy::expect_used, reason = "tests may panic")]

use std::fmt::Write as _;

use opgate_crd_upgrade::POLICY;
use opgate_sdk::{
    Document, GroupVersionKind, GroupVersionResource, Operation, Request, RequestParts, Verdict,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// The violations when the schemas of a version change.
fn evaluate_object(old: &str, new: &str, settings: &str) -> Verdict {
    let crd = |versions: &str| {
        let json = format!(
            r#"{{"metadata":{{"name":"a.b"}},"spec":{{"group":"b","scope":"Namespaced","names":{{"plural":"a","kind":"A"}},"versions":{versions}}}}}"#
        );
        Document::parse(&json).expect("a document")
    };
    let resource = GroupVersionResource {
        group: "apiextensions.k8s.io".to_owned(),
        version: "v1".to_owned(),
        resource: "customresourcedefinitions".to_owned(),
    };
    let kind = GroupVersionKind {
        group: resource.group.clone(),
        version: resource.version.clone(),
        kind: "CustomResourceDefinition".to_owned(),
    };
    let parts =
        RequestParts { operation: Operation::Update, kind, resource, ..RequestParts::default() };
    let (request, settings) = (Request::from(parts), Document::parse(settings).expect("settings"));
    let routes = POLICY.routes_of(&request, &settings);
    POLICY.validate(&request, routes, Some(&crd(new)), Some(&crd(old)), &settings)
}

fn version(name: &str, schema: &str) -> String {
    format!(
        r#"{{"name":"{name}","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}"#
    )
}

/// The violations of the rules of upgrade safety, if one version changes.
fn found(old: &str, new: &str) -> Vec<(String, String)> {
    let versions = |schema| format!("[{}]", version("v1", schema));
    safety(evaluate_object(&versions(old), &versions(new), STRICT))
}

fn safety(verdict: Verdict) -> Vec<(String, String)> {
    let rules = "CRD-18"..="CRD-26";
    let found = verdict.violations.into_iter().filter(|found| rules.contains(&found.rule.as_str()));
    found.map(|found| (found.rule, found.message)).collect()
}

const STRICT: &str = r#"{"rules":{"CRD-26":"warn"}}"#;

/// This number of properties, one with another type.
fn wide(count: usize, other: usize) -> String {
    let mut json = r#"{"type":"object","properties":{"#.to_owned();
    for n in 0..count {
        let kind = if n == other { "number" } else { "string" };
        let comma = if n > 0 { "," } else { "" };
        let _ = write!(json, r#"{comma}"p{n:06}":{{"type":"{kind}"}}"#);
    }
    json + "}}"
}

#[test]
fn one_change_among_very_many_properties_is_found() {
    let many = 50_000;
    let message = r#"v1: ^.p030000: type: type changed : "string" -> "number""#.to_owned();
    let expected = [("CRD-21".to_owned(), message)];
    assert_eq!(found(&wide(many, many), &wide(many, 30_000)), expected);
    assert_eq!(found(&wide(many, many), &wide(many, many)), []);
}

#[test]
fn very_many_changes_are_counted() {
    let many = 50_000;
    let old = wide(many, many);
    for (new, rule) in [
        (old.replace("string", "number"), "CRD-21"),
        (old.replace("\"p", "\"q").replace("\"qroperties", "\"properties"), "CRD-19"),
        (old.replace("\"string\"", r#""string","pattern":"a""#), "CRD-25"),
        (old.replace("\"string\"", r#""string","format":"a""#), "CRD-26"),
    ] {
        let found = found(&old, &new);
        assert_eq!(found.len(), 256, "{rule}");
        assert!(found.iter().all(|(found, _)| found == rule), "{rule}");
        let start = format!("{} more violations of this rule are omitted; ", many - 256);
        assert!(found[255].1.starts_with(&start), "{}", found[255].1);
    }
}

#[test]
fn members_in_any_order_are_compared() {
    let many = 50_000;
    let property = |n: usize| format!(r#""p{n:06}":{{"type":"string"}}"#);
    let schema = |names: Vec<String>| format!(r#"{{"properties":{{{}}}}}"#, names.join(","));
    let old = schema((0..many).map(property).collect());
    let new = schema((0..many).map(|n| property((n * 7_919) % many)).collect());
    assert_eq!(found(&old, &new), []);
    assert_eq!(found(&new, &old), []);
}

/// A schema at the maximum nesting depth of JSON, each level with a name and a description of some
/// size.
fn deep(keyword: &str, levels: usize, innermost: &str) -> String {
    let text = "x".repeat(1_000);
    let mut json = String::new();
    let open = match keyword {
        "properties" => format!(r#"{{"description":"{text}","properties":{{"{text}":"#),
        "allOf" => format!(r#"{{"description":"{text}","allOf":["#),
        _ => format!(r#"{{"description":"{text}","{keyword}":"#),
    };
    let close = match keyword {
        "properties" => "}}",
        "allOf" => "]}",
        _ => "}",
    };
    for _ in 0..levels {
        json.push_str(&open);
    }
    json.push_str(innermost);
    for _ in 0..levels {
        json.push_str(close);
    }
    json
}

#[test]
fn schemas_as_deep_as_json_are_compared_to_the_innermost() {
    for (keyword, levels, unhandled) in [
        ("properties", 250, 0),
        ("allOf", 250, 250),
        ("items", 500, 0),
        ("not", 500, 500),
        ("additionalProperties", 500, 500),
    ] {
        let old = deep(keyword, levels, r#"{"type":"string"}"#);
        let new = deep(keyword, levels, r#"{"type":"number"}"#);
        let found = found(&old, &new);
        let of = |rule: &str| found.iter().filter(|(found, _)| found == rule).collect::<Vec<_>>();
        let [(_, message)] = of("CRD-21")[..] else { panic!("{keyword}: {found:?}") };
        assert!(message.starts_with("v1: ^.") && message.len() <= 4_096, "{keyword}");
        assert_eq!(of("CRD-26").len(), unhandled.min(255), "{keyword}");
        let gone = deep(keyword, levels - 1, "{}");
        let gone = safety(evaluate_object(
            &format!("[{}]", version("v1", &old)),
            &format!("[{}]", version("v1", &gone)),
            "{}",
        ));
        assert_eq!(gone.len(), 1, "{keyword}");
        assert!(gone[0].1.starts_with("existingFieldRemoval: removed field : v1.^."), "{keyword}");
    }
}

#[test]
fn values_of_any_size_are_compared() {
    let list =
        |element: &str, last: &str| format!("[{}{last}]", format!("{element},").repeat(300_000));
    for (old, new, rule, start) in [
        (
            format!(r#"{{"default":{}}}"#, list("0", "0")),
            format!(r#"{{"default":{}}}"#, list("0", "1")),
            "CRD-24",
            r#"v1: ^: default: default value changed : "[0,0,"#,
        ),
        (
            format!(r#"{{"default":{}}}"#, list("[]", "0")),
            format!(r#"{{"default":{}}}"#, list("{}", "0")),
            "CRD-24",
            r#"v1: ^: default: default value changed : "[[],[],"#,
        ),
        (
            format!(r#"{{"enum":{}}}"#, list("1", "2")),
            format!(r#"{{"enum":{}}}"#, list("1", "3")),
            "CRD-22",
            "v1: ^: enum: allowed enum values removed : [2]",
        ),
        (
            "{}".to_owned(),
            format!(r#"{{"required":{}}}"#, list("\"a\"", "\"b\"")),
            "CRD-20",
            "v1: ^: required: new required fields: [a b]",
        ),
    ] {
        let found = found(&old, &new);
        assert_eq!(found[0].0, rule);
        assert!(found[0].1.starts_with(start), "{}", found[0].1.get(..200).unwrap_or(&found[0].1));
    }
}

/// This number of pairs of served versions is compared in part, and the verdict reports it.
#[test]
fn very_many_served_versions_are_compared_in_part() {
    let versions = |kind: &str| {
        let all =
            (1..=2_000).map(|n| version(&format!("v{n}"), &format!(r#"{{"type":"{kind}"}}"#)));
        format!("[{}]", all.collect::<Vec<_>>().join(","))
    };
    let verdict = evaluate_object(&versions("object"), &versions("other"), STRICT);
    let reason = "in part: the CRD has too many served versions to compare all of their schemas";
    let skipped: Vec<_> =
        verdict.skipped.iter().filter(|skipped| skipped.rule == "CRD-26").collect();
    let [skipped] = skipped[..] else { panic!("{skipped:?}") };
    assert_eq!(skipped.reason, reason);
    assert!(safety(verdict).iter().all(|(rule, _)| rule == "CRD-21"));
}

/// Names and values that the rules require.
const WORDS: [&str; 10] = ["a", "b", "items", "", "a.b/c", "string", "object", "^a", "<>", "é\""];

fn value() -> impl Strategy<Value = Value> + Clone {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(&WORDS[..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let members = btree_map(select(&WORDS[..]).prop_map(str::to_owned), inner.clone(), 0..3);
        prop_oneof![
            vec(inner, 0..3).prop_map(Value::from),
            members.prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> + Clone {
    let plain = prop_oneof![
        select(&WORDS[..]).prop_map(|text| json!({"type": text})),
        select(&WORDS[..]).prop_map(|text| json!({"pattern": text})),
        select(&WORDS[..]).prop_map(|text| json!({"format": text})),
        any::<bool>().prop_map(|flag| json!({"nullable": flag})),
        any::<f64>().prop_map(|number| json!({"maximum": number})),
        any::<u16>().prop_map(|number| json!({"minLength": number})),
        value().prop_map(|value| json!({"default": value})),
        vec(value(), 0..3).prop_map(|values| json!({"enum": values})),
        vec(select(&WORDS[..]), 0..3).prop_map(|names| json!({"required": names})),
        (select(&KEYWORDS[..]), value()).prop_map(|(keyword, value)| json!({keyword: value})),
    ];
    let own = vec(plain, 0..3).prop_map(merged);
    own.prop_recursive(3, 16, 3, |inner| {
        let named = btree_map(select(&WORDS[..]).prop_map(str::to_owned), inner.clone(), 0..3);
        let around = prop_oneof![
            (
                select(&["properties", "definitions", "patternProperties", "dependencies"][..]),
                named
            )
                .prop_map(|(keyword, named)| json!({keyword: named})),
            (select(&["items", "not", "additionalProperties"][..]), inner.clone())
                .prop_map(|(keyword, schema)| json!({keyword: schema})),
            (select(&["allOf", "oneOf", "items"][..]), vec(inner.clone(), 0..3))
                .prop_map(|(keyword, schemas)| json!({keyword: schemas})),
        ];
        vec(prop_oneof![around, inner], 0..3).prop_map(merged)
    })
}

const KEYWORDS: [&str; 8] = [
    "type",
    "properties",
    "items",
    "allOf",
    "maximum",
    "required",
    "x-kubernetes-validations",
    "additionalProperties",
];

fn merged(parts: Vec<Value>) -> Value {
    let members = parts.into_iter().filter_map(|part| part.as_object().cloned()).flatten();
    Value::Object(members.collect::<Map<_, _>>())
}

/// JSON with the members of objects in reverse order, and with white space.
fn reversed(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter().rev();
            let members = members.map(|(name, value)| {
                format!("{} : {}", Value::from(name.as_str()), reversed(value))
            });
            format!("{{ {} }}", members.collect::<Vec<_>>().join(" , "))
        }
        Value::Array(items) => {
            format!("[ {} ]", items.iter().map(reversed).collect::<Vec<_>>().join(" ,\n"))
        }
        other => other.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The notation of a schema makes no difference.
    #[test]
    fn identical_schema_has_no_violations(schema in schema()) {
        prop_assert_eq!(found(&schema.to_string(), &reversed(&schema)), []);
        prop_assert_eq!(found(&reversed(&schema), &schema.to_string()), []);
    }

    #[test]
    fn violations_do_not_depend_on_schema_notation(old in schema(), new in schema()) {
        let sorted = |mut found: Vec<(String, String)>| { found.sort(); found };
        prop_assert_eq!(
            sorted(found(&old.to_string(), &new.to_string())),
            sorted(found(&reversed(&old), &reversed(&new)))
        );
    }

    /// An optional field breaks no object.
    #[test]
    fn new_optional_field_has_no_violations(schema in schema(), added in schema()) {
        let mut old = schema;
        old["properties"] = json!({"a": {"type": "string"}});
        let mut new = old.clone();
        new["properties"]["new"] = added;
        prop_assert_eq!(found(&old.to_string(), &new.to_string()), []);
    }

    /// Differences of a version that the old CRD does not have are all reported; differences that
    /// it has are all subtracted.
    #[test]
    fn only_new_differences_of_served_versions_are_violations(one in schema(), two in schema()) {
        let (one, two) = (one.to_string(), two.to_string());
        let both = format!("[{},{}]", version("v1", &one), version("v2", &two));
        let first = format!("[{}]", version("v1", &one));
        let again = format!("[{},{}]", version("v1", &one), version("v2", &two).replace("true", " true"));
        prop_assert_eq!(safety(evaluate_object(&both, &again, STRICT)), []);
        let found = safety(evaluate_object(&first, &both, STRICT));
        prop_assert!(found.iter().all(|(rule, text)| rule == "CRD-26" && text.starts_with("v1 -> v2: ^")));
    }
}
