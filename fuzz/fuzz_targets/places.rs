//! Positions in YAML from a random writer.
//!
//! An input is the choices of the writer: values, styles, comments, anchors, line ends. It writes YAML,
//! and records the equivalent JSON and the offset of each value. Oracle: `opgate_yaml::documents` returns
//! this JSON and these offsets, and `LocatedValue` returns line and column of each as counted from the
//! start of the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opgate_fuzz::{Json, line_and_column};
use opgate_yaml::BooleanWords;
use serde_json::Value;

const MAX_DEPTH: usize = 7;
const MAX_VALUES: usize = 400;
/// Maximum bytes of JSON of an alias, to keep a document within its limit.
const MAX_ALIAS_JSON_BYTES: usize = 512;
const MAX_JSON_BYTES: usize = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let mut writer = Writer { choices: input.iter(), ..Writer::default() };
    let expected = writer.write_stream();
    let text = writer.out;
    let found = opgate_yaml::documents(&text, BooleanWords::Yaml11, MAX_JSON_BYTES);
    let found = found.unwrap_or_else(|error| panic!("{}: {text}", error.upstream_message()));
    assert_eq!(found.len(), expected.len(), "{text}");
    for (found, expected) in found.iter().zip(&expected) {
        let json = |json: &str| serde_json::from_str::<Value>(json).expect("JSON");
        assert_eq!(json(&found.json), json(&expected.json), "{text}");
        let offsets = expected.offsets.iter().map(|offset| u32::try_from(*offset).expect("u32"));
        assert_eq!(found.offsets, offsets.collect::<Vec<_>>(), "{text}\n{}", found.json);
        assert_eq!(Some(found.offset), expected.offsets.first().copied(), "{text}");
    }
    if let [expected] = expected.as_slice()
        && !text.starts_with('\u{feff}')
    {
        let pointers = Json::parse(&expected.json).expect("JSON").pointers();
        let found = opgate::fuzzing::located(&text, &pointers).expect("one document");
        for ((found, offset), pointer) in found.iter().zip(&expected.offsets).zip(&pointers) {
            assert_eq!(*found, line_and_column(&text, *offset), "{pointer}: {text}");
        }
    }
});

/// A written document, or a value in it.
#[derive(Default, Clone)]
struct WrittenValue {
    json: String,
    /// The offset of the value, behind its anchor and its tag, then those of all values in it, in the
    /// order of the JSON.
    offsets: Vec<usize>,
}

impl WrittenValue {
    fn new(json: &str, offset: usize) -> Self {
        Self { json: json.to_owned(), offsets: vec![offset] }
    }
}

#[derive(Default)]
struct Writer<'i> {
    choices: std::slice::Iter<'i, u8>,
    out: String,
    line_end: &'static str,
    values: usize,
    /// Names of anchors, and their values.
    anchors: Vec<(String, WrittenValue)>,
}

