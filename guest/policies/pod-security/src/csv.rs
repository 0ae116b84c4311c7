//! `ClusterServiceVersion`s, wherever they were found.
//!
//! ```text
//! request, manifest ─▶ copy? ─▶ Subject ─▶ restricted (namespace), escalated, affinity
//! catalog ────────────────────▶ Subject ─▶ escalated, affinity
//! ```

use opgate_sdk::copies::{Comparison, Marks};
use opgate_sdk::pods::{self, PodSpec};
use opgate_sdk::{Document, Report, Review, Rule, Shape};

use crate::reads::CSVS;
use crate::{affinity, escalated, restricted};

/// Copies are exempt from all rules of the policy (decision A-4).
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

/// An object with specs of pods, and the report about it.
pub(crate) struct Subject<'a, 'r> {
    /// The request. Its old object is one that was evaluated before.
    pub(crate) review: &'a Review<'a>,
    pub(crate) object: &'a Document,
    /// The specs in it.
    pub(crate) specs: &'a [PodSpec],
    /// The kind of a Pod or workload; empty for a `ClusterServiceVersion`.
    pub(crate) kind: &'a str,
    pub(crate) report: &'a mut Report<'r>,
    /// What precedes its fields: empty, or its place in a catalog with a dot.
    pub(crate) place: &'a str,
}

impl Subject<'_, '_> {
    /// Adds a finding. An object can have a hundred thousand: texts are made only for those that a
    /// verdict has room for.
    pub(crate) fn add(&mut self, rule: &'static Rule, texts: impl FnOnce() -> (String, String)) {
        if self.report.is_full(rule) {
            self.report.add_more(rule, 1);
        } else {
            let (field, message) = texts();
            self.report.add(rule, format!("{}{field}", self.place), message);
        }
    }

    /// The specs in another object of this kind.
    pub(crate) fn specs_of(&self, object: &Document) -> Vec<PodSpec> {
        if self.kind.is_empty() {
            pods::in_csv(object)
        } else {
            pods::in_object(object, self.kind).into_iter().collect()
        }
    }

    /// Whether an UPDATE changes the value at a pointer, or the object is new.
    pub(crate) fn touches_json(&self, pointer: &str) -> bool {
        self.review.touches_json(self.object, pointer)
    }
}

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

/// The rules about what the object itself says.
pub(crate) fn of_any(subject: &mut Subject<'_, '_>) {
    escalated::judge(subject);
    affinity::platforms(subject);
    affinity::terms(subject);
}
