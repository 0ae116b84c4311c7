//! Duplicate names in an object. The parsers take the last one, and other readers may take the first:
//! such a file cannot be read. A file of a bundle can, as upstream reads it, and the name is noted.
//!
//! The pass that checks a file finds them (`opgate_document::Text::twice`). A separate pass costs a
//! tenth of the time for a catalog of 100 MB, this one a hundredth.

use std::sync::Arc;

use super::content::{Content, Documents, File, ReadError};
use opgate_input::read::Reader;
use opgate_text::lines::line_and_column;

/// Start of the error for such a name, after the format.
const DUPLICATE_KEY_ERROR: &str = ": duplicate mapping key: ";

/// Returns the file, unless an object in it has a name twice.
pub(super) fn reject_duplicates(file: File) -> File {
    match find_duplicate(&file) {
        Some(broken) => File { content: Content::Unreadable(broken), ..file },
        None => file,
    }
}

/// Returns the file in which the last member of a name counts.
pub(super) fn tolerate_duplicates(file: File, reader: &Reader) -> File {
    // The format does not matter where the file can be read.
    let noted = |broken: &ReadError| {
        let why = broken.message.split_once(": ").map_or("", |(_, why)| why).to_owned();
        Some(ReadError { line: broken.line, column: broken.column, message: why, text: None })
    };
    if let Some(broken) = find_duplicate(&file) {
        return File { duplicate_key: noted(&broken), ..file };
    }
    let Content::Unreadable(broken) = &file.content else { return file };
    let text = broken.text.as_deref().filter(|_| broken.message.contains(DUPLICATE_KEY_ERROR));
    let Some(documents) = text.and_then(|text| Documents::parse_tolerant(text, reader)) else {
        return file;
    };
    let twice = noted(broken);
    File { content: Content::Documents(documents), duplicate_key: twice, ..file }
}

/// Returns the first such name in a file of JSON.
fn find_duplicate(file: &File) -> Option<ReadError> {
    let text = &file.documents()?.text;
    let found = text.duplicate_name()?;
    let (line, column) = line_and_column(text, found.start);
    let why =
        format!("not JSON{DUPLICATE_KEY_ERROR}{}", unquote(text.get(found).unwrap_or_default()));
    Some(ReadError { line, column, message: why, text: Some(Arc::from(&***text)) })
}

/// Returns the value of a quoted text.
fn unquote(quoted: &str) -> String {
    // Half of a surrogate pair has no other representation than the text.
    serde_json::from_str(quoted).unwrap_or_else(|_| quoted.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::ParseMode;
    use crate::testing::TempDirectory;
    use opgate_input::read::FilePath;

    #[test]
    fn duplicate_key_makes_a_file_invalid() {
        let cases = [
            ("{\"a\": 1}{\"a\": 2}", None),
            ("{\"a\": 1}\n{\"b\": {\"a\": 1, \"\\u0061\": 2}}", Some((2, 16, "a"))),
            ("{\"\\ud800\": 1, \"\\ud800\": 2}", Some((1, 15, "\\ud800"))),
        ];
        for (json, expected) in cases {
            let directory = TempDirectory::new(&[("x.json", json)]);
            let path = directory.path().join("x.json");
            let (at, name) = (FilePath::Named(&path), "x.json");
            let reader = Reader::default();
            let file = File::read(at, name.into(), name.into(), ParseMode::AllFiles, &reader);
            let file = reject_duplicates(file);
            let found = file.read_error().map(|b| (b.line, b.column, b.message.as_str()));
            let expected = expected.map(|(line, column, name)| {
                (line, column, format!("not JSON: duplicate mapping key: {name}"))
            });
            let expected =
                expected.as_ref().map(|(line, column, why)| (*line, *column, why.as_str()));
            assert_eq!(found, expected, "{json}");
        }
    }
}
