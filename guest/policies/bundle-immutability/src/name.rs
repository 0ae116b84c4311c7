//! How long names may be, so that RukPak can name other objects after them.

use opgate_sdk::{Document, Report, Review, Rule, rule, rules};

use crate::targets::{BUNDLE, DEPLOYMENT};

rules![RPK_14, RPK_15];

rule! {
    /// the name of a Bundle has at most 52 characters
    ///
    /// `metadata.name` of a new Bundle is not longer than 52 characters. Where the object has no
    /// name, as with `metadata.generateName`, the name of the request counts. A name cannot change,
    /// so that the rule does not look at an UPDATE.
    ///
    /// # Why
    ///
    /// RukPak names related objects after the Bundle, with up to 11 characters more. The CRD of
    /// RukPak v0.16.0 demands the same, so that the Kubernetes API server rejects such an object as
    /// well. This rule also finds it in files, before a cluster sees them.
    ///
    /// # Repair
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
        on: [BUNDLE: Create],
        source: "rukpak v0.16.0 manifests/base/apis/crds/patches/bundle_validation.yaml, test/e2e/api_validation_test.go",
    }
}

pub(crate) fn of_bundle(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    is_at_most(52, &RPK_14, review, object, report);
}

rule! {
    /// the name of a v1alpha1 BundleDeployment has at most 45 characters
    ///
    /// `metadata.name` of a new `v1alpha1` BundleDeployment is not longer than 45 characters, or
    /// than the setting `rukpak.bundleDeploymentNameMax` says (1 to 253). Where the object has no
    /// name, as with `metadata.generateName`, the name of the request counts. The rule does not
    /// look at `v1alpha2`, nor at an UPDATE.
    ///
    /// # Why
    ///
    /// A generated Bundle has the name of its BundleDeployment and 7 characters more, and at most
    /// 52 (RPK-14). The CRD of RukPak v0.16.0 demands the same, so that the Kubernetes API server
    /// rejects such an object as well. This rule also finds it in files, before a cluster sees
    /// them. Later versions of RukPak allow 52.
    ///
    /// # Repair
    ///
    /// Choose a shorter name. Where your CRD allows longer names, set
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
        on: [DEPLOYMENT: Create],
        source: "rukpak v0.16.0 manifests/base/apis/crds/patches/bundledeployment_validation.yaml, test/e2e/api_validation_test.go",
    }
}

pub(crate) fn of_deployment(review: &Review<'_>, object: &Document, report: &mut Report<'_>) {
    let limit = review.settings.integer("/rukpak/bundleDeploymentNameMax");
    // That of v1alpha1. Later versions of RukPak take 52.
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(45);
    is_at_most(limit, &RPK_15, review, object, report);
}

fn is_at_most(
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
