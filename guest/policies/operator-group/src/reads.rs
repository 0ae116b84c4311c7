//! What the policy reads of the cluster. Each read lists the rules that use it, so that nothing is
//! watched for rules that are off.

use opgate_sdk::copies;
use opgate_sdk::{ClusterRead, Index};

use crate::groups;

const OLM: &str = "operators.coreos.com";
const RBAC: &str = "rbac.authorization.k8s.io";

/// The reads, in the order in which the policy describes them.
pub const READS: &[ClusterRead] = &[
    GROUPS,
    NAMESPACES,
    CSVS,
    SERVICE_ACCOUNTS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
    ROLES,
    ROLE_BINDINGS,
];

/// OperatorGroups.
pub const GROUPS: ClusterRead = ClusterRead {
    group: OLM,
    version: "v1",
    resource: "operatorgroups",
    fields: &[
        groups::TARGETS,
        groups::SELECTOR,
        groups::STATIC,
        "/spec/serviceAccountName",
        groups::STATUS,
        groups::PROVIDED_APIS,
    ],
    indexes: &[
        // An item without its spaces is what an API reads as: the index decides without a look at
        // the annotation.
        Index { name: "provided", field: groups::PROVIDED_APIS, separator: "," },
        Index { name: "targets", field: "/status/namespaces/*", separator: "" },
        Index { name: "named", field: "/spec/targetNamespaces/*", separator: "" },
        Index { name: "namespace", field: "/metadata/namespace", separator: "" },
        Index { name: "name", field: "/metadata/name", separator: "" },
        Index { name: "account", field: "/spec/serviceAccountName", separator: "" },
    ],
    rules: &[
        "OPG-01", "OPG-02", "OPG-18", "OPG-20", "OPG-21", "OPG-22", "OPG-23", "OPG-24", "OPG-25",
        "OPG-26", "OPG-27", "OPG-30", "OPG-33", "OPG-37",
    ],
    ..ClusterRead::EMPTY
};

/// Namespaces, of which only names and labels count.
pub const NAMESPACES: ClusterRead = ClusterRead {
    version: "v1",
    resource: "namespaces",
    rules: &[
        "OPG-11", "OPG-16", "OPG-17", "OPG-18", "OPG-22", "OPG-23", "OPG-24", "OPG-25", "OPG-26",
        "OPG-27", "OPG-30",
    ],
    ..ClusterRead::EMPTY
};

/// ClusterServiceVersions without the label of OLM's copies.
pub const CSVS: ClusterRead = ClusterRead {
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
    labels: r#"{"matchExpressions":[{"key":"olm.copiedFrom","operator":"DoesNotExist"}]}"#,
    indexes: &[
        Index { name: "replaces", field: "/spec/replaces", separator: "" },
        Index { name: "crd", field: "/spec/customresourcedefinitions/owned/*/name", separator: "" },
        Index {
            name: "apiservice",
            field: "/spec/apiservicedefinitions/owned/*/{group}~1{version}",
            separator: "",
        },
    ],
    // Those about members ask whether one that claims to be a copy has an original.
    rules: &[
        "OPG-16", "OPG-17", "OPG-20", "OPG-21", "OPG-22", "OPG-23", "OPG-24", "OPG-25", "OPG-26",
        "OPG-27", "OPG-28", "OPG-29", "OPG-30", "OPG-38",
    ],
    ..ClusterRead::EMPTY
};

/// ServiceAccounts, of which only the names count.
pub const SERVICE_ACCOUNTS: ClusterRead = ClusterRead {
    version: "v1",
    resource: "serviceaccounts",
    rules: &["OPG-15"],
    ..ClusterRead::EMPTY
};

/// ClusterRoles.
pub const CLUSTER_ROLES: ClusterRead = ClusterRead {
    group: RBAC,
    version: "v1",
    resource: "clusterroles",
    fields: &["/rules", "/aggregationRule"],
    rules: &["OPG-03", "OPG-32", "OPG-33", "OPG-37", "OPG-38"],
    ..ClusterRead::EMPTY
};

/// ClusterRoleBindings.
pub const CLUSTER_ROLE_BINDINGS: ClusterRead = ClusterRead {
    group: RBAC,
    version: "v1",
    resource: "clusterrolebindings",
    fields: &["/subjects", "/roleRef"],
    indexes: &[
        Index { name: "subject", field: "/subjects/*/name", separator: "" },
        Index { name: "role", field: "/roleRef/name", separator: "" },
    ],
    rules: &["OPG-32", "OPG-33", "OPG-37", "OPG-38"],
    ..ClusterRead::EMPTY
};

/// Roles.
pub const ROLES: ClusterRead = ClusterRead {
    group: RBAC,
    version: "v1",
    resource: "roles",
    fields: &["/rules"],
    rules: &["OPG-37", "OPG-38"],
    ..ClusterRead::EMPTY
};

/// RoleBindings.
pub const ROLE_BINDINGS: ClusterRead = ClusterRead {
    group: RBAC,
    version: "v1",
    resource: "rolebindings",
    fields: &["/subjects", "/roleRef"],
    indexes: &[Index { name: "subject", field: "/subjects/*/name", separator: "" }],
    rules: &["OPG-37", "OPG-38"],
    ..ClusterRead::EMPTY
};
