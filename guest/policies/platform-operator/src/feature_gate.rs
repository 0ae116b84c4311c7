//! The feature set of a cluster.

use opgate_sdk::feature_set::{self, NAME, POINTER, TECH_PREVIEW};
use opgate_sdk::{Document, Report, Review, Shape, rule, rules};

use crate::targets::FEATURE_GATE;

rules![PLT_10, PLT_11];

const FIELD: &str = "spec.featureSet";

fn has_tech_preview(gate: &Document) -> bool {
    feature_set::of(gate) == TECH_PREVIEW
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    if let Some(old) = review.old {
        check_unchanged(review, old, report);
    }
    if let Some(gate) = review.subject() {
        check_recommended(review, gate, report);
    }
}

rule! {
    /// the feature set TechPreviewNoUpgrade of FeatureGate cluster does not change
    ///
    /// Once `spec.featureSet` of the FeatureGate `cluster` is `TechPreviewNoUpgrade`, an UPDATE
    /// keeps exactly this value, and the object is not deleted. The rule allows all other changes,
    /// and ignores FeatureGates with other names. It also evaluates an object that is being
    /// deleted, and the setting `ratcheting` has no effect. The rule does not evaluate requests for
    /// the subresource `status`.
    ///
    /// # Why
    ///
    /// OpenShift cannot undo the feature set: it has changed the cluster already, and the cluster
    /// gets no more minor version updates, whatever value the object has later (OpenShift 4.12,
    /// Operators, *Managing platform Operators*).
    ///
    /// # Remediation
    ///
    /// Keep the object unchanged. To get a cluster without the feature set, install a new one.
    ///
    /// # Accepted
    ///
    /// `featureSet: ""` becomes `featureSet: TechPreviewNoUpgrade`, or an annotation is added.
    ///
    /// # Rejected
    ///
    /// `featureSet: TechPreviewNoUpgrade` becomes `featureSet: ""`, or the object is deleted.
    ///
    /// `message: Enabling the TechPreviewNoUpgrade feature set cannot be undone and prevents minor
    /// version updates.`
    PLT_10: Deny {
        name: "tech-preview-feature-set-unchanged",
        on: [FEATURE_GATE: Update | Delete],
        source: ["OCP 4.12 L10437", "OCP 4.15 L7370-7372, L20295-20297, L21753-21755"],
    }
}

fn check_unchanged(review: &Review<'_>, old: &Document, report: &mut Report<'_>) {
    let is_lost = !review.object.is_some_and(has_tech_preview);
    if is_lost && has_tech_preview(old) && review.name(old) == NAME {
        let message = "Enabling the TechPreviewNoUpgrade feature set cannot be undone and prevents minor version updates.";
        report.add(&PLT_10, FIELD, message);
    }
}

rule! {
    /// production clusters do not have the feature set TechPreviewNoUpgrade
    ///
    /// `spec.featureSet` of a FeatureGate is not `TechPreviewNoUpgrade`. The rule evaluates an
    /// UPDATE only if it changes the field. The rule does not evaluate requests for the subresource
    /// `status`.
    ///
    /// # Why
    ///
    /// Features in Technology Preview are not supported in production, the feature set cannot be
    /// undone, and the cluster gets no more minor version updates (OpenShift 4.12, Operators,
    /// *Managing platform Operators*).
    ///
    /// # Remediation
    ///
    /// Leave the field empty. On a cluster for testing such features, accept the warning or set the
    /// rule to `off`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// spec: {featureSet: ""}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// spec: {featureSet: TechPreviewNoUpgrade}
    /// ```
    ///
    /// `message: These feature sets are not recommended on production clusters.`
    PLT_11: Warn {
        name: "production-feature-gate-no-tech-preview",
        on: [FEATURE_GATE: Create | Update],
        source: ["OCP 4.12 L10437, L10492-10501", "OCP 4.15 L7372, L20297, L21755"],
    }
}

fn check_recommended(review: &Review<'_>, gate: &Document, report: &mut Report<'_>) {
    if has_tech_preview(gate) && review.touches(gate, POINTER, &Shape::Scalar) {
        let message = "These feature sets are not recommended on production clusters.";
        report.add(&PLT_11, FIELD, message);
    }
}
