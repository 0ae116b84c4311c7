//! Texts and lists of any size: an object of an API server may have one of a megabyte.

use opgate_sdk::go::{self, shorten};
use opgate_sdk::{Document, Rows};

/// Maximum entries of a list. More do not fit into the result of a host call.
const MAX_ENTRIES: u32 = 16_384;

/// The reason why a rule does not evaluate a list.
pub(crate) const TOO_MANY: &str = "the list has more entries than can be evaluated";

/// Maximum bytes of a message.
const MAX_MESSAGE_BYTES: usize = 4_096;

/// The rows of a list, unless there are too many.
pub(crate) fn read_rows(object: &Document, list: &str, columns: &[&str]) -> Option<Rows> {
    is_readable(object, list).then(|| object.rows(list, columns))
}

/// Whether a list can be read.
pub(crate) fn is_readable(object: &Document, list: &str) -> bool {
    object.length(list).is_none_or(|length| length <= MAX_ENTRIES)
}

/// A text as Go's `%q` prints it, cut to the length that a message can hold.
pub(crate) fn quote(text: &str) -> String {
    if text.len() > MAX_MESSAGE_BYTES {
        go::quote(&shorten(text, MAX_MESSAGE_BYTES))
    } else {
        go::quote(text)
    }
}
