//! A new OperatorGroup is the only one in its namespace, and its name is unique where the edition
//! requires it.

use opgate_sdk::cluster::{IndexMatch, Query};
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, Rule, rule, rules};

use super::Group;
use crate::kinds::GROUP;
use crate::lists;
use crate::olm_reason::{self, OlmReason};
use crate::reads::{CLUSTER_ROLES, GROUPS};

rules![OPG_01, OPG_02, OPG_03];

/// Maximum number of names of other groups in a message.
const MAX_SHOWN_NAMES: usize = 3;

rule! {
    /// a namespace has one OperatorGroup
    ///
    /// A namespace holds at most one OperatorGroup. The rule denies the creation of a second one,
    /// in `v1` and in `v1alpha2`. A group that is being deleted counts until it is gone. The rule
    /// allows an UPDATE or DELETE of one of several groups, so that you can fix the namespace. The
    /// rule reads the OperatorGroups of the namespace.
    ///
    /// # Why
    ///
    /// OLM cannot choose between two groups: every ClusterServiceVersion (CSV) in the namespace
    /// fails with the reason `TooManyOperatorGroups`, and InstallPlans generate no CSV there
    /// (OpenShift 4.12, Operators, *Troubleshooting Operator groups*).
    ///
    /// # Remediation
    ///
    /// Change the existing group, or delete it and wait until it is gone. The message names up to
    /// three of the other groups; `kubectl -n NAMESPACE get operatorgroups` lists them. If a
    /// finalizer keeps a deleted group, check its `metadata.finalizers`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # The namespace payments has no OperatorGroup.
    /// metadata: {name: payments, namespace: payments}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The namespace payments has the OperatorGroup payments.
    /// metadata: {name: second, namespace: payments}
    /// ```
    ///
    /// `message: Multiple OperatorGroup found in the same namespace: payments already has payments;
    /// delete it first, or change it instead of creating another`
    OPG_01: Deny {
        name: "one-operator-group-per-namespace",
        on: [GROUP: Create],
        reads: [GROUPS],
        source: ["OCP 4.12 L4026-4044", "OCP 4.15 L2615-2642, L3616-3625, L4104-4113", "OCP 4.5 L1250-1253", "OLM pkg/controller/operators/olm/operatorgroup.go"],
    }
}

impl Group<'_> {
    pub(super) fn check_single_group(&self, report: &mut Report<'_>) {
        if !report.is_on(&OPG_01) {
            return;
        }
        let namespace = self.review.namespace();
        let name = self.review.name(self.object);
        let mut others = Vec::new();
        let query = Query { namespace: Some(namespace), ..Query::default() };
        let result = GROUPS.each(query, |other| {
            let other_name = other.text_or_empty("/metadata/name");
            // During a change, the host can list an object twice: the stored and the pending state.
            if other_name != name && others.last() != Some(&other_name) {
                others.push(other_name);
            }
            true
        });
        if report.or_skip(&[&OPG_01], "OperatorGroups", result).is_none() || others.is_empty() {
            return;
        }
        let them = if others.len() == 1 {
            "delete it first, or change it instead of creating another"
        } else {
            "delete them first, or change one of them instead of creating another"
        };
        let message = format!(
            "Multiple OperatorGroup found in the same namespace: {namespace} already has {}; {them}",
            lists::join_shortened(&others, MAX_SHOWN_NAMES)
        );
        let reason = OlmReason::MultipleOperatorGroupsFound;
        olm_reason::add(report, reason, &OPG_01, "metadata.namespace", message);
    }
}

rule! {
    /// the name of an OperatorGroup is unique in the cluster
    ///
    /// No OperatorGroup of another namespace has the name of a new group. The rule applies under
    /// the profiles `ocp-4.12` and `ocp-4.5`; the setting `operatorGroup.uniqueNames` turns it on
    /// or off under any profile. A level for the rule in `rules` turns it on regardless of the
    /// profile and that setting. A group that is being deleted counts. The rule applies to CREATE
    /// only. It reads the OperatorGroups of the cluster.
    ///
    /// # Why
    ///
    /// In these editions OLM names ClusterRoles `<name>-admin`, `<name>-edit` and `<name>-view`
    /// after a group, without its namespace, so two groups of one name share them (OpenShift 4.12,
    /// Operators, *Target namespace selection*). In 4.15 these names contain a hash, and OLM
    /// upstream accepts equal names.
    ///
    /// # Remediation
    ///
    /// Choose another name. `kubectl get operatorgroups -A --field-selector metadata.name=NAME`
    /// finds the group that has it.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # No other namespace has a group my-group.
    /// metadata: {name: my-group, namespace: ns-a}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Profile ocp-4.12; ns-a/my-group exists.
    /// metadata: {name: my-group, namespace: ns-b}
    /// ```
    ///
    /// `message: operator group "my-group": you must specify a unique name that does not conflict
    /// with the existing cluster roles or other Operator groups on the cluster`
    OPG_02: Deny {
        name: "unique-operator-group-name",
        on: [GROUP: Create],
        reads: [GROUPS],
        source: ["OCP 4.12 L3341-3355, L3498-3512, L3846-3860, L5705-5719, L6176-6190, L8089-8103", "OCP 4.15 L2457-2460"],
    }
}

