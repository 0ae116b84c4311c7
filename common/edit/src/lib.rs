//! Fixes of violations: edits of a JSON document by pointer, as `wit/policy.wit` defines them.
//!
//! ```text
//! policy ─▶ Fix ─▶ check: within the limits, valid pointers and values ─┬▶ apply: the JSON document after it
//!                                                                        └▶ host/fix: the text of a file after it
//! ```
//!
//! A fix comes from a policy, which is untrusted: every text in it is checked once, here.

mod apply;
mod pointer;
mod select;

use serde::{Serialize, Serializer};
use serde_json::Value;

pub use apply::{EditError, apply};
pub use pointer::{Pointer, escape};
pub use select::{conflict, edits_conflict, select};

/// Maximum bytes of the title of a fix.
pub const MAX_TITLE_BYTES: usize = 256;
/// Maximum number of edits of a fix.
pub const MAX_EDITS: usize = 16;
/// Maximum bytes of a pointer, a new name or a new path.
pub const MAX_POINTER_BYTES: usize = 1_024;
/// Maximum bytes of the edits of a fix.
pub const MAX_FIX_BYTES: usize = 64 << 10;
/// Maximum bytes of the edits of all fixes of a verdict.
pub const MAX_VERDICT_BYTES: usize = 1 << 20;
/// Maximum nesting of a value.
const MAX_VALUE_DEPTH: usize = 32;

/// Changes of an object after which it does not violate a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// What it does, as an imperative.
    pub title: String,
    /// Whether it can be applied without a review.
    pub safety: Safety,
    /// The changes, one after another.
    pub edits: Vec<Edit>,
}

/// Whether a fix can be applied without a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Safety {
    /// The object means the same, or there is only one way to satisfy the rule.
    Safe,
    /// It changes what the object does, or guesses a value.
    Unsafe,
}

/// One change of a document. Values are JSON text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "op", rename_all = "camelCase")]
pub enum Edit {
    /// Replaces or adds a value. Objects on the way that are missing are created.
    Set {
        /// Of the value.
        pointer: String,
        /// The new value.
        #[serde(serialize_with = "as_json")]
        value: String,
    },
    /// Inserts an element in a list: before the one at the pointer, or at the end with `-`.
    Insert {
        /// Of the element.
        pointer: String,
        /// The new element.
        #[serde(serialize_with = "as_json")]
        value: String,
    },
    /// Removes a member or an element.
    Remove {
        /// Of the value.
        pointer: String,
    },
    /// Renames a member, in its place.
    RenameKey {
        /// Of the member.
        pointer: String,
        /// The new name.
        name: String,
    },
    /// Moves a file, or a document of it, in the directory of a bundle.
    MoveFile {
        /// Of the file or the document.
        pointer: String,
        /// The new path, relative to the directory.
        path: String,
    },
}

/// The reason why a fix is ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFix {
    /// It has no edits, or too many.
    #[error("{0} edits: a fix has at least one, and at most {MAX_EDITS}")]
    EditCount(usize),
    /// It is too large.
    #[error("{0} bytes are more than {MAX_FIX_BYTES}")]
    TooLarge(usize),
    /// The title is empty or too long.
    #[error("a title has at least one byte, and at most {MAX_TITLE_BYTES}")]
    Title,
    /// A pointer is none, or is too long.
    #[error("{0:?} is no JSON pointer of at most {MAX_POINTER_BYTES} bytes")]
    Pointer(String),
    /// A value is not JSON.
    #[error("a value is not JSON: {0}")]
    Value(String),
    /// A new name is too long.
    #[error("a name has at most {MAX_POINTER_BYTES} bytes")]
    Name,
    /// A new path leads out of the directory, or to a hidden file.
    #[error("{0:?} is no path below the directory")]
    Path(String),
}

fn as_json<S: Serializer>(value: &str, serializer: S) -> Result<S::Ok, S::Error> {
    let value: Value = serde_json::from_str(value).unwrap_or_default();
    value.serialize(serializer)
}

