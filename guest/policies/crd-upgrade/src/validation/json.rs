//! JSON as values: schemas and objects.
//!
//! ```text
//! text ─▶ opgate_compat::json, one pass ─▶ Json, members sorted by name
//! ```
//!
//! Numbers are those of Kubernetes: integers that fit into 64 bits, and floats.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use opgate_compat::json::{self, Kind, ReadOptions, Sink};
use opgate_sdk::Document;

/// The maximum number of levels. Real schemas have about 60, and the functions that walk over them
/// are recursive.
const MAX_DEPTH: usize = 256;
/// The host passes no more than 4 MiB at once.
const MAX_BYTES: u32 = 4_000_000;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json<'j> {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(Cow<'j, str>),
    List(Vec<Self>),
    /// Sorted by name, in byte order.
    Object(Vec<(Cow<'j, str>, Self)>),
}

/// The text of a part of a document, if it can be read.
pub(crate) fn read_raw(document: &Document, pointer: &str) -> Option<Vec<u8>> {
    document.size(pointer).filter(|size| *size <= MAX_BYTES)?;
    document.raw(pointer)
}

impl<'j> Json<'j> {
    /// Reads a text. `None` if it is not JSON or too deep.
    pub(crate) fn parse(text: &'j [u8]) -> Option<Self> {
        let mut builder = Builder { text, open: Vec::new(), key: None, root: None };
        let reading = ReadOptions { max_depth: MAX_DEPTH, allow_trailing: false };
        json::read(text, reading, &mut builder).ok()?;
        builder.root
    }

    /// A member of an object. `null` counts as missing.
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        self.member_or_null(name).filter(|value| **value != Self::Null)
    }

    /// A member of an object, including `null`.
    pub(crate) fn member_or_null(&self, name: &str) -> Option<&Self> {
        let members = self.members();
        let at = members.binary_search_by(|(known, _)| known.as_ref().cmp(name)).ok()?;
        members.get(at).map(|(_, value)| value)
    }

    pub(crate) fn members(&self) -> &[(Cow<'j, str>, Self)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_true(&self) -> bool {
        *self == Self::Boolean(true)
    }

    /// A number in the type of the fields of a schema.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(super::float::to_f64(*number)),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// A total order, for values that must differ.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Boolean(left), Self::Boolean(right)) => left.cmp(right),
            (Self::Integer(left), Self::Integer(right)) => left.cmp(right),
            (Self::Float(left), Self::Float(right)) => left.total_cmp(right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            (Self::List(left), Self::List(right)) => {
                let pairs = left.iter().zip(right).map(|(left, right)| left.order(right));
                first_unequal(pairs).then_with(|| left.len().cmp(&right.len()))
            }
            (Self::Object(left), Self::Object(right)) => {
                let pairs = left.iter().zip(right).map(|((name, value), (named, other))| {
                    name.cmp(named).then_with(|| value.order(other))
                });
                first_unequal(pairs).then_with(|| left.len().cmp(&right.len()))
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Boolean(_) => 1,
            Self::Integer(_) => 2,
            Self::Float(_) => 3,
            Self::Text(_) => 4,
            Self::List(_) => 5,
            Self::Object(_) => 6,
        }
    }
}

fn first_unequal(mut pairs: impl Iterator<Item = Ordering>) -> Ordering {
    pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Builds values while a text is read.
struct Builder<'j> {
    text: &'j [u8],
    /// The open lists and objects, each with its key in the parent.
    open: Vec<(Option<Cow<'j, str>>, Json<'j>)>,
    key: Option<Cow<'j, str>>,
    root: Option<Json<'j>>,
}

impl<'j> Builder<'j> {
    fn slice(&self, range: Range<usize>) -> &'j [u8] {
        self.text.get(range).unwrap_or_default()
    }

    fn push(&mut self, key: Option<Cow<'j, str>>, value: Json<'j>) {
        match self.open.last_mut() {
            Some((_, Json::List(items))) => items.push(value),
            Some((_, Json::Object(members))) => members.push((key.unwrap_or_default(), value)),
            _ => self.root = Some(value),
        }
    }
}

impl Sink for Builder<'_> {
    fn key(&mut self, key: Range<usize>) {
        self.key = Some(json::decode_text(self.slice(key)));
    }

    fn open(&mut self, kind: Kind, _: usize) {
        let value =
            if kind == Kind::Object { Json::Object(Vec::new()) } else { Json::List(Vec::new()) };
        self.open.push((self.key.take(), value));
    }

    fn close(&mut self, _: Kind, _: usize) {
        let Some((key, mut value)) = self.open.pop() else { return };
        if let Json::Object(members) = &mut value {
            sort(members);
        }
        self.push(key, value);
    }

    fn scalar(&mut self, kind: Kind, range: Range<usize>) {
        let key = self.key.take();
        let raw = self.slice(range);
        let value = match kind {
            Kind::Boolean => Json::Boolean(raw.starts_with(b"t")),
            Kind::Number => number(raw),
            Kind::Text => Json::Text(json::decode_text(raw)),
            _ => Json::Null,
        };
        self.push(key, value);
    }
}

/// The last member with a name counts.
fn sort(members: &mut Vec<(Cow<'_, str>, Json<'_>)>) {
    if members.is_sorted_by(|(left, _), (right, _)| left < right) {
        return;
    }
    members.reverse();
    members.sort_by(|(left, _), (right, _)| left.cmp(right));
    members.dedup_by(|(left, _), (right, _)| left == right);
}

fn number(raw: &[u8]) -> Json<'static> {
    let text = std::str::from_utf8(raw).unwrap_or_default();
    let integer = if text.contains(['.', 'e', 'E']) { None } else { text.parse().ok() };
    integer.map_or_else(|| Json::Float(text.parse().unwrap_or_default()), Json::Integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_members_are_those_of_kubernetes() {
        let text = br#"{"b": 1, "a": [1.0, 9223372036854775808, -1, 1e2], "b": {"x": null}}"#;
        let json = Json::parse(text).unwrap();
        let numbers = [
            Json::Float(1.0),
            Json::Float(9_223_372_036_854_775_808.0),
            Json::Integer(-1),
            Json::Float(100.0),
        ];
        assert_eq!(json.member("a").unwrap().items(), numbers);
        let last = json.member("b").unwrap();
        assert_eq!((last.member("x"), last.member_or_null("x")), (None, Some(&Json::Null)));
        assert_eq!(json.members().len(), 2);
    }

    #[test]
    fn json_beyond_the_depth_limit_is_rejected() {
        let nested = |levels: usize| [vec![b'['; levels], vec![b']'; levels]].concat();
        assert!(Json::parse(&nested(MAX_DEPTH)).is_some());
        assert!(Json::parse(&nested(MAX_DEPTH + 1)).is_none());
    }

    #[test]
    fn the_order_is_that_of_the_values() {
        let texts = [
            "null",
            "false",
            "true",
            "1",
            "2",
            "1.0",
            r#""a""#,
            r#""b""#,
            "[]",
            "[1]",
            "[1,1]",
            "[2]",
            "{}",
            r#"{"a":1}"#,
            r#"{"a":2}"#,
            r#"{"b":1}"#,
        ];
        let values: Vec<_> = texts.iter().map(|t| Json::parse(t.as_bytes()).unwrap()).collect();
        for (at, left) in values.iter().enumerate() {
            for (other, right) in values.iter().enumerate() {
                assert_eq!(left.order(right), at.cmp(&other), "{left:?} {right:?}");
            }
        }
    }
}
