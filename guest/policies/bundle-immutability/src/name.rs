//! The maximum length of names, so that RukPak can name other objects after them.

use opgate_sdk::{Document, Report, Review, Rule, rule, rules};

use crate::targets::{BUNDLE, DEPLOYMENT};

rules![RPK_14, RPK_15];

rule! {
    /// the name of a Bundle has at most 52 characters
    ///
    /// `metadata.name` of a new Bundle is not longer than 52 characters. If the object has no name,
    /// as with `metadata.generateName`, the name of the request counts. A name cannot change, so
    /// the rule does not apply to UPDATE.
    ///
    /// # Why
    ///
    /// RukPak names related objects after the Bundle, with a suffix of up to 11 characters. The CRD
    /// of RukPak v0.16.0 has the same requirement, so the Kubernetes API server also rejects such
    /// an object. This rule also evaluates files, before you apply them to a cluster.
    ///
    /// # Remediation
    ///
    /// Choose a shorter name.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: Bundle
    /// metadata: {name: combo-tag-ref}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// kind: Bundle
    /// metadata: {name: olm-crds-too-long-name-for-the-bundle-1234567890-1234567890}
    /// ```
    ///
    /// `message: metadata.name: Too long: may not be longer than 52`
    RPK_14: Deny {
        name: "bundle-name-length",
        on: [BUNDLE: Create],
        source: ["rukpak v0.16.0 manifests/base/apis/crds/patches/bundle_validation.yaml, test/e2e/api_validation_test.go"],
    }
}

pub(crate) fn check_bundle(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    check_name_length(52, &RPK_14, review, object, report);
}

rule! {
    /// the name of a v1alpha1 BundleDeployment has at most 45 characters
    ///
    /// `metadata.name` of a new `v1alpha1` BundleDeployment is not longer than 45 characters, or
    /// than the setting `rukpak.bundleDeploymentNameMax` (1 to 253). If the object has no name, as
    /// with `metadata.generateName`, the name of the request counts. The rule applies neither to
    /// `v1alpha2` nor to UPDATE.
    ///
    /// # Why
    ///
    /// The name of a generated Bundle is the name of its BundleDeployment with a suffix of 7
    /// characters, and has at most 52 characters (RPK-14). The CRD of RukPak v0.16.0 has the same
    /// requirement, so the Kubernetes API server also rejects such an object. This rule also
    /// evaluates files, before you apply them to a cluster. Later versions of RukPak allow 52.
    ///
    /// # Remediation
    ///
    /// Choose a shorter name. If your CRD allows longer names, set
    /// `rukpak.bundleDeploymentNameMax`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiVersion: core.rukpak.io/v1alpha1
    /// kind: BundleDeployment
    /// metadata: {name: my-bundle-deployment}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// apiVersion: core.rukpak.io/v1alpha1
    /// kind: BundleDeployment
    /// metadata: {name: olm-crds-too-long-name-for-the-bundledeployment-1234567890}
    /// ```
    ///
    /// `message: metadata.name: Too long: may not be longer than 45`
    RPK_15: Deny {
        name: "bundle-deployment-name-length",
        on: [DEPLOYMENT: Create],
        source: ["rukpak v0.16.0 manifests/base/apis/crds/patches/bundledeployment_validation.yaml, test/e2e/api_validation_test.go"],
    }
}

pub(crate) fn check_deployment(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    let limit = review.settings.integer("/rukpak/bundleDeploymentNameMax");
    // The limit of v1alpha1. Later versions of RukPak accept 52.
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(45);
    check_name_length(limit, &RPK_15, review, object, report);
}

fn check_name_length(
    limit: usize,
    rule: &'static Rule,
    review: &Review<'_>,
    object: &Document,
    report: &mut Report<'_>,
) {
    if review.name(object).chars().count() > limit {
        let message = format!("metadata.name: Too long: may not be longer than {limit}");
        report.add(rule, "metadata.name", message);
    }
}
