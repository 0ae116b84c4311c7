//! All permissions of a service account, compared with a required rule. The API server makes the
//! same comparison before it allows a user to grant a rule (Kubernetes,
//! `component-helpers/auth/rbac/validation/policy_comparator.go`).

use opgate_sdk::Document;
use opgate_sdk::go::quote;

use super::SearchError;
use super::bindings::{cluster_roles, roles_in_namespace};
use super::budget::Budget;
use super::policy_rule::PolicyRule;
use super::read::{get, length};
use super::subjects::Account;
use crate::reads::{CLUSTER_ROLES, ROLES};

/// The rules of all roles that an account has.
pub(super) struct GrantedRules {
    cluster_wide: Vec<PolicyRule>,
    /// In its own namespace only.
    namespaced: Vec<PolicyRule>,
}

impl GrantedRules {
    pub(super) fn load(account: &Account<'_>, budget: &mut Budget) -> Result<Self, SearchError> {
        let mut everywhere = Vec::new();
        for role in cluster_roles(account, budget)?.into_keys() {
            add_rules(get(&CLUSTER_ROLES, "", &role, budget)?, &mut everywhere, budget)?;
        }
        let mut inside = Vec::new();
        for (kind, role) in roles_in_namespace(account, budget)? {
            let role = match kind.as_str() {
                "Role" => get(&ROLES, account.namespace, &role, budget)?,
                "ClusterRole" => get(&CLUSTER_ROLES, "", &role, budget)?,
                _ => None,
            };
            add_rules(role, &mut inside, budget)?;
        }
        Ok(Self { cluster_wide: everywhere, namespaced: inside })
    }

    /// The rules that the account has at the cluster scope.
    pub(super) fn in_cluster(&self) -> EffectiveRules<'_> {
        let everywhere: Vec<_> = self.cluster_wide.iter().collect();
        EffectiveRules { resources: everywhere.clone(), urls: everywhere }
    }

    /// The rules that the account has in its namespace, including the cluster scope.
    pub(super) fn in_namespace(&self) -> EffectiveRules<'_> {
        let mut held = self.in_cluster();
        held.resources.extend(&self.namespaced);
        held
    }
}

fn add_rules(
    role: Option<Document>,
    rules: &mut Vec<PolicyRule>,
    budget: &mut Budget,
) -> Result<(), SearchError> {
    let Some(role) = role else { return Ok(()) };
    for index in 0..length(&role, "/rules") {
        rules.push(PolicyRule::read(&role, &format!("/rules/{index}"), budget)?);
    }
    Ok(())
}

/// The rules that apply where a permission is required.
pub(super) struct EffectiveRules<'g> {
    resources: Vec<&'g PolicyRule>,
    /// Paths such as `/metrics` belong to no namespace.
    urls: Vec<&'g PolicyRule>,
}

impl EffectiveRules<'_> {
    /// The first part of a required rule that is not granted; `scope` is the end of its message.
    pub(super) fn find_missing(
        &self,
        wanted: &PolicyRule,
        scope: &str,
        budget: &mut Budget,
    ) -> Result<Option<String>, SearchError> {
        let lacking = self.find_missing_resource(wanted, scope, budget)?;
        if lacking.is_some() { Ok(lacking) } else { self.find_missing_url(wanted, budget) }
    }

    fn find_missing_resource(
        &self,
        wanted: &PolicyRule,
        scope: &str,
        budget: &mut Budget,
    ) -> Result<Option<String>, SearchError> {
        // Usually one rule grants all of it. Then no pairs need to be compared.
        let own = wanted.groups.len() + wanted.resources.len();
        let parts = wanted.verbs.len() + wanted.names.len() + 1;
        budget.spend((own + parts).saturating_mul(self.resources.len()))?;
        let is_within = |rule: &&PolicyRule| {
            wanted.groups.iter().all(|group| rule.has_group(group))
                && wanted.resources.iter().all(|resource| rule.has_resource(resource))
                && rule.has_all(&wanted.verbs, &wanted.names)
        };
        if self.resources.iter().any(is_within) {
            return Ok(None);
        }
        for group in &wanted.groups {
            let rules = filter_rules(&self.resources, budget, |rule| rule.has_group(group))?;
            for resource in &wanted.resources {
                let rules = filter_rules(&rules, budget, |rule| rule.has_resource(resource))?;
                budget.spend(parts.saturating_mul(rules.len()))?;
                if rules.iter().any(|rule| rule.has_all(&wanted.verbs, &wanted.names)) {
                    continue;
                }
                if let Some((verb, name)) = find_missing_pair(&rules, wanted, budget)? {
                    return Ok(Some(describe_permission(verb, group, resource, name, scope)));
                }
            }
        }
        Ok(None)
    }

    fn find_missing_url(
        &self,
        wanted: &PolicyRule,
        budget: &mut Budget,
    ) -> Result<Option<String>, SearchError> {
        let listed: usize = self.urls.iter().map(|rule| rule.urls.len()).sum();
        for url in &wanted.urls {
            budget.spend(listed)?;
            let rules = filter_rules(&self.urls, budget, |rule| rule.has_url(url))?;
            for verb in &wanted.verbs {
                if filter_rules(&rules, budget, |rule| rule.has_verb(verb))?.is_empty() {
                    return Ok(Some(format!("{verb} {url}")));
                }
            }
        }
        Ok(None)
    }
}

