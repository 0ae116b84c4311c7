//! The webhook registration: its existence, its owner, and whether it matches the configuration.

use std::collections::BTreeSet;

use opgate_controller::{INSTALLATION_LABEL, OWNER_ANNOTATION};
use serde_json::{Map, Value, json};

use crate::facts::Facts;
use crate::facts::hooks::Hook;
use crate::facts::object::{Kind, list, text};
use crate::facts::workload::Workload;
use crate::finding::{Findings, ObjectReference, join_names, shell_word};
use crate::finding_docs::registration::{
    CONFIG_INVALID, CONFIG_MISSING, DUPLICATE_REGISTRATION, LONG_TIMEOUT, NOT_OWNED,
    NOT_REGISTERED, OUTDATED_REGISTRATION, UNKNOWN_POLICY, UNSUPPORTED_CONDITIONS,
};

/// Maximum timeout, in seconds, before it is reported.
const MAX_TIMEOUT_SECONDS: i64 = 10;

pub(super) fn check(facts: &Facts, found: &mut Findings) {
    check_configuration(facts, found);
    if !found.require_kind(facts, Kind::ValidatingWebhookConfiguration, "the registration") {
        return;
    }
    let ours = facts.own_hooks();
    let follows = Workload::of(facts).is_some_and(|workload| workload.manages_registration());
    if ours.is_empty() && follows && !facts.is_cluster && !facts.registrations().is_empty() {
        check_owners(facts, found);
        let why = "the servers write its webhooks once they are ready";
        found.add_unchecked("the webhooks of the registration", why);
        return;
    }
    if ours.is_empty() {
        let installation = &facts.installation;
        let called = match &installation.url {
            Some(url) => format!("the URL {url}"),
            None => format!("the Service {}", installation.owner()),
        };
        let at = match facts.registrations().first() {
            Some(object) => ObjectReference::from(*object),
            None => ObjectReference {
                kind: Kind::ValidatingWebhookConfiguration.to_string(),
                ..ObjectReference::default()
            },
        };
        let what = format!("no webhook calls {called}: API servers send nothing");
        let repair = if follows {
            "the servers write it once all are ready: see their log, and whether they may update it"
        } else {
            "register the servers with opgate manifests webhook; or name another installation with --installation"
        };
        found.add(&NOT_REGISTERED, at, "", &what, repair);
        return;
    }
    check_owners(facts, found);
    for hook in &ours {
        if hook.timeout_seconds() > MAX_TIMEOUT_SECONDS {
            let what = format!("{} waits up to {} s", hook.name(), hook.timeout_seconds());
            let repair =
                "lower limits.time of its policies, then print and apply the registration again";
            found.add(&LONG_TIMEOUT, hook.object, &hook.field("timeoutSeconds"), &what, repair);
        }
    }
    check_conditions(facts, &ours, found);
    let expected = &facts.expected;
    if let Some(why) = expected.unknown_reason.as_ref().or(expected.error.as_ref()) {
        found.add_unchecked("whether the registration belongs to the configuration", why);
        return;
    }
    check_policies(facts, &ours, found);
    check_up_to_date(facts, &ours, found);
}

fn check_configuration(facts: &Facts, found: &mut Findings) {
    let expected = &facts.expected;
    if let Some(why) = &expected.error {
        let at = ObjectReference::other(&expected.source);
        found.add(
            &CONFIG_INVALID,
            at,
            "",
            why,
            "repair it; opgate rules --config FILE checks a file",
        );
    }
    if facts.installation.url.is_some() {
        return;
    }
    let Some(workload) = Workload::of(facts) else { return };
    let Some((name, key)) = workload.config_map() else { return };
    if !found.require_kind(facts, Kind::ConfigMap, "the configuration") {
        return;
    }
    let namespace = &facts.installation.namespace;
    let map = facts.get(Kind::ConfigMap, namespace, name);
    let at = ObjectReference::named(Kind::ConfigMap, namespace, name);
    let repair = format!(
        "kubectl -n {} create configmap {} --from-file={}=opgate.yaml",
        shell_word(namespace),
        shell_word(name),
        shell_word(&key)
    );
    match map {
        None => {
            let what = "the pods mount it, and it does not exist";
            found.add(&CONFIG_MISSING, at, "", what, &repair);
        }
        Some(map) if map.at("/data").and_then(|data| data.get(&key)).is_none() => {
            let what = format!("--config names the file {key:?}, which it does not have");
            found.add(&CONFIG_MISSING, at, "data", &what, &repair);
        }
        Some(_) => {}
    }
}

