//! Go's errors for a value of the wrong type.

use opgate_sdk::Kind;

/// The name of a type of value in errors of `encoding/json`.
pub(crate) fn go_type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Missing | Kind::Null => "null",
        Kind::Boolean => "bool",
        Kind::Number => "number",
        Kind::Text => "string",
        Kind::List => "array",
        Kind::Object => "object",
    }
}

/// The error of `encoding/json` for a field of a struct: `Channel.entries`, `[]declcfg.ChannelEntry`.
pub(crate) fn wrong_field(kind: Kind, field: &str, expected: &str) -> String {
    let noun = go_type_name(kind);
    format!("json: cannot unmarshal {noun} into Go struct field {field} of type {expected}")
}

/// The error of `encoding/json` for a whole value.
pub(crate) fn wrong_value(kind: Kind, expected: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {expected}", go_type_name(kind))
}
