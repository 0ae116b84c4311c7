//! The permissions of ServiceAccounts. [`rbac`] computes the permissions that roles and bindings
//! grant.

use opgate_sdk::{Document, Report, Review, Rule, Shape, rule, rules};

use crate::kinds::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CSV, GROUP, ROLE};
use crate::rbac::{self, MAX_STEPS, SearchError, SearchResult};
use crate::reads::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CSVS, GROUPS, ROLE_BINDINGS, ROLES};

rules![OPG_32, OPG_33, OPG_36, OPG_37, OPG_38];

const ACCOUNT: &str = "/spec/serviceAccountName";
const ACCOUNT_FIELD: &str = "spec.serviceAccountName";
const INSTALL_FIELD: &str = "spec.install.spec";
const REQUIRED_STATE: &str = "roles and bindings";

rule! {
    /// the ServiceAccount of an OperatorGroup has no write access to CRDs and API services
    ///
    /// No ClusterRoleBinding gives the ServiceAccount in `spec.serviceAccountName` a ClusterRole
    /// that allows `create`, `update`, `patch`, `delete`, `deletecollection` or `*` on
    /// `apiservices` of `apiregistration.k8s.io` or `customresourcedefinitions` of
    /// `apiextensions.k8s.io`, wildcards included. The account counts by itself, as the user
    /// `system:serviceaccount:NAMESPACE:NAME`, and in the groups `system:serviceaccounts`,
    /// `system:serviceaccounts:NAMESPACE` and `system:authenticated`. The rule evaluates an UPDATE
    /// only if it sets another account. The rule reads ClusterRoles and ClusterRoleBindings, not
    /// Roles and RoleBindings. If a comparison needs more than 500,000 steps, the policy skips the
    /// rule, or denies the request if `rules` sets the rule to `deny`.
    ///
    /// # Why
    ///
    /// OLM writes CRDs and API services itself, with its own permissions. An account with write
    /// access to them allows any Operator of the group to change the APIs of the whole cluster
    /// (OpenShift 4.12, Operators, *Understanding Operator installation policy*).
    ///
    /// # Remediation
    ///
    /// Remove the ClusterRoleBinding that the message names, or bind a narrower role. Grant the
    /// account the permissions that it needs with a Role and a RoleBinding in its namespace.
    ///
    /// # Accepted
    ///
    /// The account has all permissions in its namespace, from a Role and a RoleBinding.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The ClusterRoleBinding installer gives scoped/scoped the ClusterRole cluster-admin.
    /// metadata: {name: scoped, namespace: scoped}
    /// spec: {serviceAccountName: scoped}
    /// ```
    ///
    /// `message: a service account associated with an Operator group should never be granted
    /// privileges to write APIService and CustomResourceDefinition resources (ClusterRole
    /// "cluster-admin" through ClusterRoleBinding "installer")`
    OPG_32: Warn {
        name: "group-service-account-no-crd-write",
        on: [GROUP: Create | Update],
        reads: [CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS],
        may_skip: true,
        source: ["OCP 4.12 L7946, L8042-8064", "OCP 4.15 L5622-5627", "OCP 4.5 L2750-2758"],
    }
}

