//! The property `olm.maxOpenShiftVersion` in all its locations: in an annotation, in
//! `metadata/properties.yaml` of a bundle, or among the properties of a catalog.
//!
//! ```text
//! olm.properties, operatorframework.io/properties ─┐
//! metadata/properties.yaml ────────────────────────┼─▶ Found ─▶ violations
//! olm.bundle of a catalog ─────────────────────────┘
//! ```
//!
//! Tools that build catalogs copy the property between locations, and OLM reads the last copy, in
//! its own annotation. A mistake is reported once, in the location that its author can correct.

use opgate_compat::json;
use opgate_compat::version::{Identifier, Version};
use opgate_sdk::corrections::ScalarText;
use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Document, Kind, Level, Report, rule, rules};

use super::lists::{self, Element, JsonSpan};
use super::{MAX_SHOWN_BYTES, field, openshift};
use crate::csv::Csv;
use crate::targets::{CATALOG, CSV, REGISTRY_BUNDLE};

rules![CSV_80];

/// Maximum size of a value that is read, in bytes. A version is shorter.
const MAX_VALUE_BYTES: u32 = 4_096;

rule! {
    /// olm.maxOpenShiftVersion is a version, and there is at most one
    ///
    /// The value of a property `olm.maxOpenShiftVersion` is a string that OLM can read as a
    /// version: `4.9`, `4.13.0`, `v4.9`. There is at most one such property. A version with another
    /// patch number than 0, or a pre-release, only warns, as the validators of
    /// operator-framework/api do, because only major and minor number count. The rule reads the
    /// annotation `olm.properties`, the annotation `operatorframework.io/properties`, in which OLM
    /// writes the properties from the catalog, the files in `metadata/` of a bundle, and the
    /// properties of bundles in a catalog. If a catalog has the property, the annotations of its
    /// ClusterServiceVersions are not evaluated. Before it is published, a wrong property is
    /// denied; at admission and in catalogs it is a warning, because such an Operator can be
    /// installed. Copies are exempt. An UPDATE is evaluated only if it changes the annotation.
    ///
    /// # Why
    ///
    /// OLM stops updates of the cluster that the installed Operator does not support. With a value
    /// that it cannot read, or with two values, it stops every update to another minor version.
    ///
    /// # Remediation
    ///
    /// Write the last supported version as a string, such as `"4.9"`, in one property.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.9"}]'
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "four"}]'
    /// ```
    ///
    /// `message: olm.maxOpenShiftVersion value "four" is not a cluster version`
    CSV_80: Deny {
        name: "one-valid-max-openshift-version",
        on: [
            CSV: Create | Update,
            CATALOG: Create | Update,
            REGISTRY_BUNDLE: Create | Update,
        ],
        denies_in: [Bundle, Manifest],
        source: [
            "OCP 4.12 L21700-21721",
            "OCP 4.15 L15828-15874",
            "api pkg/validation/internal/community.go",
        ],
    }
}

/// A property of this type.
#[derive(Debug)]
pub(crate) struct MaximumProperty {
    /// The property.
    field: String,
    /// Its value; none if it is missing.
    value: Option<Value>,
}

#[derive(Debug)]
enum Value {
    /// A string, or a value that OLM reads as a string.
    Text(String),
    /// The JSON of any other value.
    Other(String),
}

/// A level that replaces the level of the rule, the field and the message.
type Violation = (Option<Level>, String, String);

/// Evaluates the annotations. OLM copies the property from the authors' annotation to its own: a
/// mistake in both is reported once.
pub(super) fn check(csv: &mut Csv<'_, '_>) {
    if csv.has_catalog_maximum() {
        return;
    }
    for (name, may_be_olm) in
        [(openshift::AUTHOR_PROPERTIES, false), (openshift::OLM_PROPERTIES, true)]
    {
        let found = read_annotation(csv, name, may_be_olm);
        let violations = find_violations(&found);
        if !violations.is_empty() && csv.touches_annotation(name) {
            for (level, field, message) in violations {
                match level {
                    Some(level) => csv.add_as(level, &CSV_80, &field, message),
                    None => csv.add(&CSV_80, &field, message),
                }
            }
            return;
        }
    }
}

/// The first two properties in an annotation. A third one adds no information.
fn read_annotation(csv: &Csv<'_, '_>, name: &str, may_be_olm: bool) -> Vec<MaximumProperty> {
    let mut found = Vec::new();
    let Some(text) = csv.annotation(name) else { return found };
    // An escape could hide the type.
    if !text.contains(openshift::PROPERTY) && !text.contains('\\') {
        return found;
    }
    let (list, place) = if may_be_olm {
        (openshift::olm_property_list(&text), format!("{}.properties", field(name)))
    } else {
        (Some(text.as_str()), field(name))
    };
    let Some(list) = list else { return found };
    let visit = |element: Element<2>| {
        if found.len() < 2 && openshift::is_maximum(&element, list) {
            let field = format!("{place}[{}]", element.index);
            let value = element.member(openshift::VALUE);
            found.push(MaximumProperty {
                field,
                value: value.map(|part| read_value(part, list, may_be_olm)),
            });
        }
    };
    match lists::for_each_element(list, openshift::MEMBERS, visit) {
        Ok(json::Kind::List) => found,
        // CSV-79 reports it.
        _ => Vec::new(),
    }
}

