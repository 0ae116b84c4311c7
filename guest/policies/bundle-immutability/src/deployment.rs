//! BundleDeployments: they can pivot to other content at any time, and the new content must be
//! valid.
//!
//! v1alpha1 has a template from which Bundles are generated, v1alpha2 has the source itself.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Operation, Report, Review, Shape, rule, rules};

use crate::reads::{CONFIG_MAPS, ConfigMaps, NO_CONFIG_MAPS};
use crate::source::{self, field, pinned, schema, webhook};
use crate::targets::DEPLOYMENT;
use crate::{access, class, name};

rules![RPK_22, RPK_23, RPK_25];

const CLASS: &str = "/spec/provisionerClassName";
const TEMPLATE: &str = "/spec/template";
const TEMPLATE_CLASS: &str = "/spec/template/spec/provisionerClassName";
const TEMPLATE_SOURCE: &str = "/spec/template/spec/source";
const TEMPLATE_TYPE: &str = "/spec/template/spec/source/type";
const SOURCE: &str = "/spec/source";

/// Presence of a template, regardless of its content.
const PRESENCE: Shape = Shape::Pointer(&[]);
/// The fields of owners that RPK-25 reads.
const OWNERS: Shape =
    Shape::List(&Shape::Struct(&[("apiVersion", Shape::Scalar), ("kind", Shape::Scalar)]));

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    access::check(review, report);
    let Some(object) = review.subject() else { return };
    if review.request.resource().version == "v1alpha1" {
        check_template(review, object, report);
    } else {
        check_source(review, object, report);
    }
}

/// A `v1alpha1` BundleDeployment.
fn check_template(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    let has_template = object.has(TEMPLATE);
    // A new template adds requirements, also for fields that were not set before.
    let is_new = review.touches(object, TEMPLATE, &PRESENCE);
    if review.touches(object, CLASS, &Shape::Scalar) {
        class::check(object, CLASS, review.settings, report);
    }
    if has_template && (is_new || review.touches(object, TEMPLATE_CLASS, &Shape::Scalar)) {
        class::check(object, TEMPLATE_CLASS, review.settings, report);
    }
    if is_new || review.touches(object, TEMPLATE_SOURCE, &source::SHAPE) {
        if has_template {
            class::check_source_set(object, TEMPLATE_SOURCE, report);
        }
        if object.has(TEMPLATE_SOURCE) {
            check_generated_bundle(review, object, report);
            pinned::check(object, TEMPLATE_SOURCE, report);
        }
    }
    if review.operation() == Operation::Create {
        name::check_deployment(review, object, report);
    }
    if review.touches(object, TEMPLATE_CLASS, &Shape::Scalar)
        || review.touches(object, TEMPLATE_TYPE, &Shape::Scalar)
        || review.touches(object, "/metadata/ownerReferences", &OWNERS)
    {
        check_plain_source(object, report);
    }
}

/// A `v1alpha2` BundleDeployment.
fn check_source(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    if review.touches(object, CLASS, &Shape::Scalar) {
        class::check(object, CLASS, review.settings, report);
    }
    let source_counts = review.touches(object, SOURCE, &source::SHAPE);
    if source_counts {
        class::check_source_set(object, SOURCE, report);
    }
    if source_counts || source::is_rechecked(review, object) {
        check_unpacking(review, object, report);
    }
    if source_counts {
        pinned::check(object, SOURCE, report);
    }
}

