//! What upstream's messages and checks owe to Go's standard library.

use std::fmt::Write as _;

/// `%q`: a Go string literal with double quotes.
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
    quoted.push('"');
    quoted
}

/// Go's `strconv.IsPrint` as far as it matters in messages: controls, spaces other than U+0020,
/// format and private-use characters are not printable.
fn is_printable(c: char) -> bool {
    let hidden = matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}'..='\u{ffff}'
        | '\u{e0000}'..='\u{10ffff}');
    c == ' ' || !(c.is_control() || c.is_whitespace() || hidden)
}

/// `filepath.Clean` on Linux: the shortest path with the same meaning, by text alone.
#[must_use]
pub fn clean(path: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_like_go() {
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
    fn cleans_like_go() {
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
            assert_eq!(clean(path), cleaned, "{path}");
        }
    }
}
