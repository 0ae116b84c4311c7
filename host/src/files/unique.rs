//! Names that stand twice in one object of JSON. The parser takes the last one, and other readers may
//! take the first: as in YAML, such a file cannot be read.
//!
//! The text is known to be JSON, and is looked through once. Depth costs no calls.

use std::borrow::Cow;
use std::collections::HashSet;

use super::content::{Broken, Content, File};
use super::place::line_and_column;

/// The file, unless a name stands twice in it.
pub(super) fn checked(file: File) -> File {
    let Content::Documents(documents) = &file.content else { return file };
    let json = (0..documents.len()).filter(|index| !documents.is_yaml(*index));
    let mut found = json.filter_map(|index| {
        let (offset, name) = twice(documents.source(index))?;
        Some((documents.start(index).0 + offset, name.into_owned()))
    });
    let Some((offset, name)) = found.next() else { return file };
    let (line, column) = line_and_column(&documents.text, offset);
    let why = format!("not JSON: duplicate mapping key: {name}");
    let text: &str = &documents.text;
    let broken = Broken { line, column, why, text: Some(text.into()) };
    File { content: Content::Broken(broken), ..file }
}

/// An object or a list that is open.
enum Open<'j> {
    /// The names so far.
    Object(HashSet<Cow<'j, str>>),
    List,
}

/// Offset and name of the first one that was there before.
fn twice(json: &str) -> Option<(usize, Cow<'_, str>)> {
    let mut open: Vec<Open<'_>> = Vec::new();
    let bytes = json.as_bytes();
    let mut at = 0;
    // Whether a text here is the name of a member.
    let mut is_name = false;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' => {
                open.push(Open::Object(HashSet::new()));
                is_name = true;
            }
            b'[' => {
                open.push(Open::List);
                is_name = false;
            }
            b'}' | b']' => {
                open.pop();
                is_name = false;
            }
            b',' => is_name = matches!(open.last(), Some(Open::Object(_))),
            b'"' => {
                let end = end_of_text(bytes, at);
                if let (true, Some(Open::Object(names))) = (is_name, open.last_mut()) {
                    let name = text(json.get(at..end).unwrap_or_default());
                    if names.contains(&name) {
                        return Some((at, name));
                    }
                    names.insert(name);
                }
                is_name = false;
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where a text ends that starts with the quote at an offset.
fn end_of_text(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        match memchr::memchr2(b'"', b'\\', rest) {
            None => return bytes.len(),
            Some(found) if rest.get(found) == Some(&b'"') => return at + found + 1,
            Some(found) => at += found + 2,
        }
    }
}

/// What a quoted text says.
fn text(quoted: &str) -> Cow<'_, str> {
    let plain = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if plain.contains('\\') {
        // Half of a pair of surrogates has no other form than the one in which it is written.
        serde_json::from_str(quoted).map_or(Cow::Borrowed(plain), Cow::Owned)
    } else {
        Cow::Borrowed(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_once_in_an_object() {
        let cases = [
            (r#"{"a": 1, "b": {"a": 2}, "c": [{"a": 1}, {"a": "a"}], "d": "a"}"#, None),
            (r#"{"a": 1, "b": 2, "a": 3}"#, Some((17, "a"))),
            (r#"[{"x": {"a": "\"a", "\u0061": 1}}]"#, Some((20, "a"))),
            (r#"{"a\\": ["a", "a"], "a\"": {}, "a\\": 1}"#, Some((31, "a\\"))),
            (r#"{"": 1, "": 2}"#, Some((8, ""))),
            ("[\"a\", \"a\", {}, 1]", None),
            ("\"a\"", None),
            ("1", None),
        ];
        for (json, expected) in cases {
            let found = twice(json);
            let found = found.as_ref().map(|(offset, name)| (*offset, name.as_ref()));
            assert_eq!(found, expected, "{json}");
        }
        let deep = format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
        assert_eq!(twice(&deep), None);
    }
}
