//! What the webhook configuration keeps away from policies: conditions and selectors of namespaces,
//! evaluated on all cases.
//!
//! ```text
//! case ─┬─▶ the policy, natively ─▶ rules that find something ─┐
//!       └─▶ the targets of the request ─▶ sent or kept away ───┴─▶ each rule has a target that is sent
//! ```

use std::collections::{BTreeMap, BTreeSet};

use opgate_cel::{Budget, Program, Properties};
use opgate_sdk::{Operation, Policy, Target};
use opgate_sdk_testing::{Case, native};
use serde_json::{Value, json};

use crate::policy::cases::{POLICIES, cases_of};

fn has_conditions_or_selector(target: &Target) -> bool {
    !(target.conditions.is_empty() && target.namespace_selector.is_empty())
}

fn operation(case: &Case) -> Operation {
    match case.operation {
        "CREATE" => Operation::Create,
        "UPDATE" => Operation::Update,
        _ => Operation::Delete,
    }
}

/// Whether an API server compares the request with what the target says besides.
fn has_matching_resource(target: &Target, case: &Case) -> bool {
    let [group, version, mut resource, _] = case.resource();
    if let Some(sub) = &case.request.sub_resource {
        resource = format!("{resource}/{sub}");
    }
    let any = |all: &[&str], one: &str| all.iter().any(|a| *a == "*" || *a == one);
    any(target.groups, &group) && any(target.versions, &version) && any(target.resources, &resource)
}

/// The expression over a list of `properties`, which is what the evaluator knows: the variables are
/// members of the value of the first one.
fn as_property_expression(expression: &str) -> String {
    let mut text = String::new();
    let mut word = String::new();
    let mut is_quoted = false;
    for letter in expression.chars().chain([' ']) {
        if letter.is_ascii_alphanumeric() || letter == '_' {
            word.push(letter);
            continue;
        }
        let is_member = text.ends_with('.');
        let is_variable = matches!(word.as_str(), "object" | "oldObject" | "request");
        if is_variable && !is_member && !is_quoted {
            text.push_str("properties[0].value.");
        }
        text.push_str(&word);
        word.clear();
        is_quoted ^= letter == '\'';
        text.push(letter);
    }
    text
}

/// The variables as API servers set them: an object has metadata, and what is not there is null.
fn variables(case: &Case) -> Properties {
    let review = case.review();
    let mut request = review["request"].clone();
    let members = request.as_object_mut().unwrap();
    let (object, old) = (members.remove("object"), members.remove("oldObject"));
    let full = |object: Option<Value>| {
        let mut object = object.unwrap_or_default();
        if object.is_object() && object["metadata"].is_null() {
            object["metadata"] = json!({});
        }
        object
    };
    let value = json!({"object": full(object), "oldObject": full(old), "request": request});
    let text = value.to_string();
    Properties::new([("case", text.as_bytes())].into_iter())
}

fn evaluate_condition(expression: &str, case: &Case) -> Result<bool, String> {
    let program =
        Program::compile(&as_property_expression(expression)).map_err(|e| e.to_string())?;
    program.run(&variables(case), &mut Budget::default()).map_err(|e| e.to_string())
}

/// Labels of the namespace of a request: of the object itself, where it is one.
fn labels(case: &Case) -> BTreeMap<String, String> {
    let [_, _, resource, _] = case.resource();
    let (name, mut namespace) = case.key();
    let itself = case.object.as_ref().or(case.old.as_ref());
    let found = if resource == "namespaces" {
        namespace = name;
        itself
    } else {
        let is_it = |object: &&Value| {
            object["kind"] == "Namespace" && object["metadata"]["name"] == *namespace
        };
        case.cluster.iter().flatten().find(is_it)
    };
    let labels = found.and_then(|object| object["metadata"]["labels"].as_object());
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let mut labels: BTreeMap<_, _> = labels.into_iter().flatten().filter_map(text).collect();
    labels.insert("kubernetes.io/metadata.name".to_owned(), namespace);
    labels
}

fn selects(selector: &str, labels: &BTreeMap<String, String>) -> bool {
    if selector.is_empty() {
        return true;
    }
    let selector: Value = serde_json::from_str(selector).unwrap();
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    let mut within = selector["matchExpressions"].as_array().into_iter().flatten();
    equal.all(|(key, value)| labels.get(key).is_some_and(|found| value == found))
        && within.all(|expression| {
            assert_eq!(expression["operator"], "In", "{expression}");
            let found = labels.get(expression["key"].as_str().unwrap());
            let values = expression["values"].as_array().unwrap();
            found.is_some_and(|found| values.iter().any(|value| value == found))
        })
}

