//! Users that change the spec of an OperatorCondition.

use opgate_sdk::{Document, Report, Review, rule, rules};

use crate::targets::CONDITION;

rules![CND_04, CND_05];

pub(super) fn check(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    let Some(old) = review.old_of_update() else { return };
    let changes = |pointer: &str| !object.equal(pointer, old, pointer);
    // OLM or an administrator sends most updates, and most others change only the status.
    if !is_account_of_namespace(review) || !changes("/spec") || review.may_be_olm() {
        return;
    }
    check_overrides(review, changes("/spec/overrides"), report);
    check_spec(report);
}

/// Whether a ServiceAccount of the object's own namespace sent the request.
fn is_account_of_namespace(review: &Review<'_>) -> bool {
    let user = review.request.user();
    let account = user.username.strip_prefix("system:serviceaccount:");
    let namespace = account.and_then(|account| account.split_once(':')).map(|(ns, _)| ns);
    namespace.is_some_and(|namespace| namespace == review.namespace())
}

rule! {
    /// overrides are changed by administrators, not by Operators
    ///
    /// An UPDATE that changes `spec.overrides` does not come from a ServiceAccount of the object's
    /// own namespace. OLM's users (`identities.olm` or the profile) may change everything. The rule
    /// does not evaluate changes of `spec.conditions`, or requests for the subresource `status`.
    /// The setting `operatorCondition.overrides: deny` makes the rule deny.
    ///
    /// # Why
    ///
    /// A cluster administrator uses overrides to overrule the state that an Operator reports
    /// (OpenShift 4.12, Operators, *Overriding Operator conditions*). OLM grants the Operator's
    /// ServiceAccounts update of the whole object, so RBAC does not prevent an Operator from
    /// overruling its administrator.
    ///
    /// # Remediation
    ///
    /// In the Operator, write `spec.conditions`. As an administrator, write the overrides as
    /// yourself and not as a ServiceAccount of the Operator's namespace. To allow a ServiceAccount
    /// to write overrides, use the setting `exempt.users`.
    ///
    /// # Accepted
    ///
    /// The user `admin` adds an override, or `system:serviceaccount:operators:my-operator` changes
    /// `spec.conditions`.
    ///
    /// # Rejected
    ///
    /// `system:serviceaccount:operators:my-operator` adds to an object in the namespace
    /// `operators`:
    ///
    /// ```yaml
    /// spec: {overrides: [{type: Upgradeable, status: "True"}]}
    /// ```
    ///
    /// `message: spec.overrides is reserved for cluster administrators, changed by
    /// system:serviceaccount:operators:my-operator`
    CND_04: Warn {
        name: "overrides-changed-by-administrators-only",
        on: [CONDITION: Update],
        denies_with: ["/operatorCondition/overrides"],
        source: ["OCP 4.12 L7818-7822, L7883", "OCP 4.15 L5535-5584"],
    }
}

fn check_overrides(review: &Review<'_>, is_changed: bool, report: &mut Report<'_>) {
    if is_changed {
        let user = &review.request.user().username;
        let message =
            format!("spec.overrides is reserved for cluster administrators, changed by {user}");
        report.add(&CND_04, "spec.overrides", message);
    }
}

rule! {
    /// an Operator changes only the status of its OperatorCondition
    ///
    /// An UPDATE that changes `spec` in any way does not come from a ServiceAccount of the object's
    /// own namespace. OLM's users (`identities.olm` or the profile) may change it, and so may users
    /// of the setting `exempt`. The rule is off unless the configuration sets its level.
    ///
    /// # Why
    ///
    /// OpenShift 4.12, Operators, *Enabling Operator conditions* states that the Operator may
    /// modify the status subresource only. The same documents also let Operators write
    /// `spec.conditions`, and current releases of operator-lib do so; therefore the strict rule is
    /// off by default.
    ///
    /// # Remediation
    ///
    /// In the Operator, update `status.conditions` through the subresource `status`. If your
    /// Operators use `spec.conditions`, leave the rule off.
    ///
    /// # Accepted
    ///
    /// `system:serviceaccount:operators:my-operator` updates `operatorconditions/status`.
    ///
    /// # Rejected
    ///
    /// The user above adds to an object in the namespace `operators`:
    ///
    /// ```yaml
    /// spec: {conditions: [{type: Upgradeable, status: "True"}]}
    /// ```
    ///
    /// `message: the Operator is allowed to modify only the status subresource of the
    /// OperatorCondition`
    CND_05: Deny {
        name: "operator-changes-condition-status-only",
        on: [CONDITION: Update],
        enabled_by: [],
        source: ["OCP 4.12 L4136-4140, L20005", "OCP 4.15 L14782-14840"],
    }
}

fn check_spec(report: &mut Report<'_>) {
    let message =
        "the Operator is allowed to modify only the status subresource of the OperatorCondition";
    report.add(&CND_05, "spec", message);
}
