//! Runs the cases of the rules, and tests what no case can express.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic, and so may what they share"
)]

#[allow(dead_code, reason = "shared with other tests")]
mod shorthand;

use opgate_operator_group::POLICY;
use opgate_sdk::Level;
use opgate_sdk_testing::Case;
use opgate_sdk_testing::native::{case_mismatch, verdict};
use serde_json::{Map, Value, json};
use shorthand::{asking, create, csv, group, nothing, object};

opgate_sdk_testing::tests!(POLICY);

fn all_cases() -> Vec<Case> {
    opgate_sdk_testing::native::cases(&POLICY, DIRECTORY)
}

fn creations() -> impl Iterator<Item = Case> {
    all_cases().into_iter().filter(|case| case.operation == "CREATE")
}

/// The unchanged object, sent again.
fn update(mut case: Case) -> Case {
    case.operation = "UPDATE";
    case.old.clone_from(&case.object);
    // The rules for users with write access do not depend on the change.
    case.request.groups.push("system:masters".to_owned());
    case
}

#[test]
fn unchanged_violations_are_not_reported_again() {
    for case in creations() {
        let case = update(case);
        assert_eq!(verdict(&POLICY, &case), nothing(), "{}: {}", case.rule, case.name);
    }
}

/// Without ratcheting, an UPDATE that changes nothing reports all violations, except those of rules
/// that only evaluate creation or changes.
#[test]
fn unchanged_violations_are_reported_without_ratcheting() {
    const OF_A_CHANGE: [&str; 8] =
        ["OPG-01", "OPG-02", "OPG-03", "OPG-17", "OPG-20", "OPG-21", "OPG-24", "OPG-35"];
    for case in creations().filter(|case| case.cluster.is_some()) {
        let mut case = update(case);
        case.settings["ratcheting"] = json!(false);
        case.violations.retain(|finding| !OF_A_CHANGE.contains(&finding.rule.as_str()));
        case.audit_annotations = None;
        case.fixed = None;
        assert_eq!(case_mismatch(&POLICY, &case), None);
    }
}

#[test]
fn exempt_users_are_evaluated_by_access_rules_only() {
    for mut case in all_cases() {
        case.settings["exempt"] = json!({"groups": ["exempt"]});
        case.request.groups.push("exempt".to_owned());
        let found = verdict(&POLICY, &case).violations;
        let by_access = found.iter().all(|v| matches!(v.rule.as_str(), "OPG-19" | "OPG-35"));
        assert!(by_access, "{}: {}: {found:?}", case.rule, case.name);
    }
}

// The schema of the settings.

fn schema() -> Value {
    serde_json::from_str(&POLICY.describe().settings_schema).expect("JSON")
}

/// Adds the schema's defaults for settings that are not set.
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
    for mut case in all_cases() {
        spell_out_defaults(case.settings.as_object_mut().expect("settings"), &schema());
        assert_eq!(case.settings["operatorGroup"]["removeAPIs"].as_str().map(str::len), Some(4));
        assert_eq!(case_mismatch(&POLICY, &case), None);
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
    for rule in POLICY.all_rules() {
        for pointer in rule.enabled_by.unwrap_or(rule.denies_with) {
            let (section, name) = pointer.trim_start_matches('/').split_once('/').expect("two");
            let property = &schema()["properties"][section]["properties"][name];
            assert!(property.is_object(), "{pointer}");
            // An explicit default would turn the rule on.
            assert!(rule.enabled_by.is_none() || property.get("default").is_none(), "{pointer}");
        }
    }
}

// Hostile input.

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

fn with(mut object: Value, members: Value) -> Value {
    let Value::Object(members) = members else { panic!("members") };
    object.as_object_mut().expect("an object").extend(members);
    object
}

