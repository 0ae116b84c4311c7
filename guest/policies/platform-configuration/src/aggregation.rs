//! Roles that their labels add to the default roles `view`, `edit` and `admin`.

use std::collections::BTreeMap;

use opgate_sdk::cluster::{IndexMatch, Query, ReadError};
use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Document, Report, Review, rule, rules};

use crate::rbac::{self, Coverage, Grant, ReadBudget, RequiredPermission};
use crate::reads::CLUSTER_ROLES;
use crate::targets::CLUSTER_ROLE;

rules![MSC_01];

rule! {
    /// a verb of the role view or edit is also granted to the roles above it
    ///
    /// Each verb that a ClusterRole with the label `rbac.authorization.k8s.io/aggregate-to-view:
    /// "true"` grants on a resource is also granted, on the same API group and resource, by roles
    /// with `aggregate-to-edit`, and by roles with `aggregate-to-admin`. Roles for `admin` also
    /// grant each verb that a role for `edit` grants. The role itself counts for each of its
    /// labels. Roles with an `aggregationRule` do not count, because a controller writes their
    /// rules. Roles with a label `olm.opgroup.permissions/…`, which OLM generates, are exempt. The
    /// rule evaluates an UPDATE only if it changes the rules or these labels. Without cluster
    /// state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// The roles with more permissions do not inherit rules from those with fewer (OpenShift 4.12,
    /// Operators, *Creating cluster roles for custom resource definitions*). Editors of a project
    /// would not see objects that its viewers see.
    ///
    /// # Remediation
    ///
    /// Create the role for `admin` and `edit` first, and grant the verb in it.
    ///
    /// # Accepted
    ///
    /// `aggregate-cron-tabs-view`, after `aggregate-cron-tabs-admin-edit` with the same resource
    /// and the verbs `get`, `list` and `watch`.
    ///
    /// # Rejected
    ///
    /// `aggregate-cron-tabs-view` without a role for `edit` or `admin`.
    ///
    /// `message: verb "get" on crontabs.stable.example.com granted to role view must also be
    /// granted to role edit`
    MSC_01: Warn {
        name: "aggregated-verbs-granted-to-higher-roles",
        on: [CLUSTER_ROLE: Create | Update],
        reads: [CLUSTER_ROLES],
        may_skip: true,
        source: ["OCP 4.12 L4961-5005, L3560-3611", "OCP 4.15 L3112-3114", "OCP 4.5 L1557-1562"],
    }
}

/// The default roles, from fewer to more permissions.
const ROLES: [&str; 3] = ["view", "edit", "admin"];

fn label(role: &str) -> String {
    format!("/metadata/labels/rbac.authorization.k8s.io~1aggregate-to-{role}")
}

fn is_aggregated_to(object: &Document, role: &str) -> bool {
    object.text(&label(role)).as_deref() == Some("true")
}

const TOO_MANY_RULES: &str = "the roles have more rules than can be compared";

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject().filter(|_| report.is_on(&MSC_01)) else { return };
    let is_changed = review.touches_json(object, "/rules")
        || ROLES.iter().any(|role| review.touches_json(object, &label(role)));
    let below: Vec<_> =
        ["view", "edit"].into_iter().filter(|role| is_aggregated_to(object, role)).collect();
    if !is_changed || below.is_empty() || is_generated(object) {
        return;
    }
    let Some(grants) = rbac::read_grants(object, &mut ReadBudget::for_own_role()) else {
        return report.skip(&MSC_01, "rules", TOO_MANY_RULES);
    };
    let Some(wanted) = rbac::required_permissions(&grants) else {
        return report.skip(&MSC_01, "rules", TOO_MANY_RULES);
    };
    let above = ROLES.iter().skip_while(|role| **role != below.first().copied().unwrap_or("admin"));
    let mut missing = BTreeMap::new();
    let mut budget = ReadBudget::for_other_roles();
    for role in above.skip(1) {
        let found = missing_permissions(review, object, role, (&grants, &wanted), &mut budget);
        let Some(found) = report.or_skip(&[&MSC_01], "ClusterRoles", found) else { return };
        let Some(found) = found else { return report.skip(&MSC_01, "rules", TOO_MANY_RULES) };
        missing.insert(*role, found);
    }
    for role in below {
        for above in ROLES.iter().skip_while(|above| **above != role).skip(1) {
            let missing = missing.get(above).into_iter().flatten();
            report.add_each(&MSC_01, missing, |one| {
                let (rule, verb) = one.position;
                let (name, on) = (quote(&shorten(one.verb, 256)), shorten(&one.resource(), 512));
                let message = format!(
                    "verb {name} on {on} granted to role {role} must also be granted to role {above}"
                );
                (format!("rules[{rule}].verbs[{verb}]"), message)
            });
        }
    }
}

/// Whether OLM generates the role for the members of an OperatorGroup.
fn is_generated(object: &Document) -> bool {
    object.keys("/metadata/labels").iter().any(|key| key.starts_with("olm.opgroup.permissions/"))
}

/// Permissions that no role for `role` grants; none if there is too much to compare.
fn missing_permissions<'w>(
    review: &Review<'_>,
    object: &Document,
    role: &str,
    (own, wanted): (&[Grant], &'w [RequiredPermission<'w>]),
    budget: &mut ReadBudget,
) -> Result<Option<Vec<&'w RequiredPermission<'w>>>, ReadError> {
    let mut coverage = Coverage::new(wanted);
    let mut fits = !is_aggregated_to(object, role) || coverage.add(own);
    let resources = coverage.resources();
    let labels =
        format!(r#"{{"matchLabels":{{"rbac.authorization.k8s.io/aggregate-to-{role}":"true"}}}}"#);
    let matches = [IndexMatch { index: "resource", values: &resources, include_missing: false }];
    let query = Query { label_selector: Some(&labels), matches: &matches, ..Query::default() };
    let name = review.name(object);
    CLUSTER_ROLES.each(query, |other| {
        // The role itself counts, with the rules of the request.
        if other.text_or_empty("/metadata/name") == name || other.has("/aggregationRule") {
            return true;
        }
        fits =
            fits && rbac::read_grants(&other, budget).is_some_and(|grants| coverage.add(&grants));
        fits
    })?;
    Ok(fits.then(|| coverage.missing()))
}
