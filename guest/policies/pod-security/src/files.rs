//! Documents created from files.

use opgate_sdk::{Document, Report, Review, bundle_objects, pods};

use crate::csv;
use crate::seccomp;
use crate::subject::Subject;

/// The files of a bundle. The manifest of its `ClusterServiceVersion` is a separate request.
pub(crate) fn check_bundle(review: &Review<'_>, report: &mut Report<'_>) {
    if let Some(object) = review.object {
        seccomp::check(object, report);
    }
}

/// The blobs of a package in a catalog. The policy also evaluates bundles that were published
/// before: they are not earlier states of the same object.
pub(crate) fn check_catalog(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(catalog) = review.subject() else { return };
    report.locate_with(opgate_sdk::catalog::set_logical_locations);
    let review = Review { old: None, ..*review };
    bundle_objects::each_csv(catalog, from_yaml, |object, field| {
        let specs = pods::in_csv(object);
        let place = format!("{field}.");
        csv::check_csv(&mut Subject {
            review: &review,
            object,
            specs: &specs,
            kind: "",
            report: &mut *report,
            field_prefix: &place,
        });
    });
}

/// Maximum bytes of YAML to parse at once.
const MAX_YAML_BYTES: usize = 4_000_000;

fn from_yaml(text: &str) -> Option<Document> {
    let json = opgate_yaml::read_strict(text, MAX_YAML_BYTES).ok()?;
    Document::parse(std::str::from_utf8(&json).ok()?).ok()
}