rule! {
    /// the ServiceAccount of an OperatorGroup can read and write pull secrets that a member uses
    ///
    /// If a deployment of a CSV in the namespace names `imagePullSecrets`, the ServiceAccount in
    /// `spec.serviceAccountName` has `get` on these secrets in the whole cluster, by a
    /// ClusterRoleBinding, and `create`, `update` and `patch` on secrets in the namespace. CSVs
    /// with the label `olm.copiedFrom` and CSVs that are being deleted do not count. The rule
    /// evaluates an UPDATE of the group only if it sets another account; it does not evaluate a CSV
    /// that is created later. The rule is off until `rules` sets its level. It reads CSVs, roles
    /// and bindings. If a comparison needs more than 500,000 steps, the policy skips the rule, or
    /// denies the request if that level is `deny`.
    ///
    /// # Why
    ///
    /// OLM reads the pull secret from its own namespace and writes it to the Operator's namespace,
    /// both with the permissions of that account (OpenShift 4.12, Operators, *Fine-grained
    /// permissions*).
    ///
    /// # Remediation
    ///
    /// Bind the account to a ClusterRole with `get` on `secrets` by a ClusterRoleBinding, and to a
    /// Role with `create`, `update` and `patch` on `secrets` in its namespace.
    ///
    /// # Accepted
    ///
    /// The account `scoped/scoped` has both permissions.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # A CSV in the namespace scoped names a pull secret; the account has no rights on secrets.
    /// spec: {serviceAccountName: scoped}
    /// ```
    ///
    /// `message: service account scoped/scoped needs secrets get (ClusterRole) and create, update,
    /// patch (Role) because an Operator specifies a pull secret`
    OPG_38: Deny {
        name: "group-service-account-accesses-pull-secrets",
        on: [GROUP: Create | Update],
        reads: [CSVS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS],
        enabled_by: [],
        may_skip: true,
        source: ["OCP 4.12 L8203-8218", "OCP 4.15 L5763-5820"],
    }
}

/// Checks the ServiceAccount of an OperatorGroup.
pub(crate) fn check_group(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    let account = object.text_or_empty(ACCOUNT);
    if account.is_empty() || !review.touches(object, ACCOUNT, &Shape::Scalar) {
        return;
    }
    let namespace = review.namespace();
    if report.is_on(&OPG_32) {
        let found = rbac::widened_account(namespace, &account);
        if let Some(through) = take_value(report, &OPG_32, ACCOUNT_FIELD, found) {
            report.add(&OPG_32, ACCOUNT_FIELD, privileges_message(&through));
        }
    }
    if report.is_on(&OPG_38) {
        let found = rbac::lacks_pull_secrets(namespace, &account);
        if take_value(report, &OPG_38, ACCOUNT_FIELD, found) {
            let message = format!(
                "service account {namespace}/{account} needs secrets get (ClusterRole) and create, update, patch (Role) because an Operator specifies a pull secret"
            );
            report.add(&OPG_38, ACCOUNT_FIELD, message);
        }
    }
}

rule! {
    /// the ServiceAccount of an OperatorGroup has the permissions that a new member requests
    ///
    /// If the only OperatorGroup of a CSV's namespace names a ServiceAccount, that account has
    /// every permission that the CSV requests: those in `spec.install.spec.permissions` in the
    /// namespace, those in `clusterPermissions` in the whole cluster. On UPDATE, the rule evaluates
    /// only the policy rules that the request adds, or all of them if it drops or changes a mark of
    /// a copy (see OPG-20). A copy is exempt only if one of OLM's identities writes it. The rule is
    /// off until `rules` sets its level. It reads OperatorGroups, roles and bindings. If a
    /// comparison needs more than 500,000 steps, the policy skips the rule, or denies the request
    /// if that level is `deny`.
    ///
    /// # Why
    ///
    /// OLM installs the Operator with the permissions of that account. If one is missing, the
    /// installation fails with the reason `InstallComponentFailed` (OpenShift 4.12, Operators,
    /// *Scoping Operator installations* and *Troubleshooting permission failures*).
    ///
    /// # Remediation
    ///
    /// Grant the account the permissions that the message names, with a Role for `permissions` and
    /// a ClusterRole with a ClusterRoleBinding for `clusterPermissions`. Alternatively, install the
    /// Operator in a namespace whose group names no account.
    ///
    /// # Accepted
    ///
    /// A Role in the namespace `scoped` grants the account `get` on pods, and the CSV requests
    /// nothing else.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The group of the namespace scoped names the account scoped, which has no rights.
    /// spec:
    ///   install:
    ///     spec: {permissions: [{rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}]}
    /// ```
    ///
    /// `message: operator group service account scoped/scoped lacks get pods in namespace scoped;
    /// the install fails with reason InstallComponentFailed`
    OPG_37: Deny {
        name: "group-service-account-has-member-permissions",
        on: [CSV: Create | Update],
        reads: [GROUPS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS, ROLES, ROLE_BINDINGS],
        enabled_by: [],
        may_skip: true,
        source: ["OCP 4.12 L7949, L7986-8001, L8135, L8281-8311"],
    }
}

