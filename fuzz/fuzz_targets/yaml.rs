//! YAML and the positions in it: `documents`, `documents_lenient`, `read_strict` and `read` of
//! `opgate_yaml`, and `LocatedValue` of the host.
//!
//! Oracles: the result is valid JSON within the size limit; each value has a position in the text, at
//! the start of a character; line and column, which are found in one pass and by blocks, equal those
//! counted from the start of the text; all functions agree. (`places` tests the values of positions.)
#![no_main]

use libfuzzer_sys::fuzz_target;
use opgate_fuzz::{Json, line_and_column, repeat_input};
use opgate_yaml::{BooleanWords, Document, SourceDocument};
use serde::de::IgnoredAny;

const MAX_JSON_BYTES: usize = 64 << 10;
/// Values of a document whose line and column are checked.
const MAX_LOCATED_VALUES: usize = 256;

fuzz_target!(|text: &str| {
    check_readers(text);
    if let Some(repeated) = repeat_input(text.as_bytes(), &["", "\n", "\n---\n", " ", "\n- ", ","])
    {
        check_readers(&String::from_utf8(repeated).expect("complete inputs"));
    }
});

/// Asserts that all functions agree.
fn check_readers(text: &str) {
    let documents = opgate_yaml::documents(text, BooleanWords::Yaml11, MAX_JSON_BYTES);
    let strict = opgate_yaml::read_strict(text, MAX_JSON_BYTES);
    let first = opgate_yaml::read(text, MAX_JSON_BYTES);
    if let (Ok(strict), Some(Document::Json(first))) = (&strict, &first) {
        assert_eq!(strict, first);
    }
    let lenient = opgate_yaml::documents_lenient(text, BooleanWords::Yaml11, MAX_JSON_BYTES);
    assert_valid_json(text, lenient.as_deref().unwrap_or_default());
    let Ok(documents) = documents else { return };
    let lenient = lenient.expect("the lenient function accepts what the strict one accepts");
    let json = |documents: &[SourceDocument]| {
        documents.iter().map(|document| document.json.clone()).collect::<Vec<_>>()
    };
    assert_eq!(json(&lenient), json(&documents));
    let strict = strict.expect("all documents are readable");
    if strict != b"null" {
        let first = documents.first().expect("a document");
        assert_eq!(strict, first.json.as_bytes());
    }
    assert_valid_json(text, &documents);
    assert_positions(text);
}

/// Asserts that documents are JSON without duplicate names, with a position for each value.
fn assert_valid_json(text: &str, documents: &[SourceDocument]) {
    for document in documents {
        let SourceDocument { json, offsets, .. } = document;
        assert!(json.len() <= MAX_JSON_BYTES + 6 * text.len(), "JSON exceeds the limit");
        serde_json::from_str::<IgnoredAny>(json).expect("JSON");
        if let Some(value) = Json::parse(json) {
            assert!(!value.has_duplicate_names(), "{json}");
            assert_eq!(offsets.len(), value.pointers().len(), "{json}");
        }
        for offset in offsets {
            let offset = usize::try_from(*offset).expect("an offset");
            assert!(text.is_char_boundary(offset), "{offset} in {text:?}");
        }
    }
}

/// Asserts that each value of a single document has the line and column of its offset.
fn assert_positions(text: &str) {
    let documents = opgate_yaml::documents(text, BooleanWords::TrueFalse, MAX_JSON_BYTES);
    let documents = documents.unwrap_or_default();
    let [document] = documents.as_slice() else { return };
    let Some(json) = Json::parse(&document.json) else { return };
    let pointers = json.pointers();
    let found = opgate::fuzzing::located(text, &pointers).expect("a readable document");
    assert_eq!(found.len(), document.offsets.len());
    // Each count reads the text from the start.
    let step = pointers.len() / MAX_LOCATED_VALUES + 1;
    let values = pointers.iter().zip(&document.offsets).zip(found);
    for ((pointer, offset), found) in values.step_by(step) {
        let offset = usize::try_from(*offset).expect("an offset");
        assert_eq!(found, line_and_column(text, offset), "{pointer} of {text:?}");
    }
}
