//! Match rules of a policy, checked: a rule that an API server would reject, or that no request
//! can match, is an error when the policy loads.

use opgate_compat::kinds;
use opgate_compat::names::{self, label_key_error};
use opgate_document::Document;
use opgate_engine::wit;
use opgate_text::one_line;

use super::declared_value::{Setting, lines, operations, setting};
use super::names::NamePatterns;
use crate::review::{Operation, Review};

/// The first violation of the contract in a match rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct MatchRuleError(String);

/// A call gets the routes as bits of one number.
const MAX_ROUTE: u8 = 63;
/// Maximum number of conditions of a match rule; API servers accept 64 for a webhook.
const MAX_CONDITIONS: usize = 8;
/// Maximum bytes of an expression or a selector.
const MAX_EXPRESSION_BYTES: usize = 4_096;

/// Requests that a policy evaluates.
#[derive(Debug, Clone)]
pub struct MatchRule {
    /// API groups.
    pub groups: Vec<String>,
    /// API versions.
    pub versions: Vec<String>,
    /// Resources, with a sub-resource if one is meant.
    pub resources: Vec<String>,
    /// Operations.
    pub operations: Vec<Operation>,
    /// Only in this namespace.
    pub namespace: Option<Setting>,
    /// Only in namespaces with these names.
    pub namespaces: NamePatterns,
    /// Only objects with these names.
    pub names: NamePatterns,
    /// Rules that evaluate them; empty for all.
    pub rules: Vec<String>,
    /// Whether the API server may admit them while the webhook is unavailable, unless the
    /// configuration sets one of the rules to deny.
    pub advisory: bool,
    /// Conditions in CEL under which the policy evaluates them, for webhook configurations.
    pub conditions: Vec<MatchCondition>,
    /// Label selector of the namespaces in which the policy evaluates them, JSON, for webhook
    /// configurations. Empty for all.
    pub namespace_labels: String,
    /// Settings of which one must be present and not `false`; empty for none.
    pub enabled_by: Vec<String>,
    /// The number that identifies them to the policy, below 64.
    pub route: u8,
}

/// A condition in CEL on requests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatchCondition {
    /// Unique in a match rule.
    pub name: String,
    /// CEL.
    pub expression: String,
}

impl MatchRule {
    /// Checks and accepts a match rule, whose rules are known.
    ///
    /// # Errors
    /// The first violation of the contract of `wit/policy.wit`.
    pub(super) fn check(from: &wit::MatchRule, rules: Vec<String>) -> Result<Self, MatchRuleError> {
        if from.route > MAX_ROUTE {
            let route = from.route;
            return Err(MatchRuleError(format!(
                "gives a match rule the route {route}, more than {MAX_ROUTE}"
            )));
        }
        check_names(from)?;
        Ok(Self {
            groups: lines(&from.groups),
            versions: lines(&from.versions),
            resources: lines(&from.resources),
            operations: operations(&from.operations),
            namespace: from.namespace.as_ref().map(setting),
            namespaces: check_patterns("namespaces", &from.namespaces)?,
            names: check_patterns("objects", &from.names)?,
            rules,
            advisory: from.advisory,
            conditions: check_conditions(&from.match_conditions)?,
            namespace_labels: check_namespace_labels(&from.namespace_selector)?,
            enabled_by: lines(&from.enabled_by),
            route: from.route,
        })
    }

    /// Whether the requests include a review.
    #[must_use]
    pub fn matches(&self, review: &Review<'_>) -> bool {
        self.operations.contains(&review.operation)
            && matches_any(&self.groups, &review.resource.group)
            && matches_any(&self.versions, &review.resource.version)
            && self.resources.iter().any(|wanted| {
                let (resource, sub) = wanted.split_once('/').unwrap_or((wanted, ""));
                (resource == "*" || resource == review.resource.name)
                    && (sub == "*" || sub == review.sub_resource)
            })
            && self.namespaces.matches_namespace_of(review)
            && self.names.matches_name_of(review)
    }
}

fn matches_any(wanted: &[String], found: &str) -> bool {
    wanted.iter().any(|w| w == "*" || w == found)
}

/// Checks that requests can match the names in a match rule. An API server would reject a webhook
/// configuration with a name that cannot exist, and would never call the policy.
fn check_names(rule: &wit::MatchRule) -> Result<(), MatchRuleError> {
    let is_domain = |text: &str| text.len() <= 253 && names::is_subdomain(text);
    let group = |text: &str| text.is_empty() || text == "*" || is_domain(text);
    let version = |text: &str| text == "*" || text.len() <= 63 && names::is_label(text);
    let resource = |text: &str| match text.split_once('/') {
        Some((name, sub)) => version(name) && version(sub),
        None => version(text),
    };
    let wrong = |what: &str, texts: &[String], is_right: &dyn Fn(&str) -> bool, form: &str| {
        let wrong = texts.iter().find(|text| !is_right(text))?;
        let shown = one_line(wrong, 64);
        let plural = kinds::plural(&shown);
        let hint = if what == "resource" && is_right(&plural) {
            format!(", such as {plural:?}")
        } else {
            String::new()
        };
        Some(format!("matches the {what} {shown:?}, which cannot exist: {form}{hint}"))
    };
    let wrong = wrong("group", &rule.groups, &group, "a group is a DNS name in lower case")
        .or_else(|| wrong("version", &rule.versions, &version, "a version is in lower case"))
        .or_else(|| {
            let form = "a resource is the plural in lower case";
            wrong("resource", &rule.resources, &resource, form)
        });
    wrong.map_or(Ok(()), |why| Err(MatchRuleError(why)))
}

