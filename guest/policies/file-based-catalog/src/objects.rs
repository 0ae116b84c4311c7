//! Objects inside a bundle: FBC-41, and the APIs that an embedded ClusterServiceVersion owns, for
//! FBC-39.
//!
//! Memory is never freed during a call, and the objects of a package can be larger than the memory
//! limit. So the size of decoded data has a limit; objects beyond the limit are reported as not
//! evaluated.

use std::collections::BTreeSet;

use opgate_sdk::names::group_version_kind;
use opgate_sdk::{Document, Kind, Rows};

use crate::go_text::{wrong_field, wrong_value};
use opgate_sdk::go::base64;

/// Base64 that is decoded for one document, in bytes.
const BUDGET: usize = 12 << 20;
/// JSON or YAML that is parsed at once, in bytes.
const LARGEST: usize = 4_000_000;

/// Decodes the objects of all bundles of a document.
#[derive(Default)]
pub(crate) struct Objects {
    spent: usize,
    /// Bytes of other properties that were checked ([`crate::bundle::decoded`]).
    pub(crate) decoded: u32,
    scratch: Vec<u8>,
}

/// The result of decoding an object.
pub(crate) enum Outcome {
    /// The data loads: the object, if the data is one.
    Object(Option<Document>),
    /// The property is not a bundle object.
    NoProperty(String),
    /// The data are neither JSON nor YAML.
    NoObject(String),
    /// The limit is reached: not evaluated.
    LeftOut,
}

impl Objects {
    /// Decodes the value of a property of type `olm.bundle.object`.
    pub(crate) fn read(&mut self, property: &Document) -> Outcome {
        match property.kind("/value") {
            Kind::Object => {}
            kind => return Outcome::NoProperty(wrong_value(kind, "property.BundleObject")),
        }
        match property.kind("/value/data") {
            Kind::Text => {}
            // Empty data is not an object, and a file next to the catalog is not read.
            Kind::Missing | Kind::Null => return Outcome::Object(None),
            // Go also reads bytes from a list of numbers.
            Kind::List => {
                let rows = property.rows("/value/data", &[""]);
                let wrong = rows.iter().map(|row| row.kind(0)).find(|kind| *kind != Kind::Number);
                return wrong.map_or(Outcome::Object(None), |kind| {
                    Outcome::NoProperty(wrong_field(kind, "BundleObject.data", "uint8"))
                });
            }
            kind => {
                let why = wrong_field(kind, "BundleObject.data", "[]uint8");
                return Outcome::NoProperty(why);
            }
        }
        if self.spent >= BUDGET {
            return Outcome::LeftOut;
        }
        let data = property.text_or_empty("/value/data");
        self.spent += data.len();
        self.scratch.clear();
        if let Err(at) = base64::decode(&data, &mut self.scratch) {
            return Outcome::NoProperty(format!("illegal base64 data at input byte {at}"));
        }
        if self.scratch.len() > LARGEST {
            return Outcome::LeftOut;
        }
        let is_json = is_json(&self.scratch);
        let Ok(text) = std::str::from_utf8(&self.scratch) else {
            let why = || "the data are not UTF-8".to_owned();
            return if is_json { Outcome::Object(None) } else { Outcome::NoObject(why()) };
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let parsed = Document::parse(text).or_else(|_| from_yaml(text));
        match parsed {
            Ok(object) if object.kind("") == Kind::Object => Outcome::Object(Some(object)),
            // Upstream loads both unchanged.
            Ok(_) => Outcome::Object(None),
            Err(_) if is_json => Outcome::Object(None),
            Err(why) => Outcome::NoObject(why),
        }
    }
}

/// Upstream treats data that starts with `{` as JSON, and does not parse it while it loads the
/// bundle.
fn is_json(data: &[u8]) -> bool {
    let text = data.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    text.trim_start().starts_with('{')
}

/// The first document of a text. The last member with a name counts.
fn from_yaml(text: &str) -> Result<Document, String> {
    let json = match opgate_yaml::strict(text, LARGEST) {
        Ok(json) => json,
        Err(why) => match opgate_yaml::read(text, LARGEST) {
            Some(opgate_yaml::Document::Json(json)) => json,
            _ => return Err(why),
        },
    };
    let json = String::from_utf8(json).map_err(|error| error.to_string())?;
    Document::parse(&json)
}

/// The APIs that a ClusterServiceVersion provides.
pub(crate) fn owned_by(csv: &Document) -> BTreeSet<String> {
    let mut apis = BTreeSet::new();
    if csv.text_or_empty("/kind") == "ClusterServiceVersion" {
        custom(&csv.rows("/spec/customresourcedefinitions/owned", &CUSTOM), &mut apis);
        services(&csv.rows("/spec/apiservicedefinitions/owned", &SERVICE), &mut apis);
    }
    apis
}

/// The APIs that a property of type `olm.csv.metadata` lists as provided. `rows` reads a list in it.
pub(crate) fn owned_by_metadata(rows: impl Fn(&str, &[&str]) -> Rows) -> BTreeSet<String> {
    let mut apis = BTreeSet::new();
    custom(&rows("/value/crdDescriptions/owned", &CUSTOM), &mut apis);
    services(&rows("/value/apiServiceDefinitions/owned", &SERVICE), &mut apis);
    apis
}

const CUSTOM: [&str; 3] = ["/name", "/version", "/kind"];
const SERVICE: [&str; 3] = ["/group", "/version", "/kind"];

/// Custom resources have their group in their name: `<plural>.<group>`.
fn custom(rows: &Rows, apis: &mut BTreeSet<String>) {
    for row in rows.iter() {
        let group = row.text_or_empty(0).split_once('.').map_or("", |(_, group)| group);
        add(group, row.text_or_empty(1), row.text_or_empty(2), apis);
    }
}

fn services(rows: &Rows, apis: &mut BTreeSet<String>) {
    for row in rows.iter() {
        add(row.text_or_empty(0), row.text_or_empty(1), row.text_or_empty(2), apis);
    }
}

fn add(group: &str, version: &str, kind: &str, apis: &mut BTreeSet<String>) {
    if !group.is_empty() && !version.is_empty() && !kind.is_empty() {
        apis.insert(group_version_kind(group, version, kind));
    }
}
