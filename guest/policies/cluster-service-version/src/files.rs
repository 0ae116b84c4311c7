//! Checks that need the files of a bundle. The manifest is a separate request ([`crate::evaluate`]).

use opgate_sdk::corrections;
use opgate_sdk::{Document, Kind, Report, Review, Row, Rows};

use crate::annotations::maximum;
use crate::cross_object::{conversion, required};
use crate::csv::{Csv, Source, object_pointer};
use crate::description::header::{self, CSV_27};
use crate::object::Object;

/// The files of a bundle. The registry reads the first document of each file in `manifests/`.
pub(crate) fn check_bundle(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(directory) = review.subject() else { return };
    let files = directory.rows("/spec/files", &["/path", "/documents/0/kind", "/documents/0"]);
    let manifests = |kind: &'static str| {
        let is_wanted = move |(_, file): &(usize, Row<'_>)| {
            let name = file.text_or_empty(0).strip_prefix("manifests/");
            file.kind(2) == Kind::Object
                && file.text_or_empty(1) == kind
                && name.is_some_and(|name| !name.contains('/'))
        };
        let files = files.iter().enumerate().filter(is_wanted);
        files.filter_map(move |(index, file)| {
            let document = directory.at(&format!("/spec/files/{index}/documents/0"))?;
            Some((document, format!("spec.files[{index}].documents[0]"), file))
        })
    };
    let crds: Vec<_> =
        manifests("CustomResourceDefinition").map(|(crd, ..)| required::Crd::of(&crd)).collect();
    let preserving =
        conversion::preserving_crds(manifests("CustomResourceDefinition").map(|(crd, ..)| crd));
    for (object, place, _) in manifests(header::KIND) {
        let object = Object::of(&object);
        let mut csv = Csv::of(review, &object, Source::Object(place), report);
        required::check_in_bundle(&mut csv, &crds);
        conversion::check_preserving_in_bundle(&mut csv, &preserving);
    }
    check_properties(directory, &files, report);
    // A manifest that is meant to be a ClusterServiceVersion can lack its kind.
    for (object, place, file) in manifests(header::KIND).chain(manifests("")) {
        for (member, message) in header::missing_fields(&object, file.text_or_empty(0)) {
            report.add(&CSV_27, format!("{place}.{member}"), message);
            let value = if member == "kind" { header::KIND } else { header::API_VERSION };
            report.set_fix(&CSV_27, || {
                let pointer = object_pointer(&place)?;
                Some(corrections::write(format!("{pointer}/{member}"), value))
            });
        }
    }
}

/// The property `olm.maxOpenShiftVersion` in the files of `metadata/`. The registry finds properties in a
/// file of any name.
fn check_properties(directory: &Document, files: &Rows, report: &mut Report<'_>) {
    let is_wanted = |(_, file): &(usize, Row<'_>)| {
        let name = file.text_or_empty(0).strip_prefix("metadata/");
        file.kind(2) == Kind::Object && name.is_some_and(|name| !name.contains('/'))
    };
    for (index, _) in files.iter().enumerate().filter(is_wanted) {
        let list = format!("/spec/files/{index}/documents/0/properties");
        let place = format!("spec.files[{index}].documents[0].properties");
        let found = maximum::read_document(directory, &list, &place);
        maximum::report_invalid(&found, directory, &list, report);
    }
}
