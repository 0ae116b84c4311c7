//! Fixes of violations: the changes of an object after which it does not violate a rule.
//!
//! ```
//! use opgate_sdk::Fix;
//!
//! let fix = Fix::safe("add the label")
//!     .set_text("/metadata/labels/app", "shop")
//!     .remove("/spec/replicas");
//! ```
//!
//! The host checks a fix, and ignores one that is not valid: a fix never changes the decision.

use std::fmt::Write as _;

use crate::bindings::opgate::policy::types;
use crate::bindings::opgate::policy::types::{Edit, FixSafety, MoveEdit, RenameEdit, ValueEdit};
use crate::go::folds_to;
use crate::{Document, Kind};

/// Maximum size of the edits of a fix with several parts, in bytes: below the maximum of the host.
const MAX_BYTES: usize = 48 << 10;

/// Changes of an object. Pointers are JSON pointers relative to the object of the review, and the changes
/// apply one after another.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Fix(types::Fix);

impl Fix {
    /// Maximum number of edits of a fix that the host accepts.
    pub const MAX_EDITS: usize = 16;

    /// Creates a fix that needs no review: the object means the same, or there is only one way to satisfy the
    /// rule. The title is an imperative.
    pub fn safe(title: impl Into<String>) -> Self {
        Self::new(title, FixSafety::Safe)
    }

    /// Creates a fix that a person needs to review: it changes what the object does, or guesses a value.
    pub fn needs_review(title: impl Into<String>) -> Self {
        Self::new(title, FixSafety::Unsafe)
    }

    fn new(title: impl Into<String>, safety: FixSafety) -> Self {
        Self(types::Fix { title: title.into(), safety, edits: Vec::new() })
    }

    /// Replaces or adds a value, which is JSON text. Objects on the way that are missing are created.
    pub fn set(self, pointer: impl Into<String>, json: impl Into<String>) -> Self {
        self.with(Edit::Set(ValueEdit { pointer: pointer.into(), value: json.into() }))
    }

    /// Replaces or adds a text.
    pub fn set_text(self, pointer: impl Into<String>, text: &str) -> Self {
        self.set(pointer, json_string(text))
    }

    /// Inserts an element, which is JSON text, in a list: before the one at the pointer, or at the end with
    /// `/list/-`.
    pub fn insert(self, pointer: impl Into<String>, json: impl Into<String>) -> Self {
        self.with(Edit::Insert(ValueEdit { pointer: pointer.into(), value: json.into() }))
    }

    /// Inserts a text in a list.
    pub fn insert_text(self, pointer: impl Into<String>, text: &str) -> Self {
        self.insert(pointer, json_string(text))
    }

    /// Removes a member or an element.
    pub fn remove(self, pointer: impl Into<String>) -> Self {
        self.with(Edit::Remove(pointer.into()))
    }

    /// Renames a member, in its place.
    pub fn rename_key(self, pointer: impl Into<String>, name: impl Into<String>) -> Self {
        self.with(Edit::RenameKey(RenameEdit { pointer: pointer.into(), name: name.into() }))
    }

    /// Moves a file of a bundle (`/spec/files/3`), or one of its documents (`/spec/files/3/documents/1`), to
    /// another path in the directory.
    pub fn move_file(self, pointer: impl Into<String>, path: impl Into<String>) -> Self {
        self.with(Edit::MoveFile(MoveEdit { pointer: pointer.into(), path: path.into() }))
    }

    /// Adds the edits of another fix; none if there is no room for them. A fix with an unsafe part is unsafe.
    #[must_use]
    pub fn and(mut self, other: Self) -> Option<Self> {
        let (own, others) = (self.size(), other.size());
        let fits = own.0.saturating_add(others.0) <= Self::MAX_EDITS
            && own.1.saturating_add(others.1) <= MAX_BYTES;
        if other.0.safety == FixSafety::Unsafe {
            self.0.safety = FixSafety::Unsafe;
        }
        self.0.edits.extend(other.0.edits);
        fits.then_some(self)
    }

    /// Returns the fixes as one with this title: as many of them, from the first one on, as one fix has room for, and
    /// their number. None if there are none.
    pub fn all(
        fixes: impl IntoIterator<Item = Self>,
        title: impl FnOnce(usize) -> String,
    ) -> Option<Self> {
        let mut all = Self::safe("");
        let mut count = 0_usize;
        for fix in fixes {
            let Some(more) = all.clone().and(fix) else { break };
            all = more;
            count = count.saturating_add(1);
        }
        all.0.title = title(count);
        (count > 0).then_some(all)
    }

