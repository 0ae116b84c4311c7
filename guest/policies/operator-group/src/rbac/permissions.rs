//! Permissions that a ClusterServiceVersion requests and the account that installs it does not
//! have.

use std::collections::BTreeSet;

use opgate_sdk::Document;
use opgate_sdk::cluster::{Query, ReadError};

use super::budget::{Budget, CALL_STEPS};
use super::granted::GrantedRules;
use super::policy_rule::PolicyRule;
use super::read::length;
use super::subjects::Account;
use super::{SearchError, SearchResult};
use crate::reads::GROUPS;

const PERMISSIONS: &str = "/spec/install/spec/permissions";
const CLUSTER_PERMISSIONS: &str = "/spec/install/spec/clusterPermissions";
const LISTS: [&str; 2] = [PERMISSIONS, CLUSTER_PERMISSIONS];

/// The account that the only OperatorGroup of a namespace names; none if there are several, because
/// OLM installs nothing there.
pub(crate) fn group_account(namespace: &str) -> Result<Option<String>, ReadError> {
    let mut accounts = Vec::new();
    GROUPS.each(Query { namespace: Some(namespace), ..Query::default() }, |group| {
        accounts.push(group.text_or_empty("/spec/serviceAccountName"));
        accounts.len() < 2
    })?;
    let only = accounts.pop().filter(|_| accounts.is_empty());
    Ok(only.filter(|account| !account.is_empty()))
}

/// A rule of a CSV that an account does not have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MissingRule {
    /// The field of the CSV with the request.
    pub(crate) field: String,
    /// The first missing permission, for the message.
    pub(crate) permission: String,
}

/// Whether a CSV requests a new permission that an account could lack.
pub(crate) fn requests_new_permissions(csv: &Document, old: Option<&Document>) -> bool {
    let is_new = |list| old.is_none_or(|old| !csv.equal(list, old, list));
    LISTS.into_iter().any(|list| is_new(list) && length(csv, list) > 0)
}

/// The permissions that a CSV requests and the account of its namespace's OperatorGroup does not
/// have. `permissions` are granted in that namespace, `clusterPermissions` everywhere. Rules of
/// `old`, the object before an UPDATE, are ignored.
pub(crate) fn missing_permissions(
    namespace: &str,
    account: &str,
    csv: &Document,
    old: Option<&Document>,
) -> SearchResult<Vec<MissingRule>> {
    let mut missing = Vec::new();
    let end = find_missing(namespace, account, csv, old, &mut missing);
    SearchResult::of(missing, end)
}

/// Rules of a list, as JSON.
fn rules_of(
    csv: Option<&Document>,
    list: &str,
    budget: &mut Budget,
) -> Result<BTreeSet<Vec<u8>>, SearchError> {
    let mut known = BTreeSet::new();
    let Some(csv) = csv else { return Ok(known) };
    for permission in 0..length(csv, list) {
        let rules = format!("{list}/{permission}/rules");
        for rule in 0..length(csv, &rules) {
            budget.spend(CALL_STEPS)?;
            known.extend(csv.raw(&format!("{rules}/{rule}")));
        }
    }
    Ok(known)
}