/// The rules that grant a part, at the cost of one step each.
fn filter_rules<'g>(
    rules: &[&'g PolicyRule],
    budget: &mut Budget,
    has_it: impl Fn(&PolicyRule) -> bool,
) -> Result<Vec<&'g PolicyRule>, SearchError> {
    budget.spend(rules.len() + 1)?;
    Ok(rules.iter().filter(|rule| has_it(rule)).copied().collect())
}

/// The first pair of a verb and a name that none of the rules grants; no name if all are required.
fn find_missing_pair<'w>(
    rules: &[&PolicyRule],
    wanted: &'w PolicyRule,
    budget: &mut Budget,
) -> Result<Option<(&'w str, Option<&'w str>)>, SearchError> {
    for verb in &wanted.verbs {
        let rules = filter_rules(rules, budget, |rule| rule.has_verb(verb))?;
        if wanted.names.is_empty() && !rules.iter().any(|rule| rule.names.is_empty()) {
            return Ok(Some((verb, None)));
        }
        for name in &wanted.names {
            if filter_rules(&rules, budget, |rule| rule.has_name(name))?.is_empty() {
                return Ok(Some((verb, Some(name))));
            }
        }
    }
    Ok(None)
}

/// `update configmaps "settings" in namespace scoped`, `create deployments.apps at the cluster scope`.
fn describe_permission(
    verb: &str,
    group: &str,
    resource: &str,
    name: Option<&str>,
    scope: &str,
) -> String {
    let group = if group.is_empty() { String::new() } else { format!(".{group}") };
    let name = name.map(|name| format!(" {}", quote(name))).unwrap_or_default();
    format!("{verb} {resource}{group}{name}{scope}")
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    #[test]
    fn wildcards_names_sub_resources_and_paths() {
        let rule = |resources: &str, verbs: &str, names: &str| {
            format!(
                r#"{{"apiGroups":[""],"resources":[{resources}],"verbs":[{verbs}],"resourceNames":[{names}]}}"#
            )
        };
        let pods = |verbs: &str| rule(r#""pods""#, verbs, "");
        let named = |names: &str| rule(r#""pods""#, r#""get""#, names);
        let scale = |resources: &str| rule(resources, r#""get""#, "");
        let url = |url: &str| format!(r#"{{"nonResourceURLs":["{url}"],"verbs":["get"]}}"#);
        for (held, wanted, lacking) in [
            (pods(r#""get""#), pods(r#""*""#), Some("* pods at the cluster scope")),
            (pods(r#""*""#), pods(r#""*""#), None),
            (pods(r#""*""#), pods(r#""get","use""#), None),
            (pods(r#""get""#), rule(r#""*""#, r#""get""#, ""), Some("get * at the cluster scope")),
            (named(r#""a""#), pods(r#""get""#), Some("get pods at the cluster scope")),
            (pods(r#""get""#), named(r#""a""#), None),
            (named(r#""a","b""#), named(r#""a""#), None),
            (named(r#""a""#), named(r#""a","b""#), Some(r#"get pods "b" at the cluster scope"#)),
            (format!("{},{}", named(r#""a""#), named(r#""b""#)), named(r#""a","b""#), None),
            (scale(r#""*/scale""#), scale(r#""pods/scale""#), None),
            (
                scale(r#""pods""#),
                scale(r#""pods/scale""#),
                Some("get pods/scale at the cluster scope"),
            ),
            (scale(r#""*""#), scale(r#""pods/scale""#), None),
            (
                scale(r#""*/*""#),
                scale(r#""pods/scale""#),
                Some("get pods/scale at the cluster scope"),
            ),
            (url("/metrics"), url("/metrics"), None),
            (url("/metrics"), url("/metrics/a"), Some("get /metrics/a")),
            (url("/metrics/*"), url("/metrics/a"), None),
            (url("*"), url("/metrics"), None),
            (ALL.to_owned(), url("/metrics"), Some("get /metrics")),
        ] {
            let found = missing(&in_cluster(&held), &csv("", &wanted));
            let found = found.first().map(|(_, permission)| permission.as_str());
            assert_eq!(found, lacking, "{held} for {wanted}");
        }
    }
}
