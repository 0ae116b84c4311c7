//! What the policy reads of the cluster. Each rule declares which of these it needs, so that
//! nothing is watched for rules that are off.

use opgate_sdk::{ClusterRead, Index};

use crate::targets::{OLM, SECRETS_NAMESPACE};

/// `PriorityClass`es, of which only the names count.
pub(crate) static PRIORITY_CLASSES: ClusterRead = ClusterRead {
    group: "scheduling.k8s.io",
    version: "v1",
    resource: "priorityclasses",
    ..ClusterRead::EMPTY
};

/// Namespaces, of which only the labels count.
pub(crate) static NAMESPACES: ClusterRead =
    ClusterRead { version: "v1", resource: "namespaces", ..ClusterRead::EMPTY };

/// Secrets of one namespace. Of their data, only the names of the keys are kept. A server
/// reads them if the namespace is named.
pub(crate) static SECRETS: ClusterRead = ClusterRead {
    version: "v1",
    resource: "secrets",
    fields: &["/type"],
    keys: &["/data", "/stringData"],
    namespace: Some(SECRETS_NAMESPACE),
    enabled_by: &["/catalog/secretsNamespace"],
    ..ClusterRead::EMPTY
};

/// CatalogSources: which Secrets they name. They matter where Secrets are judged.
pub(crate) static CATALOG_SOURCES: ClusterRead = ClusterRead {
    group: OLM,
    version: "v1alpha1",
    resource: "catalogsources",
    enabled_by: &["/catalog/secretsNamespace"],
    indexes: &[Index { name: "secret", field: "/spec/secrets/*", separator: "" }],
    ..ClusterRead::EMPTY
};

/// `OperatorHub`s: which default sources are disabled.
pub(crate) static OPERATOR_HUBS: ClusterRead = ClusterRead {
    group: "config.openshift.io",
    version: "v1",
    resource: "operatorhubs",
    fields: &["/spec/disableAllDefaultSources", "/spec/sources/*/name", "/spec/sources/*/disabled"],
    ..ClusterRead::EMPTY
};
