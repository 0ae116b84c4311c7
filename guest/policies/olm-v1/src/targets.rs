//! The resources that the policy evaluates.

use opgate_sdk::Target;

pub(crate) static OPERATOR: Target = Target {
    groups: &["operators.operatorframework.io"],
    versions: &["v1alpha1"],
    resources: &["operators"],
    kind: "Operator",
    ..Target::EMPTY
};

pub(crate) static CATALOG: Target = Target {
    groups: &["catalogd.operatorframework.io"],
    versions: &["v1alpha1"],
    resources: &["catalogs"],
    kind: "Catalog",
    ..Target::EMPTY
};

/// Manifests in files. Advisory: the policy does not evaluate objects that are created in a
/// cluster.
pub(crate) static CSV: Target = Target {
    groups: &["operators.coreos.com"],
    versions: &["v1alpha1"],
    resources: &["clusterserviceversions"],
    kind: "ClusterServiceVersion",
    advisory: true,
    enabled_by: &["/olmv1/target"],
    ..Target::EMPTY
};

/// The bundles of a catalog.
pub(crate) static BUNDLES: Target = Target {
    enabled_by: &["/olmv1/target"],
    ..Target::for_files("FileBasedCatalog", &["filebasedcatalogs"])
};
