//! The APIs that a ClusterServiceVersion adds to its group, and OLM's reaction to them.

use opgate_sdk::{Document, Report, Rule, rule, rules};

use super::{MAX_SHOWN, MemberCsv};
use crate::apis::{self, ApiSet};
use crate::conflicting_groups;
use crate::group_surface::{
    ApiReconciliation, PROVIDED_APIS, STATIC_PROVIDED_APIS, reconcile, targets_with_own,
};
use crate::kinds::CSV;
use crate::namespaces::NamespaceSet;
use crate::olm_reason::{self, OlmReason};
use crate::reads::{CSVS, GROUPS, NAMESPACES};

rules![OPG_25, OPG_26, OPG_27];

const FIELD: &str = "spec.customresourcedefinitions.owned";

rule! {
    /// a ClusterServiceVersion brings no API that an intersecting OperatorGroup provides
    ///
    /// If the annotation `olm.providedAPIs` of a CSV's OperatorGroup does not have all APIs that
    /// the CSV owns, no other group that works in one of the same namespaces (see OPG-18) provides
    /// any of them. The APIs are those under `spec.customresourcedefinitions.owned` and
    /// `spec.apiservicedefinitions.owned`; kind, version and group must all be equal. The rule
    /// evaluates an UPDATE only if it changes the set of owned APIs. Copies are exempt as for
    /// OPG-20. The rule does not evaluate a namespace without exactly one group. It reads
    /// OperatorGroups, Namespaces for selectors, and CSVs for originals.
    ///
    /// # Why
    ///
    /// OLM removes the deployments of such a CSV and marks it as failed with the reason
    /// `InterOperatorGroupOwnerConflict`: two Operators would act on the same objects (OpenShift
    /// 4.12, Operators, *Operator group intersection*).
    ///
    /// # Remediation
    ///
    /// Check first whether the installed Operator already serves the namespace: then you do not
    /// need it twice. Otherwise choose other target namespaces, or remove the Operator or the group
    /// that you need less.
    ///
    /// # Accepted
    ///
    /// The group of the CSV, `ns/g1`, has the target `ns-1`; the other provider, `ns-2/g1`, has the
    /// target `ns-2`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # ns/g1 and ns-2/g1 have the target ns-1; ns-2/g1 provides Goose.v1alpha1.birds.com.
    /// spec:
    ///   customresourcedefinitions:
    ///     owned: [{name: geese.birds.com, version: v1alpha1, kind: Goose}]
    /// ```
    ///
    /// `message: intersecting operatorgroups provide the same apis: OperatorGroup ns-2/g1
    /// (namespaces: ns-1) also provides Goose.v1alpha1.birds.com; choose other target namespaces,
    /// or remove the other Operator or group (InterOperatorGroupOwnerConflict)`
    pub(crate) OPG_25: Deny {
        name: "csv-no-intersecting-provided-apis",
        on: [CSV: Create | Update],
        reads: [GROUPS, NAMESPACES, CSVS],
        source: ["OCP 4.12 L3869-3929, L3962", "OCP 4.15 L2339-2642", "OCP 4.5 L901-1246", "OLM pkg/controller/operators/olm/groups.go, pkg/controller/operators/olm/operator.go"],
    }
}

rule! {
    /// an OperatorGroup does not lose APIs to an intersecting one
    ///
    /// If the annotation `olm.providedAPIs` of a CSV's OperatorGroup has all APIs that the CSV
    /// owns, and the group is not static, no other group that works in one of the same namespaces
    /// (see OPG-18) provides any of them. The setting `operatorGroup.removeAPIs: deny` makes the
    /// rule deny. The rule evaluates the same UPDATEs as OPG-25, exempts the same CSVs, and reads
    /// the same objects.
    ///
    /// # Why
    ///
    /// OLM removes all APIs of the CSV from the group's annotation, and reports the conflict with
    /// the reason `InterOperatorGroupOwnerConflict` when it synchronizes the CSV again (OpenShift
    /// 4.12, Operators, *Operator group intersection*; OLM
    /// `pkg/controller/operators/olm/operator.go`).
    ///
    /// # Remediation
    ///
    /// Choose target namespaces in which the other group does not work, or remove the Operator or
    /// the group that you need less. To find the other group, search for the API in the annotations
    /// of all groups: `kubectl get operatorgroups -A -o yaml`.
    ///
    /// # Accepted
    ///
    /// `ns/g1` has the target `ns-1`; the other provider, `ns-2/g1`, has the target `ns-3`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # ns/g1 and ns-2/g1 have the target ns-1 and provide Goose.v1alpha1.birds.com.
    /// spec:
    ///   customresourcedefinitions:
    ///     owned: [{name: geese.birds.com, version: v1alpha1, kind: Goose}]
    /// ```
    ///
    /// `message: intersecting operatorgroups provide the same apis; olm.providedAPIs of ns/g1 will
    /// lose Goose.v1alpha1.birds.com`
    pub(crate) OPG_26: Warn {
        name: "no-lost-provided-apis",
        on: [CSV: Create | Update],
        reads: [GROUPS, NAMESPACES, CSVS],
        denies_with: ["/operatorGroup/removeAPIs"],
        source: ["OCP 4.12 L3932-3950", "OLM pkg/controller/operators/olm/operator.go"],
    }
}

