//! The requests of a kind that match a policy: by the names of namespaces and objects, and by the
//! labels of namespaces, according to a match rule and the configuration.
//!
//! ```text
//!  match rule ─┬─▶ Requests ─┬─▶ names: opgate, on every request; as CEL also API servers
//!  `match` of  ─┘             └─▶ labels: API servers (namespaceSelector); opgate for files and replays
//!  the policy
//! ```
//!
//! For requests of an API server, opgate does not evaluate the labels of namespaces: the API
//! server did, and its result is newer than the watch. If labels are not known, the policy
//! matches.

use std::collections::BTreeMap;

use opgate_cluster::Selector;
use opgate_document::{Document, Value};
use serde_json::json;

use super::match_rule::{MatchCondition, MatchRule};
use super::names::NamePatterns;
use crate::review::Review;

/// `match` of a policy in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Label selector of namespaces as JSON; empty for all.
    pub namespace_selector: String,
    /// Names of namespaces.
    pub namespaces: NamePatterns,
    /// Names of objects.
    pub names: NamePatterns,
}

impl Scope {
    /// Whether a request is in scope, by its names and by the labels of its namespace if those are
    /// known.
    pub(super) fn matches(&self, review: &Review<'_>) -> bool {
        self.namespaces.matches_namespace_of(review) && self.names.matches_name_of(review)
    }
}

/// Requests that a policy evaluates, with its settings applied.
#[derive(Debug, Clone)]
pub struct EffectiveMatchRule {
    /// The entry in the descriptor.
    pub rule: MatchRule,
    /// Only in this namespace.
    pub namespace: Option<String>,
    /// Whether these requests must fail rather than be allowed without the policy.
    pub can_deny: bool,
    /// The conditions that API servers evaluate: those of the rule, and names as CEL.
    pub conditions: Vec<MatchCondition>,
    /// Label selector of namespaces as JSON: that of the rule and that of the configuration; empty
    /// for all.
    pub namespace_labels: String,
    selector: Selector,
    scope: Scope,
}

impl EffectiveMatchRule {
    /// The requests of a rule, within a scope.
    #[must_use]
    pub fn new(rule: MatchRule, namespace: Option<String>, can_deny: bool, scope: &Scope) -> Self {
        let mut conditions = rule.conditions.clone();
        let names = [
            ("opgate.dev/namespaces", "request.namespace", &rule.namespaces),
            ("opgate.dev/names", "request.name", &rule.names),
            ("opgate.dev/configured-namespaces", "request.namespace", &scope.namespaces),
            ("opgate.dev/configured-names", "request.name", &scope.names),
        ];
        conditions.extend(names.into_iter().filter(|(_, _, names)| !names.is_all()).map(
            |(name, subject, names)| MatchCondition {
                name: name.to_owned(),
                expression: names.to_cel(subject),
            },
        ));
        let namespace_labels = merge_selectors(&rule.namespace_labels, &scope.namespace_selector);
        let selector = parse_checked(&namespace_labels);
        let scope = scope.clone();
        Self { rule, namespace, can_deny, conditions, namespace_labels, selector, scope }
    }

    pub(super) fn matches(&self, review: &Review<'_>) -> bool {
        self.namespace.as_deref().is_none_or(|ns| *ns == *review.namespace)
            && self.rule.matches(review)
            && self.scope.matches(review)
            && self.matches_namespace_labels(review)
    }

    /// The scope that the configuration sets within the rule.
    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Whether labels of namespaces count.
    pub(super) fn has_namespace_selector(&self) -> bool {
        !self.selector.is_empty()
    }

    /// Whether the labels of the namespace match, or are not known.
    pub(super) fn matches_namespace_labels(&self, review: &Review<'_>) -> bool {
        let labels = review.namespace_labels.get();
        let fit = |labels: &BTreeMap<String, String>| {
            self.selector.matches(|key| labels.get(key).map(String::as_str))
        };
        self.selector.is_empty() || labels.is_none_or(fit)
    }
}

/// The label by which API servers select namespaces by name; they set it themselves.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The labels of a Namespace, as an API server has them.
pub(super) fn labels_of(name: &str, namespace: Value<'_>) -> BTreeMap<String, String> {
    let labels = namespace.get("/metadata/labels");
    let labels = labels.into_iter().flat_map(|labels| labels.members());
    let text = |value: Value<'_>| value.text().unwrap_or_default().to_owned();
    let mut labels: BTreeMap<_, _> =
        labels.map(|(key, value)| (key.to_owned(), text(value))).collect();
    labels.insert(NAMESPACE_NAME_LABEL.to_owned(), name.to_owned());
    labels
}

/// The selector with all requirements of both.
fn merge_selectors(rule: &str, configured: &str) -> String {
    match (rule.is_empty(), configured.is_empty()) {
        (_, true) => return rule.to_owned(),
        (true, _) => return configured.to_owned(),
        (false, false) => {}
    }
    let mut expressions = Vec::new();
    for selector in [rule, configured] {
        let value: serde_json::Value = serde_json::from_str(selector).unwrap_or_default();
        if let Some(labels) = value.get("matchLabels").and_then(|labels| labels.as_object()) {
            let one = |(key, value)| json!({"key": key, "operator": "In", "values": [value]});
            expressions.extend(labels.iter().map(one));
        }
        let more = value.get("matchExpressions").and_then(|list| list.as_array());
        expressions.extend(more.into_iter().flatten().cloned());
    }
    json!({"matchExpressions": expressions}).to_string()
}

/// The selector was checked when it was read.
fn parse_checked(json: &str) -> Selector {
    let document = Document::parse(json).unwrap_or_default();
    opgate_cluster::parse_selector(document.root()).unwrap_or_default()
}
