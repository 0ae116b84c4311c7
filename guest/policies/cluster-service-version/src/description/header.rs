//! The first two lines of a manifest: `apiVersion` and `kind`.
//!
//! A manifest without them cannot be a request, so the rule evaluates it where it is found: among
//! the files of a bundle, or in a catalog.

use opgate_sdk::{Document, rule, rules};

use crate::targets::{CATALOG, REGISTRY_BUNDLE};

rules![CSV_27];

/// The kind.
pub(crate) const KIND: &str = "ClusterServiceVersion";
/// The group.
/// The API of ClusterServiceVersions.
pub(crate) const API_VERSION: &str = "operators.coreos.com/v1alpha1";
const GROUP: &str = "operators.coreos.com";
/// Members of the spec that no other kind of the group has.
const MEMBERS: [&str; 5] = [
    "/spec/install",
    "/spec/installModes",
    "/spec/customresourcedefinitions",
    "/spec/apiservicedefinitions",
    "/spec/webhookdefinitions",
];

rule! {
    /// a ClusterServiceVersion in a file has apiVersion and kind
    ///
    /// A manifest that is meant to be a ClusterServiceVersion has an `apiVersion` with a version in
    /// it, and a `kind`. It is meant to be one if its kind is `ClusterServiceVersion`, or if it has
    /// no kind but the name of its file contains `clusterserviceversion`, or its spec has members
    /// that only a ClusterServiceVersion has. In a bundle the first document of each file in
    /// `manifests/` is evaluated (RBF-32), in a catalog the objects of kind ClusterServiceVersion. In a
    /// bundle such a manifest is a violation of this rule, and not of RBF-12 as well.
    ///
    /// # Why
    ///
    /// Kubernetes and OLM identify the kind of an object by these two members. The validators of
    /// operator-framework/api reject a ClusterServiceVersion without them; operator-registry cannot
    /// parse the manifest either (RBF-12).
    ///
    /// # Remediation
    ///
    /// Start the file with the lines below.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiVersion: operators.coreos.com/v1alpha1
    /// kind: ClusterServiceVersion
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// kind: ClusterServiceVersion
    /// metadata: {name: etcdoperator.v0.9.4}
    /// ```
    ///
    /// `message: 'apiVersion' is missing`
    pub(crate) CSV_27: Deny {
        name: "csv-has-api-version-and-kind",
        on: [REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update],
        source: ["api pkg/validation/internal/csv.go"],
    }
}

/// The message about a missing version.
pub(crate) const MISSING_API_VERSION: &str = "'apiVersion' is missing";

/// Whether an object has no version in its `apiVersion`.
pub(crate) fn lacks_api_version(object: &Document) -> bool {
    parse(&object.text_or_empty("/apiVersion")).1.is_empty()
}

/// The missing members of a manifest, each with its message.
pub(crate) fn missing_fields(manifest: &Document, path: &str) -> Vec<(&'static str, &'static str)> {
    let api_version = manifest.text_or_empty("/apiVersion");
    let (group, version) = parse(&api_version);
    let kind = manifest.text_or_empty("/kind");
    let mut missing = Vec::new();
    if kind != KIND && !(kind.is_empty() && is_intended(manifest, group, path)) {
        return missing;
    }
    if version.is_empty() {
        missing.push(("apiVersion", MISSING_API_VERSION));
    }
    if kind.is_empty() {
        missing.push(("kind", "'kind' is missing"));
    }
    missing
}

/// Whether a manifest without a kind is meant to be a ClusterServiceVersion.
fn is_intended(manifest: &Document, group: &str, path: &str) -> bool {
    (group.is_empty() || group == GROUP)
        && (path.to_ascii_lowercase().contains("clusterserviceversion")
            || MEMBERS.iter().any(|member| manifest.has(member)))
}

/// `schema.ParseGroupVersion`: group and version, both empty if there are more parts.
fn parse(api_version: &str) -> (&str, &str) {
    match api_version.split_once('/') {
        None => ("", api_version),
        Some((_, rest)) if rest.contains('/') => ("", ""),
        Some(parts) => parts,
    }
}

/// Whether an object is a ClusterServiceVersion to OLM, or would be one with an `apiVersion`.
pub(crate) fn is_csv(object: &Document) -> bool {
    let api_version = object.text_or_empty("/apiVersion");
    let (group, version) = parse(&api_version);
    object.text_or_empty("/kind") == KIND && (group == GROUP || version.is_empty())
}