rule! {
    /// the source of a v1alpha2 BundleDeployment satisfies the source rules of Bundles
    ///
    /// `spec.source` of a `v1alpha2` BundleDeployment satisfies RPK-02 to RPK-07 like a Bundle: the
    /// source of the type is set, paths stay inside the root, and ConfigMaps that exist are
    /// immutable. RPK-08 to RPK-11, RPK-18 and RPK-21 do not apply. The source can change at any
    /// time. On UPDATE the rule evaluates a source that changes; with `ratcheting: false` or
    /// `rukpak.recheckUnchanged: true` also an unchanged source, unless the object is being
    /// deleted.
    ///
    /// The rule reads the ConfigMaps in the namespace of RukPak, `rukpak.systemNamespace`
    /// (`rukpak-system`). Without cluster state it does not check them, and the audit annotation
    /// `skipped-rules` names the rule; with `messages.skippedRules: warn` a warning names it too.
    ///
    /// # Why
    ///
    /// RukPak v0.17.0 no longer has Bundles: the BundleDeployment itself contains the source, and
    /// the webhook runs the same checks on it.
    ///
    /// # Remediation
    ///
    /// Correct the field that the message names, as RPK-02 to RPK-07 describe.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiVersion: core.rukpak.io/v1alpha2
    /// kind: BundleDeployment
    /// spec:
    ///   source: {type: image, image: {ref: quay.io/org/b@sha256:0123}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// apiVersion: core.rukpak.io/v1alpha2
    /// kind: BundleDeployment
    /// spec:
    ///   source: {type: git, image: {ref: a}}
    /// ```
    ///
    /// `message: bundledeployment.spec.source.git must be set for source type "git"`
    ///
    /// The other messages are those of RPK-02 to RPK-07, with `bundledeployment` instead of
    /// `bundle`.
    RPK_22: Deny {
        name: "valid-bundle-deployment-source",
        on: [DEPLOYMENT: Create | Update],
        reads: [CONFIG_MAPS],
        source: ["rukpak v0.17.0 internal/webhook/bundledeployment.go"],
    }
}

fn check_unpacking(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    let mut config_maps = ConfigMaps::new(review.settings);
    for found in webhook::find_violations(object, SOURCE, "bundledeployment", &mut config_maps) {
        report.add(&RPK_22, found.field, found.message);
    }
    if config_maps.are_unavailable() {
        report.skip_part(&RPK_22, "spec.source.configMaps", NO_CONFIG_MAPS);
    }
}

rule! {
    /// the template of a v1alpha1 BundleDeployment generates a valid Bundle
    ///
    /// `spec.template.spec.source` of a `v1alpha1` BundleDeployment, if set, satisfies RPK-02 to
    /// RPK-07 and RPK-09 to RPK-11 like a Bundle. RPK-12 evaluates a template without a source. On
    /// UPDATE the rule evaluates a source that changes or a new template; with `ratcheting: false`
    /// also an unchanged source, unless the object is being deleted. `rukpak.recheckUnchanged` has
    /// no effect.
    ///
    /// The rule reads the ConfigMaps in the namespace of RukPak, `rukpak.systemNamespace`
    /// (`rukpak-system`). Without cluster state it does not check them, and the audit annotation
    /// `skipped-rules` names the rule; with `messages.skippedRules: warn` a warning names it too.
    ///
    /// # Why
    ///
    /// RukPak generates a Bundle from the template. If that Bundle is rejected, nothing new is
    /// installed, and only the condition `HasValidBundle` of the BundleDeployment reports the
    /// reason. OpenShift 4.12, Operators, *BundleDeployment*, describes the embedded spec.
    ///
    /// # Remediation
    ///
    /// Correct the field of the template that the rest of the message names, as the rule for
    /// Bundles describes.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiVersion: core.rukpak.io/v1alpha1
    /// kind: BundleDeployment
    /// spec:
    ///   template:
    ///     spec:
    ///       source: {type: image, image: {ref: my-bundle@sha256:xyz123}}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// apiVersion: core.rukpak.io/v1alpha1
    /// kind: BundleDeployment
    /// spec:
    ///   template:
    ///     spec:
    ///       source: {type: git, image: {ref: a}}
    /// ```
    ///
    /// `message: spec.template.spec.source is invalid, the generated Bundle will be rejected:
    /// bundle.spec.source.git must be set for source type "git"`
    ///
    /// The message of the rule for Bundles follows `rejected:`. In messages of RPK-09 to RPK-11,
    /// fields start with `spec.template.spec.source`.
    RPK_23: Warn {
        name: "valid-bundle-deployment-template",
        on: [DEPLOYMENT: Create | Update],
        reads: [CONFIG_MAPS],
        source: ["OCP 4.12 L1109, L1246, L1258-1273", "OCP 4.15 L1095-1110, L20052-20071", "OKD L466-481", "rukpak v0.16.0 internal/webhook/bundle.go"],
    }
}

