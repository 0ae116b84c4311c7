//! ClusterServiceVersions in catalogs, and what only the files of a bundle show.
//!
//! The manifest of a bundle is a request of its own ([`crate::judge`]). Here are the rules that need
//! the files beside it.

use opgate_sdk::{Report, Review, Row};

use crate::csv::{Csv, Source};
use crate::neighbours::{conversion, required};

/// The files of a bundle. The registry reads the first document of each file in `manifests/`.
pub(crate) fn bundle(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(folder) = review.subject() else { return };
    let files = folder.rows("/spec/files", &["/path", "/documents/0/kind"]);
    let manifests = |kind: &'static str| {
        let is_wanted = move |(_, file): &(usize, Row<'_>)| {
            let name = file.text_or_empty(0).strip_prefix("manifests/");
            file.text(1) == Some(kind) && name.is_some_and(|name| !name.contains('/'))
        };
        let files = files.iter().enumerate().filter(is_wanted);
        files.filter_map(move |(index, _)| {
            let document = folder.at(&format!("/spec/files/{index}/documents/0"))?;
            Some((document, format!("spec.files[{index}].documents[0]")))
        })
    };
    let crds: Vec<_> =
        manifests("CustomResourceDefinition").map(|(crd, _)| required::Crd::of(&crd)).collect();
    let preserving =
        conversion::preserving(manifests("CustomResourceDefinition").map(|(crd, _)| crd));
    for (object, place) in manifests("ClusterServiceVersion") {
        let mut csv = Csv::of(review, &object, Source::Object(place), report);
        required::in_bundle(&mut csv, &crds);
        conversion::in_bundle(&mut csv, &preserving);
    }
}

/// The blobs of a package in a catalog.
pub(crate) fn catalog(_review: &Review<'_>, _report: &mut Report<'_>) {}
