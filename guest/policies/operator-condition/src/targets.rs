//! The resources that the policy evaluates.

use opgate_sdk::Target;

pub(crate) const OLM: &str = "operators.coreos.com";

pub(crate) static CONDITION: Target = Target {
    groups: &[OLM],
    versions: &["v1", "v2"],
    resources: &["operatorconditions"],
    kind: "OperatorCondition",
    ..Target::EMPTY
};

/// An API server ignores the status in requests for the object itself.
pub(crate) static CONDITION_STATUS: Target =
    Target { resources: &["operatorconditions/status"], ..CONDITION };

/// Advisory: one rule warns, the other is off. OLM checks the same before it installs anything.
pub(crate) static CSV: Target = Target {
    groups: &[OLM],
    versions: &["v1alpha1"],
    resources: &["clusterserviceversions"],
    kind: "ClusterServiceVersion",
    advisory: true,
    ..Target::EMPTY
};

pub(crate) static CSV_STATUS: Target =
    Target { resources: &["clusterserviceversions/status"], ..CSV };

pub(crate) static OLM_CONFIG: Target = Target {
    groups: &[OLM],
    versions: &["v1"],
    resources: &["olmconfigs"],
    kind: "OLMConfig",
    ..Target::EMPTY
};

pub(crate) static OPERATOR_HUB: Target = Target {
    groups: &["config.openshift.io"],
    versions: &["v1"],
    resources: &["operatorhubs"],
    kind: "OperatorHub",
    ..Target::EMPTY
};
