//! The cluster objects that the policy reads. Each rule declares which of these it needs, so that
//! opgate watches nothing for rules that are off.

use opgate_sdk::{ClusterRead, Index, Setting};

/// The namespace in which catalogd runs.
pub(crate) const CATALOGD: Setting =
    Setting { pointer: "/catalogd/namespace", default: "openshift-catalogd" };

/// Secrets of that namespace. Of their data, the query returns only the names of the keys. A server
/// reads Secrets only if the setting names the namespace.
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

/// The packages of catalogs, which the host creates from catalog files in the cluster state. The
/// namespace of each is the name of its catalog. No API server serves them.
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
