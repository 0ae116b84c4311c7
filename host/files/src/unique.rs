//! Duplicate names in an object of JSON. The parser takes the last one, and other readers may take
//! the first. As in YAML, such a file cannot be read.
//!
//! The pass that checks a file finds them (`opgate_document::Text::twice`). A separate pass costs a
//! tenth of the time for a catalog of 100 MB, this one a hundredth.

use super::content::{Broken, Content, File};
use opgate_text::lines::line_and_column;

/// The file, unless an object in it has a name twice.
pub(super) fn checked(file: File) -> File {
    let Content::Documents(documents) = &file.content else { return file };
    let text: &str = &documents.text;
    let Some(found) = documents.text.twice() else { return file };
    let (line, column) = line_and_column(text, found.start);
    let name = said(text.get(found).unwrap_or_default());
    let why = format!("not JSON: duplicate mapping key: {name}");
    let broken = Broken { line, column, why, text: Some(text.into()) };
    File { content: Content::Broken(broken), ..file }
}

/// The value of a quoted text.
fn said(quoted: &str) -> String {
    // Half of a surrogate pair has no other form than the one in the text.
    serde_json::from_str(quoted).unwrap_or_else(|_| quoted.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Expect;
    use crate::testing::Temporary;
    use opgate_input::read::{At, Reader};

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
