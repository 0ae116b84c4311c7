//! What of a catalog a violation is about, as the model of `opm` nests it.
//!
//! ```text
//! field ─▶ blob ─┬ olm.package ─▶ its icon, or the default channel that it names
//!                ├ olm.channel ─▶ channel
//!                └ olm.bundle ──▶ channel ▸ bundle ▸ related image
//! ```
//!
//! The package itself is the document. A bundle stands in the first channel that lists it, and in none
//! where no channel does: `opm` tells it once for every channel, but it has to be repaired once.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde_json::value::RawValue;

use super::catalog::Package;
use super::subject::Step;
use opgate_text::one_line;

/// Bytes of a name that are shown.
const MAX_NAME: usize = 256;

/// The blobs of a package as far as they were asked for.
#[derive(Default)]
pub(super) struct Nesting {
    /// The first channel of each bundle; made when a bundle asks for it.
    channels: Option<HashMap<String, String>>,
}

/// The members of a blob. Names are matched in any case, as Go does.
struct Blob<'j>(BTreeMap<Cow<'j, str>, &'j RawValue>);

impl<'j> Blob<'j> {
    fn read(json: &'j str) -> Option<Self> {
        serde_json::from_str(json).ok().map(Self)
    }

    fn member(&self, name: &str) -> Option<&'j RawValue> {
        let folded = || self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        self.0.get(name).or_else(|| folded().map(|(_, value)| value)).copied()
    }

    fn text(&self, name: &str) -> String {
        let text = self.member(name).and_then(|raw| serde_json::from_str(raw.get()).ok());
        text.unwrap_or_default()
    }

    /// Names of the entries of a channel.
    fn entries(&self) -> Vec<String> {
        #[derive(serde::Deserialize)]
        struct Entry {
            name: String,
        }
        let raws: Option<Vec<&RawValue>> =
            self.member("entries").and_then(|raw| serde_json::from_str(raw.get()).ok());
        let entry = |raw: &RawValue| serde_json::from_str(raw.get()).ok();
        let entries = raws.into_iter().flatten().filter_map(entry);
        entries.map(|Entry { name }| name).collect()
    }
}

/// A node's title.
pub(super) fn named(kind: &str, name: &str) -> String {
    one_line(&format!("{kind} {name:?}"), MAX_NAME)
}

fn json<'f>(step: &Step<'f, '_>) -> Option<&'f str> {
    Some(step.file.documents()?.json(step.document?))
}

impl Nesting {
    /// What the tokens of a field lead to, from the outside to the inside.
    pub(super) fn of(&mut self, package: &Package, field: &[String]) -> Vec<String> {
        let step = package.step(field);
        let blob = step.as_ref().and_then(json).and_then(Blob::read);
        let (Some(step), Some(blob)) = (step, blob) else { return Vec::new() };
        let first = step.tokens.first().map(String::as_str).unwrap_or_default();
        let is_in = |member: &str| first.eq_ignore_ascii_case(member);
        let name = blob.text("name");
        let mut nodes = Vec::new();
        match blob.text("schema").as_str() {
            "olm.package" if is_in("icon") => nodes.push("icon".to_owned()),
            "olm.package" if is_in("defaultChannel") => {
                let channel = Some(blob.text("defaultChannel")).filter(|name| !name.is_empty());
                nodes.extend(channel.map(|name| named("channel", &name)));
            }
            "olm.channel" => nodes.push(named("channel", &name)),
            "olm.bundle" => {
                let channels = self.channels.get_or_insert_with(|| channels(package));
                nodes.extend(channels.get(&name).map(|channel| named("channel", channel)));
                nodes.push(named("bundle", &name));
                if is_in("relatedImages") {
                    nodes.push("related image".to_owned());
                }
            }
            _ => {}
        }
        nodes
    }
}

fn channels(package: &Package) -> HashMap<String, String> {
    const SCHEMA: &str = "olm.channel";
    let mut channels = HashMap::new();
    for index in 0usize.. {
        let field = ["spec", "blobs", &index.to_string()].map(str::to_owned);
        let Some(step) = package.step(&field) else { break };
        // Most blobs are bundles, which are large.
        let blob = json(&step).filter(|json| json.contains(SCHEMA)).and_then(Blob::read);
        let Some(blob) = blob.filter(|blob| blob.text("schema") == SCHEMA) else { continue };
        let channel = blob.text("name");
        for entry in blob.entries() {
            channels.entry(entry).or_insert_with(|| channel.clone());
        }
    }
    channels
}

#[cfg(test)]
mod tests {
    use crate::subject::{Layout, Resolver};
    use crate::testing::Temporary;
    use crate::{As, load};
    use opgate_input::read::Reader;

    const CATALOG: &str = r#"
{"schema": "olm.package", "name": "p", "defaultChannel": "fast", "icon": {}}
{"schema": "olm.channel", "package": "p", "name": "one", "entries": [{"name": "p.v1"}, {}, 7]}
{"Schema": "olm.channel", "Package": "p", "Name": "tw\u001b\"o", "entries": [{"name": "p.v1"}, {"name": "p.v2"}]}
{"schema": "olm.bundle", "package": "p", "name": "p.v1"}
{"schema": "olm.bundle", "package": "p", "name": "p.v2", "relatedImages": [{}]}
{"schema": "olm.bundle", "package": "p", "name": "olm.channel"}
{"schema": "olm.deprecations", "package": "p"}
{"schema": "olm.package", "name": "p"}
"#;

    #[test]
    fn fields_belong_to_what_opm_would_name() {
        let folder = Temporary::new(&[("catalog.json", CATALOG)]);
        let subject = load(folder.path(), As::Catalog, None, &Reader::default()).unwrap().remove(0);
        let layout = &subject.requests[0].object;
        assert!(matches!(layout, Layout::Package(_)));
        let mut resolver = Resolver::new(layout);
        let cases: [(&str, &[&str]); 11] = [
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
            ("spec.blobs[6].value.entries", &[]),
            ("spec.package", &[]),
        ];
        for (field, expected) in cases {
            assert_eq!(resolver.nesting(field), expected, "{field}");
        }
    }
}
