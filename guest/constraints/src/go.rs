//! What upstream's texts owe to Go: quoting, and the words that its JSON decoder has for values.

use std::fmt::Write as _;

/// `%q`: a Go string literal with double quotes.
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

/// A byte as the decoder names it in `invalid character 'x'`: it takes bytes for characters.
pub(crate) fn quote_byte(byte: u8) -> String {
    let mut quoted = String::from("'");
    match byte {
        b'\'' => quoted.push_str("\\'"),
        b => escape(char::from(b), &mut quoted),
    }
    quoted.push('\'');
    quoted
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

/// Go's `strconv.IsPrint` as far as it matters in messages.
fn is_printable(c: char) -> bool {
    let hidden = matches!(c,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}'..='\u{ffff}'
        | '\u{e0000}'..='\u{10ffff}');
    c == ' ' || !(c.is_control() || c.is_whitespace() || hidden)
}

/// Whether Go's decoder takes a member for a field: letters compare without case, and two more
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

/// At most so many bytes of a text, for messages: a hostile name is not repeated in full.
#[must_use]
pub fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let end = (0..=limit).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
    format!("{}…", text.get(..end).unwrap_or_default())
}
