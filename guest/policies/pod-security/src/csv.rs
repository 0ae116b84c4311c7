//! `ClusterServiceVersion`s in requests, bundles and catalogs.
//!
//! ```text
//! request, manifest ─▶ copy? ─▶ Subject ─▶ restricted (namespace), escalated, affinity
//! catalog ────────────────────▶ Subject ─▶ escalated, affinity
//! ```

use opgate_sdk::copies::{Comparison, Marks};
use opgate_sdk::{Report, Review, Shape, pods};

use crate::reads::CSVS;
use crate::subject::Subject;
use crate::{affinity, escalated, restricted};

/// Copies are exempt from all rules of the policy: OLM creates no pods for them, and users can fix
/// them only in the original.
static COPIES: Comparison = Comparison {
    read: &CSVS,
    kept: &[
        ("/spec/version", Shape::Scalar),
        ("/spec/replaces", Shape::Scalar),
        ("/spec/displayName", Shape::Scalar),
    ],
    more: &[INSTALL, LABELS],
};

const INSTALL: &str = "/spec/install";
const LABELS: &str = "/metadata/labels";

pub(crate) fn judge(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    let marks = Marks::of(object, review.namespace());
    let claim = COPIES.examine(review, object, &marks, report);
    let review = Review { old: claim.old, ..*review };
    let is_new = |pointer: &str| review.touches_json(object, pointer);
    if claim.is_exempt || !(is_new(INSTALL) || is_new(LABELS)) {
        return;
    }
    let specs = pods::in_csv(object);
    let mut subject =
        Subject { review: &review, object, specs: &specs, kind: "", report, place: "" };
    restricted::operator(&mut subject);
    of_any(&mut subject);
}

/// The rules that read only the object itself.
pub(crate) fn of_any(subject: &mut Subject<'_, '_>) {
    escalated::judge(subject);
    affinity::platforms::labelled_ones(subject);
    affinity::terms::judge(subject);
}
