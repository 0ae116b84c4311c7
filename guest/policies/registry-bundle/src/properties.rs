//! `metadata/properties.yaml`: RBF-19 and RBF-20.
//!
//! Like dependencies, properties may be in any file of `metadata/`.

use opgate_sdk::{Document, Kind};

use crate::findings::Findings;
use crate::folder::{Content, Folder};
use crate::layout::METADATA;

pub(crate) fn judge(folder: &Folder<'_>, findings: &mut Findings<'_>) {
    for file in folder.files_in(METADATA) {
        let is_named = file.name().starts_with("properties.");
        if let (Content::Failed(why), true) = (&file.content, is_named) {
            findings.deny("RBF-19", file.error_field(), message(0, why));
        }
        let Some(object) = folder.first(file) else { continue };
        match object.kind("/properties") {
            Kind::List => {
                for (index, item) in object.items("/properties").enumerate() {
                    let field = file.within(&format!("properties[{index}]"));
                    property(&item, index, &field, findings);
                }
            }
            Kind::Null => {}
            Kind::Missing if !is_named => {}
            kind => {
                let field = if kind == Kind::Missing { "" } else { "properties" };
                findings.deny("RBF-19", file.within(field), message(0, "properties is not a list"));
            }
        }
    }
}

fn message(index: usize, why: &str) -> String {
    format!("properties[{index}]: {why}")
}

fn property(item: &Document, index: usize, field: &str, findings: &mut Findings<'_>) {
    if item.kind("") != Kind::Object {
        findings.deny("RBF-19", field, message(index, "not an object"));
        return;
    }
    // A wrapper with nothing in it is how one edition prints the flat form.
    let is_wrapped = item.has("/property");
    let (at, inside) = if is_wrapped { ("/property", ".property") } else { ("", "") };
    if is_wrapped {
        let text = format!(
            "properties[{index}] uses the property: wrapper; write type and value at the item level"
        );
        findings.warn("RBF-20", format!("{field}.property"), text);
    }
    if is_wrapped && item.kind(at) != Kind::Object {
        findings.deny("RBF-19", format!("{field}.property"), message(index, "not an object"));
        return;
    }
    if item.text_or_empty(&format!("{at}/type")).is_empty() {
        let why = message(index, "type must be a non-empty string");
        findings.deny("RBF-19", format!("{field}{inside}"), why);
    }
    if !item.has(&format!("{at}/value")) {
        let why = message(index, "value must be set and not null");
        findings.deny("RBF-19", format!("{field}{inside}"), why);
    }
}
