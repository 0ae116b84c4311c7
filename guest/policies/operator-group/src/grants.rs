//! What ServiceAccounts are granted: OPG-32, OPG-33 and OPG-36 to OPG-38. What the grants come to is
//! worked out in [`rbac`].

use opgate_sdk::{Document, Shape};

use crate::Review;
use crate::findings::Findings;
use crate::rbac::{self, Found, Unanswered, WORK};

const ACCOUNT: &str = "/spec/serviceAccountName";
const ACCOUNT_FIELD: &str = "spec.serviceAccountName";
const INSTALL_FIELD: &str = "spec.install.spec";
const ROLES: &str = "roles and bindings";

/// The account of an OperatorGroup: OPG-32 and OPG-38.
pub(crate) fn group(review: &Review<'_>, object: &Document, findings: &mut Findings<'_>) {
    let account = object.text_or_empty(ACCOUNT);
    if account.is_empty() || !review.touches(object, ACCOUNT, &Shape::Scalar) {
        return;
    }
    let namespace = review.namespace();
    if findings.is_on("OPG-32") {
        let found = rbac::widened_account(namespace, &account);
        if let Some(through) = answer(review, findings, "OPG-32", ACCOUNT_FIELD, found) {
            findings.warn("OPG-32", ACCOUNT_FIELD, privileges(&through));
        }
    }
    if findings.is_enabled("OPG-38") {
        let found = rbac::lacks_pull_secrets(namespace, &account);
        if answer(review, findings, "OPG-38", ACCOUNT_FIELD, found) {
            let message = format!(
                "service account {namespace}/{account} needs secrets get (ClusterRole) and create, update, patch (Role) because an Operator specifies a pull secret"
            );
            findings.deny("OPG-38", ACCOUNT_FIELD, message);
        }
    }
}

/// A member of a group whose account installs it, new or asking for more: OPG-37.
pub(crate) fn csv(review: &Review<'_>, object: &Document, findings: &mut Findings<'_>) {
    let old = review.spares();
    if !findings.is_enabled("OPG-37") || !rbac::asks_for_permissions(object, old) {
        return;
    }
    let namespace = review.namespace();
    let found = findings.answer(&["OPG-37"], ROLES, rbac::group_account(namespace));
    let Some(Some(account)) = found else { return };
    let found = rbac::missing_permissions(namespace, &account, object, old);
    for missing in answer(review, findings, "OPG-37", INSTALL_FIELD, found) {
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
    if let Some(through) = answer(review, findings, "OPG-33", "subjects", found) {
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
        if let Some(through) = answer(review, findings, "OPG-33", "rules", found) {
            findings.warn("OPG-33", "rules", privileges(&through));
        }
    }
    if findings.is_enabled("OPG-36") {
        let found = rbac::opens_groups(object, review.spares());
        if answer(review, findings, "OPG-36", "rules", found) {
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

/// What was found. Where that may not be all, a rule that denies refuses what nobody can judge, and
/// others are left out, and said to be.
fn answer<T>(
    review: &Review<'_>,
    findings: &mut Findings<'_>,
    rule: &'static str,
    field: &str,
    found: Found<T>,
) -> T {
    match found.short {
        None => {}
        Some(Unanswered::Absent) => {
            findings.left_out(rule, &format!("the cluster's {ROLES} are not available"));
        }
        Some(Unanswered::TooLarge(at)) if review.conventions.denies(rule, false) => {
            let message = format!(
                "{at}: there is more to compare than {WORK} steps allow, and what cannot be judged is refused; make it smaller"
            );
            findings.deny(rule, field, message);
        }
        Some(Unanswered::TooLarge(_)) => {
            findings.left_out(rule, "there is more to compare than the time allows");
        }
    }
    found.what
}
