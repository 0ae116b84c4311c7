//! Behaviour of Go in upstream's messages and checks: quoting, paths, and names that fold.
//!
//! This is a separate crate, because the SDK and crates without requests both need it: their texts must be
//! the same, byte for byte.

pub mod base64;
pub mod duration;
pub mod ip;
pub mod mail;
mod mime;
pub mod url;

use std::fmt::Write as _;

/// Formats `%q`: a Go string literal with double quotes.
///
/// Printable characters stay, the usual escapes are short, other control characters and U+FFFD's
/// invisible neighbours become `\x`, `\u` or `\U` escapes.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            c => escape(c, &mut quoted),
        }
    }
    quoted.push('"');
    quoted
}

/// [`quote`] of a text that need not be UTF-8: other bytes become `\x` escapes.
#[must_use]
pub fn quote_bytes(bytes: &[u8]) -> String {
    let mut quoted = String::with_capacity(bytes.len() + 2);
    quoted.push('"');
    for chunk in bytes.utf8_chunks() {
        let valid = quote(chunk.valid());
        quoted.push_str(valid.get(1..valid.len().saturating_sub(1)).unwrap_or_default());
        for byte in chunk.invalid() {
            let _ = write!(quoted, "\\x{byte:02x}");
        }
    }
    quoted.push('"');
    quoted
}

/// Returns `%q` of a character, with single quotes.
#[must_use]
pub fn quote_char(c: char) -> String {
    let mut quoted = String::from("'");
    match c {
        '\'' => quoted.push_str("\\'"),
        c => escape(c, &mut quoted),
    }
    quoted.push('\'');
    quoted
}

/// Quotes a byte as the JSON decoder names it in `invalid character 'x'`: it treats bytes as characters.
#[must_use]
pub fn quote_byte(byte: u8) -> String {
    quote_char(char::from(byte))
}

fn escape(c: char, quoted: &mut String) {
    match c {
        '\\' => quoted.push_str("\\\\"),
        '\u{7}' => quoted.push_str("\\a"),
        '\u{8}' => quoted.push_str("\\b"),
        '\u{c}' => quoted.push_str("\\f"),
        '\n' => quoted.push_str("\\n"),
        '\r' => quoted.push_str("\\r"),
        '\t' => quoted.push_str("\\t"),
        '\u{b}' => quoted.push_str("\\v"),
        c if is_printable(c) => quoted.push(c),
        c => {
            let code = u32::from(c);
            // Writing to a String does not fail.
            let _ = match code {
                0..0x80 => write!(quoted, "\\x{code:02x}"),
                0x80..0x1_0000 => write!(quoted, "\\u{code:04x}"),
                _ => write!(quoted, "\\U{code:08x}"),
            };
        }
    }
}

/// Reports Go's `strconv.IsPrint` as far as messages need it: controls, spaces other than U+0020, format and
/// private-use characters are not printable.
fn is_printable(c: char) -> bool {
    let hidden = matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}'..='\u{ffff}'
        | '\u{e0000}'..='\u{10ffff}');
    c == ' ' || !(c.is_control() || c.is_whitespace() || hidden)
}

/// Returns `filepath.Clean` on Linux: the shortest path with the same meaning, by text alone.
#[must_use]
pub fn clean_path(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match kept.last() {
                Some(&last) if last != ".." => {
                    kept.pop();
                }
                _ if rooted => {}
                _ => kept.push(".."),
            },
            part => kept.push(part),
        }
    }
    let joined = kept.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// Reports whether Go's decoder maps a member to a field: letters compare without case, and two more
/// characters fold to ASCII letters.
#[must_use]
pub fn folds_to(name: &str, field: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    name.chars().map(fold).eq(field.chars().map(fold))
}

/// Returns a number as `%v` and `%g` print a `float64`: with as many digits as it takes, and with an exponent
/// below 1e-4 and from 1e6 on.
#[must_use]
pub fn format_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-Inf" } else { "+Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Returns a text, cut at a number of bytes, for messages: a hostile name is not repeated in full.
#[must_use]
pub fn shorten(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_like_go() {
        let cases = [
            ("../x", r#""../x""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\n\t\r\u{7}\u{8}\u{b}\u{c}", r#""\n\t\r\a\b\v\f""#),
            ("\0\u{7f}", r#""\x00\x7f""#),
            ("é世", "\"é世\""),
            ("\u{85}\u{200b}\u{a0}", r#""\u0085\u200b\u00a0""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ];
        for (text, quoted) in cases {
            assert_eq!(quote(text), quoted);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_escaped() {
        for (bytes, quoted) in [(&b"%a\xc3"[..], r#""%a\xc3""#), (b"a\"\n", r#""a\"\n""#)] {
            assert_eq!(quote_bytes(bytes), quoted);
        }
    }

    #[test]
    fn bytes_are_quoted_as_characters() {
        for (byte, quoted) in [(b'x', "'x'"), (b'\'', r"'\''"), (b'\n', r"'\n'"), (0xe9, "'é'")] {
            assert_eq!(quote_byte(byte), quoted);
        }
    }

    #[test]
    fn names_fold_like_go() {
        for (name, folds) in [("replaces", true), ("Replace\u{17f}", true), ("replaceS ", false)] {
            assert_eq!(folds_to(name, "replaces"), folds, "{name}");
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        for (text, cut) in [("ab", "ab"), ("abc", "ab…"), ("aé", "a…")] {
            assert_eq!(shorten(text, 2), cut);
        }
    }

    #[test]
    fn paths_are_cleaned_like_go() {
        let cases = [
            ("", "."),
            ("./a/", "a"),
            ("../x", "../x"),
            ("../", ".."),
            ("..", ".."),
            ("a/../../b", "../b"),
            ("/../x", "/x"),
            ("/", "/"),
            ("//", "/"),
            ("a/..", "."),
            ("..foo/x", "..foo/x"),
            ("a//b/./c", "a/b/c"),
            ("../../a/..", "../.."),
        ];
        for (path, cleaned) in cases {
            assert_eq!(clean_path(path), cleaned, "{path}");
        }
    }
}
