//! The labels of an object, which are kept once: in the text that policies get of it.
//!
//! ```text
//! {"metadata":{"labels":{"a":"b","c":"d"},"name":…
//!                       └── Within ─────┘
//! ```
//!
//! A policy may read the labels of any object that it gets, and query objects by any label, so all labels are
//! stored. An API server limits neither their number nor their bytes. A search in the text costs the time of
//! reading its memory, some 100 µs for labels of 1 MiB, which the caller is charged for.

use std::ops::Range;

use memchr::{memchr2, memmem};
use opgate_document::{Text, Value};

use crate::pattern::write_json_string;
use crate::words::{Words, hash};

/// Labels of an object that are filed in an index. Objects of people and controllers have some.
const MAX_INDEXED_LABELS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Labels {
    source: LabelSource,
    /// Hashes of all labels; none if they are more than are filed.
    hashes: Option<Box<[u64]>>,
}

/// An object of JSON with nothing but texts, sorted, without spaces and needless escapes.
#[derive(Debug, Default)]
enum LabelSource {
    #[default]
    Empty,
    /// In the text of the object. An API server writes them like that.
    InText(Range<u32>),
    /// Written in another way.
    Separate(Box<str>),
}

impl Labels {
    /// Creates the labels of an object, of which `text` is kept.
    pub(crate) fn of(object: Value<'_>, text: &Text) -> Self {
        let labels = object.get("/metadata/labels").into_iter().flat_map(|l| l.members());
        let labels = labels.filter_map(|(name, value)| Some((name, value.text()?)));
        let (mut json, mut filed, mut count) = ("{".to_owned(), Vec::new(), 0_usize);
        for (name, value) in labels {
            if count > 0 {
                json.push(',');
            }
            write_json_string(name, &mut json);
            json.push(':');
            write_json_string(value, &mut json);
            count = count.saturating_add(1);
            if count <= MAX_INDEXED_LABELS {
                filed.push(hash((name, value)));
            }
        }
        json.push('}');
        if count == 0 {
            return Self { source: LabelSource::Empty, hashes: Some(Box::default()) };
        }
        // This text has the same meaning at every position.
        let range = memmem::find(text.as_bytes(), json.as_bytes()).and_then(|start| {
            let end = start.checked_add(json.len())?;
            Some(u32::try_from(start).ok()?..u32::try_from(end).ok()?)
        });
        let place =
            range.map_or_else(|| LabelSource::Separate(json.into_boxed_str()), LabelSource::InText);
        Self {
            source: place,
            hashes: (count <= MAX_INDEXED_LABELS).then(|| filed.into_boxed_slice()),
        }
    }

    fn json<'t>(&'t self, text: &'t str) -> &'t str {
        match &self.source {
            LabelSource::Empty => "",
            LabelSource::InText(range) => {
                let offset = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
                text.get(offset(range.start)..offset(range.end)).unwrap_or_default()
            }
            LabelSource::Separate(json) => json,
        }
    }

    /// Returns the value of a label as JSON: with escapes, which no valid value needs.
    pub(crate) fn get<'t>(&'t self, text: &'t str, key: &str) -> Option<&'t str> {
        let json = self.json(text);
        // Keys of selectors are valid, and have neither.
        let is_plain = || memchr2(b'"', b'\\', key.as_bytes()).is_none();
        if json.is_empty() || key.is_empty() || !is_plain() {
            return None;
        }
        for at in memmem::find_iter(json.as_bytes(), key.as_bytes()) {
            let (before, found) = json.split_at_checked(at)?;
            // A quote inside of a name or a value follows a backslash.
            let is_name = before.ends_with("{\"") || before.ends_with(",\"");
            let value = found.get(key.len()..).and_then(|rest| rest.strip_prefix("\":\""));
            if let Some(value) = value.filter(|_| is_name) {
                return value.get(..string_end(value.as_bytes())?);
            }
        }
        None
    }

