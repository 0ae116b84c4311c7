//! Lists of properties, `[{"type": …, "value": …}]`, as annotations and install plans carry them.
//!
//! They are read from raw text without keeping any of it: a list may have a million entries, and a
//! value may nest as deep as it likes.

use crate::constraint::{self, Finding, Options};
use crate::go::{folds_to, quote, shortened};
use crate::json::{self, Child, Kind};
use crate::range::Range;

/// How a list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `{"properties": […]}`.
    Wrapped,
    /// `[…]`.
    Bare,
}

/// A property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Property<'p> {
    /// Its place in the list.
    pub index: usize,
    /// Its type.
    pub kind: &'p str,
    /// The text of its value; empty where there is none.
    pub value: &'p [u8],
}

const WRAPPER: &str = r#"struct { Properties []projection.property "json:\"properties\"" }"#;

/// Calls `visit` with each property, in order. Members that are no part of a property do not count.
///
/// # Errors
/// What Go's decoder says, without the words around it. Properties before that were visited.
pub fn each(json: &[u8], form: Form, mut visit: impl FnMut(Property<'_>)) -> Result<(), String> {
    json::check(json, json::Reading::WHOLE).map_err(|error| error.to_string())?;
    let mut list = Some((json::kind(json).unwrap_or(Kind::Null), json));
    if form == Form::Wrapped {
        let (kind, _) = list.take().unwrap_or((Kind::Null, json));
        if !matches!(kind, Kind::Object | Kind::Null) {
            let word = kind.word();
            return Err(format!("json: cannot unmarshal {word} into Go value of type {WRAPPER}"));
        }
        let take = |child: Child<'_>| named(&child, "properties");
        list = last_child(json, take)?.map(|child| (child.kind, child.raw));
    }
    let Some((kind, raw)) = list else { return Ok(()) };
    let target = match form {
        Form::Wrapped => "Go struct field .properties of type ",
        Form::Bare => "Go value of type ",
    };
    if !matches!(kind, Kind::List | Kind::Null) {
        let word = kind.word();
        return Err(format!("json: cannot unmarshal {word} into {target}[]projection.property"));
    }
    let mut index = 0;
    let mut first_error = None;
    let visited = json::each_child(raw, |item| {
        match item.kind {
            Kind::Object => match read(item.raw) {
                Ok((kind, value)) => visit(Property { index, kind: &kind, value }),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            },
            Kind::Null => {}
            other => {
                let word = other.word();
                first_error.get_or_insert_with(|| {
                    format!("json: cannot unmarshal {word} into {target}projection.property")
                });
            }
        }
        index += 1;
    });
    visited.map_err(|error| error.to_string())?;
    first_error.map_or(Ok(()), Err)
}

/// Whether Go takes a member for this field.
fn named(child: &Child<'_>, field: &str) -> bool {
    child.key.is_some_and(|key| folds_to(&json::text(key), field))
}

/// The last member that is wanted, which is the one that counts.
fn last_child<'j>(
    json: &'j [u8],
    wanted: impl Fn(Child<'j>) -> bool,
) -> Result<Option<Child<'j>>, String> {
    let mut found = None;
    let visited = json::each_child(json, |child| {
        if wanted(child) {
            found = Some(child);
        }
    });
    visited.map_err(|error| error.to_string())?;
    Ok(found)
}

fn read(item: &[u8]) -> Result<(String, &[u8]), String> {
    let kind = last_child(item, |child| named(&child, "type") && child.kind != Kind::Null)?;
    let value = last_child(item, |child| named(&child, "value"))?;
    let kind = match kind {
        None => String::new(),
        Some(kind) if kind.kind == Kind::Text => json::text(kind.raw),
        Some(kind) => {
            let word = kind.kind.word();
            return Err(format!(
                "json: cannot unmarshal {word} into Go struct field property.properties.type of type string"
            ));
        }
    };
    Ok((kind, value.map(|value| value.raw).unwrap_or_default()))
}

/// The Go types into which the values of older properties are read.
const PACKAGE: &str = r#"struct { PackageName string "json:\"packageName\""; VersionRange string "json:\"versionRange\"" }"#;
const GVK: &str = r#"struct { Group string "json:\"group\""; Version string "json:\"version\""; Kind string "json:\"kind\"" }"#;
const LABEL: &str = r#"struct { Label string "json:\"label\"" }"#;

/// What is wrong with the value of a property; nothing, where OLM does not look at its type.
#[must_use]
pub fn check(property: Property<'_>, options: &Options) -> Vec<Finding> {
    let value = property.value;
    match property.kind {
        "olm.constraint" => constraint::check(value, options).findings,
        "olm.package.required" => package(value, options),
        "olm.gvk.required" => {
            fields(value, GVK, &["group", "version", "kind"]).err().into_iter().collect()
        }
        "olm.label.required" => fields(value, LABEL, &["label"]).err().into_iter().collect(),
        _ => Vec::new(),
    }
}

fn finding(rule: &'static str, pointer: &str, message: String) -> Finding {
    Finding { rule, pointer: pointer.to_owned(), message }
}

/// The texts of an object, as `json.Unmarshal` reads them; empty ones where there are none.
fn fields<const N: usize>(
    value: &[u8],
    of: &str,
    names: &[&'static str; N],
) -> Result<[String; N], Finding> {
    let wrong = |error: String| finding("CON-18", "", error);
    json::check(value, json::Reading::WHOLE).map_err(|error| wrong(error.to_string()))?;
    let kind = json::kind(value).unwrap_or(Kind::Null);
    if !matches!(kind, Kind::Object | Kind::Null) {
        let word = kind.word();
        return Err(wrong(format!("json: cannot unmarshal {word} into Go value of type {of}")));
    }
    let mut texts = [const { String::new() }; N];
    for (text, name) in texts.iter_mut().zip(names) {
        let found = last_child(value, |child| named(&child, name) && child.kind != Kind::Null);
        let Some(found) = found.map_err(wrong)? else { continue };
        if found.kind != Kind::Text {
            let word = found.kind.word();
            let error = format!(
                "json: cannot unmarshal {word} into Go struct field .{name} of type string"
            );
            return Err(finding("CON-18", &format!("/{name}"), error));
        }
        *text = json::text(found.raw);
    }
    Ok(texts)
}

fn package(value: &[u8], options: &Options) -> Vec<Finding> {
    let [name, range] = match fields(value, PACKAGE, &["packageName", "versionRange"]) {
        Ok(texts) => texts,
        Err(finding) => return vec![finding],
    };
    let mut findings = Vec::new();
    match Range::parse(&range) {
        Ok(parsed) => {
            ranged(&name, &range, &parsed, options.advice, "/versionRange", &mut findings);
        }
        Err(error) => findings.push(finding("CON-18", "/versionRange", error)),
    }
    findings
}

/// What there is to say about a range that can be read: CON-10 and, where `advice` is wanted,
/// CON-26 and CON-27.
pub fn ranged(
    name: &str,
    text: &str,
    range: &Range,
    advice: bool,
    pointer: &str,
    findings: &mut Vec<Finding>,
) {
    findings.extend(constraint::surprise(text, range).map(|m| finding("CON-10", pointer, m)));
    if advice {
        let advice = constraint::advice(name, range).into_iter();
        findings.extend(advice.map(|(rule, message)| finding(rule, pointer, message)));
    }
}

/// The name of a property's type, for messages.
#[must_use]
pub fn shown(kind: &str) -> String {
    quote(&shortened(kind, 64))
}
