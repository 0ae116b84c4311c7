//! Lists of texts: read with one call of the host, and shortened for messages.

use crate::{Document, Kind};

/// Returns the texts of the list at the pointer; skips elements of other kinds.
///
/// A list of namespaces can have thousands of names, and one call for each would cost more than
/// everything else. So the JSON of the list is fetched once and split here. A list with escapes, or
/// with elements of other kinds, is read element by element.
#[must_use]
#[track_caller]
pub fn texts(document: &Document, pointer: &str) -> Vec<String> {
    if document.kind(pointer) != Kind::List {
        return Vec::new();
    }
    let count = document.length(pointer).and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
    let json = document.raw(pointer).unwrap_or_default();
    let cut = std::str::from_utf8(&json).ok().and_then(|json| split_plain_list(json, count));
    cut.unwrap_or_else(|| document.texts(pointer))
}

/// Splits a JSON list of plain texts. `None` if it has anything else.
fn split_plain_list(json: &str, count: usize) -> Option<Vec<String>> {
    let mut rest = json.trim_ascii().strip_prefix('[')?.strip_suffix(']')?.trim_ascii();
    if rest.contains('\\') {
        return None;
    }
    let mut texts = Vec::with_capacity(count);
    while !rest.is_empty() {
        let (text, after) = rest.strip_prefix('"')?.split_once('"')?;
        texts.push(text.to_owned());
        let after = after.trim_ascii_start();
        rest = match after.strip_prefix(',') {
            Some(next) => next.trim_ascii_start(),
            None if after.is_empty() => after,
            None => return None,
        };
    }
    (texts.len() == count).then_some(texts)
}

/// Formats `a, b and 3 more`: at most `shown` of the texts.
#[must_use]
pub fn join_shortened(texts: &[String], shown: usize) -> String {
    let list = texts.get(..shown).unwrap_or(texts).join(", ");
    match texts.len().saturating_sub(shown) {
        0 => list,
        more => format!("{list} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_host_reads_them() {
        for list in [
            "[]",
            " [ ] ",
            r#"["a"]"#,
            r#"[ "a" , "b,c" ]"#,
            r#"["", "é"]"#,
            r#"["a\"b","\u0061"]"#,
            r#"["a", 1, null, ["x"], "b"]"#,
            r#"[["a","b"]]"#,
            r#"[{"a":"b"}]"#,
            r#"[null,"a"]"#,
            "{}",
            "null",
            "1",
            r#""text""#,
        ] {
            let document = Document::parse(&format!("{{\"l\":{list}}}")).unwrap();
            assert_eq!(texts(&document, "/l"), document.texts("/l"), "{list}");
        }
        assert_eq!(texts(&Document::parse("{}").unwrap(), "/l"), Vec::<String>::new());
    }

    #[test]
    fn long_lists_are_shortened() {
        let texts: Vec<_> = ["a", "b", "c"].map(str::to_owned).into();
        assert_eq!(join_shortened(&texts, 3), "a, b, c");
        assert_eq!(join_shortened(&texts, 1), "a and 2 more");
        assert_eq!(join_shortened(&[], 1), "");
    }
}
