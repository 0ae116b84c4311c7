//! ClusterServiceVersions in catalogs.
//!
//! ```text
//! olm.bundle ─┬─ olm.bundle.object ─▶ base64 ─▶ JSON or YAML ─┬─▶ evaluate::all
//!             └─ olm.csv.metadata ──▶ composed object ────────┘
//! ```
//!
//! If a bundle has the object, the rules evaluate the object, because `olm.csv.metadata` has fewer
//! members. A package has thousands of bundles, and a call never frees memory. The amount of data
//! read for one package is therefore limited. Objects beyond the limit are evaluated when they are
//! created in a cluster.

use opgate_compat::json::{self, Child};
use opgate_sdk::bundle_objects::BundleObjectDecoder;
use opgate_sdk::{Document, Kind, Report, Review};

use crate::annotations::maximum;
use crate::csv::{Csv, IN_METADATA, Source};
use crate::description::header::{self, CSV_27};
use crate::evaluate;
use crate::object::Object;

/// Maximum size of the properties `olm.csv.metadata` that are read for one package, in bytes. The
/// limit has room for thousands of bundles.
const MAX_METADATA_BYTES: u32 = 64 << 20;
/// Maximum size of one object, in bytes. The host passes at most 4 MiB at once.
const MAX_OBJECT_BYTES: u32 = 4_000_000;

/// Evaluates the blobs of a package in a catalog.
pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(catalog) = review.subject() else { return };
    report.locate_with(opgate_sdk::catalog::set_logical_locations);
    // The published version is not an earlier state of the same object.
    let review = Review { old: None, ..*review };
    let objects = BundleObjectDecoder::default();
    let mut package = Package { catalog, review, objects, bytes_read: 0, buffer: Vec::new() };
    let schemas = catalog.rows("/spec/blobs", &["/value/schema"]);
    for (index, schema) in schemas.iter().enumerate() {
        if schema.text(0) == Some("olm.bundle") {
            package.check_bundle(index, report);
        }
    }
}

/// The package under review, and the amount of data read for it.
struct Package<'d> {
    catalog: &'d Document,
    review: Review<'d>,
    objects: BundleObjectDecoder,
    bytes_read: u32,
    /// The buffer for one property at a time.
    buffer: Vec<u8>,
}

impl Package<'_> {
    /// The ClusterServiceVersion of a bundle.
    fn check_bundle(&mut self, index: usize, report: &mut Report<'_>) {
        let blob = format!("/spec/blobs/{index}/value");
        let field = format!("spec.blobs[{index}].value");
        let properties = format!("{blob}/properties");
        let types = self.catalog.rows(&properties, &["/type"]);
        let place = format!("{field}.properties");
        let maxima = maximum::read_document(self.catalog, &properties, &place);
        maximum::report_invalid(&maxima, self.catalog, &properties, report);
        let has_maximum = !maxima.is_empty();
        let (mut metadata, mut is_found) = (None, false);
        for (property, row) in types.iter().enumerate() {
            match row.text(0) {
                Some("olm.bundle.object") => {
                    let data = format!("{blob}/properties/{property}/value/data");
                    let object = self.objects.decode_csv(self.catalog, &data, from_yaml);
                    if let Some(object) = object.filter(header::is_csv) {
                        let place = format!("{field}.properties[{property}].value.data");
                        is_found = true;
                        if header::lacks_api_version(&object) {
                            report.add(
                                &CSV_27,
                                format!("{place}.apiVersion"),
                                header::MISSING_API_VERSION,
                            );
                        }
                        self.check(&object, Source::Object(place), has_maximum, report);
                    }
                }
                Some("olm.csv.metadata") => metadata = metadata.or(Some(property)),
                _ => {}
            }
        }
        if let Some(property) = metadata.filter(|_| !is_found) {
            let value = format!("{blob}/properties/{property}/value");
            if let Some(object) = self.read_metadata(&value, &format!("{blob}/name")) {
                let value = format!("{field}.properties[{property}].value");
                self.check(&object, Source::Metadata { blob: field, value }, has_maximum, report);
            }
        }
    }

    /// The value of a property as a ClusterServiceVersion. Its name is that of the bundle.
    fn read_metadata(&mut self, value: &str, name: &str) -> Option<Document> {
        let size = self.catalog.size(value)?;
        self.bytes_read = self.bytes_read.saturating_add(size);
        if self.bytes_read > MAX_METADATA_BYTES
            || size > MAX_OBJECT_BYTES
            || self.catalog.kind(value) != Kind::Object
        {
            return None;
        }
        let raw = self.catalog.raw(value)?;
        let name = self
            .catalog
            .size(name)
            .filter(|size| *size <= MAX_OBJECT_BYTES)
            .and_then(|_| self.catalog.raw(name));
        write_object(&raw, name.as_deref().unwrap_or(b"null"), &mut self.buffer);
        Document::parse(std::str::from_utf8(&self.buffer).ok()?).ok()
    }

    fn check(&self, object: &Document, source: Source, has_maximum: bool, report: &mut Report<'_>) {
        let object = Object::of(object);
        let mut csv = Csv::of(&self.review, &object, source, report);
        // The request has the name of the package.
        csv.name = object.text_or_empty("/metadata/name");
        if has_maximum {
            csv.set_catalog_maximum();
        }
        evaluate::check_rules(&mut csv);
    }
}

