//! What an OperatorGroup names exists: its ServiceAccount, and Namespaces that its selector matches.

use opgate_sdk::cluster::Query;
use opgate_sdk::{Report, Shape, rule, rules};

use super::Group;
use crate::groups::Selection;
use crate::kinds::GROUP;
use crate::olm_reason::{self, OlmReason};
use crate::reads::{NAMESPACES, SERVICE_ACCOUNTS};

rules![OPG_11, OPG_15];

rule! {
    /// the ServiceAccount that an OperatorGroup names exists
    ///
    /// The ServiceAccount that `spec.serviceAccountName` names exists in the namespace of the
    /// group. A group without the field is not judged, and the older shape
    /// `spec.serviceAccount.metadata` is ignored. An UPDATE is judged where it sets another name;
    /// removing the field is always allowed. The rule reads ServiceAccounts.
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

rule! {
    /// a selector matches a Namespace
    ///
    /// A `spec.selector` with `matchLabels` or `matchExpressions` matches at least one Namespace.
    /// Groups with target names are not judged: these namespaces need not exist. The own namespace
    /// of the group counts only if it matches. An UPDATE is judged where it changes what the spec
    /// selects. The rule reads Namespaces.
    ///
    /// # Why
    ///
    /// A group without targets has nowhere to work: OLM lets every CSV in its namespace fail with
    /// the reason `NoTargetNamespaces` until a Namespace matches (OLM
    /// `pkg/controller/operators/olm/operator.go`).
    ///
    /// # Repair
    ///
    /// Label a Namespace as the selector asks, or correct the selector. `kubectl get namespaces -l
    /// LABEL` shows what matches.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The Namespace target-ns has the label app=app-a.
    /// spec: {selector: {matchLabels: {app: app-a}}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # No Namespace has the label a=app-a.
    /// spec: {selector: {matchLabels: {a: app-a}}}
    /// ```
    ///
    /// `message: no targetNamespaces are matched operatorgroups namespace selection`
    OPG_11: Warn {
        on: [GROUP: Create | Update],
        reads: [NAMESPACES],
        source: "OCP 4.12 L3359, L3383; OLM pkg/controller/operators/olm/operatorgroup.go, pkg/controller/operators/olm/operator.go",
    }
}

impl Group<'_> {
    pub(super) fn selects_something(&self, report: &mut Report<'_>) {
        let Selection::Labels(labels) = Selection::of(self.object) else { return };
        if !self.review.touches_json(self.object, "/spec") || !report.is_on(&OPG_11) {
            return;
        }
        if self.review.spares().is_some() && self.keeps_targets() {
            return;
        }
        // Whether there is one costs less than which ones there are, unless that is known.
        let query = Query { labels: Some(&labels), ..Query::default() };
        let any = match self.targets.get() {
            Some(Ok(targets)) => Ok(!targets.is_empty()),
            _ => NAMESPACES.any(query),
        };
        if report.answer(&[&OPG_11], "Namespaces", any) == Some(false) {
            let message = "no targetNamespaces are matched operatorgroups namespace selection";
            report.add(&OPG_11, "spec.selector", message);
        }
    }
}
