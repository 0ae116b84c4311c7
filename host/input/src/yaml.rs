//! YAML, and with it JSON, with places for the host. `opgate-yaml` reads it; this module converts
//! its offsets to lines and columns.
//!
//! ```text
//! text ─▶ documents: JSON, and an offset for each value in it ─┬▶ the offset of a JSON pointer
//!                                                              └▶ Lines: line and column
//! ```

use std::sync::Arc;

use opgate_document::{Document, Kind, Text, Value};
use opgate_yaml::BooleanWords;

use opgate_text::lines::Lines;

/// Maximum nesting.
pub const MAX_DEPTH: usize = opgate_yaml::MAX_DEPTH;

/// Bytes of JSON that any document may become. Beyond that, the size of the text counts.
const MIN_JSON_BUDGET_BYTES: usize = 1 << 20;

/// Maximum bytes of JSON for a byte of YAML without aliases: `{a,b}` has members with values.
const MAX_JSON_GROWTH: usize = 6;

/// A text that is not YAML: the error, and its place.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct YamlError {
    /// From 1.
    pub line: u64,
    /// In characters, from 1.
    pub column: u64,
    /// The message, in one line.
    pub message: String,
}

/// A document of a file.
#[derive(Debug)]
pub struct YamlDocument {
    /// The JSON.
    pub json: Arc<Text>,
    /// The places of its values, in bytes of the text.
    pub offsets: Offsets,
    /// Its start, in bytes.
    pub offset: usize,
}

/// Reads the documents of a text of any size, without empty ones. The error has its place in the
/// text.
///
/// # Errors
/// Fails if it is not YAML, or exceeds the limits.
pub fn parse_documents(yaml: &str, words: BooleanWords) -> Result<Vec<YamlDocument>, YamlError> {
    parse_documents_with(yaml, words, opgate_yaml::documents)
}

/// Splits documents as [`parse_documents`] does, but of duplicate names in a map the last member counts, as for
/// upstream.
///
/// # Errors
/// Fails if it is not YAML, or exceeds the limits.
pub fn parse_documents_tolerant(
    yaml: &str,
    words: BooleanWords,
) -> Result<Vec<YamlDocument>, YamlError> {
    parse_documents_with(yaml, words, opgate_yaml::documents_lenient)
}

type ParseResult = Result<Vec<opgate_yaml::SourceDocument>, opgate_yaml::Error>;

fn parse_documents_with(
    yaml: &str,
    words: BooleanWords,
    read: fn(&str, BooleanWords, usize) -> ParseResult,
) -> Result<Vec<YamlDocument>, YamlError> {
    let room = yaml.len().saturating_mul(MAX_JSON_GROWTH).saturating_add(MIN_JSON_BUDGET_BYTES);
    let documents = read(yaml, words, room).map_err(|error| {
        let (line, column) = Lines::of(yaml).place(yaml, error.offset());
        YamlError { line, column, message: opgate_text::one_line(&error.message(), 512) }
    })?;
    let part = |part: opgate_yaml::SourceDocument| {
        let json = Text::new(part.json).map(Arc::new).unwrap_or_default();
        YamlDocument { json, offsets: Offsets(part.offsets), offset: part.offset }
    };
    Ok(documents.into_iter().map(part).collect())
}

/// The places of the values of a document: of the document itself and then, in the order of its
/// JSON, of the name of each member and the value of each element.
#[derive(Debug, Default)]
pub struct Offsets(Vec<u32>);

impl Offsets {
    /// Returns bytes that it uses.
    #[must_use]
    pub fn byte_size(&self) -> usize {
        self.0.len() * size_of::<u32>()
    }

    /// Returns the error with this number of bytes before the text.
    #[must_use]
    pub fn shifted(mut self, by: usize) -> Self {
        let by = u32::try_from(by).unwrap_or(u32::MAX);
        self.0.iter_mut().for_each(|offset| *offset = offset.saturating_add(by));
        self
    }

    fn get(&self, number: usize) -> usize {
        let offset = self.0.get(number).or(self.0.first()).copied().unwrap_or_default();
        usize::try_from(offset).unwrap_or_default()
    }
}

/// Bytes of JSON between two positions for which the number of values before them is known.
const STRIDE_BYTES: usize = 4 << 10;

