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
    /// group. A group without the field is not judged, and the older shape
    /// `spec.serviceAccount.metadata` is ignored. The rule evaluates an UPDATE only if it sets
    /// another name; removing the field is always allowed. The rule reads ServiceAccounts.
    ///
    /// # Why
    ///
    /// OLM installs with the rights of that account. Where it does not exist, OLM sets the
    /// condition `OperatorGroupServiceAccount` with the reason `ServiceAccountNotFound`, and
    /// InstallPlans generate no CSV (OpenShift 4.12, Operators, *Troubleshooting Operator groups*).
    ///
    /// # Repair
    ///
    /// Create the ServiceAccount before the group, or correct or remove the name. Where one file
    /// holds both, put the ServiceAccount first. If the group is still refused, apply the file
    /// again: a moment may pass until opgate sees the account.
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
        on: [GROUP: Create | Update],
        reads: [SERVICE_ACCOUNTS],
        source: "OCP 4.12 L4035, L7958-7976, L8071-8082, L3449-3451; OCP 4.15 L2615-2642, L5622-5627; OLM pkg/controller/operators/olm/operatorgroup.go",
    }
}

impl Group<'_> {
    pub(super) fn account_exists(&self, report: &mut Report<'_>) {
        let pointer = "/spec/serviceAccountName";
        let account = self.object.text_or_empty(pointer);
        if account.is_empty()
            || !self.review.touches(self.object, pointer, &Shape::Scalar)
            || !report.is_on(&OPG_15)
        {
            return;
        }
        let found = SERVICE_ACCOUNTS.get(self.review.namespace(), &account);
        if let Some(None) = report.answer(&[&OPG_15], "ServiceAccounts", found) {
            let message = format!("ServiceAccount {account} not found");
            let (reason, field) = (OlmReason::ServiceAccountNotFound, "spec.serviceAccountName");
            olm_reason::add(report, reason, &OPG_15, field, message);
        }
    }
}
