//! Whether a declaration keeps what a policy reads of an object.
//!
//! A field that is not stored looks like a missing one. A read of it is therefore an error of the policy, for
//! every object: the result depends only on the declaration and the pointer, and a test finds the error
//! without an object that has the field.
//!
//! ```text
//! fields, keys (patterns) ─┐
//! pointer, Access ─────────┴─▶ check ─▶ nothing, or NotDeclared ─▶ what to add to the declaration
//! ```
//!
//! A field below a declared one is read like any other. Above a declared field an object is partially stored:
//! a policy may read through it, and read its type, but not the whole object.

use crate::{FIXED_FIELDS, Resource};

/// Type of a policy's access to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Its kind, the size of what is kept of it, or a handle to go on from.
    Kind,
    /// A boolean.
    Boolean,
    /// A text or a number.
    Scalar,
    /// The names or the number of its members or elements.
    Members,
    /// All of it.
    Whole,
}

/// A read of what is not declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndeclaredRead {
    pointer: String,
    stored: StoredPart,
}

/// Stored data that is less than a read needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoredPart {
    Nothing,
    /// Some of its members.
    Parts,
    /// Its existence.
    Name,
}

/// Maximum bytes of a pointer in a text.
const MAX_POINTER: usize = 256;

impl UndeclaredRead {
    /// Returns the error in words, with the declaration that is needed.
    #[must_use]
    pub fn message(&self, resource: &Resource) -> String {
        let add = format!("add {:?} to `fields`", shortened(&with_wildcards(&self.pointer)));
        let pointer = shortened(&self.pointer);
        match self.stored {
            StoredPart::Nothing => format!(
                "the policy read '{pointer}' of {resource}, which its read does not declare: {add}"
            ),
            StoredPart::Parts if pointer.is_empty() => format!(
                "the policy read all of an object of {resource}, of which its read declares only some fields: read these by their pointers"
            ),
            StoredPart::Parts => format!(
                "the policy read all of '{pointer}' of {resource}, of which its read declares only parts: {add}, or read the parts by their pointers"
            ),
            StoredPart::Name => format!(
                "the policy read the value of '{pointer}' of {resource}, of which its read declares only the name: {add}"
            ),
        }
    }
}

fn shortened(text: &str) -> String {
    let end = (0..=MAX_POINTER).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    match text.get(..end) {
        Some(start) if start.len() < text.len() => format!("{start}…"),
        _ => text.to_owned(),
    }
}

/// Returns the pointer with `*` for the places of elements.
fn with_wildcards(pointer: &str) -> String {
    let is_place = |token: &str| !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit());
    let token = |token| if is_place(token) { "*" } else { token };
    pointer.split('/').map(token).collect::<Vec<_>>().join("/")
}

/// Position of a pointer relative to a pattern.
enum PatternRelation {
    Unrelated,
    /// The pattern continues below, with every member if `each`.
    Ancestor {
        each: bool,
    },
    Same,
    /// A member or element of what the pattern names.
    Child,
    Descendant,
}

fn tokens(pointer: &str) -> impl Iterator<Item = &str> {
    // "" has no tokens, "/" has an empty one.
    pointer.strip_prefix('/').into_iter().flat_map(|rest| rest.split('/'))
}

/// Compares a pointer with a pattern. A token of the pattern other than `*` matches only itself, also if the
/// pointer has a `*`: a pattern for one member does not cover a read of every member.
fn relation_to(pattern: &str, pointer: &str) -> PatternRelation {
    let (mut pattern_tokens, mut found) = (tokens(pattern), tokens(pointer));
    loop {
        match (pattern_tokens.next(), found.next()) {
            (None, None) => return PatternRelation::Same,
            (None, Some(_)) if found.next().is_none() => return PatternRelation::Child,
            (None, Some(_)) => return PatternRelation::Descendant,
            (Some(token), None) => return PatternRelation::Ancestor { each: token == "*" },
            (Some(token), Some(other)) if token == "*" || token == other => {}
            (Some(_), Some(_)) => return PatternRelation::Unrelated,
        }
    }
}

/// Checks a read of the value at a pointer of an object that stores `fields` and the names in `keys`, in
/// addition to the fixed fields.
///
/// # Errors
/// Fails if the result could be wrong, because not all needed parts are stored.
pub fn check(
    fields: &[impl AsRef<str>],
    keys: &[impl AsRef<str>],
    pointer: &str,
    access: Access,
) -> Result<(), UndeclaredRead> {
    let mut kept = StoredPart::Nothing;
    let mut has_all_members = false;
    for field in FIXED_FIELDS.into_iter().chain(fields.iter().map(AsRef::as_ref)) {
        match relation_to(field, pointer) {
            PatternRelation::Same | PatternRelation::Child | PatternRelation::Descendant => {
                return Ok(());
            }
            PatternRelation::Ancestor { each } => {
                kept = StoredPart::Parts;
                has_all_members |= each;
            }
            PatternRelation::Unrelated => {}
        }
    }
    for names in keys.iter().map(AsRef::as_ref) {
        match relation_to(names, pointer) {
            PatternRelation::Same
                if matches!(access, Access::Kind | Access::Members | Access::Whole) =>
            {
                return Ok(());
            }
            PatternRelation::Child
                if matches!(access, Access::Kind | Access::Boolean | Access::Whole) =>
            {
                return Ok(());
            }
            PatternRelation::Child => kept = StoredPart::Name,
            PatternRelation::Ancestor { each } => {
                kept = StoredPart::Parts;
                has_all_members |= each;
            }
            PatternRelation::Same | PatternRelation::Descendant | PatternRelation::Unrelated => {}
        }
    }
    let is_answered = match access {
        Access::Kind => kept == StoredPart::Parts,
        Access::Members => has_all_members,
        Access::Whole => {
            // Patterns end, so this does.
            has_all_members && check(fields, keys, &format!("{pointer}/*"), access).is_ok()
        }
        Access::Boolean | Access::Scalar => false,
    };
    if is_answered {
        return Ok(());
    }
    if kept == StoredPart::Parts && matches!(access, Access::Boolean | Access::Scalar) {
        kept = StoredPart::Nothing;
    }
    Err(UndeclaredRead { pointer: pointer.to_owned(), stored: kept })
}

/// Checks a read of the value at `column`, a pointer relative to each element of the list at `pointer`.
///
/// # Errors
/// Fails as [`check`].
pub fn check_column(
    fields: &[impl AsRef<str>],
    keys: &[impl AsRef<str>],
    (pointer, column): (&str, &str),
) -> Result<(), UndeclaredRead> {
    if column.is_empty() {
        // Types of the elements themselves.
        return check(fields, keys, pointer, Access::Members);
    }
    check_cell(fields, keys, &format!("{pointer}/*{column}"))
}

/// Checks a read of the value at a pointer as a cell: its kind, and its text, its boolean or its length.
///
/// # Errors
/// Fails as [`check`].
pub fn check_cell(
    fields: &[impl AsRef<str>],
    keys: &[impl AsRef<str>],
    pointer: &str,
) -> Result<(), UndeclaredRead> {
    let scalar = check(fields, keys, pointer, Access::Boolean);
    scalar.or_else(|error| check(fields, keys, pointer, Access::Members).map_err(|_| error))
}
