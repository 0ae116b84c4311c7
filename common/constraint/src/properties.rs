//! Lists of properties, `[{"type": …, "value": …}]`, as annotations and install plans carry them.
//!
//! They are read from raw text in one pass, without keeping any of it: a list may have a million
//! entries, and a value may nest as deep as it likes.

use std::ops::Range;

use crate::checks::{Check, Violation};
use crate::constraint::{self, Options, Report};
use opgate_compat::go::{folds_to, quote, shorten};
use opgate_compat::json::{self, Child, Kind};
use opgate_compat::range;

/// The reason why a text is no list of properties, in the words of Go's decoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PropertiesError(String);

/// Encoding of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListFormat {
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

const WRAPPER_GO_TYPE: &str =
    r#"struct { Properties []projection.property "json:\"properties\"" }"#;

/// Calls `visit` with each property that has a type or a value, in order. Members that are no part
/// of a property do not count.
///
/// # Errors
/// Fails with the error of Go's decoder, without the surrounding text. If the text is JSON, valid properties
/// were visited.
pub fn each(
    json: &[u8],
    form: ListFormat,
    mut visit: impl FnMut(Property<'_>),
) -> Result<(), PropertiesError> {
    let mut listing = PropertyScanner::of(json, form);
    json::read(json, json::ReadOptions::WHOLE, &mut listing)
        .map_err(|error| PropertiesError(error.to_string()))?;
    let outermost = json::kind(json).unwrap_or(Kind::Null);
    let target = match form {
        ListFormat::Wrapped if !matches!(outermost, Kind::Object | Kind::Null) => {
            let word = outermost.go_name();
            return Err(PropertiesError(format!(
                "json: cannot unmarshal {word} into Go value of type {WRAPPER_GO_TYPE}"
            )));
        }
        ListFormat::Wrapped => "Go struct field .properties of type ",
        ListFormat::Bare => "Go value of type ",
    };
    if !matches!(listing.kind, Kind::List | Kind::Null) {
        let word = listing.kind.go_name();
        return Err(PropertiesError(format!(
            "json: cannot unmarshal {word} into {target}[]projection.property"
        )));
    }
    for PropertySpan { index, kind, value } in listing.items {
        let kind = json::decode_text(json.get(kind).unwrap_or_default());
        let value = json.get(value).unwrap_or_default();
        visit(Property { index, kind: &kind, value });
    }
    match listing.error {
        None => Ok(()),
        Some((ElementError::Item, kind)) => {
            let word = kind.go_name();
            Err(PropertiesError(format!(
                "json: cannot unmarshal {word} into {target}projection.property"
            )))
        }
        Some((ElementError::Type, kind)) => Err(PropertiesError(format!(
            "json: cannot unmarshal {} into Go struct field property.properties.type of type string",
            kind.go_name()
        ))),
    }
}

/// Positions of the parts of a property in the text; empty for missing ones.
#[derive(Debug, Default)]
struct PropertySpan {
    index: usize,
    kind: Range<usize>,
    value: Range<usize>,
}

/// Reasons why an element is not a property.
#[derive(Debug, Clone, Copy)]
enum ElementError {
    /// An element that is not an object.
    Item,
    /// A type that is not a string.
    Type,
}

/// Member of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PropertyMember {
    Type,
    Value,
}

/// Finds the properties while the text is read, so that it is read once. Of members of one name the
/// last counts.
#[derive(Debug)]
struct PropertyScanner<'j> {
    json: &'j [u8],
    /// Lists and objects that are open around the list of properties.
    level: usize,
    /// Number of open levels.
    depth: usize,
    /// Type of the list; none before its start.
    kind: Kind,
    /// Whether the value that comes next, or is open, is the list.
    is_list: bool,
    /// Elements of the list so far.
    count: usize,
    item: PropertySpan,
    /// JSON type of the open property's `type`.
    kind_of_type: Kind,
    member: Option<PropertyMember>,
    start: usize,
    items: Vec<PropertySpan>,
    /// The first thing that is wrong, and what it is.
    error: Option<(ElementError, Kind)>,
}

