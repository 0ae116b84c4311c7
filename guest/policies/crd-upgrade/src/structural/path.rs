//! The path to a schema in a version, in the notation of Kubernetes' messages and as the field of
//! the file.
//!
//! ```text
//! .properties[spec].items      spec.versions[0].schema.openAPIV3Schema.properties.spec.items
//! ```

use std::fmt::Write as _;

use crate::schema::Keyword;
use crate::schema::tree::{NodeId, Tree};

/// The size in bytes after which nothing is added to a text: a message shows 4 KiB.
const MAX_TEXT_BYTES: usize = 4 << 10;

/// One step from a schema to a value in it.
#[derive(Debug, Clone, Copy)]
pub(super) enum PathStep<'p> {
    Word(&'p str),
    /// A name in a map.
    Key(&'p str),
    Index(usize),
}

/// A schema in another one: the keyword, and the name or the position in it.
#[derive(Clone, Copy)]
pub(super) struct Link {
    pub(super) keyword: Keyword,
    pub(super) node_id: NodeId,
    pub(super) index: Option<usize>,
}

impl Link {
    fn is_named(self) -> bool {
        self.keyword == Keyword::Properties
    }

    /// Whether it leads to a schema of the same value.
    fn is_junctor(self) -> bool {
        matches!(self.keyword, Keyword::AllOf | Keyword::AnyOf | Keyword::OneOf | Keyword::Not)
    }
}

/// The notation of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Notation {
    Message,
    /// A message for the value in the structure, without the junctors on the path to it.
    Structure,
    Field,
}

/// Writes a path: the links to a schema, and the parts after it.
pub(super) fn write(
    tree: &Tree,
    links: &[Link],
    parts: &[PathStep<'_>],
    notation: Notation,
) -> String {
    let mut text = String::new();
    for link in links {
        if notation == Notation::Structure && link.is_junctor() {
            continue;
        }
        push(&mut text, PathStep::Word(link.keyword.text()), notation);
        if let Some(index) = link.index {
            push(&mut text, PathStep::Index(index), notation);
        } else if link.is_named() {
            push(&mut text, PathStep::Key(&tree.name(link.node_id)), notation);
        }
    }
    for part in parts {
        push(&mut text, *part, notation);
    }
    text
}

fn push(text: &mut String, part: PathStep<'_>, notation: Notation) {
    if text.len() >= MAX_TEXT_BYTES {
        return;
    }
    // Writing to a String does not fail.
    let _ = match part {
        PathStep::Word(word) => write!(text, ".{word}"),
        PathStep::Index(index) => write!(text, "[{index}]"),
        PathStep::Key(name) if notation != Notation::Field => write!(text, "[{}]", prefix(name)),
        PathStep::Key(name) if !name.is_empty() && !name.contains(['.', '[', ']', '/']) => {
            write!(text, ".{}", prefix(name))
        }
        PathStep::Key(name) if name.contains(']') => write!(text, "[\"{}\"]", prefix(name)),
        PathStep::Key(name) => write!(text, "[{}]", prefix(name)),
    };
}

fn prefix(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_the_notation_of_messages_and_of_fields() {
        let tree = Tree::of(br#"{"a.b":{"x":1},"c":{"x":1}}"#.to_vec());
        let places: Vec<_> = tree.children(0).collect();
        let [dotted, plain] = places[..] else { panic!("two members") };
        let link = |keyword, node_id, index| Link { keyword, node_id, index };
        let links = [
            link(Keyword::Properties, dotted, None),
            link(Keyword::AnyOf, 0, Some(1)),
            link(Keyword::Properties, plain, None),
            link(Keyword::Items, 0, None),
        ];
        let parts = [PathStep::Word("type")];
        for (notation, expected) in [
            (Notation::Message, ".properties[a.b].anyOf[1].properties[c].items.type"),
            (Notation::Structure, ".properties[a.b].properties[c].items.type"),
            (Notation::Field, ".properties[a.b].anyOf[1].properties.c.items.type"),
        ] {
            assert_eq!(write(&tree, &links, &parts, notation), expected);
        }
    }

    #[test]
    fn long_names_are_cut() {
        let name = "é".repeat(100_000);
        let parts = vec![PathStep::Key(&name); 1_000];
        let tree = Tree::of(Vec::new());
        assert!(write(&tree, &[], &parts, Notation::Message).len() < 3 * MAX_TEXT_BYTES);
    }
}
