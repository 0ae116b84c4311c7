//! The ServiceAccount with whose permissions OLM executes a plan (OLM `pkg/lib/scoped/querier.go`).
//!
//! ```text
//! groups of the namespace ─┬─ none, or several ─▶ violation
//!                          └─ one ─▶ its ServiceAccount exists?
//! ```

use opgate_sdk::cluster::ReadError;
use opgate_sdk::{Document, Report, Review, Rule, operator_groups, rule, rules};

use super::approves;
use crate::reads::{GROUPS, SERVICE_ACCOUNTS};
use crate::subscription::group::{self, NO_GROUP_MESSAGE};
use crate::targets::INSTALL_PLAN;

rules![SUB_27, SUB_28];

rule! {
    /// OLM can execute an InstallPlan when it is approved
    ///
    /// When `spec.approved` of an InstallPlan becomes `true`, its namespace has exactly one
    /// OperatorGroup and, if that names a ServiceAccount in `spec.serviceAccountName`, the
    /// ServiceAccount exists. All groups of the namespace count. With `operatorGroup.countUnsynced:
    /// false`, those without `status.namespaces` do not, as in OLM. Without cluster state, the
    /// policy skips the rule.
    ///
    /// # Why
    ///
    /// Otherwise OLM generates nothing: the plan remains, with the same text in its status
    /// (OpenShift 4.12, Operators, *Troubleshooting Operator groups*; OLM
    /// `pkg/lib/scoped/querier.go`).
    ///
    /// # Remediation
    ///
    /// Create the OperatorGroup or the ServiceAccount, or delete all groups but one. Then approve
    /// the plan.
    ///
    /// # Accepted
    ///
    /// The approval of a plan in a namespace with one OperatorGroup.
    ///
    /// # Rejected
    ///
    /// The approval of a plan in a namespace with two OperatorGroups:
    ///
    /// `message: attenuated service account query failed - more than one operator group(s) are
    /// managing this namespace count=2`
    ///
    /// Without a group, the message ends with `no operator group found that is managing this
    /// namespace`; without the account, with `please make sure the service account exists. sa=nope
    /// operatorgroup=scoped/group`.
    SUB_27: Deny {
        name: "approved-install-plan-can-run",
        on: [INSTALL_PLAN: Update],
        reads: [GROUPS, SERVICE_ACCOUNTS],
        source: ["OCP 4.12 L4026-4044", "OCP 4.15 L2615-2642", "OLM pkg/lib/scoped/querier.go, pkg/lib/scoped/querier_test.go"],
    }
}

rule! {
    /// OLM can execute an InstallPlan when it is created
    ///
    /// The namespace of a new InstallPlan has exactly one OperatorGroup, and the ServiceAccount
    /// that it names, if any, exists. SUB-27 defines which groups count. Without cluster state, the
    /// policy skips the rule.
    ///
    /// # Why
    ///
    /// According to the documents, such a plan can exist with a message in its status, so the rule
    /// only warns (OpenShift 4.12, Operators, *Troubleshooting Operator groups*). SUB-27 denies its
    /// approval.
    ///
    /// # Remediation
    ///
    /// Create the OperatorGroup or the ServiceAccount, or delete all groups but one.
    ///
    /// # Accepted
    ///
    /// A plan in the namespace `operators`, which has one OperatorGroup.
    ///
    /// # Rejected
    ///
    /// A plan in a namespace with two OperatorGroups:
    ///
    /// `message: attenuated service account query failed - more than one operator group(s) are
    /// managing this namespace count=2`
    ///
    /// The other messages are those of SUB-27.
    SUB_28: Warn {
        name: "new-install-plan-can-run",
        on: [INSTALL_PLAN: Create],
        reads: [GROUPS, SERVICE_ACCOUNTS],
        source: ["OCP 4.12 L4026-4044", "OCP 4.15 L2615-2642", "OLM pkg/lib/scoped/querier.go"],
    }
}

pub(super) fn check(review: &Review<'_>, plan: &Document, report: &mut Report<'_>) {
    let (rule, field): (&'static Rule, _) = if !review.is_update() {
        (&SUB_28, "metadata.namespace")
    } else if approves(review, plan) {
        (&SUB_27, "spec.approved")
    } else {
        return;
    };
    if !report.is_on(rule) {
        return;
    }
    let found =
        report.or_skip(&[rule], "OperatorGroups and ServiceAccounts", resolution_failure(review));
    if let Some(Some(why)) = found {
        report.add(rule, field, format!("attenuated service account query failed - {why}"));
    }
}

/// The reason why OLM finds no account to use.
fn resolution_failure(review: &Review<'_>) -> Result<Option<String>, ReadError> {
    let all = review.settings.boolean("/operatorGroup/countUnsynced").unwrap_or(true);
    let namespace = review.namespace();
    let counts = |group: &Document| {
        all || group.length(operator_groups::STATUS).is_some_and(|length| length > 0)
    };
    let group = match group::of_namespace(namespace, counts)? {
        (Some(group), 1) => group,
        (_, 0) => return Ok(Some(NO_GROUP_MESSAGE.to_owned())),
        (_, count) => return Ok(Some(group::several_groups_message(count))),
    };
    let account = group.text_or_empty("/spec/serviceAccountName");
    if account.is_empty() || SERVICE_ACCOUNTS.get(namespace, &account)?.is_some() {
        return Ok(None);
    }
    let name = group.text_or_empty("/metadata/name");
    Ok(Some(format!(
        "please make sure the service account exists. sa={account} operatorgroup={namespace}/{name}"
    )))
}