/// Finds the number of a value in the order of the JSON. The first query takes one pass over the
/// JSON, every other one reads a few thousand bytes.
#[derive(Debug, Default)]
pub struct ValueNumbers {
    /// Offsets outside of texts, and the numbers of values before them.
    checkpoints: Vec<(usize, usize)>,
}

impl ValueNumbers {
    /// Records the numbers of a few values.
    #[must_use]
    pub fn of(json: &str) -> Self {
        let mut known = vec![(0, 0)];
        let mut next = STRIDE_BYTES;
        count_values(json.as_bytes(), 0, json.len(), |at, values| {
            if at >= next {
                known.push((at, values));
                next = at + STRIDE_BYTES;
            }
        });
        Self { checkpoints: known }
    }

    /// Returns the number of members and elements up to a value, including it, which is its number among the
    /// offsets.
    fn number(&self, json: &str, value: usize) -> usize {
        let index = self.checkpoints.partition_point(|(at, _)| *at <= value).saturating_sub(1);
        let (from, before) = self.checkpoints.get(index).copied().unwrap_or_default();
        before + count_values(json.as_bytes(), from, value, |_, _| {})
    }
}

/// Counts the members and elements between two positions outside of texts, and reports positions on
/// the way.
fn count_values(json: &[u8], from: usize, to: usize, mut tell: impl FnMut(usize, usize)) -> usize {
    let (mut at, mut values) = (from, 0);
    while at < to {
        tell(at, values);
        match json.get(at) {
            Some(b'"') => at = string_end(json, at),
            Some(b'{' | b'[') => {
                values += usize::from(!matches!(json.get(at + 1), Some(b'}' | b']')));
                at += 1;
            }
            Some(b',') => {
                values += 1;
                at += 1;
            }
            _ => at += 1,
        }
    }
    values
}

