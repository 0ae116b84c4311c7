//! One pass over a text that says whether it is JSON, and where its brackets are.
//!
//! ```text
//! text ─▶ value by value: brackets on a stack, strings eight bytes at a time ─▶ brackets, values
//! ```
//!
//! It knows less than a parser: it makes no values, and does not say what is wrong. What it takes for
//! JSON is JSON; whoever wants a message for the rest asks `serde_json`. A parser and the index in two
//! passes took twice as long.

use std::ops::Range;

/// What was found in a text.
pub(crate) struct Found {
    /// Offsets of opening and closing bracket, in the order of the opening ones.
    pub(crate) brackets: Vec<(u32, u32)>,
    /// Where the values are.
    pub(crate) values: Vec<Range<usize>>,
}

/// Reads values, one after another. None where something is no JSON, or nests deeper than `deepest`.
pub(crate) fn values(json: &str, deepest: usize) -> Option<Found> {
    // With 32 bits an offset fits.
    u32::try_from(json.len()).ok()?;
    let mut reader =
        Reader { bytes: json.as_bytes(), at: 0, brackets: Vec::new(), open: Vec::new(), deepest };
    let mut values = Vec::new();
    while reader.peek().is_some() {
        let start = reader.at;
        reader.value()?;
        values.push(start..reader.at);
        // Behind a bracket or a quote the next value may follow at once; behind others, a space.
        let last = reader.bytes.get(reader.at.wrapping_sub(1));
        if !matches!(last, Some(b'}' | b']' | b'"')) && reader.at < reader.bytes.len() {
            reader.bytes.get(reader.at).filter(|byte| is_space(**byte))?;
        }
    }
    Some(Found { brackets: reader.brackets, values })
}

struct Reader<'t> {
    bytes: &'t [u8],
    at: usize,
    brackets: Vec<(u32, u32)>,
    /// Of what is open: its position in `brackets`, and whether it is an object.
    open: Vec<(usize, bool)>,
    deepest: usize,
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r')
}

impl Reader<'_> {
    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        self.at = skip_spaces(self.bytes, self.at);
        self.bytes.get(self.at).copied()
    }

    /// Steps over a value, with all that is in it.
    fn value(&mut self) -> Option<()> {
        loop {
            let is_complete = match self.peek()? {
                b'"' => self.string().map(|()| true)?,
                b'{' => self.enter(true)?,
                b'[' => self.enter(false)?,
                b't' => self.word(b"true").map(|()| true)?,
                b'f' => self.word(b"false").map(|()| true)?,
                b'n' => self.word(b"null").map(|()| true)?,
                b'-' | b'0'..=b'9' => self.number().map(|()| true)?,
                _ => return None,
            };
            if is_complete && self.leave()? {
                return Some(());
            }
        }
    }

    /// Enters a list or an object; says whether it is complete, being empty.
    fn enter(&mut self, is_object: bool) -> Option<bool> {
        if self.open.len() == self.deepest {
            return None;
        }
        self.open.push((self.brackets.len(), is_object));
        self.brackets.push((u32::try_from(self.at).ok()?, u32::MAX));
        self.at += 1;
        let end = if is_object { b'}' } else { b']' };
        if self.peek()? == end {
            self.close()?;
            return Some(true);
        }
        if is_object {
            self.name()?;
        }
        Some(false)
    }

    /// Behind a value: leaves what ends there. Says whether that is all; otherwise a value comes next.
    fn leave(&mut self) -> Option<bool> {
        loop {
            let Some(&(_, is_object)) = self.open.last() else { return Some(true) };
            match (self.peek()?, is_object) {
                (b',', true) => {
                    self.at += 1;
                    self.peek()?;
                    self.name()?;
                    return Some(false);
                }
                (b',', false) => {
                    self.at += 1;
                    return Some(false);
                }
                (b'}', true) | (b']', false) => self.close()?,
                _ => return None,
            }
        }
    }

    fn close(&mut self) -> Option<()> {
        let (position, _) = self.open.pop()?;
        self.brackets.get_mut(position)?.1 = u32::try_from(self.at).ok()?;
        self.at += 1;
        Some(())
    }

    /// The name of a member and its colon.
    fn name(&mut self) -> Option<()> {
        self.string()?;
        if self.peek()? != b':' {
            return None;
        }
        self.at += 1;
        Some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.bytes.get(self.at..)?.starts_with(word).then_some(())?;
        self.at += word.len();
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let rest = self.bytes.get(self.at..)?;
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(())
    }

    fn number(&mut self) -> Option<()> {
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.bytes.get(self.at) == Some(&b'0') {
            self.at += 1;
            if self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
                return None;
            }
        } else {
            self.digits()?;
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return None;
        }
        self.at += 1;
        loop {
            self.at += plain(self.bytes.get(self.at..)?);
            match self.bytes.get(self.at)? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => match self.bytes.get(self.at + 1)? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
                    b'u' => {
                        let digits = self.bytes.get(self.at + 2..self.at + 6)?;
                        digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
                        self.at += 6;
                    }
                    _ => return None,
                },
                // A control character.
                _ => return None,
            }
        }
    }
}