/// Checks the permissions that a ClusterServiceVersion requests.
pub(crate) fn check_csv(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    let old = review.ratchet_base();
    if !report.is_on(&OPG_37) || !rbac::requests_new_permissions(object, old) {
        return;
    }
    let namespace = review.namespace();
    let found = report.or_skip(&[&OPG_37], REQUIRED_STATE, rbac::group_account(namespace));
    let Some(Some(account)) = found else { return };
    let found = rbac::missing_permissions(namespace, &account, object, old);
    let mut missing = take_value(report, &OPG_37, INSTALL_FIELD, found).into_iter();
    for missing in missing.by_ref().take(Report::MAX_VIOLATIONS) {
        let message = format!(
            "operator group service account {namespace}/{account} lacks {}; the install fails with reason InstallComponentFailed",
            missing.permission
        );
        report.add(&OPG_37, missing.field, message);
    }
    report.add_count(&OPG_37, missing.count());
}

pub(crate) fn check_cluster_role_binding(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    if report.is_on(&OPG_33) && changes(review, object, &["/subjects", "/roleRef"]) {
        report_widening("subjects", rbac::widening_binding(object, review.ratchet_base()), report);
    }
}

pub(crate) fn check_cluster_role(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    if report.is_on(&OPG_33) && changes(review, object, &GRANTING_FIELDS) {
        report_widening("rules", rbac::widening_role(object, review.ratchet_base()), report);
    }
    check_group_writers(review, object, report);
}

pub(crate) fn check_role(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    check_group_writers(review, object, report);
}

rule! {
    /// no binding allows the ServiceAccount of an OperatorGroup to write CRDs and API services
    ///
    /// No ClusterRoleBinding, and no ClusterRole that a ClusterRoleBinding binds, gives the
    /// permissions of OPG-32 to a ServiceAccount that some OperatorGroup names in
    /// `spec.serviceAccountName`. A ClusterRole with an `aggregationRule` counts with the rules of
    /// the ClusterRoles that it selects. On UPDATE, the rule evaluates the accounts that a binding
    /// adds and the permissions that a ClusterRole adds. The rule reads OperatorGroups,
    /// ClusterRoles and ClusterRoleBindings. If a comparison needs more than 500,000 steps, the
    /// policy skips the rule, or denies the request if `rules` sets the rule to `deny`.
    ///
    /// # Why
    ///
    /// The reason is that of OPG-32, from the side of the grant: an account gets too many
    /// permissions without a change of its group (OpenShift 4.12, Operators, *Understanding
    /// Operator installation policy*).
    ///
    /// # Remediation
    ///
    /// Remove the accounts that the message names from the binding, or the permissions from the
    /// ClusterRole. Use a Role and a RoleBinding for the permissions that the account needs in its
    /// namespace.
    ///
    /// # Accepted
    ///
    /// A binding of the same account to a ClusterRole that allows `get`, `list` and `watch` on
    /// CRDs.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The OperatorGroup scoped/scoped names the ServiceAccount scoped.
    /// kind: ClusterRoleBinding
    /// roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
    /// subjects: [{kind: ServiceAccount, name: scoped, namespace: scoped}]
    /// ```
    ///
    /// `message: a service account associated with an Operator group should never be granted
    /// privileges to write APIService and CustomResourceDefinition resources (ServiceAccount
    /// scoped/scoped through ClusterRole "cluster-admin")`
    OPG_33: Warn {
        name: "no-binding-grants-group-crd-write",
        on: [CLUSTER_ROLE_BINDING: Create | Update, CLUSTER_ROLE: Create | Update],
        reads: [GROUPS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS],
        may_skip: true,
        source: ["OCP 4.12 L7946", "OCP 4.15 L5622-5627"],
    }
}

