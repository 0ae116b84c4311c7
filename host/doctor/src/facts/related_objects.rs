//! Selects the objects outside the namespace of an installation that are relevant: roles bound to its
//! accounts, and Services behind webhooks for the same requests. All bounds are here.

use std::collections::BTreeSet;

use opgate_compat::controllers::OLM_ROLE;
use serde_json::Value;

use super::Facts;
use super::hooks::{Hook, WebhookRule, hooks};
use super::object::{Kind, Object, list, text};

/// Maximum number of objects of a kind.
pub(crate) const MAX_OBJECTS: usize = 20_000;

/// Maximum bytes of the objects of a kind, as JSON.
pub(crate) const MAX_OBJECT_BYTES: usize = 64 << 20;

/// Maximum number of roles, and of Services of others.
const MAX_NAMED_READS: usize = 100;

/// Reports whether a binding names an account of a namespace, or all accounts.
pub(crate) fn binds_account(binding: &Object, namespace: &str) -> bool {
    list(&binding.value, "/subjects").iter().any(|subject| names_account(subject, namespace))
}

fn names_account(subject: &Value, namespace: &str) -> bool {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "ServiceAccount" => text(subject, "/namespace") == namespace,
        "User" => {
            let account = name.strip_prefix("system:serviceaccount:");
            account.and_then(|rest| rest.split_once(':')).is_some_and(|(of, _)| of == namespace)
        }
        "Group" => match name.strip_prefix("system:serviceaccounts") {
            Some(rest) => rest.is_empty() || rest.strip_prefix(':') == Some(namespace),
            None => name == "system:authenticated",
        },
        _ => false,
    }
}

/// Returns the service accounts to which a binding grants the role of OLM in the whole cluster, as users.
pub(crate) fn olm_accounts(binding: &Object) -> Vec<String> {
    if binding.kind != Kind::ClusterRoleBinding || binding.text("/roleRef/name") != OLM_ROLE {
        return Vec::new();
    }
    let subjects = list(&binding.value, "/subjects").iter();
    let accounts = subjects.filter(|subject| text(subject, "/kind") == "ServiceAccount");
    let user = |subject| {
        let (namespace, name) = (text(subject, "/namespace"), text(subject, "/name"));
        format!("system:serviceaccount:{namespace}:{name}")
    };
    accounts.map(user).take(MAX_NAMED_READS).collect()
}

/// Returns the roles that bindings name: kind, namespace and name.
pub(crate) fn bound_roles(facts: &Facts) -> BTreeSet<(Kind, String, String)> {
    let bindings = facts.all(Kind::ClusterRoleBinding).chain(facts.all(Kind::RoleBinding));
    let role = |binding: &Object| {
        let name = binding.text("/roleRef/name").to_owned();
        match binding.text("/roleRef/kind") {
            "Role" => (Kind::Role, binding.namespace.clone(), name),
            _ => (Kind::ClusterRole, String::new(), name),
        }
    };
    bindings.map(role).take(MAX_NAMED_READS).collect()
}

/// Returns group and resource of all requests that our webhooks match, without wildcards.
pub(crate) fn matched_resources(facts: &Facts) -> BTreeSet<(String, String)> {
    let mut asked = BTreeSet::new();
    for rule in facts.own_hooks().iter().flat_map(Hook::rules) {
        for group in rule.groups.iter().take(MAX_NAMED_READS) {
            for resource in rule.resources.iter().take(MAX_NAMED_READS) {
                if !group.contains('*') && !resource.contains('*') {
                    asked.insert(((*group).to_owned(), (*resource).to_owned()));
                }
            }
        }
    }
    asked
}

/// Reports whether a rule of another webhook matches requests that ours match.
pub(crate) fn overlaps(rule: &WebhookRule<'_>, asked: &BTreeSet<(String, String)>) -> bool {
    asked.iter().any(|(group, resource)| rule.covers(group, resource))
}

/// Returns the webhooks of other products for requests that ours match, or for objects in our namespace.
pub(crate) fn third_party_hooks(facts: &Facts) -> Vec<Hook<'_>> {
    let asked = matched_resources(facts);
    let ours: BTreeSet<_> =
        facts.own_hooks().iter().map(|hook| (&hook.object.name, hook.index)).collect();
    let all = facts
        .all(Kind::MutatingWebhookConfiguration)
        .chain(facts.all(Kind::ValidatingWebhookConfiguration))
        .flat_map(hooks);
    let labels = facts.namespace_labels(&facts.installation.namespace);
    all.filter(|hook| hook.is_mutating() || !ours.contains(&(&hook.object.name, hook.index)))
        .filter(|hook| {
            hook.rules().any(|rule| overlaps(&rule, &asked))
                || hook.matches("", "pods", Some(&labels))
                || hook.matches("apps", "deployments", Some(&labels))
        })
        .take(MAX_OBJECTS)
        .collect()
}

/// Returns the Services behind them, namespace and name.
pub(crate) fn third_party_services(facts: &Facts) -> BTreeSet<(String, String)> {
    let called = third_party_hooks(facts).into_iter().filter_map(|hook| hook.service());
    let called = called.map(|called| (called.namespace.to_owned(), called.name.to_owned()));
    called.take(MAX_NAMED_READS).collect()
}

/// Reports whether an `EndpointSlice` is that of a Service.
pub(crate) fn is_slice_of(slice: &Object, service: &str) -> bool {
    slice.label("kubernetes.io/service-name") == Some(service)
}