    /// The number of edits, and their size in bytes.
    fn size(&self) -> (usize, usize) {
        let sizes = self.0.edits.iter().map(|edit| match edit {
            Edit::Set(edit) | Edit::Insert(edit) => {
                edit.pointer.len().saturating_add(edit.value.len())
            }
            Edit::RenameKey(edit) => edit.pointer.len().saturating_add(edit.name.len()),
            Edit::MoveFile(edit) => edit.pointer.len().saturating_add(edit.path.len()),
            Edit::Remove(pointer) => pointer.len(),
        });
        (self.0.edits.len(), sizes.fold(0, usize::saturating_add))
    }

    /// Returns it with its pointers relative to a value of the object: `at` is the pointer of that value.
    pub fn below(mut self, at: &str) -> Self {
        for edit in &mut self.0.edits {
            let pointer = match edit {
                Edit::Set(ValueEdit { pointer, .. })
                | Edit::Insert(ValueEdit { pointer, .. })
                | Edit::RenameKey(RenameEdit { pointer, .. })
                | Edit::MoveFile(MoveEdit { pointer, .. })
                | Edit::Remove(pointer) => pointer,
            };
            pointer.insert_str(0, at);
        }
        self
    }

    /// Reports whether it adds a member to an object of the document which has one whose name differs only in case:
    /// the author meant that one.
    pub fn adds_other_spelling(&self, document: &Document) -> bool {
        self.0.edits.iter().any(|edit| match edit {
            Edit::Set(edit) | Edit::Insert(edit) => has_other_spelling(document, &edit.pointer),
            _ => false,
        })
    }

    fn with(mut self, edit: Edit) -> Self {
        self.0.edits.push(edit);
        self
    }
}

/// Reports whether the first member of a pointer that does not exist is there with a name in another case.
fn has_other_spelling(document: &Document, pointer: &str) -> bool {
    let mut parent = String::new();
    for token in pointer.split('/').skip(1) {
        let child = format!("{parent}/{token}");
        if document.has(&child) {
            parent = child;
            continue;
        }
        let name = token.replace("~1", "/").replace("~0", "~");
        let is_object = document.kind(&parent) == Kind::Object;
        return is_object && document.keys(&parent).iter().any(|key| folds_to(key, &name));
    }
    false
}

impl From<Fix> for types::Fix {
    fn from(fix: Fix) -> Self {
        fix.0
    }
}

/// Returns a text as JSON.
#[must_use]
pub fn json_string(text: &str) -> String {
    let mut json = String::with_capacity(text.len().saturating_add(2));
    json.push('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            c if u32::from(c) < 0x20 => {
                // Writing to a text never fails.
                let _ = write!(json, "\\u{:04x}", u32::from(c));
            }
            c => json.push(c),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_written_as_json() {
        let fix = Fix::needs_review("x").set_text("/a", "é\"\\\n\u{1}").below("/b");
        let types::Fix { title, safety, edits } = fix.into();
        assert_eq!((title.as_str(), safety), ("x", FixSafety::Unsafe));
        let [Edit::Set(ValueEdit { pointer, value })] = &edits[..] else { panic!("{edits:?}") };
        assert_eq!((pointer.as_str(), value.as_str()), ("/b/a", "\"é\\\"\\\\\\n\\u0001\""));
    }

    #[test]
    fn parts_without_room_are_not_dropped_silently() {
        let part = |edits: usize, safety: fn(&'static str) -> Fix| {
            (0..edits).fold(safety("part"), |fix, at| fix.remove(format!("/{at}")))
        };
        let safety = |fix: Option<Fix>| fix.map(|fix| (fix.0.safety, fix.0.edits.len()));
        let all = part(8, Fix::safe).and(part(8, Fix::needs_review));
        assert_eq!(safety(all), Some((FixSafety::Unsafe, 16)));
        assert_eq!(safety(part(8, Fix::safe).and(part(9, Fix::safe))), None);
        let large = Fix::safe("large").set("/a", "x".repeat(MAX_BYTES));
        assert_eq!(safety(part(1, Fix::safe).and(large)), None);
        let parts = [6, 6, 6].map(|edits| part(edits, Fix::safe));
        let all = Fix::all(parts, |count| format!("{count} parts")).map(types::Fix::from);
        let all = all.map(|fix| (fix.title, fix.edits.len()));
        assert_eq!(all, Some(("2 parts".to_owned(), 12)));
        assert_eq!(Fix::all([], |count| count.to_string()), None);
    }
}
