//! YAML as JSON text, for policies: files in ConfigMaps, and objects inside of catalogs.
//!
//! ```text
//! text ─▶ documents, split at `---` ─▶ events ─▶ nodes ─▶ JSON text
//! ```
//!
//! [`read`] takes what tools of Kubernetes take; [`strict`] is for texts that people are to repair, and
//! says why a text is none.
//!
//! A node that an alias refers to is there once, and written wherever the alias stands; what may be
//! written is bounded. Nothing here is recursive.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use granit_parser::{Event, Parser, ScalarStyle, options};

/// Levels that a document may nest, as for files.
const DEPTH: usize = 256;

/// A document as JSON.
#[derive(Debug, PartialEq, Eq)]
pub enum Document {
    /// The text.
    Json(Vec<u8>),
    /// Its aliases stand for more than there is room for.
    TooLarge,
}

/// Cuts a stream before each line that begins a document; empty documents are left out.
#[must_use]
pub fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        let marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        if marker {
            parts.push(text.get(start..at).unwrap_or_default());
            start = at;
        }
        at += line.len();
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts.retain(|part| !part.trim().is_empty());
    parts
}

type Index = usize;

#[derive(Debug)]
enum Node<'y> {
    Scalar { text: Cow<'y, str>, plain: bool },
    List(Vec<Index>),
    Map(Vec<(Cow<'y, str>, Index)>),
}

/// A list or map that is not complete.
#[derive(Debug)]
struct Open<'y> {
    node: Node<'y>,
    anchor: usize,
    /// The key whose value comes next.
    key: Option<Cow<'y, str>>,
}

#[derive(Debug)]
struct Nodes<'y> {
    all: Vec<Node<'y>>,
    open: Vec<Open<'y>>,
    anchors: BTreeMap<usize, Index>,
    /// Members that may still be merged.
    merges: usize,
    /// Whether a name may stand once only in a map.
    strict: bool,
    /// Members of a map in the order of their names: room that every map uses again.
    order: Vec<usize>,
}

/// Why a text is no document.
enum Fault {
    Empty,
    /// What the parser says.
    Syntax(String),
    Deep,
    /// It stands for more than there is room for.
    Large,
    /// A key that is no text.
    Key,
    /// An alias of something that is not complete.
    Alias,
    /// A name that stands twice in a map.
    Twice(String),
}

/// Reads one document, of which at most `room` bytes of JSON are made. `None` where it is empty, no
/// YAML, or not to be said in JSON. A name may stand twice, and does so in the JSON as well.
#[must_use]
pub fn read(yaml: &str, room: usize) -> Option<Document> {
    match json(yaml, room, false) {
        Ok(json) => Some(Document::Json(json)),
        Err(Fault::Large) => Some(Document::TooLarge),
        Err(_) => None,
    }
}

/// Reads the first document of a text, of which at most `room` bytes of JSON are made. Of an empty one
/// that is `null`.
///
/// # Errors
/// Why it is no YAML, or not to be said in JSON. A name that stands twice in a map is such a reason.
pub fn strict(yaml: &str, room: usize) -> Result<Vec<u8>, String> {
    let why = match json(yaml, room, true) {
        Ok(json) => return Ok(json),
        Err(Fault::Empty) => return Ok(b"null".to_vec()),
        Err(Fault::Syntax(why)) => why,
        Err(Fault::Deep) => format!("nests deeper than {DEPTH} levels"),
        Err(Fault::Large) => format!("it stands for more than {room} bytes of JSON: write it out"),
        Err(Fault::Key) => "a key is no text: JSON has no other keys".to_owned(),
        Err(Fault::Alias) => "an alias stands inside of what it stands for".to_owned(),
        Err(Fault::Twice(name)) => format!("duplicate mapping key: {name}"),
    };
    Err(format!("yaml: {why}"))
}