fn report_widening(field: &str, found: SearchResult<Option<String>>, report: &mut Report<'_>) {
    if let Some(through) = take_value(report, &OPG_33, field, found) {
        report.add(&OPG_33, field, privileges_message(&through));
    }
}

rule! {
    /// no role allows its subjects to write OperatorGroups
    ///
    /// No Role or ClusterRole allows `create`, `update`, `patch` or `*` on `operatorgroups` of
    /// `operators.coreos.com`, wildcards included. A rule with `resourceNames` counts for `update`
    /// and `patch`. Rules that a ClusterRole aggregates count when the controller writes them into
    /// `rules`. On UPDATE, the rule evaluates only the permissions that the request adds. The rule
    /// is off until `rules` of the policy sets its level. If the comparison of a role needs more
    /// than 500,000 steps, the policy skips the rule, or denies the request if that level is
    /// `deny`.
    ///
    /// # Why
    ///
    /// Regular users can create Subscriptions. They cannot install Operators only because they
    /// cannot write OperatorGroups (OpenShift 4.12, Operators, *Understanding Operator installation
    /// policy*).
    ///
    /// # Remediation
    ///
    /// Remove the verbs from the role, or the resource. Users who need to install Operators work in
    /// namespaces in which an administrator has created the group.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: Role
    /// rules:
    /// - {apiGroups: [operators.coreos.com], resources: [operatorgroups], verbs: [get, list]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// kind: ClusterRole
    /// rules:
    /// - {apiGroups: [operators.coreos.com], resources: [operatorgroups], verbs: [create]}
    /// ```
    ///
    /// `message: role grants write access to operatorgroups, which allows its subjects to install
    /// Operators`
    OPG_36: Warn {
        name: "no-role-writes-operator-groups",
        on: [ROLE: Create | Update, CLUSTER_ROLE: Create | Update],
        enabled_by: [],
        may_skip: true,
        source: ["OCP 4.12 L7939"],
    }
}

fn check_group_writers(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    if !report.is_on(&OPG_36) || !changes(review, object, &GRANTING_FIELDS) {
        return;
    }
    let found = rbac::grants_group_writes(object, review.ratchet_base());
    if take_value(report, &OPG_36, "rules", found) {
        let message = "role grants write access to operatorgroups, which allows its subjects to install Operators";
        report.add(&OPG_36, "rules", message);
    }
}

/// The fields of a role that grant permissions.
const GRANTING_FIELDS: [&str; 2] = ["/rules", "/aggregationRule"];

/// Whether one of the fields changed. An unchanged object, however large, needs no query.
fn changes(review: &Review<'_>, object: &Document, pointers: &[&str]) -> bool {
    pointers.iter().any(|pointer| review.touches_json(object, pointer))
}

fn privileges_message(through: &str) -> String {
    format!(
        "a service account associated with an Operator group should never be granted privileges to write APIService and CustomResourceDefinition resources ({through})"
    )
}

/// The result of a search. If the search could not finish, a rule that the configuration sets to
/// deny denies the request. Any other rule is skipped.
fn take_value<T>(
    report: &mut Report<'_>,
    rule: &'static Rule,
    field: &str,
    found: SearchResult<T>,
) -> T {
    match found.incomplete_reason {
        None => {}
        Some(SearchError::NoCluster) => {
            report.skip(rule, "", &format!("the cluster's {REQUIRED_STATE} are not available"));
        }
        Some(SearchError::TooLarge(at)) if report.is_configured_to_deny(rule) => {
            let message = format!(
                "{at}: there is more to compare than {MAX_STEPS} steps allow, and what cannot be evaluated is denied; make it smaller"
            );
            report.add(rule, field, message);
        }
        Some(SearchError::TooLarge(_)) => {
            report.skip(rule, "", "there is more to compare than the time allows");
        }
    }
    found.value
}