/// One object of each kind, with every member that the policy reads.
fn sound() -> Vec<Value> {
    let account = json!([{"kind": "ServiceAccount", "namespace": "ns", "name": "s"}]);
    let to = |kind: &str| json!({"kind": kind, "name": "r"});
    let rule = |resource: &str| {
        json!({"apiGroups": ["*"], "resources": [resource], "verbs": ["create"],
            "resourceNames": ["a"]})
    };
    let mut group = object("OperatorGroup", "ns/g");
    group["metadata"]["labels"] = json!({"a": "b"});
    group["metadata"]["annotations"] = json!({
        "olm.providedAPIs": "Goose.v1alpha1.birds.com",
        "operatorframework.io/bundle-unpack-timeout": "1m",
    });
    let group = with(
        group,
        json!({
            "spec": {
                "targetNamespaces": ["a"], "serviceAccountName": "s", "staticProvidedAPIs": true,
                "selector": {"matchLabels": {"a": "b"}, "matchExpressions":
                    [{"key": "a", "operator": "In", "values": ["b"]}]},
            },
            "status": {"namespaces": ["a", "b"]},
        }),
    );
    let mut version = asking(csv("ns/c", "O", "Goose"), &json!([rule("pods")]));
    version["metadata"]["labels"] = json!({"a": "b"});
    version["metadata"]["annotations"] = json!({"olm.operatorGroup": "x"});
    version["status"] = json!({"phase": "Failed", "reason": "x"});
    version["spec"]["replaces"] = json!("b");
    version["spec"]["skips"] = json!(["a"]);
    version["spec"]["apiservicedefinitions"] =
        json!({"owned": [{"group": "mammals.com", "version": "v1alpha1", "kind": "Moose"}]});
    version["spec"]["install"]["spec"]["clusterPermissions"] = json!([{"serviceAccountName": "o",
        "rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}]}]);
    version["spec"]["install"]["spec"]["deployments"] =
        json!([{"spec": {"template": {"spec": {"imagePullSecrets": [{"name": "p"}]}}}}]);
    vec![
        group,
        version,
        with(
            object("ClusterRole", "r"),
            json!({"rules": [rule("customresourcedefinitions")],
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
        ),
        with(
            object("ClusterRoleBinding", "b"),
            json!({"roleRef": to("ClusterRole"), "subjects": account}),
        ),
        with(object("Role", "ns/r"), json!({"rules": [rule("operatorgroups")]})),
        with(object("RoleBinding", "ns/b"), json!({"roleRef": to("Role"), "subjects": account})),
    ]
}

/// An object in the cluster may be as invalid as the request, if it has a kind and a name.
#[test]
fn invalid_stored_objects_cause_no_panic() {
    let replacements = [json!(null), json!(""), json!([[""]]), json!({"": {}})];
    let sound = sound();
    let settings = json!({"rules": {"OPG-36": "warn", "OPG-37": "warn", "OPG-38": "warn"}});
    let mut asked = 0;
    for before in &sound {
        for mutated in replacements.iter().flat_map(|r| mutations(before, r)) {
            let keeps = |member: &str| mutated.pointer(member) == before.pointer(member);
            if !keeps("/kind") || !mutated.pointer("/metadata/name").is_some_and(Value::is_string) {
                continue;
            }
            let mut cluster = sound.clone();
            cluster.push(mutated.clone());
            for reviewed in &sound {
                let mut case = create(reviewed, &cluster);
                case.settings = settings.clone();
                let _ = verdict(&POLICY, &case);
            }
            let mut case = update(create(&mutated, &cluster));
            case.settings = settings.clone();
            let found = verdict(&POLICY, &case);
            assert_eq!(found.violations, [], "{mutated} differs from itself");
            asked += 1;
        }
    }
    assert!(asked > 400, "{asked} mutations");
}

/// Thousands of names and APIs are evaluated one by one, and reported in one message.
#[test]
fn thousands_of_names_and_apis_are_evaluated() {
    let many = 20_000;
    let names: Vec<_> = (0..many).map(|i| format!("ns-{i:05}")).collect();
    let apis: Vec<_> = (0..many).map(|i| format!("K{i}.v1.g")).collect();
    let big = |namespace: &str| {
        let mut group = group(&format!("{namespace}/g:[nil]{{}}"));
        group["metadata"]["annotations"] = json!({"olm.providedAPIs": apis.join(",")});
        group["spec"]["targetNamespaces"] = json!(names);
        group
    };
    let found = verdict(&POLICY, &create(&big("y"), &[big("x")]));
    let denied: Vec<_> = found.violations.iter().filter(|v| v.level == Level::Deny).collect();
    assert_eq!(denied.len(), 1);
    assert!(denied[0].message.len() < 1_000, "{}", denied[0].message);
    assert!(denied[0].message.contains("and 19995 more"), "{}", denied[0].message);

    let mut twice = big("y");
    twice["spec"]["targetNamespaces"] = json!(vec!["a"; many]);
    twice["metadata"]["annotations"]["olm.providedAPIs"] = json!("x,".repeat(many));
    let found = verdict(&POLICY, &create(&twice, &[])).violations;
    for (rule, count) in [("OPG-06", many - 1), ("OPG-12", many)] {
        let found: Vec<_> = found.iter().filter(|v| v.rule == rule).collect();
        let start = format!("{} more violations of this rule are omitted; ", count - found.len());
        let last = &found.last().expect("findings").message;
        assert!(last.starts_with(&start), "{last}");
    }
}

/// A role with many rules, and one that iterates over it.
fn role(kind: &str, key: &str) -> Value {
    with(object(kind, key), json!({"rules": vec![json!({}); 60_000]}))
}

fn binding(kind: &str, key: &str, role: &str) -> Value {
    let subjects = json!([{"kind": "ServiceAccount", "namespace": "ns", "name": "a"}]);
    with(object(kind, key), json!({"roleRef": {"kind": role, "name": "r"}, "subjects": subjects}))
}

/// A call has a fixed time: the policy skips a rule that would take longer, unless nothing changes.
#[test]
fn oversized_input_is_skipped_or_denied() {
    let group = group("ns/g:[ns]{} as a");
    let pods = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let mut member = asking(csv("ns/c", "O", ""), &pods);
    member["spec"]["install"]["spec"]["deployments"] =
        json!([{"spec": {"template": {"spec": {"imagePullSecrets": [{"name": "p"}]}}}}]);
    let inside = vec![role("Role", "ns/r"), binding("RoleBinding", "ns/b", "Role")];
    let account = object("ServiceAccount", "ns/a");
    let with_group = [inside.clone(), vec![group.clone()]].concat();
    let with_member = [inside, vec![member.clone(), account.clone()]].concat();
    let wide = binding("ClusterRoleBinding", "b", "ClusterRole");
    let everywhere = vec![account, role("ClusterRole", "r"), wide.clone()];
    let mut many_subjects = wide.clone();
    many_subjects["subjects"] = json!(vec![json!({}); 60_000]);
    let itself = "the object itself";
    for (rule, object, cluster, too_large) in [
        ("OPG-32", &group, everywhere.clone(), "clusterroles r"),
        ("OPG-33", &role("ClusterRole", "r"), vec![], itself),
        ("OPG-33", &wide, everywhere, "clusterroles r"),
        ("OPG-33", &many_subjects, vec![], itself),
        ("OPG-36", &role("Role", "ns/r"), vec![], itself),
        ("OPG-37", &member, with_group, "roles ns/r"),
        ("OPG-38", &group, with_member, "roles ns/r"),
    ] {
        let mut case = create(object, &cluster);
        case.settings = json!({"messages": {"skippedRules": "warn"}, "rules": {rule: "warn"}});
        let verdict = |case: &Case| verdict(&POLICY, case);
        let found = verdict(&case);
        let why = "there is more to compare than the time allows";
        let skipped: Vec<_> = found.skipped.iter().map(|s| (&*s.rule, &*s.reason)).collect();
        assert_eq!(skipped, [(rule, why)]);
        let messages: Vec<_> = found.violations.iter().map(|v| v.message.as_str()).collect();
        assert_eq!(messages, [format!("{rule} was not evaluated: {why}")]);
        assert_eq!(verdict(&update(case.clone())), nothing(), "{rule} {too_large}");
        case.settings["rules"][rule] = json!("off");
        assert_eq!(verdict(&case), nothing(), "{rule} {too_large}");
        // A denying rule does not accept a request that it cannot evaluate, and the message names
        // the cause.
        case.settings["rules"][rule] = json!("deny");
        let found = verdict(&case);
        let [violation] = found.violations.as_slice() else { panic!("{rule}: {found:?}") };
        assert_eq!((violation.rule.as_str(), violation.level), (rule, Level::Deny));
        let start = format!("{too_large}: there is more to compare than 500000 steps allow");
        assert!(violation.message.starts_with(&start), "{}", violation.message);
        assert_eq!((found.skipped.len(), found.audit_annotations.len()), (0, 0), "{found:?}");
    }
}

/// Violations found before the budget is exceeded are reported together with the cause.
#[test]
fn violations_in_oversized_input_are_reported() {
    let mut rules = vec![json!({"verbs": ["*"], "resources": ["*"], "apiGroups": ["*"]})];
    rules.extend(vec![json!({}); 60_000]);
    let role = with(object("Role", "ns/r"), json!({"rules": rules}));
    let asked = asking(csv("ns/c", "O", ""), &json!(rules));
    for (rule, object) in [("OPG-36", role), ("OPG-37", asked)] {
        let mut case = create(&object, &[group("ns/g:[ns]{} as a")]);
        case.settings = json!({"rules": {rule: "deny"}});
        let found = verdict(&POLICY, &case).violations;
        let texts: Vec<_> = found.iter().map(|v| v.message.as_str()).collect();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts.iter().any(|text| text.contains("there is more to compare")), "{texts:?}");
        let told = ["allows its subjects to install", "lacks * *.* in namespace ns"];
        assert!(told.iter().any(|told| texts.iter().any(|t| t.contains(told))), "{texts:?}");
    }
}

/// A verdict has space for the violations of the other rules.
#[test]
fn very_many_missing_permissions_are_reported_in_part() {
    let rule = |i| json!({"apiGroups": [""], "resources": [format!("r{i}")], "verbs": ["get"]});
    let rules: Vec<_> = (0..1_000).map(rule).collect();
    let member = asking(csv("ns/c", "A", ""), &json!(rules));
    let mut case = create(&member, &[group("ns/g:[ns]{} as a")]);
    case.settings = json!({"rules": {"OPG-37": "warn"}});
    let found = verdict(&POLICY, &case).violations;
    let of = |rule: &str| found.iter().filter(|v| v.rule == rule).count();
    assert_eq!((of("OPG-22"), of("OPG-37")), (1, found.len() - 1));
    let start = format!("{} more violations of this rule are omitted; ", 1_000 - of("OPG-37"));
    assert!(found.iter().any(|v| v.message.starts_with(&start)), "{found:?}");
    case.settings = json!({});
    assert_eq!(verdict(&POLICY, &case).violations.len(), 1);
}
