//! Whether updates are installed automatically or wait for an approval.

use opgate_sdk::cluster::{Query, ReadError};
use opgate_sdk::{Kind, Level, Report, corrections, is_terminating, rule, rules, schema};

use super::{Subscription, is_manual};
use crate::bounded::quote;
use crate::reads::{AUTHENTICATIONS, SUBSCRIPTIONS};
use crate::targets::SUBSCRIPTION;

rules![SUB_09, SUB_10, SUB_18, SUB_20];

const POINTER: &str = "/spec/installPlanApproval";
const FIELD: &str = "spec.installPlanApproval";

impl Subscription<'_> {
    pub(super) fn check_approval_rules(&self, report: &mut Report<'_>) {
        if self.touches(&["installPlanApproval", "startingCSV"]) {
            self.check_pinned(report);
        }
        if self.touches(&["installPlanApproval"]) {
            self.check_approval(report);
            self.check_single_strategy(report);
            self.check_token_auth_approval(report);
        }
    }
}

rule! {
    /// the approval strategy of a Subscription is Automatic or Manual
    ///
    /// `spec.installPlanApproval` is `Automatic` or `Manual`, with this spelling. It may be absent,
    /// `null` or empty, which means `Automatic`. The rule evaluates an UPDATE only if it changes
    /// the field. The rule does not evaluate requests for the subresource `status`.
    ///
    /// # Why
    ///
    /// There are two strategies (OpenShift 4.12, Operators, *Install plan*). The CRD accepts any
    /// text, and OLM treats every text but `Manual` as `Automatic`: with `manual`, OLM immediately
    /// installs updates that were meant to wait.
    ///
    /// # Remediation
    ///
    /// Write `Automatic` or `Manual`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {installPlanApproval: Manual}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {installPlanApproval: manual}
    /// ```
    ///
    /// `message: spec.installPlanApproval: Unsupported value: "manual": supported values:
    /// "Automatic", "Manual"`
    SUB_09: Deny {
        name: "valid-subscription-approval",
        on: [SUBSCRIPTION: Create | Update],
        source: ["OCP 4.12 L1937-1943, L5517-5523", "OCP 4.15 L1451-1582"],
    }
}

impl Subscription<'_> {
    fn check_approval(&self, report: &mut Report<'_>) {
        let kind = self.object.kind(POINTER);
        let error = schema::type_error(self.object, POINTER, FIELD, kind, Kind::Text);
        let message = match (error, self.approval.as_str()) {
            (Some(message), _) => message,
            (None, "" | "Automatic" | "Manual") => return,
            (None, other) => unsupported_message(FIELD, other),
        };
        report.add(&SUB_09, FIELD, message);
        report.set_fix(&SUB_09, || {
            corrections::spelling(POINTER, &self.approval, &["Automatic", "Manual"])
        });
    }
}

/// The API server's message for another strategy.
pub(crate) fn unsupported_message(field: &str, approval: &str) -> String {
    let approval = quote(approval);
    format!(r#"{field}: Unsupported value: {approval}: supported values: "Automatic", "Manual""#)
}

rule! {
    /// a Subscription that pins a version waits for approvals
    ///
    /// If `spec.startingCSV` is set, `spec.installPlanApproval` is `Manual`. Without the field, and
    /// with every other text, the strategy is `Automatic`. The rule evaluates an UPDATE only if it
    /// changes one of the two fields.
    ///
    /// # Why
    ///
    /// With `Automatic`, OLM installs `startingCSV` and immediately updates to the head of the
    /// channel (OpenShift 4.12, Operators, *Installing a specific version of an Operator*). A
    /// documented example has both fields, so the rule only warns.
    ///
    /// # Remediation
    ///
    /// Set `installPlanApproval: Manual`, and approve the first InstallPlan manually. If you do not
    /// need the exact version, remove `startingCSV`.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {startingCSV: quay-operator.v3.4.0, installPlanApproval: Manual}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {startingCSV: quay-operator.v3.4.0, installPlanApproval: Automatic}
    /// ```
    ///
    /// `message: set installPlanApproval to Manual to prevent the Operator from automatically
    /// upgrading past startingCSV "quay-operator.v3.4.0"`
    SUB_10: Warn {
        name: "manual-approval-with-pinned-version",
        on: [SUBSCRIPTION: Create | Update],
        source: ["OCP 4.12 L5877, L5903, L6345, L6371, L7360-7379", "OCP 4.15 L3920, L3942, L4405, L4426, L4458-4464", "OCP 4.5 L2066-2089"],
    }
}

impl Subscription<'_> {
    fn check_pinned(&self, report: &mut Report<'_>) {
        if !self.starting_csv.is_empty() && !is_manual(&self.approval) {
            let csv = quote(&self.starting_csv);
            let message = format!(
                "set installPlanApproval to Manual to prevent the Operator from automatically upgrading past startingCSV {csv}"
            );
            report.add(&SUB_10, FIELD, message);
            report.set_fix(&SUB_10, || Some(corrections::propose(POINTER, "Manual")));
        }
    }
}

