//! The verdicts of the policy: the cases of its rules, properties of all cases, and properties that
//! no case can show.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic, and so may what they share"
)]

use std::collections::BTreeMap;

use opgate_bundle_immutability::POLICY;
use opgate_sdk::cluster::Cluster;
use opgate_sdk::{
    Document, GroupVersionResource, Operation, Request, RequestParts, Verdict, Violation,
};
use opgate_sdk_testing::native::{cases, verdict};
use opgate_sdk_testing::{Case, Expectation};
use serde_json::{Map, Value, json};

opgate_sdk_testing::tests!(POLICY);

const IMMUTABLE: &str = "bundle.spec is immutable";

fn all_cases() -> Vec<Case> {
    cases(&POLICY, DIRECTORY)
}

fn parsed(value: &Value) -> Document {
    Document::parse(&value.to_string()).expect("JSON")
}

/// A request for one of the three kinds, as the API server fills it in.
fn request(operation: Operation, kind: &str, version: &str) -> Request<'static> {
    let group = if kind == "ConfigMap" { "" } else { "core.rukpak.io" }.to_owned();
    let resource = format!("{}s", kind.to_lowercase());
    let mut parts = RequestParts { operation, ..RequestParts::default() };
    parts.resource = GroupVersionResource { group, version: version.to_owned(), resource };
    "rukpak-system".clone_into(&mut parts.namespace);
    parts.into()
}

/// The verdict with empty settings.
fn evaluate(request: &Request<'_>, object: Option<&Value>, old: Option<&Value>) -> Verdict {
    let settings = parsed(&json!({}));
    let routes = POLICY.routes_of(request, &settings);
    let (object, old) = (object.map(parsed), old.map(parsed));
    POLICY.validate(request, routes, object.as_ref(), old.as_ref(), &settings)
}

fn rules_of(verdict: &Verdict) -> Vec<&str> {
    let mut rules: Vec<_> = verdict.violations.iter().map(|v| v.rule.as_str()).collect();
    rules.sort_unstable();
    rules
}

fn set(case: &mut Case, section: &str, name: &str, value: Value) {
    case.settings[section][name] = value;
}

// Equality of specs.

/// The specs of the cases of RPK-01, before and after, and whether they are equal.
fn pairs() -> Vec<(Value, Value, bool)> {
    let is_about_specs = |case: &Case| {
        let is_plain = case.settings == json!({}) && case.request.sub_resource.is_none();
        case.rule == "RPK-01" && case.operation == "UPDATE" && is_plain
    };
    let pair = |case: Case| {
        let spec = |object: Option<Value>| object.expect("an object")["spec"].clone();
        (spec(case.old), spec(case.object), case.expects == Expectation::Accept)
    };
    let pairs: Vec<_> = all_cases().into_iter().filter(is_about_specs).map(pair).collect();
    assert!(pairs.len() > 50, "{} pairs", pairs.len());
    pairs
}

/// The verdict on an UPDATE of a Bundle from one spec to another.
fn change(old: &Value, new: &Value) -> Verdict {
    let bundle = |spec: &Value| json!({"metadata": {"name": "b"}, "spec": spec});
    let request = request(Operation::Update, "Bundle", "v1alpha1");
    evaluate(&request, Some(&bundle(new)), Some(&bundle(old)))
}

fn is_allowed(old: &Value, new: &Value) -> bool {
    change(old, new).violations.is_empty()
}

#[test]
fn specs_are_compared_alike_in_both_directions() {
    for (left, right, equal) in pairs() {
        for (old, new) in [(&left, &right), (&right, &left)] {
            let verdict = change(old, new);
            let reason = (!equal).then_some(IMMUTABLE);
            assert_eq!(verdict.reason.as_deref(), reason, "{old} to {new}");
            let expected: &[&str] = if equal { &[] } else { &["RPK-01"] };
            assert_eq!(rules_of(&verdict), expected, "{old} to {new}");
        }
    }
}