fn read_value(part: &JsonSpan, text: &str, may_be_olm: bool) -> Value {
    match part.text(text) {
        // OLM removes the quotes around the JSON, so it also reads a number.
        _ if may_be_olm => Value::Text(part.raw(text).trim_matches('"').to_owned()),
        Some(value) => Value::Text(value.into_owned()),
        None => Value::Other(part.raw(text).to_owned()),
    }
}

/// The first two such properties in a list of a document.
pub(crate) fn read_document(document: &Document, list: &str, place: &str) -> Vec<MaximumProperty> {
    let rows = document.rows(list, &["/type"]);
    let is_maximum = |row: &opgate_sdk::Row<'_>| row.text(0) == Some(openshift::PROPERTY);
    let indexes = rows.iter().enumerate().filter(|(_, row)| is_maximum(row)).take(2);
    let found = indexes.map(|(index, _)| {
        let pointer = format!("{list}/{index}/value");
        let is_short = document.size(&pointer).is_some_and(|size| size <= MAX_VALUE_BYTES);
        let value = match document.kind(&pointer) {
            Kind::Missing => None,
            Kind::Text if is_short => Some(Value::Text(document.text_or_empty(&pointer))),
            _ if is_short => {
                let raw = document.raw(&pointer).unwrap_or_default();
                Some(Value::Other(String::from_utf8_lossy(&raw).into_owned()))
            }
            _ => Some(Value::Other("…".to_owned())),
        };
        MaximumProperty { field: format!("{place}[{index}]"), value }
    });
    found.collect()
}

/// Reports invalid properties outside of ClusterServiceVersions, in the list at a pointer of a document.
pub(crate) fn report_invalid(
    found: &[MaximumProperty],
    document: &Document,
    list: &str,
    report: &mut Report<'_>,
) {
    for (level, field, message) in find_violations(found) {
        let index = field.strip_suffix("].value").and_then(|field| field.rsplit_once('['));
        let pointer = index.map(|(_, index)| format!("{list}/{index}/value"));
        match level {
            Some(level) => report.add_as(level, &CSV_80, field, message),
            None => report.add(&CSV_80, field, message),
        }
        report.set_fix(&CSV_80, || {
            let pointer = pointer?;
            let number = ScalarText::read(document, &pointer)?;
            let is_version = Version::parse_tolerant(&number.text).is_ok();
            is_version.then(|| number.fix(&pointer))
        });
    }
}

fn find_violations(found: &[MaximumProperty]) -> Vec<Violation> {
    let [first, more @ ..] = found else { return Vec::new() };
    let mut violations: Vec<_> =
        first.value.iter().filter_map(|v| value_error(&first.field, v)).collect();
    if let [second, ..] = more {
        let message = "more than one olm.maxOpenShiftVersion property".to_owned();
        violations.push((None, second.field.clone(), message));
    }
    violations
}

fn value_error(property: &str, value: &Value) -> Option<Violation> {
    let at = format!("{property}.value");
    let (text, hint) = match value {
        Value::Text(text) => (text, ""),
        Value::Other(json) => (json, "; write it as a string"),
    };
    let version = Version::parse_tolerant(text).ok().filter(|_| !text.trim().is_empty());
    match (value, version) {
        (Value::Text(_), Some(version)) => {
            truncation_error(text, &version).map(|message| (Some(Level::Warn), at, message))
        }
        (_, version) => {
            let shown = quote(&shorten(text, MAX_SHOWN_BYTES));
            let hint = if version.is_some() { hint } else { "" };
            let message =
                format!("olm.maxOpenShiftVersion value {shown} is not a cluster version{hint}");
            Some((None, at, message))
        }
    }
}

/// The warning for more than a major and a minor number, with upstream's text.
fn truncation_error(value: &str, version: &Version) -> Option<String> {
    let Version { major, minor, patch, pre, .. } = version;
    if *patch == 0 && pre.is_empty() {
        return None;
    }
    let mut shown = format!("{major}.{minor}.{patch}");
    for (index, identifier) in pre.iter().enumerate() {
        shown.push(if index == 0 { '-' } else { '.' });
        match identifier {
            Identifier::Number(number) => shown.push_str(&number.to_string()),
            Identifier::Text(text) => shown.push_str(text),
        }
    }
    if let Some((_, build)) = value.trim_end().split_once('+') {
        shown.push('+');
        shown.push_str(build);
    }
    let shown = shorten(&shown, MAX_SHOWN_BYTES);
    Some(format!(
        "csv.Annotations.olm.properties has an invalid value. olm.maxOpenShiftVersion must specify \
         only major.minor versions, {shown} will be truncated to {major}.{minor}.0"
    ))
}
