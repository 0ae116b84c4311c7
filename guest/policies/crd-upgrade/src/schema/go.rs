//! JSON and numbers in the notation of Go.
//!
//! The API server decodes JSON in a schema and encodes it again: names in order, no white space,
//! the shortest numbers. Files can have another notation, and must produce the same texts.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::ops::Range;

use opgate_compat::json::{self, Kind, ReadOptions, Sink};

/// A number in a schema.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) enum Number {
    /// `int64`
    Whole(i64),
    /// `float64`
    Float(f64),
}

impl Number {
    pub(crate) fn of(raw: &[u8], is_integer: bool) -> Option<Self> {
        let text = str::from_utf8(raw).ok()?;
        if is_integer {
            text.parse().ok().map(Self::Whole)
        } else {
            text.parse().ok().map(Self::Float)
        }
    }
}

/// `%v`
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let float = match self {
            Self::Whole(whole) => return write!(f, "{whole}"),
            Self::Float(float) => *float,
        };
        let size = float.abs();
        if size == 0.0 || (1e-4..1e6).contains(&size) {
            write!(f, "{float}")
        } else {
            f.write_str(&format_scientific(float, 2))
        }
    }
}

/// Go writes a sign in every exponent, and at least this number of digits.
fn format_scientific(float: f64, digits: usize) -> String {
    let text = format!("{float:e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{mantissa}e{sign}{exponent:0>digits$}")
}

/// The number of a JSON text as `json.Marshal` writes it.
fn marshal_text(text: &str) -> Cow<'_, str> {
    if text != "-0" && (text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok()) {
        return text.into();
    }
    let Ok(float) = text.parse::<f64>() else { return text.into() };
    let size = float.abs();
    if !float.is_finite() {
        text.into()
    } else if size == 0.0 || (1e-6..1e21).contains(&size) {
        float.to_string().into()
    } else {
        format_scientific(float, 1).into()
    }
}

/// Whether a text without escapes has no characters that Go escapes.
fn is_plain(inner: &[u8]) -> bool {
    !inner.iter().any(|byte| matches!(byte, b'\\' | b'<' | b'>' | b'&' | 0x7f..))
}

fn push_text(text: &str, into: &mut String) {
    into.push('"');
    for c in text.chars() {
        match c {
            '"' => into.push_str("\\\""),
            '\\' => into.push_str("\\\\"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\t' => into.push_str("\\t"),
            '\u{8}' => into.push_str("\\b"),
            '\u{c}' => into.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                // Writing to a String does not fail.
                let _ = write!(into, "\\u{:04x}", u32::from(c));
            }
            c => into.push(c),
        }
    }
    into.push('"');
}

/// The members of an object that are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberFilter {
    All,
    /// Without members whose value is `null`, an empty text or an empty list.
    Fields,
}

/// The size in bytes above which a value is copied unchanged.
const MAX_FORMATTED_BYTES: usize = 64 << 10;

/// A value as `json.Marshal` writes it. A very long value is copied unchanged: a message only shows
/// the start of it, and the API server already writes it in this notation.
pub(crate) fn marshal_json(raw: &[u8]) -> Cow<'_, str> {
    let inner = raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\""));
    match (json::kind(raw), inner, str::from_utf8(raw)) {
        (_, _, Ok(text)) if raw.len() > MAX_FORMATTED_BYTES => text.into(),
        (Some(Kind::Text), Some(inner), Ok(text)) if is_plain(inner) => text.into(),
        (Some(Kind::Number), _, Ok(text)) => marshal_text(text),
        (Some(Kind::Boolean | Kind::Null), _, Ok(text)) => text.into(),
        _ => write_value(raw, MemberFilter::All).into(),
    }
}

/// A value of a struct with texts and pointers, as `json.Marshal` writes it: fields without a value
/// are omitted.
pub(crate) fn marshal_fields(raw: &[u8]) -> String {
    write_value(raw, MemberFilter::Fields)
}

/// Writes a value while it is read.
struct Writer<'j> {
    raw: &'j [u8],
    text: String,
    member_filter: MemberFilter,
    open: Vec<OpenValue>,
    /// Members of all objects that are open.
    members: Vec<Member<'j>>,
    /// The remaining number of bytes to sort. Nested objects in the wrong order would be written
    /// once for each level.
    remaining_bytes: usize,
}

/// An object or list that is open.
struct OpenValue {
    is_object: bool,
    is_sorted: bool,
    /// Whether it has an element or a member.
    has_content: bool,
    /// Members below this index belong to other objects.
    members: usize,
}

struct Member<'j> {
    name: Cow<'j, str>,
    /// The offset of its text, and of the comma before it.
    start: usize,
    before: usize,
}

/// The number of times that all bytes can be sorted.
const MAX_SORT_ROUNDS: usize = 8;

fn write_value(raw: &[u8], which: MemberFilter) -> String {
    let mut writer = Writer {
        raw,
        text: String::with_capacity(raw.len()),
        member_filter: which,
        open: Vec::new(),
        members: Vec::new(),
        remaining_bytes: raw.len().saturating_mul(MAX_SORT_ROUNDS),
    };
    // It is a part of a text that was read completely.
    let _ = json::read(raw, ReadOptions::WHOLE, &mut writer);
    writer.text
}

