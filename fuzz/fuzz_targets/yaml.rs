//! YAML and the places in it: `opgate_yaml::documents`, `tolerant`, `strict`, `read`, and `Located`.
//!
//! The oracles: what is made is JSON, and no more than was allowed; there is a place for every value,
//! inside of the text and at the start of a character; line and column of each, which are found in one
//! pass and by blocks, are those that are counted from the start of the text; the ways to read agree. (What
//! the places are is tried by `places`.)
#![no_main]

use libfuzzer_sys::fuzz_target;
use opgate_fuzz::{Json, large, line_and_column};
use opgate_yaml::{Document, Part, Words};
use serde::de::IgnoredAny;

const ROOM: usize = 64 << 10;
/// Values of a document of which line and column are counted.
const VALUES: usize = 256;

fuzz_target!(|text: &str| {
    read(text);
    if let Some(large) = large(text.as_bytes(), &["", "\n", "\n---\n", " ", "\n- ", ","]) {
        read(&String::from_utf8(large).expect("whole inputs"));
    }
});

fn read(text: &str) {
    let parts = opgate_yaml::documents(text, Words::All, ROOM);
    let strict = opgate_yaml::strict(text, ROOM);
    let lenient = opgate_yaml::read(text, ROOM);
    if let (Ok(json), Some(Document::Json(lenient))) = (&strict, &lenient) {
        assert_eq!(json, lenient);
    }
    let tolerant = opgate_yaml::tolerant(text, Words::All, ROOM);
    whole(text, tolerant.as_deref().unwrap_or_default());
    let Ok(parts) = parts else { return };
    let tolerant = tolerant.expect("nothing is refused that is read strictly");
    let json = |parts: &[Part]| parts.iter().map(|part| part.json.clone()).collect::<Vec<_>>();
    assert_eq!(json(&tolerant), json(&parts));
    let first = strict.expect("all documents can be read");
    if first != b"null" {
        let part = parts.first().expect("it is not empty");
        assert_eq!(first, part.json.as_bytes());
    }
    whole(text, &parts);
    located(text);
}

/// What was read is JSON with a place for each value, and has no name twice.
fn whole(text: &str, parts: &[Part]) {
    for part in parts {
        assert!(part.json.len() <= ROOM + 6 * text.len(), "more than was allowed");
        serde_json::from_str::<IgnoredAny>(&part.json).expect("JSON");
        if let Some(json) = Json::read(&part.json) {
            assert!(!json.has_twice(), "{}", part.json);
            assert_eq!(part.places.len(), json.pointers().len(), "{}", part.json);
        }
        for place in &part.places {
            let place = usize::try_from(*place).expect("a place");
            assert!(text.is_char_boundary(place), "{place} in {text:?}");
        }
    }
}

/// Each value of a single document has the line and the column of its offset.
fn located(text: &str) {
    let parts = opgate_yaml::documents(text, Words::Few, ROOM).unwrap_or_default();
    let [part] = parts.as_slice() else { return };
    let Some(json) = Json::read(&part.json) else { return };
    let pointers = json.pointers();
    let found = opgate::fuzzing::located(text, &pointers).expect("it was read before");
    assert_eq!(found.len(), part.places.len());
    // Counting takes a pass over the text each time.
    let some = pointers.len() / VALUES + 1;
    let all = pointers.iter().zip(&part.places).zip(found);
    for ((pointer, place), found) in all.step_by(some) {
        let place = usize::try_from(*place).expect("a place");
        assert_eq!(found, line_and_column(text, place), "{pointer} of {text:?}");
    }
}
