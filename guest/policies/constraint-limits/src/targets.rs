//! The objects and files that contain constraints.

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

/// Controllers write ConfigMaps all the time. The condition selects the ConfigMaps whose files
/// `config_map` reads. Objects that OLM creates from a ConfigMap are evaluated as
/// ClusterServiceVersions.
pub(crate) static CONFIG_MAP: Target = Target {
    groups: &[""],
    versions: &["v1"],
    resources: &["configmaps"],
    kind: "ConfigMap",
    advisory: true,
    conditions: &[("bundle-or-catalog", HAS_MARK_OR_FILES)],
    ..Target::EMPTY
};

/// The condition reads only the names in a ConfigMap. The time that an API server takes to iterate
/// over a map grows with the square of its size (1.4 s for 20,000 keys), so larger maps match
/// without iteration.
const HAS_MARK_OR_FILES: &str = "object != null && (has(object.metadata.labels) && ('olm.managed' in object.metadata.labels || 'olm.catalogSource' in object.metadata.labels) || has(object.metadata.annotations) && (size(object.metadata.annotations) > 64 || object.metadata.annotations.exists(name, name == 'olm.contentEncoding' || name.startsWith('operators.operatorframework.io.bundle.'))) || has(object.data) && (size(object.data) > 64 || object.data.exists(key, key == 'clusterServiceVersions' || key.endsWith('.json') || key.endsWith('.yaml') || key.endsWith('.yml'))))";

pub(crate) static REGISTRY_BUNDLE: Target =
    Target::for_files("RegistryBundle", &["registrybundles"]);

pub(crate) static CATALOG: Target = Target::for_files("FileBasedCatalog", &["filebasedcatalogs"]);
