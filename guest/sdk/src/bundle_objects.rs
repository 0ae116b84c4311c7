//! `ClusterServiceVersion`s in the bundles of a catalog: objects in base64, in properties of type
//! `olm.bundle.object`.
//!
//! ```text
//! blobs ─▶ olm.bundle ─▶ olm.bundle.object ─▶ base64 ─▶ JSON or YAML ─▶ ClusterServiceVersion
//! ```
//!
//! A package has thousands of bundles, and memory of a call is never freed: the decoded data of one package
//! is limited. Objects beyond the limit are evaluated when they are created in a cluster.

use crate::Document;
use crate::go::base64;

/// Base64 that is decoded for one package. The policy for catalogs decodes no more either, and says
/// so (FBC-41).
const MAX_DECODED_BYTES: u32 = 12 << 20;
/// One object: the host passes no more than 4 MiB at once.
const MAX_OBJECT_BYTES: u32 = 4_000_000;
const KIND: &str = "ClusterServiceVersion";

/// Reads the objects of one package.
#[derive(Debug, Default)]
pub struct BundleObjectDecoder {
    /// Base64 that was decoded so far.
    decoded: u32,
    /// For each object in its turn.
    bytes: Vec<u8>,
}

impl BundleObjectDecoder {
    /// Decodes the object whose base64 is at a pointer, if it is a `ClusterServiceVersion`. `yaml` parses
    /// YAML. Returns none for an unreadable object: the policy for catalogs reports it (FBC-41).
    pub fn decode_csv(
        &mut self,
        catalog: &Document,
        data: &str,
        yaml: impl Fn(&str) -> Option<Document>,
    ) -> Option<Document> {
        let size = catalog.size(data)?;
        self.decoded = self.decoded.saturating_add(size);
        if self.decoded > MAX_DECODED_BYTES || size > MAX_OBJECT_BYTES {
            return None;
        }
        let data = catalog.text(data)?;
        self.bytes.clear();
        base64::decode(&data, &mut self.bytes).ok()?;
        let text = std::str::from_utf8(&self.bytes).ok()?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // Most objects are others. An escape may hide the name of the kind.
        if ![KIND, "\\u", "\\x"].iter().any(|word| text.contains(word)) {
            return None;
        }
        let object = if is_json(text) { Document::parse(text).ok() } else { yaml(text) }?;
        (object.text_or_empty("/kind") == KIND).then_some(object)
    }
}

/// Calls `visit` with each `ClusterServiceVersion` in the bundles of a package, and its field.
pub fn each_csv(
    catalog: &Document,
    yaml: impl Fn(&str) -> Option<Document>,
    mut visit: impl FnMut(&Document, &str),
) {
    let mut objects = BundleObjectDecoder::default();
    for (blob, row) in catalog.rows("/spec/blobs", &["/value/schema"]).iter().enumerate() {
        if row.text(0) != Some("olm.bundle") {
            continue;
        }
        let properties = format!("/spec/blobs/{blob}/value/properties");
        for (property, row) in catalog.rows(&properties, &["/type"]).iter().enumerate() {
            if row.text(0) != Some("olm.bundle.object") {
                continue;
            }
            let data = format!("{properties}/{property}/value/data");
            if let Some(object) = objects.decode_csv(catalog, &data, &yaml) {
                let field = format!("spec.blobs[{blob}].value.properties[{property}].value.data");
                visit(&object, &field);
            }
        }
    }
}

/// Reports whether a text is JSON: `{` and a quote; any other text that starts with `{` is YAML in flow
/// style.
fn is_json(text: &str) -> bool {
    let inner = text.trim_start().strip_prefix('{');
    inner.is_some_and(|inner| inner.trim_start().starts_with(['"', '}']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_bundles_only() {
        // {"kind":"ClusterServiceVersion","n":1}
        let csv = "eyJraW5kIjoiQ2x1c3RlclNlcnZpY2VWZXJzaW9uIiwibiI6MX0=";
        // {"kind":"Service","n":"ClusterServiceVersion"}
        let other = "eyJraW5kIjoiU2VydmljZSIsIm4iOiJDbHVzdGVyU2VydmljZVZlcnNpb24ifQ==";
        // kind: ClusterServiceVersion
        let yaml = "a2luZDogQ2x1c3RlclNlcnZpY2VWZXJzaW9u";
        let property =
            |kind: &str, data: &str| format!(r#"{{"type":"{kind}","value":{{"data":"{data}"}}}}"#);
        let object = "olm.bundle.object";
        let properties = [
            property("olm.gvk", csv),
            property(object, other),
            property(object, csv),
            property(object, "!"),
            property(object, yaml),
            "7".to_owned(),
        ];
        let properties = properties.join(",");
        let catalog = format!(
            r#"{{"spec":{{"blobs":[{{"value":{{"schema":"olm.channel","properties":[{properties}]}}}},
                {{"value":{{"schema":"olm.bundle","properties":[{properties}]}}}}]}}}}"#
        );
        let mut found = Vec::new();
        let yaml = |_: &str| Document::parse(r#"{"kind":"ClusterServiceVersion"}"#).ok();
        each_csv(&Document::parse(&catalog).unwrap(), yaml, |csv, field| {
            found.push((csv.integer("/n"), field.to_owned()));
        });
        let at = |property: u32| format!("spec.blobs[1].value.properties[{property}].value.data");
        assert_eq!(found, [(Some(1), at(2)), (None, at(4))]);
    }
}