fn string_end(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', json.get(at..).unwrap_or_default()) {
        at += found;
        if json.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

impl ValueNumbers {
    /// Returns the place of a value of the document in the text.
    #[must_use]
    pub fn offset(&self, json: &str, offsets: &Offsets, value: usize) -> usize {
        offsets.get(self.number(json, value))
    }
}

/// A value with the places of its parts.
#[derive(Debug)]
pub struct LocatedValue {
    /// The value.
    pub value: serde_json::Value,
    document: Document,
    yaml_document: YamlDocument,
    numbers: ValueNumbers,
    text: String,
    lines: Arc<Lines>,
}

impl LocatedValue {
    /// Reads a text with one document, in which `off` and `no` are texts, as in `rules: {RPK-07:
    /// off}`.
    ///
    /// # Errors
    /// Fails as [`parse_documents`], and if there are several documents.
    pub fn read(yaml: &str) -> Result<Self, YamlError> {
        let mut parts = parse_documents(yaml, BooleanWords::TrueFalse)?;
        let lines = Arc::new(Lines::of(yaml));
        if let Some(second) = parts.get(1) {
            let (line, column) = lines.place(yaml, second.offset);
            let why = "a second document: leave one, or write a file for each".to_owned();
            return Err(YamlError { line, column, message: why });
        }
        let nothing = || YamlDocument {
            json: Text::new("null".to_owned()).map(Arc::new).unwrap_or_default(),
            offsets: Offsets::default(),
            offset: 0,
        };
        Ok(Self::of(parts.pop().unwrap_or_else(nothing), yaml, lines))
    }

    fn of(part: YamlDocument, yaml: &str, lines: Arc<Lines>) -> Self {
        let document = Document::part(part.json.clone(), 0..part.json.len());
        let numbers = ValueNumbers::of(&part.json);
        let value = to_serde_value(document.root());
        Self { value, document, numbers, yaml_document: part, text: yaml.to_owned(), lines }
    }

    /// Returns the place of the value at a pointer, or of the nearest value around it.
    #[must_use]
    pub fn location(&self, pointer: &str) -> (u64, u64) {
        let mut pointer = pointer;
        let value = loop {
            match (self.document.get(pointer), pointer.rsplit_once('/')) {
                (Some(value), _) => break value.range().start,
                (None, Some((around, _))) => pointer = around,
                (None, None) => break 0,
            }
        };
        let offset =
            self.numbers.offset(&self.yaml_document.json, &self.yaml_document.offsets, value);
        self.lines.place(&self.text, offset)
    }
}

/// Returns the value for `serde_json`. The limit of nesting limits the recursion.
fn to_serde_value(value: Value<'_>) -> serde_json::Value {
    match value.kind() {
        Kind::Object => {
            let members =
                value.members().map(|(name, member)| (name.to_owned(), to_serde_value(member)));
            serde_json::Value::Object(members.collect())
        }
        Kind::List => value.items().map(to_serde_value).collect(),
        _ => serde_json::from_str(&value.raw()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_line_and_column() {
        let located = LocatedValue::read("a: 1\nb:\n  - x\n  - c/d: {e: true}\n").unwrap();
        assert_eq!(located.value, serde_json::json!({"a": 1, "b": ["x", {"c/d": {"e": true}}]}));
        for (pointer, expected) in [
            ("/a", (1, 1)),
            ("/b", (2, 1)),
            ("/b/0", (3, 5)),
            ("/b/1/c~1d", (4, 5)),
            ("/b/1/c~1d/e", (4, 11)),
            ("/b/1/c~1d/missing", (4, 5)),
        ] {
            assert_eq!(located.location(pointer), expected, "{pointer}");
        }
    }

    #[test]
    fn yaml_1_1_booleans_are_strings() {
        let located =
            LocatedValue::read("a: off\nb: no\nc: true\nd: null\ne: ~\nf: 1.5\ng: \"1\"\n")
                .unwrap();
        let expected = serde_json::json!({"a": "off", "b": "no", "c": true, "d": null, "e": null, "f": 1.5, "g": "1"});
        assert_eq!(located.value, expected);
    }

    #[test]
    fn yaml_errors_are_written_for_authors() {
        let why = |yaml: &str| parse_documents(yaml, BooleanWords::Yaml11).unwrap_err().message;
        assert_eq!(why(&"[".repeat(300)), "nests deeper than 256 levels");
        assert_eq!(why("a: &a\n  b: *a\n"), "anchor 'a' value contains itself");
        assert_eq!(why("a: 1\na: 2\n"), "duplicate mapping key: a");
        assert_eq!(why("a: .nan\n"), "non-finite float `.nan` is no number of JSON");
        let bomb: String = (1..12).fold("a0: &a0 [x, x]\n".to_owned(), |text, i| {
            let p = i - 1;
            text + &format!("a{i}: &a{i} [*a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}]\n")
        });
        assert!(why(&bomb).starts_with("its aliases or anchors stand for more"));
        let two = LocatedValue::read("a: 1\n---\nb: 1\n").unwrap_err();
        assert_eq!((two.line, two.column), (3, 1));
        assert_eq!(two.message, "a second document: leave one, or write a file for each");
    }

    #[test]
    fn invalid_yaml_reports_line() {
        let error = LocatedValue::read("a: 1\nb: [1\n").unwrap_err();
        assert!(error.line >= 2, "{error:?}");
        let error = LocatedValue::read("a: 1\na: 2\n").unwrap_err();
        assert_eq!(error.line, 2, "{error:?}");
    }

    /// Only the size of a text limits its content.
    #[test]
    fn large_texts_are_read_and_bombs_are_not() {
        let list = "- {a: 1, b: [x, y]}\n".repeat(60_000);
        assert_eq!(LocatedValue::read(&list).unwrap().value.as_array().map(Vec::len), Some(60_000));
        let stream = "---\na: 1\n".repeat(5_000);
        assert_eq!(parse_documents(&stream, BooleanWords::Yaml11).unwrap().len(), 5_000);
        let deep = |levels: usize| format!("{}x{}", "[".repeat(levels), "]".repeat(levels));
        assert!(LocatedValue::read(&deep(256)).is_ok());
        let error = LocatedValue::read(&deep(257)).unwrap_err();
        assert_eq!(error.message, "nests deeper than 256 levels");
        // The smallest values in YAML become the largest ones in JSON.
        for (unit, (from, to)) in [("a{},", ('{', '}')), ("{}.0e20,", ('[', ']'))] {
            let body: String = (0..30_000).map(|n| unit.replace("{}", &n.to_string())).collect();
            let yaml = format!("{from}{body}{to}");
            assert!(LocatedValue::read(&yaml).is_ok(), "{unit}");
        }
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let line = format!("*a{}, ", level - 1).repeat(10);
            bomb.extend([&format!("a{level}: &a{level} ["), line.trim_end_matches(", "), "]\n"]);
        }
        let error = LocatedValue::read(&bomb).unwrap_err();
        assert!(
            error.message.starts_with("its aliases or anchors stand for more"),
            "{}",
            error.message
        );
    }
}
