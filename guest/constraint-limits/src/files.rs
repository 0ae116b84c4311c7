//! Bundles and catalogs as folders of files.

use opgate_sdk::Document;

use crate::annotations;
use crate::dependencies::{self, Needs};
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
                dependencies::properties(&document, &at, &mut needs, findings);
            } else if document.text_or_empty("/kind") == "ClusterServiceVersion" {
                csvs.push((at, document));
            }
        }
    }
    for (at, csv) in csvs {
        annotations::judge(&csv, None, &at, findings);
        dependencies::required(&csv, &at, &needs, findings);
    }
}

/// The blobs of a package in a catalog.
pub(crate) fn catalog(catalog: &Document, findings: &mut Findings<'_>) {
    for (index, blob) in catalog.items("/spec/blobs").enumerate() {
        if let Some(value) = blob.at("/value") {
            dependencies::blob(&value, &format!("spec.blobs[{index}].value"), findings);
        }
    }
}
