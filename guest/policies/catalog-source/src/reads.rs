//! The cluster objects that the policy reads. Each rule declares which of these it needs, so that
//! opgate watches nothing for rules that are off.

use opgate_sdk::{ClusterRead, Index};

use crate::targets::{OLM, SECRETS_NAMESPACE};

/// `PriorityClass`es. The rules read only their names.
pub(crate) static PRIORITY_CLASSES: ClusterRead = ClusterRead {
    group: "scheduling.k8s.io",
    version: "v1",
    resource: "priorityclasses",
    ..ClusterRead::EMPTY
};

/// Namespaces. The rules read only their labels.
pub(crate) static NAMESPACES: ClusterRead =
    ClusterRead { version: "v1", resource: "namespaces", ..ClusterRead::EMPTY };

/// Secrets of one namespace. Of their data, the query returns only the names of the keys. A server
/// reads Secrets only if the setting names the namespace.
pub(crate) static SECRETS: ClusterRead = ClusterRead {
    version: "v1",
    resource: "secrets",
    fields: &["/type"],
    keys: &["/data", "/stringData"],
    namespace: Some(SECRETS_NAMESPACE),
    enabled_by: &["/catalog/secretsNamespace"],
    ..ClusterRead::EMPTY
};

/// CatalogSources and the names of their Secrets, for the rule that evaluates Secrets.
pub(crate) static CATALOG_SOURCES: ClusterRead = ClusterRead {
    group: OLM,
    version: "v1alpha1",
    resource: "catalogsources",
    enabled_by: &["/catalog/secretsNamespace"],
    indexes: &[Index { name: "secret", field: "/spec/secrets/*", separator: "" }],
    ..ClusterRead::EMPTY
};

/// `OperatorHub`s and the default sources that they disable.
pub(crate) static OPERATOR_HUBS: ClusterRead = ClusterRead {
    group: "config.openshift.io",
    version: "v1",
    resource: "operatorhubs",
    fields: &["/spec/disableAllDefaultSources", "/spec/sources/*/name", "/spec/sources/*/disabled"],
    ..ClusterRead::EMPTY
};
