//! Converts the `field` of a violation to line and column of a file.
//!
//! A field is a path as Kubernetes writes it (`spec.files[3].documents[0].metadata.annotations[a.b]`).
//! The document itself determines the meaning of the path: a name with points but without brackets
//! is found as well. A field that is not in the document has the place of the nearest value around
//! it.

use opgate_document::{Document, Kind, Value};

use super::content::{Documents, File};
use opgate_input::yaml::Numbers;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The path of the file in messages.
    pub file: String,
    /// From 1.
    pub line: u64,
    /// From 1, in characters.
    pub column: u64,
    /// The line, unless it is very long.
    pub excerpt: String,
}

/// Maximum bytes of a line that is shown: nobody reads a longer one, and whole files are on one
/// line.
const MAX_LINE: usize = 4_096;

impl Location {
    /// A place in a file.
    pub fn new(file: &File, line: u64, column: u64) -> Self {
        let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        let text = file.text().unwrap_or_default();
        let (lines, start) = (file.lines(), file.lines().start(text, index));
        let excerpt = lines.line(text, start, MAX_LINE).unwrap_or_default().to_owned();
        Self { file: file.shown.clone(), line, column, excerpt }
    }

    /// The place of an offset.
    fn at(file: &File, offset: usize) -> Self {
        let text = file.text().unwrap_or_default();
        let (line, column) = file.origin.place(file.lines().place(text, offset));
        let excerpt = file.lines().line(text, offset, MAX_LINE).unwrap_or_default().to_owned();
        Self { file: file.shown.clone(), line, column, excerpt }
    }

    /// The start of the text on a line of a file. Lines are counted from 0.
    pub fn line(file: &File, index: u64) -> Self {
        let place = Self::new(file, index.saturating_add(1), 1);
        let indent = place.excerpt.chars().take_while(|c| c.is_whitespace()).count();
        Self { column: u64::try_from(indent + 1).unwrap_or(1), ..place }
    }
}

/// JSON pointer of the target of the tokens in a document, or of the nearest value around it.
fn pointer(root: Value<'_>, tokens: &[String]) -> String {
    let (mut at, mut pointer, mut tokens) = (root, String::new(), tokens);
    while !tokens.is_empty() {
        // The name, or the longest one that several of the tokens form: it can have points.
        let longest = if at.kind() == Kind::Object { tokens.len() } else { 1 };
        let found = std::iter::once(1).chain((2..=longest).rev()).find_map(|count| {
            let name = tokens.get(..count)?.join(".");
            let step = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            Some((at.get(&step)?, step, count))
        });
        let Some((value, step, count)) = found else { break };
        at = value;
        pointer.push_str(&step);
        tokens = tokens.get(count..).unwrap_or_default();
    }
    pointer
}

/// A document of a file, prepared for finding places without parsing it again.
#[derive(Debug)]
pub(crate) struct Locator {
    document: Document,
    /// Only for YAML.
    numbers: Option<Numbers>,
}

impl Locator {
    /// Prepares a document.
    pub(crate) fn of(documents: &Documents, index: usize) -> Self {
        let numbers = documents.offsets(index).map(|_| Numbers::of(documents.json(index)));
        Self { document: documents.document(index), numbers }
    }

    /// The place of the target of the tokens below a JSON pointer, in this document.
    pub(crate) fn place(
        &self,
        file: &File,
        (documents, index): (&Documents, usize),
        base: &str,
        tokens: &[String],
    ) -> Location {
        let root = self.document.get(base).unwrap_or_else(|| self.document.root());
        let pointer = format!("{base}{}", pointer(root, tokens));
        let range = self.document.get(&pointer).map(|value| value.range()).unwrap_or_default();
        let offset = match (&self.numbers, documents.offsets(index)) {
            (Some(numbers), Some(offsets)) => {
                numbers.offset(documents.json(index), offsets, range.start)
            }
            _ if pointer.is_empty() => documents.start(index),
            _ => name_before(&documents.text, range.start, &pointer),
        };
        Location::at(file, offset)
    }
}

/// The start of the name of a member, by the start of its value.
fn name_before(text: &str, offset: usize, pointer: &str) -> usize {
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
    use crate::content::Expect;
    use crate::field::tokens;
    use crate::testing::Temporary;
    use opgate_input::read::{At, Reader};

    fn places(name: &str, text: &str, index: usize, fields: &[(&str, (u64, u64))]) {
        let folder = Temporary::empty();
        folder.write(name, text);
        let path = folder.path().join(name);
        let (at, reader) = (At::Named(&path), Reader::default());
        let file = File::read(at, name.to_owned(), name.to_owned(), Expect::Documents, &reader);
        let documents = file.documents().unwrap();
        let places = Locator::of(documents, index);
        for (field, expected) in fields {
            let found = places.place(&file, (documents, index), "", &tokens(field));
            assert_eq!((found.line, found.column), *expected, "{name} {field}");
        }
    }

    #[test]
    fn fields_have_places_in_yaml() {
        let text = "# one\na: 1\n---\n# two\nmetadata:\n  annotations:\n    olm.x/y: z\nlist:\n- a: 1\n- b: ä\n---\nc: d\n";
        places(
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
        places("a.yaml", text, 0, &[("a", (2, 1))]);
        places("a.yaml", text, 2, &[("c", (12, 1))]);
    }

    #[test]
    fn fields_have_places_in_json() {
        let text = "{\"a\": 1}\n{\n\t\"b\": [\n\t\t{\"c/d\":  true}, 2\n\t]\n}";
        places(
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
        places("a.json", text, 0, &[("a", (1, 2))]);
    }
}
