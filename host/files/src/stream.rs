//! Documents of a catalog file as `opm` cuts them.
//!
//! It reads JSON values if the file starts with `{`, and the text after the last valid one as YAML. There a
//! line that starts with `---` ends a document, unless it is the first line: such a line belongs to the
//! document after it. A document with only comments is a blob without a schema.

use memchr::{memchr, memmem};
use serde_json::value::RawValue;

use super::content::Documents;

/// Start of such a line.
const SEPARATOR: &str = "---";

/// An offset in the text, and what is wrong there.
pub(super) type StreamError = (usize, String);

/// Returns the offset of the first document without content.
///
/// # Errors
/// A separator with something after it, which `opm` refuses.
pub(super) fn find_empty_document(documents: &Documents) -> Result<Option<usize>, StreamError> {
    let text: &str = &documents.text;
    if documents.len() > 0 && documents.offsets(0).is_none() {
        return Ok(find_null_between(documents, text));
    }
    find_empty_yaml(text, yaml_start(text))
}

/// Returns the position of a JSON value outside the documents; such values are `null`.
fn find_null_between(documents: &Documents, text: &str) -> Option<usize> {
    let mut end = 0;
    let starts = (0..documents.len()).map(|index| {
        let start = documents.start_offset(index);
        (start, start.saturating_add(documents.json(index).len()))
    });
    for (start, next) in starts.chain([(text.len(), text.len())]) {
        let gap = text.get(end..start).unwrap_or_default();
        if let Some(at) = gap.find(|c: char| !c.is_whitespace()) {
            return Some(end.saturating_add(at));
        }
        end = next;
    }
    None
}

/// Returns the start of the YAML in a text: after the JSON value at its start, and the rest of that line if
/// it is blank.
fn yaml_start(text: &str) -> usize {
    if !text.trim_start().starts_with('{') {
        return 0;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    let start = match values.next() {
        Some(Ok(_)) => values.byte_offset(),
        _ => 0,
    };
    let rest = text.get(start..).unwrap_or_default();
    let line = memchr(b'\n', rest.as_bytes()).map_or(rest.len(), |end| end.saturating_add(1));
    let blank = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
    start.saturating_add(line.min(blank))
}

/// Returns the first document without content in a text from an offset.
fn find_empty_yaml(text: &str, start: usize) -> Result<Option<usize>, StreamError> {
    // A separator that ends nothing is part of the document after it, which is there then.
    let (mut begin, mut has_separator) = (start, false);
    let found = memmem::find_iter(text.as_bytes(), SEPARATOR).filter(|at| {
        let before = at.checked_sub(1).and_then(|before| text.as_bytes().get(before));
        *at >= start && (*at == start || before == Some(&b'\n'))
    });
    for at in found {
        // The rest of a line such as `------`.
        if at < begin {
            continue;
        }
        let rest = text.get(at..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        let after = line.get(SEPARATOR.len()..).unwrap_or_default().trim();
        if !after.is_empty() && !after.starts_with('#') {
            return Err((at, format!("invalid Yaml document separator: {after}")));
        }
        let content = text.get(begin..at).unwrap_or_default();
        let is_document = has_separator || !content.is_empty();
        if is_document && is_null(content) {
            return Ok(Some(begin));
        }
        has_separator = !is_document;
        let end = memchr(b'\n', rest.as_bytes()).map_or(rest.len(), |end| end.saturating_add(1));
        begin = at.saturating_add(end);
    }
    let content = text.get(begin..).unwrap_or_default();
    let is_empty = (has_separator || !content.is_empty()) && is_null(content);
    Ok(is_empty.then_some(begin))
}

/// Reports whether the content of a document is `null`: comments and blank lines, or the word.
fn is_null(content: &str) -> bool {
    let mut words = content
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#') && *line != "...");
    match (words.next(), words.next()) {
        (None, _) => true,
        (Some(word), None) => matches!(word, "null" | "Null" | "NULL" | "~"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use opgate_input::read::{FilePath, Reader};

    use super::*;
    use crate::content::{File, ParseMode};
    use crate::testing::TempDirectory;

    fn find_in_text(text: &str) -> Result<Option<usize>, StreamError> {
        let directory = TempDirectory::new(&[("a", text)]);
        let path = directory.path().join("a");
        let reader = Reader::default();
        let file = File::read(
            FilePath::Named(&path),
            "a".into(),
            "a".into(),
            ParseMode::AllFiles,
            &reader,
        );
        find_empty_document(file.documents().unwrap_or_else(|| panic!("{text}: {file:?}")))
    }

    #[test]
    fn empty_documents_are_found_like_upstream() {
        for text in [
            "",
            "a: 1\n",
            "---\na: 1\n",
            "--- # one\n# two\na: 1\n---\nb: 1\n",
            "a: 1\n---\n---\nb: 1\n",
            "a: 1\n---\nb: 1\n---\n",
            "a: 1\n---\nb: 1\n---",
            "a: 1\n--- # two\n# three\nb: 1\n",
            "a: 1\r\n---\r\nb: 1\r\n",
            "a: |\n  b\n  ---\n  c\n---\nb: 1\n",
            "{\"a\": 1}\n---\n{\"b\": 1}\n---\nc: 1\n",
            "\n{\"a\": 1}\n\n{\"b\": 1}\n\n",
            "{a: 1}\n---\nb: 1\n",
        ] {
            assert_eq!(find_in_text(text), Ok(None), "{text}");
        }
        for (text, offset) in [
            ("\n", 0),
            ("# x\n", 0),
            ("# x\n---\na: 1\n", 0),
            ("\n---\na: 1\n", 0),
            ("---\n", 4),
            ("---\n---\na: 1\n", 4),
            ("a: 1\n---\n# x\n---\nb: 1\n", 9),
            ("a: 1\n---\n\n---\nb: 1\n", 9),
            ("a: 1\n---\n---\n---\nb: 1\n", 13),
            ("a: 1\n---\nnull\n---\nb: 1\n", 9),
            ("a: 1\n---\n~ \n...\n---\nb: 1\n", 9),
            ("a: 1\n---\n\n", 9),
            ("a: 1\n---\n# end\n", 9),
            ("{\"a\": 1}\n\n---\nb: 1\n", 9),
            ("{\"a\": 1} null {\"b\": 1}\n", 9),
            ("{\"a\": 1}\nnull\n", 9),
        ] {
            assert_eq!(find_in_text(text), Ok(Some(offset)), "{text}");
        }
    }

    #[test]
    fn separator_with_content_is_refused() {
        for (text, offset, after) in
            [("a: 1\n--- {b: 1}\n", 5, "{b: 1}"), ("--- {a: 1}\n", 0, "{a: 1}")]
        {
            let why = format!("invalid Yaml document separator: {after}");
            assert_eq!(find_in_text(text), Err((offset, why)), "{text}");
        }
    }
}