fn is_sent(target: &Target, case: &Case) -> bool {
    let hold = |(_, expression): &(&str, &str)| evaluate_condition(expression, case).unwrap();
    selects(target.namespace_selector, &labels(case)) && target.conditions.iter().all(hold)
}

/// The targets of a request that are narrowed.
fn restricted_targets(policy: &Policy, case: &Case) -> Vec<&'static Target> {
    let targets = policy.routes.iter().map(|route| route.on);
    targets
        .filter(|target| has_matching_resource(target, case) && has_conditions_or_selector(target))
        .collect()
}

/// The rules that find something in a case, and of which no target is sent.
fn unsent_violations(policy: &Policy, case: &Case) -> (usize, Vec<String>) {
    let operation = operation(case);
    let targets = policy.routes.iter().map(|route| route.on);
    let targets: Vec<_> = targets.filter(|target| has_matching_resource(target, case)).collect();
    let found = native::verdict(policy, case).violations;
    let is_hidden = |id: &str| {
        let rule = *policy.all_rules().iter().find(|rule| rule.id == id).unwrap();
        let mut asking = targets.iter().filter(|on| rule.applies_to(on, operation));
        !asking.any(|target| is_sent(target, case))
    };
    let hidden = found.iter().filter(|violation| is_hidden(&violation.rule));
    let say = |violation: &opgate_sdk::Violation| {
        format!("{}: {}: {} is not asked", case.rule, case.name, violation.rule)
    };
    (found.len(), hidden.map(say).collect())
}

/// The case without each of the values in the object.
fn reduced_cases(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let mut pointers = vec![String::new()];
    let Some(object) = &case.object else { return all };
    while let Some(pointer) = pointers.pop() {
        let names: Vec<String> = match object.pointer(&pointer).unwrap() {
            Value::Object(members) => members.keys().cloned().collect(),
            Value::Array(items) => (0..items.len()).map(|index| index.to_string()).collect(),
            _ => Vec::new(),
        };
        for name in names {
            let mut less = case.clone();
            let place = less.object.as_mut().unwrap().pointer_mut(&pointer).unwrap();
            match place {
                Value::Object(members) => drop(members.remove(&name)),
                place => drop(place.as_array_mut().unwrap().remove(name.parse().unwrap())),
            }
            let inner = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            less.name = format!("{} without {inner}", case.name);
            // API servers refuse objects without these, and complete the others.
            let is_needed = matches!(
                inner.as_str(),
                "/apiVersion" | "/kind" | "/metadata" | "/spec" | "/spec/template"
            );
            if !is_needed {
                all.push(less);
            }
            pointers.push(inner);
        }
    }
    all
}

