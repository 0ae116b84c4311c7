//! YAML and the places in it: `yaml::documents`, `strict`, `read`, and `Located`.
//!
//! The oracles: what is made is JSON, and no more than was allowed; there is a place for every value,
//! inside of the text and at the start of a character; the ways to read agree; a text that is JSON
//! stays what it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opgate_fuzz::large;
use serde_json::Value;
use yaml::{Document, Words};

const ROOM: usize = 64 << 10;

fuzz_target!(|text: &str| {
    read(text);
    if let Some(large) = large(text.as_bytes(), &["", "\n", "\n---\n", " ", "\n- ", ","]) {
        read(&String::from_utf8(large).expect("whole inputs"));
    }
});

fn read(text: &str) {
    let parts = yaml::documents(text, Words::All, ROOM);
    let strict = yaml::strict(text, ROOM);
    let lenient = yaml::read(text, ROOM);
    if let (Ok(json), Some(Document::Json(lenient))) = (&strict, &lenient) {
        assert_eq!(json, lenient);
    }
    let Ok(parts) = parts else { return };
    let first = strict.expect("all documents can be read");
    let first: Value = serde_json::from_slice(&first).expect("JSON");
    if !first.is_null() {
        let part = parts.first().expect("it is not empty");
        assert_eq!(first, serde_json::from_str::<Value>(&part.json).expect("JSON"));
    }
    for part in &parts {
        assert!(part.json.len() <= ROOM + 6 * text.len(), "more than was allowed");
        let value: Value = serde_json::from_str(&part.json).expect("JSON");
        assert_eq!(part.places.len(), 1 + children(&value), "{value}");
        for place in &part.places {
            let place = usize::try_from(*place).expect("a place");
            assert!(text.is_char_boundary(place), "{place} in {text:?}");
        }
    }
    if let [part] = parts.as_slice()
        && let Ok(value) = serde_json::from_str::<Value>(&part.json)
    {
        let mut pointers = vec![String::new()];
        all(&value, "", &mut pointers);
        let lines = u64::try_from(text.matches('\n').count()).expect("lines") + 1;
        for (line, column) in opgate::fuzzing::located(text, &pointers).unwrap_or_default() {
            assert!((1..=lines).contains(&line) && column > 0, "{line}:{column}");
        }
    }
}

/// Members and elements, at any depth.
fn children(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(|item| 1 + children(item)).sum(),
        Value::Object(members) => members.values().map(|item| 1 + children(item)).sum(),
        _ => 0,
    }
}

fn all(value: &Value, at: &str, pointers: &mut Vec<String>) {
    let mut add = |name: &str, value: &Value| {
        let pointer = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
        pointers.push(pointer.clone());
        all(value, &pointer, pointers);
    };
    match value {
        Value::Array(items) => items.iter().enumerate().for_each(|(i, v)| add(&i.to_string(), v)),
        Value::Object(members) => members.iter().for_each(|(name, v)| add(name, v)),
        _ => {}
    }
}
