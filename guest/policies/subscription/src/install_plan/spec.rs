//! The fields of an InstallPlan, and the users that approve it.

use opgate_sdk::schema::{required_error, type_error};
use opgate_sdk::{Document, Fix, Kind, Report, Review, corrections, rule, rules};

use super::{approves, is_approved};
use crate::bounded::{self, TOO_MANY};
use crate::subscription::approval::unsupported_message;
use crate::targets::INSTALL_PLAN;

rules![SUB_26, SUB_29, SUB_30];

const APPROVAL: &str = "/spec/approval";
const MANUAL: &str = "Manual";

pub(super) fn check(review: &Review<'_>, plan: &Document, report: &mut Report<'_>) {
    if review.touches_json(plan, "/spec") {
        check_types(plan, report);
    }
    // A stored plan may have been approved since then.
    if !review.is_update() && !review.is_audit() {
        check_not_approved(plan, report);
    }
    check_approver(review, plan, report);
}

rule! {
    /// an InstallPlan has an approval strategy, an approved flag and a list of versions
    ///
    /// `spec.approval` is `Automatic` or `Manual`, `spec.approved` is a boolean, and
    /// `spec.clusterServiceVersionNames` is a list of strings. All three are required. The rule
    /// evaluates an UPDATE only if it changes anything in `spec`. The rule does not evaluate
    /// requests for the subresource `status`.
    ///
    /// # Why
    ///
    /// The CRD of InstallPlans requires the fields with these types, but accepts any text for
    /// `approval`. There are two strategies (OpenShift 4.12, Operators, *Install plan*). Users can
    /// create plans themselves, so OLM does not write all of them.
    ///
    /// # Remediation
    ///
    /// Correct the field that the message names. Normally, leave InstallPlans to OLM, and approve
    /// them with `spec.approved: true`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {approval: Automatic, approved: true, clusterServiceVersionNames:
    /// [my-operator.v1.0.1]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {approval: manual, approved: false, clusterServiceVersionNames: [a]}
    /// ```
    ///
    /// `message: spec.approval: Unsupported value: "manual": supported values: "Automatic",
    /// "Manual"`
    SUB_26: Deny {
        name: "install-plan-required-fields",
        on: [INSTALL_PLAN: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L1937-1943, L1951-1961", "OCP 4.15 L1451-1582", "api crds/operators.coreos.com_installplans.yaml"],
    }
}

fn check_types(plan: &Document, report: &mut Report<'_>) {
    for (name, wanted) in [
        ("approval", Kind::Text),
        ("approved", Kind::Boolean),
        ("clusterServiceVersionNames", Kind::List),
    ] {
        let (pointer, field) = (format!("/spec/{name}"), format!("spec.{name}"));
        let kind = plan.kind(&pointer);
        if kind != wanted {
            let error = type_error(plan, &pointer, &field, kind, wanted);
            report.add(&SUB_26, field.as_str(), error.unwrap_or_else(|| required_error(&field)));
            report.set_fix(&SUB_26, || match wanted {
                Kind::List => {
                    let name = plan.text(&pointer).filter(|name| !name.is_empty())?;
                    let list = format!("[{}]", opgate_sdk::json_string(&name));
                    Some(Fix::safe("write a list").set(&pointer, list))
                }
                Kind::Boolean => corrections::boolean_fix(plan, &pointer),
                _ => None,
            });
        }
    }
    if let Some(approval) = plan.text(APPROVAL)
        && !matches!(approval.as_str(), "Automatic" | "Manual")
    {
        report.add(&SUB_26, "spec.approval", unsupported_message("spec.approval", &approval));
        report.set_fix(&SUB_26, || {
            corrections::spelling(APPROVAL, &approval, &["Automatic", "Manual"])
        });
    }
    let list = "/spec/clusterServiceVersionNames";
    let Some(names) = bounded::read_rows(plan, list, &[""]) else {
        return report.skip_part(&SUB_26, "spec.clusterServiceVersionNames", TOO_MANY);
    };
    let wrong = names.iter().enumerate().filter(|(_, row)| row.kind(0) != Kind::Text);
    report.add_each(&SUB_26, wrong, |(index, row)| {
        let field = format!("spec.clusterServiceVersionNames[{index}]");
        let pointer = format!("{list}/{index}");
        let error = type_error(plan, &pointer, &field, row.kind(0), Kind::Text);
        let message = error.unwrap_or_else(|| {
            format!(
                r#"{field}: Invalid value: "null": {field} in body must be of type string: "null""#
            )
        });
        (field, message)
    });
}

rule! {
    /// an InstallPlan with manual approval is not created approved
    ///
    /// A new InstallPlan with `spec.approval: Manual` does not have `spec.approved: true`. The rule
    /// does not evaluate an UPDATE; SUB-30 can limit the users that approve plans.
    ///
    /// # Why
    ///
    /// With this strategy, a cluster administrator or a user with the permission approves the plan
    /// after a review (OpenShift 4.12, Operators, *Install plan*). OLM creates such plans
    /// unapproved.
    ///
    /// # Remediation
    ///
    /// Create the plan with `approved: false` and approve it then, or use `approval: Automatic`.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {approval: Manual, approved: false, clusterServiceVersionNames: [my-operator.v1.0.1]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {approval: Manual, approved: true, clusterServiceVersionNames: [my-operator.v1.0.1]}
    /// ```
    ///
    /// `message: an install plan with Manual approval must be manually approved, but arrives
    /// approved`
    SUB_29: Warn {
        name: "manual-install-plan-not-pre-approved",
        on: [INSTALL_PLAN: Create],
        source: ["OCP 4.12 L1937-1943", "OCP 4.15 L1451-1582"],
    }
}

fn check_not_approved(plan: &Document, report: &mut Report<'_>) {
    if is_approved(plan) && plan.text_or_empty(APPROVAL) == MANUAL {
        let message =
            "an install plan with Manual approval must be manually approved, but arrives approved";
        report.add(&SUB_29, "spec.approved", message);
        report.set_fix(&SUB_29, || {
            let fix = Fix::needs_review("set approved to false");
            Some(fix.set("/spec/approved", "false"))
        });
    }
}

rule! {
    /// only the configured groups of users approve InstallPlans
    ///
    /// Only members of the groups of users in the setting `installPlan.approverGroups` change
    /// `spec.approved` to `true` in an InstallPlan whose `spec.approval` is or was `Manual`. Users
    /// of the setting `exempt` may as well. The rule is off while the setting is missing, and then
    /// reports nothing even if `rules` sets its level.
    ///
    /// # Why
    ///
    /// A cluster administrator or a user with the required permissions approves such a plan
    /// (OpenShift 4.12, Operators, *Install plan*). RBAC cannot distinguish an approval from
    /// another change of the plan.
    ///
    /// # Remediation
    ///
    /// Ask a member of one of the groups to approve the plan, or add one of your groups.
    ///
    /// # Accepted
    ///
    /// An approval by a member of `cluster-admins`, where `approverGroups` is `[cluster-admins]`.
    ///
    /// # Rejected
    ///
    /// An approval by `system:serviceaccount:scoped:default`:
    ///
    /// ```yaml
    /// spec: {approval: Manual, approved: true, clusterServiceVersionNames: [my-operator.v1.0.1]}
    /// ```
    ///
    /// `message: install plan must be manually approved by a cluster administrator or user with
    /// proper permissions`
    SUB_30: Deny {
        name: "install-plan-approvers-allowed",
        on: [INSTALL_PLAN: Update],
        enabled_by: ["/installPlan/approverGroups"],
        source: ["OCP 4.12 L1943, L6909, L6949", "OCP 4.15 L1451-1582"],
    }
}

fn check_approver(review: &Review<'_>, plan: &Document, report: &mut Report<'_>) {
    const GROUPS: &str = "/installPlan/approverGroups";
    let is_manual = |plan: &Document| plan.text_or_empty(APPROVAL) == MANUAL;
    if !review.settings.has(GROUPS)
        || !approves(review, plan)
        || !(is_manual(plan) || review.old_of_update().is_some_and(is_manual))
    {
        return;
    }
    let groups = &review.request.user().groups;
    if !review.settings.texts(GROUPS).iter().any(|group| groups.contains(group)) {
        let message = "install plan must be manually approved by a cluster administrator or user with proper permissions";
        report.add(&SUB_30, "spec.approved", message);
    }
}
