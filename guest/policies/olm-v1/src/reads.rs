//! What the policy reads of the cluster. Each rule declares which of these it needs, so that
//! nothing is watched for rules that are off.

use opgate_sdk::{ClusterRead, Index, Setting};

/// The namespace in which catalogd runs.
pub(crate) const CATALOGD: Setting =
    Setting { pointer: "/catalogd/namespace", default: "openshift-catalogd" };

/// Secrets of that namespace. Of their data, only the names of the keys are kept. A server
/// reads them if the namespace is named.
pub(crate) static SECRETS: ClusterRead = ClusterRead {
    version: "v1",
    resource: "secrets",
    fields: &["/type"],
    // Files may have `stringData`, which API servers merge into `data`.
    keys: &["/data", "/stringData"],
    namespace: Some(CATALOGD),
    enabled_by: &["/catalogd/namespace"],
    ..ClusterRead::EMPTY
};

/// The packages of catalogs, which the host makes of the files of catalogs in a context. The
/// namespace of each is the name of its catalog. No API server has them.
pub(crate) static PACKAGES: ClusterRead = ClusterRead {
    group: "opgate.dev",
    version: "v1alpha1",
    resource: "catalogpackages",
    fields: &["/channels/*/name", "/channels/*/entries", "/bundles/*/name", "/bundles/*/version"],
    indexes: &[
        Index { name: "package", field: "/metadata/name", separator: "" },
        Index { name: "bundle", field: "/bundles/*/name", separator: "" },
    ],
    ..ClusterRead::EMPTY
};
