//! Bundles and catalogs as folders of files.

use opgate_sdk::Document;

use crate::annotations::{self, ANNOTATIONS};
use crate::dependencies::{self, Needs, Source};
use crate::findings::Findings;

/// Every file of a registry+v1 bundle: the metadata first, because what a CSV requires may stand in
/// any of its files.
pub(crate) fn bundle(bundle: &Document, findings: &mut Findings<'_>) {
    let mut needs = Needs::default();
    let mut csvs = Vec::new();
    for (file_index, file) in bundle.items("/spec/files").enumerate() {
        let path = file.text_or_empty("/path");
        for (index, document) in file.items("/documents").enumerate() {
            let at = format!("spec.files[{file_index}].documents[{index}]");
            if path.starts_with("metadata/") {
                dependencies::dependencies(&document, &at, &mut needs, findings);
                dependencies::properties(&document, Source::Bundle, &at, &mut needs, findings);
            } else if document.text_or_empty("/kind") == "ClusterServiceVersion" {
                csvs.push((at, document));
            }
        }
    }
    for (at, csv) in csvs {
        let place = format!("{at}.metadata.annotations");
        annotations::each(&csv, None, ANNOTATIONS, &place, findings);
        dependencies::required(&csv, &at, &needs, findings);
    }
}

/// The blobs of a package in a catalog, of which there may be thousands.
pub(crate) fn catalog(catalog: &Document, findings: &mut Findings<'_>) {
    let schemas = catalog.rows("/spec/blobs", &["/value/schema"]);
    for (index, row) in schemas.iter().enumerate() {
        let judge = match row.text_or_empty(0) {
            "olm.bundle" => dependencies::bundle,
            "olm.channel" => dependencies::channel,
            _ => continue,
        };
        if let Some(value) = catalog.at(&format!("/spec/blobs/{index}/value")) {
            judge(&value, &format!("spec.blobs[{index}].value"), findings);
        }
    }
}
