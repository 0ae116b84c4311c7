//! A PlatformOperator, and whether the cluster supports platform Operators.

use opgate_sdk::feature_set::{self, FEATURE_GATES, TECH_PREVIEW};
use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, Review, rule, rules};

use crate::catalogs;
use crate::package::{self, FIELD};
use crate::targets::OPERATOR;

rules![PLT_01, PLT_02, PLT_03];

const NAME: &str = "/spec/package/name";

/// OpenShift 4.12, table *OLM-based Operators installable as platform Operators*.
const DOCUMENTED_PACKAGES: [&str; 25] = [
    "3scale-operator",
    "amq-broker-rhel8",
    "amq-online",
    "amq-streams",
    "ansible-cloud-addons-operator",
    "apicast-operator",
    "container-security-operator",
    "eap",
    "file-integrity-operator",
    "gatekeeper-operator-product",
    "integration-operator",
    "jws-operator",
    "kiali-ossm",
    "node-healthcheck-operator",
    "odf-csi-addons-operator",
    "odr-hub-operator",
    "openshift-custom-metrics-autoscaler-operator",
    "openshift-gitops-operator",
    "openshift-pipelines-operator-rh",
    "quay-operator",
    "red-hat-camel-k",
    "rhpam-kogito-operator",
    "service-registry-operator",
    "servicemeshoperator",
    "skupper-operator",
];

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(operator) = review.subject() else { return };
    if !review.is_update() {
        check_feature_set(report);
        catalogs::check_other_catalogs(review, report);
    }
    if review.touches_json(operator, NAME)
        && let Some(name) = check_package_name(operator, report)
    {
        check_documented_package(review, &name, report);
        package::check(&name, report);
    }
}

rule! {
    /// platform Operators require the feature set TechPreviewNoUpgrade
    ///
    /// If a PlatformOperator is created, `spec.featureSet` of the FeatureGate `cluster` is
    /// `TechPreviewNoUpgrade`. A cluster without this FeatureGate has the feature set `""`. Without
    /// cluster state, the policy skips the rule.
    ///
    /// # Why
    ///
    /// Platform Operators are a Technology Preview: without the feature set, nothing reconciles the
    /// object (OpenShift 4.12, Operators, *Managing platform Operators*). The text there also
    /// spells it `TechPreviewNoUpgrades`; the manifests do not.
    ///
    /// # Remediation
    ///
    /// Install the Operator with a Subscription. On a cluster for testing new features, set
    /// `featureSet: TechPreviewNoUpgrade` in the FeatureGate `cluster`. You cannot undo this.
    ///
    /// # Accepted
    ///
    /// Any PlatformOperator, on a cluster with:
    ///
    /// ```yaml
    /// kind: FeatureGate
    /// metadata: {name: cluster}
    /// spec: {featureSet: TechPreviewNoUpgrade}
    /// ```
    ///
    /// # Rejected
    ///
    /// Any PlatformOperator, on a cluster with `featureSet: ""`.
    ///
    /// `message: PlatformOperator requires the TechPreviewNoUpgrade feature set; FeatureGate
    /// cluster has ""`
    PLT_01: Deny {
        name: "platform-operator-requires-tech-preview",
        on: [OPERATOR: Create],
        reads: [FEATURE_GATES],
        source: ["OCP 4.12 L10255, L10433, L10464, L10486-10501, L10620, L10648-10653", "OCP 4.15 L7365-7372, L7534-7538"],
    }
}

fn check_feature_set(report: &mut Report<'_>) {
    if !report.is_on(&PLT_01) {
        return;
    }
    let answer = feature_set::of_cluster();
    if let Some(found) = report.or_skip(&[&PLT_01], "FeatureGates", answer)
        && found != TECH_PREVIEW
    {
        let found = quote(&found);
        let message = format!(
            "PlatformOperator requires the TechPreviewNoUpgrade feature set; FeatureGate cluster has {found}"
        );
        report.add(&PLT_01, "metadata.name", message);
    }
}

rule! {
    /// a PlatformOperator names a package
    ///
    /// `spec.package.name` is a non-empty string. The rule evaluates an UPDATE only if it changes
    /// the field. It does not evaluate requests for the subresource `status`.
    ///
    /// # Why
    ///
    /// The platform Operators component searches the catalog for the package (OpenShift 4.12,
    /// Operators, *Installing platform Operators*). The CRD requires the field, but accepts an
    /// empty name, which matches no package.
    ///
    /// # Remediation
    ///
    /// Write the name of the package, as `oc get packagemanifests -n openshift-marketplace` shows
    /// it.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata: {name: service-mesh-po}
    /// spec: {package: {name: servicemeshoperator}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {package: {name: ""}}
    /// ```
    ///
    /// `message: spec.package.name: Required value`
    PLT_02: Deny {
        name: "platform-operator-package-required",
        on: [OPERATOR: Create | Update],
        source: ["OCP 4.12 L10255, L10520-10526, L10633-10639", "OCP 4.15 L7427-7433"],
    }
}

fn check_package_name(operator: &Document, report: &mut Report<'_>) -> Option<String> {
    let name = operator.text(NAME).filter(|name| !name.is_empty());
    if name.is_none() {
        report.add(&PLT_02, FIELD, format!("{FIELD}: Required value"));
    }
    name
}

rule! {
    /// a PlatformOperator names a package of the documented set
    ///
    /// `spec.package.name` is one of the setting `platform.packages`, by default the 25 packages of
    /// OpenShift's table. The rule evaluates an UPDATE only if it changes the field. The rule does
    /// not evaluate requests for the subresource `status`.
    ///
    /// # Why
    ///
    /// Few packages meet all restrictions of platform Operators. OpenShift lists those that you can
    /// install (OpenShift 4.12, Operators, *Technology Preview restrictions for platform
    /// Operators*). The list becomes outdated while catalogs change, so the rule only warns; PLT-04
    /// to PLT-07 evaluate the package itself.
    ///
    /// # Remediation
    ///
    /// Choose a package of the table, or install the Operator with a Subscription. If you know that
    /// a package works, add it to `platform.packages`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {package: {name: quay-operator}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {package: {name: etcd}}
    /// ```
    ///
    /// `message: package "etcd" is not in the supported set of OLM-based Operators installable as
    /// platform Operators`
    PLT_03: Warn {
        name: "documented-platform-operator-package",
        on: [OPERATOR: Create | Update],
        source: ["OCP 4.12 L10291-10406, L10468, L10624", "OCP 4.15 L7326-7374"],
    }
}

fn check_documented_package(review: &Review<'_>, name: &str, report: &mut Report<'_>) {
    const SETTING: &str = "/platform/packages";
    let is_listed = if review.settings.has(SETTING) {
        review.settings.texts(SETTING).iter().any(|package| package == name)
    } else {
        DOCUMENTED_PACKAGES.contains(&name)
    };
    if !is_listed {
        let name = quote(name);
        let message = format!(
            "package {name} is not in the supported set of OLM-based Operators installable as platform Operators"
        );
        report.add(&PLT_03, FIELD, message);
    }
}