impl Writer<'_> {
    /// Before an element or a member.
    fn begin(&mut self) {
        if let Some(level) = self.open.last_mut()
            && std::mem::replace(&mut level.has_content, true)
        {
            self.text.push(',');
        }
    }

    fn begin_element(&mut self) {
        if self.open.last().is_some_and(|level| !level.is_object) {
            self.begin();
        }
    }

    /// After a value that can be empty.
    fn end(&mut self, says_nothing: bool) {
        if !says_nothing || self.member_filter == MemberFilter::All {
            return;
        }
        if let Some(level) = self.open.last_mut().filter(|level| level.is_object)
            && let Some(member) = self.members.pop()
        {
            self.text.truncate(member.before);
            level.has_content = self.members.len() > level.members;
        }
    }

    /// Sorts the members. The last member with a name counts.
    fn sort(&mut self, level: &OpenValue) {
        let members = self.members.get(level.members..).unwrap_or_default();
        let Some(first) = members.first().map(|member| member.start) else { return };
        let size = self.text.len().saturating_sub(first);
        let Some(left) = self.remaining_bytes.checked_sub(size).filter(|_| !level.is_sorted) else {
            return;
        };
        self.remaining_bytes = left;
        let ends = members.iter().skip(1).map(|member| member.before).chain([self.text.len()]);
        let mut spans: Vec<_> = members
            .iter()
            .zip(ends)
            .map(|(member, end)| (&member.name, member.start..end))
            .collect();
        spans.sort_by(|(one, at), (two, other)| one.cmp(two).then(other.start.cmp(&at.start)));
        spans.dedup_by(|(later, _), (first, _)| later == first);
        let texts = spans.into_iter().filter_map(|(_, span)| self.text.get(span));
        let sorted = texts.collect::<Vec<_>>().join(",");
        self.text.truncate(first);
        self.text.push_str(&sorted);
    }
}

impl Sink for Writer<'_> {
    fn key(&mut self, key: Range<usize>) {
        let before = self.text.len();
        self.begin();
        let name = json::decode_text(self.raw.get(key).unwrap_or_default());
        if let Some(level) = self.open.last_mut() {
            let last = self.members.get(level.members..).and_then(<[_]>::last);
            level.is_sorted &= last.is_none_or(|last| last.name < name);
        }
        let start = self.text.len();
        push_text(&name, &mut self.text);
        self.text.push(':');
        self.members.push(Member { name, start, before });
    }

    fn open(&mut self, kind: Kind, _: usize) {
        self.begin_element();
        let is_object = kind == Kind::Object;
        self.text.push(if is_object { '{' } else { '[' });
        let members = self.members.len();
        self.open.push(OpenValue { is_object, is_sorted: true, has_content: false, members });
    }

    fn close(&mut self, kind: Kind, _: usize) {
        let Some(level) = self.open.pop() else { return };
        self.sort(&level);
        self.members.truncate(level.members);
        self.text.push(if kind == Kind::Object { '}' } else { ']' });
        self.end(kind == Kind::List && !level.has_content);
    }

    fn scalar(&mut self, kind: Kind, range: Range<usize>) {
        self.begin_element();
        let raw = self.raw.get(range).unwrap_or_default();
        match kind {
            Kind::Text => push_text(&json::decode_text(raw), &mut self.text),
            Kind::Number => self.text.push_str(&marshal_json(raw)),
            _ => self.text.push_str(&String::from_utf8_lossy(raw)),
        }
        self.end(kind == Kind::Null || raw == b"\"\"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_written_as_the_api_server_writes_it() {
        for (json, expected) in [
            (r#""a""#, r#""a""#),
            (r#""<\u0061\/é>""#, r#""\u003ca/é\u003e""#),
            (r#""\"\\\n\r\t\b\f\u0001\u2028""#, r#""\"\\\n\r\t\b\f\u0001\u2028""#),
            ("1", "1"),
            ("1.0", "1"),
            ("-0", "-0"),
            ("1e3", "1000"),
            ("1e21", "1e+21"),
            ("0.0000001", "1e-7"),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "18446744073709552000"),
            ("true", "true"),
            (r#"{ "b": [1, {"x": null}, []], "a": {} }"#, r#"{"a":{},"b":[1,{"x":null},[]]}"#),
            (
                r#"{"b":{"d":1,"c":"x"},"a":[{"d":1,"c":2}]}"#,
                r#"{"a":[{"c":2,"d":1}],"b":{"c":"x","d":1}}"#,
            ),
            (r#"{"a":1,"a":2,"<":3}"#, r#"{"\u003c":3,"a":2}"#),
        ] {
            assert_eq!(marshal_json(json.as_bytes()), expected, "{json}");
        }
    }

    #[test]
    fn empty_optional_fields_are_not_written() {
        for (json, expected) in [
            (r#"[{"a":"","b":1,"c":null,"d":[]},{"e":[]}]"#, r#"[{"b":1},{}]"#),
            (
                r#"{"b":{},"a":{"x":null},"c":false,"d":["",null]}"#,
                r#"{"a":{},"b":{},"c":false,"d":["",null]}"#,
            ),
            ("[]", "[]"),
        ] {
            assert_eq!(marshal_fields(json.as_bytes()), expected, "{json}");
        }
    }

    #[test]
    fn numbers_are_printed_as_by_go() {
        for (text, is_integer, expected) in [
            ("9", false, "9"),
            ("1.50", false, "1.5"),
            ("100000", false, "100000"),
            ("2147483647", false, "2.147483647e+09"),
            ("123456", false, "123456"),
            ("1000000", false, "1e+06"),
            ("1e20", false, "1e+20"),
            ("1e21", false, "1e+21"),
            ("0.0001", false, "0.0001"),
            ("0.00001", false, "1e-05"),
            ("-0", false, "-0"),
            ("9223372036854775807", true, "9223372036854775807"),
        ] {
            let number = Number::of(text.as_bytes(), is_integer).unwrap();
            assert_eq!(number.to_string(), expected, "{text}");
        }
        assert_eq!(Number::of(b"1.5", true), None);
    }
}
