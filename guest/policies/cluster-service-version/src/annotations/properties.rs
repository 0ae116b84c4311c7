//! Annotations that hold lists: of strings, and of properties.

use opgate_sdk::go::{quote, shortened};
use opgate_sdk::{Document, Kind, Level, Row, Rows, rule, rules};
use opgate_upstream::json::{self, Reading};
use opgate_upstream::version::{Identifier, Version};

use super::{SHOWN, field, list, openshift, raw};
use crate::csv::Csv;
use crate::targets::{CATALOG, CSV};

rules![CSV_78, CSV_79, CSV_80];

const STRINGS: [&str; 2] = [
    "operators.openshift.io/valid-subscription",
    "operators.operatorframework.io/internal-objects",
];
const PROPERTIES: &str = "olm.properties";

pub(super) fn judge(csv: &mut Csv<'_, '_>) {
    for name in STRINGS {
        strings(csv, name);
    }
    properties(csv);
}

rule! {
    /// subscriptions and internal objects are lists of strings
    ///
    /// The annotations `operators.openshift.io/valid-subscription` and
    /// `operators.operatorframework.io/internal-objects` are JSON arrays of strings. What the
    /// strings say is free. Copies are exempt. An UPDATE is judged by the annotation.
    ///
    /// # Why
    ///
    /// The console ignores what it cannot read: it shows no subscription, and offers the internal
    /// definitions to users.
    ///
    /// # Repair
    ///
    /// Write a JSON array, also for one string.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// operators.operatorframework.io/internal-objects: '["my.internal.crd1.io"]'
    /// operators.openshift.io/valid-subscription: '["3Scale Commercial License"]'
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// operators.operatorframework.io/internal-objects: '"a"'
    /// ```
    ///
    /// `message: annotation operators.operatorframework.io/internal-objects is not a JSON array of
    /// strings`
    CSV_78: Warn {
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: "OCP 4.12 L19440-19453, L19473-19490, L20785-20810; \
                 OCP 4.15 L14410-14430, L15216-15342",
    }
}

fn strings(csv: &mut Csv<'_, '_>, name: &str) {
    let Some(text) = csv.annotation(name) else { return };
    if !csv.touches_annotation(name) {
        return;
    }
    let wrong = match list(&text) {
        Some((_, rows)) => {
            let index = rows.iter().position(|row| row.kind(0) != Kind::Text);
            index.map(|index| format!("{}[{index}]", field(name)))
        }
        None => Some(field(name)),
    };
    if let Some(wrong) = wrong {
        csv.add(&CSV_78, &wrong, format!("annotation {name} is not a JSON array of strings"));
    }
}

rule! {
    /// olm.properties is a list of properties
    ///
    /// The annotation `olm.properties` is a JSON array. Each element is an object with `type`, a
    /// string that is not empty, and `value`. Names of members are compared with case. Copies are
    /// exempt. An UPDATE is judged by the annotation. `CON-17` judges the same annotation as OLM's
    /// resolver reads it, which does not need a `value`.
    ///
    /// # Why
    ///
    /// Catalogs cannot add a bundle whose properties they cannot read. A property without a value
    /// has no effect, for example an `olm.maxOpenShiftVersion` that stops no update.
    ///
    /// # Repair
    ///
    /// Write a JSON array of objects with `type` and `value`, also for one property.
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
    /// olm.properties: '{"type": "olm.maxOpenShiftVersion"}'
    /// ```
    ///
    /// `message: olm.properties annotation is not a JSON array of type/value objects: it is an
    /// object`
    CSV_79: Deny {
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: "OCP 4.12 L21700-21721; OCP 4.15 L15828-15843",
    }
}

