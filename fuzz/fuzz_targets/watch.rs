//! What an API server sends: pages of a list, and lines of a watch after it.
//!
//! An input is pages, one a line, then an empty line, then events, one a line. The oracle is a view that
//! is made of `serde_json`'s full parse: it has the same objects, of which the same is kept, goes on from
//! the same version and the same token, and takes and refuses the same events. Of a line that only one of
//! both takes for JSON the oracle knows nothing: it must be read without harm.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use opgate::fuzzing::View;
use opgate_fuzz::large;
use serde_json::Value;

fuzz_target!(|input: &[u8]| {
    told(input);
    if let Some(large) = large(input, &["\n", ",", "[", "\n\n"]) {
        told(&large);
    }
});

/// The view that a reader without haste has.
#[derive(Default)]
struct Model {
    objects: BTreeMap<(String, String), Value>,
    listing: BTreeMap<(String, String), Value>,
    version: String,
    /// There were several objects of one name that no API server stores: all of them are kept.
    has_twins: bool,
}

fn told(input: &[u8]) {
    let mut view = View::new().expect("it is declared well");
    let mut model = Model::default();
    let mut lines = input.split(|byte| *byte == b'\n');
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        let found = view.page(line);
        // A list of which a page cannot be read is given up.
        let text = String::from_utf8_lossy(line);
        let Ok(json) = serde_json::from_str::<Value>(&text) else { return };
        let is_list = json.get("items").is_some_and(|items| items.is_array() || items.is_null());
        // The name in another spelling, or twice; too much beside the objects.
        let is_odd = text.contains('\\') || text.matches("\"items\"").count() > 1;
        let is_odd = is_odd || text.len() > 1 << 20;
        if found.is_err() && (!is_list || is_odd) {
            return;
        }
        assert_eq!(found, Ok(model.page(&json)), "{json}");
        assert_eq!(view.version(), model.version);
        if model.has_twins {
            return;
        }
    }
    // Nothing is known before the first list has ended.
    let began = view.page(br#"{"items":[]}"#);
    assert_eq!(began, Ok(model.page(&Value::Null)));
    for line in lines {
        let before = view.version().to_owned();
        let found = view.event(line);
        let Ok(json) = serde_json::from_str(&String::from_utf8_lossy(line)) else {
            if found.is_ok() {
                // Read, but by one reader only.
                return;
            }
            assert_eq!(view.version(), before);
            continue;
        };
        assert_eq!(found.is_ok(), model.event(&json), "{found:?}: {json}");
        assert_eq!(view.version(), model.version, "{json}");
    }
    assert_eq!(view.objects(), Ok(model.objects.len()));
    for ((namespace, name), object) in &model.objects {
        let seen = view.object(namespace, name).expect("it can be read").expect("it is there");
        assert_eq!(seen.version, text(object, "/metadata/resourceVersion"), "{object}");
        let kept: Value = serde_json::from_str(&seen.kept).expect("it is JSON");
        for pointer in ["/metadata/name", "/metadata/namespace", "/metadata/uid", "/spec/a"] {
            assert_eq!(value(&kept, pointer), value(object, pointer), "{pointer}: {object}");
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
    fn page(&mut self, page: &Value) -> (usize, String) {
        let items = value(page, "/items").as_array().map(Vec::as_slice).unwrap_or_default();
        for item in items {
            if let Some(key) = key(item) {
                let known = self.listing.insert(key, item.clone());
                let is_made_up = |object: &Value| text(object, "/metadata/uid").is_empty();
                self.has_twins |= known.is_some_and(|known| is_made_up(&known) && is_made_up(item));
            }
        }
        let next = text(page, "/metadata/continue");
        if next.is_empty() {
            self.objects = std::mem::take(&mut self.listing);
            text(page, "/metadata/resourceVersion").clone_into(&mut self.version);
        }
        (items.len(), next.to_owned())
    }

    /// Says whether it is an event to go on from.
    fn event(&mut self, event: &Value) -> bool {
        let Some(object) = event.pointer("/object") else {
            // All that a bookmark may do without.
            return text(event, "/type") == "BOOKMARK";
        };
        let version = text(object, "/metadata/resourceVersion");
        if let (Ok(known), Ok(version)) = (self.version.parse::<u64>(), version.parse::<u64>())
            && known > version
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
