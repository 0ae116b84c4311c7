//! JSON pointers, RFC 6901.

use std::borrow::Cow;

/// Returns the reference tokens of a pointer; `None` if the text is not a pointer.
pub(crate) fn tokens(pointer: &str) -> Option<impl Iterator<Item = Cow<'_, str>>> {
    let mut rest = match pointer {
        "" => None,
        pointer => Some(pointer.strip_prefix('/')?),
    };
    let has_escapes = pointer.contains('~');
    Some(std::iter::from_fn(move || {
        let left = rest?;
        // Tokens are so short that a search made for long texts takes longer.
        let end = left.bytes().position(|byte| byte == b'/');
        let (token, next) = match end.and_then(|end| left.split_at_checked(end)) {
            Some((token, next)) => (token, next.strip_prefix('/')),
            None => (left, None),
        };
        rest = next;
        Some(if has_escapes { unescape(token) } else { Cow::Borrowed(token) })
    }))
}

/// Maximum bytes of a text in an error.
const MAX_SHOWN_BYTES: usize = 128;

/// Returns the error of a text that is no pointer, because it does not start with a slash: it leads to no
/// value in every document. None for a pointer.
#[must_use]
pub fn pointer_error(text: &str) -> Option<String> {
    let is_one = text.is_empty() || text.starts_with('/');
    (!is_one).then(|| {
        let end = (0..=MAX_SHOWN_BYTES).rev().find(|end| text.is_char_boundary(*end));
        let shown = end.and_then(|end| text.get(..end)).unwrap_or(text);
        format!("'{shown}' is not a JSON pointer: write '/{shown}'")
    })
}

fn unescape(token: &str) -> Cow<'_, str> {
    Cow::Owned(token.replace("~1", "/").replace("~0", "~"))
}

/// Returns the index that a token names in a list: digits without leading zeros.
pub(crate) fn index(token: &str) -> Option<u32> {
    let canonical = token == "0" || (!token.starts_with(['0', '+']) && !token.is_empty());
    if canonical { token.parse().ok() } else { None }
}
