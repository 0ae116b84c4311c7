//! Values of expressions: what they are, when two are the same, and which comes first.
//!
//! A value is cheap to copy: long content is shared. Lists and maps store their depth, so that every
//! traversal of a value ends within [`MAX_LEVELS`].

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::time::{Duration, Timestamp};

/// Levels of lists and maps in each other.
pub(super) const MAX_LEVELS: usize = 256;

#[derive(Debug, Clone)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Rc<str>),
    Bytes(Rc<[u8]>),
    List(Rc<List>),
    Map(Rc<Map>),
    Duration(Duration),
    Timestamp(Timestamp),
    Type(&'static str),
}

#[derive(Debug)]
pub(super) struct List {
    pub(super) items: Vec<Value>,
    levels: usize,
}

/// Entries in the order in which they came, and where each key is.
#[derive(Debug, Default)]
pub(super) struct Map {
    pub(super) entries: Vec<(Value, Value)>,
    index: BTreeMap<Key, usize>,
    levels: usize,
}

/// Key of a map. Numbers of different types are different keys, but each finds the other.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    Text(Rc<str>),
    Duration(Duration),
    Timestamp(Timestamp),
    Type(&'static str),
}

/// A value that is deeper than [`MAX_LEVELS`].
#[derive(Debug)]
pub(super) struct TooDeep;

fn levels<'v>(values: impl Iterator<Item = &'v Value>) -> Result<usize, TooDeep> {
    let deepest = values.map(Value::levels).max().unwrap_or_default() + 1;
    if deepest > MAX_LEVELS { Err(TooDeep) } else { Ok(deepest) }
}

impl Value {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn list(items: Vec<Self>) -> Result<Self, TooDeep> {
        let levels = levels(items.iter())?;
        Ok(Self::List(Rc::new(List { items, levels })))
    }

    /// Creates a map. Of duplicate keys, the last value counts. Lists and maps are keys that no lookup finds.
    pub(super) fn map(all: Vec<(Self, Self)>) -> Result<Self, TooDeep> {
        let levels = levels(all.iter().flat_map(|(key, value)| [key, value]))?;
        let mut map = Map { levels, ..Map::default() };
        for (key, value) in all {
            let place = map.entries.len();
            let known = key.key().map(|key| *map.index.entry(key).or_insert(place));
            match known.and_then(|known| map.entries.get_mut(known)) {
                Some(entry) => entry.1 = value,
                None => map.entries.push((key, value)),
            }
        }
        Ok(Self::Map(Rc::new(map)))
    }

    fn levels(&self) -> usize {
        match self {
            Self::List(list) => list.levels,
            Self::Map(map) => map.levels,
            _ => 0,
        }
    }

