//! What the policy reads of the cluster. Each rule declares which of these it needs, so that
//! nothing is watched for rules that are off.

use opgate_sdk::{ClusterRead, package_manifests};

use crate::targets::{OLM, PLATFORM};

/// PackageManifests. OLM serves them itself, one for each catalog source that has the package, and labels
/// them with the name of the source. Those of the other default sources are most of all, and no rule asks
/// for them. What has no such label is read.
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
    labels: r#"{"matchExpressions":[{"key":"catalog","operator":"NotIn","values":["certified-operators","redhat-marketplace","community-operators"]}]}"#,
    indexes: &[package_manifests::NAME],
    ..ClusterRead::EMPTY
};

/// CatalogSources, of which only the names count.
pub(crate) static CATALOG_SOURCES: ClusterRead = ClusterRead {
    group: OLM,
    version: "v1alpha1",
    resource: "catalogsources",
    ..ClusterRead::EMPTY
};

/// PlatformOperators, of which only counts whether there are any.
pub(crate) static OPERATORS: ClusterRead = ClusterRead {
    group: PLATFORM,
    version: "v1alpha1",
    resource: "platformoperators",
    ..ClusterRead::EMPTY
};
