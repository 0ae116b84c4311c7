//! Values of the labels for levels and versions, and namespaces whose level cannot be changed.

use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Report, corrections, rule, rules};

use super::{LabelledNamespace, MODE_LABELS, VERSION_LABELS, field, pointer};
use crate::level::is_version;
use crate::targets::{NAMESPACE, NAMESPACE_PARTS};

rules![PSA_01, PSA_02, PSA_17];

/// Maximum bytes of a value in a message: labels are shorter, but manifests may have longer values.
const MAX_SHOWN_BYTES: usize = 256;
const POD_SECURITY_LEVELS: [&str; 3] = ["privileged", "baseline", "restricted"];
/// Namespaces that are always privileged.
const PRIVILEGED_NAMESPACES: [&str; 3] = ["default", "kube-public", "kube-system"];

rule! {
    /// labels of pod security name an existing level
    ///
    /// The values of the labels `pod-security.kubernetes.io/enforce`,
    /// `pod-security.kubernetes.io/audit` and `pod-security.kubernetes.io/warn` of a Namespace are
    /// `privileged`, `baseline` or `restricted`, in lower case. On UPDATE, the rule does not
    /// evaluate a label that does not change. The rule also evaluates an UPDATE of the subresources
    /// `status` and `finalize`, which sets labels, too.
    ///
    /// # Why
    ///
    /// There are three levels (OpenShift 4.15, Operators, *Pod security admission profiles*).
    /// Kubernetes evaluates pods with `restricted` if the value is invalid, so a typing error stops
    /// the workloads of the namespace.
    ///
    /// # Remediation
    ///
    /// Use one of the three levels, or remove the label.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// labels: {pod-security.kubernetes.io/enforce: baseline}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// labels: {pod-security.kubernetes.io/enforce: strict}
    /// ```
    ///
    /// `message: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must
    /// be one of privileged, baseline, restricted`
    PSA_01: Deny {
        name: "valid-pod-security-level",
        on: [NAMESPACE: Create | Update, NAMESPACE_PARTS: Update],
        source: ["OCP 4.15 L15917-15939", "OCP 4.12 L9096, L9282, L9294, L21837, L21857"],
    }
}

rule! {
    /// the namespaces default, kube-public and kube-system stay privileged
    ///
    /// An UPDATE of the Namespace `default`, `kube-public` or `kube-system` does not set
    /// `pod-security.kubernetes.io/enforce`, `pod-security.kubernetes.io/audit` or
    /// `pod-security.kubernetes.io/warn` to anything but `privileged`. The rule does not evaluate
    /// labels that do not change, and it allows removing a label. The rule also evaluates an UPDATE
    /// of the subresources `status` and `finalize`, which sets labels, too.
    ///
    /// # Why
    ///
    /// These namespaces have components of the cluster that need the level `privileged`, and the
    /// level cannot be changed (OpenShift 4.15, Operators, *Privileged namespaces*).
    ///
    /// # Remediation
    ///
    /// Remove the label. Move workloads that must be restricted to a separate namespace.
    ///
    /// # Accepted
    ///
    /// An UPDATE of other labels of `kube-system`.
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata:
    ///   name: default
    ///   labels: {pod-security.kubernetes.io/enforce: restricted}
    /// ```
    ///
    /// `message: the pod security profile of namespace "default" cannot be changed from privileged`
    PSA_02: Deny {
        name: "system-namespaces-privileged",
        on: [NAMESPACE: Update, NAMESPACE_PARTS: Update],
        source: ["OCP 4.15 L15941-15949"],
    }
}

rule! {
    /// labels of pod security name a version that Kubernetes accepts
    ///
    /// The values of the labels `pod-security.kubernetes.io/enforce-version`,
    /// `pod-security.kubernetes.io/audit-version` and `pod-security.kubernetes.io/warn-version` of
    /// a Namespace are `latest` or `v1.` with a minor version, such as `v1.25`. On UPDATE, the rule
    /// does not evaluate a label that does not change. The rule also evaluates an UPDATE of the
    /// subresources `status` and `finalize`, which sets labels, too.
    ///
    /// # Why
    ///
    /// The API server rejects a Namespace with another value (kubernetes
    /// `staging/src/k8s.io/pod-security-admission/api/helpers.go`).
    ///
    /// # Remediation
    ///
    /// Write `v1.25`, with the `v` and without a patch version, or `latest`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// labels: {pod-security.kubernetes.io/enforce-version: v1.25}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// labels: {pod-security.kubernetes.io/enforce-version: "1.25"}
    /// ```
    ///
    /// `message: metadata.labels[pod-security.kubernetes.io/enforce-version]: Invalid value:
    /// "1.25": must be "latest" or "v1.x"`
    PSA_17: Deny {
        name: "valid-pod-security-version",
        on: [NAMESPACE: Create | Update, NAMESPACE_PARTS: Update],
        source: ["kubernetes staging/src/k8s.io/pod-security-admission/api/helpers.go ParseVersion", "OCP 4.15 L15917-15939"],
    }
}

fn check_versions(namespace: &LabelledNamespace<'_>, report: &mut Report<'_>) {
    for label in VERSION_LABELS.into_iter().filter(|label| namespace.is_new(label)) {
        let version = namespace.get(label).filter(|version| !is_version(version));
        if let Some(version) = version {
            let field = field(label);
            let value = quote(&shorten(&version, MAX_SHOWN_BYTES));
            let message =
                format!("{field}: Invalid value: {value}: must be \"latest\" or \"v1.x\"");
            report.add(&PSA_17, field, message);
            report.set_fix(&PSA_17, || {
                let plain = version.trim().to_ascii_lowercase();
                let with_v = format!("v{plain}");
                let meant = [plain, with_v].into_iter().find(|version| is_version(version))?;
                Some(corrections::write(pointer(label), &meant))
            });
        }
    }
}

pub(super) fn check(namespace: &LabelledNamespace<'_>, report: &mut Report<'_>) {
    check_versions(namespace, report);
    let is_fixed =
        namespace.review.is_update() && PRIVILEGED_NAMESPACES.contains(&namespace.name.as_str());
    for label in MODE_LABELS.into_iter().filter(|label| namespace.is_new(label)) {
        let Some(level) = namespace.get(label) else { continue };
        if !POD_SECURITY_LEVELS.contains(&level.as_str()) {
            let field = field(label);
            let message = format!(
                "{field}: Invalid value: {}: must be one of {}",
                quote(&level),
                POD_SECURITY_LEVELS.join(", ")
            );
            report.add(&PSA_01, field, message);
            report.set_fix(&PSA_01, || {
                corrections::spelling(&pointer(label), &level, &POD_SECURITY_LEVELS)
            });
        }
        if is_fixed && level != POD_SECURITY_LEVELS[0] {
            let name = quote(&namespace.name);
            let message = format!(
                "the pod security profile of namespace {name} cannot be changed from privileged"
            );
            report.add(&PSA_02, field(label), message);
        }
    }
}
