//! Which requests a policy evaluates: its match rules, with its settings and the levels of its rules.

use std::collections::BTreeMap;

use opgate_cluster::{Selector, parse_selector};
use opgate_document::{Document, Value};

use crate::bindings::types::{MatchRule, NamePatterns};
use crate::review::Review;

/// The label by which API servers select namespaces by name; they set it themselves.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Requests that a policy evaluates, with its settings applied.
#[derive(Debug)]
pub(crate) struct EffectiveMatchRule {
    rule: MatchRule,
    namespace: Option<String>,
    selector: Selector,
}

impl EffectiveMatchRule {
    /// Applies settings to a match rule.
    pub(crate) fn new(rule: &MatchRule, settings: &Document) -> Self {
        let selector = Document::parse(&rule.namespace_selector).unwrap_or_default();
        Self {
            namespace: rule.namespace.as_ref().map(|namespace| setting_text(namespace, settings)),
            selector: parse_selector(selector.root()).unwrap_or_default(),
            rule: rule.clone(),
        }
    }

    /// The number that identifies the requests to the policy, as a bit.
    pub(crate) fn route(&self) -> u64 {
        1_u64.checked_shl(u32::from(self.rule.route)).unwrap_or_default()
    }

    /// Whether the labels of namespaces count.
    pub(crate) fn has_selector(&self) -> bool {
        !self.selector.is_empty()
    }

    /// Whether the requests include a review. Without known labels of its namespace, it matches.
    pub(crate) fn matches(
        &self,
        review: &Review,
        namespace_labels: Option<&BTreeMap<String, String>>,
    ) -> bool {
        let request = &review.request;
        let [group, version, resource] = &request.resource;
        let is_resource = |wanted: &String| {
            let (name, sub) = wanted.split_once('/').unwrap_or((wanted, ""));
            (name == "*" || name == resource) && (sub == "*" || sub == request.sub_resource)
        };
        let labels_fit = |labels: &BTreeMap<String, String>| {
            self.selector.matches(|key| labels.get(key).map(String::as_str))
        };
        let own_namespace = if review.is_namespace() { &request.name } else { &request.namespace };
        self.rule.operations.contains(&review.operation)
            && matches_any(&self.rule.groups, group)
            && matches_any(&self.rule.versions, version)
            && self.rule.resources.iter().any(is_resource)
            && matches_name(&self.rule.namespaces, own_namespace)
            && matches_name(&self.rule.names, &request.name)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == request.namespace)
            && (self.selector.is_empty() || namespace_labels.is_none_or(labels_fit))
    }
}

/// A text of the settings, or its default.
pub(crate) fn setting_text(
    setting: &crate::bindings::types::Setting,
    settings: &Document,
) -> String {
    let named = settings.get(&setting.pointer).and_then(|value| value.text());
    named.unwrap_or(&setting.default).to_owned()
}

/// The labels of a Namespace, as an API server has them.
pub(crate) fn labels_of(name: &str, namespace: Value<'_>) -> BTreeMap<String, String> {
    let labels = namespace.get("/metadata/labels");
    let labels = labels.into_iter().flat_map(|labels| labels.members());
    let text = |value: Value<'_>| value.text().unwrap_or_default().to_owned();
    let mut labels: BTreeMap<_, _> =
        labels.map(|(key, value)| (key.to_owned(), text(value))).collect();
    labels.insert(NAMESPACE_NAME_LABEL.to_owned(), name.to_owned());
    labels
}

fn matches_any(wanted: &[String], found: &str) -> bool {
    wanted.iter().any(|wanted| wanted == "*" || wanted == found)
}

/// Whether a name matches patterns. An empty name does: there is none, or not yet.
fn matches_name(patterns: &NamePatterns, name: &str) -> bool {
    let one_of = |patterns: &[String]| patterns.iter().any(|p| matches_pattern(p, name));
    let NamePatterns { include, exclude } = patterns;
    name.is_empty() || (include.is_empty() || one_of(include)) && !one_of(exclude)
}

/// Whether a name matches a pattern, in which `*` stands for any characters.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_with_their_stars() {
        for (pattern, name, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("team-*", "team-", true),
            ("team-*", "tea", false),
            ("*-x", "a-x", true),
            ("a*a", "a", false),
            ("a*b*c", "axbxbc", true),
            ("a*b*c", "acb", false),
            ("*", "", true),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }
}