impl Fix {
    /// Checks it against the contract.
    ///
    /// # Errors
    /// Fails if a text in it is not valid or too long.
    pub fn check(&self) -> Result<(), InvalidFix> {
        if self.edits.is_empty() || self.edits.len() > MAX_EDITS {
            return Err(InvalidFix::EditCount(self.edits.len()));
        }
        if self.title.is_empty() || self.title.len() > MAX_TITLE_BYTES {
            return Err(InvalidFix::Title);
        }
        let size = self.byte_size();
        if size > MAX_FIX_BYTES {
            return Err(InvalidFix::TooLarge(size));
        }
        self.edits.iter().try_for_each(Edit::check)
    }

    /// Returns the bytes of its texts.
    #[must_use]
    pub fn byte_size(&self) -> usize {
        let edits = self.edits.iter().map(Edit::byte_size);
        edits.fold(self.title.len(), usize::saturating_add)
    }
}

impl Edit {
    /// Returns the pointer of what it changes.
    #[must_use]
    pub fn pointer(&self) -> &str {
        match self {
            Self::Set { pointer, .. }
            | Self::Insert { pointer, .. }
            | Self::Remove { pointer }
            | Self::RenameKey { pointer, .. }
            | Self::MoveFile { pointer, .. } => pointer,
        }
    }

    /// Returns the same edit with another pointer.
    #[must_use]
    pub fn with_pointer(&self, pointer: String) -> Self {
        let mut edit = self.clone();
        match &mut edit {
            Self::Set { pointer: own, .. }
            | Self::Insert { pointer: own, .. }
            | Self::Remove { pointer: own }
            | Self::RenameKey { pointer: own, .. }
            | Self::MoveFile { pointer: own, .. } => *own = pointer,
        }
        edit
    }

    /// Returns the bytes of its pointer, and of its value, name or path.
    #[must_use]
    pub fn byte_size(&self) -> usize {
        let other = match self {
            Self::Set { value, .. } | Self::Insert { value, .. } => value.len(),
            Self::Remove { .. } => 0,
            Self::RenameKey { name, .. } => name.len(),
            Self::MoveFile { path, .. } => path.len(),
        };
        self.pointer().len().saturating_add(other)
    }

    fn check(&self) -> Result<(), InvalidFix> {
        let pointer = self.pointer();
        // The whole object can be replaced, and is neither a member nor an element.
        let is_whole = pointer.is_empty() && matches!(self, Self::Set { .. });
        let is_pointer = Pointer::parse(pointer).is_some_and(|it| is_whole || !it.is_root());
        if pointer.len() > MAX_POINTER_BYTES || !is_pointer {
            return Err(InvalidFix::Pointer(pointer.chars().take(64).collect()));
        }
        match self {
            Self::Set { value, .. } | Self::Insert { value, .. } => check_value(value),
            Self::RenameKey { name, .. } if name.len() > MAX_POINTER_BYTES => Err(InvalidFix::Name),
            Self::MoveFile { path, .. } if !is_path_below(path) => {
                Err(InvalidFix::Path(path.chars().take(64).collect()))
            }
            _ => Ok(()),
        }
    }
}

fn check_value(value: &str) -> Result<(), InvalidFix> {
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    for byte in value.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                depth = depth.saturating_add(1);
                if depth > MAX_VALUE_DEPTH {
                    let why = format!("it nests deeper than {MAX_VALUE_DEPTH} levels");
                    return Err(InvalidFix::Value(why));
                }
            }
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    let parsed = serde_json::from_str::<serde::de::IgnoredAny>(value);
    parsed.map(drop).map_err(|error| InvalidFix::Value(error.to_string()))
}

/// Reports whether a path is relative, stays below the directory, and names no hidden file.
fn is_path_below(path: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with('.')
            && !name.contains(|c: char| c.is_control() || matches!(c, '\\' | ':'))
    };
    path.len() <= MAX_POINTER_BYTES && path.split('/').all(is_name)
}

#[cfg(test)]
mod tests;
