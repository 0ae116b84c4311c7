//! Texts and lists of any size: an object of an API server may have one of a megabyte.

use opgate_sdk::go::{self, shortened};
use opgate_sdk::{Document, Rows};

/// Maximum entries of a list. More do not fit into the result of a host call.
const MOST: u32 = 16_384;

/// The reason why a rule does not evaluate a list.
pub(crate) const TOO_MANY: &str = "the list has more entries than can be evaluated";

/// Maximum bytes of a message.
const MESSAGE: usize = 4_096;

/// The rows of a list, unless there are too many.
pub(crate) fn rows(object: &Document, list: &str, columns: &[&str]) -> Option<Rows> {
    is_short(object, list).then(|| object.rows(list, columns))
}

/// Whether a list can be read.
pub(crate) fn is_short(object: &Document, list: &str) -> bool {
    object.length(list).is_none_or(|length| length <= MOST)
}

/// A text as Go's `%q` prints it, cut to the length that a message can hold.
pub(crate) fn quote(text: &str) -> String {
    if text.len() > MESSAGE { go::quote(&shortened(text, MESSAGE)) } else { go::quote(text) }
}
