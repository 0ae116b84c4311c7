//! ConfigMaps into which OLM unpacks bundles, or that contain a catalog.
//!
//! ```text
//! marked? ─▶ data ────────────────────────┐
//!         └▶ binaryData ─▶ base64 ─▶ gzip ─┴─▶ JSON values ─▶ olm.bundle ─▶ olm.bundle.object
//!                                         │         ▲   └──▶ ClusterServiceVersion ◀──┘
//!                                         └─▶ YAML ─┘ see the crate `yaml`
//! ```
//!
//! Requests for every ConfigMap of the cluster can reach this module, so it reads a ConfigMap only
//! if it has one of the marks: a label or an annotation of OLM, a key of a catalog, or a file that
//! names the schema of a catalog or a CSV. The condition of the target `CONFIG_MAP` names the same
//! labels, annotations, keys and suffixes.

use opgate_compat::json::{self, Child, Kind};
use opgate_constraint::properties::{self, ListFormat};
use opgate_sdk::{Report, Review, escape};

use crate::annotations::{self, PROPERTIES};
use crate::checks::CON_01;
use crate::encoding::{Unpacked, decode_base64, unpack};
use crate::scan::Scan;

const LABELS: [&str; 2] = ["/metadata/labels/olm.catalogSource", "/metadata/labels/olm.managed"];
/// The prefix of the annotations that OLM copies from a bundle.
const ANNOTATION: &str = "operators.operatorframework.io.bundle.";
/// The annotation with which OLM marks compressed content.
const ENCODING: &str = "olm.contentEncoding";
const FILES: [&str; 3] = [".json", ".yaml", ".yml"];
/// The key under which a catalog of source type `configmap` lists its ClusterServiceVersions.
const CATALOG: &str = "clusterServiceVersions";
/// The texts that identify a file of a bundle or a catalog. An escape can hide them.
const IDENTIFYING_WORDS: [&str; 4] = ["ClusterServiceVersion", "olm.bundle", "\\u", "\\x"];

/// The names of which a YAML document must contain one to be parsed: a ClusterServiceVersion can
/// easily have a megabyte, and nearly none contains properties. An escape can hide a name.
const BUNDLE_ANNOTATIONS: [&str; 8] = [
    "olm.constraint",
    "olm.package.required",
    "olm.gvk.required",
    "olm.label.required",
    "operatorframework.io/properties",
    "olm.properties",
    "\\u",
    "\\x",
];

/// Evaluates every file that is new.
pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(map) = review.subject() else { return };
    let old = review.ratchet_base();
    let scan = &mut Scan::new(review, report);
    let marked = LABELS.iter().any(|label| map.has(label))
        || map
            .keys("/metadata/annotations")
            .iter()
            .any(|name| name.starts_with(ANNOTATION) || name == ENCODING);
    let changed = |pointer: &str, field: &str, scan: &mut Scan<'_, '_>| {
        let text = scan.check_size(map, pointer, field).then(|| map.text(pointer)).flatten()?;
        (old.and_then(|old| old.text(pointer)).as_ref() != Some(&text)).then_some(text)
    };
    let is_file =
        |key: &str| marked || key == CATALOG || FILES.iter().any(|suffix| key.ends_with(suffix));
    for key in map.keys("/data").into_iter().filter(|key| is_file(key)) {
        let field = format!("data[{key}]");
        if let Some(text) = changed(&format!("/data/{}", escape(&key)), &field, scan) {
            check_file(&text, &field, scan);
        }
    }
    let most = scan.max_inflated();
    let mut limit = most;
    let mut buffer = Vec::new();
    // Without a mark, compressed content is never unpacked.
    for key in map.keys("/binaryData").into_iter().filter(|_| marked) {
        let field = format!("binaryData[{key}]");
        let text = changed(&format!("/binaryData/{}", escape(&key)), &field, scan);
        let Some(bytes) = text.and_then(|text| decode_base64(&text)) else { continue };
        match unpack(&bytes, limit, &mut buffer) {
            Unpacked::File(content) => {
                limit = limit.saturating_sub(content.len());
                if let Ok(text) = std::str::from_utf8(content) {
                    check_file(text, &field, scan);
                }
            }
            Unpacked::TooLarge => {
                let message = format!("the files in binaryData expand to more than {most} bytes");
                scan.add(&CON_01, field, message);
                return;
            }
            Unpacked::Invalid => {}
        }
    }
}

fn check_file(text: &str, field: &str, scan: &mut Scan<'_, '_>) {
    if IDENTIFYING_WORDS.iter().any(|word| text.contains(word)) {
        visit_values(text, field, scan, check_document);
    }
}

