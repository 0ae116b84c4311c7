//! The content of a file: documents (JSON values in sequence, YAML documents), text, or neither.
//!
//! The JSON of a document is a part of the file if the file is JSON, and is made from the YAML
//! otherwise. Places inside documents are found only for reports ([`super::location`]).

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use opgate_document::{Document, Text};
use opgate_yaml::BooleanWords;
use serde_json::value::RawValue;

use opgate_input::read::{FilePath, ReadPurpose, Reader};
use opgate_input::yaml::{self, Offsets, YamlError};
use opgate_text::lines::{Lines, character_column, line_and_column};

/// Maximum size of a text in a document.
const MAX_TEXT_BYTES: u64 = 64 << 10;

/// A file that was read.
#[derive(Debug)]
pub struct File {
    /// Relative to the bundle or catalog, with `/`.
    pub path: String,
    /// Its path in messages.
    pub display_path: String,
    /// Size in bytes.
    pub size: u64,
    /// Its content.
    pub content: Content,
    /// A name that stands twice in a map, in a file that is read nonetheless ([`super::duplicate_keys`]).
    pub duplicate_key: Option<ReadError>,
    pub(super) lines: OnceLock<Lines>,
    /// The part of a file.
    pub(crate) origin: Origin,
}

/// The part of a file that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Origin {
    /// All of it.
    #[default]
    Whole,
    /// A part: the number of lines before it, and of characters before it in its first line.
    Part {
        /// Lines.
        lines: u64,
        /// Characters.
        columns: u64,
    },
    /// It is not from a file: an API server has sent it.
    NoFile,
}

impl Origin {
    /// Returns a place in the file, by that in what was read.
    pub(super) fn file_position(self, (line, column): (u64, u64)) -> (u64, u64) {
        let Self::Part { lines, columns } = self else { return (line, column) };
        let columns = if line == 1 { columns } else { 0 };
        (line.saturating_add(lines), column.saturating_add(columns))
    }
}

/// The content of a file.
#[derive(Debug)]
pub enum Content {
    /// JSON or YAML.
    Documents(Documents),
    /// A file that should be JSON or YAML, but is not.
    Unreadable(ReadError),
    /// Any other text that is not too large.
    Text(String),
    /// Any other content.
    Other,
}

/// The reason why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    /// From 1.
    pub line: u64,
    /// From 1.
    pub column: u64,
    /// The message.
    pub message: String,
    /// The text, if it is one.
    pub text: Option<Arc<str>>,
}

impl ReadError {
    fn at(line: u64, column: u64, why: impl Into<String>) -> Self {
        Self { line, column, message: why.into(), text: None }
    }
}

/// Documents of a file, without empty ones.
#[derive(Debug)]
pub struct Documents {
    /// The file.
    pub text: Arc<Text>,
    list: Vec<DocumentText>,
}

#[derive(Debug)]
enum DocumentText {
    /// A value in a file of JSON, in bytes.
    Json(Range<usize>),
    /// The JSON made from YAML, and the offset where the YAML starts.
    Yaml { start: usize, json: Arc<Text>, offsets: Offsets },
}

impl Documents {
    /// Returns the documents of a YAML text in which the last member of a name counts; none if there are
    /// none.
    pub(super) fn parse_tolerant(text: &str, reader: &Reader) -> Option<Self> {
        let parts = yaml::parse_documents_tolerant(text, BooleanWords::Yaml11).ok()?;
        let size: usize = parts.iter().map(|part| part.json.len() + part.offsets.byte_size()).sum();
        reader.charge(u64::try_from(size).unwrap_or(u64::MAX), ReadPurpose::Keep).ok()?;
        let list = parts.into_iter().map(|part| yaml_document(part, 0)).collect();
        Some(Self { text: Arc::new(Text::unindexed(text.to_owned())), list })
    }

    /// Returns the number of documents.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns a document as JSON.
    pub fn json(&self, index: usize) -> &str {
        match self.list.get(index) {
            Some(DocumentText::Json(range)) => self.text.get(range.clone()).unwrap_or_default(),
            Some(DocumentText::Yaml { json, .. }) => json,
            None => "null",
        }
    }

