//! The version to which a cluster is updated.

use opgate_compat::version::Version;
use opgate_sdk::feature_set::{self, FEATURE_GATES, TECH_PREVIEW};
use opgate_sdk::{Document, Report, Review, rule, rules};

use crate::targets::CLUSTER_VERSION;

rules![PLT_12];

const UPDATE: &str = "/spec/desiredUpdate";
const FIELD: &str = "spec.desiredUpdate.version";

rule! {
    /// a cluster with the feature set TechPreviewNoUpgrade keeps its minor version
    ///
    /// While the FeatureGate `cluster` has the feature set `TechPreviewNoUpgrade`, the major and
    /// the minor number of `spec.desiredUpdate.version` of a ClusterVersion are those of the
    /// current version: the latest one in `status.history` with the state `Completed`; without one,
    /// the oldest of the history; without a history, `status.desired.version`. The rule reads the
    /// status before the UPDATE. It does not evaluate an invalid version, which OpenShift handles.
    ///
    /// The rule evaluates an UPDATE only if it changes `spec.desiredUpdate`. It does not evaluate
    /// requests for the subresource `status`. The policy skips the rule without cluster state, if
    /// the object does not contain the version of the cluster, and if the update names an image
    /// without a version.
    ///
    /// # Gap
    ///
    /// The version of a release image is in the image. The Cluster Version Operator reads it there,
    /// and starts no update to another minor version while the feature set forbids it.
    ///
    /// # Why
    ///
    /// The feature set prevents minor version updates (OpenShift 4.12, Operators, *Managing
    /// platform Operators*): the Cluster Version Operator does not start the update, and the
    /// request remains pending.
    ///
    /// # Remediation
    ///
    /// Choose a version with the same first two numbers. For a newer minor version, install a new
    /// cluster.
    ///
    /// # Accepted
    ///
    /// A cluster of version 4.12.10:
    ///
    /// ```yaml
    /// spec: {desiredUpdate: {version: 4.12.15}}
    /// ```
    ///
    /// # Rejected
    ///
    /// This cluster, with `TechPreviewNoUpgrade`:
    ///
    /// ```yaml
    /// spec: {desiredUpdate: {version: 4.13.1}}
    /// ```
    ///
    /// `message: the TechPreviewNoUpgrade feature set prevents minor version updates: 4.12.10 ->
    /// 4.13.1`
    PLT_12: Deny {
        name: "no-minor-update-with-tech-preview",
        on: [CLUSTER_VERSION: Update],
        reads: [FEATURE_GATES],
        may_skip: true,
        source: ["OCP 4.12 L10437", "OCP 4.15 L7372"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let (Some(version), Some(old)) = (review.subject(), review.old_of_update()) else { return };
    if !version.has(UPDATE) || !review.touches_json(version, UPDATE) || !report.is_on(&PLT_12) {
        return;
    }
    let feature_set = report.or_skip(&[&PLT_12], "FeatureGates", feature_set::of_cluster());
    if feature_set.as_deref() != Some(TECH_PREVIEW) {
        return;
    }
    let desired = version.text_or_empty("/spec/desiredUpdate/version");
    let image = version.text_or_empty("/spec/desiredUpdate/image");
    if desired.is_empty() {
        if !image.is_empty() {
            report.skip(&PLT_12, FIELD, "the update names an image without its version");
        }
        return;
    }
    let Some(current) = current_version(old) else {
        report.skip(&PLT_12, FIELD, "the status does not contain the version of the cluster");
        return;
    };
    let (Ok(from), Ok(to)) = (Version::parse_tolerant(&current), Version::parse_tolerant(&desired))
    else {
        return;
    };
    if (from.major, from.minor) != (to.major, to.minor) {
        let message = format!(
            "the TechPreviewNoUpgrade feature set prevents minor version updates: {current} -> {desired}"
        );
        report.add(&PLT_12, FIELD, message);
    }
}

/// The version of the cluster, by the algorithm of the Cluster Version Operator.
fn current_version(version: &Document) -> Option<String> {
    let history = version.rows("/status/history", &["/state", "/version"]);
    let mut entries = history.iter();
    let completed = entries.find(|row| row.text(0) == Some("Completed"));
    let of_history = completed.or_else(|| history.iter().last()).and_then(|row| row.text(1));
    let current = of_history.map(str::to_owned);
    current.or_else(|| version.text("/status/desired/version")).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_version_is_the_latest_that_was_completed() {
        for (status, expected) in [
            (r#"{"desired":{"version":"4.13.0"}}"#, Some("4.13.0")),
            (
                r#"{"desired":{"version":"4.13.0"},"history":[{"state":"Partial","version":"4.13.0"},{"state":"Completed","version":"4.12.2"},{"state":"Completed","version":"4.12.1"}]}"#,
                Some("4.12.2"),
            ),
            (
                r#"{"history":[{"state":"Partial","version":"4.12.2"},{"state":"Partial","version":"4.12.1"}]}"#,
                Some("4.12.1"),
            ),
            (r#"{"history":[]}"#, None),
            ("{}", None),
            ("1", None),
        ] {
            let version = Document::parse(&format!(r#"{{"status":{status}}}"#)).unwrap();
            assert_eq!(current_version(&version).as_deref(), expected, "{status}");
        }
    }
}
