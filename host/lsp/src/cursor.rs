//! The place of a cursor in the structure of a text: the values around it, and whether a name or a value is written.

use std::ops::Range;

use crate::outline::{Expected, Key, Node, Scanner, is_json, path_of, split_name};

/// What is written at a cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// The name of a member, or an element of a list.
    Name,
    /// The value of the last name of the path.
    Value,
}

/// A cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The number of the document, from 0.
    pub document: usize,
    /// The path of the value around it, or of the value that is written.
    pub path: Vec<Key>,
    /// What is written.
    pub slot: Slot,
    /// The bytes that are written already, with quotes.
    pub typed: Range<usize>,
    /// Whether the text is written in JSON, where names and texts have quotes.
    pub is_json: bool,
    /// Whether a colon follows.
    pub has_colon: bool,
}

impl Cursor {
    /// Finds the place of an offset; none in comments and blocks of text.
    #[must_use]
    pub fn of(text: &str, offset: usize) -> Option<Self> {
        let before = text.get(..offset)?;
        if is_json(text) {
            return Self::in_brackets(text, before, true);
        }
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let mut scanner = Scanner::new(before);
        scanner.read_lines(start);
        if !scanner.frames.is_empty() {
            return Self::in_brackets(text, before, false);
        }
        let line = before.get(start..)?;
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        let is_text = scanner.text_level.is_some_and(|level| indent + 1 > level);
        if content.starts_with('#') || content.contains(" #") || is_text {
            return None;
        }
        let (column, rest) = scanner.read_dashes(start, indent, content);
        let (from, slot, name) = match split_name(rest) {
            Some((name, after)) => {
                let value = rest.get(after..)?;
                if value.is_empty() {
                    return None;
                }
                let inner = value.trim_start();
                if inner.starts_with(['{', '[']) {
                    return Self::in_brackets(text, before, false);
                }
                (offset - inner.len(), Slot::Value, Some(crate::outline::unquote(name)))
            }
            None if rest.starts_with(['{', '[']) => return Self::in_brackets(text, before, false),
            None => (start + column, Slot::Name, None),
        };
        scanner.close(column + 1, false);
        let (document, mut path) = match scanner.innermost() {
            Some(node) => path_of(&scanner.nodes, node),
            None => (0, Vec::new()),
        };
        path.extend(name.map(Key::Name));
        let document = document_number(&scanner.nodes, document);
        Some(Self::new(text, from..offset, document, path, slot, false))
    }

    /// Finds the place in brackets that are open.
    fn in_brackets(text: &str, before: &str, is_json: bool) -> Option<Self> {
        let offset = before.len();
        let from = token_start(before);
        let mut scanner = Scanner::new(before.get(..from)?);
        scanner.read();
        let frame = scanner.frames.last()?;
        let is_value = !frame.is_object || frame.expected == Expected::Value;
        let node = frame.member.filter(|_| is_value).unwrap_or(frame.node);
        let (document, path) = path_of(&scanner.nodes, node);
        let slot = if is_value && frame.is_object { Slot::Value } else { Slot::Name };
        let document = document_number(&scanner.nodes, document);
        Some(Self::new(text, from..offset, document, path, slot, is_json))
    }

    fn new(
        text: &str,
        typed: Range<usize>,
        document: usize,
        path: Vec<Key>,
        slot: Slot,
        is_json: bool,
    ) -> Self {
        let rest = text.get(typed.end..).unwrap_or_default();
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '/' | '_');
        let word = rest.len() - rest.trim_start_matches(is_word).len();
        let rest = rest.get(word..).unwrap_or_default();
        let opened = text.get(typed.clone()).and_then(|typed| typed.chars().next());
        let quote =
            usize::from(matches!(opened, Some('"' | '\'')) && rest.chars().next() == opened);
        let rest = rest.get(quote..).unwrap_or_default();
        let has_colon = rest.trim_start_matches(' ').starts_with(':');
        let typed = typed.start..typed.end + word + quote;
        Self { document, path, slot, typed, is_json, has_colon }
    }

    /// Returns whether the path ends with these names; `*` is any name or element.
    #[must_use]
    pub fn is_at(&self, names: &[&str]) -> bool {
        ends_with(&self.path, names)
    }
}

