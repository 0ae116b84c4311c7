//! Messages of an API server: pages of a list, and lines of a watch.
//!
//! An input is pages, one a line, then an empty line, then events, one a line. Oracle: a model of full
//! parses by `serde_json` has the same objects and stored fields, continues from the same version and
//! token, and accepts and rejects the same events. Lines that only one of both parsers accepts are read
//! without a comparison.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use opgate::fuzzing::View;
use opgate_fuzz::repeat_input;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    check_view(input);
    if let Some(repeated) = repeat_input(input, &["\n", ",", "[", "\n\n"]) {
        check_view(&repeated);
    }
});

/// The expected content of the view.
#[derive(Default)]
struct Model {
    objects: BTreeMap<(String, String), Value>,
    listing: BTreeMap<(String, String), Value>,
    version: String,
    /// Whether objects without uid had the same name: the view stores all of them.
    has_duplicates: bool,
}

fn check_view(input: &[u8]) {
    let mut view = View::new().expect("a valid declaration");
    let mut model = Model::default();
    let mut lines = input.split(|byte| *byte == b'\n');
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        let found = view.page(line);
        // An unreadable page ends the list.
        let text = String::from_utf8_lossy(line);
        let Ok(json) = serde_json::from_str::<Value>(&text) else { return };
        let is_list = json.get("items").is_some_and(|items| items.is_array() || items.is_null());
        // An escaped or duplicate name, or much text outside the objects.
        let is_unusual = text.contains('\\') || text.matches("\"items\"").count() > 1;
        let is_unusual = is_unusual || text.len() > 1 << 20;
        if found.is_err() && (!is_list || is_unusual) {
            return;
        }
        assert_eq!(found, Ok(model.apply_page(&json)), "{json}");
        assert_eq!(view.version(), model.version);
        if model.has_duplicates {
            return;
        }
    }
    // The first list must end before the watch.
    let last_page = view.page(br#"{"items":[]}"#);
    assert_eq!(last_page, Ok(model.apply_page(&Value::Null)));
    for line in lines {
        let before = view.version().to_owned();
        let found = view.event(line);
        let Ok(json) = serde_json::from_str(&String::from_utf8_lossy(line)) else {
            if found.is_ok() {
                // Only one parser accepts the line.
                return;
            }
            assert_eq!(view.version(), before);
            continue;
        };
        assert_eq!(found.is_ok(), model.apply_event(&json), "{found:?}: {json}");
        assert_eq!(view.version(), model.version, "{json}");
    }
    assert_eq!(view.objects(), Ok(model.objects.len()));
    for ((namespace, name), object) in &model.objects {
        let actual =
            view.object(namespace, name).expect("a readable object").expect("a stored object");
        assert_eq!(actual.version, text(object, "/metadata/resourceVersion"), "{object}");
        let stored: Value = serde_json::from_str(&actual.kept).expect("JSON");
        for pointer in ["/metadata/name", "/metadata/namespace", "/metadata/uid", "/spec/a"] {
            assert_eq!(value(&stored, pointer), value(object, pointer), "{pointer}: {object}");
        }
    }
}

fn value<'v>(json: &'v Value, pointer: &str) -> &'v Value {
    json.pointer(pointer).unwrap_or(&Value::Null)
}

fn text<'v>(json: &'v Value, pointer: &str) -> &'v str {
    value(json, pointer).as_str().unwrap_or_default()
}

fn key(object: &Value) -> Option<(String, String)> {
    let name = value(object, "/metadata/name").as_str()?;
    Some((text(object, "/metadata/namespace").to_owned(), name.to_owned()))
}

impl Model {
    /// Applies a page; returns the number of its objects, and the token to continue.
    fn apply_page(&mut self, page: &Value) -> (usize, String) {
        let items = value(page, "/items").as_array().map(Vec::as_slice).unwrap_or_default();
        for item in items {
            if let Some(key) = key(item) {
                let previous = self.listing.insert(key, item.clone());
                let has_no_uid = |object: &Value| text(object, "/metadata/uid").is_empty();
                self.has_duplicates |=
                    previous.is_some_and(|previous| has_no_uid(&previous) && has_no_uid(item));
            }
        }
        let next = text(page, "/metadata/continue");
        if next.is_empty() {
            self.objects = std::mem::take(&mut self.listing);
            text(page, "/metadata/resourceVersion").clone_into(&mut self.version);
        }
        (items.len(), next.to_owned())
    }

    /// Applies an event; reports whether it is valid.
    fn apply_event(&mut self, event: &Value) -> bool {
        let Some(object) = event.pointer("/object") else {
            // Only a bookmark can have no object.
            return text(event, "/type") == "BOOKMARK";
        };
        let version = text(object, "/metadata/resourceVersion");
        if let (Ok(current), Ok(version)) = (self.version.parse::<u64>(), version.parse::<u64>())
            && current > version
        {
            return false;
        }
        match text(event, "/type") {
            "ADDED" | "MODIFIED" => {
                if let Some(key) = key(object) {
                    self.objects.insert(key, object.clone());
                }
            }
            "DELETED" => {
                if let Some(key) = key(object) {
                    self.objects.remove(&key);
                }
            }
            "BOOKMARK" => {}
            _ => return false,
        }
        if !version.is_empty() {
            version.clone_into(&mut self.version);
        }
        true
    }
}
