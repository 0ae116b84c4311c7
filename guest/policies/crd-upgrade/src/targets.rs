//! The kinds of objects that the policy evaluates.

use opgate_sdk::Target;

/// Both versions of the API: files can have either.
pub(crate) static CRD: Target = Target {
    groups: &["apiextensions.k8s.io"],
    versions: &["v1", "v1beta1"],
    resources: &["customresourcedefinitions"],
    kind: "CustomResourceDefinition",
    ..Target::EMPTY
};

pub(crate) static REGISTRY_BUNDLE: Target =
    Target::for_files("RegistryBundle", &["registrybundles"]);