/// Offset behind the string that starts with the quote at `start`, in a text that was checked.
pub(crate) fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start.saturating_add(1);
    while let Some(rest) = bytes.get(at..) {
        at += plain(rest);
        match bytes.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => break,
        }
    }
    bytes.len()
}

/// Offset of the first byte that is no white space.
pub(crate) fn skip_spaces(bytes: &[u8], mut at: usize) -> usize {
    loop {
        // Lines of indented files start with many spaces.
        while bytes.get(at..).is_some_and(|rest| rest.starts_with(b"        ")) {
            at += 8;
        }
        match bytes.get(at) {
            Some(byte) if is_space(*byte) => at += 1,
            _ => return at,
        }
    }
}

const EVERY: u64 = u64::MAX / 255;
const HIGHEST: u64 = EVERY << 7;

/// How many bytes there are before a quote, a backslash or a control character.
fn plain(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // A byte is 0 where the subtraction borrows. Borrows only go to bytes behind, so that the
        // first one that is marked is one of those sought.
        let zero = |word: u64| word.wrapping_sub(EVERY) & !word;
        let control = word.wrapping_sub(EVERY * 0x20) & !word;
        let quote = zero(word ^ (EVERY * 0x22));
        let backslash = zero(word ^ (EVERY * 0x5c));
        let found = (control | quote | backslash) & HIGHEST;
        if found != 0 {
            let first = found.trailing_zeros() / 8;
            return index * 8 + usize::try_from(first).unwrap_or_default();
        }
    }
    let is_plain = |byte: &&u8| !matches!(byte, b'"' | b'\\' | 0..0x20);
    bytes.len() - rest.len() + rest.iter().take_while(is_plain).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(json: &str) -> Option<Vec<&str>> {
        let found = values(json, 8)?;
        Some(found.values.into_iter().filter_map(|range| json.get(range)).collect())
    }

    #[test]
    fn values_are_found_one_after_another() {
        for (json, expected) in [
            ("", vec![]),
            (" \n", vec![]),
            ("{}[]\"a\"1 2\ttrue", vec!["{}", "[]", "\"a\"", "1", "2", "true"]),
            (
                r#"{"a": [1, {"b": "}"}], "c": -0.5e+3}"#,
                vec![r#"{"a": [1, {"b": "}"}], "c": -0.5e+3}"#],
            ),
            (
                "[\"a long text, longer than a word\", \"\\u00e4\\n\"]",
                vec!["[\"a long text, longer than a word\", \"\\u00e4\\n\"]"],
            ),
            ("[\n        \n          1]", vec!["[\n        \n          1]"]),
            ("\"ä €😀\u{7f}\"", vec!["\"ä €😀\u{7f}\""]),
        ] {
            assert_eq!(ranges(json), Some(expected), "{json}");
        }
        assert_eq!(ranges("[[[[[[[[]]]]]]]]").map(|v| v.len()), Some(1));
    }

    #[test]
    fn what_is_no_json_is_not_taken_for_it() {
        for json in [
            "{",
            "]",
            "[1",
            "[1,]",
            "{,}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{1:2}",
            "[1 2]",
            "[}",
            "{\"a\":1]",
            "01",
            "-",
            "1.",
            "1e",
            ".5",
            "+1",
            "tru",
            "nul",
            "True",
            "'a'",
            "\"",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\n\"",
            "\"a\tb\"",
            "\"long enough for a word \u{1} \"",
            "1true",
            "1[]",
            "[[[[[[[[[]]]]]]]]]",
            "\u{feff}1",
        ] {
            assert_eq!(ranges(json), None, "{json}");
        }
    }

    #[test]
    fn brackets_are_paired() {
        let found = values(r#"{"a]":[{}, "\"]"], "b": {}}"#, 8).unwrap();
        assert_eq!(found.brackets, [(0, 26), (6, 16), (7, 8), (24, 25)]);
    }
}
