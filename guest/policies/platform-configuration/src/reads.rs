//! The cluster objects that the policy reads. Each rule declares which of these it needs, so that
//! opgate watches nothing for rules that are off.

use opgate_sdk::{ClusterRead, Index};

use crate::targets::{CONFIG, PERFORMANCE, RBAC};

/// ClusterRoles, queried by the resources in their rules.
pub(crate) static CLUSTER_ROLES: ClusterRead = ClusterRead {
    group: RBAC,
    version: "v1",
    resource: "clusterroles",
    fields: &["/rules", "/aggregationRule"],
    indexes: &[Index { name: "resource", field: "/rules/*/resources/*", separator: "" }],
    ..ClusterRead::EMPTY
};

/// Performance profiles. The rule reads only whether one exists.
pub(crate) static PERFORMANCE_PROFILES: ClusterRead = ClusterRead {
    group: PERFORMANCE,
    version: "v2",
    resource: "performanceprofiles",
    ..ClusterRead::EMPTY
};

/// The configuration of the nodes.
pub(crate) static NODE_CONFIGS: ClusterRead = ClusterRead {
    group: CONFIG,
    version: "v1",
    resource: "nodes",
    fields: &["/spec/cgroupMode"],
    ..ClusterRead::EMPTY
};

/// Namespaces. The rules read only their labels.
pub(crate) static NAMESPACES: ClusterRead =
    ClusterRead { version: "v1", resource: "namespaces", ..ClusterRead::EMPTY };
