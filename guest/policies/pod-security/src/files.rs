//! Documents that are made from files.

use opgate_sdk::{Document, Report, Review, bundle_objects, pods};

use crate::csv;
use crate::seccomp;
use crate::subject::Subject;

/// The files of a bundle. The manifest of its `ClusterServiceVersion` is a request of its own.
pub(crate) fn bundle(review: &Review<'_>, report: &mut Report<'_>) {
    if let Some(object) = review.object {
        seccomp::judge(object, report);
    }
}

/// The blobs of a package in a catalog. Bundles that were published before are judged, too: they
/// are no earlier state of the same object.
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

/// Bytes of YAML that are parsed at once.
const LARGEST: usize = 4_000_000;

fn from_yaml(text: &str) -> Option<Document> {
    let json = opgate_yaml::strict(text, LARGEST).ok()?;
    Document::parse(std::str::from_utf8(&json).ok()?).ok()
}