    /// Returns every document as JSON.
    pub fn iter_json(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| self.json(index))
    }

    /// Returns a document, parsed.
    pub fn document(&self, index: usize) -> Document {
        match self.list.get(index) {
            Some(DocumentText::Json(range)) => Document::part(self.text.clone(), range.clone()),
            Some(DocumentText::Yaml { json, .. }) => Document::part(json.clone(), 0..json.len()),
            None => Document::default(),
        }
    }

    /// Returns every document, parsed.
    pub fn documents(&self) -> impl Iterator<Item = Document> {
        (0..self.len()).map(|index| self.document(index))
    }

    /// Returns the offset of the start of a document.
    pub fn start_offset(&self, index: usize) -> usize {
        match self.list.get(index) {
            Some(DocumentText::Json(range)) => range.start,
            Some(DocumentText::Yaml { start, .. }) => *start,
            None => 0,
        }
    }

    /// Returns the places of the values of a document, if it is YAML.
    pub fn offsets(&self, index: usize) -> Option<&Offsets> {
        match self.list.get(index) {
            Some(DocumentText::Yaml { offsets, .. }) => Some(offsets),
            _ => None,
        }
    }
}

/// Files that are JSON or YAML.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseMode {
    /// Selected by name.
    ByName,
    /// All files.
    AllFiles,
}

impl File {
    /// Reads a file. An error in it becomes its content.
    pub fn read(
        at: FilePath<'_>,
        path: String,
        shown: String,
        expect: ParseMode,
        reader: &Reader,
    ) -> Self {
        let documents = expect == ParseMode::AllFiles || has_documents(&path);
        let mut size = 0;
        match reader.unsaved_text(&at, ReadPurpose::Keep) {
            Ok(Some(bytes)) if documents => {
                let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                let content = Content::of(bytes, &path, reader);
                return Self { size, ..Self::new_part(path, shown, content, Origin::Whole) };
            }
            Ok(_) => {}
            Err(error) => {
                let content = Content::unreadable(&error);
                return Self::new_part(path, shown, content, Origin::Whole);
            }
        }
        let opened = at.open().inspect(|opened| size = opened.size);
        let content = match opened {
            Ok(opened) if !documents && opened.size > MAX_TEXT_BYTES => Ok(Content::Other),
            Ok(opened) => reader.read(opened, true, ReadPurpose::Keep).map(|bytes| {
                if documents {
                    return Content::of(bytes, &path, reader);
                }
                match String::from_utf8(bytes) {
                    Ok(text) if !text.contains('\0') => Content::Text(text),
                    _ => Content::Other,
                }
            }),
            Err(error) => Err(error),
        };
        let content = content.unwrap_or_else(|error| Content::unreadable(&error));
        Self { size, ..Self::new_part(path, shown, content, Origin::Whole) }
    }

    /// Creates a part of a file.
    pub(super) fn new_part(path: String, shown: String, content: Content, origin: Origin) -> Self {
        Self {
            path,
            display_path: shown,
            size: 0,
            content,
            duplicate_key: None,
            lines: OnceLock::new(),
            origin,
        }
    }

    /// Its lines, which are counted on demand.
    pub fn lines(&self) -> &Lines {
        self.lines.get_or_init(|| Lines::of(self.text().unwrap_or_default()))
    }

    /// Returns the documents, if it has any.
    pub fn documents(&self) -> Option<&Documents> {
        match &self.content {
            Content::Documents(documents) => Some(documents),
            _ => None,
        }
    }

    /// Returns why it is unreadable, if so.
    pub fn read_error(&self) -> Option<&ReadError> {
        match &self.content {
            Content::Unreadable(broken) => Some(broken),
            _ => None,
        }
    }

    /// Returns a line with the reason why it is unreadable, if so.
    pub fn error_line(&self) -> Option<String> {
        let broken = self.read_error()?;
        let (line, column) = self.origin.file_position((broken.line, broken.column));
        Some(format!("{}:{line}:{column}: {}", self.display_path, broken.message))
    }

