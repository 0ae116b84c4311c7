//! The cluster objects that the policy reads.

use opgate_sdk::{ClusterRead, copies};

use crate::targets::OLM;

/// OperatorConditions, in the version in which they are stored.
pub(crate) static CONDITIONS: ClusterRead = ClusterRead {
    group: OLM,
    version: "v2",
    resource: "operatorconditions",
    fields: &[
        "/metadata/generation",
        "/spec/overrides/*/type",
        "/spec/overrides/*/status",
        "/spec/overrides/*/message",
        "/spec/conditions/*/type",
        "/spec/conditions/*/status",
        "/spec/conditions/*/message",
        "/status/conditions/*/type",
        "/status/conditions/*/status",
        "/status/conditions/*/message",
        "/status/conditions/*/observedGeneration",
    ],
    ..ClusterRead::EMPTY
};

/// ClusterServiceVersions without the label of OLM's copies: the installed versions, and the
/// possible originals of a copy.
pub(crate) static CSVS: ClusterRead = ClusterRead {
    group: OLM,
    version: "v1alpha1",
    resource: "clusterserviceversions",
    fields: &["/spec/replaces", "/spec/skips", "/status/reason", copies::OPERATOR_NAMESPACE],
    label_selector: r#"{"matchExpressions":[{"key":"olm.copiedFrom","operator":"DoesNotExist"}]}"#,
    ..ClusterRead::EMPTY
};