impl<'j> PropertyScanner<'j> {
    fn of(json: &'j [u8], form: ListFormat) -> Self {
        Self {
            json,
            level: usize::from(form == ListFormat::Wrapped),
            depth: 0,
            kind: Kind::Null,
            is_list: form == ListFormat::Bare,
            count: 0,
            item: PropertySpan::default(),
            kind_of_type: Kind::Null,
            member: None,
            start: 0,
            items: Vec::new(),
            error: None,
        }
    }

    /// Handles the start of a value.
    fn begin(&mut self, kind: Kind, at: usize) {
        match self.depth.checked_sub(self.level) {
            Some(0) if self.is_list => {
                (self.kind, self.count, self.error) = (kind, 0, None);
                self.items.clear();
            }
            Some(1) if self.is_list && self.kind == Kind::List => {
                self.item = PropertySpan { index: self.count, ..PropertySpan::default() };
                self.kind_of_type = Kind::Null;
                self.count += 1;
                if !matches!(kind, Kind::Object | Kind::Null) {
                    self.error.get_or_insert((ElementError::Item, kind));
                }
            }
            Some(2) if self.member.is_some() => {
                self.start = at;
                // As in Go, null leaves the type unchanged.
                if self.member == Some(PropertyMember::Type) && kind != Kind::Null {
                    self.kind_of_type = kind;
                }
            }
            _ => {}
        }
    }

    /// Handles the end of a value.
    fn end(&mut self, kind: Kind, end: usize) {
        match self.depth.checked_sub(self.level) {
            Some(0) => self.is_list = self.level == 0,
            Some(1) if self.is_list && self.kind == Kind::List && kind == Kind::Object => {
                let item = std::mem::take(&mut self.item);
                if !matches!(self.kind_of_type, Kind::Text | Kind::Null) {
                    self.error.get_or_insert((ElementError::Type, self.kind_of_type));
                } else if !item.kind.is_empty() || !item.value.is_empty() {
                    self.items.push(item);
                }
            }
            Some(2) => match self.member.take() {
                Some(PropertyMember::Type) if kind != Kind::Null => {
                    self.item.kind = self.start..end;
                }
                Some(PropertyMember::Value) => self.item.value = self.start..end,
                _ => {}
            },
            _ => {}
        }
    }
}

impl json::Sink for PropertyScanner<'_> {
    fn key(&mut self, key: Range<usize>) {
        let named = |name: &str| {
            let key = self.json.get(key.clone()).unwrap_or_default();
            let key = json::decode_text(key);
            key == name || folds_to(&key, name)
        };
        match self.depth.checked_sub(self.level) {
            Some(0) => self.is_list = named("properties"),
            Some(2) if self.is_list && self.kind == Kind::List => {
                self.member = if named("type") {
                    Some(PropertyMember::Type)
                } else {
                    named("value").then_some(PropertyMember::Value)
                };
            }
            _ => {}
        }
    }
    fn open(&mut self, kind: Kind, at: usize) {
        self.begin(kind, at);
        self.depth += 1;
    }
    fn close(&mut self, kind: Kind, end: usize) {
        self.depth -= 1;
        self.end(kind, end);
    }
    fn scalar(&mut self, kind: Kind, range: Range<usize>) {
        self.begin(kind, range.start);
        self.end(kind, range.end);
    }
}

/// Reports whether Go decodes a member into this field.
fn is_field(child: &Child<'_>, field: &str) -> bool {
    child.key.is_some_and(|key| folds_to(&json::decode_text(key), field))
}

/// Returns the last member of this name, which is the one that counts.
fn last_child<'j>(
    json: &'j [u8],
    wanted: impl Fn(Child<'j>) -> bool,
) -> Result<Option<Child<'j>>, PropertiesError> {
    let mut found = None;
    let visited = json::each_child(json, |child| {
        if wanted(child) {
            found = Some(child);
        }
    });
    visited.map_err(|error| PropertiesError(error.to_string()))?;
    Ok(found)
}

