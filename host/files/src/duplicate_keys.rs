//! Duplicate names in an object. The parsers take the last one, and other readers may take the first:
//! such a file cannot be read. A file of a bundle can, as upstream reads it, and the name is noted.
//!
//! The pass that checks a file finds them (`opgate_document::Text::twice`). A separate pass costs a
//! tenth of the time for a catalog of 100 MB, this one a hundredth.

use std::sync::Arc;

use super::content::{Broken, Content, Documents, File};
use opgate_input::read::Reader;
use opgate_text::lines::line_and_column;

/// Start of the error for such a name, after the format.
const TWICE: &str = ": duplicate mapping key: ";

/// Returns the file, unless an object in it has a name twice.
pub(super) fn checked(file: File) -> File {
    match twice(&file) {
        Some(broken) => File { content: Content::Broken(broken), ..file },
        None => file,
    }
}

/// Returns the file in which the last member of a name counts.
pub(super) fn tolerated(file: File, reader: &Reader) -> File {
    // The format does not matter where the file can be read.
    let noted = |broken: &Broken| {
        let why = broken.why.split_once(": ").map_or("", |(_, why)| why).to_owned();
        Some(Broken { line: broken.line, column: broken.column, why, text: None })
    };
    if let Some(broken) = twice(&file) {
        return File { twice: noted(&broken), ..file };
    }
    let Content::Broken(broken) = &file.content else { return file };
    let text = broken.text.as_deref().filter(|_| broken.why.contains(TWICE));
    let Some(documents) = text.and_then(|text| Documents::tolerant(text, reader)) else {
        return file;
    };
    let twice = noted(broken);
    File { content: Content::Documents(documents), twice, ..file }
}

/// Returns the first such name in a file of JSON.
fn twice(file: &File) -> Option<Broken> {
    let text = &file.documents()?.text;
    let found = text.twice()?;
    let (line, column) = line_and_column(text, found.start);
    let why = format!("not JSON{TWICE}{}", said(text.get(found).unwrap_or_default()));
    Some(Broken { line, column, why, text: Some(Arc::from(&***text)) })
}

/// Returns the value of a quoted text.
fn said(quoted: &str) -> String {
    // Half of a surrogate pair has no other representation than the text.
    serde_json::from_str(quoted).unwrap_or_else(|_| quoted.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Expect;
    use crate::testing::Temporary;
    use opgate_input::read::At;

    #[test]
    fn a_file_with_a_name_twice_is_broken() {
        let cases = [
            ("{\"a\": 1}{\"a\": 2}", None),
            ("{\"a\": 1}\n{\"b\": {\"a\": 1, \"\\u0061\": 2}}", Some((2, 16, "a"))),
            ("{\"\\ud800\": 1, \"\\ud800\": 2}", Some((1, 15, "\\ud800"))),
        ];
        for (json, expected) in cases {
            let folder = Temporary::new(&[("x.json", json)]);
            let path = folder.path().join("x.json");
            let (at, name) = (At::Named(&path), "x.json");
            let reader = Reader::default();
            let file = File::read(at, name.into(), name.into(), Expect::Documents, &reader);
            let file = checked(file);
            let found = file.broken().map(|b| (b.line, b.column, b.why.as_str()));
            let expected = expected.map(|(line, column, name)| {
                (line, column, format!("not JSON: duplicate mapping key: {name}"))
            });
            let expected =
                expected.as_ref().map(|(line, column, why)| (*line, *column, why.as_str()));
            assert_eq!(found, expected, "{json}");
        }
    }
}