    /// Returns the text of the file, if it is available.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Documents(documents) => Some(&documents.text),
            Content::Unreadable(broken) => broken.text.as_deref(),
            Content::Text(text) => Some(text),
            Content::Other => None,
        }
    }
}

/// Reports whether a file is JSON or YAML by its name.
pub(crate) fn has_documents(path: &str) -> bool {
    let ending = Path::new(path).extension().unwrap_or_default().to_ascii_lowercase();
    ["json", "yaml", "yml"].iter().any(|known| ending == *known)
}

impl Content {
    pub(super) fn unreadable(error: &std::io::Error) -> Self {
        Self::Unreadable(ReadError::at(1, 1, error.to_string()))
    }

    pub(super) fn of(bytes: Vec<u8>, path: &str, reader: &Reader) -> Self {
        let text = match Self::decode_text(bytes) {
            Ok(text) => text,
            Err(broken) => return Self::Unreadable(broken),
        };
        match parse_documents(text, path, reader) {
            Ok(documents) => Self::Documents(documents),
            Err((text, broken)) => {
                Self::Unreadable(ReadError { text: Some(text.into()), ..broken })
            }
        }
    }

    fn decode_text(bytes: Vec<u8>) -> Result<String, ReadError> {
        let mut text = String::from_utf8(bytes).map_err(|error| {
            let end = error.utf8_error().valid_up_to();
            let before = error.as_bytes().get(..end).unwrap_or_default();
            let before = String::from_utf8_lossy(before);
            let (line, column) = line_and_column(&before, before.len());
            ReadError::at(line, column, "not UTF-8: save the file as UTF-8")
        })?;
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        Ok(text)
    }
}

/// Returns the documents of a text, or the text with its error.
fn parse_documents(
    text: String,
    path: &str,
    reader: &Reader,
) -> Result<Documents, (String, ReadError)> {
    let is_json = Path::new(path).extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
    // A flow mapping of YAML starts like a JSON object.
    let looks_like_json = text.trim_start().starts_with(['{', '[']);
    let text = if is_json || looks_like_json {
        match Text::parse_values(text, yaml::MAX_DEPTH) {
            Ok((text, values)) => return Ok(json_documents(text, values)),
            Err(text) => text,
        }
    } else {
        text
    };
    let read = match memchr::memchr(0, text.as_bytes()) {
        Some(offset) => {
            let (line, column) = line_and_column(&text, offset);
            Err(ReadError::at(line, column, "not a text: there is a byte 0 in it"))
        }
        // As in the tools of Kubernetes, the content determines the format.
        None if is_json && looks_like_json => parse_json(&text),
        None => parse_yaml(&text, reader),
    };
    match read {
        Ok(list) => Ok(Documents { text: Arc::new(Text::unindexed(text)), list }),
        Err(broken) => Err((text, broken)),
    }
}

fn json_documents(text: Text, values: Vec<Range<usize>>) -> Documents {
    let is_null = |range: &Range<usize>| text.get(range.clone()) == Some("null");
    let list = values.into_iter().filter(|range| !is_null(range)).map(DocumentText::Json).collect();
    Documents { text: Arc::new(text), list }
}

/// Returns the error in a text that is not JSON.
fn parse_json(text: &str) -> Result<Vec<DocumentText>, ReadError> {
    for value in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let raw = value
            .map_err(|error| {
                let why = error.to_string();
                let why = why.split(" at line ").next().unwrap_or_default();
                let number = |n: usize| u64::try_from(n.max(1)).unwrap_or(u64::MAX);
                let (line, column) = (error.line(), error.column());
                let column = character_column(text.as_bytes(), line, column);
                ReadError::at(number(line), number(column), format!("not JSON: {why}"))
            })?
            .get();
        if let Some(offset) = find_too_deep(raw) {
            let start = raw.as_ptr().addr().wrapping_sub(text.as_ptr().addr());
            let (line, column) = line_and_column(text, start + offset);
            let why = format!("nests deeper than {} levels", yaml::MAX_DEPTH);
            return Err(ReadError::at(line, column, why));
        }
    }
    // The parser finds no error. A test makes sure that this does not happen.
    Err(ReadError::at(1, 1, "not JSON"))
}

