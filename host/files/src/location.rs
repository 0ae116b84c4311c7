//! Converts the `field` of a violation to line and column of a file.
//!
//! A field is a path as Kubernetes writes it (`spec.files[3].documents[0].metadata.annotations[a.b]`).
//! The document itself determines the meaning of the path: a name with points but without brackets
//! is found as well. A field that is not in the document has the place of the nearest value around
//! it. A path that continues inside a text leads into the JSON that the text is: an annotation with
//! examples, for instance. In a text that is no JSON it leads to the error.

use std::sync::{Arc, Mutex, PoisonError};

use opgate_document::Document;

use super::content::{Documents, File};
use super::excerpt::{can_be_shown, is_in_secret, mentions_secret};
use opgate_input::field::resolve_tokens;
use opgate_input::yaml::ValueNumbers;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The path of the file in messages.
    pub file: String,
    /// From 1.
    pub line: u64,
    /// From 1, in characters.
    pub column: u64,
    /// The line, unless it is very long, or not to be shown (see `excerpt.rs`).
    pub excerpt: String,
}

/// Maximum bytes of a line that is shown: longer lines are not readable, and some files have only one line.
const MAX_EXCERPT_BYTES: usize = 4_096;

impl Location {
    /// Creates a place in a file that is no document.
    pub fn new(file: &File, line: u64, column: u64) -> Self {
        let is_hidden = mentions_secret(file.text().unwrap_or_default());
        let line_text = source_line(file, line).filter(|_| !is_hidden);
        Self { file: file.display_path.clone(), line, column, excerpt: excerpt(line_text) }
    }

    /// Creates the place of an offset; whether it is in a Secret.
    fn at_offset(file: &File, offset: usize, is_hidden: bool) -> Self {
        let text = file.text().unwrap_or_default();
        let (line, column) = file.origin.file_position(file.lines().place(text, offset));
        let line_text = file.lines().line(text, offset, MAX_EXCERPT_BYTES).filter(|_| !is_hidden);
        Self { file: file.display_path.clone(), line, column, excerpt: excerpt(line_text) }
    }

    /// Creates the start of the text on a line of a file. Lines are counted from 0.
    pub fn at_line(file: &File, index: u64) -> Self {
        let line = index.saturating_add(1);
        let text = source_line(file, line).unwrap_or_default();
        let indent = text.chars().take_while(|c| c.is_whitespace()).count();
        Self::new(file, line, u64::try_from(indent + 1).unwrap_or(1))
    }
}

/// Returns a line of a file, from 1, unless it is very long.
fn source_line(file: &File, line: u64) -> Option<&str> {
    let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
    let text = file.text()?;
    file.lines().line(text, file.lines().start(text, index), MAX_EXCERPT_BYTES)
}

/// Returns the part of a line that is shown.
fn excerpt(line: Option<&str>) -> String {
    line.filter(|line| can_be_shown(line)).unwrap_or_default().to_owned()
}

/// The JSON in a text.
#[derive(Debug)]
enum EmbeddedJson {
    Json(Document),
    /// The offset of the error, and whether it can be in a Secret.
    Invalid(usize, bool),
}

impl EmbeddedJson {
    fn of(text: &str) -> Self {
        if let Ok(document) = Document::of(text.to_owned()) {
            return Self::Json(document);
        }
        let error = serde_json::from_str::<&serde_json::value::RawValue>(text).err();
        let (line, column) = error.map_or((1, 1), |error| (error.line(), error.column()));
        let before = text.split_inclusive('\n').take(line.saturating_sub(1));
        let start: usize = before.map(str::len).sum();
        let offset = start.saturating_add(column.saturating_sub(1));
        Self::Invalid(offset.min(text.len().saturating_sub(1)), mentions_secret(text))
    }

    /// Returns the offset of the target of the tokens, and whether that is in a Secret.
    fn offset(&self, tokens: &[String]) -> Option<(usize, bool)> {
        match self {
            Self::Invalid(offset, is_hidden) => Some((*offset, *is_hidden)),
            Self::Json(document) => {
                let (pointer, _) = resolve_tokens(document.root(), tokens);
                let is_hidden = is_in_secret(document.root(), &pointer);
                document.get(&pointer).map(|value| (value.range().start, is_hidden))
            }
        }
    }
}

