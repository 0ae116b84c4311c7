//! Members whose names differ from what they should be in the case of their letters only.
//!
//! Tools in Go read them all the same, others do not. At the top level of a blob upstream says that
//! the case does not count, and [`crate::blob::Blob`] finds them. Deeper down they have to be written
//! as they are documented, and whoever misses one says how the document spells it.

use opgate_sdk::Document;
use opgate_sdk::go::{folds_to, quote};

/// How an object spells a member that it does not have under its name.
pub(crate) fn other(object: &Document, pointer: &str, name: &str) -> Option<String> {
    object.keys(pointer).into_iter().find(|key| key != name && folds_to(key, name))
}

/// What to add to a message about a member that is not there.
pub(crate) fn hint(object: &Document, pointer: &str, name: &str) -> String {
    other(object, pointer, name).map(|key| written(&key, name)).unwrap_or_default()
}

/// ` (write "Type" as "type")`.
pub(crate) fn written(key: &str, name: &str) -> String {
    format!(" (write {} as {})", quote(key), quote(name))
}