fn properties(csv: &mut Csv<'_, '_>) {
    let Some(text) = csv.annotation(PROPERTIES) else { return };
    if !csv.touches_annotation(PROPERTIES) {
        return;
    }
    let list = match Document::parse(&text) {
        Ok(list) => list,
        Err(why) => {
            // Go's words, unless the host is stricter.
            let error = json::check(text.as_bytes(), Reading::WHOLE).err();
            return wrong(csv, "", &error.map_or(why, |error| error.to_string()));
        }
    };
    let kind = list.kind("");
    if kind != Kind::List {
        return wrong(csv, "", is_a(kind));
    }
    let rows = openshift::properties(&list, "");
    for (index, row) in rows.iter().enumerate() {
        let why = match (row.kind(0), row.text(0), row.kind(1)) {
            (Kind::Missing, ..) => {
                let kind = list.kind(&format!("/{index}"));
                if kind == Kind::Object { "it has no type" } else { is_a(kind) }
            }
            (Kind::Text, Some(""), _) => "its type is empty",
            (Kind::Text, _, Kind::Missing) => "it has no value",
            (Kind::Text, ..) => continue,
            _ => "its type is not a string",
        };
        // One is enough: the list cannot be read.
        wrong(csv, &format!("[{index}]"), why);
        break;
    }
    maximum(csv, &list, &rows);
}

fn wrong(csv: &mut Csv<'_, '_>, place: &str, why: &str) {
    let at = if place.is_empty() { String::new() } else { format!("element {place}: ") };
    let message =
        format!("olm.properties annotation is not a JSON array of type/value objects: {at}{why}");
    csv.add(&CSV_79, &format!("{}{place}", field(PROPERTIES)), message);
}

fn is_a(kind: Kind) -> &'static str {
    match kind {
        Kind::Missing | Kind::Null => "it is null",
        Kind::Boolean => "it is a boolean",
        Kind::Number => "it is a number",
        Kind::Text => "it is a string",
        Kind::List => "it is an array",
        Kind::Object => "it is an object",
    }
}

rule! {
    /// the last supported OpenShift version is a version, and there is one
    ///
    /// The value of a property `olm.maxOpenShiftVersion` in the annotation `olm.properties` is a
    /// string that OLM can read as a version: `4.9`, `4.13.0`, `v4.9`. There is at most one such
    /// property. A version with another patch number than 0, or a pre-release, only warns, as the
    /// validators of operator-framework/api do, because only major and minor number count. Copies
    /// are exempt. An UPDATE is judged by the annotation.
    ///
    /// # Why
    ///
    /// OLM stops updates of the cluster that the installed Operator does not support. With a value
    /// that it cannot read it stops every update to another minor version.
    ///
    /// # Repair
    ///
    /// Write the last supported version as a string, such as `"4.9"`, in one property.
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
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: "OCP 4.12 L21700-21721; OCP 4.15 L15828-15874; \
                 api pkg/validation/internal/community.go",
    }
}

fn maximum(csv: &mut Csv<'_, '_>, list: &Document, rows: &Rows) {
    let is_maximum = |row: &Row<'_>| row.text(0) == Some(openshift::PROPERTY);
    let mut maxima = rows.iter().enumerate().filter(|(_, row)| is_maximum(row));
    let Some((index, row)) = maxima.next() else { return };
    let at = format!("{}[{index}].value", field(PROPERTIES));
    let text = row.text(1).map_or_else(|| raw(list, &format!("/{index}/value")), str::to_owned);
    let is_version = row.kind(1) == Kind::Text && !text.trim().is_empty();
    if let Some(version) = Version::parse_tolerant(&text).ok().filter(|_| is_version) {
        truncated(csv, &at, &text, &version);
    } else {
        let shown = quote(&shortened(&text, SHOWN));
        let message = format!("olm.maxOpenShiftVersion value {shown} is not a cluster version");
        csv.add(&CSV_80, &at, message);
    }
    if let Some((index, _)) = maxima.next() {
        let message = "more than one olm.maxOpenShiftVersion property";
        csv.add(&CSV_80, &format!("{}[{index}]", field(PROPERTIES)), message);
    }
}

/// Warns about more than a major and a minor number, in upstream's words.
fn truncated(csv: &mut Csv<'_, '_>, at: &str, value: &str, version: &Version) {
    let Version { major, minor, patch, pre, .. } = version;
    if *patch == 0 && pre.is_empty() {
        return;
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
    let shown = shortened(&shown, SHOWN);
    let message = format!(
        "csv.Annotations.olm.properties has an invalid value. olm.maxOpenShiftVersion must specify \
         only major.minor versions, {shown} will be truncated to {major}.{minor}.0"
    );
    csv.add_as(Level::Warn, &CSV_80, at, message);
}
