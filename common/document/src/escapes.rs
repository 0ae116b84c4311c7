//! Strings of JSON without their escapes.
//!
//! Escapes are decoded as in Go, and therefore in an API server: a surrogate without its partner is U+FFFD.

use crate::meter::Cost;

/// Decodes a quoted string. An invalid JSON string reads as empty.
pub(crate) fn unescape(quoted: &str) -> Box<str> {
    decode(quoted, |_| Some(())).unwrap_or_default()
}

/// [`unescape`] with a memory account; `None` if it refuses.
pub(crate) fn unescape_metered(quoted: &str, cost: Cost<'_>) -> Option<Box<str>> {
    decode(quoted, |bytes| cost.spend(bytes))
}

fn decode(quoted: &str, mut step: impl FnMut(usize) -> Option<()>) -> Option<Box<str>> {
    let mut rest = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'))?;
    // No escape is shorter than its character.
    let mut text = String::with_capacity(rest.len());
    // Escapes are often adjacent.
    let next = |rest: &str| match rest.as_bytes().first() {
        Some(b'\\') => Some(0),
        _ => memchr::memchr(b'\\', rest.as_bytes()),
    };
    while let Some(at) = next(rest) {
        let (plain, escape) = rest.split_at(at);
        text.push_str(plain);
        let Some((character, length)) = character(escape) else { return Some(Box::default()) };
        text.push(character);
        rest = escape.get(length..).unwrap_or_default();
        step(length.saturating_add(at / 8))?;
    }
    text.push_str(rest);
    Some(text.into_boxed_str())
}

/// Returns the character of an escape, and the length of the escape.
fn character(escape: &str) -> Option<(char, usize)> {
    let plain = match escape.as_bytes().get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = utf16_unit(escape, 2)?;
            let second = if escape.get(6..8) == Some("\\u") { utf16_unit(escape, 8) } else { None };
            let mut decoded = char::decode_utf16([Some(first), second].into_iter().flatten());
            let found = decoded.next()?.unwrap_or(char::REPLACEMENT_CHARACTER);
            return Some((found, if found.len_utf16() == 2 { 12 } else { 6 }));
        }
        _ => return None,
    };
    Some((plain, 2))
}

fn utf16_unit(escape: &str, at: usize) -> Option<u16> {
    let digits = escape.get(at..at.checked_add(4)?)?;
    digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded() {
        for (json, expected) in [
            (r#""""#, ""),
            (r#""a\n\t\r\b\f\/\\\"z""#, "a\n\t\r\u{8}\u{c}/\\\"z"),
            (r#""\u00e4\u20AC€\ud83d\ude00""#, "ä€€😀"),
            (r#""\ud800""#, "\u{fffd}"),
            (r#""\ud800\u0041""#, "\u{fffd}A"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ud83d\n""#, "\u{fffd}\n"),
            (r#""\u12g4""#, ""),
            (r#""\x""#, ""),
            (r#""\u+123""#, ""),
            (r#""\u€""#, ""),
            (r#""\"#, ""),
            ("a", ""),
        ] {
            assert_eq!(&*unescape(json), expected, "{json}");
        }
    }

    /// Checks that valid texts equal those of the parser.
    #[test]
    fn decoded_texts_match_the_parser() {
        for first in 0..=u16::MAX {
            let json = format!("\"a\\u{first:04x}\\ud83d\\ude00\"");
            if let Ok(text) = serde_json::from_str::<String>(&json) {
                assert_eq!(*unescape(&json), *text, "{json}");
            }
        }
    }
}