fn json(yaml: &str, room: usize, strict: bool) -> Result<Vec<u8>, Fault> {
    let options = options! { flow_nesting_limit: DEPTH, block_nesting_limit: DEPTH };
    let mut nodes = Nodes {
        all: Vec::new(),
        open: Vec::new(),
        anchors: BTreeMap::new(),
        merges: yaml.len(),
        strict,
        order: Vec::new(),
    };
    for event in Parser::new_from_str_with_options(yaml, options) {
        let (event, _) = event.map_err(|error| {
            Fault::Syntax(format!("line {}: {}", error.marker().line(), error.info()))
        })?;
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain && tag.is_none();
                nodes.close(Node::Scalar { text, plain }, anchor)?;
            }
            Event::SequenceStart(_, anchor, _) => nodes.open(Node::List(Vec::new()), anchor)?,
            Event::MappingStart(_, anchor, _) => nodes.open(Node::Map(Vec::new()), anchor)?,
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Open { mut node, anchor, .. }) = nodes.open.pop() else { continue };
                if let Node::Map(members) = &mut node {
                    nodes.once(members)?;
                    nodes.merge(members)?;
                }
                nodes.close(node, anchor)?;
            }
            // An anchor is known when its node is complete: what contains itself is no document.
            Event::Alias(anchor) => {
                let index = *nodes.anchors.get(&anchor).ok_or(Fault::Alias)?;
                nodes.place(index)?;
            }
            Event::DocumentEnd if strict => break,
            _ => {}
        }
    }
    if nodes.all.is_empty() {
        return Err(Fault::Empty);
    }
    nodes.write(room).ok_or(Fault::Large)
}

impl<'y> Nodes<'y> {
    fn open(&mut self, node: Node<'y>, anchor: usize) -> Result<(), Fault> {
        self.open.push(Open { node, anchor, key: None });
        if self.open.len() <= DEPTH { Ok(()) } else { Err(Fault::Deep) }
    }

    /// A node is complete.
    fn close(&mut self, node: Node<'y>, anchor: usize) -> Result<(), Fault> {
        let index = self.all.len();
        self.all.push(node);
        if anchor != 0 {
            self.anchors.insert(anchor, index);
        }
        self.place(index)
    }

    /// Puts a node where it belongs.
    fn place(&mut self, index: Index) -> Result<(), Fault> {
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        match &mut open.node {
            Node::Scalar { .. } => {}
            Node::List(items) => items.push(index),
            Node::Map(members) => match open.key.take() {
                Some(key) => members.push((key, index)),
                // JSON has no other keys.
                None => match self.all.get(index) {
                    Some(Node::Scalar { text, .. }) => open.key = Some(text.clone()),
                    _ => return Err(Fault::Key),
                },
            },
        }
        Ok(())
    }

