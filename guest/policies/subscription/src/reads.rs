//! The cluster objects that the policy reads. Each rule declares which of these it needs, so that
//! opgate watches nothing for rules that are off.

use opgate_sdk::{ClusterRead, Index, operator_groups, package_manifests};

use crate::targets::OLM;

/// Subscriptions.
pub(crate) static SUBSCRIPTIONS: ClusterRead = ClusterRead {
    group: OLM,
    version: "v1alpha1",
    resource: "subscriptions",
    fields: &[
        "/spec/name",
        "/spec/installPlanApproval",
        "/status/installedCSV",
        "/status/currentCSV",
    ],
    indexes: &[
        Index { name: "package", field: "/spec/name", separator: "" },
        Index { name: "installed", field: "/status/installedCSV", separator: "" },
        Index { name: "current", field: "/status/currentCSV", separator: "" },
    ],
    ..ClusterRead::EMPTY
};

/// CatalogSources, and whether they respond.
pub(crate) static CATALOG_SOURCES: ClusterRead = ClusterRead {
    group: OLM,
    version: "v1alpha1",
    resource: "catalogsources",
    fields: &["/status/connectionState/lastObservedState"],
    ..ClusterRead::EMPTY
};

/// OperatorGroups.
pub(crate) static GROUPS: ClusterRead = ClusterRead {
    group: OLM,
    version: "v1",
    resource: "operatorgroups",
    fields: &[
        operator_groups::TARGETS,
        operator_groups::SELECTOR,
        operator_groups::STATUS,
        "/spec/serviceAccountName",
    ],
    indexes: &[Index { name: "provided", field: operator_groups::PROVIDED_APIS, separator: "," }],
    ..ClusterRead::EMPTY
};

/// Namespaces. The rules read only names and labels.
pub(crate) static NAMESPACES: ClusterRead =
    ClusterRead { version: "v1", resource: "namespaces", ..ClusterRead::EMPTY };

/// ServiceAccounts. The rules read only their names.
pub(crate) static SERVICE_ACCOUNTS: ClusterRead =
    ClusterRead { version: "v1", resource: "serviceaccounts", ..ClusterRead::EMPTY };

/// ClusterServiceVersions without the label of OLM's copies, with the volumes of their deployments.
pub(crate) static CSVS: ClusterRead = ClusterRead {
    group: OLM,
    version: "v1alpha1",
    resource: "clusterserviceversions",
    fields: &["/spec/install/spec/deployments/*/spec/template/spec/volumes/*/name"],
    label_selector: r#"{"matchExpressions":[{"key":"olm.copiedFrom","operator":"DoesNotExist"}]}"#,
    ..ClusterRead::EMPTY
};

/// PackageManifests of all catalogs.
pub(crate) static MANIFESTS: ClusterRead = ClusterRead {
    group: package_manifests::GROUP,
    version: "v1",
    resource: "packagemanifests",
    fields: &[
        "/status/catalogSource",
        "/status/catalogSourceNamespace",
        "/status/defaultChannel",
        "/status/deprecation",
        "/status/channels/*/name",
        "/status/channels/*/currentCSV",
        "/status/channels/*/deprecation",
        "/status/channels/*/currentCSVDesc/version",
        "/status/channels/*/currentCSVDesc/installModes",
        "/status/channels/*/currentCSVDesc/customresourcedefinitions/owned/*/name",
        "/status/channels/*/currentCSVDesc/customresourcedefinitions/owned/*/version",
        "/status/channels/*/currentCSVDesc/customresourcedefinitions/owned/*/kind",
        "/status/channels/*/currentCSVDesc/apiservicedefinitions/owned/*/group",
        "/status/channels/*/currentCSVDesc/apiservicedefinitions/owned/*/version",
        "/status/channels/*/currentCSVDesc/apiservicedefinitions/owned/*/kind",
        "/status/channels/*/entries/*/name",
        "/status/channels/*/entries/*/deprecation",
    ],
    indexes: &[package_manifests::NAME_INDEX],
    ..ClusterRead::EMPTY
};

/// The setting with which a server reads ConfigMaps. A permission to read those of all namespaces
/// cannot be limited to a label, so opgate has none by default.
pub(crate) const READS_CONFIG_MAPS: &str = "/subscription/readConfigMaps";

/// ConfigMaps into which OpenShift injects the trusted certificates. The rules read only their
/// names.
pub(crate) static CONFIG_MAPS: ClusterRead = ClusterRead {
    version: "v1",
    resource: "configmaps",
    label_selector: r#"{"matchLabels":{"config.openshift.io/inject-trusted-cabundle":"true"}}"#,
    enabled_by: &[READS_CONFIG_MAPS],
    ..ClusterRead::EMPTY
};

/// The authentication of users and ServiceAccounts of an OpenShift cluster: one object, `cluster`.
/// Other clusters have none.
pub(crate) static AUTHENTICATIONS: ClusterRead = ClusterRead {
    group: "config.openshift.io",
    version: "v1",
    resource: "authentications",
    fields: &["/spec/serviceAccountIssuer"],
    ..ClusterRead::EMPTY
};
