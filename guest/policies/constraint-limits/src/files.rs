//! Bundles and catalogs as directories of files.

use opgate_sdk::{Report, Review};

use crate::annotations::{self, ANNOTATIONS};
use crate::properties::PropertySource;
use crate::required::{self, Requirements};
use crate::scan::Scan;
use crate::{dependencies, properties};

/// Every file of a registry+v1 bundle: the metadata first, because any of its files can declare the
/// requirements of a CSV.
pub(crate) fn check_bundle(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(bundle) = review.subject() else { return };
    let mut scan = Scan::new(review, report);
    let mut requirements = Requirements::default();
    let mut csvs = Vec::new();
    for (file_index, file) in bundle.items("/spec/files").enumerate() {
        let path = file.text_or_empty("/path");
        for (index, document) in file.items("/documents").enumerate() {
            let at = format!("spec.files[{file_index}].documents[{index}]");
            if path.starts_with("metadata/") {
                dependencies::check(&document, &at, &mut requirements, &mut scan);
                properties::check(
                    &document,
                    PropertySource::Bundle,
                    &at,
                    &mut requirements,
                    &mut scan,
                );
            } else if document.text_or_empty("/kind") == "ClusterServiceVersion" {
                csvs.push((at, document));
            }
        }
    }
    for (at, csv) in csvs {
        let place = format!("{at}.metadata.annotations");
        annotations::check_properties(&csv, None, ANNOTATIONS, &place, &mut scan);
        required::check(&csv, &at, &requirements, &mut scan);
    }
}

/// The blobs of a package in a catalog. There can be thousands.
pub(crate) fn check_catalog(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(catalog) = review.subject() else { return };
    report.locate_with(opgate_sdk::catalog::set_logical_locations);
    let mut scan = Scan::new(review, report);
    let schemas = catalog.rows("/spec/blobs", &["/value/schema"]);
    for (index, row) in schemas.iter().enumerate() {
        let evaluate = match row.text_or_empty(0) {
            "olm.bundle" => properties::check_bundle,
            "olm.channel" => properties::check_channel,
            _ => continue,
        };
        if let Some(value) = catalog.at(&format!("/spec/blobs/{index}/value")) {
            evaluate(&value, &format!("spec.blobs[{index}].value"), &mut scan);
        }
    }
}
