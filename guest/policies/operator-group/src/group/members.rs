//! The existing ClusterServiceVersions in the namespace of an OperatorGroup.

use std::collections::BTreeMap;

use opgate_sdk::cluster::Query;
use opgate_sdk::{Report, is_terminating, rule, rules};

use super::Group;
use crate::group_surface::Selection;
use crate::install_modes::InstallModes;
use crate::kinds::GROUP;
use crate::olm_reason::{self, OlmReason};
use crate::reads::{CSVS, NAMESPACES};
use crate::{lists, targets};

rules![OPG_16, OPG_17];

/// Maximum number of member names in a message.
const MAX_SHOWN_MEMBERS: usize = 3;

rule! {
    /// members that supported the old target namespaces support the new ones
    ///
    /// When an UPDATE changes the target namespaces of a group, each ClusterServiceVersion (CSV) in
    /// its namespace that supported the old targets supports the new ones. The targets are the
    /// names in `spec.targetNamespaces`, else the Namespaces that the selector matches, else all
    /// namespaces. The rule does not evaluate CSVs that did not support the old targets, CSVs with
    /// the label `olm.copiedFrom`, CSVs that are being deleted, or a change to a selector that
    /// matches nothing. The status of the group does not count for the old targets. The rule reads
    /// CSVs and, for selectors, Namespaces.
    ///
    /// # Why
    ///
    /// OLM marks the CSV of a running Operator that does not support the new targets as failed with
    /// the reason `UnsupportedOperatorGroup` (OpenShift 4.12, Operators, *Troubleshooting Operator
    /// groups*). No install mode implies another; OPG-22 lists them.
    ///
    /// # Remediation
    ///
    /// Choose targets that all CSVs in the namespace support. Otherwise remove the Operator that
    /// does not support them, or give it a separate namespace and group. The message names up to
    /// three CSVs.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The only CSV supports SingleNamespace and MultiNamespace; before: [ns-b].
    /// spec: {targetNamespaces: [ns-a, ns-b]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # payments.v1.0.0 supports OwnNamespace only; before: [payments].
    /// spec: {}
    /// ```
    ///
    /// `message: AllNamespaces InstallModeType not supported, cannot configure to watch all
    /// namespaces (csv payments.v1.0.0)`
    OPG_16: Deny {
        name: "members-support-changed-target-namespaces",
        on: [GROUP: Update],
        reads: [NAMESPACES, CSVS],
        source: ["OCP 4.12 L3264-3311, L4048", "OCP 4.15 L2339-2642", "OLM pkg/controller/operators/olm/operator.go", "api pkg/operators/v1alpha1/clusterserviceversion.go"],
    }
}

rule! {
    /// a new OperatorGroup has target namespaces that the members in its namespace support
    ///
    /// The CSVs that are in a namespace when its OperatorGroup is created support the targets of
    /// the group. The targets are those of OPG-16, and install modes are compared as for OPG-22.
    /// The rule does not evaluate CSVs with the label `olm.copiedFrom`, CSVs that are being
    /// deleted, or groups without targets. It reports CSVs with no install modes. The rule applies
    /// to CREATE only. It reads CSVs and, for selectors, Namespaces.
    ///
    /// # Why
    ///
    /// OLM marks such a CSV as failed with the reason `UnsupportedOperatorGroup` (OpenShift 4.12,
    /// Operators, *Troubleshooting Operator groups*). The CSV existed before the group and may have
    /// waited for any group, so the rule only warns.
    ///
    /// # Remediation
    ///
    /// Give the group targets that the CSV supports. Otherwise delete the CSV, or change its
    /// `spec.installModes` if the Operator can watch these namespaces.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The CSV in the namespace supports AllNamespaces.
    /// spec: {}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The CSV in the namespace, etcdoperator.v0.9.4, supports OwnNamespace only.
    /// spec: {targetNamespaces: [a, b]}
    /// ```
    ///
    /// `message: csv etcdoperator.v0.9.4: MultiNamespace InstallModeType not supported, cannot
    /// configure to watch 2 namespaces (UnsupportedOperatorGroup)`
    OPG_17: Warn {
        name: "members-support-new-operator-group",
        on: [GROUP: Create],
        reads: [NAMESPACES, CSVS],
        source: ["OCP 4.12 L4048", "OLM pkg/controller/operators/olm/operator.go"],
    }
}

impl Group<'_> {
    /// The members support the targets.
    pub(super) fn check_members(&self, report: &mut Report<'_>) {
        let rule = if self.review.is_update() { &OPG_16 } else { &OPG_17 };
        if !report.is_on(rule) || self.keeps_targets() {
            return;
        }
        let namespace = self.review.namespace();
        let mut members = Vec::new();
        // Copies have a label, and the read excludes it. `status.reason` alone does not make a
        // copy: a user with write access to the status could hide a member, change the group, and
        // show the member again.
        let query = Query { namespace: Some(namespace), ..Query::default() };
        let result = CSVS.each(query, |csv| {
            if !is_terminating(&csv) {
                members.push((csv.text_or_empty("/metadata/name"), InstallModes::of(&csv)));
            }
            true
        });
        let result = report.or_skip(&[rule], "ClusterServiceVersions", result);
        if result.is_none() || members.is_empty() {
            return;
        }
        let Some(new) = report.or_skip(&[rule], "Namespaces", self.targets()) else { return };
        // A group without targets: OPG-11 reports it.
        if new.is_empty() {
            return;
        }
        let new_names: Vec<_> = new.iter().map(String::as_str).collect();
        let Some(old) = self.review.old_of_update() else {
            let mut unsupported = members.iter().filter_map(|(name, modes)| {
                Some((name, modes.supports(namespace, &new_names).err()?))
            });
            for (name, why) in unsupported.by_ref().take(Report::MAX_VIOLATIONS) {
                let reason = OlmReason::UnsupportedOperatorGroup;
                report.add(&OPG_17, "spec", format!("csv {name}: {why} ({reason})"));
            }
            report.add_count(&OPG_17, unsupported.count());
            return;
        };
        // The status is ignored: a user could have written it for this purpose.
        let old = targets::select_namespaces(Selection::of(old));
        let Some(old) = report.or_skip(&[rule], "Namespaces", old) else { return };
        if old == *new {
            return;
        }
        let old_names: Vec<_> = old.iter().map(String::as_str).collect();
        let lost =
            members.iter().filter(|(_, modes)| modes.supports(namespace, &old_names).is_ok());
        let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, modes) in lost {
            if let Err(why) = modes.supports(namespace, &new_names) {
                reasons.entry(why).or_default().push(name.clone());
            }
        }
        for (why, names) in reasons {
            let message =
                format!("{why} (csv {})", lists::join_shortened(&names, MAX_SHOWN_MEMBERS));
            let reason = OlmReason::UnsupportedOperatorGroup;
            olm_reason::add(report, reason, &OPG_16, "spec.targetNamespaces", message);
        }
    }
}
