//! The tree over a text: where each value stands, and what it is once somebody has looked.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use serde::de::{Deserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A value: its place in the text and, after the first look, its content.
pub(crate) struct Node {
    start: u32,
    end: u32,
    content: OnceLock<Content>,
}

pub(crate) enum Content {
    Null,
    Boolean(bool),
    Number,
    /// The text without its escapes; `None` where it has none and the text itself serves.
    Text(Option<Box<str>>),
    List(Box<[Node]>),
    /// Sorted by name, each name once.
    Object(Box<[Member]>),
}

pub(crate) struct Member {
    name: Name,
    pub(crate) value: Node,
}

enum Name {
    /// Place in the text, without the quotes.
    Plain(u32, u32),
    Unescaped(Box<str>),
}

impl Member {
    pub(crate) fn name<'t>(&'t self, text: &'t str) -> &'t str {
        match &self.name {
            Name::Plain(start, end) => slice(text, *start, *end),
            Name::Unescaped(name) => name,
        }
    }
}

fn slice(text: &str, start: u32, end: u32) -> &str {
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    range.and_then(|(start, end)| text.get(start..end)).unwrap_or_default()
}

impl Node {
    /// A node for a range of the text, white space around the value left out.
    pub(crate) fn trimmed(text: &str, range: Range<usize>) -> Self {
        let part = text.get(range.clone()).unwrap_or_default();
        let leading = part.len() - part.trim_ascii_start().len();
        let start = range.start.saturating_add(leading);
        Self::at(start, start.saturating_add(part.trim_ascii().len()))
    }

    /// Offsets beyond 4 GiB do not occur (the largest body is far below); they would read as null.
    fn at(start: usize, end: usize) -> Self {
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(start), Ok(end)) => Self { start, end, content: OnceLock::new() },
            _ => Self { start: 0, end: 0, content: OnceLock::new() },
        }
    }

    pub(crate) fn text<'t>(&self, text: &'t str) -> &'t str {
        slice(text, self.start, self.end)
    }

    /// The text between the quotes, where this is a string without escapes.
    pub(crate) fn unquoted<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.text(text).strip_prefix('"')?.strip_suffix('"')
    }

    pub(crate) fn content(&self, text: &str) -> &Content {
        self.content.get_or_init(|| self.read(text))
    }

    fn read(&self, text: &str) -> Content {
        let json = self.text(text);
        match json.as_bytes().first() {
            Some(b'{') => Content::Object(members(text, json)),
            Some(b'[') => Content::List(items(text, json)),
            Some(b'"') if !json.contains('\\') => Content::Text(None),
            Some(b'"') => Content::Text(Some(unescape(json))),
            Some(b't') => Content::Boolean(true),
            Some(b'f') => Content::Boolean(false),
            Some(b'-' | b'0'..=b'9') => Content::Number,
            _ => Content::Null,
        }
    }
}

/// Where `part`, a slice of `text`, stands in it.
fn place(text: &str, part: &str) -> (usize, usize) {
    let start = part.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
    (start, start.wrapping_add(part.len()))
}

fn node_at(text: &str, part: &str) -> Node {
    let (start, end) = place(text, part);
    Node::at(start, end)
}

struct Items<'t>(&'t str);

impl<'de> Visitor<'de> for Items<'de> {
    type Value = Vec<Node>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(raw) = seq.next_element::<&'de RawValue>()? {
            nodes.push(node_at(self.0, raw.get()));
        }
        Ok(nodes)
    }
}

fn items(text: &str, json: &str) -> Box<[Node]> {
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.deserialize_seq(Items(text)).unwrap_or_default().into_boxed_slice()
}

struct Members<'t>(&'t str);

impl<'de> Visitor<'de> for Members<'de> {
    type Value = Vec<Member>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((RawKey(key), raw)) = map.next_entry::<RawKey<'de>, &'de RawValue>()? {
            let name = match key {
                Cow::Borrowed(plain) => {
                    let (start, end) = place(self.0, plain);
                    match (u32::try_from(start), u32::try_from(end)) {
                        (Ok(start), Ok(end)) => Name::Plain(start, end),
                        _ => Name::Unescaped(plain.into()),
                    }
                }
                Cow::Owned(unescaped) => Name::Unescaped(unescaped.into()),
            };
            members.push(Member { name, value: node_at(self.0, raw.get()) });
        }
        Ok(members)
    }
}

fn members(text: &str, json: &str) -> Box<[Member]> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let mut members = reader.deserialize_map(Members(text)).unwrap_or_default();
    if !members.is_sorted_by(|a, b| a.name(text) < b.name(text)) {
        // The sort is stable, so of several members of one name the last one written is the last
        // of its run; reversed before removing duplicates, it is the one that stays.
        members.sort_by(|a, b| a.name(text).cmp(b.name(text)));
        members.reverse();
        members.dedup_by(|a, b| a.name(text) == b.name(text));
        members.reverse();
    }
    members.into_boxed_slice()
}

/// A member's name. Read as bytes, because serde_json refuses lone surrogates in text only.
struct RawKey<'de>(Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for RawKey<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(LossyText).map(RawKey)
    }
}

struct LossyText;

impl<'de> Visitor<'de> for LossyText {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(String::from_utf8_lossy(bytes))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(Cow::Owned(String::from_utf8_lossy(bytes).into_owned()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}

fn unescape(json: &str) -> Box<str> {
    let mut reader = serde_json::Deserializer::from_str(json);
    reader.deserialize_bytes(LossyText).unwrap_or_default().into()
}

/// The whole number that a JSON number stands for, if it is one and fits.
pub(crate) fn integer(json: &str) -> Option<i64> {
    if let Ok(value) = json.parse() {
        return Some(value);
    }
    let value: f64 = json.parse().ok()?;
    // Beyond 2^53 a double no longer tells neighbours apart, so that `1e30` is not taken for one.
    let exact = value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0;
    if exact { format!("{value:.0}").parse().ok() } else { None }
}
