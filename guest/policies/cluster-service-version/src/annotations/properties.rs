//! Annotations with lists of strings or of properties.

use opgate_compat::json::Kind;
use opgate_sdk::{Document, Fix, rule, rules};

use super::lists::{self, Element};
use super::{field, maximum, openshift};
use crate::csv::{Csv, annotation};
use crate::targets::{CATALOG, CSV};

rules![CSV_78, CSV_79];

const VALID_SUBSCRIPTION: &str = "operators.openshift.io/valid-subscription";
/// The annotations with a list of strings.
const STRING_LISTS: [&str; 2] =
    [VALID_SUBSCRIPTION, "operators.operatorframework.io/internal-objects"];
const PROPERTIES: &str = openshift::AUTHOR_PROPERTIES;

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    for name in STRING_LISTS {
        check_string_list(csv, name);
    }
    check_properties(csv);
    maximum::check(csv);
}

rule! {
    /// subscriptions and internal objects are lists of strings
    ///
    /// The annotations `operators.openshift.io/valid-subscription` and
    /// `operators.operatorframework.io/internal-objects` are JSON arrays of strings. The content of
    /// the strings is not checked. Copies are exempt. An UPDATE is evaluated only if it changes the
    /// annotation.
    ///
    /// # Why
    ///
    /// The console ignores unreadable values: it shows no subscription, and offers the internal
    /// definitions to users.
    ///
    /// # Remediation
    ///
    /// Write a JSON array, also for one string.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
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
        name: "string-list-annotations",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        source: [
            "OCP 4.12 L19440-19453, L19473-19490, L20785-20810",
            "OCP 4.15 L14410-14430, L15216-15342",
        ],
    }
}

fn check_string_list(csv: &mut Csv<'_, '_>, name: &str) {
    let Some(text) = csv.annotation(name) else { return };
    if !csv.touches_annotation(name) {
        return;
    }
    let mut other = None;
    let kind = lists::for_each_element(&text, [], |element| {
        if element.part.kind != Kind::Text {
            other.get_or_insert(element.index);
        }
    });
    let wrong = match (&kind, other) {
        (Ok(Kind::List), None) => None,
        (Ok(Kind::List), Some(index)) => Some(format!("{}[{index}]", field(name))),
        _ => Some(field(name)),
    };
    if let Some(wrong) = wrong {
        csv.add(&CSV_78, &wrong, format!("annotation {name} is not a JSON array of strings"));
        csv.fix(&CSV_78, || {
            let plain = text.trim();
            let is_word =
                !plain.is_empty() && !plain.contains(['[', ']', '{', '}', '"', ',', '\\']);
            let json = match kind {
                Ok(Kind::Text) => Some(format!("[{plain}]")),
                Err(_) if is_word => Some(format!("[\"{plain}\"]")),
                _ => None,
            };
            // It often says in words that no subscription is needed.
            let is_prose = kind.is_err() && name == VALID_SUBSCRIPTION;
            let title = "write a JSON array";
            let fix = if is_prose { Fix::needs_review(title) } else { Fix::safe(title) };
            json.filter(|json| Document::parse(json).is_ok())
                .map(|json| fix.set_text(annotation(name), &json))
        });
    }
}

rule! {
    /// olm.properties is a list of properties
    ///
    /// The annotation `olm.properties` is a JSON array. Each element is an object with `type`, a
    /// string that is not empty, and `value`. Names of members are case-sensitive. Copies are
    /// exempt. An UPDATE is evaluated only if it changes the annotation. `CON-17` evaluates the
    /// same annotation in the way OLM's resolver reads it, which does not require a `value`.
    ///
    /// # Why
    ///
    /// A bundle with unreadable properties cannot be added to a catalog. A property without a value
    /// has no effect, for example an `olm.maxOpenShiftVersion` that stops no update.
    ///
    /// # Remediation
    ///
    /// Write a JSON array of objects with `type` and `value`, also for one property.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
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
        name: "valid-olm-properties",
        on: [CSV: Create | Update, CATALOG: Create | Update],
        denies_in: [Bundle, Manifest],
        source: ["OCP 4.12 L21700-21721", "OCP 4.15 L15828-15843"],
    }
}

fn check_properties(csv: &mut Csv<'_, '_>) {
    let Some(text) = csv.annotation(PROPERTIES) else { return };
    if !csv.touches_annotation(PROPERTIES) {
        return;
    }
    let mut not_one = None;
    let read = lists::for_each_element(&text, openshift::MEMBERS, |element| {
        if not_one.is_none() {
            not_one = property_error(&element, &text).map(|why| (element.index, why));
        }
    });
    match (read, not_one) {
        (Err(error), _) => report_invalid_property(csv, "", &error.to_string()),
        (Ok(Kind::List), None) => {}
        // One violation is enough: the list is unreadable.
        (Ok(Kind::List), Some((index, why))) => {
            report_invalid_property(csv, &format!("[{index}]"), why);
        }
        (Ok(kind), _) => {
            report_invalid_property(csv, "", type_phrase(kind));
            csv.fix(&CSV_79, || list_of_properties(&text));
        }
    }
}

/// The list with the only property of the annotation, or the list in it.
fn list_of_properties(text: &str) -> Option<Fix> {
    const MAX_BYTES: usize = 32 << 10;
    let object = (text.len() <= MAX_BYTES).then(|| Document::parse(text).ok()).flatten()?;
    let json =
        if object.length("") == Some(1) && object.kind("/properties") == opgate_sdk::Kind::List {
            String::from_utf8(object.raw("/properties")?).ok()?
        } else if object.text("/type").is_some_and(|name| !name.is_empty())
            && object.size("/value").is_some()
        {
            format!("[{}]", text.trim())
        } else {
            return None;
        };
    Some(Fix::safe("write a list of properties").set_text(annotation(PROPERTIES), &json))
}

/// The reason why an element is not a property.
fn property_error(element: &Element<2>, text: &str) -> Option<&'static str> {
    if element.part.kind != Kind::Object {
        return Some(type_phrase(element.part.kind));
    }
    match element.member(openshift::TYPE).map(|part| part.text(text)) {
        None => Some("it has no type"),
        Some(None) => Some("its type is not a string"),
        Some(Some(text)) if text.is_empty() => Some("its type is empty"),
        Some(Some(_)) if element.member(openshift::VALUE).is_none() => Some("it has no value"),
        Some(Some(_)) => None,
    }
}

fn report_invalid_property(csv: &mut Csv<'_, '_>, place: &str, why: &str) {
    let at = if place.is_empty() { String::new() } else { format!("element {place}: ") };
    let message =
        format!("olm.properties annotation is not a JSON array of type/value objects: {at}{why}");
    csv.add(&CSV_79, &format!("{}{place}", field(PROPERTIES)), message);
}

fn type_phrase(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "it is null",
        Kind::Boolean => "it is a boolean",
        Kind::Number => "it is a number",
        Kind::Text => "it is a string",
        Kind::List => "it is an array",
        Kind::Object => "it is an object",
    }
}
