//! Fixes that can be applied together.
//!
//! Pointers of a fix are relative to the document that its policy saw. Another fix that was applied before must
//! not have changed what they lead to: it must neither touch the same value, nor shift the elements of a list on
//! the way.

use crate::pointer::{Pointer, index};
use crate::{Edit, Fix};

/// Returns the positions of the fixes that can be applied together, one after another: each that conflicts with an
/// earlier one is left out, and so is each whose edits another one has already.
#[must_use]
pub fn select(fixes: &[&Fix]) -> Vec<usize> {
    let mut selected: Vec<usize> = Vec::new();
    for (position, fix) in fixes.iter().enumerate() {
        let earlier = selected.iter().filter_map(|known| fixes.get(*known));
        if !earlier.into_iter().any(|known| conflict(known, fix)) {
            selected.push(position);
        }
    }
    selected
}

/// Reports whether two fixes cannot both be applied to the document for which they were made.
#[must_use]
pub fn conflict(left: &Fix, right: &Fix) -> bool {
    left.edits.iter().any(|one| right.edits.iter().any(|other| edits_conflict(one, other)))
}

/// Reports whether two edits cannot both be made in the document for which they were made.
#[must_use]
pub fn edits_conflict(one: &Edit, other: &Edit) -> bool {
    let (Some(left), Some(right)) =
        (Pointer::parse(one.pointer()), Pointer::parse(other.pointer()))
    else {
        return true;
    };
    left.starts_with(&right)
        || right.starts_with(&left)
        || shifts(one, &left, &right)
        || shifts(other, &right, &left)
}

/// Reports whether an edit at a pointer changes what another pointer leads to.
fn shifts(edit: &Edit, own: &Pointer, other: &Pointer) -> bool {
    let Some((around, last)) = own.split_last() else { return true };
    let is_below = other.tokens().starts_with(around);
    match edit {
        // The second of two elements that are added at the end stays behind the first.
        Edit::Insert { .. } if last == "-" => false,
        Edit::Remove { .. } => is_below && index(last).is_some(),
        Edit::RenameKey { name, .. } => {
            is_below && other.tokens().get(around.len()).is_some_and(|next| next == name)
        }
        // The files of a bundle are listed by their paths.
        Edit::Insert { .. } | Edit::MoveFile { .. } => is_below,
        Edit::Set { .. } => false,
    }
}
