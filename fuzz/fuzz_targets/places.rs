//! Places in YAML, beside those that a writer knows.
//!
//! An input is what a writer chooses: values, styles, comments, anchors, line ends. It writes YAML, and
//! notes what JSON it is and where it wrote each value. The oracle: `opgate_yaml::documents` reads that JSON and
//! finds these places, and `Located` says line and column of each as counted from the start of the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opgate_fuzz::{Json, line_and_column};
use opgate_yaml::Words;
use serde_json::Value;

/// Levels that are written, and values.
const DEPTH: usize = 7;
const VALUES: usize = 400;
/// Bytes of JSON for which an alias stands at the most, so that a document keeps within its room.
const ALIAS: usize = 512;

fuzz_target!(|input: &[u8]| {
    let mut writer = Writer { choices: input.iter(), ..Writer::default() };
    let parts = writer.stream();
    let text = writer.out;
    let found = opgate_yaml::documents(&text, Words::All, 1 << 20);
    let found = found.unwrap_or_else(|error| panic!("{}: {text}", error.upstream()));
    assert_eq!(found.len(), parts.len(), "{text}");
    for (found, written) in found.iter().zip(&parts) {
        let json = |json: &str| serde_json::from_str::<Value>(json).expect("JSON");
        assert_eq!(json(&found.json), json(&written.json), "{text}");
        let places: Vec<_> =
            written.places.iter().map(|at| u32::try_from(*at).expect("u32")).collect();
        assert_eq!(found.places, places, "{text}\n{}", found.json);
        assert_eq!(Some(found.offset), written.places.first().copied(), "{text}");
    }
    if let [written] = parts.as_slice()
        && !text.starts_with('\u{feff}')
    {
        let pointers = Json::read(&written.json).expect("JSON").pointers();
        let found = opgate::fuzzing::located(&text, &pointers).expect("one document");
        for ((found, place), pointer) in found.iter().zip(&written.places).zip(&pointers) {
            assert_eq!(*found, line_and_column(&text, *place), "{pointer}: {text}");
        }
    }
});

/// What was written of a document, or of a value in it.
#[derive(Default, Clone)]
struct Written {
    json: String,
    /// Of the value itself, behind its anchor and its tag, then of all in it, in the order of the JSON.
    places: Vec<usize>,
}

impl Written {
    fn scalar(json: &str, at: usize) -> Self {
        Self { json: json.to_owned(), places: vec![at] }
    }
}

#[derive(Default)]
struct Writer<'i> {
    choices: std::slice::Iter<'i, u8>,
    out: String,
    line_end: &'static str,
    values: usize,
    /// Names of anchors, and what they stand for.
    anchors: Vec<(String, Written)>,
}