/// Returns the offset in the source of an offset in a text that is a literal block of YAML below a name; none
/// if it is written in another way.
fn offset_in_block(source: &str, name: usize, text: &str, offset: usize) -> Option<usize> {
    let header = source.get(name..)?.lines().next()?;
    let (_, style) = header.split(" #").next()?.trim_end().rsplit_once(' ')?;
    if !style.starts_with('|') || style.contains(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let block = name.checked_add(header.len())?;
    let block = block.checked_add(source.get(block..)?.find('\n')?)?.checked_add(1)?;
    let lines = source.get(block..)?.split_inclusive('\n');
    let first = lines.clone().find(|line| !line.trim().is_empty())?;
    let indent = first.len().checked_sub(first.trim_start_matches(' ').len())?;
    let before = text.get(..offset)?;
    let index = before.matches('\n').count();
    let column = before.len().checked_sub(before.rfind('\n').map_or(0, |newline| newline + 1))?;
    let start: usize = lines.take(index).map(str::len).sum();
    let found = block.checked_add(start)?.checked_add(indent)?.checked_add(column)?;
    let same = source.as_bytes().get(found) == text.as_bytes().get(offset);
    same.then_some(found)
}

/// Returns the offset in the source of an offset in a quoted text of JSON that starts at `start`.
fn offset_in_quotes(source: &str, start: usize, offset: usize) -> Option<usize> {
    let raw = source.get(start..)?.strip_prefix('"')?;
    let (mut at, mut passed) = (0_usize, 0_usize);
    let mut characters = raw.char_indices();
    while passed < offset {
        let (_, character) = characters.next()?;
        passed = passed.checked_add(match character {
            '"' => return None,
            '\\' => match characters.next()?.1 {
                'u' => {
                    let digits: String = characters.by_ref().take(4).map(|(_, c)| c).collect();
                    let code = u32::from_str_radix(&digits, 16).ok()?;
                    // Halves of pairs have the same length together.
                    char::from_u32(code).map_or(2, char::len_utf8)
                }
                _ => 1,
            },
            other => other.len_utf8(),
        })?;
        at = characters.offset();
    }
    start.checked_add(1)?.checked_add(at)
}

/// A document of a file, prepared for the lookup of locations without parsing it again.
#[derive(Debug)]
pub(crate) struct Locator {
    document: Document,
    /// Only for YAML.
    value_numbers: Option<ValueNumbers>,
    /// The last text into which a field led, by its pointer: many fields lead into one.
    last_embedded: Mutex<Option<(String, Arc<EmbeddedJson>)>>,
}

impl Locator {
    /// Prepares a document.
    pub(crate) fn of(documents: &Documents, index: usize) -> Self {
        let numbers = documents.offsets(index).map(|_| ValueNumbers::of(documents.json(index)));
        Self {
            document: documents.document(index),
            value_numbers: numbers,
            last_embedded: Mutex::default(),
        }
    }

    /// Returns the place of the target of the tokens below a JSON pointer, in this document.
    pub(crate) fn locate(
        &self,
        file: &File,
        (documents, index): (&Documents, usize),
        base: &str,
        tokens: &[String],
    ) -> Location {
        let root = self.document.get(base).unwrap_or_else(|| self.document.root());
        let (inside, rest) = resolve_tokens(root, tokens);
        let pointer = format!("{base}{inside}");
        let value = self.document.get(&pointer);
        let range = value.map(|value| value.range()).unwrap_or_default();
        let text = value.and_then(|value| value.text()).filter(|_| !rest.is_empty());
        let inner =
            text.and_then(|text| Some((text, self.embedded_json(&pointer, text).offset(rest)?)));
        let is_hidden = is_in_secret(self.document.root(), &pointer)
            || inner.is_some_and(|(_, (_, is_hidden))| is_hidden);
        let inner = inner.map(|(text, (offset, _))| (text, offset));
        let offset = match (&self.value_numbers, documents.offsets(index)) {
            (Some(numbers), Some(offsets)) => {
                let name = numbers.offset(documents.json(index), offsets, range.start);
                let inner = inner.and_then(|(text, offset)| {
                    offset_in_block(&documents.text, name, text, offset)
                });
                inner.unwrap_or(name)
            }
            _ if pointer.is_empty() => documents.start_offset(index),
            _ => inner
                .and_then(|(_, offset)| offset_in_quotes(&documents.text, range.start, offset))
                .unwrap_or_else(|| name_start(&documents.text, range.start, &pointer)),
        };
        Location::at_offset(file, offset, is_hidden)
    }

    /// Returns the JSON in the text at a pointer.
    fn embedded_json(&self, pointer: &str, text: &str) -> Arc<EmbeddedJson> {
        let mut last = self.last_embedded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, inner)) = &*last
            && known == pointer
        {
            return inner.clone();
        }
        let inner = Arc::new(EmbeddedJson::of(text));
        *last = Some((pointer.to_owned(), inner.clone()));
        inner
    }
}

