//! The tree over a text: where each value stands, and what it is once somebody has looked.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use serde::de::{Deserializer as _, Visitor};

use crate::Text;
use crate::account::Charge;
use crate::counted::Counted;
use crate::scan::skip_spaces;

/// A value: its place in the text and, after the first look, what was made of it. 24 bytes, because
/// a list of a million numbers has a million of them.
pub(crate) struct Node {
    start: u32,
    end: u32,
    made: OnceLock<Box<Made>>,
}

/// What has to be made of a text and is kept.
enum Made {
    /// The text without its escapes.
    Text(Box<str>),
    List(Box<[Node]>),
    /// Sorted by name, each name once.
    Object(Box<[Member]>),
    /// There was no room for it. It reads as null, and its account is exhausted.
    Refused,
}

/// Bytes of a list or a text beside what is in it: the box that holds it and what the allocator needs
/// for two allocations.
const AROUND: usize = size_of::<Made>() + 16;

/// What a value is.
#[derive(Clone, Copy)]
pub(crate) enum Content<'n> {
    Null,
    Boolean(bool),
    Number,
    Text(&'n str),
    List(&'n [Node]),
    Object(&'n [Member]),
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

/// Up to this many members, comparing lengths first and texts then is faster than halving.
const FEW: usize = 16;

/// The position of the member of a name.
pub(crate) fn position(members: &[Member], text: &str, name: &str) -> Option<usize> {
    if members.len() <= FEW {
        return members.iter().position(|member| member.is_named(text, name));
    }
    members.binary_search_by(|member| member.name(text).cmp(name)).ok()
}

impl Member {
    fn is_named(&self, text: &str, name: &str) -> bool {
        match &self.name {
            Name::Plain(start, end) => {
                usize::try_from(end - start) == Ok(name.len()) && slice(text, *start, *end) == name
            }
            Name::Unescaped(unescaped) => **unescaped == *name,
        }
    }

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
            (Ok(start), Ok(end)) => Self { start, end, made: OnceLock::new() },
            _ => Self { start: 0, end: 0, made: OnceLock::new() },
        }
    }

    pub(crate) fn text<'t>(&self, text: &'t str) -> &'t str {
        slice(text, self.start, self.end)
    }

    /// Where it starts.
    pub(crate) fn start(&self) -> u32 {
        self.start
    }

    /// Where it stands.
    pub(crate) fn range(&self) -> Range<usize> {
        let number = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX);
        number(self.start)..number(self.end)
    }

    /// What is here; what is made for it is charged.
    pub(crate) fn content<'n>(&'n self, text: &'n Text, charge: &Charge) -> Content<'n> {
        let json = self.text(text);
        let plain = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        match (json.as_bytes().first(), plain) {
            (_, Some(plain)) if memchr::memchr(b'\\', plain.as_bytes()).is_none() => {
                Content::Text(plain)
            }
            (Some(b'{' | b'[' | b'"'), _) => {
                match &**self.made.get_or_init(|| Box::new(self.make(text, charge))) {
                    Made::Text(unescaped) => Content::Text(unescaped),
                    Made::List(items) => Content::List(items),
                    Made::Object(members) => Content::Object(members),
                    Made::Refused => Content::Null,
                }
            }
            (Some(b't'), _) => Content::Boolean(true),
            (Some(b'f'), _) => Content::Boolean(false),
            (Some(b'-' | b'0'..=b'9'), _) => Content::Number,
            _ => Content::Null,
        }
    }

    fn make(&self, text: &Text, charge: &Charge) -> Made {
        let json = self.text(text);
        let made = match json.as_bytes().first() {
            Some(b'{') => members(text, self.start, charge).map(Made::Object),
            Some(b'[') => items(text, self.start, charge).map(Made::List),
            _ => unescaped(json, charge).map(Made::Text),
        };
        made.unwrap_or(Made::Refused)
    }
}

/// Steps through the elements or members of one level; nested values are stepped over.
struct Level<'t> {
    text: &'t Text,
    bytes: &'t [u8],
    at: usize,
}

