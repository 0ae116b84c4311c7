//! The cluster objects that the policy reads. Each rule declares which of these it needs, so that
//! opgate watches nothing for rules that are off.

use opgate_sdk::copies;
use opgate_sdk::{ClusterRead, Index};

use crate::group_surface;
use crate::kinds::{OLM, RBAC};

/// OperatorGroups.
pub(crate) static GROUPS: ClusterRead = ClusterRead {
    group: OLM,
    version: "v1",
    resource: "operatorgroups",
    fields: &[
        group_surface::TARGETS,
        group_surface::SELECTOR,
        group_surface::STATIC_PROVIDED_APIS,
        "/spec/serviceAccountName",
        group_surface::STATUS,
        group_surface::PROVIDED_APIS,
    ],
    indexes: &[
        // An item without spaces is the text of an API, so the index decides without reading the
        // annotation.
        Index { name: "provided", field: group_surface::PROVIDED_APIS, separator: "," },
        Index { name: "targets", field: "/status/namespaces/*", separator: "" },
        Index { name: "named", field: "/spec/targetNamespaces/*", separator: "" },
        Index { name: "namespace", field: "/metadata/namespace", separator: "" },
        Index { name: "name", field: "/metadata/name", separator: "" },
        Index { name: "account", field: "/spec/serviceAccountName", separator: "" },
    ],
    ..ClusterRead::EMPTY
};

/// Namespaces. The rules read only names and labels.
pub(crate) static NAMESPACES: ClusterRead =
    ClusterRead { version: "v1", resource: "namespaces", ..ClusterRead::EMPTY };

/// ClusterServiceVersions without the label of OLM's copies. Rules for members also read the
/// original of a version that claims to be a copy.
pub(crate) static CSVS: ClusterRead = ClusterRead {
    group: OLM,
    version: "v1alpha1",
    resource: "clusterserviceversions",
    fields: &[
        "/spec/installModes",
        "/spec/customresourcedefinitions/owned/*/name",
        "/spec/customresourcedefinitions/owned/*/version",
        "/spec/customresourcedefinitions/owned/*/kind",
        "/spec/apiservicedefinitions/owned/*/group",
        "/spec/apiservicedefinitions/owned/*/version",
        "/spec/apiservicedefinitions/owned/*/kind",
        "/spec/replaces",
        "/spec/skips",
        "/status/phase",
        "/status/reason",
        "/spec/install/spec/deployments/*/spec/template/spec/imagePullSecrets",
        copies::OPERATOR_NAMESPACE,
    ],
    label_selector: r#"{"matchExpressions":[{"key":"olm.copiedFrom","operator":"DoesNotExist"}]}"#,
    indexes: &[
        Index { name: "replaces", field: "/spec/replaces", separator: "" },
        Index { name: "crd", field: "/spec/customresourcedefinitions/owned/*/name", separator: "" },
        Index {
            name: "apiservice",
            field: "/spec/apiservicedefinitions/owned/*/{group}~1{version}",
            separator: "",
        },
    ],
    ..ClusterRead::EMPTY
};

/// ServiceAccounts. The rules read only their names.
pub(crate) static SERVICE_ACCOUNTS: ClusterRead =
    ClusterRead { version: "v1", resource: "serviceaccounts", ..ClusterRead::EMPTY };

/// ClusterRoles.
pub(crate) static CLUSTER_ROLES: ClusterRead = ClusterRead {
    group: RBAC,
    version: "v1",
    resource: "clusterroles",
    fields: &["/rules", "/aggregationRule"],
    ..ClusterRead::EMPTY
};

/// ClusterRoleBindings.
pub(crate) static CLUSTER_ROLE_BINDINGS: ClusterRead = ClusterRead {
    group: RBAC,
    version: "v1",
    resource: "clusterrolebindings",
    fields: &["/subjects", "/roleRef"],
    indexes: &[
        Index { name: "subject", field: "/subjects/*/name", separator: "" },
        Index { name: "role", field: "/roleRef/name", separator: "" },
    ],
    ..ClusterRead::EMPTY
};

/// Roles.
pub(crate) static ROLES: ClusterRead = ClusterRead {
    group: RBAC,
    version: "v1",
    resource: "roles",
    fields: &["/rules"],
    ..ClusterRead::EMPTY
};

/// RoleBindings.
pub(crate) static ROLE_BINDINGS: ClusterRead = ClusterRead {
    group: RBAC,
    version: "v1",
    resource: "rolebindings",
    fields: &["/subjects", "/roleRef"],
    indexes: &[Index { name: "subject", field: "/subjects/*/name", separator: "" }],
    ..ClusterRead::EMPTY
};
