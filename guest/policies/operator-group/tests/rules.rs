//! What the policy answers, rule by rule: `cases/*.json` hold the requests, the cluster, and
//! everything that must be found, with the texts that users see. `cases/tables.json` are upstream's
//! own tables.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic, and so may what they share"
)]

mod cases;

use std::collections::BTreeSet;

use cases::{
    Case, Expected, all_cases, apis, cases_of, csv, group, modes, object, parsed, request, text,
    texts,
};
use opgate_operator_group::OperatorGroup;
use opgate_operator_group::apis::{Api, ApiSet};
use opgate_operator_group::groups::{Outcome, Surface};
use opgate_operator_group::install_modes::InstallModes;
use opgate_operator_group::namespaces::NamespaceSet;
use opgate_sdk::cluster::Cluster;
use opgate_sdk::{DefaultLevel, Document, Level, Operation, Policy, Request, Verdict};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const UPSTREAM: &str = include_str!("cases/tables.json");

trait Judged {
    fn verdict(&self) -> Verdict;

    /// What is wrong with the answer.
    fn complaint(&self) -> Option<String>;
}

impl Judged for Case {
    fn verdict(&self) -> Verdict {
        let (object, old) = (self.object.as_ref().map(parsed), self.old.as_ref().map(parsed));
        let settings = parsed(&self.settings);
        let ask =
            || OperatorGroup::validate(&self.request, object.as_ref(), old.as_ref(), &settings);
        let Some(kinds) = &self.cluster else { return ask() };
        let objects = kinds.iter().flat_map(|(kind, list)| list.iter().map(move |o| (kind, o)));
        within(objects.map(|(kind, object)| (kind.as_str(), object)), ask)
    }

    fn complaint(&self) -> Option<String> {
        let verdict = self.verdict();
        let mut wrong = Vec::new();
        let mut found: Vec<_> = verdict.violations.iter().collect();
        found.sort_by(|l, r| (&l.rule, &l.message).cmp(&(&r.rule, &r.message)));
        let mut expected: Vec<_> = self.expected.iter().collect();
        expected.sort_by(|l, r| l.finding.cmp(&r.finding));
        let same = found.len() == expected.len()
            && found.iter().zip(&expected).all(|(found, expected)| {
                let level = if found.level == Level::Deny { "deny" } else { "warn" };
                let message = &expected.finding.message;
                found.rule == expected.finding.rule
                    && level == expected.finding.level
                    && expected.field.as_ref().is_none_or(|field| *field == found.field)
                    && (found.message == *message
                        || expected.starts && found.message.starts_with(message))
            });
        if !same {
            wrong.push(format!("expected {expected:#?}\n  found {found:#?}"));
        }
        let note = |key: &str| {
            let found = verdict.audit_annotations.iter().find(|(k, _)| k == key);
            found.map(|(_, value)| value.clone())
        };
        let found = note("not-evaluated");
        if found != self.not_evaluated {
            wrong.push(format!("not evaluated: {found:?}, not {:?}", self.not_evaluated));
        }
        let found = note("olm-reason");
        if self.reason.is_some() && found != self.reason {
            wrong.push(format!("reason: {found:?}, not {:?}", self.reason));
        }
        if verdict.reason.is_some() {
            wrong.push("the reason of every denial is Forbidden".to_owned());
        }
        (!wrong.is_empty()).then(|| format!("{}\n  {}", self.name, wrong.join("\n  ")))
    }
}

/// Runs a test in a cluster.
fn within<'o, T>(
    objects: impl IntoIterator<Item = (&'o str, &'o Value)>,
    test: impl FnOnce() -> T,
) -> T {
    let mut cluster = Cluster::new(OperatorGroup::describe().reads, &parsed(&json!({})));
    for (kind, object) in objects {
        cluster.insert(kind, &parsed(object));
    }
    cluster.during(test)
}

