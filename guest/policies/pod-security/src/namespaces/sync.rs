//! The OpenShift controller that synchronises the labels with the permissions of service accounts.
//!
//! It acts on the value `true` only: other spellings have no effect.

use opgate_sdk::go::quote;
use opgate_sdk::{Fix, Report, rule, rules};

use super::{LabelledNamespace, MODE_LABELS, SYNC, field, pointer};
use crate::targets::{NAMESPACE, NAMESPACE_PARTS};

rules![PSA_03, PSA_04, PSA_05];

/// Namespaces in which it never acts.
const UNSYNCED_NAMESPACES: [&str; 5] =
    ["default", "kube-node-lease", "kube-system", "kube-public", "openshift"];
/// The only namespace of OpenShift itself in which it can act.
const OPERATORS_NAMESPACE: &str = "openshift-operators";

rule! {
    /// namespaces of the cluster do not turn the synchronisation of pod security labels on
    ///
    /// The label `security.openshift.io/scc.podSecurityLabelSync` of the Namespaces `default`,
    /// `kube-node-lease`, `kube-system`, `kube-public` and `openshift` is not `"true"`. The rule
    /// accepts other values, which have no effect. On UPDATE, it does not evaluate a label that
    /// does not change. The rule also evaluates an UPDATE of the subresources `status` and
    /// `finalize`, which sets labels, too.
    ///
    /// # Why
    ///
    /// The synchronisation is permanently turned off in these namespaces (OpenShift 4.15,
    /// Operators, *Pod security admission synchronization namespace exclusions*). The label has no
    /// effect, although it appears to have one.
    ///
    /// # Remediation
    ///
    /// Remove the label.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata:
    ///   name: openshift-operators
    ///   labels: {security.openshift.io/scc.podSecurityLabelSync: "true"}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata:
    ///   name: kube-system
    ///   labels: {security.openshift.io/scc.podSecurityLabelSync: "true"}
    /// ```
    ///
    /// `message: pod security admission synchronization is permanently disabled in namespace
    /// "kube-system"`
    PSA_03: Deny {
        name: "no-label-sync-in-cluster-namespaces",
        on: [NAMESPACE: Create | Update, NAMESPACE_PARTS: Update],
        source: ["OCP 4.15 L15961-15984", "OCP 4.12 L21844"],
    }
}

rule! {
    /// namespaces that OpenShift creates do not turn the synchronisation of pod security labels on
    ///
    /// The label `security.openshift.io/scc.podSecurityLabelSync` is not `"true"` for the
    /// Namespaces that the setting `psa.payloadNamespaces` lists, except for `openshift-operators`.
    /// On UPDATE, the rule does not evaluate a label that does not change.
    ///
    /// # Gap
    ///
    /// The list is empty by default, because the documents name only the prefix `openshift-`, which
    /// users may use, too. Administrators of the cluster fill it; PSA-03 has the namespaces that
    /// the documents name.
    ///
    /// # Why
    ///
    /// The synchronisation cannot be turned on in namespaces that are part of the cluster itself
    /// (OpenShift 4.15, Operators, *Pod security admission synchronization namespace exclusions*).
    /// The label has no effect there.
    ///
    /// # Remediation
    ///
    /// Remove the label.
    ///
    /// # Accepted
    ///
    /// The label on `openshift-my-operator`, which a user has created.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # With psa.payloadNamespaces: [openshift-apiserver]
    /// metadata:
    ///   name: openshift-apiserver
    ///   labels: {security.openshift.io/scc.podSecurityLabelSync: "true"}
    /// ```
    ///
    /// `message: pod security admission synchronization cannot be enabled for system-created
    /// namespace "openshift-apiserver"`
    PSA_04: Warn {
        name: "no-label-sync-in-openshift-namespaces",
        on: [NAMESPACE: Create | Update, NAMESPACE_PARTS: Update],
        source: ["OCP 4.15 L15976-15996", "OCP 4.12 L21844"],
    }
}

rule! {
    /// a Namespace with synchronised labels does not set them manually
    ///
    /// If the label `security.openshift.io/scc.podSecurityLabelSync` is `"true"`, a write of the
    /// Namespace does not set `pod-security.kubernetes.io/enforce`,
    /// `pod-security.kubernetes.io/audit` or `pod-security.kubernetes.io/warn`. On UPDATE, the rule
    /// evaluates only labels that change.
    ///
    /// # Why
    ///
    /// The synchronisation overwrites the labels (OpenShift 4.15, Operators, *Pod security
    /// admission synchronization namespace exclusions*): the namespace then has another level than
    /// the manifest.
    ///
    /// # Remediation
    ///
    /// Set the label of the synchronisation to `"false"` to keep your own level, or remove the
    /// level.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// labels:
    ///   security.openshift.io/scc.podSecurityLabelSync: "false"
    ///   pod-security.kubernetes.io/enforce: baseline
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// labels:
    ///   security.openshift.io/scc.podSecurityLabelSync: "true"
    ///   pod-security.kubernetes.io/enforce: privileged
    /// ```
    ///
    /// `message: label pod-security.kubernetes.io/enforce will be overwritten because pod security
    /// label synchronization is enabled`
    PSA_05: Warn {
        name: "no-pod-security-labels-with-sync",
        on: [NAMESPACE: Create | Update, NAMESPACE_PARTS: Update],
        source: ["OCP 4.15 L15965-15972"],
    }
}

pub(super) fn check(namespace: &LabelledNamespace<'_>, report: &mut Report<'_>) {
    if namespace.get(SYNC).as_deref() != Some("true") {
        return;
    }
    let name = quote(&namespace.name);
    if namespace.is_new(SYNC) {
        if UNSYNCED_NAMESPACES.contains(&namespace.name.as_str()) {
            let message = format!(
                "pod security admission synchronization is permanently disabled in namespace {name}"
            );
            report.add(&PSA_03, field(SYNC), message);
            report.set_fix(&PSA_03, || {
                let fix = Fix::safe("remove the label, which has no effect here");
                Some(fix.remove(pointer(SYNC)))
            });
        }
        let payload = namespace.review.settings.texts("/psa/payloadNamespaces");
        if namespace.name != OPERATORS_NAMESPACE && payload.contains(&namespace.name) {
            let message = format!(
                "pod security admission synchronization cannot be enabled for system-created namespace {name}"
            );
            report.add(&PSA_04, field(SYNC), message);
        }
    }
    for label in MODE_LABELS {
        if namespace.get(label).is_some() && namespace.is_new(label) {
            let message = format!(
                "label {label} will be overwritten because pod security label synchronization is enabled"
            );
            report.add(&PSA_05, field(label), message);
        }
    }
}
