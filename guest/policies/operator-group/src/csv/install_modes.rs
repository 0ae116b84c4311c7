//! The targets of a ClusterServiceVersion's group, and the install modes that must support them.

use opgate_sdk::{Report, rule, rules};

use super::MemberCsv;
use crate::kinds::CSV;
use crate::namespaces::NamespaceSet;
use crate::olm_reason::{self, OlmReason};
use crate::reads::{CSVS, GROUPS, NAMESPACES};

rules![OPG_22, OPG_23, OPG_24];

rule! {
    /// the install modes of a ClusterServiceVersion support the targets of its OperatorGroup
    ///
    /// The `spec.installModes` of a CSV, if there are any, support the targets of the OperatorGroup
    /// in its namespace (see OPG-16; the status adds to the namespaces that a selector matches).
    /// The own namespace alone needs `OwnNamespace`; one other, `SingleNamespace`; several,
    /// `MultiNamespace`, and `OwnNamespace` too if the own one is among them; all, `AllNamespaces`.
    /// A mode that is not listed is not supported, none implies another, and the rule denies a mode
    /// that is listed twice. The rule evaluates an UPDATE only if it changes the modes. It does not
    /// evaluate copies (see OPG-20), or a namespace without exactly one group or whose group has no
    /// targets. The rule reads OperatorGroups, Namespaces for selectors, and CSVs for originals.
    ///
    /// # Why
    ///
    /// OLM marks such a CSV as failed with the reason `UnsupportedOperatorGroup` (OpenShift 4.12,
    /// Operators, *Operator group membership* and *Troubleshooting Operator groups*).
    ///
    /// # Remediation
    ///
    /// Install the Operator in a namespace whose group has targets that the CSV supports, or change
    /// the targets of this group. An Operator author adds the mode if the Operator can watch these
    /// namespaces.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The group of the namespace payments has the target payments.
    /// spec: {installModes: [{type: OwnNamespace, supported: true}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The same group.
    /// spec: {installModes: [{type: AllNamespaces, supported: true}]}
    /// ```
    ///
    /// `message: OwnNamespace InstallModeType not supported, cannot configure to watch own
    /// namespace`
    pub(crate) OPG_22: Deny {
        name: "csv-install-modes-support-operator-group",
        on: [CSV: Create | Update],
        reads: [GROUPS, NAMESPACES, CSVS],
        source: ["OCP 4.12 L2256, L3264-3320, L4048", "OCP 4.15 L2339-2642", "OCP 4.5 L901-905, L1254-1256", "OLM pkg/controller/operators/olm/operator.go", "api pkg/operators/v1alpha1/clusterserviceversion.go, pkg/operators/v1alpha1/clusterserviceversion_test.go"],
    }
}

rule! {
    /// a ClusterServiceVersion has install modes
    ///
    /// A CSV lists `spec.installModes`. The rule reports a CSV without any. The message names the
    /// mode that the OperatorGroup of its namespace requires. The setting
    /// `operatorGroup.emptyInstallModes: deny` makes it deny. The rule evaluates the same UPDATEs
    /// as OPG-22, exempts the same CSVs, and reads the same objects.
    ///
    /// # Why
    ///
    /// A mode that is not listed is not supported, so such a CSV fits no group and OLM marks it as
    /// failed with the reason `UnsupportedOperatorGroup` (OpenShift 4.12, Operators, *Operator
    /// group membership*). The documentation itself prints CSVs without install modes, so the rule
    /// only warns by default.
    ///
    /// # Remediation
    ///
    /// Add the four modes to `spec.installModes` and set `supported: true` for those that the
    /// Operator supports.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The group of the namespace is for all namespaces.
    /// spec: {installModes: [{type: AllNamespaces, supported: true}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The group of the namespace is for all namespaces.
    /// spec: {installModes: []}
    /// ```
    ///
    /// `message: spec.installModes is empty: AllNamespaces InstallModeType not supported, cannot
    /// configure to watch all namespaces`
    pub(crate) OPG_23: Warn {
        name: "csv-install-modes-not-empty",
        on: [CSV: Create | Update],
        reads: [GROUPS, NAMESPACES, CSVS],
        denies_with: ["/operatorGroup/emptyInstallModes"],
        source: ["OCP 4.12 L2436-2447, L3320", "api pkg/operators/v1alpha1/clusterserviceversion.go"],
    }
}

rule! {
    /// the OperatorGroup of a new ClusterServiceVersion has target namespaces
    ///
    /// The OperatorGroup in the namespace of a new CSV has at least one target namespace (see
    /// OPG-16; the status adds to the namespaces that a selector matches). Only a group with a
    /// selector can have none. Copies are exempt, and an UPDATE counts as a creation, as for
    /// OPG-20. The rule reads OperatorGroups, Namespaces for selectors, and CSVs for originals.
    ///
    /// # Why
    ///
    /// OLM marks the CSV as failed with the reason `NoTargetNamespaces` until a Namespace matches
    /// the selector of the group (OLM `pkg/controller/operators/olm/operator.go`). A match can
    /// appear moments later, so the rule only warns.
    ///
    /// # Remediation
    ///
    /// Label a Namespace so that it matches the selector of the group, or correct the selector.
    ///
    /// # Accepted
    ///
    /// The selector of the group matches the Namespace `target-ns`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The group has selector {matchLabels: {a: app-a}}; no Namespace has that label.
    /// metadata: {name: etcdoperator.v0.9.4, namespace: operators}
    /// ```
    ///
    /// `message: no targetNamespaces are matched operatorgroups namespace selection`
    pub(crate) OPG_24: Warn {
        name: "csv-operator-group-has-targets",
        on: [CSV: Create | Update],
        reads: [GROUPS, NAMESPACES, CSVS],
        source: ["OLM pkg/controller/operators/olm/operator.go, pkg/controller/operators/olm/operator_test.go"],
    }
}

impl MemberCsv<'_> {
    /// The group has targets, and the install modes support them.
    pub(super) fn check_install_modes(&self, targets: &NamespaceSet, report: &mut Report<'_>) {
        if targets.is_empty() {
            if !self.review.is_update() {
                let message = "no targetNamespaces are matched operatorgroups namespace selection";
                report.add(&OPG_24, "metadata.namespace", message);
            }
            return;
        }
        let Some(modes) = &self.modes else { return };
        let names: Vec<_> = targets.iter().map(String::as_str).collect();
        let Err(why) = modes.supports(self.review.namespace(), &names) else { return };
        let (rule, message) = if modes.is_empty() {
            (&OPG_23, format!("spec.installModes is empty: {why}"))
        } else {
            (&OPG_22, why)
        };
        let reason = OlmReason::UnsupportedOperatorGroup;
        olm_reason::add(report, reason, rule, "spec.installModes", message);
    }
}
