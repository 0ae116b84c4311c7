//! The namespace of a ClusterServiceVersion has exactly one OperatorGroup.

use opgate_sdk::cluster::{Query, ReadError};
use opgate_sdk::{Document, Report, rule, rules};

use super::{MAX_SHOWN, MemberCsv};
use crate::kinds::CSV;
use crate::olm_reason::{self, OlmReason};
use crate::reads::{CSVS, GROUPS};
use crate::{lists, targets};

rules![OPG_20, OPG_21];

rule! {
    /// the namespace of a new ClusterServiceVersion has an OperatorGroup
    ///
    /// The namespace of a new ClusterServiceVersion (CSV) has an OperatorGroup; one that is being
    /// deleted still counts. A CSV claims to be a copy by the label `olm.copiedFrom`, by
    /// `status.reason: Copied`, or by an annotation `olm.operatorNamespace` that names another
    /// namespace. A copy is exempt if one of OLM's identities (`identities.olm`) writes it, or if
    /// its original exists, is not itself a copy, and has the same install modes, owned APIs,
    /// `replaces`, `skips` and pull secrets. An UPDATE counts as a creation if it drops or changes
    /// a mark, or if the copy no longer matches its original. The rule reads OperatorGroups, and
    /// CSVs for originals.
    ///
    /// # Why
    ///
    /// Without a group, OLM marks the CSV as failed with the reason `NoOperatorGroup`, because it
    /// installs only members of a group (OpenShift 4.12, Operators, *Troubleshooting Operator
    /// groups* and *OLM Operator*).
    ///
    /// # Remediation
    ///
    /// Create the OperatorGroup, then the CSV. If OLM created the CSV for a Subscription, the
    /// denial is in the InstallPlan: `kubectl -n NAMESPACE describe installplan NAME`.
    ///
    /// # Accepted
    ///
    /// The namespace `scoped` of the CSV has one OperatorGroup.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The namespace orders has no OperatorGroup.
    /// metadata: {name: etcdoperator.v0.9.4, namespace: orders}
    /// ```
    ///
    /// `message: csv in namespace with no operatorgroups`
    pub(crate) OPG_20: Deny {
        name: "csv-requires-operator-group",
        on: [CSV: Create | Update],
        reads: [GROUPS, CSVS],
        source: ["OCP 4.12 L2256, L4026-4044, L25906", "OCP 4.15 L1665, L2615-2642, L19590", "OLM pkg/controller/operators/olm/operator.go"],
    }
}

rule! {
    /// the namespace of a new ClusterServiceVersion has only one OperatorGroup
    ///
    /// The namespace of a new CSV has no more than one OperatorGroup; groups that are being deleted
    /// count. Existing CSVs may change. Copies are exempt, and an UPDATE counts as a creation, as
    /// for OPG-20. The rule reads OperatorGroups, and CSVs for originals.
    ///
    /// # Why
    ///
    /// OLM marks the CSV as failed with the reason `TooManyOperatorGroups` because it cannot choose
    /// a group (OpenShift 4.5, Operators, *Troubleshooting Operator groups*).
    ///
    /// # Remediation
    ///
    /// Delete all groups of the namespace but one, wait until they are gone, and create the CSV
    /// again. The message names up to five of them.
    ///
    /// # Accepted
    ///
    /// The namespace `scoped` of the CSV has one OperatorGroup.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The namespace legacy has the OperatorGroups a and b.
    /// metadata: {name: etcdoperator.v0.9.4, namespace: legacy}
    /// ```
    ///
    /// `message: csv created in namespace with multiple operatorgroups, can't pick one
    /// automatically: legacy has a, b; delete all but one`
    pub(crate) OPG_21: Deny {
        name: "csv-requires-single-operator-group",
        on: [CSV: Create | Update],
        reads: [GROUPS, CSVS],
        source: ["OCP 4.12 L4026-4044", "OCP 4.5 L1250-1253", "OLM pkg/controller/operators/olm/operator.go"],
    }
}

impl MemberCsv<'_> {
    /// Checks the group, then the requirements that depend on it.
    pub(super) fn check(&self, report: &mut Report<'_>) {
        let mut rules = self.applicable_rules(report);
        if rules.is_empty() {
            return;
        }
        let groups = find_groups(self.review.namespace());
        let Some((first, names)) = report.or_skip(&rules, "OperatorGroups", groups) else { return };
        let Some(group) = first else {
            if !self.review.is_update() {
                let message = "csv in namespace with no operatorgroups";
                let reason = OlmReason::NoOperatorGroup;
                olm_reason::add(report, reason, &OPG_20, "metadata.namespace", message);
            }
            return;
        };
        if names.len() > 1 {
            if !self.review.is_update() {
                let message = format!(
                    "csv created in namespace with multiple operatorgroups, can't pick one automatically: {} has {}; delete all but one",
                    self.review.namespace(),
                    lists::join_shortened(&names, MAX_SHOWN)
                );
                let reason = OlmReason::TooManyOperatorGroups;
                olm_reason::add(report, reason, &OPG_21, "metadata.namespace", message);
            }
            return;
        }
        rules.retain(|rule| rule.id != OPG_20.id && rule.id != OPG_21.id);
        if rules.is_empty() {
            return;
        }
        let targets = targets::of(&group);
        let Some(targets) = report.or_skip(&rules, "Namespaces", targets) else { return };
        self.check_install_modes(&targets, report);
        self.check_group_annotations(&group, &targets, report);
        self.check_provided_apis(&group, &targets, report);
    }
}

/// The first group of a namespace, and the names of all. Groups that are being deleted count: OLM
/// reads them until they are gone.
fn find_groups(namespace: &str) -> Result<(Option<Document>, Vec<String>), ReadError> {
    let (mut first, mut names) = (None, Vec::new());
    GROUPS.each(Query { namespace: Some(namespace), ..Query::default() }, |group| {
        names.push(group.text_or_empty("/metadata/name"));
        first.get_or_insert(group);
        true
    })?;
    // During a change, the host can list an object twice: the stored and the pending state.
    names.dedup();
    Ok((first, names))
}
