//! Logical locations of violations in a package of a catalog, nested as in the model of `opm`.
//!
//! ```text
//! field ─▶ blob ─┬ olm.package ─▶ its icon, or the default channel that it names
//!                ├ olm.channel ─▶ channel
//!                └ olm.bundle ──▶ channel ▸ bundle ▸ related image
//! ```
//!
//! The package itself is the document, a `FileBasedCatalog`. A bundle belongs to the first channel
//! that lists it, or to no channel. `opm` reports a bundle once for every channel, but it must be
//! repaired only once.
//!
//! It receives only the violations of a verdict, at most 256. The blobs that they name are read one by one.
//! The schemas of all blobs are read once, and only if one of the violations is in a bundle.

use std::collections::BTreeMap;

use crate::{Document, Kind, Violation, escape};

const PACKAGE: &str = "olm.package";
const CHANNEL: &str = "olm.channel";
const BUNDLE: &str = "olm.bundle";

/// Maximum bytes of a node that are shown.
const MAX_NODE_BYTES: usize = 256;

/// Sets the logical location of each violation, from the outermost to the innermost: `channel "stable"`,
/// `bundle "a.v1.0.0"`, `related image`. For [`crate::Report::locate_with`].
pub fn set_logical_locations(document: &Document, violations: &mut [Violation]) {
    let mut blobs: BTreeMap<u32, Blob> = BTreeMap::new();
    let mut bundles: BTreeMap<String, Option<String>> = BTreeMap::new();
    for (index, _) in violations.iter().filter_map(|finding| blob_and_member(&finding.field)) {
        let blob = blobs.entry(index).or_insert_with(|| Blob::read(document, index));
        if blob.schema == BUNDLE && !bundles.contains_key(&blob.name) {
            bundles.insert(blob.name.clone(), None);
        }
    }
    if !bundles.is_empty() {
        find_channels(document, &mut bundles);
    }
    for finding in violations {
        let Some((index, member)) = blob_and_member(&finding.field) else { continue };
        let Some(blob) = blobs.get(&index) else { continue };
        let is_in = |name: &str| member.eq_ignore_ascii_case(name);
        let nodes = &mut finding.logical_location;
        match blob.schema.as_str() {
            PACKAGE if is_in("icon") => nodes.push("icon".to_owned()),
            PACKAGE if is_in("defaultChannel") => {
                let channel = text(document, index, "defaultChannel");
                nodes.extend((!channel.is_empty()).then(|| node("channel", &channel)));
            }
            CHANNEL => nodes.push(node("channel", &blob.name)),
            BUNDLE => {
                nodes.extend(bundles.get(&blob.name).cloned().flatten());
                nodes.push(node("bundle", &blob.name));
                if is_in("relatedImages") {
                    nodes.push("related image".to_owned());
                }
            }
            _ => {}
        }
    }
}

/// Returns the blob that a field is in, and the member of the blob; empty if the field is the blob as a
/// whole.
fn blob_and_member(field: &str) -> Option<(u32, &str)> {
    let (index, rest) = field.strip_prefix("spec.blobs[")?.split_once(']')?;
    let member = rest.strip_prefix(".value.").unwrap_or_default();
    let end = member.find(['.', '[']).unwrap_or(member.len());
    Some((index.parse().ok()?, member.get(..end).unwrap_or_default()))
}

/// Returns a node: one line, cut if it is too long.
fn node(kind: &str, name: &str) -> String {
    const ELLIPSIS: char = '…';
    let mut node = format!(
        "{kind} {:?}",
        name.get(..name.floor_char_boundary(MAX_NODE_BYTES)).unwrap_or_default()
    );
    if node.len() > MAX_NODE_BYTES {
        node.truncate(node.floor_char_boundary(MAX_NODE_BYTES.saturating_sub(ELLIPSIS.len_utf8())));
        node.push(ELLIPSIS);
    }
    node
}

/// Identity of the blob.
struct Blob {
    schema: String,
    name: String,
}

impl Blob {
    fn read(document: &Document, index: u32) -> Self {
        Self { schema: text(document, index, "schema"), name: text(document, index, "name") }
    }
}

/// Returns the pointer of a member of a blob. Its name is case-insensitive, as in Go.
fn member(document: &Document, index: u32, name: &str) -> String {
    let blob = format!("/spec/blobs/{index}/value");
    let exact = format!("{blob}/{name}");
    if document.kind(&exact) != Kind::Missing {
        return exact;
    }
    let keys = document.keys(&blob).into_iter();
    let folded = keys.filter(|key| key.eq_ignore_ascii_case(name)).min();
    folded.map_or(exact, |key| format!("{blob}/{}", escape(&key)))
}

fn text(document: &Document, index: u32, name: &str) -> String {
    document.text_or_empty(&member(document, index, name))
}