fn check_owners(facts: &Facts, found: &mut Findings) {
    let registrations = facts.registrations();
    let Some(first) = registrations.first() else { return };
    if registrations.len() > 1 {
        let all = join_names(registrations.iter().map(|object| object.name.as_str()));
        let what = format!("{} configurations call the same servers: {all}", registrations.len());
        let repair =
            "delete those that are left over: kubectl delete validatingwebhookconfiguration NAME";
        found.add(&DUPLICATE_REGISTRATION, *first, "", &what, repair);
    }
    let keeps = Workload::of(facts)
        .is_some_and(|workload| workload.manages_certificates() || workload.manages_registration());
    if !keeps {
        return;
    }
    let (namespace, owner) = (&facts.installation.namespace, facts.installation.owner());
    for object in registrations {
        let is_labelled = object.label(INSTALLATION_LABEL) == Some(namespace);
        if is_labelled && object.annotation(OWNER_ANNOTATION) == Some(&owner) {
            continue;
        }
        let what = format!(
            "the servers keep it only with the label {INSTALLATION_LABEL}={namespace} and the annotation {OWNER_ANNOTATION}={owner}"
        );
        let name = shell_word(&object.name);
        let repair = format!(
            "kubectl label validatingwebhookconfiguration {name} {INSTALLATION_LABEL}={}; kubectl annotate validatingwebhookconfiguration {name} {OWNER_ANNOTATION}={}",
            shell_word(namespace),
            shell_word(&owner)
        );
        found.add(&NOT_OWNED, object, "metadata", &what, &repair);
    }
}

/// Returns major and minor version.
fn parse_release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    let major = parts.next()?.parse().ok()?;
    Some((major, parts.next()?.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()?))
}

