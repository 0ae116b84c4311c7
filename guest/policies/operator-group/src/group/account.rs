//! The ServiceAccount of an OperatorGroup.

use opgate_sdk::{Report, Shape, rule, rules};

use super::Group;
use crate::kinds::GROUP;
use crate::olm_reason::{self, OlmReason};
use crate::reads::SERVICE_ACCOUNTS;

rules![OPG_15];

rule! {
    /// the ServiceAccount that an OperatorGroup names exists
    ///
    /// The ServiceAccount that `spec.serviceAccountName` names exists in the namespace of the
    /// group. The rule does not evaluate a group without the field, and ignores the older field
    /// `spec.serviceAccount.metadata`. The rule evaluates an UPDATE only if it sets another name;
    /// removing the field is always allowed. The rule reads ServiceAccounts.
    ///
    /// # Why
    ///
    /// OLM installs with the permissions of that account. If it does not exist, OLM sets the
    /// condition `OperatorGroupServiceAccount` with the reason `ServiceAccountNotFound`, and
    /// InstallPlans generate no CSV (OpenShift 4.12, Operators, *Troubleshooting Operator groups*).
    ///
    /// # Remediation
    ///
    /// Create the ServiceAccount before the group, or correct or remove the name. If one file holds
    /// both, put the ServiceAccount first. If the group is still denied, apply the file again:
    /// opgate may see the account a moment later.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The ServiceAccount scoped/scoped exists.
    /// metadata: {name: scoped, namespace: scoped}
    /// spec: {serviceAccountName: scoped, targetNamespaces: [scoped]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The namespace orders has no ServiceAccount installer.
    /// metadata: {name: orders, namespace: orders}
    /// spec: {serviceAccountName: installer}
    /// ```
    ///
    /// `message: ServiceAccount installer not found`
    OPG_15: Deny {
        name: "operator-group-service-account-exists",
        on: [GROUP: Create | Update],
        reads: [SERVICE_ACCOUNTS],
        source: ["OCP 4.12 L4035, L7958-7976, L8071-8082, L3449-3451", "OCP 4.15 L2615-2642, L5622-5627", "OLM pkg/controller/operators/olm/operatorgroup.go"],
    }
}

impl Group<'_> {
    pub(super) fn check_account_exists(&self, report: &mut Report<'_>) {
        let pointer = "/spec/serviceAccountName";
        let account = self.object.text_or_empty(pointer);
        if account.is_empty()
            || !self.review.touches(self.object, pointer, &Shape::Scalar)
            || !report.is_on(&OPG_15)
        {
            return;
        }
        let found = SERVICE_ACCOUNTS.get(self.review.namespace(), &account);
        if let Some(None) = report.or_skip(&[&OPG_15], "ServiceAccounts", found) {
            let message = format!("ServiceAccount {account} not found");
            let (reason, field) = (OlmReason::ServiceAccountNotFound, "spec.serviceAccountName");
            olm_reason::add(report, reason, &OPG_15, field, message);
        }
    }
}
