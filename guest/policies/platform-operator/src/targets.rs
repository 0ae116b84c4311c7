//! The resources that the policy evaluates.

use opgate_sdk::Target;

pub(crate) const CONFIG: &str = "config.openshift.io";
pub(crate) const OLM: &str = "operators.coreos.com";
pub(crate) const PLATFORM: &str = "platform.openshift.io";

pub(crate) static OPERATOR: Target = Target {
    groups: &[PLATFORM],
    versions: &["v1alpha1"],
    resources: &["platformoperators"],
    kind: "PlatformOperator",
    ..Target::EMPTY
};

/// Advisory: its rule only warns.
pub(crate) static CATALOG_SOURCE: Target = Target {
    groups: &[OLM],
    versions: &["v1alpha1"],
    resources: &["catalogsources"],
    kind: "CatalogSource",
    advisory: true,
    ..Target::EMPTY
};

/// Advisory: its rule only warns.
pub(crate) static OPERATOR_HUB: Target = Target {
    groups: &[CONFIG],
    versions: &["v1"],
    resources: &["operatorhubs"],
    kind: "OperatorHub",
    advisory: true,
    ..Target::EMPTY
};

pub(crate) static FEATURE_GATE: Target = Target {
    groups: &[CONFIG],
    versions: &["v1"],
    resources: &["featuregates"],
    kind: "FeatureGate",
    ..Target::EMPTY
};

pub(crate) static CLUSTER_VERSION: Target = Target {
    groups: &[CONFIG],
    versions: &["v1"],
    resources: &["clusterversions"],
    kind: "ClusterVersion",
    ..Target::EMPTY
};
