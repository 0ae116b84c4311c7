//! Properties of any blob: FBC-03 and FBC-40.

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind};

use crate::blob::{Blob, Meta};
use crate::findings::Findings;
use crate::settings::Settings;

const KNOWN: [&str; 14] = [
    "olm.package",
    "olm.gvk",
    "olm.package.required",
    "olm.gvk.required",
    "olm.label.required",
    "olm.constraint",
    "olm.bundle.object",
    "olm.bundle.mediatype",
    "olm.csv.metadata",
    "olm.channel",
    "olm.deprecated",
    "olm.kubeversion",
    "olm.maxOpenShiftVersion",
    "olm.substitutesFor",
];

/// Path of a place in a property. `inner` starts with a dot, or is empty.
pub(crate) fn field(blob: &Blob<'_>, index: u32, inner: &str) -> String {
    let properties = blob.field("properties");
    format!("{properties}[{index}]{inner}")
}

/// Judges the properties and hands each sound one on: its index, its type, the property itself. Says
/// whether there is a list, or nothing at all, where the list should be.
pub(crate) fn judge(
    blob: &Blob<'_>,
    meta: &Meta,
    settings: &Settings,
    findings: &mut Findings<'_>,
    mut each: impl FnMut(u32, &str, &Document, &mut Findings<'_>),
) -> bool {
    let complain = |index: u32, inner: &str, why: &str, findings: &mut Findings<'_>| {
        let message = format!("parse properties for {}: property[{index}]: {why}", whose(meta));
        findings.add("FBC-03", field(blob, index, inner), message);
    };
    match blob.kind("properties") {
        Kind::List => {}
        Kind::Missing | Kind::Null => return true,
        _ => {
            let message = format!("parse properties for {}: must be a list", whose(meta));
            findings.add("FBC-03", blob.field("properties"), message);
            return false;
        }
    }
    let items = blob.value.items(&blob.pointer("properties"));
    for (index, item) in (0_u32..).zip(items) {
        let kind = match item.text("/type") {
            Some(text) if !text.is_empty() => text,
            Some(_) => {
                complain(index, ".type", "type must be set", findings);
                continue;
            }
            None => {
                let (inner, why) = match (item.kind(""), item.kind("/type")) {
                    (Kind::Object, Kind::Missing) => ("", "type must be set"),
                    (Kind::Object, Kind::Null) => (".type", "type must be set"),
                    (Kind::Object, _) => (".type", "type must be a string"),
                    _ => ("", "must be an object"),
                };
                complain(index, inner, why, findings);
                continue;
            }
        };
        if kind.starts_with("olm.")
            && !KNOWN.contains(&kind.as_str())
            && !settings.reserved_properties.contains(&kind)
        {
            let message = format!("property type {} uses the reserved olm.* prefix", quote(&kind));
            findings.add("FBC-40", field(blob, index, ".type"), message);
        }
        match item.kind("/value") {
            Kind::Missing => complain(index, "", "value must be set", findings),
            Kind::Null => complain(index, ".value", "value must be set", findings),
            _ => each(index, &kind, &item, findings),
        }
    }
    true
}

/// Whose properties they are, as upstream calls it: `bundle "foo.v0.1.0"`.
fn whose(meta: &Meta) -> String {
    let schema = meta.schema.as_str();
    let schema = schema.strip_prefix("olm.").unwrap_or(schema);
    format!("{schema} {}", quote(meta.name.as_str()))
}