    /// Returns the words that an index stores.
    pub(crate) fn words(&self) -> Words<impl Iterator<Item = u64>> {
        self.hashes.as_ref().map_or(Words::TooMany, |filed| Words::Hashes(filed.iter().copied()))
    }

    /// Returns the number of labels in an index.
    pub(crate) fn indexed_count(&self) -> usize {
        self.hashes.as_ref().map_or(1, |filed| filed.len())
    }

    /// Returns bytes to read for one of them.
    pub(crate) fn bytes_per_label(&self) -> usize {
        match &self.source {
            LabelSource::Empty => 0,
            LabelSource::InText(range) => {
                usize::try_from(range.end - range.start).unwrap_or(usize::MAX)
            }
            LabelSource::Separate(json) => json.len(),
        }
    }

    /// Returns the bytes in addition to this value itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let apart = match &self.source {
            LabelSource::Separate(json) => json.len(),
            LabelSource::Empty | LabelSource::InText(_) => 0,
        };
        apart.saturating_add(self.hashes.as_ref().map_or(0, |filed| size_of_val(&**filed)))
    }
}

/// Returns the end of a JSON text whose opening quote precedes these bytes.
fn string_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0_usize;
    loop {
        at = at.checked_add(memchr2(b'"', b'\\', bytes.get(at..)?)?)?;
        match bytes.get(at)? {
            b'"' => return Some(at),
            // And what it escapes.
            _ => at = at.checked_add(2)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use opgate_document::Document;

    use super::*;

    fn labels(json: &str) -> (Labels, Text) {
        let object = format!(r#"{{"metadata":{{"labels":{json}}}}}"#);
        let text = Text::new(object.clone()).unwrap();
        (Labels::of(Document::parse(&object).unwrap().root(), &text), text)
    }

    #[test]
    fn labels_are_found_in_any_notation() {
        for (json, is_within, expected) in [
            ("{}", false, [None, None]),
            ("null", false, [None, None]),
            ("[]", false, [None, None]),
            (r#"{"a":"1"}"#, true, [Some("1"), None]),
            (r#"{"a":"","a.b/c":"2"}"#, true, [Some(""), Some("2")]),
            (r#"{"aa":"a","b":"a"}"#, true, [None, None]),
            (r#"{ "a.b/c": "2", "a": "1" }"#, false, [Some("1"), Some("2")]),
            (r#"{"a":"1","a":"2"}"#, false, [Some("2"), None]),
            (r#"{"a":1,"a.b/c":"2"}"#, false, [None, Some("2")]),
            (r#"{"\u0061":"\u0031"}"#, false, [Some("1"), None]),
            // Text that resembles a label, inside names and values.
            (r#"{"x,\"a":"1"}"#, true, [None, None]),
            (r#"{"x{\"a\":\"1":"y"}"#, true, [None, None]),
            (r#"{"x":"{\"a\":\"1\""}"#, true, [None, None]),
            (r#"{"x":",\"a","y":"\\"}"#, true, [None, None]),
            (r#"{"x":"\\","a":"1\""}"#, false, [Some("1\\\""), None]),
        ] {
            let (labels, text) = labels(json);
            let found = ["a", "a.b/c"].map(|key| labels.get(&text, key));
            assert_eq!(found, expected, "{json}");
            assert_eq!(matches!(labels.source, LabelSource::InText(_)), is_within, "{json}");
        }
    }

    #[test]
    fn labels_over_the_limit_are_not_indexed() {
        let json = |count: usize| {
            let labels: Vec<_> = (0..count).map(|n| format!("\"l{n:03}\":\"\"")).collect();
            format!("{{{}}}", labels.join(","))
        };
        for (count, filed) in [(0, Some(0)), (64, Some(64)), (65, None)] {
            let (labels, _) = labels(&json(count));
            let words = match labels.words() {
                Words::Hashes(words) => Some(words.count()),
                Words::TooMany => None,
            };
            assert_eq!(words, filed, "{count}");
        }
    }
}