/// Returns the offset of the first bracket that is nested too deep.
fn find_too_deep(json: &str) -> Option<usize> {
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    for (offset, byte) in json.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_text,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth += 1;
                if depth > yaml::MAX_DEPTH {
                    return Some(offset);
                }
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

fn parse_yaml(text: &str, reader: &Reader) -> Result<Vec<DocumentText>, ReadError> {
    let chunks = split_chunks(text);
    let read = |range: &Range<usize>| {
        let parts = parse_yaml_chunk(text, range.clone())?;
        // The JSON made from it is kept as well.
        let size = |part: &DocumentText| match part {
            DocumentText::Yaml { json, offsets, .. } => {
                json.len().saturating_add(offsets.byte_size())
            }
            DocumentText::Json(_) => 0,
        };
        let size: usize = parts.iter().map(size).sum();
        let taken = reader.charge(u64::try_from(size).unwrap_or(u64::MAX), ReadPurpose::Keep);
        taken.map_err(|error| YamlError { line: 1, column: 1, message: error.to_string() })?;
        Ok(parts)
    };
    let lists = if text.len() < MIN_PARALLEL_BYTES {
        chunks.iter().map(read).collect()
    } else {
        super::parallel::map(&chunks, read)
    };
    let mut all = Vec::with_capacity(lists.len());
    for (list, range) in lists.into_iter().zip(&chunks) {
        // The first error in the file.
        all.extend(list.map_err(|error| yaml_error(text, range.start, &error))?);
    }
    Ok(all)
}

/// Returns the error in the part of a file that starts at an offset.
fn yaml_error(file: &str, start: usize, error: &YamlError) -> ReadError {
    let (line, _) = line_and_column(file, start);
    ReadError::at(line + error.line - 1, error.column, format!("not YAML: {}", error.message))
}

/// Several threads read a YAML text of this size. Smaller texts are many, and are read in parallel
/// with each other.
const MIN_PARALLEL_BYTES: usize = 4 << 20;

/// Returns the starts of the documents: a line that starts with `---` is never inside a document. Directives,
/// which are rare, precede such a line.
fn split_chunks(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let is_marker = |at: usize| {
        let after = bytes.get(at..).unwrap_or_default();
        after.starts_with(b"---") && after.get(3).is_none_or(u8::is_ascii_whitespace)
    };
    let starts = memchr::memchr_iter(b'\n', bytes).map(|newline| newline + 1);
    let has_directives = text.starts_with('%') || text.contains("\n%");
    let starts: Vec<usize> = if has_directives {
        vec![0]
    } else {
        [0].into_iter().chain(starts.filter(|at| is_marker(*at))).collect()
    };
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

/// Returns the documents of a part of a file.
fn parse_yaml_chunk(file: &str, range: Range<usize>) -> Result<Vec<DocumentText>, YamlError> {
    let start = range.start;
    let parts = yaml::parse_documents(file.get(range).unwrap_or_default(), BooleanWords::Yaml11)?;
    Ok(parts.into_iter().map(|part| yaml_document(part, start)).collect())
}

/// Returns a document of the part of a file that starts at an offset.
fn yaml_document(part: yaml::YamlDocument, start: usize) -> DocumentText {
    let (json, offsets) = (part.json, part.offsets.shifted(start));
    DocumentText::Yaml { start: start + part.offset, json, offsets }
}

/// Bytes of a file in which its type is searched first: the first document nearly always determines it.
const PEEK_BYTES: u64 = 64 << 10;

/// Calls `look` with the documents of a file until it finds something, and parses no more of the
/// file. Of a large file, the documents at its start are read first.
///
/// # Errors
/// If the file cannot be read up to there.
pub(crate) fn peek<T>(
    at: FilePath<'_>,
    path: &Path,
    reader: &Reader,
    mut look: impl FnMut(&str) -> Option<T>,
) -> Result<Option<T>, ReadError> {
    let unreadable = |e: std::io::Error| ReadError::at(1, 1, e.to_string());
    let scan = reader.with_full_budget();
    if let Some(bytes) = scan.unsaved_text(&at, ReadPurpose::Scan).map_err(unreadable)? {
        return search_text(Content::decode_text(bytes)?, path, look);
    }
    let opened = at.open().map_err(unreadable)?;
    if opened.size > PEEK_BYTES {
        let head = opened.read_part(0..PEEK_BYTES).map_err(unreadable)?;
        if let Some(found) =
            head_documents(&head).and_then(|text| search_documents(text, &mut look))
        {
            return Ok(Some(found));
        }
    }
    let bytes = scan.read(opened, true, ReadPurpose::Scan).map_err(unreadable)?;
    search_text(Content::decode_text(bytes)?, path, look)
}

/// Calls `look` with the documents of a text until it finds something.
fn search_text<T>(
    text: String,
    path: &Path,
    mut look: impl FnMut(&str) -> Option<T>,
) -> Result<Option<T>, ReadError> {
    if text.trim_start().starts_with('{') {
        let found = search_documents(&text, &mut look);
        // The second reading handles flow mappings of YAML and other errors.
        if found.is_some() {
            return Ok(found);
        }
        let none = Reader::new(usize::MAX);
        let documents = parse_documents(text, &path.to_string_lossy(), &none);
        let documents = documents.map_err(|(_, broken)| broken)?;
        let is_yaml = |index: &usize| documents.offsets(*index).is_some();
        let found = (0..documents.len()).filter(is_yaml).find_map(|i| look(documents.json(i)));
        return Ok(found);
    }
    for range in split_chunks(&text) {
        let start = range.start;
        let parts =
            parse_yaml_chunk(&text, range).map_err(|error| yaml_error(&text, start, &error))?;
        for part in parts {
            if let DocumentText::Yaml { json, .. } = part
                && let Some(found) = look(&json)
            {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

/// Returns the documents at the start of a file that are complete in its first bytes. The last document of
/// YAML is not.
fn head_documents(head: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            head.get(..error.valid_up_to()).and_then(|head| std::str::from_utf8(head).ok())?
        }
        Err(_) => return None,
    };
    if text.trim_start().starts_with('{') {
        return Some(text);
    }
    let last = split_chunks(text).last()?.start;
    text.get(..last)
}

/// Classifies the complete documents of a text: JSON values up to the first error, or YAML.
fn search_documents<T>(text: &str, look: &mut impl FnMut(&str) -> Option<T>) -> Option<T> {
    if text.trim_start().starts_with('{') {
        let values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
        return values.map_while(Result::ok).find_map(|raw| look(raw.get()));
    }
    let parts = split_chunks(text)
        .into_iter()
        .map_while(|range| parse_yaml_chunk(text, range).ok())
        .flatten();
    parts.into_iter().find_map(|part| match part {
        DocumentText::Yaml { json, .. } => look(&json),
        DocumentText::Json(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDirectory;

    fn read(name: &str, content: impl AsRef<[u8]>) -> File {
        let directory = TempDirectory::empty();
        directory.write(name, content);
        let path = directory.path().join(name);
        let read = |path: &std::path::PathBuf| {
            let at = FilePath::Named(path);
            File::read(at, name.to_owned(), name.to_owned(), ParseMode::ByName, &Reader::default())
        };
        super::super::parallel::map(&[path], read).remove(0)
    }

    fn documents(name: &str, content: &str) -> Vec<String> {
        let file = read(name, content);
        let documents = file.documents().unwrap_or_else(|| panic!("{content:?}: {file:?}"));
        documents.iter_json().map(str::to_owned).collect()
    }

    fn parse_error(name: &str, content: impl AsRef<[u8]>) -> (u64, u64, String) {
        let file = read(name, content);
        let broken = file.read_error().unwrap_or_else(|| panic!("{file:?}"));
        (broken.line, broken.column, broken.message.clone())
    }

    #[test]
    fn json_and_yaml_hold_several_documents() {
        assert_eq!(documents("a.json", "{\"a\": 1}{}\n[2] null"), ["{\"a\": 1}", "{}", "[2]"]);
        assert_eq!(
            documents("a.yaml", "---\n# x\n---\na: 1\n---\n---\nb: yes\n"),
            [r#"{"a":1}"#, r#"{"b":true}"#]
        );
        assert_eq!(documents("a.yml", "{a: 1, b: [x]}\n"), [r#"{"a":1,"b":["x"]}"#]);
        assert_eq!(documents("a.YAML", "{\"a\":\n\t1}{\"b\": 2}"), ["{\"a\":\n\t1}", "{\"b\": 2}"]);
        assert_eq!(
            documents("a.yaml", "\u{feff}a: 1\r\nb:\r\n  - x\r\n"),
            [r#"{"a":1,"b":["x"]}"#]
        );
        assert_eq!(documents("a.yaml", "a: &x {b: 1}\nc: *x\n"), [r#"{"a":{"b":1},"c":{"b":1}}"#]);
        assert_eq!(documents("a.yaml", ""), [""; 0]);
        assert_eq!(documents("a.json", "  \n"), [""; 0]);
    }

    #[test]
    fn document_markers_end_documents_anywhere() {
        let text = "a: |\n  ---\n  x\n--- # two\nb: \"y\n  --- z\"\n---\tc: 1\n----: d\n";
        let ranges = split_chunks(text);
        assert_eq!(ranges.len(), 3);
        assert_eq!(
            documents("a.yaml", "%YAML 1.2\n---\na: 1\n...\n%YAML 1.2\n---\nb: 2\n"),
            [r#"{"a":1}"#, r#"{"b":2}"#]
        );
        let many: String = (0..30_000).map(|_| "---\na: 1\n").collect();
        assert_eq!(documents("a.yaml", &many).len(), 30_000);
        assert_eq!(parse_error("a.yaml", many + "---\n\n\nb: [").0, 60_004);
    }

    #[test]
    fn invalid_content_reports_line_and_column() {
        assert_eq!(parse_error("a.json", "{\"a\": 1,\n \"b\" 2}").0, 2);
        assert_eq!(parse_error("a.json", "{}x").0, 1);
        let (line, _, why) = parse_error("a.yaml", "a:\n\tb: 1\n");
        assert!(line == 2 && why.starts_with("not YAML: "), "{line} {why}");
        assert_eq!(parse_error("a.yaml", "a: 1\nb: {{ .Values.x }}\n").0, 2);
        assert_eq!(
            parse_error("a.yaml", b"a: 1\nb: \xff\n"),
            (2, 4, "not UTF-8: save the file as UTF-8".to_owned())
        );
        assert_eq!(parse_error("a.yaml", b"a: 1\n\0").0, 2);
        assert_eq!(parse_error("a.json", "[".repeat(300) + &"]".repeat(300)).1, 257);
        parse_error("a.yaml", "[".repeat(100_000));
        parse_error("a.yaml", "- ".repeat(100_000));
        let bomb: String = (1..20).fold("a0: &a0 [x, x]\n".to_owned(), |text, i| {
            format!("{text}a{i}: &a{i} [*a{p}, *a{p}, *a{p}, *a{p}]\n", p = i - 1)
        });
        parse_error("a.yaml", bomb);
    }

    #[test]
    fn other_files_are_read_as_text_or_skipped() {
        assert!(matches!(read("Dockerfile", "FROM scratch\n").content, Content::Text(_)));
        assert!(matches!(read("a.png", b"\x89PNG\0").content, Content::Other));
        assert!(matches!(read("a.md", "x".repeat(70_000)).content, Content::Other));
    }

    #[test]
    fn deep_schemas_are_read() {
        let deep = "{\"a\":".repeat(200) + "1" + &"}".repeat(200);
        assert_eq!(documents("a.json", &deep).len(), 1);
        let yaml: String =
            (0..150).flat_map(|level| [" ".repeat(level), "a:\n".to_owned()]).collect();
        assert_eq!(documents("a.yaml", &yaml).len(), 1);
    }
}
