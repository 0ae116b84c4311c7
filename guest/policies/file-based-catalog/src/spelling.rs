//! Members whose names differ from the documented names only in case.
//!
//! Tools in Go accept them, others do not. At the top level of a blob upstream ignores the case,
//! and [`crate::blob::Blob`] finds them. At deeper levels the documented spelling is required, and
//! the message for a missing member contains the spelling of the document.

use opgate_sdk::go::{folds_to, quote};
use opgate_sdk::{Document, Fix, escape};

use crate::blob::Blob;

/// The spelling of a member that an object does not have under its documented name.
pub(crate) fn other_spelling(object: &Document, pointer: &str, name: &str) -> Option<String> {
    object.keys(pointer).into_iter().find(|key| key != name && folds_to(key, name))
}

/// Whether an object has a member under several spellings of its name.
pub(crate) fn is_ambiguous(object: &Document, pointer: &str, name: &str) -> bool {
    object.keys(pointer).iter().filter(|key| *key == name || folds_to(key, name)).count() > 1
}

/// The addition to a message for a missing member.
pub(crate) fn spelling_hint(object: &Document, pointer: &str, name: &str) -> String {
    other_spelling(object, pointer, name).map(|key| key_spelling(&key, name)).unwrap_or_default()
}

/// ` (write "Type" as "type")`.
pub(crate) fn key_spelling(key: &str, name: &str) -> String {
    format!(" (write {} as {})", quote(key), quote(name))
}

/// The fix that gives a missing member its documented name. `pointer` is that of its object in the blob.
pub(crate) fn rename_fix(blob: &Blob<'_>, pointer: &str, name: &str) -> Option<Fix> {
    let key = other_spelling(blob.value(), pointer, name)?;
    let is_only = !is_ambiguous(blob.value(), pointer, name);
    let fix = Fix::safe(format!("rename the member to {name}"));
    let pointer = blob.absolute(&format!("{pointer}/{}", escape(&key)));
    is_only.then(|| fix.rename_key(pointer, name))
}