/// Returns whether a path is that of these names; `*` is any name or element.
#[must_use]
pub fn ends_with(path: &[Key], names: &[&str]) -> bool {
    path.len() == names.len()
        && path.iter().zip(names).all(|(key, name)| *name == "*" || key.is(name))
}

fn document_number(nodes: &[Node], document: usize) -> usize {
    nodes.iter().take(document).filter(|node| node.parent.is_none()).count()
}

/// Returns the start of the text at the end of an open value in brackets.
fn token_start(before: &str) -> usize {
    let line = before.rfind('\n').map_or(0, |newline| newline + 1);
    let mut start = before.len();
    let mut quote = None;
    for (at, c) in before.get(line..).unwrap_or_default().char_indices() {
        match (quote, c) {
            (None, '"' | '\'') => (quote, start) = (Some(c), line + at),
            (Some(open), c) if open == c => (quote, start) = (None, before.len()),
            (None, '{' | '[' | ',' | ' ' | '\t' | ':' | '}' | ']') => start = before.len(),
            (None, _) if start == before.len() => start = line + at,
            _ => {}
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(marked: &str) -> Option<String> {
        let offset = marked.find('^').unwrap();
        let text = marked.replace('^', "");
        let cursor = Cursor::of(&text, offset)?;
        let path = cursor.path.iter().map(|key| match key {
            Key::Name(name) => name.clone(),
            Key::Item(index) => index.to_string(),
            Key::Document => "---".to_owned(),
        });
        let path = path.collect::<Vec<_>>().join("/");
        let typed = text.get(cursor.typed.clone()).unwrap();
        let colon = if cursor.has_colon { " :" } else { "" };
        Some(format!("{} {path} {:?} <{typed}>{colon}", cursor.document, cursor.slot))
    }

    #[test]
    fn cursor_has_its_path_in_yaml() {
        for (text, expected) in [
            ("metadata:\n  annotations:\n    ^\n  name: x", "0 metadata/annotations Name <>"),
            (
                "metadata:\n  annotations:\n    a.b/c^-d: x",
                "0 metadata/annotations Name <a.b/c-d> :",
            ),
            (
                "a: 1\n---\nspec:\n  installModes:\n  - type: Own^\n",
                "1 spec/installModes/0/type Value <Own>",
            ),
            ("spec:\n  modes:\n  - a: 1\n    ^b", "0 spec/modes/0 Name <b>"),
            ("spec:\n  modes:\n  - a: 1\n  - ^", "0 spec/modes/1 Name <>"),
            ("modes: [{type: O^}]", "0 modes/0/type Value <O>"),
            ("modes: [{type: a, ^", "0 modes/0 Name <>"),
            ("a: \"x^\"", "0 a Value <\"x\">"),
            ("^", "0  Name <>"),
        ] {
            assert_eq!(describe(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["# a^", "a: |\n  x^", "a: b # ^", "a:^"] {
            assert_eq!(describe(text), None, "{text}");
        }
    }

    #[test]
    fn cursor_has_its_path_in_json() {
        for (text, expected) in [
            ("{\"a\": {\"b^\": 1}}", "0 a Name <\"b\"> :"),
            ("{\"a\": [{\"type\": \"O^\"}]}", "0 a/0/type Value <\"O\">"),
            ("{\"a\": {\n  ^\n}}", "0 a Name <>"),
            ("{\"a\": 1}\n{\"b\": tr^}", "1 b Value <tr>"),
        ] {
            assert_eq!(describe(text).as_deref(), Some(expected), "{text}");
        }
    }
}
