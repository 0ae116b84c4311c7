//! The provisioner class: it is set together with a source, well-formed and known.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Report, corrections, names, rule, rules};

use crate::source::field;
use crate::targets::{BUNDLE, DEPLOYMENT};

rules![RPK_12, RPK_13, RPK_16];

/// Provisioners that RukPak ships, OCP 4.15 L21008-21012.
const KNOWN_PROVISIONERS: [&str; 2] = ["core-rukpak-io-plain", "core-rukpak-io-registry"];

/// Checks all rules for the class at the pointer.
pub(crate) fn check(
    object: &Document,
    pointer: &str,
    settings: &Document,
    report: &mut Report<'_>,
) {
    let class = object.text_or_empty(pointer);
    if class.is_empty() {
        report_missing_class(pointer, report);
    } else if names::is_label(&class) {
        check_known_provisioner(&class, pointer, settings, report);
    } else {
        report_invalid_class(&class, pointer, report);
    }
}

rule! {
    /// a provisioner class and a source are set
    ///
    /// In a Bundle and in a `v1alpha2` BundleDeployment, `spec.provisionerClassName` is a text that
    /// is not empty, and `spec.source` is set. In a `v1alpha1` BundleDeployment,
    /// `spec.provisionerClassName` is such a text, and if `spec.template` is set, so are
    /// `spec.template.spec.provisionerClassName` and `spec.template.spec.source`. A class inside
    /// `source` does not count. On UPDATE the rule evaluates a field that changes; with
    /// `ratcheting: false` also an unchanged field, unless the object is being deleted. A new
    /// template is evaluated as a whole. If RPK-01 denies the UPDATE of a Bundle, the rule is not
    /// evaluated.
    ///
    /// # Why
    ///
    /// A provisioner reconciles only the objects that name its ID, and a Bundle without a source
    /// has no content. See OpenShift 4.12, Operators, *Provisioner*, and the examples in *Bundle*
    /// and *BundleDeployment*.
    ///
    /// # Remediation
    ///
    /// Set the field that the message names; the class is `core-rukpak-io-plain` or
    /// `core-rukpak-io-registry`, unless you use another provisioner.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: BundleDeployment
    /// spec:
    ///   provisionerClassName: core-rukpak-io-plain
    ///   template:
    ///     spec:
    ///       provisionerClassName: core-rukpak-io-plain
    ///       source: {type: image, image: {ref: my-bundle@sha256:xyz123}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// kind: Bundle
    /// spec:
    ///   source: {type: image, image: {ref: my-bundle@sha256:xyz123}}
    /// ```
    ///
    /// `message: spec.provisionerClassName: Required value`
    RPK_12: Deny {
        name: "provisioner-class-and-source-set",
        on: [BUNDLE: Create | Update, DEPLOYMENT: Create | Update],
        source: ["OCP 4.12 L1058, L1080, L1095, L1129, L1246-1273", "OCP 4.15 L950, L1119, L20052-20071", "OKD L371-375, L470-481"],
    }
}

fn report_missing_class(pointer: &str, report: &mut Report<'_>) {
    let field = field(pointer);
    let message = format!("{field}: Required value");
    report.add(&RPK_12, field, message);
}

/// Checks RPK-12 for a source that must be set together with a provisioner class.
pub(crate) fn check_source_set(object: &Document, pointer: &str, report: &mut Report<'_>) {
    if !object.has(pointer) {
        report_missing_class(pointer, report);
    }
}