    /// Returns the name of its type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Type(_) => "type",
        }
    }

    fn key(&self) -> Option<Key> {
        Some(match self {
            Self::Null => Key::Null,
            Self::Bool(value) => Key::Bool(*value),
            Self::Int(value) => Key::Int(*value),
            Self::Uint(value) => Key::Uint(*value),
            // Both zeros are one key, and no NaN is.
            Self::Double(value) if !value.is_nan() => Key::Double((value + 0.0).to_bits()),
            Self::Text(text) => Key::Text(Rc::clone(text)),
            Self::Duration(span) => Key::Duration(*span),
            Self::Timestamp(stamp) => Key::Timestamp(*stamp),
            Self::Type(name) => Key::Type(name),
            _ => return None,
        })
    }

    /// Returns the order of two values of one type, or of two numbers; `None` for other values.
    pub(super) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => Some(left.cmp(right)),
            (Self::Text(left), Self::Text(right)) => Some(left.cmp(right)),
            (Self::Bytes(left), Self::Bytes(right)) => Some(left.cmp(right)),
            (Self::Duration(left), Self::Duration(right)) => Some(left.cmp(right)),
            (Self::Timestamp(left), Self::Timestamp(right)) => {
                Some(left.instant().cmp(&right.instant()))
            }
            (left, right) => left.numeric_order(right),
        }
    }

    fn numeric_order(&self, other: &Self) -> Option<Ordering> {
        let whole = |value: &Self| match value {
            Self::Int(value) => Some(i128::from(*value)),
            Self::Uint(value) => Some(i128::from(*value)),
            _ => None,
        };
        match (self, other) {
            (Self::Double(left), Self::Double(right)) => left.partial_cmp(right),
            (Self::Double(left), right) => left.partial_cmp(&right.as_double()?),
            (left, Self::Double(right)) => left.as_double()?.partial_cmp(right),
            (left, right) => Some(whole(left)?.cmp(&whole(right)?)),
        }
    }

    /// Returns a number as a double, to the nearest one.
    pub(super) fn as_double(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(nearest(value.unsigned_abs(), *value < 0)),
            Self::Uint(value) => Some(nearest(*value, false)),
            Self::Double(value) => Some(*value),
            _ => None,
        }
    }

    /// Reports whether two values are equal; numbers are compared by value, whatever their type. `spend` is
    /// called for every compared part, and can end the comparison.
    pub(super) fn equals<E>(
        &self,
        other: &Self,
        spend: &mut impl FnMut(usize) -> Result<(), E>,
    ) -> Result<bool, E> {
        spend(1)?;
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Type(left), Self::Type(right)) => left == right,
            (Self::Text(left), Self::Text(right)) => {
                spend(left.len().min(right.len()) / 16)?;
                left == right
            }
            (Self::Bytes(left), Self::Bytes(right)) => {
                spend(left.len().min(right.len()) / 16)?;
                left == right
            }
            (Self::List(left), Self::List(right)) => {
                if left.items.len() != right.items.len() {
                    return Ok(false);
                }
                for (left, right) in left.items.iter().zip(&right.items) {
                    if !left.equals(right, spend)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Self::Map(left), Self::Map(right)) => {
                if left.entries.len() != right.entries.len() {
                    return Ok(false);
                }
                for (key, value) in &left.entries {
                    let Some(found) = right.get(key) else { return Ok(false) };
                    if !value.equals(found, spend)? {
                        return Ok(false);
                    }
                }
                true
            }
            (left, right) => left.order(right) == Some(Ordering::Equal),
        })
    }
}

impl Map {
    /// Returns the value of a key.
    pub(super) fn get(&self, key: &Value) -> Option<&Value> {
        let exact = |key: &Value| {
            let place = self.index.get(&key.key()?)?;
            self.entries.get(*place).map(|(_, value)| value)
        };
        // As in cel-go, an integer of equal value finds a number.
        exact(key).or_else(|| {
            let signed = || exact(&Value::Int(key.as_int()?));
            let unsigned = || exact(&Value::Uint(u64::try_from(key.as_integral()?).ok()?));
            match key {
                Value::Double(_) => signed().or_else(unsigned),
                Value::Int(_) => unsigned(),
                Value::Uint(_) => signed(),
                _ => None,
            }
        })
    }
}

impl Value {
    /// Returns a number that is whole.
    fn as_integral(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(i128::from(*value)),
            Self::Uint(value) => Some(i128::from(*value)),
            Self::Double(value) => truncate(*value).filter(|_| value.fract() == 0.0),
            _ => None,
        }
    }

    /// Returns a whole number of 64 bits with a sign.
    pub(super) fn as_int(&self) -> Option<i64> {
        i64::try_from(self.as_integral()?).ok()
    }
}

/// The double that is nearest to a whole number.
#[allow(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "rounds to the nearest, as Go does"
)]
fn nearest(magnitude: u64, negative: bool) -> f64 {
    let value = magnitude as f64;
    if negative { -value } else { value }
}

/// A double without its fraction, within 64 bits and a sign.
#[allow(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "within the range that was checked"
)]
pub(super) fn truncate(value: f64) -> Option<i128> {
    const LIMIT: f64 = 18_446_744_073_709_551_616.0;
    (-LIMIT < value && value < LIMIT).then_some(value as i128)
}