rule! {
    /// a static OperatorGroup provides the APIs of its members, and no other group does
    ///
    /// In a group with `spec.staticProvidedAPIs: true` the annotation `olm.providedAPIs` has all
    /// APIs that a CSV owns, and no other group that works in one of the same namespaces (see
    /// OPG-18) provides one of them. If an API is missing and another group provides one, OPG-25
    /// denies the CSV instead. The rule evaluates the same UPDATEs as OPG-25, exempts the same
    /// CSVs, and reads the same objects.
    ///
    /// # Why
    ///
    /// OLM does not change the annotation of a static group: it removes the deployments of the CSV
    /// and marks it as failed with the reason `CannotModifyStaticOperatorGroupProvidedAPIs`
    /// (OpenShift 4.12, Operators, *Operator group intersection*).
    ///
    /// # Remediation
    ///
    /// Add the missing API to the annotation, or install the Operator in another namespace. If
    /// another group provides the API, choose other target namespaces, or remove the other Operator
    /// or group.
    ///
    /// # Accepted
    ///
    /// The static group `ns/g1` provides `Goose.v1alpha1.birds.com`, and no other group does.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # ns/g1 is static and provides Moose.v1alpha1.mammals.com only.
    /// spec:
    ///   customresourcedefinitions:
    ///     owned: [{name: geese.birds.com, version: v1alpha1, kind: Goose}]
    /// ```
    ///
    /// `message: static provided api operatorgroup cannot be modified by these apis: OperatorGroup
    /// ns/g1 is static and does not provide Goose.v1alpha1.birds.com; add it to its annotation
    /// olm.providedAPIs, or install the Operator in another namespace
    /// (CannotModifyStaticOperatorGroupProvidedAPIs)`
    ///
    /// If another group provides the API, the message names that group instead.
    pub(crate) OPG_27: Deny {
        name: "static-provided-apis-match-members",
        on: [CSV: Create | Update],
        reads: [GROUPS, NAMESPACES, CSVS],
        source: ["OCP 4.12 L3893-3902, L3932-3941", "OLM pkg/controller/operators/olm/operator.go"],
    }
}

impl MemberCsv<'_> {
    pub(super) fn check_provided_apis(
        &self,
        group: &Document,
        targets: &NamespaceSet,
        report: &mut Report<'_>,
    ) {
        let rules: [&'static Rule; 3] = [&OPG_25, &OPG_26, &OPG_27];
        if self.apis.is_empty() || !rules.iter().any(|rule| report.is_on(rule)) {
            return;
        }
        let namespace = self.review.namespace();
        let name = group.text_or_empty("/metadata/name");
        let conflicting = conflicting_groups::find_conflicts(
            (namespace, &name),
            &targets_with_own(targets, namespace),
            &self.apis,
        );
        let Some(conflicting) =
            report.or_skip(&rules, "OperatorGroups and Namespaces", conflicting)
        else {
            return;
        };
        let provided = ApiSet::parse(&group.text_or_empty(PROVIDED_APIS));
        let outcome = reconcile(&self.apis, &provided, !conflicting.is_empty());
        let conflict = OlmReason::InterOperatorGroupOwnerConflict;
        let is_static = group.boolean(STATIC_PROVIDED_APIS) == Some(true);
        let mut fixed = |detail: String| {
            let reason = OlmReason::CannotModifyStaticOperatorGroupProvidedAPIs;
            let message = format!(
                "static provided api operatorgroup cannot be modified by these apis: {detail} ({reason})"
            );
            olm_reason::add(report, reason, &OPG_27, FIELD, message);
        };
        match outcome {
            ApiReconciliation::Add if is_static => {
                let missing =
                    self.apis.iter().filter(|api| !provided.contains(api)).cloned().collect();
                fixed(format!(
                    "OperatorGroup {namespace}/{name} is static and does not provide {}; add it to its annotation olm.providedAPIs, or install the Operator in another namespace",
                    apis::list_apis(&missing, MAX_SHOWN)
                ));
            }
            ApiReconciliation::Remove if is_static => fixed(format!(
                "OperatorGroup {namespace}/{name} is static, and {}; choose other target namespaces, or remove the other Operator or group",
                conflicting.describe()
            )),
            ApiReconciliation::NoConflict | ApiReconciliation::Add => {}
            ApiReconciliation::Conflict => {
                olm_reason::add(
                    report,
                    conflict,
                    &OPG_25,
                    FIELD,
                    conflicting_groups::conflict_message(&conflicting),
                );
            }
            ApiReconciliation::Remove => {
                let message = format!(
                    "intersecting operatorgroups provide the same apis; olm.providedAPIs of {namespace}/{name} will lose {}",
                    self.apis
                );
                olm_reason::add(report, conflict, &OPG_26, FIELD, message);
            }
        }
    }
}