#[test]
fn excluded_requests_violate_no_rule() {
    let mut wrong = Vec::new();
    for policy in POLICIES {
        let targets = policy.routes.iter().map(|route| route.on);
        let mut unproven: BTreeSet<_> =
            targets.filter(|target| has_conditions_or_selector(target)).map(restriction).collect();
        let cases = cases_of(policy).into_iter();
        for case in cases.filter(|case| !restricted_targets(policy, case).is_empty()) {
            for case in reduced_cases(&case).iter().chain([&case]) {
                let (found, hidden) = unsent_violations(policy, case);
                let mut sent = restricted_targets(policy, case);
                sent.retain(|target| found > 0 && is_sent(target, case));
                unproven.retain(|one| !sent.iter().any(|target| restriction(target) == *one));
                wrong.extend(hidden);
            }
        }
        // What no case passes might keep everything away.
        wrong.extend(unproven.iter().map(|what| format!("{}: no case for {what:?}", policy.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Conditions and labels, which targets of several kinds may share.
fn restriction(target: &Target) -> (&'static [(&'static str, &'static str)], &'static str) {
    (target.conditions, target.namespace_selector)
}

/// The request of a case, and what it would be as each of the operations.
fn with_every_operation(case: Case) -> Vec<Case> {
    let any = case.object.clone().or_else(|| case.old.clone());
    let as_one = |operation, object: Option<&Value>, old: Option<&Value>| Case {
        operation,
        object: object.cloned(),
        old: old.cloned(),
        ..case.clone()
    };
    let any = any.as_ref();
    let mut all = vec![
        as_one("CREATE", any, None),
        as_one("UPDATE", any, case.old.as_ref().or(any)),
        as_one("DELETE", None, any),
    ];
    all.push(case);
    all
}

/// Conditions have a value for every request. Otherwise the API server treats the condition as
/// failed: it refuses the request where the webhook has the failure policy `Fail`.
#[test]
fn conditions_evaluate_without_error_in_every_case() {
    let mut wrong = Vec::new();
    for policy in POLICIES {
        for case in cases_of(policy).into_iter().flat_map(with_every_operation) {
            for target in restricted_targets(policy, &case) {
                for (_, expression) in target.conditions {
                    if let Err(error) = evaluate_condition(expression, &case) {
                        let (rule, name, operation) = (&case.rule, &case.name, case.operation);
                        wrong.push(format!("{rule}: {name}: {operation}: {error}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The time that an API server takes to go through a map grows with the square of its size, and
/// the author of the object determines that size.
#[test]
fn conditions_iterate_only_small_maps() {
    for target in POLICIES.iter().flat_map(|policy| policy.routes).map(|route| route.on) {
        for (name, expression) in target.conditions {
            for (at, _) in expression.match_indices(".exists(") {
                let before = &expression[..at];
                let map = before.rsplit([' ', '(', '!']).next().unwrap();
                assert!(before.ends_with(&format!("(size({map}) > 64 || {map}")), "{name}: {map}");
            }
            let macros = ["exists_one(", ".all(", ".map(", ".filter("];
            assert!(!macros.iter().any(|call| expression.contains(call)), "{name}");
        }
    }
}

/// What the conditions are there for.
#[test]
fn most_writes_of_busy_kinds_are_not_sent() {
    let kept = [
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}}),
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"affinity": {"podAffinity": {}}}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": {}}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"labels": {"a": "b"}}}),
        json!({"apiVersion": "v1", "kind": "Namespace"}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"ca.crt": ""}}),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}},
        }),
    ];
    let template = cases_of(POLICIES[0]).into_iter().next().unwrap();
    for mut object in kept {
        object["metadata"]["name"] = json!("x");
        if object["kind"] != "Namespace" {
            object["metadata"]["namespace"] = json!("somewhere");
        }
        let case = Case {
            operation: "CREATE",
            object: Some(object),
            old: None,
            request: opgate_sdk_testing::RequestParts::default(),
            cluster: None,
            ..template.clone()
        };
        let asking = POLICIES.iter().flat_map(|policy| restricted_targets(policy, &case));
        let asking: Vec<_> = asking.collect();
        assert!(!asking.is_empty(), "{:?}", case.object);
        for target in asking {
            assert!(!is_sent(target, &case), "{:?} for {:?}", case.object, target.conditions);
        }
    }
}

/// Neither Secrets nor other resources than these are sent of the whole cluster.
#[test]
fn busy_kinds_are_restricted_unless_a_setting_needs_them() {
    const BUSY_KINDS: [&str; 9] = [
        "pods",
        "deployments",
        "daemonsets",
        "statefulsets",
        "jobs",
        "cronjobs",
        "namespaces",
        "configmaps",
        "secrets",
    ];
    for policy in POLICIES {
        let rules = policy.all_rules();
        for target in policy.routes.iter().map(|route| route.on) {
            let is_busy = target.resources.iter().any(|resource| BUSY_KINDS.contains(resource));
            let is_asked_for = !target.enabled_by.is_empty()
                || rules.iter().all(|rule| {
                    let looks = rule.on.iter().any(|(on, _)| std::ptr::eq(*on, target));
                    !looks || rule.enabled_by.is_some()
                });
            let is_bounded =
                has_conditions_or_selector(target) || target.namespace.is_some() || is_asked_for;
            assert!(!is_busy || is_bounded, "{} asks for all {:?}", policy.name, target.resources);
        }
    }
}

#[test]
fn expressions_are_rewritten_for_the_evaluator() {
    let text = "has(object.metadata.object) && 'object' in oldObject.spec && request.name == 'x'";
    assert_eq!(
        as_property_expression(text).trim_end(),
        "has(properties[0].value.object.metadata.object) && 'object' in properties[0].value.oldObject.spec && properties[0].value.request.name == 'x'"
    );
}
