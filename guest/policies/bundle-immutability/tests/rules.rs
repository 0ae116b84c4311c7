//! What the policy answers, rule by rule: `cases/*.json` hold the requests and everything that must
//! be found, with the texts that users see.
//!
//! A case gives its object as a whole (`object`, `oldObject`), as a spec under default metadata
//! (`spec`, `oldSpec`), or, for a Bundle of the plain provisioner, as a source (`source`). What is
//! left out is a CREATE of a v1alpha1 Bundle with empty settings, and no reason of its own.
//!
//! `cluster` lists the objects that the policy can read, `{"resource": "configmaps", "object": {…}}`;
//! without it there is no cluster to ask. `notEvaluated` is the audit annotation of that name.
//!
//! Below the tables stand properties that hold for every case at once.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic, and so may what they share"
)]

use std::collections::BTreeSet;

use opgate_bundle_immutability::BundleImmutability;
use opgate_sdk::cluster::Cluster;
use opgate_sdk::{
    DefaultLevel, Document, GroupVersionKind, GroupVersionResource, Level, Operation, Policy,
    Request, Verdict,
};
use serde_json::{Map, Value, json};

const IMMUTABLE: &str = "bundle.spec is immutable";
const TABLES: [(&str, &str); 6] = [
    ("bundle_create", include_str!("cases/bundle_create.json")),
    ("bundle_update", include_str!("cases/bundle_update.json")),
    ("cluster", include_str!("cases/cluster.json")),
    ("deployment", include_str!("cases/deployment.json")),
    ("exemption", include_str!("cases/exemption.json")),
    ("hostile", include_str!("cases/hostile.json")),
];
const EQUALITY: &str = include_str!("cases/equality.json");

/// Rules that only creation can break.
const CREATE_ONLY: [&str; 6] = ["RPK-08", "RPK-14", "RPK-15", "RPK-18", "RPK-19", "RPK-21"];
/// The checks of upstream's webhooks, which upstream repeats on every UPDATE.
const WEBHOOK: [&str; 7] = ["RPK-02", "RPK-03", "RPK-04", "RPK-05", "RPK-06", "RPK-07", "RPK-22"];
/// Rules that nobody and nothing is exempt from.
const WITHOUT_EXEMPTION: [&str; 2] = ["RPK-01", "RPK-24"];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    rule: String,
    level: &'static str,
    field: String,
    message: String,
}

