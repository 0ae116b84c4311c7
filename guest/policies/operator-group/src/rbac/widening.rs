//! Roles and bindings that grant write access that is reserved for other users.
//!
//! ```text
//! OperatorGroup ──────▶ its account ─▶ its ClusterRoles ─▶ their permissions
//! ClusterRoleBinding ─▶ permissions of its ClusterRole, subjects ─▶ accounts of OperatorGroups
//! ClusterRole ────────▶ its permissions and aggregated ones; subjects of its bindings ─▶ accounts
//! ```

use std::collections::BTreeSet;

use opgate_sdk::Document;
use opgate_sdk::cluster::{IndexMatch, Query};
use opgate_sdk::go::quote;

use super::bindings::cluster_roles;
use super::budget::{Budget, SELECTION_QUERY_STEPS};
use super::read::{for_each, get, length};
use super::rights::{Rights, WatchedResources};
use super::subjects::{Account, Subjects};
use super::{SearchError, SearchResult};
use crate::reads::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, GROUPS};

/// Resources that only OLM should write (OCP 4.12 L7946).
const CRD_WRITES: WatchedResources = WatchedResources {
    verbs: &["create", "update", "patch", "delete", "deletecollection"],
    resources: &[
        ("apiregistration.k8s.io", "apiservices"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
    ],
};

/// Resources whose write access allows installing Operators (OCP 4.12 L7939).
const INSTALLATION_WRITES: WatchedResources = WatchedResources {
    verbs: &["create", "update", "patch"],
    resources: &[("operators.coreos.com", "operatorgroups")],
};

/// Maximum number of names in one message.
const MAX_SHOWN_NAMES: usize = 10;

/// The roles through which the account can write resources reserved for OLM, for the message.
pub(crate) fn widened_account(namespace: &str, account: &str) -> SearchResult<Option<String>> {
    let mut through = Vec::new();
    let end = add_widening_roles(&Account::new(namespace, account), &mut through);
    SearchResult::of(list_names(&through), end)
}

fn add_widening_roles(account: &Account<'_>, through: &mut Vec<String>) -> Result<(), SearchError> {
    let mut budget = Budget::new();
    for (role, binding) in cluster_roles(account, &mut budget)? {
        if is_widening(&role, &mut budget)? {
            through.push(format!(
                "ClusterRole {} through ClusterRoleBinding {}",
                quote(&role),
                quote(&binding)
            ));
        }
    }
    Ok(())
}

/// For a `ClusterRoleBinding`: the accounts of OperatorGroups that can then write resources
/// reserved for OLM, for the message. `old` is the object before an UPDATE; without it everything
/// counts.
pub(crate) fn widening_binding(
    object: &Document,
    old: Option<&Document>,
) -> SearchResult<Option<String>> {
    let role = object.text_or_empty("/roleRef/name");
    let mut accounts = BTreeSet::new();
    let end = widened_by_binding(&role, object, old, &mut accounts);
    SearchResult::of(describe_accounts(accounts, &role), end)
}

fn widened_by_binding(
    role: &str,
    object: &Document,
    old: Option<&Document>,
    accounts: &mut BTreeSet<String>,
) -> Result<(), SearchError> {
    let mut budget = Budget::new();
    if object.text_or_empty("/roleRef/kind") != "ClusterRole" || role.is_empty() {
        return Ok(());
    }
    // The role of a binding never changes; if it does, as in files, all of it is new.
    let old = old.filter(|old| old.equal("/roleRef", object, "/roleRef"));
    let (mut before, mut after) = (Subjects::default(), Subjects::default());
    after.add(object, &mut budget)?;
    if let Some(old) = old {
        before.add(old, &mut budget)?;
    }
    if after.is_empty() || !is_widening(role, &mut budget)? {
        return Ok(());
    }
    add_affected_accounts(&after, &before, accounts, &mut budget)
}

/// For a `ClusterRole`: the accounts of OperatorGroups that can then write resources reserved for
/// OLM, for the message. `old` is the object before an UPDATE; without it everything counts.
pub(crate) fn widening_role(
    object: &Document,
    old: Option<&Document>,
) -> SearchResult<Option<String>> {
    let role = object.text_or_empty("/metadata/name");
    let mut accounts = BTreeSet::new();
    let end = widened_by_role(&role, object, old, &mut accounts);
    SearchResult::of(describe_accounts(accounts, &role), end)
}

fn widened_by_role(
    role: &str,
    object: &Document,
    old: Option<&Document>,
    accounts: &mut BTreeSet<String>,
) -> Result<(), SearchError> {
    let mut budget = Budget::new();
    let mut after = Rights::of(object, &CRD_WRITES, &mut budget)?;
    let aggregates_anew =
        old.is_none_or(|old| !old.equal("/aggregationRule", object, "/aggregationRule"));
    if aggregates_anew {
        add_aggregated(object, &mut after, &mut budget)?;
    }
    let mut before = Rights::default();
    if let Some(old) = old {
        before.add(old, &CRD_WRITES, &mut budget)?;
    }
    if role.is_empty() || !after.exceeds(&before) {
        return Ok(());
    }
    let mut subjects = Subjects::default();
    let values = [role.to_owned()];
    let matches = [IndexMatch { index: "role", values: &values, include_missing: false }];
    let query = Query { matches: &matches, ..Query::default() };
    for_each(&CLUSTER_ROLE_BINDINGS, query, &mut budget, |binding, budget| {
        if binding.text_or_empty("/roleRef/kind") == "ClusterRole" {
            subjects.add(&binding, budget)?;
        }
        Ok(())
    })?;
    if subjects.is_empty() {
        return Ok(());
    }
    add_affected_accounts(&subjects, &Subjects::default(), accounts, &mut budget)
}

/// Whether a Role or `ClusterRole` allows its subjects to write OperatorGroups. `old` is the object
/// before an UPDATE; without it everything counts.
pub(crate) fn grants_group_writes(object: &Document, old: Option<&Document>) -> SearchResult<bool> {
    let mut budget = Budget::new();
    let (mut before, mut after) = (Rights::default(), Rights::default());
    if let Some(old) = old
        && let Err(why) = before.add(old, &INSTALLATION_WRITES, &mut budget)
    {
        return SearchResult::of(false, Err(why));
    }
    let end = after.add(object, &INSTALLATION_WRITES, &mut budget);
    SearchResult::of(after.exceeds(&before), end)
}

/// Whether a `ClusterRole` allows its subjects to write resources reserved for OLM.
fn is_widening(role: &str, budget: &mut Budget) -> Result<bool, SearchError> {
    let Some(role) = get(&CLUSTER_ROLES, "", role, budget)? else { return Ok(false) };
    Ok(Rights::of(&role, &CRD_WRITES, budget)?.exceeds(&Rights::default()))
}

/// The rules that the controller will write into a `ClusterRole` that aggregates others.
fn add_aggregated(
    role: &Document,
    rights: &mut Rights,
    budget: &mut Budget,
) -> Result<(), SearchError> {
    let selectors = "/aggregationRule/clusterRoleSelectors";
    for index in 0..length(role, selectors) {
        budget.spend(SELECTION_QUERY_STEPS)?;
        let raw = role.raw(&format!("{selectors}/{index}"));
        let Some(selector) = raw.and_then(|raw| String::from_utf8(raw).ok()) else { continue };
        let query = Query { label_selector: Some(&selector), ..Query::default() };
        for_each(&CLUSTER_ROLES, query, budget, |found, budget| {
            rights.add(&found, &CRD_WRITES, budget)
        })?;
    }
    Ok(())
}

/// The accounts of OperatorGroups that are new among the subjects.
fn add_affected_accounts(
    after: &Subjects,
    before: &Subjects,
    found: &mut BTreeSet<String>,
    budget: &mut Budget,
) -> Result<(), SearchError> {
    let names = after.names();
    let by_account = names.as_ref().map(|values| IndexMatch {
        index: "account",
        values,
        include_missing: false,
    });
    let query = Query { matches: by_account.as_slice(), ..Query::default() };
    for_each(&GROUPS, query, budget, |group, _| {
        let account = group.text_or_empty("/spec/serviceAccountName");
        let namespace = group.text_or_empty("/metadata/namespace");
        let is_new = after.contains(&namespace, &account) && !before.contains(&namespace, &account);
        if !account.is_empty() && is_new {
            found.insert(format!("ServiceAccount {namespace}/{account}"));
        }
        Ok(())
    })
}

/// The accounts, and the role through which they have access.
fn describe_accounts(accounts: BTreeSet<String>, role: &str) -> Option<String> {
    let accounts: Vec<String> = accounts.into_iter().collect();
    list_names(&accounts).map(|names| format!("{names} through ClusterRole {}", quote(role)))
}

/// The content of a comma-separated list in a message; nothing if it is empty.
fn list_names(texts: &[String]) -> Option<String> {
    let mut shown: Vec<&str> = texts.iter().take(MAX_SHOWN_NAMES).map(String::as_str).collect();
    let more = format!("and {} more", texts.len().saturating_sub(MAX_SHOWN_NAMES));
    if texts.len() > MAX_SHOWN_NAMES {
        shown.push(&more);
    }
    (!shown.is_empty()).then(|| shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn an_account_with_a_role_in_its_namespace_is_fine() {
        let objects = [
            ("roles", role("scoped", "scoped", ALL)),
            ("rolebindings", binding("scoped", "scoped-bindings", "Role", "scoped", SCOPED)),
            ("clusterroles", role("", "r", ALL)),
            ("rolebindings", binding("scoped", "b", "ClusterRole", "r", SCOPED)),
        ];
        assert_eq!(account(&objects), Ok(None));
    }

    #[test]
    fn account_that_can_write_olm_resources_is_reported() {
        let rule = |group: &str, resource: &str, verb: &str| {
            format!(
                r#"{{"apiGroups":["x","{group}"],"resources":["y","{resource}"],"verbs":["get","{verb}"]}}"#
            )
        };
        let (crds, services) = ("customresourcedefinitions", "apiservices");
        let (extensions, registration) = ("apiextensions.k8s.io", "apiregistration.k8s.io");
        let named = |verb: &str| {
            rule(extensions, crds, verb).replacen('{', r#"{"resourceNames":["a.example.com"],"#, 1)
        };
        for (rules, is_wide) in [
            (CREATE_CRDS.to_owned(), true),
            (READ_CRDS.to_owned(), false),
            (ALL.to_owned(), true),
            (format!("{READ_CRDS},{CREATE_CRDS}"), true),
            (String::new(), false),
            (rule(extensions, crds, "update"), true),
            (rule(extensions, crds, "patch"), true),
            (rule(extensions, crds, "delete"), true),
            (rule(extensions, crds, "deletecollection"), true),
            (rule(extensions, crds, "*"), true),
            (rule(registration, services, "create"), true),
            (rule("*", services, "create"), true),
            (rule(registration, "*", "create"), true),
            (rule(registration, "*", "list"), false),
            // Group and resource belong together.
            (rule(extensions, services, "create"), false),
            (rule(registration, crds, "create"), false),
            (rule(extensions, "customresourcedefinitions/status", "update"), false),
            (rule(extensions, "*/*", "update"), false),
            (named("update"), true),
            // A CREATE has no object name.
            (named("create"), false),
            (named("deletecollection"), false),
        ] {
            let objects = [
                ("clusterroles", role("", "r", &rules)),
                ("clusterrolebindings", binding("", "b", "ClusterRole", "r", SCOPED)),
            ];
            let expected = is_wide.then(|| THROUGH_B.to_owned());
            assert_eq!(account(&objects), Ok(expected), "{rules}");
        }
    }

    fn to_scoped(role: &str) -> String {
        format!("ServiceAccount scoped/scoped through ClusterRole {role:?}")
    }

    #[test]
    fn binding_that_grants_olm_resources_is_reported() {
        let objects = [
            ("clusterroles", role("", "cluster-admin", ALL)),
            ("clusterroles", role("", "reader", READ_CRDS)),
            ("operatorgroups", group("scoped", "scoped")),
            ("operatorgroups", group("unscoped", "")),
        ];
        with_objects(&objects, || {
            let reviewed = |role, subjects: &str, old: Option<&str>| {
                let new = parse(&binding("", "b", "ClusterRole", role, subjects));
                let old = old.map(|old| parse(&binding("", "b", "ClusterRole", role, old)));
                widening_binding(&new, old.as_ref()).complete().unwrap()
            };
            assert_eq!(reviewed("cluster-admin", SCOPED, None), Some(to_scoped("cluster-admin")));
            assert_eq!(reviewed("reader", SCOPED, None), None);
            assert_eq!(reviewed("missing", SCOPED, None), None);
            let other = r#"{"kind":"ServiceAccount","name":"default","namespace":"scoped"}"#;
            assert_eq!(reviewed("cluster-admin", other, None), None);
            assert_eq!(reviewed("cluster-admin", "", None), None);
            // A permission that was granted before is not reported again, under any name.
            let both = format!("{other},{SCOPED}");
            assert_eq!(reviewed("cluster-admin", &both, Some(SCOPED)), None);
            assert_eq!(
                reviewed("cluster-admin", &both, Some(other)),
                Some(to_scoped("cluster-admin"))
            );
            let everybody = r#"{"kind":"Group","name":"system:authenticated"}"#;
            assert_eq!(reviewed("cluster-admin", SCOPED, Some(everybody)), None);
            assert_eq!(reviewed("cluster-admin", everybody, Some(SCOPED)), None);
            assert_eq!(reviewed("cluster-admin", other, Some(SCOPED)), None);
        });
    }

    #[test]
    fn role_extended_to_olm_resources_is_reported() {
        let objects = [
            // The stored object does not count, the reviewed one does.
            ("clusterroles", role("", "r", ALL)),
            ("clusterrolebindings", binding("", "b", "ClusterRole", "r", SCOPED)),
            ("operatorgroups", group("scoped", "scoped")),
        ];
        let named = |names: &str| {
            format!(
                r#"{{"apiGroups":["*"],"resources":["apiservices"],"verbs":["update"],"resourceNames":[{names}]}}"#
            )
        };
        let (a, ab) = (named(r#""a""#), named(r#""a","b""#));
        with_objects(&objects, || {
            for (before, after, widens) in [
                (None, CREATE_CRDS, true),
                (None, READ_CRDS, false),
                (Some(READ_CRDS), CREATE_CRDS, true),
                (Some(CREATE_CRDS), CREATE_CRDS, false),
                (Some(CREATE_CRDS), ALL, true),
                (Some(ALL), CREATE_CRDS, false),
                (Some(ALL), &ab, false),
                (Some(a.as_str()), &ab, true),
                (Some(ab.as_str()), &a, false),
                (Some(a.as_str()), ALL, true),
            ] {
                let old = before.map(|rules| parse(&role("", "r", rules)));
                let new = parse(&role("", "r", after));
                let expected = widens.then(|| to_scoped("r"));
                let found = widening_role(&new, old.as_ref());
                assert_eq!(found.complete(), Ok(expected), "{before:?} to {after}");
            }
            let unbound = parse(&role("", "unbound", CREATE_CRDS));
            assert_eq!(widening_role(&unbound, None).complete(), Ok(None));
        });
    }

    #[test]
    fn a_role_that_gathers_the_rules_of_others() {
        let part = |name: &str, label: &str, rules: &str| {
            format!(
                r#"{{"metadata":{{"name":"{name}","labels":{{"part":"{label}"}}}},"rules":[{rules}]}}"#
            )
        };
        let objects = [
            ("clusterroles", part("wide", "wide", CREATE_CRDS)),
            ("clusterroles", part("narrow", "narrow", READ_CRDS)),
            ("clusterrolebindings", binding("", "b", "ClusterRole", "r", SCOPED)),
            ("operatorgroups", group("scoped", "scoped")),
        ];
        let gathers = |part: &str| {
            let selector = format!(r#"{{"matchLabels":{{"part":"{part}"}}}}"#);
            let wrong = r#"{"matchExpressions":[{"key":"a","operator":"is"}]}"#;
            parse(&format!(
                r#"{{"metadata":{{"name":"r"}},"aggregationRule":{{"clusterRoleSelectors":[{wrong},{selector}]}}}}"#
            ))
        };
        with_objects(&objects, || {
            assert_eq!(widening_role(&gathers("wide"), None).complete(), Ok(Some(to_scoped("r"))));
            assert_eq!(widening_role(&gathers("narrow"), None).complete(), Ok(None));
            let (wide, narrow) = (gathers("wide"), gathers("narrow"));
            assert_eq!(widening_role(&wide, Some(&narrow)).complete(), Ok(Some(to_scoped("r"))));
            assert_eq!(widening_role(&wide, Some(&wide)).complete(), Ok(None));
        });
    }

    #[test]
    fn many_accounts_are_counted() {
        let mut objects = vec![("clusterroles", role("", "r", ALL))];
        objects.extend((10..30).map(|n| ("operatorgroups", group(&format!("n{n}"), "a"))));
        let all = r#"{"kind":"Group","name":"system:serviceaccounts"}"#;
        let new = parse(&binding("", "b", "ClusterRole", "r", all));
        let found =
            with_objects(&objects, || widening_binding(&new, None)).complete().unwrap().unwrap();
        assert!(found.starts_with("ServiceAccount n10/a, ServiceAccount n11/a, "), "{found}");
        assert!(found.ends_with(", and 10 more through ClusterRole \"r\""), "{found}");
    }

    #[test]
    fn roles_that_grant_writes_of_operator_groups_are_found() {
        let rule = |verbs: &str| {
            format!(
                r#"{{"apiGroups":["operators.coreos.com"],"resources":["operatorgroups"],"verbs":[{verbs}]}}"#
            )
        };
        let read = rule(r#""get","list","watch""#);
        let create = rule(r#""get","create""#);
        for (rules, opens) in [
            (read.as_str(), false),
            (create.as_str(), true),
            (&rule(r#""update""#), true),
            (&rule(r#""patch""#), true),
            (&rule(r#""*""#), true),
            (&rule(r#""delete""#), false),
            (ALL, true),
            (&create.replace("operators.coreos.com", "*"), true),
            (&create.replace("operators.coreos.com", "example.com"), false),
            (&create.replace("operatorgroups", "subscriptions"), false),
            // Escaped, and with values of other kinds in between.
            (&rule(r#""get",["create"],{"create":"create"}"#), false),
            (&rule(r#"1,null,"\u0063reate""#), true),
        ] {
            let new = parse(&role("ns", "r", rules));
            assert_eq!(grants_group_writes(&new, None).complete(), Ok(opens), "{rules}");
            assert_eq!(grants_group_writes(&new, Some(&new)).complete(), Ok(false), "{rules}");
            let old = parse(&role("ns", "r", &read));
            assert_eq!(grants_group_writes(&new, Some(&old)).complete(), Ok(opens), "{rules}");
        }
        for odd in ["{}", r#"{"rules":{}}"#, r#"{"rules":[null,1,{"verbs":"create"}]}"#] {
            assert_eq!(grants_group_writes(&parse(odd), None).complete(), Ok(false), "{odd}");
        }
    }
}
