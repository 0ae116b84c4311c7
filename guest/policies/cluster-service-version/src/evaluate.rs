//! ClusterServiceVersions as objects, in requests and in manifests.

use opgate_sdk::copies::{CopyComparison, CopyMarks};
use opgate_sdk::{Report, Review, Shape};

use crate::csv::{Csv, Source};
use crate::object::Object;
use crate::reads::CSVS;
use crate::{annotations, cross_object, description, images, install, webhooks};

const MODES: Shape =
    Shape::List(&Shape::Struct(&[("type", Shape::Scalar), ("supported", Shape::Scalar)]));
const RESOURCE: &[(&str, Shape)] =
    &[("name", Shape::Scalar), ("version", Shape::Scalar), ("kind", Shape::Scalar)];
const API: &[(&str, Shape)] =
    &[("group", Shape::Scalar), ("version", Shape::Scalar), ("kind", Shape::Scalar)];
const WEBHOOK: &[(&str, Shape)] =
    &[("type", Shape::Scalar), ("conversionCRDs", Shape::List(&Shape::Scalar))];

/// Copies are exempt from all rules of the policy: only OLM can correct them, and the original was
/// evaluated. The mark of a copy alone exempts nothing, because any user can write it.
static COPIES: CopyComparison = CopyComparison {
    read: &CSVS,
    compared_fields: &[
        ("/spec/version", Shape::Scalar),
        ("/spec/replaces", Shape::Scalar),
        ("/spec/skips", Shape::List(&Shape::Scalar)),
        ("/spec/installModes", MODES),
        ("/spec/customresourcedefinitions/owned", Shape::List(&Shape::Struct(RESOURCE))),
        ("/spec/customresourcedefinitions/required", Shape::List(&Shape::Struct(RESOURCE))),
        ("/spec/apiservicedefinitions/owned", Shape::List(&Shape::Struct(API))),
        ("/spec/apiservicedefinitions/required", Shape::List(&Shape::Struct(API))),
        ("/spec/webhookdefinitions", Shape::List(&Shape::Struct(WEBHOOK))),
    ],
    other_fields: &["/spec", "/metadata/annotations", "/metadata/labels"],
};

/// The fields that rules evaluate. An UPDATE that changes none of them is not evaluated.
const EVALUATED_FIELDS: [&str; 3] = ["/spec", "/metadata/annotations", "/metadata/labels"];

pub(crate) fn check_request(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return cross_object::check_removed(review, report) };
    let marks = CopyMarks::of(object, review.namespace());
    let claim = COPIES.check_copy(review, object, &marks, report);
    let review = Review { old: claim.old, ..*review };
    if claim.is_exempt {
        return;
    }
    let mut unchanged = EVALUATED_FIELDS.to_vec();
    unchanged.retain(|pointer| !review.touches_json(object, pointer));
    if unchanged.len() == EVALUATED_FIELDS.len() {
        return;
    }
    let object = Object::of(object);
    let mut csv = Csv::of(&review, &object, Source::Object(String::new()), report);
    csv.set_unchanged(unchanged);
    check_rules(&mut csv);
    cross_object::check(&mut csv);
}

/// Evaluates the rules for the ClusterServiceVersion itself.
pub(crate) fn check_rules(csv: &mut Csv<'_, '_>) {
    description::check(csv);
    install::check(csv);
    let without_example = annotations::check(csv);
    install::check_presentation(csv, &without_example);
    images::check(csv);
    webhooks::check(csv);
}
