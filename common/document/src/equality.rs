//! Equality of values, see [`crate::equal`]. Recursion is bounded by [`crate::MAX_DEPTH`], the cost
//! by the size of both values.

use std::cmp::Ordering;

use crate::node::Content;
use crate::{Kind, Value};

/// Bytes that are compared in the time of a unit of work.
const BYTES_PER_UNIT: usize = 128;

/// Number of comparisons of all bytes, before lists and objects are only compared by their parts. Otherwise
/// deeply nested bytes would be compared once for each level.
const MAX_BYTE_PASSES: usize = 8;

pub(crate) fn equal(left: Option<Value<'_>>, right: Option<Value<'_>>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => {
            let mut bytes = left.size().min(right.size()).saturating_mul(MAX_BYTE_PASSES);
            equal_values(left, right, &mut bytes)
        }
        (Some(value), None) | (None, Some(value)) => is_empty_value(value),
        (None, None) => true,
    }
}

/// Reports whether a value is decoded like a missing one, for every type.
fn is_empty_value(value: Value<'_>) -> bool {
    match value.content() {
        Content::Null => true,
        Content::List(items) => items.is_empty(),
        _ => false,
    }
}

/// Reports whether the bytes are equal. Most comparisons are between two copies of one text, as in an UPDATE
/// of something else, and most parts of two texts that differ are copies.
fn compare_bytes(left: Value<'_>, right: Value<'_>, bytes: &mut usize) -> bool {
    let size = left.size();
    if size != right.size() {
        return false;
    }
    let Some(rest) = bytes.checked_sub(size) else { return false };
    *bytes = rest;
    left.spend_units(size / BYTES_PER_UNIT) && left.raw() == right.raw()
}

fn equal_values(left: Value<'_>, right: Value<'_>, bytes: &mut usize) -> bool {
    if !left.spend(2) || !right.spend(2) {
        // The caller ignores the result.
        return false;
    }
    if compare_bytes(left, right, bytes) {
        return true;
    }
    match (left.kind(), right.kind()) {
        (Kind::Object, Kind::Object) => equal_members(left, right, bytes),
        (Kind::List, Kind::List) => {
            left.length() == right.length()
                && left.items().zip(right.items()).all(|(l, r)| equal_values(l, r, bytes))
        }
        (Kind::Text, Kind::Text) => {
            let units = left.size().min(right.size()) / BYTES_PER_UNIT;
            left.spend_units(units) && left.text() == right.text()
        }
        (Kind::Number, Kind::Number) => {
            // Numbers may have millions of digits, of which each is read.
            let digits = left.size().saturating_add(right.size());
            left.spend_units(digits) && equal_numbers(left, right)
        }
        (Kind::Boolean, Kind::Boolean) => left.boolean() == right.boolean(),
        _ => is_empty_value(left) && is_empty_value(right),
    }
}

fn equal_numbers(left: Value<'_>, right: Value<'_>) -> bool {
    match (left.integer(), right.integer()) {
        (None, None) => left.number() == right.number(),
        (left, right) => left == right,
    }
}

/// Compares two sorted lists of members in one pass.
fn equal_members(left: Value<'_>, right: Value<'_>, bytes: &mut usize) -> bool {
    let mut lefts = left.members().peekable();
    let mut rights = right.members().peekable();
    loop {
        let order = match (lefts.peek(), rights.peek()) {
            (None, None) => return true,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((l, _)), Some((r, _))) => l.cmp(r),
        };
        let left = if order.is_le() { lefts.next().map(|(_, value)| value) } else { None };
        let right = if order.is_ge() { rights.next().map(|(_, value)| value) } else { None };
        let are_same = match (left, right) {
            (Some(left), Some(right)) => equal_values(left, right, bytes),
            (left, right) => left.or(right).is_none_or(is_empty_value),
        };
        if !are_same {
            return false;
        }
    }
}
