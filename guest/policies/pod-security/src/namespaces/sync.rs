//! The controller of OpenShift that keeps the labels in step with what service accounts may do.
//!
//! It acts on the value `true` only: other spellings have no effect.

use opgate_sdk::go::quote;
use opgate_sdk::{Report, rule, rules};

use super::{Labelled, MODES, SYNC, field};
use crate::targets::{NAMESPACE, NAMESPACE_PARTS};

rules![PSA_03, PSA_04, PSA_05];

/// Namespaces in which it never acts.
const NEVER: [&str; 5] = ["default", "kube-node-lease", "kube-system", "kube-public", "openshift"];
/// The one namespace of OpenShift itself in which it can act.
const OPERATORS: &str = "openshift-operators";

rule! {
    /// namespaces of the cluster do not turn the synchronisation of pod security labels on
    ///
    /// The label `security.openshift.io/scc.podSecurityLabelSync` of the Namespaces `default`,
    /// `kube-node-lease`, `kube-system`, `kube-public` and `openshift` is not `"true"`. The rule
    /// does not evaluate other values have no effect and. On UPDATE, a label that does not change
    /// is not judged. An UPDATE of the sub-resources `status` and `finalize` sets labels, too, and
    /// is evaluated alike.
    ///
    /// # Why
    ///
    /// The synchronisation is turned off in these namespaces for good (OpenShift 4.15, Operators,
    /// *Pod security admission synchronization namespace exclusions*). The label only looks as if
    /// it had an effect.
    ///
    /// # Repair
    ///
    /// Remove the label.
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
        on: [NAMESPACE: Create | Update, NAMESPACE_PARTS: Update],
        source: "OCP 4.15 L15961-15984; OCP 4.12 L21844",
    }
}

rule! {
    /// namespaces that OpenShift creates do not turn the synchronisation of pod security labels on
    ///
    /// The label `security.openshift.io/scc.podSecurityLabelSync` is not `"true"` for the
    /// Namespaces that the setting `psa.payloadNamespaces` lists, except for `openshift-operators`.
    /// The rule does not evaluate On UPDATE, a label that does not change.
    ///
    /// # Gap
    ///
    /// The list is empty by default, because the documents name only the prefix `openshift-`, which
    /// users may use, too. Who runs the cluster fills it; PSA-03 has the namespaces that the
    /// documents name.
    ///
    /// # Why
    ///
    /// The synchronisation cannot be turned on in namespaces that are part of the cluster itself
    /// (OpenShift 4.15, Operators, *Pod security admission synchronization namespace exclusions*).
    /// The label has no effect there.
    ///
    /// # Repair
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
        on: [NAMESPACE: Create | Update, NAMESPACE_PARTS: Update],
        source: "OCP 4.15 L15976-15996; OCP 4.12 L21844",
    }
}

rule! {
    /// a Namespace with synchronised labels sets none of them itself
    ///
    /// Where the label `security.openshift.io/scc.podSecurityLabelSync` is `"true"`, a write of the
    /// Namespace does not set `pod-security.kubernetes.io/enforce`,
    /// `pod-security.kubernetes.io/audit` or `pod-security.kubernetes.io/warn`. On UPDATE, only
    /// labels that change are judged.
    ///
    /// # Why
    ///
    /// The synchronisation overwrites what was set (OpenShift 4.15, Operators, *Pod security
    /// admission synchronization namespace exclusions*): the namespace ends up with another level
    /// than the one in the manifest.
    ///
    /// # Repair
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
        on: [NAMESPACE: Create | Update, NAMESPACE_PARTS: Update],
        source: "OCP 4.15 L15965-15972",
    }
}

pub(super) fn judge(namespace: &Labelled<'_>, report: &mut Report<'_>) {
    if namespace.get(SYNC).as_deref() != Some("true") {
        return;
    }
    let name = quote(&namespace.name);
    if namespace.is_new(SYNC) {
        if NEVER.contains(&namespace.name.as_str()) {
            let message = format!(
                "pod security admission synchronization is permanently disabled in namespace {name}"
            );
            report.add(&PSA_03, field(SYNC), message);
        }
        let payload = namespace.review.settings.texts("/psa/payloadNamespaces");
        if namespace.name != OPERATORS && payload.contains(&namespace.name) {
            let message = format!(
                "pod security admission synchronization cannot be enabled for system-created namespace {name}"
            );
            report.add(&PSA_04, field(SYNC), message);
        }
    }
    for label in MODES {
        if namespace.get(label).is_some() && namespace.is_new(label) {
            let message = format!(
                "label {label} will be overwritten because pod security label synchronization is enabled"
            );
            report.add(&PSA_05, field(label), message);
        }
    }
}
