//! An Operator: the package, the channel and the upgrade constraint policy.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Report, Review, Shape, corrections, go_format, rule, rules};

use crate::targets::OPERATOR;

rules![OL1_01, OL1_02, OL1_04];

pub(crate) const PACKAGE: &str = "/spec/packageName";
pub(crate) const CHANNEL: &str = "/spec/channel";
pub(crate) const POLICY: &str = "/spec/upgradeConstraintPolicy";
/// Maximum characters of a name in the schema.
const MAX_NAME_CHARS: usize = 48;

pub(crate) fn check(review: &Review<'_>, operator: &Document, report: &mut Report<'_>) {
    check_package(review, operator, report);
    check_channel(review, operator, report);
    check_upgrade_policy(review, operator, report);
}

/// Whether the field has a value other than `null`, and, on UPDATE, the request changes it.
pub(crate) fn is_new(review: &Review<'_>, object: &Document, pointer: &str) -> bool {
    object.has(pointer) && review.touches(object, pointer, &Shape::Scalar)
}

/// Whether the author of the Operator is responsible for upgrades.
pub(crate) fn ignores_constraints(operator: &Document) -> bool {
    operator.text_or_empty(POLICY) == "Ignore"
}

rule! {
    /// an Operator of OLM 1.0 names a package
    ///
    /// `spec.packageName` of an Operator of the group `operators.operatorframework.io` is a
    /// non-empty string. The rule does not evaluate the kind Operator of `operators.coreos.com`. It
    /// evaluates an UPDATE only if it changes the field.
    ///
    /// # Why
    ///
    /// The schema of Operators requires the field (operator-controller v0.8.0
    /// `config/crd/bases/operators.operatorframework.io_operators.yaml`).
    ///
    /// # Remediation
    ///
    /// Name the package of the catalog that you want to install.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {packageName: openshift-pipelines-operator-rh}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {channel: latest}
    /// ```
    ///
    /// `message: spec.packageName: Required value`
    OL1_01: Deny {
        name: "olm-v1-operator-package-required",
        on: [OPERATOR: Create | Update],
        source: ["OCP 4.15 L19755-19777, L20871-20889", "operator-controller v0.8.0 config/crd/bases/operators.operatorframework.io_operators.yaml"],
    }
}

rule! {
    /// package and channel of an Operator of OLM 1.0 are valid names
    ///
    /// `spec.packageName` has at most 48 characters and matches `^[a-z0-9]+(-[a-z0-9]+)*$`.
    /// `spec.channel`, if it is set, has at most 48 characters and matches
    /// `^[a-z0-9]+([\.-][a-z0-9]+)*$`. A number is not a string: write `'1.11'`. The rule evaluates
    /// an UPDATE only if it changes the field.
    ///
    /// # Why
    ///
    /// The schema of Operators rejects all other values (operator-controller v0.8.0
    /// `api/v1alpha1/operator_types.go`).
    ///
    /// # Remediation
    ///
    /// Copy the names from the catalog.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {packageName: openshift-pipelines-operator-rh, channel: pipelines-1.11}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {packageName: Openshift_Pipelines}
    /// ```
    ///
    /// `message: spec.packageName: Invalid value: "Openshift_Pipelines": spec.packageName in body
    /// should match '^[a-z0-9]+(-[a-z0-9]+)*$'`
    OL1_02: Deny {
        name: "valid-olm-v1-package-and-channel-names",
        on: [OPERATOR: Create | Update],
        source: ["OCP 4.15 L20826-20835", "operator-controller v0.8.0 api/v1alpha1/operator_types.go"],
    }
}

fn check_package(review: &Review<'_>, operator: &Document, report: &mut Report<'_>) {
    const FIELD: &str = "spec.packageName";
    if !review.touches(operator, PACKAGE, &Shape::Scalar) {
        return;
    }
    match operator.text(PACKAGE) {
        Some(name) if !name.is_empty() => {
            check_name(&name, FIELD, "-", "^[a-z0-9]+(-[a-z0-9]+)*$", report);
        }
        _ => report.add(&OL1_01, FIELD, "spec.packageName: Required value"),
    }
}

fn check_channel(review: &Review<'_>, operator: &Document, report: &mut Report<'_>) {
    const FIELD: &str = "spec.channel";
    if !is_new(review, operator, CHANNEL) {
        return;
    }
    if let Some(name) = operator.text(CHANNEL) {
        check_name(&name, FIELD, ".-", r"^[a-z0-9]+([\.-][a-z0-9]+)*$", report);
    } else {
        report.add(&OL1_02, FIELD, go_format::wrong_type(operator, CHANNEL, FIELD, "string"));
        report.set_fix(&OL1_02, || corrections::text_fix(operator, CHANNEL));
    }
}

/// Checks a name: letters and digits with one of the separators between them.
fn check_name(name: &str, field: &str, signs: &str, pattern: &str, report: &mut Report<'_>) {
    let is_part = |part: &[u8]| {
        !part.is_empty() && part.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    // One error, the length first, as in the schema.
    if name.chars().count() > MAX_NAME_CHARS {
        let message = format!("{field}: Too long: may not be longer than {MAX_NAME_CHARS}");
        report.add(&OL1_02, field, message);
    } else if !name.as_bytes().split(|byte| signs.as_bytes().contains(byte)).all(is_part) {
        let value = quote(name);
        let message =
            format!("{field}: Invalid value: {value}: {field} in body should match '{pattern}'");
        report.add(&OL1_02, field, message);
    }
}

rule! {
    /// the upgrade constraint policy of an Operator of OLM 1.0 is Enforce or Ignore
    ///
    /// `spec.upgradeConstraintPolicy`, if it is set, is exactly `Enforce` or `Ignore`. The default
    /// is `Enforce`. The rule evaluates an UPDATE only if it changes the field.
    ///
    /// # Why
    ///
    /// The schema of Operators has no other values (operator-controller v0.8.0
    /// `api/v1alpha1/operator_types.go`).
    ///
    /// # Remediation
    ///
    /// Remove the field. Use `Ignore` only to force an update or a rollback that you have tested.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {packageName: a, version: 1.2.3, upgradeConstraintPolicy: Ignore}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {packageName: a, version: 1.2.3, upgradeConstraintPolicy: Force}
    /// ```
    ///
    /// `message: spec.upgradeConstraintPolicy: Unsupported value: "Force": supported values:
    /// "Enforce", "Ignore"`
    OL1_04: Deny {
        name: "valid-olm-v1-upgrade-constraint-policy",
        on: [OPERATOR: Create | Update],
        source: ["OCP 4.15 L20948, L21609-21623", "operator-controller v0.8.0 api/v1alpha1/operator_types.go"],
    }
}

fn check_upgrade_policy(review: &Review<'_>, operator: &Document, report: &mut Report<'_>) {
    if !is_new(review, operator, POLICY) {
        return;
    }
    let value = go_format::format_value(operator, POLICY, false);
    let is_known = matches!(value.as_str(), "Enforce" | "Ignore");
    if !is_known || operator.kind(POLICY) != Kind::Text {
        let message = format!(
            "spec.upgradeConstraintPolicy: Unsupported value: {}: supported values: \"Enforce\", \"Ignore\"",
            quote(&value)
        );
        report.add(&OL1_04, "spec.upgradeConstraintPolicy", message);
        report.set_fix(&OL1_04, || {
            corrections::spelling(POLICY, &operator.text(POLICY)?, &["Enforce", "Ignore"])
        });
    }
}