fn check_patterns(what: &str, from: &wit::NamePatterns) -> Result<NamePatterns, MatchRuleError> {
    NamePatterns::new(from.include.clone(), from.exclude.clone()).map_err(|why| {
        MatchRuleError(format!(
            "names {what} in a match rule by patterns that are not valid: {why}"
        ))
    })
}

/// Checks the conditions of a match rule, which an API server must accept.
fn check_conditions(from: &[wit::MatchCondition]) -> Result<Vec<MatchCondition>, MatchRuleError> {
    if from.len() > MAX_CONDITIONS {
        return Err(MatchRuleError(format!(
            "gives a match rule {} conditions, more than {MAX_CONDITIONS}",
            from.len()
        )));
    }
    let mut checked: Vec<MatchCondition> = Vec::with_capacity(from.len());
    for wit::MatchCondition { name, expression } in from {
        let shown = one_line(name, 64);
        if label_key_error(name).is_some() || checked.iter().any(|known| known.name == *name) {
            return Err(MatchRuleError(format!(
                "gives a condition the name {shown:?}, which is not a unique qualified name"
            )));
        }
        if expression.trim().is_empty() || expression.len() > MAX_EXPRESSION_BYTES {
            return Err(MatchRuleError(format!(
                "gives the condition {shown:?} an expression of {} bytes, not of 1 to {MAX_EXPRESSION_BYTES}",
                expression.len()
            )));
        }
        checked.push(MatchCondition { name: name.clone(), expression: expression.clone() });
    }
    Ok(checked)
}

/// Checks a label selector for namespaces, which an API server must accept.
fn check_namespace_labels(json: &str) -> Result<String, MatchRuleError> {
    let wrong = |why: &str| {
        MatchRuleError(format!("selects namespaces by labels that are not valid: {why}"))
    };
    if json.len() > MAX_EXPRESSION_BYTES {
        return Err(wrong(&format!("more than {MAX_EXPRESSION_BYTES} bytes")));
    }
    if !json.is_empty() {
        let document = Document::parse(json).map_err(|e| wrong(&one_line(&e.to_string(), 256)))?;
        opgate_cluster::parse_selector(document.root())
            .map_err(|why| wrong(&one_line(&why.to_string(), 256)))?;
    }
    Ok(json.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(group: &str, version: &str, resource: &str) -> wit::MatchRule {
        let names = || wit::NamePatterns { include: Vec::new(), exclude: Vec::new() };
        wit::MatchRule {
            groups: vec![group.to_owned()],
            versions: vec![version.to_owned()],
            resources: vec![resource.to_owned()],
            operations: vec![wit::Operation::Create],
            namespace: None,
            namespaces: names(),
            names: names(),
            rules: Vec::new(),
            advisory: false,
            match_conditions: Vec::new(),
            namespace_selector: String::new(),
            enabled_by: Vec::new(),
            route: 0,
        }
    }

    /// A policy for `ConfigMap` would never be called, and the mistake would go unnoticed.
    #[test]
    fn impossible_group_version_or_resource_is_rejected() {
        for ((group, version, resource), expected) in [
            (
                ("", "v1", "ConfigMap"),
                "matches the resource \"ConfigMap\", which cannot exist: a resource is the plural in lower case, such as \"configmaps\"",
            ),
            (("Core", "v1", "x"), "matches the group \"Core\", which cannot exist: a group is"),
            (("g.io", "v 1", "x"), "matches the version \"v 1\", which cannot exist: a version is"),
            (("g.io", "v1", "a/b/c"), "matches the resource \"a/b/c\", which cannot exist: a"),
            (("g.io", "v1", "a/"), "matches the resource \"a/\", which cannot exist: a"),
        ] {
            let error = MatchRule::check(&rule(group, version, resource), Vec::new())
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        for (group, version, resource) in [("*", "*", "*/*"), ("", "v1", "pods/status")] {
            assert!(MatchRule::check(&rule(group, version, resource), Vec::new()).is_ok());
        }
    }

    #[test]
    fn invalid_pattern_names_its_match_rule_field() {
        let mut wrong = rule("", "v1", "pods");
        wrong.namespaces.include.push("team a".to_owned());
        let error = MatchRule::check(&wrong, Vec::new()).unwrap_err().to_string();
        let expected = "names namespaces in a match rule by patterns that are not valid: \"team a\" fits no name";
        assert!(error.starts_with(expected), "{error}");
    }
}
