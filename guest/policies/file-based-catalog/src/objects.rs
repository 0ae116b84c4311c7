//! Objects inside a bundle: FBC-41, and the APIs that an embedded ClusterServiceVersion owns, for
//! FBC-39.
//!
//! Memory of a call is never given back, and the objects of a package may be larger than all of it:
//! what is decoded has a limit, and beyond it the rule says that it did not look.

use std::collections::BTreeSet;

use opgate_sdk::names::group_version_kind;
use opgate_sdk::{Document, Kind, Rows};

use crate::go_text::{wrong_field, wrong_value};
use crate::spelling;
use opgate_sdk::go::base64;

/// Base64 that is decoded for one document, in bytes.
const BUDGET: usize = 12 << 20;
/// JSON or YAML that is parsed at once, in bytes.
const LARGEST: usize = 4_000_000;

/// Decodes the objects of all bundles of a document.
#[derive(Default)]
pub(crate) struct Objects {
    spent: usize,
    scratch: Vec<u8>,
}

/// What came of an object.
pub(crate) enum Outcome {
    /// It is one: here it is, unless it is in a file beside the catalog.
    Object(Option<Document>),
    /// The property is no bundle object.
    NoProperty(String),
    /// The data are no object.
    NoObject(String),
    /// There was no room left to look.
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
            // The old way: a file beside the catalog.
            Kind::Missing if property.kind("/value/ref") == Kind::Text => {
                return Outcome::Object(None);
            }
            Kind::Missing | Kind::Null => {
                let hint = spelling::hint(property, "/value", "data");
                return Outcome::NoObject(format!("{NO_OBJECT}{hint}"));
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
        let Ok(text) = std::str::from_utf8(&self.scratch) else {
            return Outcome::NoObject("the data are not UTF-8".to_owned());
        };
        if text.len() > LARGEST {
            return Outcome::LeftOut;
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let parsed = if is_json(text) { Document::parse(text) } else { from_yaml(text) };
        match parsed {
            Ok(object) if object.kind("") == Kind::Object => Outcome::Object(Some(object)),
            Ok(_) => Outcome::NoObject(NO_OBJECT.to_owned()),
            Err(why) => Outcome::NoObject(why),
        }
    }
}

/// `{` and a quote is JSON; the other way to start with `{` is YAML in flow style.
fn is_json(text: &str) -> bool {
    let inner = text.trim_start().strip_prefix('{');
    inner.is_some_and(|inner| inner.trim_start().starts_with(['"', '}']))
}

fn from_yaml(text: &str) -> Result<Document, String> {
    let json = opgate_yaml::strict(text, LARGEST)?;
    let json = String::from_utf8(json).map_err(|error| error.to_string())?;
    Document::parse(&json)
}

const NO_OBJECT: &str = "the data are no JSON or YAML object";

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
