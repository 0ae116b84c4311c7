//! The first two lines of a manifest: `apiVersion` and `kind`.
//!
//! A manifest without them is no request of its own, so it is evaluated where it is found: among the
//! files of a bundle, or in a catalog.

use opgate_sdk::{Document, rule, rules};

use crate::targets::{CATALOG, REGISTRY_BUNDLE};

rules![CSV_27];

/// The kind.
pub(crate) const KIND: &str = "ClusterServiceVersion";
/// The group.
const GROUP: &str = "operators.coreos.com";

/// The message of CSV-27.
pub(crate) const MESSAGE: &str = "'apiVersion' is missing";

rule! {
    /// a ClusterServiceVersion in a file has apiVersion and kind
    ///
    /// A manifest of kind `ClusterServiceVersion` has an `apiVersion` with a version in it: `GROUP/VERSION`
    /// or `VERSION`. In a bundle the first document of each file in `manifests/` is evaluated (RBF-32),
    /// in a catalog each object of that kind. In a bundle, a manifest without `kind`, and one without any
    /// `apiVersion`, is a violation of RBF-12, and not of this rule as well.
    ///
    /// # Why
    ///
    /// Kubernetes and OLM find out by these two members what an object is. The validators of
    /// operator-framework/api refuse a ClusterServiceVersion without them; operator-registry cannot
    /// parse the manifest either (RBF-12).
    ///
    /// # Repair
    ///
    /// Start the file with the lines below.
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
    /// apiVersion: operators.coreos.com/
    /// kind: ClusterServiceVersion
    /// metadata: {name: etcdoperator.v0.9.4}
    /// ```
    ///
    /// `message: 'apiVersion' is missing`
    pub(crate) CSV_27: Deny {
        on: [REGISTRY_BUNDLE: Create | Update, CATALOG: Create | Update],
        source: "api pkg/validation/internal/csv.go",
    }
}

/// Whether an object has no version in its `apiVersion`.
pub(crate) fn lacks_version(object: &Document) -> bool {
    parse(&object.text_or_empty("/apiVersion")).1.is_empty()
}

/// Whether a manifest has an `apiVersion` at all: RBF-12 reports those that have none.
pub(crate) fn has_api_version(manifest: &Document) -> bool {
    !manifest.text_or_empty("/apiVersion").is_empty()
}

/// `schema.ParseGroupVersion`: group and version, both empty where there are more parts.
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
