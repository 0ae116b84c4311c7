//! The targets of a ClusterServiceVersion's group, and the install modes that must support them.

use opgate_sdk::{Report, rule, rules};

use super::Member;
use crate::kinds::CSV;
use crate::namespaces::NamespaceSet;
use crate::olm_reason::{self, OlmReason};
use crate::reads::{CSVS, GROUPS, NAMESPACES};

rules![OPG_22, OPG_23, OPG_24];

rule! {
    /// the install modes of a ClusterServiceVersion support the targets of its OperatorGroup
    ///
    /// The `spec.installModes` of a CSV, where there are any, support the targets of the
    /// OperatorGroup in its namespace (see OPG-16; the status adds to what a selector matches). The
    /// own namespace alone needs `OwnNamespace`; one other, `SingleNamespace`; several,
    /// `MultiNamespace`, and `OwnNamespace` too if the own one is among them; all, `AllNamespaces`.
    /// A mode that is not listed is not supported, none implies another, and the rule refuses a
    /// mode that is listed twice. The rule evaluates an UPDATE only if it changes the modes; the
    /// rule does not judge copies (see OPG-20), or a namespace without exactly one group or whose
    /// group has no targets. The rule reads OperatorGroups, Namespaces for selectors, and CSVs for
    /// originals.
    ///
    /// # Why
    ///
    /// OLM lets such a CSV fail with the reason `UnsupportedOperatorGroup` (OpenShift 4.12,
    /// Operators, *Operator group membership* and *Troubleshooting Operator groups*).
    ///
    /// # Repair
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
        on: [CSV: Create | Update],
        reads: [GROUPS, NAMESPACES, CSVS],
        source: "OCP 4.12 L2256, L3264-3320, L4048; OCP 4.15 L2339-2642; OCP 4.5 L901-905, L1254-1256; OLM pkg/controller/operators/olm/operator.go; api pkg/operators/v1alpha1/clusterserviceversion.go, pkg/operators/v1alpha1/clusterserviceversion_test.go",
    }
}

rule! {
    /// a ClusterServiceVersion has install modes
    ///
    /// A CSV lists `spec.installModes`. The rule reports a CSV without any, with the text of the
    /// mode that the OperatorGroup of its namespace asks for. The setting
    /// `operatorGroup.emptyInstallModes: deny` makes it deny. The rule judges the same UPDATEs as
    /// OPG-22, exempts the same CSVs, and reads the same objects.
    ///
    /// # Why
    ///
    /// A mode that is not listed is not supported, so such a CSV fits no group and OLM lets it fail
    /// with the reason `UnsupportedOperatorGroup` (OpenShift 4.12, Operators, *Operator group
    /// membership*). The documentation itself prints CSVs without install modes, so the rule only
    /// warns by default.
    ///
    /// # Repair
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
        on: [CSV: Create | Update],
        reads: [GROUPS, NAMESPACES, CSVS],
        denies_with: ["/operatorGroup/emptyInstallModes"],
        source: "OCP 4.12 L2436-2447, L3320; api pkg/operators/v1alpha1/clusterserviceversion.go",
    }
}

rule! {
    /// the OperatorGroup of a new ClusterServiceVersion has target namespaces
    ///
    /// The OperatorGroup in the namespace of a new CSV has at least one target namespace (see
    /// OPG-16; the status adds to what a selector matches). Only a group with a selector can have
    /// none. Copies are exempt, and an UPDATE counts as a creation, as for OPG-20. The rule reads
    /// OperatorGroups, Namespaces for selectors, and CSVs for originals.
    ///
    /// # Why
    ///
    /// OLM lets the CSV fail with the reason `NoTargetNamespaces` until a Namespace matches the
    /// selector of the group (OLM `pkg/controller/operators/olm/operator.go`). That may be a moment
    /// later, so the rule only warns.
    ///
    /// # Repair
    ///
    /// Label a Namespace as the selector of the group asks, or correct the selector.
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
        on: [CSV: Create | Update],
        reads: [GROUPS, NAMESPACES, CSVS],
        source: "OLM pkg/controller/operators/olm/operator.go, pkg/controller/operators/olm/operator_test.go",
    }
}

impl Member<'_> {
    /// There are targets, and the install modes support them.
    pub(super) fn fits(&self, targets: &NamespaceSet, report: &mut Report<'_>) {
        if targets.is_empty() {
            if self.review.creates() {
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