/// The Go types into which the values of older properties are read.
const PACKAGE_GO_TYPE: &str = r#"struct { PackageName string "json:\"packageName\""; VersionRange string "json:\"versionRange\"" }"#;
const GVK_GO_TYPE: &str = r#"struct { Group string "json:\"group\""; Version string "json:\"version\""; Kind string "json:\"kind\"" }"#;
const LABEL_GO_TYPE: &str = r#"struct { Label string "json:\"label\"" }"#;

/// Checks the value of a property; returns no violation if OLM ignores its type.
#[must_use]
pub fn check(property: Property<'_>, options: &Options) -> Report {
    let value = property.value;
    let violations: Vec<_> = match property.kind {
        "olm.constraint" => return constraint::check(value, options),
        "olm.package.required" => package(value, options),
        "olm.gvk.required" => {
            fields(value, GVK_GO_TYPE, &["group", "version", "kind"]).err().into_iter().collect()
        }
        "olm.label.required" => {
            fields(value, LABEL_GO_TYPE, &["label"]).err().into_iter().collect()
        }
        _ => Vec::new(),
    };
    violations.into()
}

/// Returns the texts of an object, as `json.Unmarshal` reads them; empty ones if missing.
fn fields<const N: usize>(
    value: &[u8],
    of: &str,
    names: &[&'static str; N],
) -> Result<[String; N], Violation> {
    let wrong = |error: String| Violation::new(Check::Required, "", error);
    json::check(value, json::ReadOptions::WHOLE).map_err(|error| wrong(error.to_string()))?;
    let kind = json::kind(value).unwrap_or(Kind::Null);
    if !matches!(kind, Kind::Object | Kind::Null) {
        let word = kind.go_name();
        return Err(wrong(format!("json: cannot unmarshal {word} into Go value of type {of}")));
    }
    let mut texts = [const { String::new() }; N];
    for (text, name) in texts.iter_mut().zip(names) {
        let found = last_child(value, |child| is_field(&child, name) && child.kind != Kind::Null);
        let Some(found) = found.map_err(|error| wrong(error.to_string()))? else { continue };
        if found.kind != Kind::Text {
            let word = found.kind.go_name();
            let error = format!(
                "json: cannot unmarshal {word} into Go struct field .{name} of type string"
            );
            return Err(Violation::new(Check::Required, &format!("/{name}"), error));
        }
        *text = json::text(found.raw);
    }
    Ok(texts)
}

fn package(value: &[u8], options: &Options) -> Vec<Violation> {
    let [name, range] = match fields(value, PACKAGE_GO_TYPE, &["packageName", "versionRange"]) {
        Ok(texts) => texts,
        Err(finding) => return vec![finding],
    };
    let mut violations = Vec::new();
    match range::Range::parse(&range) {
        Ok(parsed) => {
            check_range(&name, &range, &parsed, options.advice, "/versionRange", &mut violations);
        }
        Err(error) => {
            violations.push(Violation::new(Check::Required, "/versionRange", error.to_string()));
        }
    }
    violations
}

/// Checks a valid range: returns its meaning and, if `advice` is set, recommendations for its bounds.
pub fn check_range(
    name: &str,
    text: &str,
    range: &range::Range,
    advice: bool,
    pointer: &str,
    violations: &mut Vec<Violation>,
) {
    let surprise = constraint::range_warning(text, range);
    violations
        .extend(surprise.map(|message| Violation::new(Check::RangeMeaning, pointer, message)));
    if advice {
        let advice = constraint::range_recommendations(name, range).into_iter();
        violations.extend(advice.map(|(check, message)| Violation::new(check, pointer, message)));
    }
}

/// Returns the name of a property's type, for messages.
#[must_use]
pub fn format_type(kind: &str) -> String {
    quote(&shorten(kind, 64))
}