#[test]
fn equality_of_specs_is_an_equivalence() {
    let mut specs: Vec<Value> = Vec::new();
    for (left, right, _) in pairs() {
        for spec in [left, right] {
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
            // Equality is transitive.
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
    let request = request(Operation::Update, "Bundle", "v1alpha1");
    let settings = parsed(&json!({}));
    let bundle = |spec: &str| Document::parse(&format!(r#"{{"spec":{spec}}}"#)).expect("JSON");
    for (left, right, equal) in pairs() {
        let (before, same, after) =
            (bundle(&left.to_string()), bundle(&reversed(&left)), bundle(&reversed(&right)));
        let allowed = |new: &Document| {
            POLICY.validate(&request, 1, Some(new), Some(&before), &settings).violations.is_empty()
        };
        assert!(allowed(&same), "{left}");
        assert_eq!(allowed(&after), equal, "{left} to {right}");
    }
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
            *changed.pointer_mut(path).expect("it is there") = replacement;
            assert!(!is_allowed(&sound["spec"], &changed), "{path}");
            assert!(!is_allowed(&changed, &sound["spec"]), "{path}");
        }
    }
}

// Properties of every case.

#[test]
fn violations_occur_only_for_declared_targets() {
    for case in all_cases() {
        let [_, _, _, kind] = case.resource();
        for violation in verdict(&POLICY, &case).violations {
            let rules = POLICY.all_rules();
            let rule = rules.iter().find(|r| r.id == violation.rule).expect("it is declared");
            let operation = |operation: &Operation| {
                format!("{operation:?}").to_uppercase().ends_with(case.operation)
            };
            let looks = rule.on.iter().any(|(on, o)| on.kind == kind && o.iter().any(operation));
            assert!(looks, "{}: {}: {violation:?}", case.rule, case.name);
        }
    }
}

#[test]
fn an_exempt_user_still_cannot_change_a_bundle() {
    let never: Vec<_> = POLICY.all_rules().into_iter().filter(|r| r.no_exemptions).collect();
    assert_eq!(never.iter().map(|rule| rule.id).collect::<Vec<_>>(), ["RPK-01", "RPK-24"]);
    for mut case in all_cases() {
        let mut expected = verdict(&POLICY, &case);
        expected.violations.retain(|v| never.iter().any(|rule| rule.id == v.rule));
        expected.skipped.clear();
        let mut in_group = case.clone();
        let user = case.request.user.clone().unwrap_or_default();
        set(&mut case, "exempt", "users", json!([user]));
        assert_eq!(verdict(&POLICY, &case), expected, "{}: {}", case.rule, case.name);
        in_group.request.groups.push("exempt".to_owned());
        set(&mut in_group, "exempt", "groups", json!(["exempt"]));
        assert_eq!(verdict(&POLICY, &in_group), expected, "{}: {}", case.rule, case.name);
    }
}

fn expire(case: &mut Case) -> bool {
    let metadata = case.object.as_mut().and_then(|o| o.get_mut("metadata"));
    let Some(metadata) = metadata.and_then(Value::as_object_mut) else { return false };
    metadata.insert("deletionTimestamp".to_owned(), json!("2024-01-01T00:00:00Z"));
    true
}

/// An object that is being deleted is not exempt: a finalizer can keep it.
#[test]
fn deleted_object_with_finalizer_is_evaluated_by_its_changes() {
    let mut checked = 0;
    for mut case in all_cases() {
        set(&mut case, "rukpak", "recheckUnchanged", json!(false));
        case.settings["ratcheting"] = json!(true);
        let expected = verdict(&POLICY, &case);
        set(&mut case, "rukpak", "recheckUnchanged", json!(true));
        case.settings["ratcheting"] = json!(false);
        if expire(&mut case) {
            assert_eq!(verdict(&POLICY, &case), expected, "{}: {}", case.rule, case.name);
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked} cases have metadata");
}

/// The cases that create an object, as an UPDATE that changes nothing, with the violations of the
/// creation.
fn unchanged() -> Vec<(Case, Vec<Violation>)> {
    let created = all_cases().into_iter().filter(|case| case.operation == "CREATE");
    let update = |mut case: Case| {
        let found = verdict(&POLICY, &case).violations;
        case.operation = "UPDATE";
        case.old.clone_from(&case.object);
        (case, found)
    };
    created
        .map(|mut case| {
            // RPK-24 evaluates the user, not the changes.
            if let Some(rukpak) = case.settings.get_mut("rukpak").and_then(Value::as_object_mut) {
                rukpak.remove("allowedUsers");
                rukpak.remove("allowedGroups");
            }
            case
        })
        .map(update)
        .collect()
}

#[test]
fn unchanged_violations_are_not_reported_again() {
    for (mut case, _) in unchanged() {
        assert_eq!(verdict(&POLICY, &case), nothing(), "{}: {}", case.rule, case.name);
        case.settings["ratcheting"] = json!(false);
        set(&mut case, "rukpak", "recheckUnchanged", json!(true));
        if expire(&mut case) {
            assert_eq!(verdict(&POLICY, &case), nothing(), "{}: {}", case.rule, case.name);
        }
    }
}

fn nothing() -> Verdict {
    Verdict { violations: vec![], reason: None, audit_annotations: vec![], skipped: vec![] }
}

/// Rules that only creation can break.
const CREATE_ONLY: [&str; 6] = ["RPK-08", "RPK-14", "RPK-15", "RPK-18", "RPK-19", "RPK-21"];
/// The checks of upstream's webhooks, which upstream repeats on every UPDATE.
const WEBHOOK: [&str; 7] = ["RPK-02", "RPK-03", "RPK-04", "RPK-05", "RPK-06", "RPK-07", "RPK-22"];

fn assert_found_again(case: &Case, found: Vec<Violation>, keep: impl Fn(&str) -> bool) {
    let mut expected = found;
    expected.retain(|violation| keep(&violation.rule));
    assert_eq!(verdict(&POLICY, case).violations, expected, "{}: {}", case.rule, case.name);
}

#[test]
fn unchanged_violations_are_reported_without_ratcheting() {
    for (mut case, found) in unchanged() {
        case.settings["ratcheting"] = json!(false);
        assert_found_again(&case, found, |rule| !CREATE_ONLY.contains(&rule));
    }
}

#[test]
fn webhook_checks_report_unchanged_violations_on_demand() {
    for (mut case, found) in unchanged() {
        set(&mut case, "rukpak", "recheckUnchanged", json!(true));
        assert_found_again(&case, found, |rule| WEBHOOK.contains(&rule));
    }
}

// Settings.

fn settings_schema() -> Value {
    serde_json::from_str(&POLICY.describe().settings_schema).expect("JSON")
}

/// Adds the defaults of the schema for settings that are not set.
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
fn defaults_equal_those_of_the_schema() {
    let schema = settings_schema();
    for mut case in all_cases() {
        let expected = verdict(&POLICY, &case);
        let settings = case.settings.as_object_mut().expect("settings are an object");
        spell_out_defaults(settings, &schema);
        assert!(settings["rukpak"].get("bundleDeploymentNameMax").is_some(), "nothing spelled out");
        assert_eq!(verdict(&POLICY, &case), expected, "{}: {}", case.rule, case.name);
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

/// Requests that no API server sends: the policy evaluates the fields that are set.
#[test]
fn requests_with_missing_or_extra_objects_are_evaluated() {
    let spec = |class: &str| {
        json!({
            "source": {"type": "git", "image": {"ref": "a"}},
            "provisionerClassName": class,
        })
    };
    let object = |spec: &Value| json!({"metadata": {"name": "n"}, "spec": spec});
    let unsound = object(&spec("core-rukpak-io-plain"));
    let odd = object(&json!({
        "provisionerClassName": "bar",
        "template": {"metadata": {"labels": {"app": "my-bundle"}}, "spec": spec("foo")},
    }));
    let list = json!([]);
    for (name, operation, kind, object, old, expected) in [
        ("a list", Operation::Create, "Bundle", Some(&list), None, &["RPK-12", "RPK-12"][..]),
        (
            "the creation of a Bundle that was there before",
            Operation::Create,
            "Bundle",
            Some(&unsound),
            Some(&unsound),
            &["RPK-03", "RPK-17"],
        ),
        (
            "the creation of a deployment that was there before",
            Operation::Create,
            "BundleDeployment",
            Some(&odd),
            Some(&odd),
            &["RPK-16", "RPK-16", "RPK-17", "RPK-23"],
        ),
        (
            "an UPDATE of nothing",
            Operation::Update,
            "Bundle",
            Some(&unsound),
            None,
            &["RPK-03", "RPK-17"],
        ),
        ("an UPDATE to nothing", Operation::Update, "Bundle", None, Some(&unsound), &[]),
        (
            "the deletion of an unchanged Bundle",
            Operation::Delete,
            "Bundle",
            Some(&unsound),
            Some(&unsound),
            &[],
        ),
        (
            "the deletion of an unchanged deployment",
            Operation::Delete,
            "BundleDeployment",
            Some(&odd),
            Some(&odd),
            &[],
        ),
    ] {
        let verdict = evaluate(&request(operation, kind, "v1alpha1"), object, old);
        assert_eq!(rules_of(&verdict), expected, "{name}");
    }
}

/// One object with all fields, for each kind and version.
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

/// Every way to replace one value inside `value` with `replacement`.
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

/// A value that is the same in the old object counts as unchanged, at every pointer.
#[test]
fn any_equal_value_counts_as_unchanged() {
    let replacements = json!([
        null, true, 0, -1, 1e308, "", "x", "../x", "git", "\u{0}", [], [null], [["../x"]],
        {}, {"": {}}, {"path": "../x"}, {"ref": []}
    ]);
    let objects = [("configmaps", config_map("a", false, std::iter::empty()))];
    cluster(&objects).run(|| {
        let mut asked = 0;
        for (kind, version, sound) in everything() {
            let update = request(Operation::Update, kind, version);
            for replacement in replacements.as_array().expect("a list") {
                for mutated in mutations(&sound, replacement) {
                    let same = evaluate(&update, Some(&mutated), Some(&mutated));
                    assert_eq!(same, nothing(), "{mutated} differs from itself");
                    asked += 1;
                }
            }
        }
        assert!(asked > 1000, "{asked} mutations");
    });
}

/// Cluster state with objects of these resources, for empty settings.
fn cluster(objects: &[(&str, Value)]) -> Cluster {
    let mut cluster = Cluster::new(&POLICY.reads(), &parsed(&json!({})));
    for (resource, object) in objects {
        cluster.insert(resource, &parsed(object));
    }
    cluster
}

/// A ConfigMap of RukPak's namespace with these files.
fn config_map(name: &str, immutable: bool, files: impl Iterator<Item = String>) -> Value {
    let files: Map<String, Value> = files.map(|file| (file, json!(""))).collect();
    let metadata = json!({"name": name, "namespace": "rukpak-system"});
    json!({"metadata": metadata, "immutable": immutable, "data": files})
}

const MANY: usize = 10_000;

fn many(entry: &Value) -> Value {
    spec_of(&vec![entry.clone(); MANY])
}

fn spec_of(references: &[Value]) -> Value {
    let source = json!({"type": "configMaps", "configMaps": references});
    json!({"source": source, "provisionerClassName": "core-rukpak-io-plain"})
}

/// The verdict on a new Bundle of this spec.
fn created(spec: &Value) -> Verdict {
    let bundle = json!({"metadata": {"name": "b"}, "spec": spec});
    evaluate(&request(Operation::Create, "Bundle", "v1alpha1"), Some(&bundle), None)
}

/// The number of violations of each rule, omitted violations included.
fn counts(verdict: &Verdict) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for violation in &verdict.violations {
        let more = violation.message.split_once(" more violations of this rule are omitted; ");
        let more = more.map_or(0, |(more, _)| more.parse().expect("a number"));
        *counts.entry(violation.rule.as_str()).or_default() += 1 + more;
    }
    counts
}

#[test]
fn each_of_very_many_paths_is_checked() {
    let sound = created(&many(&json!({"configMap": {"name": "a"}, "path": "p"})));
    assert_eq!(sound.violations, []);
    let found = created(&many(&json!({"path": "../x"})));
    assert_eq!(counts(&found), [("RPK-06", MANY), ("RPK-11", MANY)].into());
    assert_eq!(found.violations.len(), 256, "both rules are shown");
}

#[test]
fn each_of_many_references_is_resolved() {
    let references: Vec<_> =
        (0..MANY).map(|n| json!({"configMap": {"name": format!("a{}", n / 2)}})).collect();
    let objects: Vec<_> = (0..MANY)
        .step_by(1_000)
        .map(|n| ("configmaps", config_map(&format!("a{n}"), n % 3_000 == 0, std::iter::empty())))
        .collect();
    let found = cluster(&objects).run(|| created(&spec_of(&references)));
    // The first and the fourth of a0, a1000, … a4000 are immutable; each has two references.
    assert_eq!(counts(&found), [("RPK-07", 2 * 3)].into());
}

#[test]
fn file_comparison_over_the_limit_is_reported_as_skipped() {
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
    let too_many = "RPK-21: the ConfigMaps have too many files";
    cluster(&objects).run(|| {
        for (directories, names, duplicates, skipped) in [
            (1, ["a", "b"], 0, None),
            (100, ["a", "b"], 0, None),
            (10_000, ["a", "b"], 0, Some(too_many)),
            (1, ["a", "c"], 300, None),
            (10_000, ["a", "a"], 0, None),
        ] {
            let verdict = created(&spec_of(&references(directories, names)));
            let found = counts(&verdict).get("RPK-21").copied().unwrap_or_default();
            assert_eq!(found, duplicates, "{directories} of {names:?}");
            let said: Vec<_> =
                verdict.skipped.iter().map(|s| format!("{}: {}", s.rule, s.reason)).collect();
            assert_eq!(said, Vec::from_iter(skipped), "{directories} of {names:?}");
        }
    });
}

#[test]
fn the_list_of_very_many_referring_bundles_ends() {
    let spec = many(&json!({"configMap": {"name": "a"}}));
    let bundle = |n| ("bundles", json!({"metadata": {"name": format!("b{n}")}, "spec": spec}));
    let objects: Vec<_> = (0..3).map(bundle).collect();
    let request = request(Operation::Create, "ConfigMap", "v1");
    let object = json!({"metadata": {"name": "a"}});
    let found = cluster(&objects).run(|| evaluate(&request, Some(&object), None)).violations;
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