/// Returns the start of the name of a member, by the start of its value.
fn name_start(text: &str, offset: usize, pointer: &str) -> usize {
    let name = pointer.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
    let before = text.get(..offset).unwrap_or_default().trim_end();
    let name = before.strip_suffix(':').map(str::trim_end).and_then(|before| {
        before.strip_suffix('"')?.strip_suffix(name.as_str())?.strip_suffix('"').map(str::len)
    });
    name.unwrap_or(offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::ParseMode;
    use crate::field::path_tokens;
    use crate::testing::TempDirectory;
    use opgate_input::read::{FilePath, Reader};

    fn assert_locations(name: &str, text: &str, index: usize, fields: &[(&str, (u64, u64))]) {
        let directory = TempDirectory::empty();
        directory.write(name, text);
        let path = directory.path().join(name);
        let (at, reader) = (FilePath::Named(&path), Reader::default());
        let file = File::read(at, name.to_owned(), name.to_owned(), ParseMode::AllFiles, &reader);
        let documents = file.documents().unwrap();
        let places = Locator::of(documents, index);
        for (field, expected) in fields {
            let found = places.locate(&file, (documents, index), "", &path_tokens(field));
            assert_eq!((found.line, found.column), *expected, "{name} {field}");
        }
    }

    #[test]
    fn fields_have_locations_in_yaml() {
        let text = "# one\na: 1\n---\n# two\nmetadata:\n  annotations:\n    olm.x/y: z\nlist:\n- a: 1\n- b: ä\n---\nc: d\n";
        assert_locations(
            "a.yaml",
            text,
            1,
            &[
                ("metadata.annotations[olm.x/y]", (7, 5)),
                ("metadata.annotations.olm.x/y", (7, 5)),
                ("metadata.annotations[other]", (6, 3)),
                ("list[1].b", (10, 3)),
                ("list[7]", (8, 1)),
                ("", (5, 1)),
            ],
        );
        assert_locations("a.yaml", text, 0, &[("a", (2, 1))]);
        assert_locations("a.yaml", text, 2, &[("c", (12, 1))]);
    }

    #[test]
    fn fields_in_embedded_json_have_locations() {
        let text = "annotations:\n  a.b/examples: |-  # all\n\n    [\n      {\"ä\": 1},\n      {\"kind\": \"X\"}\n    ]\n  broken: |\n    [\n      1,,\n    ]\n  folded: >\n    [{\"a\":\n    1}]\n  quoted: '[{\"a\": 1}]'\n";
        assert_locations(
            "a.yaml",
            text,
            0,
            &[
                ("annotations[a.b/examples][1].kind", (6, 16)),
                ("annotations[a.b/examples][1]", (6, 7)),
                ("annotations[a.b/examples][0].ä", (5, 13)),
                ("annotations[a.b/examples][7]", (4, 5)),
                ("annotations[a.b/examples]", (2, 3)),
                ("annotations.broken.error", (10, 9)),
                ("annotations.folded[0].a", (12, 3)),
                ("annotations.quoted[0].a", (15, 3)),
            ],
        );
        let text = "{\"a\": \"[{\\\"k\\\": \\u00e4\\n1, 2]\", \"b\": \"[{\\\"k\\\": 12}]\"}";
        assert_locations("a.json", text, 0, &[("b[0].k", (1, 48)), ("b", (1, 33))]);
    }

    #[test]
    fn fields_have_locations_in_json() {
        let text = "{\"a\": 1}\n{\n\t\"b\": [\n\t\t{\"c/d\":  true}, 2\n\t]\n}";
        assert_locations(
            "a.json",
            text,
            1,
            &[
                ("b", (3, 2)),
                ("b[0].c/d", (4, 4)),
                ("b[1]", (4, 19)),
                ("b[1].x", (4, 19)),
                ("nothing", (2, 1)),
            ],
        );
        assert_locations("a.json", text, 0, &[("a", (1, 2))]);
    }
}
