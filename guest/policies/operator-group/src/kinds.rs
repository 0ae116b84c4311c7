//! The resources that the policy evaluates.

use opgate_sdk::Target;

pub(crate) const OLM: &str = "operators.coreos.com";
pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";

/// The policy evaluates `v1alpha2` like `v1`, except where only the CRD of `v1` has a constraint.
pub(crate) static GROUP: Target = Target {
    groups: &[OLM],
    versions: &["v1", "v1alpha2"],
    resources: &["operatorgroups"],
    kind: "OperatorGroup",
    ..Target::EMPTY
};

pub(crate) static CSV: Target = Target {
    groups: &[OLM],
    versions: &["v1alpha1"],
    resources: &["clusterserviceversions"],
    kind: "ClusterServiceVersion",
    ..Target::EMPTY
};

// Roles and bindings are advisory: by default their rules only warn, and the rules for groups check
// the same grants.

pub(crate) static CLUSTER_ROLE_BINDING: Target = Target {
    groups: &[RBAC],
    versions: &["v1"],
    resources: &["clusterrolebindings"],
    kind: "ClusterRoleBinding",
    advisory: true,
    ..Target::EMPTY
};

pub(crate) static CLUSTER_ROLE: Target = Target {
    groups: &[RBAC],
    versions: &["v1"],
    resources: &["clusterroles"],
    kind: "ClusterRole",
    advisory: true,
    ..Target::EMPTY
};

pub(crate) static ROLE: Target = Target {
    groups: &[RBAC],
    versions: &["v1"],
    resources: &["roles"],
    kind: "Role",
    advisory: true,
    ..Target::EMPTY
};
