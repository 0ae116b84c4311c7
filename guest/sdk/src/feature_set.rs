//! The feature set of an OpenShift cluster: that of the FeatureGate `cluster`.

use crate::cluster::ReadError;
use crate::{ClusterRead, Document};

/// The feature set that features in Technology Preview need, as manifests spell it.
pub const TECH_PREVIEW: &str = "TechPreviewNoUpgrade";
/// The one FeatureGate that OpenShift reads.
pub const NAME: &str = "cluster";
/// JSON pointer of the feature set of a FeatureGate.
pub const POINTER: &str = "/spec/featureSet";

/// FeatureGates.
pub static FEATURE_GATES: ClusterRead = ClusterRead {
    group: "config.openshift.io",
    version: "v1",
    resource: "featuregates",
    fields: &[POINTER],
    ..ClusterRead::EMPTY
};

/// Returns the feature set of the cluster, empty if there is none. A rule that calls this reads
/// [`FEATURE_GATES`].
///
/// # Errors
/// Fails without cluster state.
pub fn of_cluster() -> Result<String, ReadError> {
    let gate = FEATURE_GATES.get("", NAME)?;
    Ok(gate.map(|gate| of(&gate)).unwrap_or_default())
}

/// Returns the feature set of a FeatureGate, empty if there is none.
#[must_use]
pub fn of(gate: &Document) -> String {
    gate.text_or_empty(POINTER)
}
