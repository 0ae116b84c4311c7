//! The kinds of objects that the policy judges.

use opgate_sdk::{Setting, Target};

pub(crate) const OLM: &str = "operators.coreos.com";

/// The namespace whose pull secrets are judged.
pub(crate) const SECRETS_NAMESPACE: Setting =
    Setting { pointer: "/catalog/secretsNamespace", default: "openshift-marketplace" };

pub(crate) static CATALOG_SOURCE: Target = Target {
    groups: &[OLM],
    versions: &["v1alpha1"],
    resources: &["catalogsources"],
    kind: "CatalogSource",
    ..Target::EMPTY
};

/// Advisory: its rule only warns. An API server sends Secrets of one namespace, and only if that is
/// named.
pub(crate) static SECRET: Target = Target {
    groups: &[""],
    versions: &["v1"],
    resources: &["secrets"],
    kind: "Secret",
    namespace: Some(SECRETS_NAMESPACE),
    advisory: true,
    conditions: &[(
        "pull-secret",
        "object != null && has(object.type) && object.type == 'kubernetes.io/dockerconfigjson'",
    )],
    enabled_by: &["/catalog/secretsNamespace"],
    ..Target::EMPTY
};
