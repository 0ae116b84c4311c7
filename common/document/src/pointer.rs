//! JSON pointers, RFC 6901.

use std::borrow::Cow;

/// The reference tokens of a pointer; `None` where the text is not a pointer.
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

fn unescape(token: &str) -> Cow<'_, str> {
    Cow::Owned(token.replace("~1", "/").replace("~0", "~"))
}

/// The index that a token names in a list: digits without leading zeros.
pub(crate) fn index(token: &str) -> Option<u32> {
    let canonical = token == "0" || (!token.starts_with(['0', '+']) && !token.is_empty());
    if canonical { token.parse().ok() } else { None }
}
