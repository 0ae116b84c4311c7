//! Texts and lists of any size: an object of an API server may have one of a megabyte.

use opgate_sdk::go::{self, shortened};
use opgate_sdk::{Document, Rows};

/// More entries of a list do not fit into the answer of a call.
const MOST: u32 = 16_384;

/// Why a rule does not look at a list.
pub(crate) const TOO_MANY: &str = "the list has more entries than can be evaluated";

/// Bytes of a message.
const MESSAGE: usize = 4_096;

/// The rows of a list, unless there are too many.
pub(crate) fn rows(object: &Document, list: &str, columns: &[&str]) -> Option<Rows> {
    is_short(object, list).then(|| object.rows(list, columns))
}

/// Whether a list can be read.
pub(crate) fn is_short(object: &Document, list: &str) -> bool {
    object.length(list).is_none_or(|length| length <= MOST)
}

/// A text as Go's `%q` prints it. What no message has room for is left out.
pub(crate) fn quote(text: &str) -> String {
    if text.len() > MESSAGE { go::quote(&shortened(text, MESSAGE)) } else { go::quote(text) }
}