fn check_conditions(facts: &Facts, ours: &[Hook<'_>], found: &mut Findings) {
    let Some(version) = &facts.version else {
        found.add_unchecked("the version of the API server", "it is not known");
        return;
    };
    let has = ours.iter().any(Hook::has_conditions);
    let is_old = parse_release(version).is_some_and(|release| release < (1, 28));
    let wanted =
        facts.expected.webhooks.iter().any(|one| !list(one, "/matchConditions").is_empty());
    let is_printed_without = is_equal(ours, &facts.expected.without_conditions);
    if let Some(first) = ours.first()
        && is_old
        && (has || wanted && !is_printed_without)
    {
        let what = format!("the API server is {version}, which has no matchConditions");
        let repair = "print the registration with --no-match-conditions, and apply it";
        found.add(&UNSUPPORTED_CONDITIONS, first.object, "webhooks", &what, repair);
    }
}

/// Paths with policies that no server has are answered with 404.
fn check_policies(facts: &Facts, ours: &[Hook<'_>], found: &mut Findings) {
    let known: BTreeSet<_> = facts.expected.policies.iter().map(String::as_str).collect();
    for hook in ours {
        let named = hook.path().strip_prefix("/validate").unwrap_or_default();
        let mut named = named.split(['/', '?']).filter(|name| !name.is_empty());
        if let Some(unknown) = named.find(|name| !known.contains(name)) {
            let what = format!(
                "{} calls the policy {unknown:?}, which is not in {}",
                hook.name(),
                facts.expected.source
            );
            let repair =
                "print the registration with the configuration of the servers, and apply it";
            found.add(&UNKNOWN_POLICY, hook.object, &hook.field("clientConfig"), &what, repair);
        }
    }
}

/// Returns the fields that define a webhook, normalized for comparison.
fn normalize(webhook: &Value, path: &str) -> Map<String, Value> {
    let or = |name: &str, usual: &str| match text(webhook, name) {
        "" => usual.to_owned(),
        value => value.to_owned(),
    };
    let sorted = |value: &Value| {
        let mut all = value.as_array().cloned().unwrap_or_default();
        all.sort_by_key(ToString::to_string);
        Value::Array(all)
    };
    let selector = |name: &str| {
        let expressions = list(webhook, &format!("/{name}/matchExpressions")).iter().map(|one| {
            let values = one.get("values").map(sorted).unwrap_or(json!([]));
            json!([one.get("key"), one.get("operator"), values])
        });
        let labels = webhook.pointer(&format!("/{name}/matchLabels")).cloned();
        let labels = labels.filter(Value::is_object).unwrap_or(json!({}));
        json!([sorted(&expressions.collect()), labels])
    };
    let rules = list(webhook, "/rules").iter().map(|rule| {
        let all = |name: &str| rule.get(name).map(sorted).unwrap_or(json!([]));
        let scope = rule.get("scope").cloned().unwrap_or(json!("*"));
        json!([all("apiGroups"), all("apiVersions"), all("resources"), all("operations"), scope])
    });
    let conditions = list(webhook, "/matchConditions");
    let seconds = webhook.get("timeoutSeconds").cloned().unwrap_or(json!(10));
    let members = json!({
        "path": path,
        "failurePolicy": or("/failurePolicy", "Fail"),
        "matchPolicy": or("/matchPolicy", "Equivalent"),
        "sideEffects": or("/sideEffects", ""),
        "timeoutSeconds": seconds,
        "namespaceSelector": selector("namespaceSelector"),
        "objectSelector": selector("objectSelector"),
        "rules": sorted(&rules.collect()),
        "matchConditions": conditions,
        "admissionReviewVersions": list(webhook, "/admissionReviewVersions"),
    });
    members.as_object().cloned().unwrap_or_default()
}

/// Returns the path of a webhook that was made for a comparison.
fn generated_path(webhook: &Value) -> &str {
    let url = text(webhook, "/clientConfig/url");
    url.find("/validate").and_then(|at| url.get(at..)).unwrap_or_default()
}

fn is_equal(ours: &[Hook<'_>], expected: &[Value]) -> bool {
    ours.len() == expected.len()
        && expected.iter().all(|one| {
            let hook = ours.iter().find(|hook| hook.name() == text(one, "/name"));
            hook.is_some_and(|hook| {
                normalize(hook.value, hook.path()) == normalize(one, generated_path(one))
            })
        })
}

fn check_up_to_date(facts: &Facts, ours: &[Hook<'_>], found: &mut Findings) {
    let expected = &facts.expected;
    // More webhooks than any configuration creates are not compared one by one.
    if ours.len() > 1_000 {
        found.add_unchecked(
            "whether the registration belongs to the configuration",
            "too many webhooks",
        );
        return;
    }
    // An administrator who printed it for older API servers omitted the conditions deliberately.
    if is_equal(ours, &expected.without_conditions) {
        return;
    }
    let repair = "print it with opgate manifests webhook and the configuration of the servers, compare with kubectl diff, and apply it";
    let source = &expected.source;
    for expected_webhook in &expected.webhooks {
        let name = text(expected_webhook, "/name");
        let Some(hook) = ours.iter().find(|hook| hook.name() == name) else {
            if let Some(first) = ours.first() {
                let what = format!("{name} is missing, which belongs to {source}");
                found.add(&OUTDATED_REGISTRATION, first.object, "webhooks", &what, repair);
            }
            continue;
        };
        let (is, wanted) = (
            normalize(hook.value, hook.path()),
            normalize(expected_webhook, generated_path(expected_webhook)),
        );
        let differ = wanted.iter().filter(|(field, value)| is.get(*field) != Some(value));
        let differ: Vec<_> = differ.map(|(field, _)| field.as_str()).collect();
        if !differ.is_empty() {
            let what =
                format!("{name} differs from what belongs to {source}: {}", join_names(differ));
            found.add(
                &OUTDATED_REGISTRATION,
                hook.object,
                &format!("webhooks[{}]", hook.index),
                &what,
                repair,
            );
        }
    }
    let expected_webhook: BTreeSet<_> =
        expected.webhooks.iter().map(|one| text(one, "/name")).collect();
    for hook in ours.iter().filter(|hook| !expected_webhook.contains(hook.name())) {
        let what = format!("{} does not belong to {source}", hook.name());
        found.add(
            &OUTDATED_REGISTRATION,
            hook.object,
            &format!("webhooks[{}]", hook.index),
            &what,
            repair,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_providers_are_read() {
        for (text, expected) in [
            ("v1.33.1", Some((1, 33))),
            ("v1.27.16-gke.1", Some((1, 27))),
            ("v1.27+", Some((1, 27))),
            ("", None),
        ] {
            assert_eq!(parse_release(text), expected, "{text}");
        }
    }
}
