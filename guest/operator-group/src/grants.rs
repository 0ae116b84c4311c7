//! What ServiceAccounts are granted: OPG-32, OPG-33 and OPG-36 to OPG-38. What the grants come to is
//! worked out in [`rbac`].

use opgate_sdk::{Document, Shape};

use crate::Review;
use crate::findings::Findings;
use crate::rbac::{self, Unanswered};

const ACCOUNT: &str = "/spec/serviceAccountName";
const ACCOUNT_FIELD: &str = "spec.serviceAccountName";

/// The account of an OperatorGroup: OPG-32 and OPG-38.
pub(crate) fn group(review: &Review<'_>, object: &Document, findings: &mut Findings<'_>) {
    let account = object.text_or_empty(ACCOUNT);
    if account.is_empty() || !review.touches(object, ACCOUNT, &Shape::Scalar) {
        return;
    }
    let namespace = review.namespace();
    if findings.is_on("OPG-32") {
        let found = rbac::widened_account(namespace, &account);
        if let Some(Some(through)) = answer(findings, "OPG-32", found) {
            findings.warn("OPG-32", ACCOUNT_FIELD, privileges(&through));
        }
    }
    if findings.is_enabled("OPG-38") {
        let found = rbac::lacks_pull_secrets(namespace, &account);
        if answer(findings, "OPG-38", found) == Some(true) {
            let message = format!(
                "service account {namespace}/{account} needs secrets get (ClusterRole) and create, update, patch (Role) because an Operator specifies a pull secret"
            );
            findings.deny("OPG-38", ACCOUNT_FIELD, message);
        }
    }
}

/// A new member of a group whose account installs it: OPG-37.
pub(crate) fn csv(review: &Review<'_>, object: &Document, findings: &mut Findings<'_>) {
    if !review.creates() || !findings.is_enabled("OPG-37") || !rbac::asks_for_permissions(object) {
        return;
    }
    let namespace = review.namespace();
    let found = rbac::group_account(namespace);
    let Some(Some(account)) = answer(findings, "OPG-37", found) else { return };
    let found = rbac::missing_permissions(namespace, &account, object);
    for missing in answer(findings, "OPG-37", found).unwrap_or_default() {
        let message = format!(
            "operator group service account {namespace}/{account} lacks {}; the install fails with reason InstallComponentFailed",
            missing.permission
        );
        findings.deny("OPG-37", &missing.field, message);
    }
}

/// A ClusterRoleBinding: OPG-33.
pub(crate) fn binding(review: &Review<'_>, object: &Document, findings: &mut Findings<'_>) {
    if !findings.is_on("OPG-33") || !changes(review, object, &["/subjects", "/roleRef"]) {
        return;
    }
    let found = rbac::widening_binding(object, review.spares());
    if let Some(Some(through)) = answer(findings, "OPG-33", found) {
        findings.warn("OPG-33", "subjects", privileges(&through));
    }
}

/// A Role or ClusterRole: OPG-33 for the latter, OPG-36 for both.
pub(crate) fn role(review: &Review<'_>, object: &Document, findings: &mut Findings<'_>) {
    if !changes(review, object, &["/rules", "/aggregationRule"]) {
        return;
    }
    if review.request.resource.resource == "clusterroles" && findings.is_on("OPG-33") {
        let found = rbac::widening_role(object, review.spares());
        if let Some(Some(through)) = answer(findings, "OPG-33", found) {
            findings.warn("OPG-33", "rules", privileges(&through));
        }
    }
    if findings.is_enabled("OPG-36") {
        let found = rbac::opens_groups(object, review.spares());
        if answer(findings, "OPG-36", found) == Some(true) {
            let message = "role grants write access to operatorgroups, which allows its subjects to install Operators";
            findings.warn("OPG-36", "rules", message);
        }
    }
}

/// Whether there is anything at one of the pointers that was not there before. What stays as it is
/// needs no cluster, however large it is.
fn changes(review: &Review<'_>, object: &Document, pointers: &[&str]) -> bool {
    pointers.iter().any(|pointer| review.touches_json(object, pointer))
}

fn privileges(through: &str) -> String {
    format!(
        "a service account associated with an Operator group should never be granted privileges to write APIService and CustomResourceDefinition resources ({through})"
    )
}

fn answer<T>(
    findings: &mut Findings<'_>,
    rule: &'static str,
    found: Result<T, Unanswered>,
) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(Unanswered::Absent) => {
            findings.left_out(rule, "the cluster's roles and bindings are not available");
            None
        }
        Err(Unanswered::TooLarge) => {
            findings.left_out(rule, "there is more to compare than the time allows");
            None
        }
    }
}
