//! Properties in `properties.yaml` of a bundle, and in the blobs of a catalog.

use opgate_constraint::Check;
use opgate_constraint::properties::Property;
use opgate_sdk::{Document, Kind};

use crate::encoding::decode_base64;
use crate::item::Item;
use crate::required::Requirements;
use crate::scan::Scan;
use crate::{annotations, config_map};

/// An object in base64, in the value of a property.
const DATA: &str = "/data";

/// The types of properties that are evaluated: most other properties need no handle.
const EVALUATED_TYPES: [&str; 6] = [
    "olm.constraint",
    "olm.gvk.required",
    "olm.package.required",
    "olm.label.required",
    "olm.csv.metadata",
    "olm.bundle.object",
];

/// The location of a list of properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PropertySource {
    /// `properties.yaml`.
    Bundle,
    /// A blob. The policy for catalogs evaluates its properties, so unreadable properties are
    /// reported once (FBC-37, FBC-38).
    Catalog,
}

/// The list of properties of a document: `[{type, value}]` or `[{property: {type, value}}]`.
pub(crate) fn check(
    document: &Document,
    source: PropertySource,
    at: &str,
    requirements: &mut Requirements,
    scan: &mut Scan<'_, '_>,
) {
    let types = document.rows("/properties", &["/type", "/property/type"]);
    for (index, row) in types.iter().enumerate() {
        // `null` means not set, as in all fields.
        let has_type = !matches!(row.kind(0), Kind::Missing | Kind::Null);
        let (kind, step) = if has_type { (row.text(0), "") } else { (row.text(1), "property") };
        let Some(kind) = kind.filter(|kind| EVALUATED_TYPES.contains(kind)) else { continue };
        let dot = if step.is_empty() { "" } else { "." };
        let slash = if step.is_empty() { "" } else { "/" };
        let field = format!("{at}.properties[{index}]{dot}{step}.value");
        let value = document.at(&format!("/properties/{index}{slash}{step}/value"));
        let item = Item { kind: kind.to_owned(), value, field: &field };
        match item.kind.as_str() {
            "olm.constraint" => check_constraint(&item, requirements, scan),
            "olm.gvk.required" => {
                requirements.gvks.insert(item.gvk());
                check_property(&item, source, scan);
            }
            "olm.package.required" => {
                requirements.packages.insert(item.text("packageName"));
                check_property(&item, source, scan);
            }
            "olm.label.required" => check_property(&item, source, scan),
            "olm.csv.metadata" => {
                if let Some(value) = &item.value {
                    let at = format!("{field}.annotations");
                    annotations::check_properties(value, None, "/annotations", &at, scan);
                }
            }
            "olm.bundle.object" => check_object(&item, scan),
            _ => {}
        }
    }
}

fn check_property(item: &Item<'_>, source: PropertySource, scan: &mut Scan<'_, '_>) {
    if !item.check_size(scan) {
        return;
    }
    let value = item.raw();
    let mut report =
        scan.evaluate_file_property(Property { index: 0, kind: &item.kind, value: &value });
    report.violations.retain(|f| source == PropertySource::Bundle || f.check != Check::Required);
    scan.add_problems(item.field, report);
}

/// An `olm.constraint`. It also declares the needs of the bundle.
pub(crate) fn check_constraint(
    item: &Item<'_>,
    requirements: &mut Requirements,
    scan: &mut Scan<'_, '_>,
) {
    if !item.check_size(scan) {
        return;
    }
    let report = scan.evaluate_file_property(Property {
        index: 0,
        kind: "olm.constraint",
        value: &item.raw(),
    });
    if let Some(constraint) = &report.constraint {
        requirements.gvks.extend(constraint.gvks().cloned());
        requirements.packages.extend(constraint.packages().map(|package| package.name.clone()));
    }
    scan.add_problems(item.field, report);
}

/// A ClusterServiceVersion inside a catalog, which is created unchanged.
fn check_object(item: &Item<'_>, scan: &mut Scan<'_, '_>) {
    let Some(value) = &item.value else { return };
    let size = value.size(DATA).unwrap_or_default();
    if !scan.reserve_decoding(size) {
        return;
    }
    let Some(bytes) = value.text(DATA).and_then(|data| decode_base64(&data)) else { return };
    if let Ok(text) = std::str::from_utf8(&bytes) {
        config_map::check_object(text, &format!("{}.data", item.field), scan);
    }
}

/// The blob of a bundle in a catalog.
pub(crate) fn check_bundle(blob: &Document, at: &str, scan: &mut Scan<'_, '_>) {
    check(blob, PropertySource::Catalog, at, &mut Requirements::default(), scan);
}

/// The blob of a channel in a catalog.
pub(crate) fn check_channel(blob: &Document, at: &str, scan: &mut Scan<'_, '_>) {
    let entries = blob.rows("/entries", &["/skipRange"]);
    for (index, entry) in entries.iter().enumerate() {
        if let Some(range) = entry.text(0) {
            let field = || format!("{at}.entries[{index}].skipRange");
            annotations::check_skip_range(range, field, scan);
        }
    }
}