/// Scalars as they are written, and the JSON that they are.
const PLAIN: [(&str, &str); 18] = [
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
const DOUBLE: [(&str, &str); 6] = [
    ("\"\"", "\"\""),
    (r#""a\tb\"""#, r#""a\tb\"""#),
    (r#""\x41\u20ac""#, "\"A€\""),
    ("\"a: [b] # c\"", "\"a: [b] # c\""),
    ("!!str 1", "\"1\""),
    ("\"1\"", "\"1\""),
];
const TAGS: [(&str, &str); 3] = [("!!str 1", "\"1\""), ("!!int \"7\"", "7"), ("! no", "\"no\"")];
/// What a document may look like at its start.
const STARTS: [&str; 4] = ["---\n", "--- # é\n", "%YAML 1.1\n---\n", "# é\n\n---\n"];

impl Writer<'_> {
    /// The next choice among so many. The first one is what is chosen when there are no more.
    fn choose(&mut self, many: usize) -> usize {
        self.choices.next().map_or(0, |choice| usize::from(*choice) % many)
    }

    fn stream(&mut self) -> Vec<Written> {
        self.line_end = ["\n", "\r\n"][self.choose(2)];
        if self.choose(8) == 7 {
            self.out.push('\u{feff}');
        }
        let mut parts = Vec::new();
        for number in 0..=self.choose(3) {
            let start = self.choose(STARTS.len() + 1);
            if number > 0 || start < STARTS.len() {
                // A directive needs the end of the document before it.
                if number > 0 {
                    self.out.push_str("...");
                    self.out.push_str(self.line_end);
                }
                let start = STARTS[start % STARTS.len()].replace('\n', self.line_end);
                self.out.push_str(&start);
            }
            self.anchors.clear();
            let part = self.node(0, 0, true);
            self.out.push_str(self.line_end);
            if part.json != "null" {
                parts.push(part);
            }
        }
        parts
    }

    /// A line end, sometimes with comments and empty lines, and the indentation of the next line.
    fn line(&mut self, indent: usize) {
        // What stands behind a literal is part of it.
        let choice = self.choose(12);
        match if self.out.ends_with("- b") { 0 } else { choice } {
            9 => self.out.push_str(" # ä: [\"x"),
            // Where a key could begin, a tab could not.
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

    /// A value where one may begin on the same line or on the next. Its own place comes first.
    fn node(&mut self, indent: usize, depth: usize, is_start: bool) -> Written {
        self.values += 1;
        let is_deep = depth >= DEPTH || self.values >= VALUES;
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
            // Behind an anchor a collection in blocks begins on a line of its own.
            8..=11 if has_anchor => {
                self.out.pop();
                self.line(indent);
                self.block(indent, depth, kind < 10)
            }
            8..=11 if is_start => self.block(indent, depth, kind < 10),
            8..=15 => self.flow(depth, kind.is_multiple_of(2)),
            7 if !self.anchors.is_empty() => self.alias(),
            5 | 6 => self.block_scalar(indent, kind == 5),
            _ => self.scalar(indent),
        };
        if let Some(name) = anchor
            && written.json.len() <= ALIAS
        {
            self.anchors.push((name, written.clone()));
        }
        written
    }

    fn alias(&mut self) -> Written {
        let index = self.choose(self.anchors.len());
        let (name, mut inner) = self.anchors[index].clone();
        // It is where it is written, what is in it is where that is written.
        inner.places[0] = self.out.len();
        self.out.extend(["*", &name]);
        self.values += inner.places.len();
        inner
    }

    fn scalar(&mut self, indent: usize) -> Written {
        let (written, json) = match self.choose(32) {
            31 => return self.long(),
            30 => return self.folded(indent),
            28..=29 => TAGS[self.choose(TAGS.len())],
            20..=27 => DOUBLE[self.choose(DOUBLE.len())],
            choice => PLAIN[choice % PLAIN.len()],
        };
        let tag =
            if written.starts_with('!') { written.find(' ').map_or(0, |at| at + 1) } else { 0 };
        let at = self.out.len() + tag;
        self.out.push_str(written);
        Written::scalar(json, at)
    }

    /// Longer than a block of what counts lines and values.
    fn long(&mut self) -> Written {
        let text = "é".repeat(1_000 + 40 * self.choose(64));
        let at = self.out.len();
        self.out.push_str(&text);
        Written::scalar(&format!("\"{text}\""), at)
    }

    /// In quotes, over lines: the next ones may be indented less than the first.
    fn folded(&mut self, indent: usize) -> Written {
        let quote = ["'", "\""][self.choose(2)];
        let margin = " ".repeat(if indent == 0 { 1 } else { self.choose(indent + 3) });
        let (at, end) = (self.out.len(), self.line_end);
        self.out.extend([quote, "a", end, &margin, "b", end, end, &margin, "c", quote]);
        Written::scalar("\"a b\\nc\"", at)
    }

    fn block_scalar(&mut self, indent: usize, is_literal: bool) -> Written {
        let margin = " ".repeat(indent + 1 + self.choose(2));
        let (head, between) = if is_literal { ("|-", "\\n") } else { (">-", " ") };
        let (at, end) = (self.out.len(), self.line_end);
        self.out.extend([head, " # c", end, &margin, "a: é", end, &margin, "- b"]);
        Written::scalar(&format!("\"a: é{between}- b\""), at)
    }

    fn block(&mut self, indent: usize, depth: usize, is_map: bool) -> Written {
        let count = 1 + self.choose(4);
        let mut all = Written::scalar(["[", "{"][usize::from(is_map)], self.out.len());
        for number in 0..count {
            if number > 0 {
                self.line(indent);
                all.json.push(',');
            }
            if is_map {
                self.member(indent, depth, number, &mut all);
            } else {
                self.out.push('-');
                self.element(indent, depth, &mut all);
            }
        }
        all.json.push_str(["]", "}"][usize::from(is_map)]);
        all
    }

    fn element(&mut self, indent: usize, depth: usize, all: &mut Written) {
        if self.choose(8) == 7 {
            self.line(indent + 2);
        } else {
            self.out.push(' ');
        }
        let item = self.node(indent + 2, depth + 1, true);
        all.json.push_str(&item.json);
        all.places.extend(item.places);
    }

    fn member(&mut self, indent: usize, depth: usize, number: usize, all: &mut Written) {
        let is_explicit = self.choose(12) == 11;
        if is_explicit {
            self.out.push_str("? ");
        }
        self.key(number, all);
        if is_explicit {
            self.line(indent);
        }
        self.out.push(':');
        let begins_anew = self.choose(2) == 1;
        let inner = indent + 1 + self.choose(2);
        if begins_anew {
            self.line(inner);
        } else {
            self.out.push(' ');
        }
        // Behind a colon a collection in blocks begins on a line of its own.
        let value = self.node(inner, depth + 1, begins_anew);
        all.json.push_str(&value.json);
        // The place of a member is that of its name.
        all.places.extend(&value.places[1..]);
    }

    fn key(&mut self, number: usize, all: &mut Written) {
        let (written, name) = match self.choose(8) {
            0..=3 => (format!("k{number}"), format!("k{number}")),
            4 => (format!("'k {number}'"), format!("k {number}")),
            5 => (format!("\"é~/{number}\""), format!("é~/{number}")),
            6 => (format!("0x{number}"), format!("{number}")),
            _ => (format!("!!str {number}.0"), format!("{number}.0")),
        };
        let tag = if written.starts_with('!') { "!!str ".len() } else { 0 };
        all.places.push(self.out.len() + tag);
        self.out.push_str(&written);
        all.json.extend(["\"", &name, "\":"]);
    }

    fn flow(&mut self, depth: usize, is_map: bool) -> Written {
        let count = self.choose(4);
        let mut all = Written::scalar(["[", "{"][usize::from(is_map)], self.out.len());
        self.out.push_str(&all.json.clone());
        for number in 0..count {
            if number > 0 {
                self.out.push(',');
                all.json.push(',');
            }
            match self.choose(8) {
                6 => self.out.push(' '),
                // What is in brackets is indented more than what is around it, wherever that is.
                7 => self.line(2 * (depth + 2) + 20),
                _ => {}
            }
            if is_map {
                self.key(number, &mut all);
                self.out.push_str(": ");
            }
            let value = self.in_flow(depth + 1);
            all.json.push_str(&value.json);
            // The place of a member is that of its name.
            all.places.extend(&value.places[usize::from(is_map)..]);
        }
        let end = ["]", "}"][usize::from(is_map)];
        if count > 0 && self.choose(4) == 3 {
            self.out.push_str(" ,");
        }
        self.out.push(' ');
        self.out.push_str(end);
        all.json.push_str(end);
        all
    }

    fn in_flow(&mut self, depth: usize) -> Written {
        self.values += 1;
        let is_deep = depth >= DEPTH || self.values >= VALUES;
        match self.choose(if is_deep { 6 } else { 10 }) {
            5 if !self.anchors.is_empty() => self.alias(),
            6..=9 => {
                let is_map = self.choose(2) == 0;
                self.flow(depth, is_map)
            }
            _ => {
                let (written, json) = PLAIN[self.choose(PLAIN.len())];
                let at = self.out.len();
                self.out.push_str(written);
                Written::scalar(json, at)
            }
        }
    }
}
