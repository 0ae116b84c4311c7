//! The roles that bindings give a service account: `ClusterRoleBindings` everywhere, `RoleBindings`
//! in its namespace.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::cluster::{IndexMatch, Query};

use super::SearchError;
use super::budget::Budget;
use super::read::for_each;
use super::subjects::Account;
use crate::reads::{CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS};

/// The `ClusterRoles` that apply to the account everywhere, each with one of its bindings.
pub(super) fn cluster_roles(
    account: &Account<'_>,
    budget: &mut Budget,
) -> Result<BTreeMap<String, String>, SearchError> {
    let mut roles = BTreeMap::new();
    let matches = [IndexMatch { index: "subject", values: &account.names, include_missing: false }];
    let query = Query { matches: &matches, ..Query::default() };
    for_each(&CLUSTER_ROLE_BINDINGS, query, budget, |binding, budget| {
        let role = binding.text_or_empty("/roleRef/name");
        if !roles.contains_key(&role)
            && binding.text_or_empty("/roleRef/kind") == "ClusterRole"
            && account.is_subject_of(&binding, budget)?
        {
            roles.insert(role, binding.text_or_empty("/metadata/name"));
        }
        Ok(())
    })?;
    Ok(roles)
}

/// Kind and name of the roles that apply to the account in its namespace only.
pub(super) fn roles_in_namespace(
    account: &Account<'_>,
    budget: &mut Budget,
) -> Result<BTreeSet<(String, String)>, SearchError> {
    let mut roles = BTreeSet::new();
    let matches = [IndexMatch { index: "subject", values: &account.names, include_missing: false }];
    let query = Query { namespace: Some(account.namespace), matches: &matches, ..Query::default() };
    for_each(&ROLE_BINDINGS, query, budget, |binding, budget| {
        if account.is_subject_of(&binding, budget)? {
            let text = |pointer| binding.text_or_empty(pointer);
            roles.insert((text("/roleRef/kind"), text("/roleRef/name")));
        }
        Ok(())
    })?;
    Ok(roles)
}