/// Finds the first channel of each bundle.
fn find_channels(document: &Document, bundles: &mut BTreeMap<String, Option<String>>) {
    let mut left = bundles.len();
    let blobs = document.rows("/spec/blobs", &["/value/schema"]);
    for (index, blob) in (0_u32..).zip(blobs.iter()) {
        let is_channel = match blob.kind(0) {
            Kind::Text => blob.text(0) == Some(CHANNEL),
            Kind::Missing => text(document, index, "schema") == CHANNEL,
            _ => false,
        };
        if !is_channel {
            continue;
        }
        let mut channel = None;
        let entries = document.rows(&member(document, index, "entries"), &["/name"]);
        for entry in entries.iter().filter_map(|entry| entry.text(0)) {
            if let Some(found) = bundles.get_mut(entry).filter(|found| found.is_none()) {
                let name = || node("channel", &text(document, index, "name"));
                *found = Some(channel.get_or_insert_with(name).clone());
                left = left.saturating_sub(1);
            }
        }
        if left == 0 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;

    const CATALOG: &str = r#"{"spec": {"blobs": [
{"value": {"schema": "olm.package", "name": "p", "defaultChannel": "fast", "icon": {}}},
{"value": {"schema": "olm.channel", "package": "p", "name": "one", "entries": [{"name": "p.v1"}, {}, 7]}},
{"value": {"Schema": "olm.channel", "Package": "p", "Name": "tw\u001b\"o", "entries": [{"name": "p.v1"}, {"name": "p.v2"}]}},
{"value": {"schema": "olm.bundle", "package": "p", "name": "p.v1"}},
{"value": {"schema": "olm.bundle", "package": "p", "name": "p.v2", "relatedImages": [{}]}},
{"value": {"schema": "olm.bundle", "package": "p", "name": "olm.channel"}},
{"value": {"schema": "olm.deprecations", "package": "p"}},
{"value": {"schema": "olm.package", "name": "p"}},
{"value": {"schema": "olm.channel", "entries": {"name": "olm.channel"}}},
{"value": 7}
]}}"#;

    fn about_of(document: &Document, field: &str) -> Vec<String> {
        let (rule, message) = (String::new(), String::new());
        let field = field.to_owned();
        let mut finding = [Violation {
            rule,
            level: Level::Deny,
            field,
            message,
            logical_location: vec![],
            fix: None,
        }];
        set_logical_locations(document, &mut finding);
        finding.into_iter().flat_map(|finding| finding.logical_location).collect()
    }

    #[test]
    fn field_has_the_logical_location_of_opm() {
        let document = Document::parse(CATALOG).unwrap();
        let cases: [(&str, &[&str]); 18] = [
            ("spec.blobs[0].value", &[]),
            ("spec.blobs[0].value.icon.mediatype", &["icon"]),
            ("spec.blobs[0].value.defaultChannel", &["channel \"fast\""]),
            ("spec.blobs[7].value.defaultChannel", &[]),
            ("spec.blobs[1].value.entries[2].name", &["channel \"one\""]),
            ("spec.blobs[2].value", &["channel \"tw\\u{1b}\\\"o\""]),
            ("spec.blobs[3].value.image", &["channel \"one\"", "bundle \"p.v1\""]),
            (
                "spec.blobs[4].value.relatedImages[0].image",
                &["channel \"tw\\u{1b}\\\"o\"", "bundle \"p.v2\"", "related image"],
            ),
            ("spec.blobs[5].value.name", &["bundle \"olm.channel\""]),
            ("spec.blobs[5]", &["bundle \"olm.channel\""]),
            ("spec.blobs[6].value.entries", &[]),
            ("spec.blobs[8].value", &["channel \"\""]),
            ("spec.blobs[9].value", &[]),
            ("spec.blobs[10].value", &[]),
            ("spec.blobs[x].value", &[]),
            ("spec.files[0].error", &[]),
            ("spec.package", &[]),
            ("", &[]),
        ];
        for (field, expected) in cases {
            assert_eq!(about_of(&document, field), expected, "{field}");
        }
    }

    #[test]
    fn long_names_are_cut() {
        for (name, length, is_cut) in [
            ("é".repeat(122), 254, false),
            ("é".repeat(123), 256, false),
            ("é".repeat(124), 256, true),
            ("a\"".repeat(9_000), 256, true),
        ] {
            let json = format!(
                "{{\"spec\": {{\"blobs\": [{{\"value\": {{\"schema\": \"olm.channel\", \"name\": {name:?}}}}}]}}}}"
            );
            let document = Document::parse(&json).unwrap();
            let [node] = &about_of(&document, "spec.blobs[0].value")[..] else {
                panic!("one node")
            };
            assert_eq!((node.len(), node.ends_with('…')), (length, is_cut), "{node}");
        }
    }
}
