//! Values that a recording must not have, by JSON pointers.
//!
//! `*` stands for every member of an object, or every element of a list. What is at a pointer becomes the text
//! `redacted`. An object in which something was replaced is written again: its members are sorted.

use serde_json::Value;

/// Maximum number of pointers, and of parts of one.
const MAX_POINTERS: usize = 64;
const MAX_PARTS: usize = 32;

const REDACTED: &str = "redacted";

/// A pointer that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedactionError {
    /// It is no JSON pointer.
    #[error("{0:?} is not a JSON pointer into objects: write it as /spec/containers/*/env/*/value")]
    Pointer(String),
    /// There are too many.
    #[error("more than {MAX_POINTERS} pointers")]
    Count,
}

/// The values to replace.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    pointers: Vec<Vec<String>>,
}

impl Redaction {
    /// Values at these pointers.
    ///
    /// # Errors
    /// The pointer that cannot be used.
    pub fn of(pointers: &[String]) -> Result<Self, RedactionError> {
        if pointers.len() > MAX_POINTERS {
            return Err(RedactionError::Count);
        }
        let parts = |pointer: &String| {
            let error = || RedactionError::Pointer(pointer.clone());
            let parts = pointer.strip_prefix('/').filter(|rest| !rest.is_empty());
            let parts = parts.ok_or_else(error)?.split('/');
            let parts: Vec<_> =
                parts.map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
            if parts.len() > MAX_PARTS { Err(error()) } else { Ok(parts) }
        };
        Ok(Self { pointers: pointers.iter().map(parts).collect::<Result<_, _>>()? })
    }

    /// Whether there are values to replace.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pointers.is_empty()
    }

    /// Replaces the values in an object. `None` if it has none of them. An object that cannot be read is replaced as
    /// a whole: it nests deeper than 127 levels, or has a text that is not Unicode.
    #[must_use]
    pub fn apply(&self, object: &str) -> Option<String> {
        if self.pointers.is_empty() {
            return None;
        }
        let Ok(mut value) = serde_json::from_str::<Value>(object) else {
            return Some(Value::String(REDACTED.to_owned()).to_string());
        };
        let replaced = self.pointers.iter().filter(|parts| replace(&mut value, parts)).count();
        (replaced > 0).then(|| value.to_string())
    }
}

/// Replaces what the parts lead to. The depth is that of the pointer.
fn replace(value: &mut Value, parts: &[String]) -> bool {
    let Some((first, rest)) = parts.split_first() else {
        let is_new = value.as_str() != Some(REDACTED);
        *value = Value::String(REDACTED.to_owned());
        return is_new;
    };
    let mut found = false;
    match value {
        Value::Object(members) if first == "*" => {
            for member in members.values_mut() {
                found |= replace(member, rest);
            }
        }
        Value::Array(elements) if first == "*" => {
            for element in elements {
                found |= replace(element, rest);
            }
        }
        Value::Object(members) => {
            found = members.get_mut(first).is_some_and(|member| replace(member, rest));
        }
        Value::Array(elements) => {
            let element = first.parse::<usize>().ok().and_then(|index| elements.get_mut(index));
            found = element.is_some_and(|element| replace(element, rest));
        }
        _ => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_pointers_are_replaced() {
        let object = r#"{"spec":{"env":[{"name":"A","value":"x"},{"name":"B"}],"a/b":{"k":1}}}"#;
        for (pointers, expected) in [
            (&["/spec/env/*/value"][..], Some(r#"{"name":"A","value":"redacted"}"#)),
            (&["/spec/env/1/name"], Some(r#"{"name":"redacted"}"#)),
            (&["/spec/a~1b"], Some(r#""a/b":"redacted""#)),
            (&["/spec/*/k"], Some(r#""a/b":{"k":"redacted"}"#)),
            (&["/spec/missing", "/spec/env/7/value"], None),
            (&[], None),
        ] {
            let pointers: Vec<_> = pointers.iter().map(|&p| p.to_owned()).collect();
            let found = Redaction::of(&pointers).unwrap().apply(object);
            match (found, expected) {
                (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
                (found, expected) => assert_eq!(found.as_deref(), expected),
            }
        }
    }

    #[test]
    fn object_that_cannot_be_read_is_replaced() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for object in [
            format!(r#"{{"spec":{{"env":"x"}},"status":{deep}}}"#),
            r#"{"spec":{"env":"x"},"status":"\ud800"}"#.to_owned(),
        ] {
            let redaction = Redaction::of(&["/spec/env".to_owned()]).unwrap();
            assert_eq!(redaction.apply(&object).as_deref(), Some(r#""redacted""#));
            assert_eq!(Redaction::default().apply(&object), None);
        }
    }

    #[test]
    fn text_that_is_no_pointer_is_an_error() {
        for pointer in ["", "/", "spec", "metadata.name"] {
            let error = Redaction::of(&[pointer.to_owned()]).unwrap_err();
            assert_eq!(error, RedactionError::Pointer(pointer.to_owned()));
        }
        let many: Vec<_> = (0..=MAX_POINTERS).map(|n| format!("/{n}")).collect();
        assert_eq!(Redaction::of(&many).unwrap_err(), RedactionError::Count);
    }
}