/// Plain and single-quoted scalars, and their JSON.
const SCALARS: [(&str, &str); 18] = [
    ("a", "\"a\""),
    ("some words", "\"some words\""),
    ("é€😀", "\"é€😀\""),
    ("1", "1"),
    ("-0x1F", "-31"),
    ("010", "8"),
    ("1.50", "1.5"),
    ("~", "null"),
    ("null", "null"),
    ("yes", "true"),
    ("Off", "false"),
    ("a#b", "\"a#b\""),
    ("a:b", "\"a:b\""),
    ("1.0.0", "\"1.0.0\""),
    ("-x", "\"-x\""),
    ("''", "\"\""),
    ("'it''s: [x] # no'", "\"it's: [x] # no\""),
    ("'é'", "\"é\""),
];
const DOUBLE_QUOTED_SCALARS: [(&str, &str); 6] = [
    ("\"\"", "\"\""),
    (r#""a\tb\"""#, r#""a\tb\"""#),
    (r#""\x41\u20ac""#, "\"A€\""),
    ("\"a: [b] # c\"", "\"a: [b] # c\""),
    ("!!str 1", "\"1\""),
    ("\"1\"", "\"1\""),
];
const TAGGED_SCALARS: [(&str, &str); 3] =
    [("!!str 1", "\"1\""), ("!!int \"7\"", "7"), ("! no", "\"no\"")];
const DOCUMENT_STARTS: [&str; 4] = ["---\n", "--- # é\n", "%YAML 1.1\n---\n", "# é\n\n---\n"];

impl Writer<'_> {
    /// Returns the next choice, below `count`; 0 at the end of the input.
    fn choose(&mut self, count: usize) -> usize {
        self.choices.next().map_or(0, |choice| usize::from(*choice) % count)
    }

    fn write_stream(&mut self) -> Vec<WrittenValue> {
        self.line_end = ["\n", "\r\n"][self.choose(2)];
        if self.choose(8) == 7 {
            self.out.push('\u{feff}');
        }
        let mut documents = Vec::new();
        for number in 0..=self.choose(3) {
            let start = self.choose(DOCUMENT_STARTS.len() + 1);
            if number > 0 || start < DOCUMENT_STARTS.len() {
                // A directive requires the end marker of the previous document.
                if number > 0 {
                    self.out.push_str("...");
                    self.out.push_str(self.line_end);
                }
                let start =
                    DOCUMENT_STARTS[start % DOCUMENT_STARTS.len()].replace('\n', self.line_end);
                self.out.push_str(&start);
            }
            self.anchors.clear();
            let document = self.write_node(0, 0, true);
            self.out.push_str(self.line_end);
            if document.json != "null" {
                documents.push(document);
            }
        }
        documents
    }

    /// Writes a line break, sometimes with comments and empty lines, and the next indentation.
    fn write_line_break(&mut self, indent: usize) {
        // Text behind a block scalar would belong to it.
        let choice = self.choose(12);
        match if self.out.ends_with("- b") { 0 } else { choice } {
            9 => self.out.push_str(" # ä: [\"x"),
            // A tab is invalid where a key can begin.
            10 if !self.out.ends_with(['-', '?', ':']) => self.out.push_str("\t # tab"),
            11 => self.out.push(' '),
            _ => {}
        }
        self.out.push_str(self.line_end);
        match self.choose(12) {
            10 => self.out.push_str(self.line_end),
            11 => {
                self.out.push_str(&" ".repeat(indent / 2));
                self.out.push_str("# 'between");
                self.out.push_str(self.line_end);
            }
            _ => {}
        }
        self.out.push_str(&" ".repeat(indent));
    }

    /// Writes a value, on the same line or on the next. `can_be_block` allows a block collection
    /// at this position.
    fn write_node(&mut self, indent: usize, depth: usize, can_be_block: bool) -> WrittenValue {
        self.values += 1;
        let is_deep = depth >= MAX_DEPTH || self.values >= MAX_VALUES;
        let kind = self.choose(if is_deep { 8 } else { 16 });
        let anchor = match self.choose(10) {
            9 if kind != 7 => {
                let name = format!("a{}", self.values);
                self.out.extend(["&", &name, " "]);
                Some(name)
            }
            _ => None,
        };
        let has_anchor = anchor.is_some();
        let written = match kind {
            // A block collection with an anchor begins on a new line.
            8..=11 if has_anchor => {
                self.out.pop();
                self.write_line_break(indent);
                self.write_block_collection(indent, depth, kind < 10)
            }
            8..=11 if can_be_block => self.write_block_collection(indent, depth, kind < 10),
            8..=15 => self.write_flow_collection(depth, kind.is_multiple_of(2)),
            7 if !self.anchors.is_empty() => self.write_alias(),
            5 | 6 => self.write_block_scalar(indent, kind == 5),
            _ => self.write_scalar(indent),
        };
        if let Some(name) = anchor
            && written.json.len() <= MAX_ALIAS_JSON_BYTES
        {
            self.anchors.push((name, written.clone()));
        }
        written
    }

    fn write_alias(&mut self) -> WrittenValue {
        let index = self.choose(self.anchors.len());
        let (name, mut inner) = self.anchors[index].clone();
        // An alias has its own position; the values in it keep the positions of the anchor.
        inner.offsets[0] = self.out.len();
        self.out.extend(["*", &name]);
        self.values += inner.offsets.len();
        inner
    }

    fn write_scalar(&mut self, indent: usize) -> WrittenValue {
        let (written, json) = match self.choose(32) {
            31 => return self.write_long_scalar(),
            30 => return self.write_folded_scalar(indent),
            28..=29 => TAGGED_SCALARS[self.choose(TAGGED_SCALARS.len())],
            20..=27 => DOUBLE_QUOTED_SCALARS[self.choose(DOUBLE_QUOTED_SCALARS.len())],
            choice => SCALARS[choice % SCALARS.len()],
        };
        let tag =
            if written.starts_with('!') { written.find(' ').map_or(0, |at| at + 1) } else { 0 };
        let offset = self.out.len() + tag;
        self.out.push_str(written);
        WrittenValue::new(json, offset)
    }

    /// Writes a scalar that is longer than a block of the counters of lines and values.
    fn write_long_scalar(&mut self) -> WrittenValue {
        let text = "é".repeat(1_000 + 40 * self.choose(64));
        let offset = self.out.len();
        self.out.push_str(&text);
        WrittenValue::new(&format!("\"{text}\""), offset)
    }

    /// Writes a quoted scalar of several lines. Later lines can have less indentation than the first.
    fn write_folded_scalar(&mut self, indent: usize) -> WrittenValue {
        let quote = ["'", "\""][self.choose(2)];
        let margin = " ".repeat(if indent == 0 { 1 } else { self.choose(indent + 3) });
        let (offset, end) = (self.out.len(), self.line_end);
        self.out.extend([quote, "a", end, &margin, "b", end, end, &margin, "c", quote]);
        WrittenValue::new("\"a b\\nc\"", offset)
    }

    fn write_block_scalar(&mut self, indent: usize, is_literal: bool) -> WrittenValue {
        let margin = " ".repeat(indent + 1 + self.choose(2));
        let (head, between) = if is_literal { ("|-", "\\n") } else { (">-", " ") };
        let (offset, end) = (self.out.len(), self.line_end);
        self.out.extend([head, " # c", end, &margin, "a: é", end, &margin, "- b"]);
        WrittenValue::new(&format!("\"a: é{between}- b\""), offset)
    }

    fn write_block_collection(
        &mut self,
        indent: usize,
        depth: usize,
        is_map: bool,
    ) -> WrittenValue {
        let count = 1 + self.choose(4);
        let mut collection = WrittenValue::new(["[", "{"][usize::from(is_map)], self.out.len());
        for number in 0..count {
            if number > 0 {
                self.write_line_break(indent);
                collection.json.push(',');
            }
            if is_map {
                self.write_member(indent, depth, number, &mut collection);
            } else {
                self.out.push('-');
                self.write_element(indent, depth, &mut collection);
            }
        }
        collection.json.push_str(["]", "}"][usize::from(is_map)]);
        collection
    }

    fn write_element(&mut self, indent: usize, depth: usize, collection: &mut WrittenValue) {
        if self.choose(8) == 7 {
            self.write_line_break(indent + 2);
        } else {
            self.out.push(' ');
        }
        let item = self.write_node(indent + 2, depth + 1, true);
        collection.json.push_str(&item.json);
        collection.offsets.extend(item.offsets);
    }

    fn write_member(
        &mut self,
        indent: usize,
        depth: usize,
        number: usize,
        collection: &mut WrittenValue,
    ) {
        let is_explicit = self.choose(12) == 11;
        if is_explicit {
            self.out.push_str("? ");
        }
        self.write_key(number, collection);
        if is_explicit {
            self.write_line_break(indent);
        }
        self.out.push(':');
        let has_line_break = self.choose(2) == 1;
        let inner = indent + 1 + self.choose(2);
        if has_line_break {
            self.write_line_break(inner);
        } else {
            self.out.push(' ');
        }
        // A block collection behind a colon begins on a new line.
        let value = self.write_node(inner, depth + 1, has_line_break);
        collection.json.push_str(&value.json);
        // A member has the position of its name.
        collection.offsets.extend(&value.offsets[1..]);
    }

    fn write_key(&mut self, number: usize, collection: &mut WrittenValue) {
        let (written, name) = match self.choose(8) {
            0..=3 => (format!("k{number}"), format!("k{number}")),
            4 => (format!("'k {number}'"), format!("k {number}")),
            5 => (format!("\"é~/{number}\""), format!("é~/{number}")),
            6 => (format!("0x{number}"), format!("{number}")),
            _ => (format!("!!str {number}.0"), format!("{number}.0")),
        };
        let tag = if written.starts_with('!') { "!!str ".len() } else { 0 };
        collection.offsets.push(self.out.len() + tag);
        self.out.push_str(&written);
        collection.json.extend(["\"", &name, "\":"]);
    }

    fn write_flow_collection(&mut self, depth: usize, is_map: bool) -> WrittenValue {
        let count = self.choose(4);
        let mut collection = WrittenValue::new(["[", "{"][usize::from(is_map)], self.out.len());
        self.out.push_str(&collection.json.clone());
        for number in 0..count {
            if number > 0 {
                self.out.push(',');
                collection.json.push(',');
            }
            match self.choose(8) {
                6 => self.out.push(' '),
                // The content of brackets has more indentation than any block around it.
                7 => self.write_line_break(2 * (depth + 2) + 20),
                _ => {}
            }
            if is_map {
                self.write_key(number, &mut collection);
                self.out.push_str(": ");
            }
            let value = self.write_flow_node(depth + 1);
            collection.json.push_str(&value.json);
            // A member has the position of its name.
            collection.offsets.extend(&value.offsets[usize::from(is_map)..]);
        }
        let end = ["]", "}"][usize::from(is_map)];
        if count > 0 && self.choose(4) == 3 {
            self.out.push_str(" ,");
        }
        self.out.push(' ');
        self.out.push_str(end);
        collection.json.push_str(end);
        collection
    }

    fn write_flow_node(&mut self, depth: usize) -> WrittenValue {
        self.values += 1;
        let is_deep = depth >= MAX_DEPTH || self.values >= MAX_VALUES;
        match self.choose(if is_deep { 6 } else { 10 }) {
            5 if !self.anchors.is_empty() => self.write_alias(),
            6..=9 => {
                let is_map = self.choose(2) == 0;
                self.write_flow_collection(depth, is_map)
            }
            _ => {
                let (written, json) = SCALARS[self.choose(SCALARS.len())];
                let offset = self.out.len();
                self.out.push_str(written);
                WrittenValue::new(json, offset)
            }
        }
    }
}