fn check_generated_bundle(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    let mut config_maps = ConfigMaps::new(review.settings);
    let found = webhook::find_violations(object, TEMPLATE_SOURCE, "bundle", &mut config_maps);
    for found in found.into_iter().chain(schema::find_violations(object, TEMPLATE_SOURCE)) {
        let message = format!(
            "spec.template.spec.source is invalid, the generated Bundle will be rejected: {}",
            found.message
        );
        report.add(&RPK_23, found.field, message);
    }
    if config_maps.are_unavailable() {
        let field = field(&format!("{TEMPLATE_SOURCE}/configMaps"));
        report.skip_part(&RPK_23, &field, NO_CONFIG_MAPS);
    }
}

rule! {
    /// OLM 1.0 installs plain bundles from images only
    ///
    /// In a `v1alpha1` BundleDeployment that an `Operator` of `operators.operatorframework.io`
    /// owns, and whose `spec.template.spec.provisionerClassName` is `core-rukpak-io-plain`,
    /// `spec.template.spec.source.type` is `image`. Any of the `metadata.ownerReferences` can be
    /// that owner, in any version of the group. On UPDATE the rule evaluates the object if the
    /// class, the type, or `apiVersion` or `kind` of an owner changes; with `ratcheting: false`
    /// also if none of these changes, unless the object is being deleted.
    ///
    /// # Why
    ///
    /// The Operator Controller of OLM 1.0 installs plain bundles only from plain bundle images; see
    /// OpenShift 4.15, Operators, *Building a plain bundle image from an image source*.
    ///
    /// # Remediation
    ///
    /// Build an image of the bundle, push it, and refer to it by digest with source type `image`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// metadata:
    ///   ownerReferences:
    ///   - {apiVersion: operators.operatorframework.io/v1alpha1, kind: Operator, name: o, uid: "1"}
    /// spec:
    ///   template:
    ///     spec:
    ///       provisionerClassName: core-rukpak-io-plain
    ///       source: {type: image, image: {ref: x@sha256:e09d}}
    /// ```
    ///
    /// # Rejected
    ///
    /// This object with another source:
    ///
    /// ```yaml
    /// source: {type: git, git: {repository: r, ref: {commit: 8f3b8a6}}}
    /// ```
    ///
    /// `message: OLM 1.0 installs plain bundles from plain bundle images only;
    /// spec.template.spec.source.type is "git"`
    RPK_25: Warn {
        name: "plain-bundles-from-images-only",
        on: [DEPLOYMENT: Create | Update],
        source: ["OCP 4.15 L20987-21040, L21780"],
    }
}

fn check_plain_source(object: &Document, report: &mut Report<'_>) {
    let owned_by_operator = object.items("/metadata/ownerReferences").any(|owner| {
        owner.text_or_empty("/kind") == "Operator"
            && owner.text_or_empty("/apiVersion").starts_with("operators.operatorframework.io/")
    });
    let kind = object.text_or_empty(TEMPLATE_TYPE);
    if owned_by_operator
        && object.text_or_empty(TEMPLATE_CLASS) == "core-rukpak-io-plain"
        && kind != "image"
    {
        let message = format!(
            "OLM 1.0 installs plain bundles from plain bundle images only; spec.template.spec.source.type is {}",
            quote(&kind)
        );
        report.add(&RPK_25, "spec.template.spec.source.type", message);
    }
}