#[derive(Debug, Clone)]
struct Case {
    name: String,
    request: Request,
    object: Option<Value>,
    old: Option<Value>,
    settings: Value,
    cluster: Option<Vec<(String, Value)>>,
    expected: Vec<Finding>,
    reason: Option<String>,
    not_evaluated: Option<String>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn parsed(json: &str) -> Document {
    Document::parse(json).unwrap_or_else(|e| panic!("{json}: {e}"))
}

/// A request for one of the three kinds, as the API server fills it in.
fn request(operation: Operation, kind: &str, version: &str) -> Request {
    let core = kind == "ConfigMap";
    let group = if core { "" } else { "core.rukpak.io" }.to_owned();
    let version = if core { "v1" } else { version }.to_owned();
    let resource = format!("{}s", kind.to_lowercase());
    Request {
        operation,
        kind: GroupVersionKind {
            group: group.clone(),
            version: version.clone(),
            kind: kind.to_owned(),
        },
        resource: GroupVersionResource { group, version, resource },
        ..Request::default()
    }
}

fn operation(name: &str) -> Operation {
    match name {
        "CREATE" => Operation::Create,
        "UPDATE" => Operation::Update,
        "DELETE" => Operation::Delete,
        other => panic!("no operation: {other}"),
    }
}

impl Finding {
    fn expected(value: &Value) -> Self {
        let level = match value["level"].as_str() {
            Some("deny") => "deny",
            Some("warn") => "warn",
            other => panic!("no level: {other:?}"),
        };
        let [rule, field, message] = ["rule", "field", "message"].map(|key| text(&value[key]));
        Self { rule, level, field, message }
    }
}

impl Case {
    fn read(case: &Value) -> Self {
        let case = case.as_object().expect("a case is an object");
        for key in case.keys() {
            let known = matches!(
                key.as_str(),
                "name"
                    | "operation"
                    | "kind"
                    | "version"
                    | "subResource"
                    | "requestName"
                    | "namespace"
                    | "user"
                    | "groups"
                    | "object"
                    | "oldObject"
                    | "spec"
                    | "oldSpec"
                    | "source"
                    | "settings"
                    | "cluster"
                    | "expected"
                    | "reason"
                    | "notEvaluated"
            );
            assert!(known, "unknown key {key} in {case:?}");
        }
        let or = |key: &str, default: &str| case.get(key).map_or(default.to_owned(), text);
        let kind = or("kind", "Bundle");
        let mut request =
            request(operation(&or("operation", "CREATE")), &kind, &or("version", "v1alpha1"));
        request.name = or("requestName", "");
        request.namespace = or("namespace", "");
        request.sub_resource = or("subResource", "");
        request.user.username = or("user", "kubernetes-admin");
        let groups = case.get("groups").and_then(Value::as_array);
        request.user.groups = groups.into_iter().flatten().map(text).collect();
        let name = if kind == "Bundle" { "combo-tag-ref" } else { "my-bundle-deployment" };
        let with_spec = |spec: &Value| {
            json!({
                "apiVersion": format!("core.rukpak.io/{}", request.resource.version),
                "kind": kind,
                "metadata": {"name": name},
                "spec": spec,
            })
        };
        let from_source = |source: &Value| {
            with_spec(&json!({"source": source, "provisionerClassName": "core-rukpak-io-plain"}))
        };
        let given = |whole: &str, spec: &str| {
            case.get(whole).cloned().or_else(|| case.get(spec).map(with_spec))
        };
        let expected = case["expected"].as_array().expect("a list of findings");
        let in_cluster = |entry: &Value| (text(&entry["resource"]), entry["object"].clone());
        let cluster = case.get("cluster").map(|c| c.as_array().expect("a list of objects"));
        Self {
            name: text(&case["name"]),
            object: given("object", "spec").or_else(|| case.get("source").map(from_source)),
            old: given("oldObject", "oldSpec"),
            settings: case.get("settings").cloned().unwrap_or_else(|| json!({})),
            cluster: cluster.map(|objects| objects.iter().map(in_cluster).collect()),
            expected: expected.iter().map(Finding::expected).collect(),
            reason: case.get("reason").map(text),
            not_evaluated: case.get("notEvaluated").map(text),
            request,
        }
    }

    fn verdict(&self) -> Verdict {
        let document = |value: &Value| parsed(&value.to_string());
        let (object, old) = (self.object.as_ref().map(document), self.old.as_ref().map(document));
        let settings = document(&self.settings);
        let judge = || {
            BundleImmutability::validate(&self.request, object.as_ref(), old.as_ref(), &settings)
        };
        let Some(objects) = &self.cluster else { return judge() };
        let mut cluster = Cluster::new(BundleImmutability::describe().reads, &settings);
        for (resource, object) in objects {
            cluster.insert(resource, &document(object));
        }
        cluster.during(judge)
    }

    /// The findings in the order of their rules; those of one rule stay in the policy's order.
    fn findings(&self) -> Vec<Finding> {
        findings(self.verdict())
    }

    fn expected(&self) -> Vec<Finding> {
        by_rule(self.expected.clone())
    }

    /// What is expected of these rules.
    fn expected_of(&self, keep: impl Fn(&str) -> bool) -> Vec<Finding> {
        by_rule(self.expected.iter().filter(|f| keep(&f.rule)).cloned().collect())
    }

