//! Bundles and catalogs as directories of files.

use opgate_sdk::{Report, Review};

use crate::annotations::{self, ANNOTATIONS};
use crate::properties::Source;
use crate::required::{self, Needs};
use crate::scan::Scan;
use crate::{dependencies, properties};

/// Every file of a registry+v1 bundle: the metadata first, because any of its files can declare the
/// requirements of a CSV.
pub(crate) fn bundle(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(bundle) = review.subject() else { return };
    let mut scan = Scan::new(review, report);
    let mut needs = Needs::default();
    let mut csvs = Vec::new();
    for (file_index, file) in bundle.items("/spec/files").enumerate() {
        let path = file.text_or_empty("/path");
        for (index, document) in file.items("/documents").enumerate() {
            let at = format!("spec.files[{file_index}].documents[{index}]");
            if path.starts_with("metadata/") {
                dependencies::judge(&document, &at, &mut needs, &mut scan);
                properties::judge(&document, Source::Bundle, &at, &mut needs, &mut scan);
            } else if document.text_or_empty("/kind") == "ClusterServiceVersion" {
                csvs.push((at, document));
            }
        }
    }
    for (at, csv) in csvs {
        let place = format!("{at}.metadata.annotations");
        annotations::each(&csv, None, ANNOTATIONS, &place, &mut scan);
        required::judge(&csv, &at, &needs, &mut scan);
    }
}

/// The blobs of a package in a catalog. There can be thousands.
pub(crate) fn catalog(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(catalog) = review.subject() else { return };
    report.explain_with(opgate_sdk::catalog::about);
    let mut scan = Scan::new(review, report);
    let schemas = catalog.rows("/spec/blobs", &["/value/schema"]);
    for (index, row) in schemas.iter().enumerate() {
        let judge = match row.text_or_empty(0) {
            "olm.bundle" => properties::bundle,
            "olm.channel" => properties::channel,
            _ => continue,
        };
        if let Some(value) = catalog.at(&format!("/spec/blobs/{index}/value")) {
            judge(&value, &format!("spec.blobs[{index}].value"), &mut scan);
        }
    }
}