rule! {
    /// the Subscriptions of a namespace have one approval strategy
    ///
    /// Either this Subscription and the other Subscriptions of the namespace are all `Manual`, or
    /// none of them is. Each text but `Manual` is `Automatic`. Subscriptions that are being deleted
    /// do not count. The rule evaluates an UPDATE only if it changes `spec.installPlanApproval`.
    /// Without cluster state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// OLM creates one InstallPlan for all Operators of a namespace. If one of them is set to
    /// manual updates, all others wait for approvals as well (OpenShift 4.12, Operators,
    /// *Colocation of Operators in a namespace*).
    ///
    /// # Remediation
    ///
    /// Use the same strategy for all Subscriptions of the namespace, or install the Operator in
    /// another namespace.
    ///
    /// # Accepted
    ///
    /// All Subscriptions of the namespace are `Automatic`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # Another Subscription of the namespace is Manual.
    /// spec: {installPlanApproval: Automatic}
    /// ```
    ///
    /// `message: if one Operator is set to manual updates, all other Operators' update policies are
    /// also set to manual`
    SUB_18: Warn {
        name: "one-approval-strategy-per-namespace",
        on: [SUBSCRIPTION: Create | Update],
        reads: [SUBSCRIPTIONS],
        source: ["OCP 4.12 L4066-4086", "OCP 4.15 L2652-2660, L4462-4464"],
    }
}

impl Subscription<'_> {
    fn check_single_strategy(&self, report: &mut Report<'_>) {
        if !report.is_on(&SUB_18) {
            return;
        }
        if report.or_skip(&[&SUB_18], "Subscriptions", self.has_other_strategy()) == Some(true) {
            let message = "if one Operator is set to manual updates, all other Operators' update policies are also set to manual";
            report.add(&SUB_18, FIELD, message);
        }
    }

    /// Whether another Subscription of the namespace has the other strategy.
    fn has_other_strategy(&self) -> Result<bool, ReadError> {
        let own = is_manual(&self.approval);
        let mut is_mixed = false;
        let query = Query { namespace: Some(self.namespace()), ..Query::default() };
        SUBSCRIPTIONS.each(query, |other| {
            is_mixed = is_manual(&other.text_or_empty(POINTER)) != own
                && other.text_or_empty("/metadata/name") != self.name
                && !is_terminating(&other);
            !is_mixed
        })?;
        Ok(is_mixed)
    }
}

rule! {
    /// Subscriptions wait for approvals on clusters with token authentication
    ///
    /// On a cluster in AWS STS or Microsoft Entra Workload ID mode, `spec.installPlanApproval` is
    /// `Manual`. If the setting `cluster.tokenAuth` declares such a mode, the rule denies. Without
    /// the setting, the rule warns if `spec.serviceAccountIssuer` of the Authentication `cluster`
    /// indicates the mode. The issuer of the cluster itself and Google's do not indicate it, and a
    /// cluster without that object is in no such mode. The rule evaluates an UPDATE only if it
    /// changes the field. Without cluster state and the setting, the policy skips the rule.
    ///
    /// # Why
    ///
    /// An update may need other permissions of the cloud. An administrator has to review and grant
    /// them before the update is installed (OpenShift 4.15, Operators, *Installing from OperatorHub
    /// using the CLI*).
    ///
    /// # Remediation
    ///
    /// Set `installPlanApproval: Manual`. If the cluster is in no such mode, turn the rule off.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {installPlanApproval: Manual}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # With cluster: {tokenAuth: aws-sts}.
    /// spec: {installPlanApproval: Automatic}
    /// ```
    ///
    /// `message: the cluster uses token authentication: set installPlanApproval to Manual`
    SUB_20: Warn {
        name: "manual-approval-with-token-auth",
        on: [SUBSCRIPTION: Create | Update],
        reads: [AUTHENTICATIONS],
        source: ["OCP 4.15 L3548-3552, L3710-3721, L4035-4039, L4196-4207, L16178-16182, L16675"],
    }
}

/// Prefixes of issuers of neither AWS nor Microsoft: that of an API server as its own issuer, and
/// that of Google's workload identity in the documents.
const OTHER_ISSUERS: [&str; 2] =
    ["https://kubernetes.default.svc", "https://storage.googleapis.com/"];

impl Subscription<'_> {
    fn check_token_auth_approval(&self, report: &mut Report<'_>) {
        if is_manual(&self.approval) || !report.is_on(&SUB_20) {
            return;
        }
        let message = "the cluster uses token authentication: set installPlanApproval to Manual";
        if self.review.settings.has("/cluster/tokenAuth") {
            report.add_as(Level::Deny, &SUB_20, FIELD, message);
            report.set_fix(&SUB_20, || Some(corrections::propose(POINTER, "Manual")));
            return;
        }
        let found = AUTHENTICATIONS.get("", "cluster");
        let Some(found) = report.or_skip(&[&SUB_20], "Authentications", found) else { return };
        let issuer = found.map(|found| found.text_or_empty("/spec/serviceAccountIssuer"));
        let is_hint = |issuer: &String| {
            !issuer.is_empty() && !OTHER_ISSUERS.iter().any(|other| issuer.starts_with(other))
        };
        if issuer.as_ref().is_some_and(is_hint) {
            report.add(&SUB_20, FIELD, message);
            report.set_fix(&SUB_20, || Some(corrections::propose(POINTER, "Manual")));
        }
    }
}
