//! Documents created from files.

use opgate_sdk::{Document, Report, Review, bundle_objects, pods};

use crate::csv;
use crate::seccomp;
use crate::subject::Subject;

/// The files of a bundle. The manifest of its `ClusterServiceVersion` is a separate request.
pub(crate) fn bundle(review: &Review<'_>, report: &mut Report<'_>) {
    if let Some(object) = review.object {
        seccomp::judge(object, report);
    }
}

/// The blobs of a package in a catalog. The policy also evaluates bundles that were published
/// before: they are not earlier states of the same object.
pub(crate) fn catalog(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(catalog) = review.subject() else { return };
    report.explain_with(opgate_sdk::catalog::about);
    let review = Review { old: None, ..*review };
    bundle_objects::each_csv(catalog, from_yaml, |object, field| {
        let specs = pods::in_csv(object);
        let place = format!("{field}.");
        csv::of_any(&mut Subject {
            review: &review,
            object,
            specs: &specs,
            kind: "",
            report: &mut *report,
            place: &place,
        });
    });
}

/// Maximum bytes of YAML to parse at once.
const LARGEST: usize = 4_000_000;

fn from_yaml(text: &str) -> Option<Document> {
    let json = opgate_yaml::strict(text, LARGEST).ok()?;
    Document::parse(std::str::from_utf8(&json).ok()?).ok()
}
