//! Policies and what is printed for them, for the tests of these modules.

use std::time::Duration;

use serde_json::Value;

use super::Registration;
use super::matches::PolicyFacts;
use super::server::Target;
use opgate_admission::policy::{MatchCondition, MatchRule, Names, Requests, Scope};
use opgate_admission::review::Operation;

pub(crate) const RUKPAK: &str = "core.rukpak.io";

pub(crate) const WRITES: &[Operation] = &[Operation::Create, Operation::Update];

pub(crate) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

pub(crate) fn requests(
    group: &str,
    versions: &[&str],
    resources: &[&str],
    operations: &[Operation],
) -> Requests {
    let rule = MatchRule {
        groups: texts(&[group]),
        versions: texts(versions),
        resources: texts(resources),
        operations: operations.to_vec(),
        namespace: None,
        namespaces: Names::default(),
        names: Names::default(),
        rules: Vec::new(),
        advisory: false,
        conditions: Vec::new(),
        namespace_labels: String::new(),
        enabled_by: Vec::new(),
        route: 0,
    };
    made(rule)
}

fn made(rule: MatchRule) -> Requests {
    Requests::new(rule, None, true, &Scope::default())
}

pub(crate) fn within(namespace: &str, requests: Requests) -> Requests {
    Requests::new(requests.rule, Some(namespace.to_owned()), true, &Scope::default())
}

/// Creates requests with these conditions, each a name and an expression.
pub(crate) fn under(conditions: &[(&str, &str)], requests: Requests) -> Requests {
    let mut rule = requests.rule;
    let condition = |(name, expression): &(&str, &str)| MatchCondition {
        name: (*name).to_owned(),
        expression: (*expression).to_owned(),
    };
    rule.conditions = conditions.iter().map(condition).collect();
    made(rule)
}

pub(crate) fn labelled(selector: &str, requests: Requests) -> Requests {
    let mut rule = requests.rule;
    rule.namespace_labels = selector.to_owned();
    made(rule)
}

pub(crate) fn policy<'p>(name: &'p str, requests: &'p [Requests]) -> PolicyFacts<'p> {
    let time = Duration::from_millis(100);
    PolicyFacts { name, requests, blocks: true, time, excluded: &[] }
}

/// Creates a policy that cannot deny.
pub(crate) fn warns<'p>(name: &'p str, requests: &'p [Requests]) -> PolicyFacts<'p> {
    PolicyFacts { blocks: false, ..policy(name, requests) }
}

pub(crate) fn printed(policies: &[PolicyFacts<'_>]) -> Value {
    let registration = Registration {
        name: "opgate".to_owned(),
        server: Target::Url("https://opgate.test".to_owned()),
        exempt: texts(&["kube-system", "opgate-system"]),
        conditions: true,
        ca: b"CA".to_vec(),
    };
    serde_json::to_value(registration.of(policies)).unwrap()
}

pub(crate) fn webhooks(policies: &[PolicyFacts<'_>]) -> Vec<Value> {
    printed(policies)["webhooks"].as_array().unwrap().clone()
}

/// Returns `name path failurePolicy` of each.
pub(crate) fn shown(policies: &[PolicyFacts<'_>]) -> Vec<String> {
    let show = |webhook: Value| {
        let url = webhook["clientConfig"]["url"].as_str().unwrap().to_owned();
        let path = url.strip_prefix("https://opgate.test").unwrap();
        let text = |member: &str| webhook[member].as_str().unwrap().to_owned();
        format!("{} {path} {}", text("name"), text("failurePolicy"))
    };
    webhooks(policies).into_iter().map(show).collect()
}
