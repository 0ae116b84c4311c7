//! The resources of a cluster that an audit evaluates, and the namespaces in which it lists them.
//!
//! ```text
//! groups of the API server × match rules with their settings ─▶ resources, each in one version
//! ```
//!
//! Only kinds whose creation a policy matches with its settings are listed, as for a webhook. Secrets, and reports of
//! policies, are listed only if an enabled rule names them. A rule for one namespace needs a list of this one only.

use std::collections::{BTreeMap, BTreeSet};

use opgate_admission::cluster::{ApiGroup, Connection, ListableResource, PageBackoff};
use opgate_admission::policy::{EffectiveMatchRule, MatchRule, PolicySet};
use opgate_admission::review::Operation;
use opgate_controller::audit_reports::ReportApi;
use opgate_files::GROUP;

/// A resource whose objects are evaluated.
pub(super) struct AuditedResource {
    pub(super) served: ListableResource,
    pub(super) namespaces: ListedNamespaces,
}

/// The namespaces whose objects are evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ListedNamespaces {
    All,
    Named(BTreeSet<String>),
}

impl ListedNamespaces {
    /// Returns the lists to read: of one namespace each, or of all. With `only`, no list of another one.
    pub(super) fn select<'n>(&'n self, only: Option<&'n str>) -> Vec<Option<&'n str>> {
        match self {
            Self::All => vec![only],
            Self::Named(names) => {
                let names = names.iter().map(String::as_str);
                names.filter(|name| only.is_none_or(|only| only == *name)).map(Some).collect()
            }
        }
    }

    /// Adds the namespace of a rule, or all.
    fn add(&mut self, namespace: Option<&str>) {
        match (self, namespace) {
            (Self::All, _) => {}
            (Self::Named(names), Some(namespace)) => drop(names.insert(namespace.to_owned())),
            (all, None) => *all = Self::All,
        }
    }
}

/// A group whose resources the API server does not list.
pub(super) struct UndiscoveredGroup {
    pub(super) name: String,
    pub(super) reason: String,
}

/// Discovers the resources that the webhook would receive, each in one version, and reports the groups that
/// cannot be discovered.
pub(super) async fn discover_resources(
    connection: &Connection,
    set: &PolicySet,
    groups: Vec<ApiGroup>,
    backoff: &mut PageBackoff,
) -> (Vec<AuditedResource>, Vec<UndiscoveredGroup>) {
    let rules = set.policies().iter().flat_map(|policy| &policy.match_rules);
    let rules: Vec<_> =
        rules.filter(|matched| matched.rule.operations.contains(&Operation::Create)).collect();
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for ApiGroup { name, versions } in groups.into_iter().filter(|group| group.name != GROUP) {
        let rules: Vec<_> =
            rules.iter().copied().filter(|matched| has(&matched.rule.groups, &name)).collect();
        let is_asked =
            |version: &&String| rules.iter().any(|matched| has(&matched.rule.versions, version));
        // The preferred version is the first one.
        let mut known = BTreeMap::new();
        for version in versions.iter().filter(is_asked) {
            match connection.resources(&name, version, backoff).await {
                Err(why) => {
                    let reason = why.to_string();
                    unknown.push(UndiscoveredGroup { name: name.clone(), reason });
                }
                Ok(all) => {
                    for served in all {
                        if let Some(namespaces) = listed_namespaces(&rules, &served) {
                            let key = served.resource.resource.clone();
                            known.entry(key).or_insert(AuditedResource { served, namespaces });
                        }
                    }
                }
            }
        }
        found.extend(known.into_values());
    }
    (found, unknown)
}

/// Returns the namespaces in which rules match the creation of such objects, if any rule does.
fn listed_namespaces(
    rules: &[&EffectiveMatchRule],
    served: &ListableResource,
) -> Option<ListedNamespaces> {
    let mut namespaces = ListedNamespaces::Named(BTreeSet::new());
    for matched in rules.iter().filter(|matched| matches_creation(&matched.rule, served)) {
        namespaces.add(matched.namespace.as_deref().filter(|_| served.is_namespaced));
    }
    (namespaces != ListedNamespaces::Named(BTreeSet::new())).then_some(namespaces)
}

fn has(all: &[String], name: &str) -> bool {
    all.iter().any(|one| one == "*" || one == name)
}

/// Reports whether a rule matches the creation of such objects.
fn matches_creation(rule: &MatchRule, served: &ListableResource) -> bool {
    let resource = &served.resource;
    let is_secret = resource.group.is_empty() && resource.resource == "secrets";
    // Secrets of a whole cluster are read only if a setting requires it.
    let is_for_files = rule.enabled_by == ["/files"];
    let is_named = rule.resources.contains(&resource.resource) && !(is_secret && is_for_files);
    // Each audit writes reports: results about them would change with each.
    let needs_name = is_secret || ReportApi::has_resource(resource);
    has(&rule.versions, &resource.version)
        && (is_named || !needs_name && rule.resources.iter().any(|one| one == "*" || one == "*/*"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opgate_admission::policy::NamePatterns;
    use opgate_cluster::Resource;

    fn rule(resources: &[&str]) -> MatchRule {
        let all = || vec!["*".to_owned()];
        MatchRule {
            groups: all(),
            versions: all(),
            resources: resources.iter().map(|&resource| resource.to_owned()).collect(),
            operations: vec![Operation::Create],
            namespace: None,
            namespaces: NamePatterns::default(),
            names: NamePatterns::default(),
            rules: Vec::new(),
            advisory: false,
            conditions: Vec::new(),
            namespace_labels: String::new(),
            enabled_by: Vec::new(),
            route: 0,
        }
    }

    #[test]
    fn secrets_and_reports_are_listed_only_by_name() {
        for (group, resource, is_in_all) in [
            ("", "configmaps", true),
            ("", "secrets", false),
            ("example.com", "secrets", true),
            ("openreports.io", "reports", false),
            ("openreports.io", "clusterreports", false),
            ("openreports.io", "others", true),
            ("wgpolicyk8s.io", "policyreports", false),
            ("wgpolicyk8s.io", "clusterpolicyreports", false),
            ("example.com", "reports", true),
        ] {
            let served = ListableResource {
                resource: Resource {
                    group: group.to_owned(),
                    version: "v1".to_owned(),
                    resource: resource.to_owned(),
                },
                kind: "K".to_owned(),
                is_namespaced: true,
            };
            for all in ["*", "*/*"] {
                assert_eq!(
                    matches_creation(&rule(&[all]), &served),
                    is_in_all,
                    "{group} {resource}"
                );
            }
            assert!(matches_creation(&rule(&[resource]), &served), "{group} {resource}");
            assert!(!matches_creation(&rule(&["pods"]), &served), "{group} {resource}");
        }
    }
}