/// The text of an object in a catalog. Only a ClusterServiceVersion counts.
pub(crate) fn check_object(text: &str, field: &str, scan: &mut Scan<'_, '_>) {
    if PROPERTIES.iter().any(|(name, _)| text.contains(name)) {
        visit_values(text, field, scan, check_csv);
    }
}

/// Calls `visit` with every value of a text, as JSON. The text is a sequence of JSON values, or
/// YAML.
fn visit_values(
    text: &str,
    field: &str,
    scan: &mut Scan<'_, '_>,
    visit: impl Fn(&[u8], &str, &mut Scan<'_, '_>),
) {
    let place = |index| if index == 0 { field.to_owned() } else { format!("{field}[{index}]") };
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut index = 0;
    if rest.trim_start().starts_with(['{', '[']) {
        while let Ok((value, after)) = json::split_first(rest.as_bytes()) {
            // `{a: 1}` and `{…}`, line by line with `---`, are YAML.
            let next = rest.len().saturating_sub(after.len());
            rest = rest.get(next..).unwrap_or_default();
            visit_value(value, &place(index), scan, &visit);
            index += 1;
        }
    }
    let most = scan.max_inflated();
    for part in opgate_yaml::split_documents(rest) {
        let field = place(index);
        index += 1;
        if !BUNDLE_ANNOTATIONS.iter().any(|name| part.contains(name)) {
            continue;
        }
        match opgate_yaml::read(part, most) {
            // OLM cannot read it either.
            None => {}
            Some(opgate_yaml::Document::Json(json)) => visit_value(&json, &field, scan, &visit),
            Some(opgate_yaml::Document::TooLarge) => {
                let message = format!("the document expands to more than {most} bytes");
                scan.add(&CON_01, field, message);
            }
        }
    }
}

/// A value, or each element of a list.
fn visit_value(
    value: &[u8],
    field: &str,
    scan: &mut Scan<'_, '_>,
    visit: &impl Fn(&[u8], &str, &mut Scan<'_, '_>),
) {
    if json::kind(value) != Some(Kind::List) {
        return visit(value, field, scan);
    }
    let mut index = 0;
    // The value was read before, so there is no error.
    let _ = json::each_child(value, |child| {
        visit(child.raw, &format!("{field}[{index}]"), scan);
        index += 1;
    });
}

/// One document of a file.
fn check_document(value: &[u8], field: &str, scan: &mut Scan<'_, '_>) {
    if has_text(value, "schema", "olm.bundle") {
        check_bundle(value, field, scan);
    } else {
        check_csv(value, field, scan);
    }
}

/// A bundle in a catalog: its properties, and the parts of its ClusterServiceVersion in them.
fn check_bundle(value: &[u8], field: &str, scan: &mut Scan<'_, '_>) {
    if let Ok(text) = std::str::from_utf8(value) {
        annotations::check_list(text, ListFormat::Wrapped, field, false, scan);
    }
    // OLM does not treat unreadable data as a property either.
    let _ = properties::each(value, ListFormat::Wrapped, |property| {
        let field = format!("{field}.properties[{}].value", property.index);
        match property.kind {
            "olm.csv.metadata" => check_annotations(property.value, &field, scan),
            "olm.bundle.object" => {
                let data = member(property.value, "data").filter(|data| data.kind == Kind::Text);
                let bytes = data.and_then(|data| decode_base64(&json::decode_text(data.raw)));
                let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
                if let Some(text) = text {
                    check_object(&text, &format!("{field}.data"), scan);
                }
            }
            _ => {}
        }
    });
}

fn check_csv(value: &[u8], field: &str, scan: &mut Scan<'_, '_>) {
    if has_text(value, "kind", "ClusterServiceVersion")
        && let Some(metadata) = member(value, "metadata")
    {
        check_annotations(metadata.raw, &format!("{field}.metadata"), scan);
    }
}

/// An object with the member `annotations`.
fn check_annotations(object: &[u8], field: &str, scan: &mut Scan<'_, '_>) {
    let Some(annotations) = member(object, "annotations") else { return };
    for (name, form) in PROPERTIES {
        let found = member(annotations.raw, name).filter(|found| found.kind == Kind::Text);
        if let Some(found) = found {
            let field = format!("{field}.annotations[{name}]");
            annotations::check_list(&json::decode_text(found.raw), form, &field, true, scan);
        }
    }
}

/// Whether a member is this text.
fn has_text(object: &[u8], name: &str, text: &str) -> bool {
    member(object, name).is_some_and(|c| c.kind == Kind::Text && json::is_string(c.raw, text))
}

/// The last member of an object with that name.
fn member<'j>(object: &'j [u8], name: &str) -> Option<Child<'j>> {
    let mut found = None;
    json::each_child(object, |child| {
        if child.is_named(name) {
            found = Some(child);
        }
    })
    .ok()?;
    found
}
