//! Requirements of a CRD's schema for values, with the texts of the API server. An API server has not
//! validated manifests in files yet.

use crate::go::quote;
use crate::{Document, Kind};

/// Returns a value that is missing.
#[must_use]
pub fn required_error(field: &str) -> String {
    format!("{field}: Required value")
}

/// Returns the error for a value of another type; none if it is right, or if there is no value.
#[must_use]
pub fn type_error(
    object: &Document,
    pointer: &str,
    field: &str,
    kind: Kind,
    wanted: Kind,
) -> Option<String> {
    if kind == wanted || matches!(kind, Kind::Missing | Kind::Null) {
        return None;
    }
    let is = match kind {
        Kind::Number if object.integer(pointer).is_some() => "integer",
        other => type_name(other),
    };
    let (is, wanted) = (quote(is), type_name(wanted));
    Some(format!("{field}: Invalid value: {is}: {field} in body must be of type {wanted}: {is}"))
}

fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Missing | Kind::Null => "null",
        Kind::Boolean => "boolean",
        Kind::Number => "number",
        Kind::Text => "string",
        Kind::List => "array",
        Kind::Object => "object",
    }
}
