//! Where constraints are found.

use opgate_sdk::Target;

const OLM: &[&str] = &["operators.coreos.com"];

pub(crate) static CSV: Target = Target {
    groups: OLM,
    versions: &["v1alpha1"],
    resources: &["clusterserviceversions"],
    kind: "ClusterServiceVersion",
    ..Target::EMPTY
};

pub(crate) static INSTALL_PLAN: Target = Target {
    groups: OLM,
    versions: &["v1alpha1"],
    resources: &["installplans", "installplans/status"],
    kind: "InstallPlan",
    ..Target::EMPTY
};

/// Controllers write ConfigMaps all the time, and what OLM makes of one is judged as a
/// ClusterServiceVersion.
pub(crate) static CONFIG_MAP: Target = Target {
    groups: &[""],
    versions: &["v1"],
    resources: &["configmaps"],
    kind: "ConfigMap",
    advisory: true,
    ..Target::EMPTY
};

pub(crate) static REGISTRY_BUNDLE: Target =
    Target::of_files("RegistryBundle", &["registrybundles"]);

pub(crate) static CATALOG: Target = Target::of_files("FileBasedCatalog", &["filebasedcatalogs"]);
