//! A random edit of a document.

use opgate_edit::{Edit, escape};
use serde_json::Value;

use crate::choices::Choices;

const VALUES: &[&str] = &[
    "\"x\"",
    "1",
    "null",
    "\"some words\"",
    "\"yes\"",
    "\"1_000\"",
    "\"a: b\"",
    "\"a # b\"",
    "\" lead\"",
    "\"trail \"",
    "\"\"",
    "\"first\\nsecond\"",
    "\"first\\nsecond\\n\"",
    "\"trailing  \\n\\nspaces \\n\"",
    "\"\\n\"",
    "\"  lead\\nx\\n\"",
    "\"\\nlead\\n\\n\"",
    "\"a\\tb\"",
    "\"\\u2028\\u007f\\u0085\"",
    "\"a\\r\\nb\\n\"",
    "\"'\\\"\\\\\"",
    "\"- a\"",
    "\"---\"",
    "\"[a, b]\"",
    "\"a?b,c:d\"",
    "\"ü\"",
    "false",
    "1.50",
    "{}",
    "[]",
    "[\"a\", {\"b\": \"c\", \"d\": [1, []]}]",
    "{\"a\": {\"b\": [\"c\"]}, \"yes\": \"no\"}",
    "{\"a\": \"first\\nsecond\\n\", \"b\": \"x\"}",
];
const NAMES: &[&str] = &["new", "new.name/x", "yes", "a: b", "1", "", "#x", "<<", "? x"];

/// Makes an edit that fits a document.
pub(crate) fn edit(choices: &mut Choices<'_>, document: &Value) -> Edit {
    let mut places = Vec::new();
    add_places(document, String::new(), &mut places);
    let (pointer, value) = places[choices.pick(places.len() * 7) % places.len()].clone();
    let new = choices.of(VALUES).to_owned();
    let name = choices.of(NAMES).to_owned();
    match (choices.pick(6), value) {
        (0 | 1, Value::Object(_) | Value::Null) => {
            let nested = if choices.one_in(4) { "/deep" } else { "" };
            let pointer = format!("{pointer}/{}{nested}", escape(&name));
            Edit::Set { pointer, value: new }
        }
        (0 | 1, Value::Array(list)) => {
            let index = choices.pick(list.len() + 2);
            let index = if index > list.len() { "-".to_owned() } else { index.to_string() };
            Edit::Insert { pointer: format!("{pointer}/{index}"), value: new }
        }
        (2 | 3, _) if !pointer.is_empty() => Edit::Remove { pointer },
        (4, _) if !pointer.is_empty() && !ends_with_index(&pointer, document) => {
            Edit::RenameKey { pointer, name }
        }
        _ if pointer.is_empty() && !choices.one_in(8) => {
            Edit::Set { pointer: format!("/{}", escape(&name)), value: new }
        }
        _ => Edit::Set { pointer, value: new },
    }
}

fn ends_with_index(pointer: &str, document: &Value) -> bool {
    let around = pointer.rsplit_once('/').and_then(|(around, _)| document.pointer(around));
    around.is_some_and(Value::is_array)
}

fn add_places(value: &Value, pointer: String, places: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                add_places(member, format!("{pointer}/{}", escape(name)), places);
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                add_places(element, format!("{pointer}/{index}"), places);
            }
        }
        _ => {}
    }
    places.push((pointer, value.clone()));
}