fn check(table: &str) {
    let cases = cases_of(table);
    let mut names = BTreeSet::new();
    for case in &cases {
        assert!(names.insert(&case.name), "two cases of {table} are called {}", case.name);
    }
    let wrong: Vec<_> = cases.iter().filter_map(Case::complaint).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn groups_are_judged_by_what_they_say_and_what_there_is() {
    check("group");
}

#[test]
fn members_are_judged_by_their_group() {
    check("csv");
}

#[test]
fn accounts_are_judged_by_what_they_are_granted() {
    check("rbac");
}

#[test]
fn every_rule_has_a_case_that_breaks_it() {
    let broken: BTreeSet<_> =
        all_cases().flat_map(|case| case.expected.into_iter().map(|e| e.finding.rule)).collect();
    for rule in OperatorGroup::describe().rules {
        assert!(broken.contains(rule.id), "{}", rule.id);
    }
}

#[test]
fn levels_are_those_that_the_rules_declare() {
    let rules = OperatorGroup::describe().rules;
    for case in all_cases().filter(|case| case.settings == json!({})) {
        for Expected { finding, .. } in case.expected {
            let rule = rules.iter().find(|rule| rule.id == finding.rule).expect("a rule");
            let olm_writes =
                finding.rule == "OPG-18" && case.request.operation == Operation::Update;
            let level = match rule.default_level {
                DefaultLevel::Deny if olm_writes => continue,
                DefaultLevel::Deny => "deny",
                DefaultLevel::Warn => "warn",
                DefaultLevel::Off => panic!("{} is off", rule.id),
            };
            assert_eq!(finding.level, level, "{}: {}", case.name, finding.rule);
        }
    }
}

#[test]
fn what_does_not_change_is_not_found_again() {
    for mut case in all_cases().filter(|case| case.request.operation == Operation::Create) {
        case.request.operation = Operation::Update;
        case.old.clone_from(&case.object);
        // Who may write is not about what changes.
        case.request.user.groups.push("system:masters".to_owned());
        assert_eq!(case.verdict(), Verdict::default(), "{}", case.name);
    }
}

/// Without ratcheting, an UPDATE that changes nothing finds what is wrong, but for the rules that
/// only look at creation or at a change.
#[test]
fn without_ratcheting_it_is_found_again() {
    const OF_A_CHANGE: [&str; 8] =
        ["OPG-01", "OPG-02", "OPG-03", "OPG-17", "OPG-20", "OPG-21", "OPG-24", "OPG-35"];
    for mut case in all_cases()
        .filter(|case| case.request.operation == Operation::Create && case.cluster.is_some())
    {
        case.request.operation = Operation::Update;
        case.old.clone_from(&case.object);
        case.request.user.groups.push("system:masters".to_owned());
        case.settings["ratcheting"] = json!(false);
        case.expected.retain(|e| !OF_A_CHANGE.contains(&e.finding.rule.as_str()));
        case.reason = None;
        assert_eq!(case.complaint(), None);
    }
}

#[test]
fn nobody_who_is_exempt_is_judged() {
    for mut case in all_cases() {
        case.settings["exempt"] = json!({"groups": ["exempt"]});
        case.request.user.groups.push("exempt".to_owned());
        let found = case.verdict().violations;
        let by_access = found.iter().all(|v| matches!(v.rule.as_str(), "OPG-19" | "OPG-35"));
        assert!(by_access, "{}: {found:?}", case.name);
    }
}

// The schema of the settings.

fn schema() -> Value {
    serde_json::from_str(OperatorGroup::describe().settings_schema).expect("JSON")
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
    for mut case in all_cases() {
        spell_out_defaults(case.settings.as_object_mut().expect("settings"), &schema());
        assert_eq!(case.settings["operatorGroup"]["removeAPIs"].as_str().map(str::len), Some(4));
        assert_eq!(case.complaint(), None);
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
    for case in all_cases() {
        assert_allowed_by(&schema(), &case.settings, &case.name);
    }
    for rule in OperatorGroup::describe().rules {
        let is_off = rule.default_level == DefaultLevel::Off;
        for pointer in rule.enabled_by {
            let (section, name) = pointer.trim_start_matches('/').split_once('/').expect("two");
            let property = &schema()["properties"][section]["properties"][name];
            // Where a default were spelled out, it would turn the rule on.
            assert!(property.is_object(), "{pointer}");
            assert!(!is_off || property.get("default").is_none(), "{pointer}");
        }
    }
}

#[test]
fn rules_and_reads_name_each_other() {
    let described = OperatorGroup::describe();
    let ids: BTreeSet<_> = described.rules.iter().map(|rule| rule.id).collect();
    assert_eq!(ids.len(), 38);
    for read in described.reads {
        assert!(!read.rules.is_empty() && read.rules.iter().all(|rule| ids.contains(rule)));
    }
    for rule in described.matches.iter().flat_map(|m| m.rules) {
        assert!(ids.contains(rule), "{rule}");
    }
}

// Upstream's tables.

fn table(name: &str) -> Vec<Value> {
    let tables: Value = serde_json::from_str(UPSTREAM).expect("JSON");
    tables[name].as_array().unwrap_or_else(|| panic!("no table {name}")).clone()
}

fn set(value: &Value) -> NamespaceSet {
    texts(value).into_iter().collect()
}

#[test]
fn namespace_sets_are_upstreams() {
    for row in table("intersection") {
        let (left, right, want) = (set(&row["left"]), set(&row["right"]), set(&row["want"]));
        assert_eq!(left.intersection(&right), want, "{row}");
        assert_eq!(left.meets(&right), !want.is_empty(), "{row}");
    }
    for row in table("union") {
        assert_eq!(set(&row["left"]).union(&set(&row["right"])), set(&row["want"]), "{row}");
    }
    for row in table("isAll") {
        assert_eq!(json!(set(&row["set"]).is_all()), row["want"], "{row}");
    }
    for row in table("contains") {
        assert_eq!(json!(set(&row["set"]).contains(&text(&row["name"]))), row["want"], "{row}");
    }
    for row in table("fromText") {
        let set = NamespaceSet::from_text(&text(&row["text"]));
        assert_eq!(json!(set.contains(&text(&row["name"]))), row["want"], "{row}");
    }
}

fn surface(value: &Value) -> Surface {
    Surface::of(&parsed(value))
}

#[test]
fn groups_reach_what_upstream_says() {
    for row in table("newGroup") {
        let mut metadata = json!({"name": "g", "namespace": "ns"});
        if row["annotation"].is_string() {
            metadata["annotations"] = json!({"olm.providedAPIs": row["annotation"]});
        }
        let found =
            surface(&json!({"metadata": metadata, "status": {"namespaces": row["status"]}}));
        assert_eq!(found.reach, set(&row["reach"]), "{row}");
        assert_eq!(found.apis.texts(), texts(&row["apis"]), "{row}");
    }
    for row in table("groupIntersection") {
        let left = surface(&group(&text(&row["left"])));
        let others: Vec<_> = texts(&row["others"]).iter().map(|o| surface(&group(o))).collect();
        let met: Vec<_> = left.meeting(&others).map(|other| other.namespace.clone()).collect();
        assert_eq!(met, texts(&row["want"]), "{row}");
    }
}

#[test]
fn apis_are_read_and_written_as_upstream() {
    for row in table("parse") {
        let read = ApiSet::parse(&text(&row["text"]));
        assert_eq!(read.texts(), texts(&row["want"]), "{row}");
        assert_eq!(ApiSet::parse(&read.to_string()), read, "{row}");
    }
    for row in table("key") {
        let [kind, version, group] = ["kind", "version", "group"].map(|key| text(&row[key]));
        assert_eq!(Api::new(&kind, &version, &group).to_string(), text(&row["want"]), "{row}");
    }
    for row in table("set") {
        let apis = row["apis"].as_array().expect("a list").iter().map(|api| {
            let parts = texts(api);
            Api::new(&parts[0], &parts[1], &parts[2])
        });
        assert_eq!(apis.collect::<ApiSet>().to_string(), text(&row["want"]), "{row}");
    }
}

/// Each case once as upstream computes it, and once as what is said to who creates the member.
#[test]
fn apis_are_reconciled_as_upstream() {
    let rows = table("reconcile");
    assert_eq!(rows.len(), 26);
    for row in rows {
        let own = format!("ns:{}", text(&row["group"]));
        let others: Vec<_> = texts(&row["others"]).iter().map(|other| group(other)).collect();
        let surfaces: Vec<_> = others.iter().map(surface).collect();
        let add = text(&row["add"]);
        let outcome = surface(&group(&own)).reconcile(&ApiSet::parse(&apis(&add)), &surfaces);
        assert_eq!(format!("{outcome:?}"), text(&row["want"]), "{row}");

        for is_static in [false, true] {
            let mut groups = others.clone();
            groups.push(group(&format!("{own}{}", if is_static { " static" } else { "" })));
            let mut short = json!({"csv": "c", "namespace": "ns", "modes": "OSMA"});
            if !add.is_empty() {
                short["own"] = json!(add);
            }
            let member = csv(short.as_object().expect("an object"));
            let expected = match (outcome, is_static) {
                (Outcome::NoConflict, _) | (Outcome::Add, false) => vec![],
                (Outcome::Add | Outcome::Remove, true) => vec![("OPG-27", Level::Deny)],
                (Outcome::Remove, false) => vec![("OPG-26", Level::Warn)],
                (Outcome::Conflict, _) => vec![("OPG-25", Level::Deny)],
            };
            let found = within(groups.iter().map(|g| ("operatorgroups", g)), || {
                create("clusterserviceversions", &member)
            });
            let found: Vec<_> =
                found.violations.iter().map(|v| (v.rule.as_str(), v.level)).collect();
            assert_eq!(found, expected, "{row}, static: {is_static}");
        }
    }
}

#[test]
fn install_modes_support_what_upstream_says() {
    for row in table("supports") {
        let modes = InstallModes::new(modes(&text(&row["modes"])));
        let namespaces = texts(&row["namespaces"]);
        let namespaces: Vec<_> = namespaces.iter().map(String::as_str).collect();
        let found = modes.supports(&text(&row["own"]), &namespaces);
        assert_eq!(found.err().unwrap_or_default(), text(&row["want"]), "{row}");
    }
}

// Properties.

/// The answer to a CREATE in the cluster around it.
fn create(resource: &str, object: &Value) -> Verdict {
    let mut request = request(resource);
    request.namespace = text(&object["metadata"]["namespace"]);
    request.name = text(&object["metadata"]["name"]);
    OperatorGroup::validate(&request, Some(&parsed(object)), None, &parsed(&json!({})))
}

fn names() -> impl Strategy<Value = NamespaceSet> {
    let some = proptest::collection::btree_set("[a-e]", 0..4);
    prop_oneof![
        4 => some.prop_map(|names| names.into_iter().collect()),
        1 => Just(NamespaceSet::all()),
    ]
}

/// A group in one of five namespaces, with targets by name or label or all, and some of four APIs.
fn any_group() -> impl Strategy<Value = Value> {
    let targets = prop_oneof![
        3 => proptest::collection::btree_set("[a-e]", 1..3)
            .prop_map(|names| json!({"targetNamespaces": names})),
        1 => Just(json!({})),
        2 => "[a-e]".prop_map(|label| json!({"selector": {"matchExpressions":
            [{"key": label, "operator": "Exists"}]}})),
    ];
    let apis = proptest::collection::btree_set("[K-N]", 0..3);
    ("[a-e]", targets, apis, any::<bool>()).prop_map(|(namespace, spec, apis, synchronised)| {
        let apis: Vec<_> = apis.iter().map(|kind| format!("{kind}.v1.example.com")).collect();
        let mut group = json!({
            "metadata": {
                "namespace": namespace,
                "name": "g",
                "annotations": {"olm.providedAPIs": apis.join(", ")},
            },
            "spec": spec,
        });
        if synchronised {
            let targets = targets_of(&group);
            if !targets.is_empty() {
                group["status"] = json!({"namespaces": targets});
            }
        }
        group
    })
}

/// The Namespaces of the property test: each has its name and that of its successor as a label.
fn namespaces() -> Vec<Value> {
    let names = ["a", "b", "c", "d", "e"];
    let namespace = |i: usize| json!({"metadata": {"name": names[i], "labels": {names[i]: "", names[(i + 1) % 4]: ""}}});
    (0..names.len()).map(namespace).collect()
}

/// Where a group of the property test works, told without the policy.
fn targets_of(group: &Value) -> Vec<String> {
    let spec = &group["spec"];
    if let Some(key) = spec.pointer("/selector/matchExpressions/0/key") {
        let labelled = |n: &Value| n["metadata"]["labels"].get(text(key)).is_some();
        let found = namespaces().into_iter().filter(labelled);
        return found.map(|n| text(&n["metadata"]["name"])).collect();
    }
    let names = texts(&spec["targetNamespaces"]);
    if names.is_empty() { vec![String::new()] } else { names }
}

fn conflicts(left: &Value, right: &Value) -> bool {
    let synchronised = |group: &Value| {
        let mut group = group.clone();
        group["status"] = json!({"namespaces": targets_of(&group)});
        surface(&group)
    };
    let (left, right) = (synchronised(left), synchronised(right));
    !left.reach.intersection(&right.reach).is_empty()
        && !left.apis.intersection(&right.apis).is_empty()
}

proptest! {
    #[test]
    fn intersection_is_symmetric(left in names(), right in names()) {
        prop_assert_eq!(left.intersection(&right), right.intersection(&left));
        prop_assert_eq!(left.union(&right), right.union(&left));
        prop_assert_eq!(left.meets(&right), right.meets(&left));
        prop_assert_eq!(left.meets(&right), !left.intersection(&right).is_empty());
    }

    #[test]
    fn a_group_for_all_meets_everything_that_has_targets(other in names()) {
        prop_assert_eq!(NamespaceSet::all().meets(&other), !other.is_empty());
        prop_assert!(NamespaceSet::all().contains("any"));
    }

    #[test]
    fn a_group_with_targets_works_in_its_own_namespace(targets in names(), own in "[a-g]") {
        let reach = opgate_operator_group::groups::reach(&targets, &own);
        prop_assert_eq!(reach.contains(&own), !targets.is_empty());
        prop_assert!(targets.iter().all(|name| reach.contains(name)));
        prop_assert_eq!(reach.is_all(), targets.is_all());
    }

    /// Whatever is created in whatever order, what got in never conflicts; and what was refused
    /// would have.
    #[test]
    fn groups_that_got_in_do_not_conflict(groups in proptest::collection::vec(any_group(), 0..12)) {
        let namespaces = namespaces();
        let mut admitted: Vec<Value> = Vec::new();
        for group in groups {
            let there = admitted.iter().map(|g| ("operatorgroups", g));
            let there = there.chain(namespaces.iter().map(|n| ("namespaces", n)));
            let verdict = within(there, || create("operatorgroups", &group));
            let refused_by = |rule: &str| {
                verdict.violations.iter().any(|v| v.rule == rule && v.level == Level::Deny)
            };
            let in_the_way = admitted.iter().any(|other| conflicts(other, &group));
            let namespace = &group["metadata"]["namespace"];
            let same = admitted.iter().any(|other| other["metadata"]["namespace"] == *namespace);
            // A group of the same key is the group itself.
            if same {
                continue;
            }
            prop_assert_eq!(refused_by("OPG-18"), in_the_way, "{} in {:?}", group, admitted);
            if !verdict.violations.iter().any(|v| v.level == Level::Deny) {
                admitted.push(group);
            }
        }
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

#[test]
fn no_value_in_any_place_brings_it_down() {
    let replacements = json!([
        null, true, -1, 1e308, "", "x", "\u{0}", ".", [], [null], [[""]], {}, {"": {}}
    ]);
    let group = json!({
        "metadata": {"name": "g", "namespace": "ns", "labels": {"a": "b"}, "annotations": {
            "olm.providedAPIs": "Goose.v1alpha1.birds.com",
            "operatorframework.io/bundle-unpack-timeout": "1m",
        }},
        "spec": {
            "targetNamespaces": ["a"], "serviceAccountName": "s", "staticProvidedAPIs": true,
            "selector": {"matchLabels": {"a": "b"}, "matchExpressions":
                [{"key": "a", "operator": "In", "values": ["b"]}]},
        },
        "status": {"namespaces": ["a", "b"]},
    });
    let object = |short: Value| object(&short);
    let account = "ServiceAccount ns/s";
    let sound = [
        ("operatorgroups", group),
        (
            "clusterserviceversions",
            object(json!({"csv": "c", "namespace": "ns", "modes": "O", "own": "Goose",
                "services": "Moose", "replaces": "b", "skips": ["a"], "labels": {"a": "b"},
                "annotations": {"olm.operatorGroup": "x"}, "phase": "Failed", "reason": "x",
                "permissions": ["get pods core a"], "clusterPermissions": ["get /a"],
                "pulls": ["p"]})),
        ),
        (
            "clusterroles",
            object(json!({"role": "r", "rules": ["create customresourcedefinitions * a"],
                "gathers": [{"matchLabels": {"a": "b"}}]})),
        ),
        (
            "clusterrolebindings",
            object(json!({"binding": "b", "to": "ClusterRole r", "subjects": [account]})),
        ),
        ("roles", object(json!({"role": "ns/r", "rules": ["create operatorgroups *"]}))),
        ("rolebindings", object(json!({"binding": "ns/b", "to": "Role r", "subjects": [account]}))),
    ];
    let rules = OperatorGroup::describe().rules;
    let settings =
        parsed(&json!({"rules": {"OPG-36": "warn", "OPG-37": "warn", "OPG-38": "warn"}}));
    let ask = |request: &Request, object: &Document, old: Option<&Document>| {
        let verdict = OperatorGroup::validate(request, Some(object), old, &settings);
        for violation in &verdict.violations {
            assert!(rules.iter().any(|rule| rule.id == violation.rule));
        }
        verdict
    };
    let request = |resource: &str| Request {
        namespace: if resource.starts_with("cluster") && resource != "clusterserviceversions" {
            String::new()
        } else {
            "ns".to_owned()
        },
        name: "x".to_owned(),
        ..request(resource)
    };
    let mut asked = 0;
    let reviewed = sound.iter().filter(|(resource, _)| *resource != "rolebindings");
    let reviewed: Vec<_> = reviewed.map(|(r, object)| (request(r), parsed(object))).collect();
    for (resource, before) in &sound {
        for replacement in replacements.as_array().expect("a list") {
            for mutated in mutations(before, replacement) {
                // What stands in the cluster may be as wrong as what is sent, if it has a name.
                let mut there: Vec<_> = sound.iter().map(|(r, object)| (*r, object)).collect();
                if mutated.pointer("/metadata/name").is_some_and(Value::is_string) {
                    there.push((resource, &mutated));
                }
                within(there, || {
                    for (request, object) in &reviewed {
                        ask(request, object, None);
                    }
                    if *resource == "rolebindings" {
                        return;
                    }
                    let mut request = request(resource);
                    let (before, after) = (parsed(before), parsed(&mutated));
                    ask(&request, &after, None);
                    request.operation = Operation::Update;
                    ask(&request, &after, Some(&before));
                    ask(&request, &before, Some(&after));
                    let same = ask(&request, &after, Some(&after));
                    assert_eq!(same.violations, [], "{mutated} differs from itself");
                });
                asked += 1;
            }
        }
    }
    assert!(asked > 1_500, "{asked} mutations");
}

/// Thousands of names and APIs are judged one by one, and told in one message.
#[test]
fn very_many_names_and_apis_are_judged() {
    let many = 20_000;
    let names: Vec<_> = (0..many).map(|i| format!("ns-{i:05}")).collect();
    let apis: Vec<_> = (0..many).map(|i| format!("K{i}.v1.g")).collect();
    let big = |namespace: &str| {
        json!({
            "metadata": {"namespace": namespace, "name": "g",
                "annotations": {"olm.providedAPIs": apis.join(",")}},
            "spec": {"targetNamespaces": names},
        })
    };
    let other = big("x");
    let found = within([("operatorgroups", &other)], || create("operatorgroups", &big("y")));
    let denied: Vec<_> = found.violations.iter().filter(|v| v.level == Level::Deny).collect();
    assert_eq!(denied.len(), 1);
    assert!(denied[0].message.len() < 1_000, "{}", denied[0].message);
    assert!(denied[0].message.contains("and 19995 more"), "{}", denied[0].message);

    let mut twice = big("y");
    twice["spec"]["targetNamespaces"] = json!(vec!["a"; many]);
    twice["metadata"]["annotations"]["olm.providedAPIs"] = json!("x,".repeat(many));
    let found = within([], || create("operatorgroups", &twice));
    assert!(found.violations.len() < 50, "{}", found.violations.len());
}

/// A call has a fixed time: what would take longer is left out, unless nothing changes.
#[test]
fn what_is_too_large_is_left_out_or_refused() {
    let nothing = json!(vec![json!({}); 60_000]);
    let account = "ServiceAccount ns/a";
    let role = |name: &str| json!({"role": name, "rules": nothing});
    let binding = |name: &str, to: &str| json!({"binding": name, "to": to, "subjects": [account]});
    let group = "ns/g:[ns]{} as a";
    let member = json!({"csv": "c", "namespace": "ns", "modes": "O", "pulls": ["p"],
        "permissions": ["get pods core"]});
    let inside = json!({"operatorgroups": [group], "roles": [role("ns/r")],
        "rolebindings": [binding("ns/b", "Role r")]});
    let mut with_member = inside.clone();
    with_member["operatorgroups"] = json!([]);
    with_member["clusterserviceversions"] = json!([member]);
    with_member["serviceaccounts"] = json!(["ns/a"]);
    let everywhere = json!({"serviceaccounts": ["ns/a"], "clusterroles": [role("r")],
        "clusterrolebindings": [binding("b", "ClusterRole r")]});
    let many_subjects = json!({"binding": "b", "to": "ClusterRole r", "subjects": nothing});
    let itself = "the object itself";
    for (rule, kind, object, cluster, too_large) in [
        ("OPG-32", "OperatorGroup", json!(group), everywhere.clone(), "clusterroles r"),
        ("OPG-33", "ClusterRole", role("r"), json!({}), itself),
        (
            "OPG-33",
            "ClusterRoleBinding",
            binding("b", "ClusterRole r"),
            everywhere,
            "clusterroles r",
        ),
        ("OPG-33", "ClusterRoleBinding", many_subjects, json!({}), itself),
        ("OPG-36", "Role", role("ns/r"), json!({}), itself),
        ("OPG-37", "ClusterServiceVersion", member, inside, "roles ns/r"),
        ("OPG-38", "OperatorGroup", json!(group), with_member, "roles ns/r"),
    ] {
        let message =
            format!("{rule} was not evaluated: there is more to compare than the time allows");
        let mut case = Case::read(&json!({
            "name": format!("{rule}: {kind}"), "kind": kind, "object": object, "cluster": cluster,
            "settings": {"context": {"missing": "warn"}, "rules": {rule: "warn"}},
            "notEvaluated": rule,
            "expected": [{"rule": rule, "level": "warn", "message": message}],
        }));
        assert_eq!(case.complaint(), None);
        case.request.operation = Operation::Update;
        case.old.clone_from(&case.object);
        assert_eq!(case.verdict(), Verdict::default(), "{}", case.name);
        case.settings["rules"][rule] = json!("off");
        case.request.operation = Operation::Create;
        assert_eq!(case.verdict(), Verdict::default(), "{}", case.name);
        // What denies does not pass what nobody can judge, and says what that is.
        case.settings["rules"][rule] = json!("deny");
        let verdict = case.verdict();
        let [violation] = verdict.violations.as_slice() else {
            panic!("{}: {verdict:?}", case.name)
        };
        assert_eq!(
            (violation.rule.as_str(), violation.level),
            (rule, Level::Deny),
            "{}",
            case.name
        );
        let start = format!("{too_large}: there is more to compare than 500000 steps allow");
        assert!(violation.message.starts_with(&start), "{}: {}", case.name, violation.message);
        assert_eq!(verdict.audit_annotations, [], "{}", case.name);
    }
}

/// What is found before the work is used up is told beside what used it up.
#[test]
fn what_is_found_in_something_too_large_is_told() {
    let mut rules = vec![json!({"verbs": ["*"], "resources": ["*"], "apiGroups": ["*"]})];
    rules.extend(vec![json!({}); 60_000]);
    let role = json!({"role": "ns/r", "rules": rules});
    let asked = json!({"csv": "c", "namespace": "ns", "modes": "O", "permissions": rules});
    for (rule, kind, object) in
        [("OPG-36", "Role", role), ("OPG-37", "ClusterServiceVersion", asked)]
    {
        let case = Case::read(&json!({
            "name": rule, "kind": kind, "object": object, "expected": [],
            "cluster": {"operatorgroups": ["ns/g:[ns]{} as a"]},
            "settings": {"rules": {rule: "deny"}},
        }));
        let found = case.verdict().violations;
        let texts: Vec<_> = found.iter().map(|v| v.message.as_str()).collect();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts.iter().any(|text| text.contains("there is more to compare")), "{texts:?}");
        let told = ["allows its subjects to install", "lacks * *.* in namespace ns"];
        assert!(told.iter().any(|told| texts.iter().any(|t| t.contains(told))), "{texts:?}");
    }
}

/// A verdict has room for what the other rules find.
#[test]
fn very_many_missing_permissions_are_told_in_part() {
    let asked: Vec<_> = (0..1_000).map(|i| format!("get r{i} core")).collect();
    let mut case = Case::read(&json!({
        "kind": "ClusterServiceVersion", "expected": [],
        "object": {"csv": "c", "namespace": "ns", "modes": "O", "permissions": asked},
        "cluster": {"operatorgroups": ["ns/g:[ns]{} as a"]},
        "settings": {"rules": {"OPG-37": "warn"}},
    }));
    let found = case.verdict().violations;
    assert!((1..50).contains(&found.len()), "{}", found.len());
    assert!(found.iter().all(|v| v.rule == "OPG-37"), "{found:?}");
    case.settings = json!({});
    assert_eq!(case.verdict(), Verdict::default());
}

/// The documented member of a group for its own namespace.
#[test]
fn a_documented_member_passes_in_its_group() {
    let groups = group("tenant-a/my-group:[tenant-a]{}");
    let member = json!({"csv": "etcdoperator.v0.9.4", "namespace": "tenant-a", "modes": "OSmA",
        "own": "EtcdCluster.v1beta2.etcd.database.coreos.com", "replaces": "etcdoperator.v0.9.2"});
    let member = csv(member.as_object().expect("an object"));
    let found = within([("operatorgroups", &groups)], || create("clusterserviceversions", &member));
    assert_eq!(found, Verdict::default());
}
