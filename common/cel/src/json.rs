//! Properties as an expression sees them: a list of maps with `type` and `value`.
//!
//! Values are those that Go decodes from their JSON: every number is a double. A property whose value is no
//! JSON leaves an empty map, as in OLM.

use opgate_compat::json::{Index, Kind, ReadOptions, Tree};

use super::value::{MAX_LEVELS, TooDeep, Value};

/// Levels of a property's value: it stands in a map, and that in the list of all.
const MAX_PROPERTY_LEVELS: usize = MAX_LEVELS - 2;

/// Returns the list of all properties, by their types and the texts of their values.
pub(super) fn properties<'p>(
    all: impl Iterator<Item = (&'p str, &'p [u8])>,
) -> Result<Value, TooDeep> {
    let mut list = Vec::new();
    for (kind, text) in all {
        let entries = match decode(text)? {
            Some(value) => {
                vec![(Value::text("type"), Value::text(kind)), (Value::text("value"), value)]
            }
            None => Vec::new(),
        };
        list.push(Value::map(entries)?);
    }
    Value::list(list)
}

/// Returns a value, if the text is one.
fn decode(text: &[u8]) -> Result<Option<Value>, TooDeep> {
    match Tree::parse(text, ReadOptions { max_depth: MAX_PROPERTY_LEVELS, allow_trailing: false }) {
        Ok(tree) => convert(&tree, 0),
        Err(error) if error.is_too_deep() => Err(TooDeep),
        Err(_) => Ok(None),
    }
}

/// Converts a value with all nested values; `None` if a number is too large for a double.
fn convert(tree: &Tree<'_>, index: Index) -> Result<Option<Value>, TooDeep> {
    Ok(Some(match tree.kind(index) {
        Kind::Null => Value::Null,
        Kind::Boolean => Value::Bool(tree.raw(index) == b"true"),
        Kind::Number => {
            let text = std::str::from_utf8(tree.raw(index)).unwrap_or_default();
            match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Value::Double(number),
                _ => return Ok(None),
            }
        }
        Kind::Text => Value::Text(tree.text(index).unwrap_or_default().into()),
        Kind::List => {
            let mut items = Vec::new();
            for child in tree.children(index) {
                let Some(item) = convert(tree, child)? else { return Ok(None) };
                items.push(item);
            }
            Value::list(items)?
        }
        Kind::Object => {
            let mut entries = Vec::new();
            for child in tree.children(index) {
                let Some(item) = convert(tree, child)? else { return Ok(None) };
                entries.push((Value::text(&tree.key(child)), item));
            }
            Value::map(entries)?
        }
    }))
}
