//! JSON pointers, RFC 6901.

use std::borrow::Cow;

/// The reference tokens of a pointer; `None` where the text is not a pointer.
pub(crate) fn tokens(pointer: &str) -> Option<impl Iterator<Item = Cow<'_, str>>> {
    let mut parts = pointer.split('/');
    // What stands before the first `/` must be empty; the empty pointer has no tokens at all.
    if parts.next() != Some("") {
        return None;
    }
    Some(parts.map(unescape))
}

fn unescape(token: &str) -> Cow<'_, str> {
    if token.contains('~') {
        Cow::Owned(token.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(token)
    }
}

/// The index that a token names in a list: digits without leading zeros.
pub(crate) fn index(token: &str) -> Option<u32> {
    let canonical = token == "0" || (!token.starts_with(['0', '+']) && !token.is_empty());
    if canonical { token.parse().ok() } else { None }
}
