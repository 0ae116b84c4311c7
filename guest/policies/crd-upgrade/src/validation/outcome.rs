//! The result of validation: errors with the messages of Kubernetes, and the path to a value.

use std::fmt::{self, Write as _};

use opgate_sdk::go::{quote, shorten};

use super::json::Json;

/// The maximum number of errors. A message shows fewer.
const MAX_ERRORS: usize = 64;
/// The maximum size of a value or a path in a message, in bytes.
const MAX_SHOWN_BYTES: usize = 1_000;

/// The result of the validation of one value.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The errors, each in the notation of a field error of Kubernetes.
    pub(super) errors: Vec<String>,
    /// Successful checks: if several schemas all fail, upstream shows the schema with most
    /// successful checks.
    pub(super) matches: usize,
    /// Whether it only counts as valid because a check was not possible.
    pub(super) is_doubtful: bool,
}

impl Outcome {
    pub(super) fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    /// Whether further errors would be dropped.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    /// Not evaluated.
    pub(super) fn doubtful() -> Self {
        Self { is_doubtful: true, ..Self::default() }
    }

    fn push(&mut self, error: String) {
        if !self.is_full() && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.matches = self.matches.saturating_add(other.matches);
        self.is_doubtful |= other.is_doubtful;
        for error in other.errors {
            self.push(error);
        }
    }

    /// An error of the whole object: upstream omits the field.
    pub(super) fn add_whole(&mut self, why: &str) {
        self.push(format!("[]: Invalid value: \"\": {why}"));
    }

    /// An error of a value that is already printed.
    pub(super) fn add_invalid(&mut self, path: &Path<'_>, value: &str, why: &str) {
        self.push(format!("{}: Invalid value: {value}: {why}", path.field()));
    }

    /// An error with its kind: `Required value`, `Too long: …`.
    pub(super) fn add(&mut self, path: &Path<'_>, body: &str) {
        self.push(format!("{}: {body}", path.field()));
    }

    /// An error of the type.
    pub(super) fn add_type(&mut self, path: &Path<'_>, wanted: &str, found: &str) {
        let found = quote(&shorten(found, MAX_SHOWN_BYTES));
        self.add_invalid(
            path,
            &found,
            &format!("{path} in body must be of type {wanted}: {found}"),
        );
    }

    /// All errors, in the notation of an aggregate.
    pub(super) fn text(&self) -> Option<String> {
        match self.errors.as_slice() {
            [] => None,
            [error] => Some(error.clone()),
            errors => Some(format!("[{}]", errors.join(", "))),
        }
    }
}

/// The path to a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Path<'p> {
    Root,
    /// A property of the schema.
    Property(&'p Self, &'p str),
    /// Any other member. At the root, upstream writes a dot before these.
    Member(&'p Self, &'p str),
    Item(&'p Self, usize),
}

impl Path<'_> {
    /// The notation of field errors of Kubernetes, with `[]` for the root.
    fn field(&self) -> String {
        let path = self.to_string();
        let path = path.strip_prefix('.').unwrap_or(&path);
        if path.is_empty() { "[]".to_owned() } else { format!("[].{path}") }
    }

    fn write(&self, text: &mut String) {
        match self {
            Self::Root => {}
            Self::Property(parent, name) | Self::Member(parent, name) => {
                parent.write(text);
                if !text.is_empty() || matches!(self, Self::Member(..)) {
                    text.push('.');
                }
                text.push_str(&shorten(name, MAX_SHOWN_BYTES));
            }
            Self::Item(parent, index) => {
                parent.write(text);
                text.push('[');
                text.push_str(&index.to_string());
                text.push(']');
            }
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text);
        f.write_str(&shorten(&text, MAX_SHOWN_BYTES))
    }
}

/// A text as `%q` prints it, shortened.
pub(super) fn quoted(text: &str) -> String {
    quote(&shorten(text, MAX_SHOWN_BYTES))
}

/// A value in the notation of field errors: numbers and booleans plain, texts quoted, other values
/// as JSON.
pub(super) fn format_value(value: &Json<'_>) -> String {
    match value {
        Json::Float(number) => opgate_compat::go::format_float(*number),
        Json::Text(text) => quoted(text),
        other => marshal_to_string(other),
    }
}

/// A value as `json.Marshal` writes it, shortened.
pub(super) fn marshal_to_string(value: &Json<'_>) -> String {
    let mut text = String::new();
    marshal(value, &mut text);
    shorten(&text, MAX_SHOWN_BYTES)
}

fn marshal(value: &Json<'_>, text: &mut String) {
    if text.len() > MAX_SHOWN_BYTES {
        return;
    }
    match value {
        Json::Null => text.push_str("null"),
        Json::Boolean(value) => text.push_str(if *value { "true" } else { "false" }),
        Json::Integer(number) => text.push_str(&number.to_string()),
        Json::Float(number) => text.push_str(&json_float(*number)),
        Json::Text(value) => marshal_text(value, text),
        Json::List(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if text.len() > MAX_SHOWN_BYTES {
                    return;
                }
                if index > 0 {
                    text.push(',');
                }
                marshal(item, text);
            }
            text.push(']');
        }
        Json::Object(members) => {
            text.push('{');
            for (index, (name, value)) in members.iter().enumerate() {
                if text.len() > MAX_SHOWN_BYTES {
                    return;
                }
                if index > 0 {
                    text.push(',');
                }
                marshal_text(name, text);
                text.push(':');
                marshal(value, text);
            }
            text.push('}');
        }
    }
}

fn json_float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        return match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}e-{exponent}"),
            None => format!("{digits}e+{exponent}"),
        };
    }
    number.to_string()
}

fn marshal_text(value: &str, text: &mut String) {
    text.push('"');
    for c in shorten(value, MAX_SHOWN_BYTES).chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '<' | '>' | '&' | '\u{0}'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                // Writing to a String does not fail.
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('"');
}