impl<'t> Level<'t> {
    /// Inside of the bracket at `start`.
    fn inside(text: &'t Text, start: u32) -> Self {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        Self { text, bytes: text.as_bytes(), at: start.saturating_add(1) }
    }

    /// The next byte that is neither white space, comma nor colon.
    fn peek(&mut self) -> Option<u8> {
        loop {
            self.at = skip_spaces(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b',' | b':') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    /// Steps over the value that comes next; its range, or `None` at the end of the level.
    fn value(&mut self) -> Option<Range<usize>> {
        let first = self.peek()?;
        let start = self.at;
        self.at = match first {
            b'}' | b']' => return None,
            b'{' | b'[' => self.text.closing(start)?.checked_add(1)?,
            b'"' => self.text.string_end(start),
            _ => {
                let rest = self.bytes.get(start..)?;
                let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
                start + rest.iter().position(ends).unwrap_or(rest.len())
            }
        };
        Some(start..self.at)
    }
}

fn items(text: &Text, start: u32, charge: &Charge) -> Option<Box<[Node]>> {
    let mut level = Level::inside(text, start);
    let mut nodes = Counted::new(charge);
    while let Some(range) = level.value() {
        nodes.push(Node::at(range.start, range.end))?;
    }
    nodes.finish(AROUND).map(Vec::into_boxed_slice)
}

fn members(text: &Text, start: u32, charge: &Charge) -> Option<Box<[Member]>> {
    let mut level = Level::inside(text, start);
    let mut members = Counted::new(charge);
    while let Some(name) = level.value() {
        let Some(value) = level.value() else { break };
        let name = Name::of(text, name);
        let beside = name.beside();
        members.push(Member { name, value: Node::at(value.start, value.end) })?;
        if beside > 0 {
            members.beside(beside)?;
        }
    }
    if !members.items.is_sorted_by(|a, b| a.name(text) < b.name(text)) {
        // The sort is stable, so of several members of one name the last one written is the last
        // of its run; reversed before removing duplicates, it is the one that stays.
        members.sort(|members| {
            members.sort_by(|a, b| a.name(text).cmp(b.name(text)));
            members.reverse();
            members.dedup_by(|a, b| a.name(text) == b.name(text));
            members.reverse();
        })?;
    }
    members.finish(AROUND).map(Vec::into_boxed_slice)
}

/// A text without its escapes. On the way it is twice as long at the most, with room to grow and in
/// two copies.
fn unescaped(json: &str, charge: &Charge) -> Option<Box<str>> {
    const SHORT: usize = 512;
    let scratch = if json.len() > SHORT { json.len().saturating_mul(4) } else { 0 };
    if scratch > 0 && !charge.grow(scratch) {
        return None;
    }
    let text = unescape(json);
    let charged = charge.grow(text.len().saturating_add(AROUND));
    if scratch > 0 {
        charge.shrink(scratch);
    }
    charged.then_some(text)
}

impl Name {
    /// The name in a range of the text, quotes included.
    fn of(text: &str, range: Range<usize>) -> Self {
        let quoted = text.get(range.clone()).unwrap_or_default();
        let inside = (range.start.checked_add(1), range.end.checked_sub(1));
        let ends = |(start, end): (Option<usize>, Option<usize>)| {
            Some((u32::try_from(start?).ok()?, u32::try_from(end?).ok()?))
        };
        match ends(inside).filter(|_| !quoted.contains('\\')) {
            Some((start, end)) => Self::Plain(start, end),
            None => Self::Unescaped(unescape(quoted)),
        }
    }

    /// Bytes that it has elsewhere.
    fn beside(&self) -> usize {
        match self {
            Self::Plain(..) => 0,
            Self::Unescaped(name) => name.len().saturating_add(16),
        }
    }
}

/// Reads as bytes, because `serde_json` refuses lone surrogates in text only.
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

pub(crate) fn unescape(json: &str) -> Box<str> {
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
