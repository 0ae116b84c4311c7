//! The OperatorGroup of the namespace of a Subscription.

use opgate_sdk::cluster::{Query, ReadError};
use opgate_sdk::{Document, Report, Rule, rule, rules};

use super::Subscription;
use super::catalog::SUB_06;
use super::provided::SUB_31;
use crate::reads::GROUPS;
use crate::targets::SUBSCRIPTION;

rules![SUB_04, SUB_05];

rule! {
    /// the namespace of a new Subscription has an OperatorGroup
    ///
    /// The namespace of a new Subscription has at least one OperatorGroup. A group that is being
    /// deleted counts until it is gone, and a group counts before OLM has written its status. The
    /// rule does not evaluate an UPDATE. Without cluster state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// Without a group, the InstallPlan of the Subscription fails and OLM installs nothing
    /// (OpenShift 4.12, Operators, *Installing from OperatorHub using the CLI*; the message is from
    /// OLM `pkg/lib/scoped/querier.go`).
    ///
    /// # Remediation
    ///
    /// Create an OperatorGroup in the namespace first. If one file holds both objects, put the
    /// OperatorGroup before the Subscription. If the Subscription is still denied, apply the file
    /// again: opgate may see the group a moment later. For an Operator for all namespaces, use the
    /// namespace `openshift-operators`, which has a group.
    ///
    /// # Accepted
    ///
    /// A Subscription in `openshift-operators`, which has the OperatorGroup `global-operators`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The namespace payments has no OperatorGroup.
    /// metadata: {name: etcd, namespace: payments}
    /// ```
    ///
    /// `message: no operator group found that is managing this namespace`
    SUB_04: Deny {
        name: "subscription-requires-operator-group",
        on: [SUBSCRIPTION: Create],
        reads: [GROUPS],
        source: ["OCP 4.12 L5675-5678, L6146-6149", "OCP 4.15 L3616-3625, L4104-4113", "OLM pkg/lib/scoped/querier.go"],
    }
}

rule! {
    /// the namespace of a new Subscription has no second OperatorGroup
    ///
    /// The namespace of a new Subscription has no more than one OperatorGroup. A group that is
    /// being deleted counts until it is gone. The rule does not evaluate an UPDATE, so that you can
    /// fix a Subscription of such a namespace. Without cluster state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// OLM cannot choose between two groups: InstallPlans generate nothing in such a namespace
    /// (OpenShift 4.12, Operators, *Troubleshooting Operator groups*; the message is from OLM
    /// `pkg/lib/scoped/querier.go`).
    ///
    /// # Remediation
    ///
    /// Delete all groups of the namespace but one: `kubectl -n NAMESPACE get operatorgroups`.
    ///
    /// # Accepted
    ///
    /// A Subscription in a namespace with one OperatorGroup.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # The namespace legacy has the OperatorGroups a and b.
    /// metadata: {name: etcd, namespace: legacy}
    /// ```
    ///
    /// `message: more than one operator group(s) are managing this namespace count=2`
    SUB_05: Deny {
        name: "subscription-requires-single-operator-group",
        on: [SUBSCRIPTION: Create],
        reads: [GROUPS],
        source: ["OCP 4.12 L4026-4044", "OCP 4.15 L2615-2642, L3625", "OLM pkg/lib/scoped/querier.go"],
    }
}

impl Subscription<'_> {
    /// Checks the groups of the namespace. Returns the group if there is only one.
    pub(super) fn check_group(&self, report: &mut Report<'_>) -> Option<Document> {
        let mut rules: Vec<&'static Rule> = vec![&SUB_04, &SUB_05, &SUB_06, &SUB_31];
        rules.retain(|rule| report.is_on(rule));
        if self.review.is_update() || rules.is_empty() {
            return None;
        }
        let groups = of_namespace(self.namespace(), |_| true);
        let (first, count) = report.or_skip(&rules, "OperatorGroups", groups)?;
        match count {
            0 => report.add(&SUB_04, "metadata.namespace", NO_GROUP_MESSAGE),
            1 => return first,
            count => report.add(&SUB_05, "metadata.namespace", several_groups_message(count)),
        }
        None
    }
}

/// Upstream's message for a namespace without a group.
pub(crate) const NO_GROUP_MESSAGE: &str = "no operator group found that is managing this namespace";

/// Upstream's message for a namespace with several groups.
pub(crate) fn several_groups_message(count: usize) -> String {
    format!("more than one operator group(s) are managing this namespace count={count}")
}

/// The first group of a namespace that counts, and the number of such groups.
pub(crate) fn of_namespace(
    namespace: &str,
    mut counts: impl FnMut(&Document) -> bool,
) -> Result<(Option<Document>, usize), ReadError> {
    let (mut first, mut names) = (None, Vec::new());
    GROUPS.each(Query { namespace: Some(namespace), ..Query::default() }, |group| {
        if counts(&group) {
            names.push(group.text_or_empty("/metadata/name"));
            first.get_or_insert(group);
        }
        true
    })?;
    // During a change, the host can list an object twice: the stored and the pending state.
    names.dedup();
    Ok((first, names.len()))
}
