//! The cluster objects that the policy reads. Each rule declares which of these it needs, so that
//! opgate watches nothing for rules that are off.

use opgate_sdk::{ClusterRead, package_manifests};

use crate::targets::{OLM, PLATFORM};

/// PackageManifests. OLM serves them itself, one for each catalog source that has the package, and
/// labels them with the name of the source. The selector excludes those of the other default
/// sources, which are the majority and which no rule needs. It includes objects without the label.
pub(crate) static MANIFESTS: ClusterRead = ClusterRead {
    group: package_manifests::GROUP,
    version: "v1",
    resource: "packagemanifests",
    fields: &[
        "/status/catalogSource",
        "/status/catalogSourceNamespace",
        "/status/defaultChannel",
        "/status/channels/*/name",
        "/status/channels/*/currentCSVDesc/installModes",
        "/status/channels/*/currentCSVDesc/apiservicedefinitions/owned/*/name",
        "/status/channels/*/currentCSVDesc/apiservicedefinitions/required/*/name",
        "/status/channels/*/currentCSVDesc/customresourcedefinitions/required/*/name",
    ],
    label_selector: r#"{"matchExpressions":[{"key":"catalog","operator":"NotIn","values":["certified-operators","redhat-marketplace","community-operators"]}]}"#,
    indexes: &[package_manifests::NAME_INDEX],
    ..ClusterRead::EMPTY
};

/// CatalogSources. The rules read only their names.
pub(crate) static CATALOG_SOURCES: ClusterRead = ClusterRead {
    group: OLM,
    version: "v1alpha1",
    resource: "catalogsources",
    ..ClusterRead::EMPTY
};

/// PlatformOperators. The rules read only whether one exists.
pub(crate) static OPERATORS: ClusterRead = ClusterRead {
    group: PLATFORM,
    version: "v1alpha1",
    resource: "platformoperators",
    ..ClusterRead::EMPTY
};
