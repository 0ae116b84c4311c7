//! The position of a walk through schemas, in upstream's notation and as the field of the new
//! object.
//!
//! ```text
//! ^.servers.items      spec.versions[0].schema.openAPIV3Schema.properties.servers.items
//! ```
//!
//! Both texts grow on the way down and are truncated on the way back. They have a maximum size,
//! because names can have hundreds of kilobytes, and a message shows 4 KiB of them. A hash
//! identifies a location.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use crate::schema::Keyword;

/// The size in bytes after which nothing is added to a text.
const MAX_TEXT_BYTES: usize = 4 << 10;

/// See the module.
pub(super) struct Location {
    path: String,
    field: String,
    hash: u64,
    has_hash: bool,
}

/// A location to go back to.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    path: usize,
    field: usize,
    hash: u64,
}

/// The hash of a value.
pub(super) fn hash_of(value: &impl Hash) -> u64 {
    let mut hash = DefaultHasher::new();
    value.hash(&mut hash);
    hash.finish()
}

/// From a schema to one in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Step<'n> {
    /// `items`, `not`, `additionalProperties`, `additionalItems`
    Keyword,
    /// `allOf[1]`
    At(usize),
    /// `properties` and others by name
    Named(&'n str),
}

impl Location {
    /// At the outermost schema of a version.
    pub(super) fn new(field: String) -> Self {
        Self { path: "^".to_owned(), field, hash: 0, has_hash: false }
    }

    /// A location with hashes.
    pub(super) fn with_hash(self) -> Self {
        Self { has_hash: true, ..self }
    }

    /// In upstream's notation: `^.spec.size`.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The field of the new object.
    pub(super) fn field(&self) -> &str {
        &self.field
    }

    /// Identifies this location together with the change.
    pub(super) fn hash_with(&self, found: &impl Hash) -> u64 {
        hash_of(&(self.hash, found))
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { path: self.path.len(), field: self.field.len(), hash: self.hash }
    }

    pub(super) fn go_back(&mut self, mark: Mark) {
        self.path.truncate(mark.path);
        self.field.truncate(mark.field);
        self.hash = mark.hash;
    }

    /// Moves to a schema in this one. The field only includes parts that the new object has.
    pub(super) fn enter(&mut self, keyword: Keyword, step: Step<'_>, is_in_new: bool) {
        if self.has_hash {
            self.hash = hash_of(&(self.hash, keyword, step));
        }
        let path = &mut self.path;
        if path.len() < MAX_TEXT_BYTES {
            // Writing to a String does not fail.
            let _ = match step {
                // A path of Kubernetes treats an element without a name like one with an empty
                // index.
                Step::Named("") if keyword == Keyword::Properties => write!(path, "[]"),
                Step::Named(name) if keyword == Keyword::Properties => {
                    write!(path, ".{}", name_prefix(name))
                }
                Step::Named(name) => write!(path, ".{}[{}]", keyword.text(), name_prefix(name)),
                Step::At(index) => write!(path, ".{}[{index}]", keyword.text()),
                Step::Keyword => write!(path, ".{}", keyword.text()),
            };
        }
        let field = &mut self.field;
        if is_in_new && field.len() < MAX_TEXT_BYTES {
            let _ = match step {
                Step::Named(name) if is_simple(name) => {
                    write!(field, ".{}.{}", keyword.text(), name_prefix(name))
                }
                Step::Named(name) if name.contains(']') => {
                    write!(field, ".{}[\"{}\"]", keyword.text(), name_prefix(name))
                }
                Step::Named(name) => write!(field, ".{}[{}]", keyword.text(), name_prefix(name)),
                Step::At(index) => write!(field, ".{}[{index}]", keyword.text()),
                Step::Keyword => write!(field, ".{}", keyword.text()),
            };
        }
    }
}

/// Whether a name is written in a field without brackets.
fn is_simple(name: &str) -> bool {
    !name.is_empty() && !name.contains(['.', '[', ']', '/'])
}

fn name_prefix(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MAX_TEXT_BYTES)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_upstreams_and_fields_are_those_of_the_new_object() {
        use Keyword as K;
        for (keyword, step, path, field) in [
            (K::Properties, Step::Named("a-b"), "^.a-b", "s.properties.a-b"),
            (K::Properties, Step::Named("a.b/c"), "^.a.b/c", "s.properties[a.b/c]"),
            (K::Properties, Step::Named("a[0]"), "^.a[0]", "s.properties[\"a[0]\"]"),
            (K::Properties, Step::Named(""), "^[]", "s.properties[]"),
            (K::Items, Step::Keyword, "^.items", "s.items"),
            (K::Items, Step::At(1), "^.items[1]", "s.items[1]"),
            (K::AllOf, Step::At(0), "^.allOf[0]", "s.allOf[0]"),
            (K::Not, Step::Keyword, "^.not", "s.not"),
            (
                K::PatternProperties,
                Step::Named("^a$"),
                "^.patternProperties[^a$]",
                "s.patternProperties.^a$",
            ),
        ] {
            let mut location = Location::new("s".to_owned()).with_hash();
            let (mark, hash) = (location.mark(), location.hash_with(&1));
            location.enter(keyword, step, true);
            assert_eq!((location.path(), location.field()), (path, field));
            assert_ne!(location.hash_with(&1), hash);
            location.go_back(mark);
            assert_eq!(
                (location.path(), location.field(), location.hash_with(&1)),
                ("^", "s", hash)
            );
            location.enter(keyword, step, false);
            assert_eq!((location.path(), location.field()), (path, "s"));
        }
    }

    #[test]
    fn long_names_are_cut() {
        let mut location = Location::new("s".to_owned());
        let name = "é".repeat(100_000);
        for _ in 0..500 {
            location.enter(Keyword::Properties, Step::Named(&name), true);
        }
        assert!(location.path().len() + location.field().len() < 6 * MAX_TEXT_BYTES);
    }
}
