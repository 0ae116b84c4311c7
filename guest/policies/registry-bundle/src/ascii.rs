//! Go's `%+q`: quoted texts in ASCII.

use std::fmt::Write as _;

use opgate_sdk::go::quote;

/// One text. Characters outside ASCII that `%q` does not escape are escaped.
fn quoted(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len() + 2);
    for c in quote(text).chars() {
        let code = u32::from(c);
        // Writing to a String does not fail.
        let _ = match code {
            0..0x80 => ascii.write_char(c),
            0x80..0x1_0000 => write!(ascii, "\\u{code:04x}"),
            _ => write!(ascii, "\\U{code:08x}"),
        };
    }
    ascii
}

/// A slice: `["a" "b"]`.
pub(crate) fn list<T: AsRef<str>>(texts: &[T]) -> String {
    let quoted: Vec<_> = texts.iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_in_ascii() {
        assert_eq!(list(&["a", "é\"", "\u{1f600}"]), r#"["a" "\u00e9\"" "\U0001f600"]"#);
        assert_eq!(list::<&str>(&[]), "[]");
    }
}
