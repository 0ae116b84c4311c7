//! The kinds of objects that the rules evaluate.

use opgate_sdk::{Setting, Target};

/// The API group of RukPak.
pub(crate) const GROUP: &str = "core.rukpak.io";

/// RukPak's namespace: the only one in which Bundles find their ConfigMaps.
pub(crate) const SYSTEM_NAMESPACE: Setting =
    Setting { pointer: "/rukpak/systemNamespace", default: "rukpak-system" };

pub(crate) static BUNDLE: Target = Target {
    groups: &[GROUP],
    versions: &["v1alpha1"],
    resources: &["bundles"],
    kind: "Bundle",
    ..Target::EMPTY
};

pub(crate) static DEPLOYMENT: Target = Target {
    groups: &[GROUP],
    versions: &["v1alpha1", "v1alpha2"],
    resources: &["bundledeployments"],
    kind: "BundleDeployment",
    ..Target::EMPTY
};

/// Only ConfigMaps of RukPak's namespace can be part of a Bundle.
pub(crate) static CONFIG_MAP: Target = Target {
    groups: &[""],
    versions: &["v1"],
    resources: &["configmaps"],
    kind: "ConfigMap",
    namespace: Some(SYSTEM_NAMESPACE),
    ..Target::EMPTY
};
