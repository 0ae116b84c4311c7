//! The resources that the policy evaluates.

use opgate_sdk::{Setting, Target};

pub(crate) const OLM: &str = "operators.coreos.com";

/// The namespace whose pull secrets the policy evaluates.
pub(crate) const SECRETS_NAMESPACE: Setting =
    Setting { pointer: "/catalog/secretsNamespace", default: "openshift-marketplace" };

pub(crate) static CATALOG_SOURCE: Target = Target {
    groups: &[OLM],
    versions: &["v1alpha1"],
    resources: &["catalogsources"],
    kind: "CatalogSource",
    ..Target::EMPTY
};

/// An API server sends Secrets of one namespace, and only if the setting names it.
pub(crate) static SECRET: Target = Target {
    namespace: Some(SECRETS_NAMESPACE),
    conditions: &[(
        "pull-secret",
        "object != null && has(object.type) && object.type == 'kubernetes.io/dockerconfigjson'",
    )],
    enabled_by: &["/catalog/secretsNamespace"],
    ..ADVISORY_SECRET
};

/// Secrets of any namespace, which `opgate check` reads from files: the host sets `files` for it.
pub(crate) static SECRET_IN_FILES: Target = Target { enabled_by: &["/files"], ..ADVISORY_SECRET };

/// Advisory: the rule only warns.
const ADVISORY_SECRET: Target = Target {
    groups: &[""],
    versions: &["v1"],
    resources: &["secrets"],
    kind: "Secret",
    advisory: true,
    ..Target::EMPTY
};
