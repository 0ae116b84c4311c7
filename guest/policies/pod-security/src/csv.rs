//! `ClusterServiceVersion`s in requests, bundles and catalogs.
//!
//! ```text
//! request, manifest ─▶ copy? ─▶ Subject ─▶ restricted (namespace), escalated, affinity
//! catalog ────────────────────▶ Subject ─▶ escalated, affinity
//! ```

use opgate_sdk::copies::{CopyComparison, CopyMarks};
use opgate_sdk::{Report, Review, Shape, pods};

use crate::reads::CSVS;
use crate::subject::Subject;
use crate::{affinity, escalated, restricted};

/// Copies are exempt from all rules of the policy: OLM creates no pods for them, and users can fix
/// them only in the original.
static COPIES: CopyComparison = CopyComparison {
    read: &CSVS,
    compared_fields: &[
        ("/spec/version", Shape::Scalar),
        ("/spec/replaces", Shape::Scalar),
        ("/spec/displayName", Shape::Scalar),
    ],
    other_fields: &[INSTALL, LABELS],
};

const INSTALL: &str = "/spec/install";
const LABELS: &str = "/metadata/labels";

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    let marks = CopyMarks::of(object, review.namespace());
    let claim = COPIES.check_copy(review, object, &marks, report);
    let review = Review { old: claim.old, ..*review };
    let is_new = |pointer: &str| review.touches_json(object, pointer);
    if claim.is_exempt || !(is_new(INSTALL) || is_new(LABELS)) {
        return;
    }
    let specs = pods::in_csv(object);
    let mut subject =
        Subject { review: &review, object, specs: &specs, kind: "", report, field_prefix: "" };
    restricted::check_operator(&mut subject);
    check_csv(&mut subject);
}

/// The rules that read only the object itself.
pub(crate) fn check_csv(subject: &mut Subject<'_, '_>) {
    escalated::check(subject);
    affinity::platforms::check_labelled(subject);
    affinity::terms::check(subject);
}
