//! JSON values in messages: as Go prints them, and as an API server complains about their types.

use crate::{Document, Kind, escape};

/// Maximum depth, and maximum number, of the values that are written out.
const MAX_DEPTH: u32 = 4;
const MAX_VALUES: u32 = 16;
/// Bytes of a JSON pointer. The host takes no longer ones, and a member may have any name.
const MAX_POINTER_BYTES: usize = 4 << 10;

/// Returns a value as `%v` writes it, or as `%t` does, which is meant for booleans and complains about the
/// rest.
#[must_use]
pub fn format_value(document: &Document, pointer: &str, as_boolean: bool) -> String {
    let mut text = String::new();
    write(document, pointer, as_boolean, MAX_DEPTH, &mut text);
    text
}

/// Returns the error of an API server for a value of the wrong type, if there is one: `spec.a: Invalid value:
/// "integer": spec.a in body must be of type string: "integer"`.
#[must_use]
pub fn wrong_type(document: &Document, pointer: &str, field: &str, expected: &str) -> String {
    let is_whole = |number: f64| number.fract() == 0.0;
    let found = match document.kind(pointer) {
        Kind::Boolean => "boolean",
        Kind::Number if document.number(pointer).is_some_and(is_whole) => "integer",
        Kind::Number => "number",
        Kind::Text => "string",
        Kind::List => "array",
        Kind::Object => "object",
        Kind::Missing | Kind::Null => "null",
    };
    format!(
        "{field}: Invalid value: \"{found}\": {field} in body must be of type {expected}: \"{found}\""
    )
}

fn write(document: &Document, pointer: &str, as_boolean: bool, depth: u32, out: &mut String) {
    let plain = |go_type: &str, text: &str| {
        if as_boolean { format!("%!t({go_type}={text})") } else { text.to_owned() }
    };
    match document.kind(pointer) {
        Kind::Missing | Kind::Null => {
            out.push_str(if as_boolean { "%!t(<nil>)" } else { "<nil>" });
        }
        Kind::Boolean => {
            let value = document.boolean(pointer).unwrap_or_default();
            out.push_str(if value { "true" } else { "false" });
        }
        Kind::Number => {
            let number = document.number(pointer).unwrap_or_default();
            out.push_str(&plain("float64", &number.to_string()));
        }
        Kind::Text => out.push_str(&plain("string", &document.text_or_empty(pointer))),
        Kind::List | Kind::Object if depth == 0 => out.push('…'),
        Kind::List => {
            out.push('[');
            let length = document.length(pointer).unwrap_or_default();
            for index in 0..length.min(MAX_VALUES) {
                if index > 0 {
                    out.push(' ');
                }
                write(document, &format!("{pointer}/{index}"), as_boolean, depth - 1, out);
            }
            if length > MAX_VALUES {
                out.push_str(" …");
            }
            out.push(']');
        }
        Kind::Object => {
            out.push_str("map[");
            let length = document.length(pointer).unwrap_or_default();
            // The names of very many members are not read.
            let keys = if length > MAX_VALUES { Vec::new() } else { document.keys(pointer) };
            for (index, key) in keys.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(&plain("string", key));
                out.push(':');
                let at = format!("{pointer}/{}", escape(key));
                if at.len() > MAX_POINTER_BYTES {
                    out.push('…');
                } else {
                    write(document, &at, as_boolean, depth - 1, out);
                }
            }
            if length > MAX_VALUES {
                out.push('…');
            }
            out.push(']');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_in_schemas() {
        for (json, found) in [
            ("true", "boolean"),
            ("1.0", "integer"),
            ("1.5", "number"),
            ("\"\"", "string"),
            ("[]", "array"),
            ("{}", "object"),
            ("null", "null"),
        ] {
            let expected =
                format!("a: Invalid value: \"{found}\": a in body must be of type x: \"{found}\"");
            let document = Document::parse(json).unwrap();
            assert_eq!(wrong_type(&document, "", "a", "x"), expected);
        }
    }

    #[test]
    fn values_of_the_wrong_type() {
        for (json, boolean, plain) in [
            ("5", "%!t(float64=5)", "5"),
            ("2.7", "%!t(float64=2.7)", "2.7"),
            ("true", "true", "true"),
            ("null", "%!t(<nil>)", "<nil>"),
            (r#"["a", 1]"#, "[%!t(string=a) %!t(float64=1)]", "[a 1]"),
            (r#"{"a": false}"#, "map[%!t(string=a):false]", "map[a:false]"),
            ("[[[[[[1]]]]]]", "[[[[…]]]]", "[[[[…]]]]"),
        ] {
            let document = Document::parse(json).unwrap();
            assert_eq!(format_value(&document, "", true), boolean);
            assert_eq!(format_value(&document, "", false), plain);
        }
    }

    #[test]
    fn members_with_names_too_long_for_a_pointer_are_not_asked_for() {
        let name = "~".repeat(2_100);
        let document = Document::parse(&format!(r#"{{"{name}": 1, "a": 2}}"#)).unwrap();
        let text = format_value(&document, "", false);
        assert!(text.contains("a:2") && text.contains("~:…"), "{text}");
    }
}