    /// Whether every name stands once, where that is asked for.
    fn once(&mut self, members: &[(Cow<'y, str>, Index)]) -> Result<(), Fault> {
        if !self.strict {
            return Ok(());
        }
        let name = |at: &usize| members.get(*at).map(|(name, _)| name);
        self.order.clear();
        self.order.extend(0..members.len());
        self.order.sort_unstable_by_key(name);
        let mut pairs = self.order.windows(2).filter_map(|pair| match pair {
            [one, other] if name(one) == name(other) => name(one),
            _ => None,
        });
        pairs.next().map_or(Ok(()), |name| Err(Fault::Twice(name.to_string())))
    }

    /// Takes over the members of what `<<` refers to, unless there is one of that name. Fails where
    /// there is no room.
    fn merge(&mut self, members: &mut Vec<(Cow<'y, str>, Index)>) -> Result<(), Fault> {
        let Some(at) = members.iter().position(|(key, _)| key == "<<") else { return Ok(()) };
        let (_, value) = members.remove(at);
        let sources = match self.all.get(value) {
            Some(Node::List(items)) => items.clone(),
            _ => vec![value],
        };
        let mut names: BTreeSet<_> = members.iter().map(|(key, _)| key.clone()).collect();
        for source in sources {
            let Some(Node::Map(merged)) = self.all.get(source) else { continue };
            self.merges = self.merges.checked_sub(merged.len()).ok_or(Fault::Large)?;
            for (key, index) in merged {
                if names.insert(key.clone()) {
                    members.push((key.clone(), *index));
                }
            }
        }
        Ok(())
    }

    /// The last node, which is the outermost, as JSON; `None` where there is no room.
    fn write(&self, room: usize) -> Option<Vec<u8>> {
        enum Step<'n> {
            Value(Index),
            Key(&'n str),
            Byte(u8),
        }
        let mut out = Vec::new();
        let mut steps = vec![Step::Value(self.all.len().checked_sub(1)?)];
        while let Some(step) = steps.pop() {
            // What waits will be written as well.
            if out.len() + steps.len() > room {
                return None;
            }
            let first = steps.len();
            match step {
                Step::Byte(byte) => out.push(byte),
                Step::Key(key) => {
                    quoted(key, &mut out);
                    out.push(b':');
                }
                Step::Value(index) => match self.all.get(index)? {
                    Node::Scalar { text, plain: true } => plain(text, &mut out),
                    Node::Scalar { text, .. } => quoted(text, &mut out),
                    Node::List(items) => {
                        out.push(b'[');
                        for (place, &item) in items.iter().enumerate() {
                            steps.extend((place > 0).then_some(Step::Byte(b',')));
                            steps.push(Step::Value(item));
                        }
                        steps.push(Step::Byte(b']'));
                    }
                    Node::Map(members) => {
                        out.push(b'{');
                        for (place, (key, value)) in members.iter().enumerate() {
                            steps.extend((place > 0).then_some(Step::Byte(b',')));
                            steps.extend([Step::Key(key), Step::Value(*value)]);
                        }
                        steps.push(Step::Byte(b'}'));
                    }
                },
            }
            // The first is to be written first.
            if let Some(added) = steps.get_mut(first..) {
                added.reverse();
            }
        }
        Some(out)
    }
}

/// A scalar without quotes: a number, a word of YAML's, or a text.
fn plain(text: &str, out: &mut Vec<u8>) {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => out.extend(b"null"),
        "true" | "True" | "TRUE" => out.extend(b"true"),
        "false" | "False" | "FALSE" => out.extend(b"false"),
        _ => match number(text) {
            Some(number) => out.extend(number.bytes()),
            None => quoted(text, out),
        },
    }
}

/// A number as JSON writes it.
fn number(text: &str) -> Option<Cow<'_, str>> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.strip_prefix('.').unwrap_or(digits).starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let radix = [("0x", 16), ("0o", 8)];
    let other = radix
        .into_iter()
        .find_map(|(prefix, radix)| u64::from_str_radix(digits.strip_prefix(prefix)?, radix).ok());
    if let Some(number) = other {
        return Some(number.to_string().into());
    }
    let number: f64 = text.parse().ok()?;
    if is_json(text) {
        return Some(text.into());
    }
    number.is_finite().then(|| number.to_string().into())
}

/// Whether a number that Rust reads is written as in JSON: no `+` and no `.` in front, digits behind
/// the point, no zero before other digits.
fn is_json(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let whole = digits.split(['.', 'e', 'E']).next().unwrap_or_default();
    let ends =
        |c| number.split(c).skip(1).all(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    !whole.is_empty()
        && whole.bytes().all(|byte| byte.is_ascii_digit())
        && (whole.len() == 1 || !whole.starts_with('0'))
        && ends('.')
}

fn quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            ..0x20 => out.extend(format!("\\u{byte:04x}").bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lenient(yaml: &str) -> String {
        match read(yaml, 10_000) {
            Some(Document::Json(json)) => String::from_utf8(json).unwrap(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn documents_become_json() {
        for (yaml, expected) in [
            ("a: 1\nb: [x, 'y\"', ~]\n", r#"{"a":1,"b":["x","y\"",null]}"#),
            ("a: |\n  {\"b\": 1}\n  c\n", r#"{"a":"{\"b\": 1}\nc\n"}"#),
            ("a: >-\n  b\n  c\n", r#"{"a":"b c"}"#),
            (
                "{a: &x {b: 1.0.0, c: 1.50}, d: *x}",
                r#"{"a":{"b":"1.0.0","c":1.50},"d":{"b":"1.0.0","c":1.50}}"#,
            ),
            (
                "a: &a {k: 1, l: 2}\nb:\n  <<: *a\n  l: 3\n",
                r#"{"a":{"k":1,"l":2},"b":{"l":3,"k":1}}"#,
            ),
            (
                "a: [0x10, +1, .5, 1e3, 010, x-, 1_0, .x]",
                r#"{"a":[16,1,0.5,1e3,10,"x-","1_0",".x"]}"#,
            ),
            ("a: !!str 1\n\"b\\x41\": \"\\t\"", r#"{"a":"1","bA":"\u0009"}"#),
            ("# nothing\n", "None"),
            ("a: [1\n", "None"),
            ("a: &a [*a]\n", "None"),
            ("? {a: 1}\n: b\n", "None"),
        ] {
            assert_eq!(lenient(yaml), expected, "{yaml}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (yaml, why) in [
            ("a: 1\nb: c: d\n", "yaml: line 2: "),
            ("a:\n\t- b", "yaml: line 2: "),
            ("{", "yaml: line 1: "),
            ("a: [1,2", "yaml: line 1: "),
            ("a: *b", "yaml: line 1: "),
            ("a: 1\nb: {c: 1, 'c': 2}\n", "yaml: duplicate mapping key: c"),
            ("a: &a {}\n<<: *a\n<<: *a\n", "yaml: duplicate mapping key: <<"),
            ("a: &a [*a]\n", "yaml: an alias stands inside of what it stands for"),
            ("? {a: 1}\n: b\n", "yaml: a key is no text: JSON has no other keys"),
            (
                "a: &a [xxxxxxxx, xxxxxxxx]\nb: [*a, *a]\n",
                "yaml: it stands for more than 60 bytes of JSON: write it out",
            ),
        ] {
            let found = strict(yaml, 60).unwrap_err();
            // What the parser says after the line is its business.
            let is_said = found == why || why.ends_with(' ') && found.starts_with(why);
            assert!(is_said, "{yaml}: {found}");
        }
        for (yaml, expected) in [
            ("a: {b: 1}\nc: {b: 2}\n", r#"{"a":{"b":1},"c":{"b":2}}"#),
            ("a: &a {b: 1}\nc:\n  <<: *a\n  b: 2\n", r#"{"a":{"b":1},"c":{"b":2}}"#),
            ("# nothing\n", "null"),
            ("# license\n---\na: 1\n---\n{\n", r#"{"a":1}"#),
        ] {
            assert_eq!(strict(yaml, 100), Ok(expected.as_bytes().to_vec()), "{yaml}");
        }
        // What people are not to repair is read as it is.
        assert_eq!(lenient("a: 1\na: 2\n"), r#"{"a":1,"a":2}"#);
    }

    #[test]
    fn streams_are_cut() {
        let stream = "---\na: 1\n--- # two\nb: 1\n---\n---\nc: |\n  x\n  ---\n---d\n";
        let found = ["---\na: 1\n", "--- # two\nb: 1\n", "---\n", "---\nc: |\n  x\n  ---\n---d\n"];
        assert_eq!(split(stream), found);
    }

    #[test]
    fn what_stands_for_too_much_is_said_to_be() {
        let mut bomb = "a0: &a0 [olm.constraint, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let all = vec![format!("*a{}", level - 1); 9].join(", ");
            bomb.extend(["a", &level.to_string(), ": &a", &level.to_string(), " [", &all, "]\n"]);
        }
        assert_eq!(read(&bomb, 1 << 20), Some(Document::TooLarge));
        let members: Vec<_> = (0..100).map(|n| format!("k{n}: 1")).collect();
        let merges = "  - {<<: *a}\n".repeat(1_000);
        let bomb = format!("a: &a {{{}}}\nb:\n{merges}", members.join(", "));
        assert_eq!(read(&bomb, 8 << 20), Some(Document::TooLarge));
        assert_eq!(read(&"[".repeat(100_000), 1 << 20), None);
    }

    proptest! {
        #[test]
        fn no_text_brings_it_down(yaml in "([a'\"|:&*<\\[\\]{}\\\\ é\n,-]|a: |<<: |&a |\\*a){0,60}") {
            if let Some(Document::Json(json)) = read(&yaml, 10_000) {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(&json).is_ok());
                match strict(&yaml, 10_000) {
                    Ok(strict) => prop_assert_eq!(strict, json),
                    Err(why) => prop_assert!(why.contains("duplicate"), "{}", why),
                }
            }
        }
    }
}
