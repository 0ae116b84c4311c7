//! ConfigMaps into which OLM unpacks bundles, or that hold a catalog.
//!
//! ```text
//! marked? ─▶ data ────────────────────────┐
//!         └▶ binaryData ─▶ base64 ─▶ gzip ─┴─▶ JSON values ─▶ olm.bundle, ClusterServiceVersion
//!                                         └─▶ YAML documents ─▶ JSON, see [`crate::yaml`]
//! ```
//!
//! Every ConfigMap of the cluster comes by here, so one is looked at only where it has the marks: a
//! label or an annotation of OLM's, or a file that names a catalog's schema or a CSV.

use constraints::json::{self, Child, Kind};
use constraints::properties::Form;
use opgate_sdk::{Document, escape};

use crate::annotations::{self, PROPERTIES};
use crate::encoding::{Unpacked, base64, unpack};
use crate::findings::Findings;
use crate::yaml;

const LABELS: [&str; 2] = ["/metadata/labels/olm.catalogSource", "/metadata/labels/olm.managed"];
/// What the writer of bundles copies from their annotations.
const ANNOTATION: &str = "operators.operatorframework.io.bundle.";
const FILES: [&str; 3] = [".json", ".yaml", ".yml"];
/// What a file says that belongs to a bundle or a catalog.
const WORDS: [&str; 2] = ["ClusterServiceVersion", "olm.bundle"];

/// Looks at every file that is new.
pub(crate) fn judge(map: &Document, old: Option<&Document>, findings: &mut Findings<'_>) {
    let marked = LABELS.iter().any(|label| map.has(label))
        || map.keys("/metadata/annotations").iter().any(|name| name.starts_with(ANNOTATION));
    let changed = |pointer: &str, field: &str, findings: &mut Findings<'_>| {
        let text = findings.admits(map, pointer, field).then(|| map.text(pointer)).flatten()?;
        (old.and_then(|old| old.text(pointer)).as_ref() != Some(&text)).then_some(text)
    };
    let is_file = |key: &str| marked || FILES.iter().any(|suffix| key.ends_with(suffix));
    for key in map.keys("/data").into_iter().filter(|key| is_file(key)) {
        let field = format!("data[{key}]");
        if let Some(text) = changed(&format!("/data/{}", escape(&key)), &field, findings) {
            file(&text, &field, findings);
        }
    }
    let most = findings.max_inflated();
    let mut room = most;
    let mut buffer = Vec::new();
    // Without a mark, nobody unpacks what is compressed.
    for key in map.keys("/binaryData").into_iter().filter(|_| marked) {
        let field = format!("binaryData[{key}]");
        let text = changed(&format!("/binaryData/{}", escape(&key)), &field, findings);
        let Some(bytes) = text.and_then(|text| base64(text.as_bytes())) else { continue };
        match unpack(&bytes, room, &mut buffer) {
            Unpacked::File(content) => {
                room = room.saturating_sub(content.len());
                if let Ok(text) = std::str::from_utf8(content) {
                    file(text, &field, findings);
                }
            }
            Unpacked::TooLarge => {
                let message = format!("the files in binaryData expand to more than {most} bytes");
                findings.add("CON-01", &field, message);
                return;
            }
            Unpacked::Broken => {}
        }
    }
}

/// The text of a file: JSON values, or YAML.
pub(crate) fn file(text: &str, field: &str, findings: &mut Findings<'_>) {
    if !WORDS.iter().any(|word| text.contains(word)) {
        return;
    }
    let place = |index| if index == 0 { field.to_owned() } else { format!("{field}[{index}]") };
    if !text.trim_start().starts_with('{') {
        let most = findings.max_inflated();
        for (index, found) in yaml::documents(text, most) {
            match found {
                yaml::Document::Json(json) => document(&json, &place(index), findings),
                yaml::Document::TooLarge => {
                    let message = format!("the document expands to more than {most} bytes");
                    findings.add("CON-01", &place(index), message);
                }
            }
        }
        return;
    }
    // A catalog is one JSON value after the other.
    let mut rest = text.as_bytes();
    let mut index = 0;
    while let Ok((value, after)) = json::first(rest) {
        document(value, &place(index), findings);
        rest = after;
        index += 1;
    }
}

/// One document of a file.
fn document(value: &[u8], field: &str, findings: &mut Findings<'_>) {
    let text =
        |name| member(value, name).filter(|c| c.kind == Kind::Text).map(|c| json::text(c.raw));
    if text("schema").is_some_and(|schema| schema == "olm.bundle") {
        if let Ok(bundle) = std::str::from_utf8(value) {
            annotations::list(bundle, Form::Wrapped, field, false, findings);
        }
    } else if text("kind").is_some_and(|kind| kind == "ClusterServiceVersion") {
        let annotations = member(value, "metadata").and_then(|c| member(c.raw, "annotations"));
        let Some(annotations) = annotations else { return };
        for (name, form) in PROPERTIES {
            let found = member(annotations.raw, name).filter(|found| found.kind == Kind::Text);
            if let Some(found) = found {
                let field = format!("{field}.metadata.annotations[{name}]");
                annotations::list(&json::text(found.raw), form, &field, true, findings);
            }
        }
    }
}

/// The member of an object; the last of that name.
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
