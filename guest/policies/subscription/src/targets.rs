//! The resources that the policy evaluates.
//!
//! No rule evaluates the status of a request, and each rule for UPDATE evaluates a change of the
//! spec. OLM writes the status of these objects frequently, and the status of an InstallPlan
//! contains the manifests of its Operators. So the API server does not send other updates, also if
//! `ratcheting` is off.

use opgate_sdk::Target;

pub(crate) const OLM: &str = "operators.coreos.com";

const SPEC: &[(&str, &str)] = &[(
    "spec",
    "object == null || oldObject == null || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec",
)];

pub(crate) static SUBSCRIPTION: Target = Target {
    groups: &[OLM],
    versions: &["v1alpha1"],
    resources: &["subscriptions"],
    kind: "Subscription",
    conditions: SPEC,
    ..Target::EMPTY
};

pub(crate) static INSTALL_PLAN: Target = Target {
    groups: &[OLM],
    versions: &["v1alpha1"],
    resources: &["installplans"],
    kind: "InstallPlan",
    conditions: SPEC,
    ..Target::EMPTY
};

/// Advisory: its rule only warns. OLM deletes copies in every namespace.
pub(crate) static CSV: Target = Target {
    groups: &[OLM],
    versions: &["v1alpha1"],
    resources: &["clusterserviceversions"],
    kind: "ClusterServiceVersion",
    advisory: true,
    conditions: &[(
        "no-copy",
        "oldObject == null || !has(oldObject.metadata.labels) || !('olm.copiedFrom' in oldObject.metadata.labels)",
    )],
    ..Target::EMPTY
};