    fn set(&mut self, section: &str, name: &str, value: Value) {
        let settings = self.settings.as_object_mut().expect("settings are an object");
        let section = settings.entry(section).or_insert_with(|| json!({}));
        section.as_object_mut().expect("a section is an object").insert(name.to_owned(), value);
    }
}

fn findings(verdict: Verdict) -> Vec<Finding> {
    let finding = |v: opgate_sdk::Violation| {
        let level = match v.level {
            Level::Deny => "deny",
            Level::Warn => "warn",
        };
        Finding { rule: v.rule, level, field: v.field, message: v.message }
    };
    by_rule(verdict.violations.into_iter().map(finding).collect())
}

fn not_evaluated(verdict: &Verdict) -> Option<String> {
    let mut annotations = verdict.audit_annotations.iter();
    annotations.find(|(key, _)| key == "not-evaluated").map(|(_, rules)| rules.clone())
}

fn by_rule(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by(|l, r| l.rule.cmp(&r.rule));
    findings
}

fn cases_of(table: &str) -> Vec<Case> {
    let (_, json) = TABLES.iter().find(|(name, _)| *name == table).expect("a known table");
    let cases: Vec<Value> = serde_json::from_str(json).unwrap_or_else(|e| panic!("{table}: {e}"));
    cases.iter().map(Case::read).collect()
}

fn all_cases() -> impl Iterator<Item = Case> {
    TABLES.iter().flat_map(|(table, _)| cases_of(table))
}

fn check(table: &str) {
    let cases = cases_of(table);
    let mut names = BTreeSet::new();
    let mut wrong = Vec::new();
    for case in &cases {
        assert!(names.insert(&case.name), "two cases of {table} are called {}", case.name);
        let verdict = case.verdict();
        let reason = verdict.reason.clone();
        let not_evaluated = not_evaluated(&verdict);
        if table == "cluster" {
            assert_eq!(not_evaluated, case.not_evaluated, "{}", case.name);
        }
        let found = findings(verdict);
        if found != case.expected() || reason != case.reason {
            wrong.push(format!(
                "{}\n  expected {:#?}, reason {:?}\n  found {found:#?}, reason {reason:?}",
                case.name,
                case.expected(),
                case.reason
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn a_new_bundle_is_sound() {
    check("bundle_create");
}

#[test]
fn a_bundle_does_not_change() {
    check("bundle_update");
}

#[test]
fn a_deployment_may_pivot_to_sound_content() {
    check("deployment");
}

#[test]
fn what_a_bundle_refers_to_is_sound_and_stays() {
    check("cluster");
}

#[test]
fn exemptions_reach_as_far_as_they_say() {
    check("exemption");
}

#[test]
fn values_of_the_wrong_type_get_a_sensible_answer() {
    check("hostile");
}

// Equality of specs.

struct Pair {
    why: String,
    left: Value,
    right: Value,
    equal: bool,
}

fn equality() -> Vec<Pair> {
    let pairs: Vec<Value> = serde_json::from_str(EQUALITY).expect("JSON");
    let pair = |pair: &Value| Pair {
        why: text(&pair["why"]),
        left: pair["left"].clone(),
        right: pair["right"].clone(),
        equal: pair["equal"].as_bool().expect("equal or not"),
    };
    pairs.iter().map(pair).collect()
}

/// The answer to an UPDATE of a Bundle from one spec to another, both as JSON text.
fn change(old: &str, new: &str) -> Verdict {
    let bundle = |spec: &str| parsed(&format!(r#"{{"metadata":{{"name":"b"}},"spec":{spec}}}"#));
    let request = request(Operation::Update, "Bundle", "v1alpha1");
    BundleImmutability::validate(&request, Some(&bundle(new)), Some(&bundle(old)), &parsed("{}"))
}

fn is_allowed(old: &Value, new: &Value) -> bool {
    change(&old.to_string(), &new.to_string()).violations.is_empty()
}

#[test]
fn specs_are_compared_by_their_meaning() {
    let immutable = Finding {
        rule: "RPK-01".to_owned(),
        level: "deny",
        field: "spec".to_owned(),
        message: IMMUTABLE.to_owned(),
    };
    for Pair { why, left, right, equal } in equality() {
        for (old, new) in [(&left, &right), (&right, &left)] {
            let verdict = change(&old.to_string(), &new.to_string());
            let reason = (!equal).then_some(IMMUTABLE);
            assert_eq!(verdict.reason.as_deref(), reason, "{why}: {old} to {new}");
            let expected = if equal { vec![] } else { vec![immutable.clone()] };
            assert_eq!(findings(verdict), expected, "{why}: {old} to {new}");
        }
    }
}

#[test]
fn equality_of_specs_is_an_equivalence() {
    let mut specs: Vec<Value> = Vec::new();
    for pair in equality() {
        for spec in [pair.left, pair.right] {
            if !specs.contains(&spec) {
                specs.push(spec);
            }
        }
    }
    let equal: Vec<Vec<bool>> =
        specs.iter().map(|l| specs.iter().map(|r| is_allowed(l, r)).collect()).collect();
    for (l, left) in specs.iter().enumerate() {
        assert!(equal[l][l], "{left} does not equal itself");
        for (r, right) in specs.iter().enumerate() {
            assert_eq!(equal[l][r], equal[r][l], "{left} and {right}");
            // What equals each other equals the same.
            if equal[l][r] {
                assert_eq!(equal[l], equal[r], "{left} and {right}");
            }
        }
    }
}

/// JSON text of a value with the members of every object in reverse.
fn reversed(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                format!(" {} :\n{}", Value::from(name.as_str()), reversed(value))
            };
            format!("{{{}}}", members.iter().rev().map(member).collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[ {} ]", items.iter().map(reversed).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[test]
fn neither_the_order_of_members_nor_white_space_matters() {
    assert_eq!(reversed(&json!({"a": [1], "b": "x"})), "{ \"b\" :\n\"x\", \"a\" :\n[ 1 ]}");
    for Pair { why, left, right, equal } in equality() {
        assert!(change(&left.to_string(), &reversed(&left)).violations.is_empty(), "{why}");
        let verdict = change(&left.to_string(), &reversed(&right));
        assert_eq!(verdict.violations.is_empty(), equal, "{why}");
    }
}

// Properties of every case.

#[test]
fn findings_belong_to_declared_rules() {
    let declared = BundleImmutability::describe();
    let mut found_rules = BTreeSet::new();
    for case in all_cases() {
        for finding in case.findings() {
            let rule = declared.rules.iter().find(|rule| rule.id == finding.rule);
            let rule =
                rule.unwrap_or_else(|| panic!("{}: {} is not declared", case.name, finding.rule));
            let request = &case.request;
            assert!(rule.kinds.contains(&request.kind.kind.as_str()), "{}: {finding:?}", case.name);
            assert!(rule.operations.contains(&request.operation), "{}: {finding:?}", case.name);
            let level = match rule.default_level {
                DefaultLevel::Deny => "deny",
                DefaultLevel::Warn => "warn",
                // Where a setting turns it on.
                DefaultLevel::Off => {
                    let has = |pointer: &&str| case.settings.pointer(pointer).is_some();
                    assert!(rule.enabled_by.iter().any(has), "{}: {finding:?}", case.name);
                    "deny"
                }
            };
            let is_strict = finding.rule == "RPK-08"
                && case.settings.pointer("/rukpak/strictPaths") == Some(&json!(true));
            // That a rule was left out never denies.
            let is_note = finding.message.starts_with(&format!("{} was ", finding.rule));
            let level = if is_note { "warn" } else { level };
            assert_eq!(finding.level, if is_strict { "deny" } else { level }, "{}", case.name);
            found_rules.insert(finding.rule);
        }
    }
    let rules: BTreeSet<String> = declared.rules.iter().map(|rule| rule.id.to_owned()).collect();
    assert_eq!(found_rules, rules, "every rule that can be broken is broken by a case");
}

#[test]
fn requests_for_anything_else_are_none_of_its_business() {
    for case in all_cases() {
        let mut status = case.clone();
        status.request.sub_resource = "status".to_owned();
        let mut other_group = case.clone();
        other_group.request.resource.group = "example.com".to_owned();
        let mut other_resource = case.clone();
        other_resource.request.resource.resource = "operators".to_owned();
        for other in [status, other_group, other_resource] {
            assert_eq!(other.verdict(), Verdict::default(), "{}", case.name);
        }
    }
}

#[test]
fn an_exempt_user_still_cannot_change_a_bundle() {
    let kept = |rule: &str| WITHOUT_EXEMPTION.contains(&rule);
    for mut case in all_cases() {
        let expected = case.expected_of(kept);
        let user = case.request.user.username.clone();
        let mut in_group = case.clone();
        case.set("exempt", "users", json!([user]));
        assert_eq!(case.findings(), expected, "{}", case.name);
        assert_eq!(case.verdict().reason, case.reason, "{}", case.name);
        in_group.request.user.groups.push("exempt".to_owned());
        in_group.set("exempt", "groups", json!(["exempt"]));
        assert_eq!(in_group.findings(), expected, "{}", case.name);
    }
}

/// That an object is on its way out exempts it from nothing: a finalizer keeps it there.
#[test]
fn an_object_on_its_way_out_is_judged_by_what_changes() {
    let mut checked = 0;
    for mut case in all_cases() {
        let settings = case.settings.as_object_mut().expect("settings are an object");
        settings.remove("ratcheting");
        if let Some(rukpak) = settings.get_mut("rukpak").and_then(Value::as_object_mut) {
            rukpak.remove("recheckUnchanged");
        }
        let expected = case.findings();
        case.settings["ratcheting"] = json!(false);
        case.set("rukpak", "recheckUnchanged", json!(true));
        if !expire(&mut case) {
            continue;
        }
        assert_eq!(case.findings(), expected, "{}", case.name);
        checked += 1;
    }
    assert!(checked > 100, "{checked} cases have metadata");
}

#[test]
fn an_object_on_its_way_out_may_go() {
    for mut case in unchanged() {
        case.settings["ratcheting"] = json!(false);
        case.set("rukpak", "recheckUnchanged", json!(true));
        if expire(&mut case) {
            assert_eq!(case.verdict(), Verdict::default(), "{}", case.name);
        }
    }
}

fn expire(case: &mut Case) -> bool {
    let metadata = case.object.as_mut().and_then(|o| o.get_mut("metadata"));
    let Some(metadata) = metadata.and_then(Value::as_object_mut) else { return false };
    metadata.insert("deletionTimestamp".to_owned(), json!("2024-01-01T00:00:00Z"));
    true
}

/// The cases that create something, as an UPDATE that changes nothing.
fn unchanged() -> impl Iterator<Item = Case> {
    all_cases().filter(|case| case.request.operation == Operation::Create).map(|mut case| {
        case.request.operation = Operation::Update;
        case.old.clone_from(&case.object);
        // It is called an update in the text of this rule.
        case.expected.retain(|finding| finding.rule != "RPK-24");
        let settings = case.settings.as_object_mut().expect("settings are an object");
        if let Some(rukpak) = settings.get_mut("rukpak").and_then(Value::as_object_mut) {
            rukpak.remove("allowedUsers");
            rukpak.remove("allowedGroups");
        }
        case
    })
}

#[test]
fn what_does_not_change_is_not_found_again() {
    for case in unchanged() {
        assert_eq!(case.verdict(), Verdict::default(), "{}", case.name);
    }
}

#[test]
fn without_ratcheting_it_is_found_again() {
    for mut case in unchanged() {
        case.settings["ratcheting"] = json!(false);
        let expected = case.expected_of(|rule| !CREATE_ONLY.contains(&rule));
        assert_eq!(case.findings(), expected, "{}", case.name);
    }
}

#[test]
fn on_demand_the_checks_of_the_webhook_find_it_again() {
    for mut case in unchanged() {
        case.set("rukpak", "recheckUnchanged", json!(true));
        let expected = case.expected_of(|rule| WEBHOOK.contains(&rule));
        assert_eq!(case.findings(), expected, "{}", case.name);
    }
}

#[test]
fn rule_ids_precede_messages_on_demand() {
    for mut case in all_cases() {
        if case.settings.pointer("/messages/prefixRuleId") == Some(&json!(true)) {
            continue;
        }
        case.set("messages", "prefixRuleId", json!(true));
        let mut expected = case.expected();
        for finding in &mut expected {
            finding.message = format!("{}: {}", finding.rule, finding.message);
        }
        assert_eq!(case.findings(), expected, "{}", case.name);
        assert_eq!(case.verdict().reason, case.reason, "{}", case.name);
    }
}

fn settings_schema() -> Value {
    serde_json::from_str(BundleImmutability::describe().settings_schema).expect("JSON")
}

/// Puts what the schema says about defaults where nothing is set.
fn spell_out_defaults(settings: &mut Map<String, Value>, schema: &Value) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if property.get("properties").is_some() {
            let section = settings.entry(name).or_insert_with(|| json!({}));
            spell_out_defaults(section.as_object_mut().expect("a section"), property);
        } else if let Some(default) = property.get("default") {
            settings.entry(name).or_insert_with(|| default.clone());
        }
    }
}

#[test]
fn defaults_are_what_the_schema_says() {
    let schema = settings_schema();
    for mut case in all_cases() {
        let settings = case.settings.as_object_mut().expect("settings are an object");
        spell_out_defaults(settings, &schema);
        assert!(settings["rukpak"].get("bundleDeploymentNameMax").is_some(), "nothing spelled out");
        assert_eq!(case.findings(), case.expected(), "{}", case.name);
        assert_eq!(case.verdict().reason, case.reason, "{}", case.name);
    }
}

fn assert_allowed_by(schema: &Value, settings: &Value, name: &str) {
    let Some(properties) = schema.get("properties") else { return };
    for (key, value) in settings.as_object().expect("a section") {
        let property = properties.get(key);
        let property = property.unwrap_or_else(|| panic!("{name}: the schema has no {key}"));
        assert_allowed_by(property, value, name);
    }
}

#[test]
fn the_schema_has_every_setting() {
    let schema = settings_schema();
    for case in all_cases() {
        assert_allowed_by(&schema, &case.settings, &case.name);
    }
}

// Hostile input.

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

/// One object that has everything in it, for each kind and version.
fn everything() -> Vec<(&'static str, &'static str, Value)> {
    let auth = json!({"secret": {"name": "s"}, "insecureSkipVerify": true});
    let spec = json!({
        "provisionerClassName": "core-rukpak-io-plain",
        "source": {
            "type": "configMaps",
            "image": {"ref": "a@sha256:0", "pullSecret": "s"},
            "git": {
                "repository": "r", "directory": "d", "auth": auth,
                "ref": {"branch": "b", "commit": "c", "tag": "t"},
            },
            "configMaps": [{"configMap": {"name": "a"}, "path": "p"}, {"configMap": {"name": "b"}}],
            "upload": {},
            "http": {"url": "u", "auth": auth},
        },
    });
    let owners =
        json!([{"apiVersion": "operators.operatorframework.io/v1alpha1", "kind": "Operator"}]);
    let metadata = json!({"name": "n", "ownerReferences": owners});
    let object = |spec: &Value| json!({"metadata": metadata, "spec": spec});
    let template = json!({
        "provisionerClassName": "core-rukpak-io-plain",
        "template": {"metadata": {}, "spec": spec},
    });
    vec![
        ("Bundle", "v1alpha1", object(&spec)),
        ("BundleDeployment", "v1alpha1", object(&template)),
        ("BundleDeployment", "v1alpha2", object(&spec)),
        ("ConfigMap", "v1", json!({"metadata": {"name": "a"}, "immutable": false, "data": {}})),
    ]
}

/// A cluster of objects of these resources, for settings that say nothing.
fn cluster(objects: &[(&str, Value)]) -> Cluster {
    let mut cluster = Cluster::new(BundleImmutability::describe().reads, &parsed("{}"));
    for (resource, object) in objects {
        cluster.insert(resource, &parsed(&object.to_string()));
    }
    cluster
}

/// A ConfigMap of RukPak's namespace with these files.
fn config_map(name: &str, immutable: bool, files: impl Iterator<Item = String>) -> Value {
    let files: Map<String, Value> = files.map(|file| (file, json!(""))).collect();
    let metadata = json!({"name": name, "namespace": "rukpak-system"});
    json!({"metadata": metadata, "immutable": immutable, "data": files})
}

#[test]
fn no_value_in_any_place_brings_it_down() {
    let replacements = json!([
        null, true, 0, -1, 1e308, "", "x", "../x", "git", "\u{0}", [], [null], [["../x"]],
        {}, {"": {}}, {"path": "../x"}, {"ref": []}
    ]);
    let declared = BundleImmutability::describe();
    let settings = parsed(r#"{"rukpak": {"allowedUsers": ["root"]}, "rules": {"RPK-01": "off"}}"#);
    let source = json!({"type": "configMaps", "configMaps": [{"configMap": {"name": "a"}}]});
    let objects = [
        ("configmaps", config_map("a", false, ["m".to_owned()].into_iter())),
        ("configmaps", config_map("b", true, ["m".to_owned()].into_iter())),
        ("bundles", json!({"metadata": {"name": "b"}, "spec": {"source": source}})),
    ];
    cluster(&objects).during(|| no_value_brings_it_down(&replacements, &declared, &settings));
}

fn no_value_brings_it_down(
    replacements: &Value,
    declared: &opgate_sdk::Descriptor,
    settings: &Document,
) {
    let mut asked = 0;
    for (kind, version, sound) in everything() {
        let before = parsed(&sound.to_string());
        for replacement in replacements.as_array().expect("a list") {
            for mutated in mutations(&sound, replacement) {
                let after = parsed(&mutated.to_string());
                let namespace = "rukpak-system".to_owned();
                let create = Request { namespace, ..request(Operation::Create, kind, version) };
                let update = Request { operation: Operation::Update, ..create.clone() };
                let delete = Request { operation: Operation::Delete, ..create.clone() };
                let ask = |request: &Request, object, old| {
                    let verdict =
                        BundleImmutability::validate(request, Some(object), old, settings);
                    for violation in &verdict.violations {
                        let rule = declared.rules.iter().find(|r| r.id == violation.rule);
                        assert!(rule.is_some(), "{mutated}: {violation:?}");
                        assert!(!violation.message.is_empty(), "{mutated}: {violation:?}");
                    }
                    findings(verdict)
                };
                ask(&create, &after, None);
                ask(&delete, &after, Some(&after));
                ask(&update, &after, Some(&before));
                ask(&update, &before, Some(&after));
                let same = ask(&update, &after, Some(&after));
                let access_only = same.iter().all(|finding| finding.rule == "RPK-24");
                assert!(access_only, "{mutated} differs from itself: {same:?}");
                asked += 1;
            }
        }
    }
    assert!(asked > 1000, "{asked} mutations");
}

#[test]
fn a_changed_value_in_any_place_of_a_bundle_is_a_change() {
    let (_, _, sound) = everything().remove(0);
    let paths = [
        "/provisionerClassName",
        "/source/type",
        "/source/image/ref",
        "/source/image/pullSecret",
        "/source/git/repository",
        "/source/git/directory",
        "/source/git/ref/branch",
        "/source/git/ref/commit",
        "/source/git/ref/tag",
        "/source/git/auth/secret/name",
        "/source/git/auth/insecureSkipVerify",
        "/source/configMaps/0/configMap/name",
        "/source/configMaps/0/path",
        "/source/configMaps/1/configMap/name",
        "/source/http/url",
        "/source/http/auth/secret/name",
        "/source/http/auth/insecureSkipVerify",
    ];
    for path in paths {
        for replacement in [json!("another"), json!(""), json!(null)] {
            let mut changed = sound["spec"].clone();
            *changed.pointer_mut(path).unwrap() = replacement;
            assert!(!is_allowed(&sound["spec"], &changed), "{path}");
            assert!(!is_allowed(&changed, &sound["spec"]), "{path}");
        }
    }
}

const MANY: usize = 20_000;

fn many(entry: &Value) -> Value {
    let source = json!({"type": "configMaps", "configMaps": vec![entry; MANY]});
    json!({"source": source, "provisionerClassName": "core-rukpak-io-plain"})
}

#[test]
fn each_of_very_many_paths_is_checked() {
    let created = |entry: &Value| {
        let bundle = json!({"metadata": {"name": "b"}, "spec": many(entry)});
        let request = request(Operation::Create, "Bundle", "v1alpha1");
        let bundle = parsed(&bundle.to_string());
        findings(BundleImmutability::validate(&request, Some(&bundle), None, &parsed("{}")))
    };
    assert_eq!(created(&json!({"configMap": {"name": "a"}, "path": "p"})), []);
    let found = created(&json!({"configMap": {"name": "a"}, "path": "../x"}));
    assert_eq!(found.len(), MANY);
    assert_eq!(
        found.last().unwrap().message,
        r#"bundle.spec.source.configmaps[19999].path is invalid: "../x" is outside bundle root"#
    );
}

/// The verdict on a new Bundle with these references, and how often the rule says something.
fn created_from(references: &[Value], rule: &str) -> (Verdict, usize) {
    let source = json!({"type": "configMaps", "configMaps": references});
    let spec = json!({"source": source, "provisionerClassName": "core-rukpak-io-plain"});
    let bundle = parsed(&json!({"metadata": {"name": "b"}, "spec": spec}).to_string());
    let request = request(Operation::Create, "Bundle", "v1alpha1");
    let verdict = BundleImmutability::validate(&request, Some(&bundle), None, &parsed("{}"));
    let count = verdict.violations.iter().filter(|v| v.rule == rule).count();
    (verdict, count)
}

#[test]
fn each_of_very_many_references_is_looked_up() {
    let references: Vec<_> =
        (0..MANY).map(|n| json!({"configMap": {"name": format!("a{}", n / 2)}})).collect();
    let objects: Vec<_> = (0..MANY)
        .step_by(1_000)
        .map(|n| ("configmaps", config_map(&format!("a{n}"), n % 3_000 == 0, std::iter::empty())))
        .collect();
    let found = cluster(&objects).during(|| created_from(&references, "RPK-07").1);
    // Of a0, a1000, … a9000 the first, the fourth, … are immutable; each is referred to twice.
    assert_eq!(found, 2 * 6);
}

#[test]
fn very_many_files_are_compared_up_to_a_limit_and_that_is_said() {
    let files = |of: &str| (0..300).map(|n| format!("{of}{n:03}")).collect::<Vec<_>>().into_iter();
    let objects = [
        ("configmaps", config_map("a", true, files("x"))),
        ("configmaps", config_map("b", true, files("y"))),
        ("configmaps", config_map("c", true, files("x"))),
    ];
    let references = |directories: usize, names: [&str; 2]| {
        let entry = |n| json!({"configMap": {"name": names[n % 2]}, "path": format!("{}", n / 2)});
        (0..2 * directories).map(entry).collect::<Vec<_>>()
    };
    cluster(&objects).during(|| {
        for (directories, names, duplicates, noted) in [
            (1, ["a", "b"], 0, None),
            (100, ["a", "b"], 0, None),
            (10_000, ["a", "b"], 0, Some("RPK-21")),
            (1, ["a", "c"], 300, None),
            (10_000, ["a", "a"], 0, None),
        ] {
            let (verdict, found) = created_from(&references(directories, names), "RPK-21");
            assert_eq!(found, duplicates, "{directories} of {names:?}");
            assert_eq!(not_evaluated(&verdict).as_deref(), noted, "{directories} of {names:?}");
        }
    });
}

#[test]
fn the_list_of_very_many_referring_bundles_ends() {
    let source = many(&json!({"configMap": {"name": "a"}}));
    let bundle = |n| ("bundles", json!({"metadata": {"name": format!("b{n}")}, "spec": source}));
    let objects: Vec<_> = (0..3).map(bundle).collect();
    let mut request = request(Operation::Create, "ConfigMap", "v1");
    request.namespace = "rukpak-system".to_owned();
    let object = parsed(r#"{"metadata":{"name":"a"}}"#);
    let found = cluster(&objects).during(|| {
        findings(BundleImmutability::validate(&request, Some(&object), None, &parsed("{}")))
    });
    assert!(found[0].message.contains("by bundles [b0 b0 b0"), "{found:?}");
    assert!(found[0].message.len() < 5_000, "{}", found[0].message.len());
}

#[test]
fn very_many_entries_are_compared_one_by_one() {
    let plain = many(&json!({"configMap": {"name": "a"}}));
    let spelled = many(&json!({"configMap": {"name": "a"}, "path": ""}));
    assert!(is_allowed(&plain, &spelled));
    let mut changed = spelled;
    changed["source"]["configMaps"][MANY - 1]["path"] = json!("x");
    assert!(!is_allowed(&plain, &changed));
}

/// Rules that need the cluster are named, to the user on demand, and never deny for not being
/// evaluated.
#[test]
fn what_was_not_evaluated_is_said_on_demand() {
    let bundle = r#"{"metadata":{"name":"b"},"spec":{"provisionerClassName":"core-rukpak-io-plain",
        "source":{"type":"configMaps","configMaps":[{"configMap":{"name":"a"}}]}}}"#;
    let bundle = Document::parse(bundle).unwrap();
    let mut request = Request::default();
    request.resource.group = "core.rukpak.io".into();
    request.resource.version = "v1alpha1".into();
    request.resource.resource = "bundles".into();
    for (settings, expected) in [
        ("{}", vec![]),
        (r#"{"context":{"missing":"skip"}}"#, vec![]),
        (r#"{"context":{"missing":"warn"}}"#, vec!["RPK-07", "RPK-21"]),
        (r#"{"context":{"missing":"warn"},"rules":{"RPK-07":"deny"}}"#, vec!["RPK-21"]),
    ] {
        let settings_document = Document::parse(settings).unwrap();
        let verdict =
            BundleImmutability::validate(&request, Some(&bundle), None, &settings_document);
        let rules: Vec<_> = verdict.violations.iter().map(|v| v.rule.as_str()).collect();
        assert_eq!(rules, expected, "{settings}");
        assert!(verdict.violations.iter().all(|v| v.level == Level::Warn), "{settings}");
        let noted = ("not-evaluated".to_owned(), "RPK-07 RPK-21".to_owned());
        assert_eq!(verdict.audit_annotations, [noted], "{settings}");
    }
}
