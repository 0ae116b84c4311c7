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
const MAX_DECODED_BYTES: usize = 12 << 20;
/// JSON or YAML that is parsed at once, in bytes.
const MAX_OBJECT_BYTES: usize = 4_000_000;

/// Decodes the objects of all bundles of a document.
#[derive(Default)]
pub(crate) struct Objects {
    spent: usize,
    /// Bytes of other properties that were checked ([`crate::bundle::decoded`]).
    pub(crate) decoded: u32,
    scratch: Vec<u8>,
}

/// The result of decoding an object.
pub(crate) enum DecodeResult {
    /// The data loads: the object, if the data is one.
    Object(Option<Document>),
    /// The property is not a bundle object.
    InvalidProperty(String),
    /// The data are neither JSON nor YAML.
    InvalidObject(String),
    /// The limit is reached: not evaluated.
    LimitReached,
}

impl Objects {
    /// Decodes the value of a property of type `olm.bundle.object`.
    pub(crate) fn decode(&mut self, property: &Document) -> DecodeResult {
        match property.kind("/value") {
            Kind::Object => {}
            kind => {
                return DecodeResult::InvalidProperty(wrong_value(kind, "property.BundleObject"));
            }
        }
        match property.kind("/value/data") {
            Kind::Text => {}
            // Empty data is not an object, and a file next to the catalog is not read.
            Kind::Missing | Kind::Null => return DecodeResult::Object(None),
            // Go also reads bytes from a list of numbers.
            Kind::List => {
                let rows = property.rows("/value/data", &[""]);
                let wrong = rows.iter().map(|row| row.kind(0)).find(|kind| *kind != Kind::Number);
                return wrong.map_or(DecodeResult::Object(None), |kind| {
                    DecodeResult::InvalidProperty(wrong_field(kind, "BundleObject.data", "uint8"))
                });
            }
            kind => {
                let why = wrong_field(kind, "BundleObject.data", "[]uint8");
                return DecodeResult::InvalidProperty(why);
            }
        }
        if self.spent >= MAX_DECODED_BYTES {
            return DecodeResult::LimitReached;
        }
        let data = property.text_or_empty("/value/data");
        self.spent += data.len();
        self.scratch.clear();
        if let Err(at) = base64::decode(&data, &mut self.scratch) {
            return DecodeResult::InvalidProperty(format!(
                "illegal base64 data at input byte {at}"
            ));
        }
        if self.scratch.len() > MAX_OBJECT_BYTES {
            return DecodeResult::LimitReached;
        }
        let is_json = is_json(&self.scratch);
        let Ok(text) = std::str::from_utf8(&self.scratch) else {
            let why = || "the data are not UTF-8".to_owned();
            return if is_json {
                DecodeResult::Object(None)
            } else {
                DecodeResult::InvalidObject(why())
            };
        };
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let parsed = Document::parse(text).or_else(|_| from_yaml(text));
        match parsed {
            Ok(object) if object.kind("") == Kind::Object => DecodeResult::Object(Some(object)),
            // Upstream loads both unchanged.
            Ok(_) => DecodeResult::Object(None),
            Err(_) if is_json => DecodeResult::Object(None),
            Err(why) => DecodeResult::InvalidObject(why),
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
    let json = match opgate_yaml::read_strict(text, MAX_OBJECT_BYTES) {
        Ok(json) => json,
        Err(why) => match opgate_yaml::read(text, MAX_OBJECT_BYTES) {
            Some(opgate_yaml::Document::Json(json)) => json,
            _ => return Err(why.to_string()),
        },
    };
    let json = String::from_utf8(json).map_err(|error| error.to_string())?;
    Document::parse(&json)
}

/// The APIs that a ClusterServiceVersion provides.
pub(crate) fn owned_apis(csv: &Document) -> BTreeSet<String> {
    let mut apis = BTreeSet::new();
    if csv.text_or_empty("/kind") == "ClusterServiceVersion" {
        add_crds(&csv.rows("/spec/customresourcedefinitions/owned", &CRD_COLUMNS), &mut apis);
        add_api_services(
            &csv.rows("/spec/apiservicedefinitions/owned", &API_SERVICE_COLUMNS),
            &mut apis,
        );
    }
    apis
}

/// The APIs that a property of type `olm.csv.metadata` lists as provided. `rows` reads a list in it.
pub(crate) fn owned_apis_of_metadata(rows: impl Fn(&str, &[&str]) -> Rows) -> BTreeSet<String> {
    let mut apis = BTreeSet::new();
    add_crds(&rows("/value/crdDescriptions/owned", &CRD_COLUMNS), &mut apis);
    add_api_services(&rows("/value/apiServiceDefinitions/owned", &API_SERVICE_COLUMNS), &mut apis);
    apis
}

const CRD_COLUMNS: [&str; 3] = ["/name", "/version", "/kind"];
const API_SERVICE_COLUMNS: [&str; 3] = ["/group", "/version", "/kind"];

/// Custom resources have their group in their name: `<plural>.<group>`.
fn add_crds(rows: &Rows, apis: &mut BTreeSet<String>) {
    for row in rows.iter() {
        let group = row.text_or_empty(0).split_once('.').map_or("", |(_, group)| group);
        add_api(group, row.text_or_empty(1), row.text_or_empty(2), apis);
    }
}

fn add_api_services(rows: &Rows, apis: &mut BTreeSet<String>) {
    for row in rows.iter() {
        add_api(row.text_or_empty(0), row.text_or_empty(1), row.text_or_empty(2), apis);
    }
}

fn add_api(group: &str, version: &str, kind: &str, apis: &mut BTreeSet<String>) {
    if !group.is_empty() && !version.is_empty() && !kind.is_empty() {
        apis.insert(group_version_kind(group, version, kind));
    }
}