rule! {
    /// a provisioner class is a lower-case name of letters, digits and hyphens
    ///
    /// `spec.provisionerClassName`, and `spec.template.spec.provisionerClassName` of a `v1alpha1`
    /// BundleDeployment, matches `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`: it starts and ends with a
    /// letter or a digit. RPK-12 evaluates an empty class. On UPDATE the rule evaluates a field
    /// that changes; with `ratcheting: false` also an unchanged field, unless the object is being
    /// deleted. If RPK-01 denies the UPDATE of a Bundle, the rule is not evaluated.
    ///
    /// # Why
    ///
    /// The class is the ID of a provisioner, and IDs have this syntax. The CRD of RukPak v0.16.0
    /// has the same requirement, so the Kubernetes API server also rejects such an object. This
    /// rule also evaluates files, before you apply them to a cluster.
    ///
    /// # Remediation
    ///
    /// Write the exact ID of the provisioner, for example `core-rukpak-io-plain`.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec:
    ///   provisionerClassName: core-rukpak-io-registry
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   provisionerClassName: invalid/class-name
    /// ```
    ///
    /// `message: spec.provisionerClassName: Invalid value: "invalid/class-name":
    /// spec.provisionerClassName in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'`
    RPK_13: Deny {
        name: "provisioner-class-name",
        on: [BUNDLE: Create | Update, DEPLOYMENT: Create | Update],
        source: ["rukpak v0.16.0 api/v1alpha1/bundle_types.go, test/e2e/api_validation_test.go"],
    }
}

fn report_invalid_class(class: &str, pointer: &str, report: &mut Report<'_>) {
    let field = field(pointer);
    let message = format!(
        "{field}: Invalid value: {}: {field} in body should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
        quote(class)
    );
    report.add(&RPK_13, field, message);
    report.set_fix(&RPK_13, || corrections::spelling(pointer, class, &KNOWN_PROVISIONERS));
}

rule! {
    /// a provisioner class names a known provisioner
    ///
    /// `spec.provisionerClassName`, and `spec.template.spec.provisionerClassName` of a `v1alpha1`
    /// BundleDeployment, is one of the setting `rukpak.provisioners`; by default these are
    /// `core-rukpak-io-plain` and `core-rukpak-io-registry`. A list in the setting replaces the
    /// default. RPK-12 and RPK-13 evaluate an empty or malformed class. On UPDATE the rule
    /// evaluates a field that changes; with `ratcheting: false` also an unchanged field, unless the
    /// object is being deleted. If RPK-01 denies the UPDATE of a Bundle, the rule is not evaluated.
    ///
    /// # Why
    ///
    /// A provisioner reconciles only the objects that name its ID. An object with an unknown class
    /// is ignored, and no error is reported. OpenShift 4.12, Operators, *Provisioner*, describes
    /// this.
    ///
    /// # Remediation
    ///
    /// Correct the class. If another provisioner is installed, add its ID to `rukpak.provisioners`,
    /// next to the IDs that you still use.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: BundleDeployment
    /// spec:
    ///   provisionerClassName: core-rukpak-io-plain
    ///   template:
    ///     spec: {provisionerClassName: core-rukpak-io-registry}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec:
    ///   provisionerClassName: core-rukpak-io-helm
    /// ```
    ///
    /// `message: spec.provisionerClassName "core-rukpak-io-helm" is not a known provisioner; only
    /// the provisioner with that ID reconciles this object`
    RPK_16: Warn {
        name: "known-provisioner-class",
        on: [BUNDLE: Create | Update, DEPLOYMENT: Create | Update],
        source: ["OCP 4.12 L1058-1061, L1095, L1283", "OCP 4.15 L1117-1119, L19897-19899, L21008-21012", "OKD L365-367, L482-487"],
    }
}

fn check_known_provisioner(
    class: &str,
    pointer: &str,
    settings: &Document,
    report: &mut Report<'_>,
) {
    let is_known = if settings.has("/rukpak/provisioners") {
        settings.texts("/rukpak/provisioners").iter().any(|known| known == class)
    } else {
        KNOWN_PROVISIONERS.contains(&class)
    };
    if !is_known {
        let field = field(pointer);
        let message = format!(
            "{field} {} is not a known provisioner; only the provisioner with that ID reconciles this object",
            quote(class)
        );
        report.add(&RPK_16, field, message);
    }
}