fn find_missing(
    namespace: &str,
    account: &str,
    csv: &Document,
    old: Option<&Document>,
    missing: &mut Vec<MissingRule>,
) -> Result<(), SearchError> {
    let mut budget = Budget::new();
    if !requests_new_permissions(csv, old) {
        return Ok(());
    }
    let granted = GrantedRules::load(&Account::new(namespace, account), &mut budget)?;
    let asked = [
        (PERMISSIONS, granted.in_namespace(), format!(" in namespace {namespace}")),
        (CLUSTER_PERMISSIONS, granted.in_cluster(), " at the cluster scope".to_owned()),
    ];
    budget.start_request_object();
    for (list, held, scope) in &asked {
        let known = rules_of(old, list, &mut budget)?;
        for permission in 0..length(csv, list) {
            budget.spend(CALL_STEPS)?;
            let rules = format!("{list}/{permission}/rules");
            for rule in 0..length(csv, &rules) {
                let at = format!("{rules}/{rule}");
                if !known.is_empty() {
                    budget.spend(CALL_STEPS)?;
                    if csv.raw(&at).is_some_and(|rule| known.contains(&rule)) {
                        continue;
                    }
                }
                let wanted = PolicyRule::read(csv, &at, &mut budget)?;
                if let Some(lacking) = held.find_missing(&wanted, scope, &mut budget)? {
                    let member = list.trim_start_matches('/').replace('/', ".");
                    let field = format!("{member}[{permission}].rules[{rule}]");
                    missing.push(MissingRule { field, permission: lacking });
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn csv_misses_only_permissions_the_account_lacks() {
        assert_eq!(missing(&in_namespace(ALL), &csv(PODS, "")), []);
        assert_eq!(missing(&in_namespace(PODS), &csv(PODS, "")), []);
        assert_eq!(missing(&in_cluster(PODS), &csv(PODS, PODS)), []);
        assert_eq!(missing(&[], &csv("", "")), []);
        let through_cluster_role = [
            ("clusterroles", role("", "r", PODS)),
            ("rolebindings", binding("scoped", "b", "ClusterRole", "r", SCOPED)),
        ];
        assert_eq!(missing(&through_cluster_role, &csv(PODS, "")), []);
        // Piece by piece, from several rules.
        let piece = |group: &str, resource: &str, verb: &str| {
            format!(r#"{{"apiGroups":["{group}"],"resources":["{resource}"],"verbs":["{verb}"]}}"#)
        };
        let pieces = [
            piece("", "*", "get"),
            piece("", "*", "create"),
            piece("apps", "pods", "*"),
            piece("*", "deployments", "get"),
            piece("apps", "deployments", "create"),
        ];
        assert_eq!(missing(&in_namespace(&pieces.join(",")), &csv(PODS, "")), []);
        let without_last = pieces[..4].join(",");
        assert_eq!(
            missing(&in_namespace(&without_last), &csv(PODS, "")),
            [(
                "spec.install.spec.permissions[0].rules[0]".to_owned(),
                "create deployments.apps in namespace scoped".to_owned()
            )]
        );
    }

    #[test]
    fn a_csv_that_asks_for_more_than_a_role_in_the_namespace() {
        let rules = format!("{PODS},{CREATE_CRDS}");
        let at = |index| format!("spec.install.spec.clusterPermissions[0].rules[{index}]");
        let create = "create customresourcedefinitions.apiextensions.k8s.io at the cluster scope";
        assert_eq!(
            missing(&in_namespace(ALL), &csv(PODS, &rules)),
            [(at(0), "create deployments at the cluster scope".to_owned()), (at(1), create.into())]
        );
        assert_eq!(missing(&in_cluster(PODS), &csv(PODS, &rules)), [(at(1), create.to_owned())]);
        // Roles of other namespaces do not count.
        let elsewhere = [
            ("roles", role("other", "r", ALL)),
            ("rolebindings", binding("other", "b", "Role", "r", SCOPED)),
            ("rolebindings", binding("scoped", "b", "Role", "r", SCOPED)),
        ];
        assert_eq!(missing(&elsewhere, &csv(PODS, "")).len(), 1);
    }

    #[test]
    fn the_account_of_a_namespace() {
        let second = group("twice", "b").replace("\"g\"", "\"h\"");
        let objects = [
            ("operatorgroups", group("scoped", "a")),
            ("operatorgroups", group("unscoped", "")),
            ("operatorgroups", group("twice", "a")),
            ("operatorgroups", second),
        ];
        with_objects(&objects, || {
            assert_eq!(group_account("scoped"), Ok(Some("a".to_owned())));
            for namespace in ["unscoped", "twice", "none"] {
                assert_eq!(group_account(namespace), Ok(None), "{namespace}");
            }
        });
        assert_eq!(group_account("scoped"), Err(ReadError::NoCluster));
    }
}
