//! The kinds of objects that the policy evaluates.

use opgate_sdk::Target;

const OLM: &[&str] = &["operators.coreos.com"];

pub(crate) static CSV: Target = Target {
    groups: OLM,
    versions: &["v1alpha1"],
    resources: &["clusterserviceversions"],
    kind: "ClusterServiceVersion",
    ..Target::EMPTY
};

/// The version of an OpenShift cluster, and the version to which it is updated.
pub(crate) static CLUSTER_VERSION: Target = Target {
    groups: &["config.openshift.io"],
    versions: &["v1"],
    resources: &["clusterversions"],
    kind: "ClusterVersion",
    ..Target::EMPTY
};

pub(crate) static REGISTRY_BUNDLE: Target =
    Target::for_files("RegistryBundle", &["registrybundles"]);

pub(crate) static CATALOG: Target = Target::for_files("FileBasedCatalog", &["filebasedcatalogs"]);