rule! {
    /// the ClusterRoles that OLM names after an OperatorGroup do not exist yet
    ///
    /// When an OperatorGroup is created, none of the ClusterRoles `<name>-admin`, `<name>-edit` and
    /// `<name>-view` exists. A role that OLM created for an earlier group of the name does not
    /// count: one whose `aggregationRule` selects a label
    /// `olm.opgroup.permissions/aggregate-to-admin`, `-edit` or `-view` with the name as value. The
    /// rule applies under the same profiles and settings as OPG-02. It applies to CREATE only, and
    /// reads ClusterRoles.
    ///
    /// # Why
    ///
    /// In these editions OLM creates ClusterRoles of these names for each group, and an existing
    /// role conflicts with them. A group named `cluster` conflicts with `cluster-admin` (OpenShift
    /// 4.12, Operators, *Target namespace selection* and *Role-based access control*).
    ///
    /// # Remediation
    ///
    /// Choose another name for the group. Delete the ClusterRole that the message names only if
    /// nothing uses it.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// # There is no ClusterRole my-group-admin, my-group-edit or my-group-view.
    /// metadata: {name: my-group, namespace: my-namespace}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Profile ocp-4.12; every cluster has the ClusterRole cluster-admin.
    /// metadata: {name: cluster, namespace: my-namespace}
    /// ```
    ///
    /// `message: operator group "cluster": you must specify a unique name that does not conflict
    /// with the existing cluster roles or other Operator groups on the cluster (ClusterRole
    /// "cluster-admin" exists)`
    OPG_03: Deny {
        name: "no-operator-group-cluster-role-conflict",
        on: [GROUP: Create],
        reads: [CLUSTER_ROLES],
        source: ["OCP 4.12 L3341-3355, L3464-3512, L3846-3860, L5705-5719, L6176-6190, L8089-8103", "OCP 4.5 L1028-1046"],
    }
}

impl Group<'_> {
    /// The name is unique among groups, and among the ClusterRoles that OLM names after them, where
    /// the edition of the profile requires it.
    pub(super) fn check_unique_name(&self, report: &mut Report<'_>) {
        let settings = self.review.settings;
        let by_profile =
            || matches!(settings.text_or_empty("/profile").as_str(), "ocp-4.12" | "ocp-4.5");
        let unique = settings.boolean("/operatorGroup/uniqueNames").unwrap_or_else(by_profile);
        // A configured level turns the rule on under any profile.
        let is_applicable =
            |rule: &Rule| report.is_on(rule) && (unique || report.is_configured(rule));
        let (by_group, by_role) = (is_applicable(&OPG_02), is_applicable(&OPG_03));
        let name = self.review.name(self.object);
        let text = format!(
            "operator group {}: you must specify a unique name that does not conflict with the existing cluster roles or other Operator groups on the cluster",
            quote(&name)
        );
        if by_group {
            let names = [name.clone()];
            let matches = [IndexMatch { index: "name", values: &names, include_missing: false }];
            let mut taken = false;
            let result = GROUPS.each(Query { matches: &matches, ..Query::default() }, |other| {
                taken = other.text_or_empty("/metadata/namespace") != self.review.namespace();
                !taken
            });
            if report.or_skip(&[&OPG_02], "OperatorGroups", result).is_some() && taken {
                report.add(&OPG_02, "metadata.name", text.as_str());
            }
        }
        if !by_role {
            return;
        }
        for verb in ["admin", "edit", "view"] {
            let role = format!("{name}-{verb}");
            let found = CLUSTER_ROLES.get("", &role);
            let Some(found) = report.or_skip(&[&OPG_03], "ClusterRoles", found) else { return };
            if found.is_some_and(|found| !is_orphaned(&found, &name)) {
                let message = format!("{text} (ClusterRole {} exists)", quote(&role));
                report.add(&OPG_03, "metadata.name", message);
            }
        }
    }
}

/// Whether OLM created a ClusterRole for an earlier group of this name.
fn is_orphaned(role: &Document, name: &str) -> bool {
    role.items("/aggregationRule/clusterRoleSelectors").any(|selector| {
        ["admin", "edit", "view"].iter().any(|verb| {
            let label = format!("/matchLabels/olm.opgroup.permissions~1aggregate-to-{verb}");
            selector.text(&label).is_some_and(|value| value == name)
        })
    })
}
