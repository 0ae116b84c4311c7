//! Policies and what is printed for them, for the tests of these modules.

use std::time::Duration;

use serde_json::Value;

use super::WebhookRegistration;
use super::matches::PolicyFacts;
use super::server::Target;
use opgate_admission::policy::{
    EffectiveMatchRule, MatchCondition, MatchRule, NamePatterns, Scope,
};
use opgate_admission::review::Operation;

pub(crate) const RUKPAK: &str = "core.rukpak.io";

pub(crate) const WRITE_OPERATIONS: &[Operation] = &[Operation::Create, Operation::Update];

pub(crate) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

pub(crate) fn requests(
    group: &str,
    versions: &[&str],
    resources: &[&str],
    operations: &[Operation],
) -> EffectiveMatchRule {
    let rule = MatchRule {
        groups: texts(&[group]),
        versions: texts(versions),
        resources: texts(resources),
        operations: operations.to_vec(),
        namespace: None,
        namespaces: NamePatterns::default(),
        names: NamePatterns::default(),
        rules: Vec::new(),
        advisory: false,
        conditions: Vec::new(),
        namespace_labels: String::new(),
        enabled_by: Vec::new(),
        route: 0,
    };
    build_requests(rule)
}

fn build_requests(rule: MatchRule) -> EffectiveMatchRule {
    EffectiveMatchRule::new(rule, None, true, &Scope::default())
}

pub(crate) fn in_namespace(namespace: &str, requests: EffectiveMatchRule) -> EffectiveMatchRule {
    EffectiveMatchRule::new(requests.rule, Some(namespace.to_owned()), true, &Scope::default())
}

/// Creates requests with these conditions, each a name and an expression.
pub(crate) fn with_conditions(
    conditions: &[(&str, &str)],
    requests: EffectiveMatchRule,
) -> EffectiveMatchRule {
    let mut rule = requests.rule;
    let condition = |(name, expression): &(&str, &str)| MatchCondition {
        name: (*name).to_owned(),
        expression: (*expression).to_owned(),
    };
    rule.conditions = conditions.iter().map(condition).collect();
    build_requests(rule)
}

pub(crate) fn with_namespace_labels(
    selector: &str,
    requests: EffectiveMatchRule,
) -> EffectiveMatchRule {
    let mut rule = requests.rule;
    rule.namespace_labels = selector.to_owned();
    build_requests(rule)
}

pub(crate) fn policy<'p>(name: &'p str, requests: &'p [EffectiveMatchRule]) -> PolicyFacts<'p> {
    let time = Duration::from_millis(100);
    PolicyFacts { name, requests, fails_closed: true, time, excluded: &[] }
}

/// Creates a policy that cannot deny.
pub(crate) fn advisory_policy<'p>(
    name: &'p str,
    requests: &'p [EffectiveMatchRule],
) -> PolicyFacts<'p> {
    PolicyFacts { fails_closed: false, ..policy(name, requests) }
}

pub(crate) fn configuration_json(policies: &[PolicyFacts<'_>]) -> Value {
    let registration = WebhookRegistration {
        name: "opgate".to_owned(),
        target: Target::Url("https://opgate.test".to_owned()),
        exempt: texts(&["kube-system", "opgate-system"]),
        supports_conditions: true,
        ca: b"CA".to_vec(),
    };
    serde_json::to_value(registration.of(policies)).unwrap()
}

pub(crate) fn webhooks(policies: &[PolicyFacts<'_>]) -> Vec<Value> {
    configuration_json(policies)["webhooks"].as_array().unwrap().clone()
}

/// Returns `name path failurePolicy` of each.
pub(crate) fn summaries(policies: &[PolicyFacts<'_>]) -> Vec<String> {
    let show = |webhook: Value| {
        let url = webhook["clientConfig"]["url"].as_str().unwrap().to_owned();
        let path = url.strip_prefix("https://opgate.test").unwrap();
        let text = |member: &str| webhook[member].as_str().unwrap().to_owned();
        format!("{} {path} {}", text("name"), text("failurePolicy"))
    };
    webhooks(policies).into_iter().map(show).collect()
}
