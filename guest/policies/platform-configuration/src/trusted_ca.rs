//! ConfigMaps that the Cluster Network Operator fills with the trusted certificates of the cluster.

use opgate_sdk::{Report, Review, rule, rules};

use crate::targets::CONFIG_MAP;

rules![MSC_02];

const LABEL: &str = "/metadata/labels/config.openshift.io~1inject-trusted-cabundle";

rule! {
    /// a ConfigMap for the merged CA bundle is created empty
    ///
    /// A new ConfigMap with the label `config.openshift.io/inject-trusted-cabundle: "true"` has no
    /// entries in `data` and `binaryData`. The rule does not evaluate an UPDATE, because the
    /// Cluster Network Operator itself writes the content. For the same reason, it does not
    /// evaluate an object with a `resourceVersion`, as a cluster prints it.
    ///
    /// # Why
    ///
    /// The Operator replaces the content with the merged bundle (OpenShift 4.12, Operators,
    /// *Injecting a custom CA certificate*). Certificates that the author put there are lost.
    ///
    /// # Remediation
    ///
    /// Create the ConfigMap without data. Put your own certificates into the ConfigMap to which
    /// `spec.trustedCA` of the Proxy `cluster` refers: they become part of the bundle.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: trusted-ca, labels: {config.openshift.io/inject-trusted-cabundle: "true"}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: trusted-ca, labels: {config.openshift.io/inject-trusted-cabundle: "true"}}
    /// data: {ca-bundle.crt: "…"}
    /// ```
    ///
    /// `message: create an empty config map: its content is replaced by the merged CA bundle`
    MSC_02: Warn {
        name: "trusted-ca-config-map-created-empty",
        on: [CONFIG_MAP: Create],
        source: ["OCP 4.12 L7441-7462", "OCP 4.15 L5279-5333", "OCP 4.5 L2595-2612"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    // An API server rejects a CREATE with one.
    if object.has("/metadata/resourceVersion") || object.text(LABEL).as_deref() != Some("true") {
        return;
    }
    let is_filled = |pointer: &&str| object.length(pointer).is_some_and(|length| length > 0);
    if let Some(filled) = ["/data", "/binaryData"].into_iter().find(is_filled) {
        let message = "create an empty config map: its content is replaced by the merged CA bundle";
        report.add(&MSC_02, filled.trim_start_matches('/'), message);
    }
}
