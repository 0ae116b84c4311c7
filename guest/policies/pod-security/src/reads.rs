//! The cluster objects that the policy reads.

use opgate_sdk::{ClusterRead, copies};

/// Namespaces: their labels, which a query always returns, and the users that OpenShift assigns to
/// their pods.
pub(crate) static NAMESPACES: ClusterRead = ClusterRead {
    version: "v1",
    resource: "namespaces",
    fields: &["/metadata/annotations/openshift.io~1sa.scc.uid-range"],
    ..ClusterRead::EMPTY
};

/// `CatalogSource`s: whether they run a pod, and its configuration.
pub(crate) static CATALOG_SOURCES: ClusterRead = ClusterRead {
    group: "operators.coreos.com",
    version: "v1alpha1",
    resource: "catalogsources",
    fields: &[
        "/spec/sourceType",
        "/spec/image",
        "/spec/address",
        "/spec/grpcPodConfig/securityContextConfig",
    ],
    ..ClusterRead::EMPTY
};

/// `ClusterServiceVersion`s without the label of OLM's copies: the originals of copies.
pub(crate) static CSVS: ClusterRead = ClusterRead {
    group: "operators.coreos.com",
    version: "v1alpha1",
    resource: "clusterserviceversions",
    fields: &[
        copies::OPERATOR_NAMESPACE,
        "/spec/version",
        "/spec/replaces",
        "/spec/displayName",
        "/status/reason",
    ],
    label_selector: r#"{"matchExpressions":[{"key":"olm.copiedFrom","operator":"DoesNotExist"}]}"#,
    ..ClusterRead::EMPTY
};
