//! Makes untrusted texts safe for a log line, a header, a page or a terminal, and suggests similar names.
//!
//! * [`html`]: untrusted texts on HTML pages.
//! * [`lines`]: lines and columns of offsets in a text.
//! * [`printed`]: what may be printed where a terminal or a runner of CI jobs reads it.
//! * [`units`]: sizes and durations as people write them.

pub mod html;
pub mod lines;
pub mod printed;
pub mod units;

use std::borrow::Cow;

/// The text as one line of at most `limit` bytes. Control characters become spaces. A text that is
/// too long is cut at a character and marked with `…`.
#[must_use]
pub fn one_line(text: &str, limit: usize) -> String {
    const MARK: char = '…';
    let mut line = String::with_capacity(text.len().min(limit));
    for c in text.chars() {
        if line.len() + c.len_utf8() > limit {
            while line.len() + MARK.len_utf8() > limit && line.pop().is_some() {}
            line.push(MARK);
            return line;
        }
        line.push(if is_control(c) { ' ' } else { c });
    }
    line
}

/// A JSON text on one line. Line breaks in JSON are between its tokens, where a space means the same.
#[must_use]
pub fn without_line_breaks(json: &str) -> Cow<'_, str> {
    if memchr::memchr2(b'\n', b'\r', json.as_bytes()).is_some() {
        Cow::Owned(json.replace(['\n', '\r'], " "))
    } else {
        Cow::Borrowed(json)
    }
}

/// A JSON text without the white space between its tokens.
#[must_use]
pub fn without_space(json: &str) -> String {
    let (mut is_in_string, mut is_escaped) = (false, false);
    let is_kept = |character: &char| {
        if is_in_string {
            is_in_string = *character != '"' || is_escaped;
            is_escaped = *character == '\\' && !is_escaped;
            return true;
        }
        is_in_string = *character == '"';
        !character.is_ascii_whitespace()
    };
    json.chars().filter(is_kept).collect()
}

/// The text as one line of at most `most` characters, as people count. Otherwise like [`one_line`].
#[must_use]
pub fn short_line(text: &str, most: usize) -> String {
    let mut chars = text.chars().map(|c| if is_control(c) { ' ' } else { c });
    let mut line: String = chars.by_ref().take(most).collect();
    if chars.next().is_some() {
        line.pop();
        line.push('…');
    }
    line
}

/// Whether a character is a control character, or an invisible one that changes the display: a line separator of Unicode, a mark for
/// the direction of the text around it, or a character without a width.
#[must_use]
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// The candidate that is nearest to the text, if any is near.
#[must_use]
pub fn nearest<'c>(
    written: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    // The distance costs the product of both lengths, and typing errors are shorter.
    if written.len() > 64 {
        return None;
    }
    let scored = candidates.into_iter().map(|c| (strsim::damerau_levenshtein(written, c), c));
    let (distance, best) = scored.min_by_key(|(distance, _)| *distance)?;
    (distance <= written.chars().count().max(3) / 3 + 1).then_some(best)
}

/// `; did you mean "x"?` if a candidate is near, otherwise nothing.
#[must_use]
pub fn hint<'c>(written: &str, candidates: impl IntoIterator<Item = &'c str>) -> String {
    nearest(written, candidates).map(|c| format!("; did you mean {c:?}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_space_between_tokens_is_removed() {
        for (json, expected) in [
            ("{ \"a b\" : [ 1,\n\t2 ] }\r\n", "{\"a b\":[1,2]}"),
            (r#"[ "a \" b" , "\\" , " c " ]"#, r#"["a \" b","\\"," c "]"#),
        ] {
            assert_eq!(without_space(json), expected);
        }
    }

    #[test]
    fn line_is_bounded_without_control_characters() {
        let cases = [
            ("plain", 16, "plain"),
            ("a\nb\r\u{1b}[31mc\u{202e}", 64, "a b  [31mc "),
            ("\u{200e}a\u{200f}b\u{61c}c\u{200b}d\u{feff}", 64, " a b c d "),
            ("abcdef", 6, "abcdef"),
            ("abcdefg", 6, "abc…"),
            ("ééééé", 8, "éé…"),
            ("abc", 2, "…"),
        ];
        for (text, limit, line) in cases {
            assert_eq!(one_line(text, limit), line, "{text:?}");
        }
    }

    #[test]
    fn a_short_line_counts_characters() {
        let cases = [
            ("abcdef", 6, "abcdef"),
            ("abcdefg", 6, "abcde…"),
            ("éééééé", 6, "éééééé"),
            ("ééééééé", 6, "ééééé…"),
            ("a\nb", 6, "a b"),
            ("abc", 1, "…"),
        ];
        for (text, most, line) in cases {
            assert_eq!(short_line(text, most), line, "{text:?}");
        }
    }

    #[test]
    fn hint_names_the_nearest_key() {
        let keys = ["policies", "profile", "kind"];
        assert_eq!(hint("polices", keys), "; did you mean \"policies\"?");
        assert_eq!(hint("zzzzzzzz", keys), "");
    }
}