fn from_yaml(text: &str) -> Option<Document> {
    let max_bytes = usize::try_from(MAX_OBJECT_BYTES).ok()?;
    let json = opgate_yaml::read_strict(text, max_bytes).ok()?;
    Document::parse(std::str::from_utf8(&json).ok()?).ok()
}

/// Copies the members of a property `olm.csv.metadata` to the fields of an object. The name is
/// JSON.
fn write_object(metadata: &[u8], name: &[u8], object: &mut Vec<u8>) {
    object.clear();
    object.extend_from_slice(br#"{"metadata":{"name":"#);
    object.extend_from_slice(name);
    for_each_member(metadata, |member, child| {
        if matches!(member, "annotations" | "labels") {
            object.extend_from_slice(b",");
            write_member(member, child, object);
        }
    });
    object.extend_from_slice(br#"},"spec":{"#);
    let mut comma: &[u8] = b"";
    for_each_member(metadata, |member, child| {
        if let Some((member, _)) = IN_METADATA.iter().find(|(_, known)| *known == member) {
            object.extend_from_slice(comma);
            write_member(member, child, object);
            comma = b",";
        }
    });
    object.extend_from_slice(b"}}");
}

fn for_each_member<'j>(object: &'j [u8], mut visit: impl FnMut(&str, Child<'j>)) {
    // It is JSON: the host has read it.
    let _ = json::each_child(object, |child| {
        if let Some(key) = child.key {
            visit(&json::decode_text(key), child);
        }
    });
}

fn write_member(member: &str, child: Child<'_>, into: &mut Vec<u8>) {
    into.push(b'"');
    into.extend_from_slice(member.as_bytes());
    into.extend_from_slice(br#"":"#);
    into.extend_from_slice(child.raw);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundle_metadata_are_converted_to_an_object() {
        let metadata = br#"{"annotations": {"a": "b"}, "labels": {"c": "d"}, "displayName": "e",
            "crdDescriptions": {"owned": []}, "unknown": 1, "version": "1.0.0"}"#;
        let mut object = Vec::new();
        for (metadata, name, expected) in [
            (
                &metadata[..],
                &b"\"a\\u0001\""[..],
                r#"{"metadata":{"name":"a\u0001","annotations":{"a": "b"},"labels":{"c": "d"}},"spec":{"displayName":"e","customresourcedefinitions":{"owned": []}}}"#,
            ),
            (b"{}", b"null", r#"{"metadata":{"name":null},"spec":{}}"#),
        ] {
            write_object(metadata, name, &mut object);
            assert_eq!(std::str::from_utf8(&object).unwrap(), expected);
            assert!(Document::parse(expected).is_ok());
        }
    }
}
