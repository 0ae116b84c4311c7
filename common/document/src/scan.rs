//! A single pass over a text that determines whether it is JSON, the positions of its brackets, and duplicate
//! names in an object.
//!
//! ```text
//! text ─▶ value by value: brackets and names on stacks, strings eight bytes at a time ─▶ brackets, values
//! ```
//!
//! It does less than a parser: it creates no values, and does not describe errors. It accepts only JSON; a
//! caller that needs a message for other texts calls `serde_json`. A parser and the index in two passes took
//! twice as long.

use std::borrow::Cow;
use std::ops::Range;

use crate::charged_vec::ChargedVec;
use crate::escapes::unescape;
use crate::meter::Cost;

/// Result for a text.
pub(crate) struct ScanResult {
    /// Offsets of opening and closing bracket, in the order of the opening ones.
    pub(crate) brackets: Vec<(u32, u32)>,
    /// Offsets of the opening quote and behind the closing one, of long strings.
    pub(crate) strings: Vec<(u32, u32)>,
    /// Ranges of the values.
    pub(crate) values: Vec<Range<usize>>,
    /// A name, quotes included, that stood in its object before.
    pub(crate) duplicate_name: Option<Range<usize>>,
}

/// The data to collect from a text.
#[derive(Clone, Copy)]
pub(crate) struct ScanOptions {
    /// Levels of nesting.
    pub(crate) max_depth: usize,
    /// Names that stand twice.
    pub(crate) find_duplicates: bool,
}

/// Reads consecutive values. None if the text is no JSON, nests too deep, or costs too much.
pub(crate) fn scan_values(json: &str, options: ScanOptions, cost: Cost<'_>) -> Option<ScanResult> {
    // With 32 bits an offset fits.
    u32::try_from(json.len()).ok()?;
    let charge = cost.charge;
    let mut reader = Reader {
        json,
        bytes: json.as_bytes(),
        at: 0,
        // Objects of the cluster have a bracket in 50 to 100 bytes.
        brackets: ChargedVec::with_capacity(charge, json.len() / 64),
        strings: ChargedVec::new(charge),
        open: ChargedVec::with_capacity(charge, 16),
        names: ChargedVec::new(charge),
        duplicate_name: None,
        options,
        cost,
        charged_length: 0,
    };
    let mut values = ChargedVec::new(charge);
    while reader.peek().is_some() {
        let start = reader.at;
        reader.value()?;
        values.push(start..reader.at)?;
        // Next to a bracket or a quote, the next value may follow at once; otherwise, after a space.
        let last = reader.bytes.get(reader.at.wrapping_sub(1));
        if !matches!(last, Some(b'}' | b']' | b'"')) && reader.at < reader.bytes.len() {
            let is_start = |byte: &&u8| is_space(**byte) || matches!(**byte, b'{' | b'[' | b'"');
            reader.bytes.get(reader.at).filter(is_start)?;
        }
    }
    let (brackets, _) = reader.brackets.finish(0)?;
    let (strings, _) = reader.strings.finish(0)?;
    Some(ScanResult {
        brackets,
        strings,
        values: std::mem::take(&mut values.items),
        duplicate_name: reader.duplicate_name,
    })
}

struct Reader<'t, 'c> {
    json: &'t str,
    bytes: &'t [u8],
    at: usize,
    brackets: ChargedVec<'c, (u32, u32)>,
    strings: ChargedVec<'c, (u32, u32)>,
    open: ChargedVec<'c, OpenLevel>,
    /// Names of all open objects.
    names: ChargedVec<'c, Name<'t>>,
    duplicate_name: Option<Range<usize>>,
    options: ScanOptions,
    cost: Cost<'c>,
    /// Length of the text whose work is charged.
    charged_length: usize,
}

/// Strings of this size and more are indexed. Others are read faster than they are looked up.
pub(crate) const MIN_INDEXED_STRING_BYTES: usize = 512;

/// Bytes of text between two payments.
const CHARGE_INTERVAL_BYTES: usize = 1 << 10;

/// A list or an object that is open.
struct OpenLevel {
    /// Position in the list of brackets.
    bracket: usize,
    is_object: bool,
    /// Number of names before this level.
    names: usize,
}

/// The name of a member.
struct Name<'t> {
    text: Cow<'t, str>,
    start: usize,
}

/// Names of an object that are compared with each other as they come. Of more, all are sorted at the
/// end of the object.
const MAX_PAIRWISE_NAMES: usize = 16;

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r')
}

impl Reader<'_, '_> {
    /// Returns the next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        self.at = skip_spaces(self.bytes, self.at);
        self.bytes.get(self.at).copied()
    }

    /// Steps over a value, with all that is in it.
    fn value(&mut self) -> Option<()> {
        loop {
            let unpaid = self.at.saturating_sub(self.charged_length);
            if unpaid > CHARGE_INTERVAL_BYTES {
                self.cost.spend(unpaid)?;
                self.charged_length = self.at;
            }
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
        if self.open.items.len() == self.options.max_depth {
            return None;
        }
        let (bracket, names) = (self.brackets.items.len(), self.names.items.len());
        self.open.push(OpenLevel { bracket, is_object, names })?;
        self.brackets.push((u32::try_from(self.at).ok()?, u32::MAX))?;
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

    /// Closes the levels that end after a value. Reports whether the text is complete; otherwise a value
    /// follows.
    fn leave(&mut self) -> Option<bool> {
        loop {
            let Some(&OpenLevel { is_object, .. }) = self.open.items.last() else {
                return Some(true);
            };
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
        let open = self.open.items.pop()?;
        self.brackets.items.get_mut(open.bracket)?.1 = u32::try_from(self.at).ok()?;
        if self.names.items.len() > open.names + MAX_PAIRWISE_NAMES {
            self.check_all_names(open.names)?;
        }
        self.names.items.truncate(open.names);
        self.at += 1;
        Some(())
    }

    /// Returns the name of a member and its colon.
    fn name(&mut self) -> Option<()> {
        let start = self.at;
        self.string()?;
        if self.options.find_duplicates {
            self.check_duplicate(start)?;
        }
        if self.peek()? != b':' {
            return None;
        }
        self.at += 1;
        Some(())
    }

    /// Looks for the name that was just read among those before it.
    fn check_duplicate(&mut self, start: usize) -> Option<()> {
        let quoted = self.json.get(start..self.at).unwrap_or_default();
        let plain = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        let text = match memchr::memchr(b'\\', plain.as_bytes()) {
            None => Cow::Borrowed(plain),
            Some(_) => Cow::Owned(unescape(quoted).into()),
        };
        let first = self.open.items.last().map_or(0, |open| open.names);
        let before = self.names.items.get(first..).unwrap_or_default();
        if before.len() < MAX_PAIRWISE_NAMES && before.iter().any(|name| name.text == text) {
            self.record_duplicate(start..self.at);
        }
        let extra = if matches!(text, Cow::Owned(_)) { text.len().saturating_add(16) } else { 0 };
        self.names.push(Name { text, start })?;
        if extra > 0 { self.names.add_extra_bytes(extra) } else { Some(()) }
    }

    /// Looks for names that stand twice among those from `first` on.
    fn check_all_names(&mut self, first: usize) -> Option<()> {
        self.names.sort(|names| {
            // The sort is stable: of two of one name the later one comes later.
            names
                .get_mut(first..)
                .unwrap_or_default()
                .sort_by(|one, other| one.text.cmp(&other.text));
        })?;
        let names = self.names.items.get(first..)?;
        let pairs = names.windows(2).filter_map(|pair| match pair {
            [one, other] if one.text == other.text => Some(other.start),
            _ => None,
        });
        if let Some(start) = pairs.min() {
            self.record_duplicate(start..string_end(self.bytes, start));
        }
        Some(())
    }

    /// Records a duplicate name; the first one in the text is kept.
    fn record_duplicate(&mut self, name: Range<usize>) {
        if self.duplicate_name.as_ref().is_none_or(|before| name.start < before.start) {
            self.duplicate_name = Some(name);
        }
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
        let start = self.at;
        self.at += 1;
        loop {
            self.at += plain_length(self.bytes.get(self.at..)?);
            match self.bytes.get(self.at)? {
                b'"' => {
                    self.at += 1;
                    if self.at - start >= MIN_INDEXED_STRING_BYTES {
                        let offset = |at: usize| u32::try_from(at).ok();
                        self.strings.push((offset(start)?, offset(self.at)?))?;
                    }
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

/// Returns the offset behind the string that starts with the quote at `start`, in a text that was checked.
pub(crate) fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start.saturating_add(1);
    while let Some(rest) = bytes.get(at..) {
        at += plain_length(rest);
        match bytes.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => break,
        }
    }
    bytes.len()
}

/// Returns the offset of the first byte that is no white space.
pub(crate) fn skip_spaces(bytes: &[u8], mut at: usize) -> usize {
    if bytes.get(at).is_some_and(|byte| *byte > b' ') {
        return at;
    }
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

const BYTE_ONES: u64 = u64::MAX / 255;
const BYTE_HIGH_BITS: u64 = BYTE_ONES << 7;

/// Returns the number of bytes before a quote, a backslash or a control character.
fn plain_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // A byte is 0 where the subtraction borrows. Borrows only go to bytes behind, so that the
        // first one that is marked is one of those sought.
        let zero = |word: u64| word.wrapping_sub(BYTE_ONES) & !word;
        let control = word.wrapping_sub(BYTE_ONES * 0x20) & !word;
        let quote = zero(word ^ (BYTE_ONES * 0x22));
        let backslash = zero(word ^ (BYTE_ONES * 0x5c));
        let found = (control | quote | backslash) & BYTE_HIGH_BITS;
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

    fn found(json: &str) -> Option<ScanResult> {
        let charge = crate::Charge::default();
        let cost = Cost { charge: &charge, meter: None };
        scan_values(json, ScanOptions { max_depth: 8, find_duplicates: true }, cost)
    }

    fn ranges(json: &str) -> Option<Vec<&str>> {
        let found = found(json)?;
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
    fn invalid_json_yields_no_ranges() {
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
            "[[[[[[[[[]]]]]]]]]",
            "\u{feff}1",
        ] {
            assert_eq!(ranges(json), None, "{json}");
        }
    }

    #[test]
    fn duplicate_member_is_located() {
        let many = |last: &str| {
            let members: Vec<_> = (0..100).rev().map(|n| format!("\"n{n}\": 1")).collect();
            format!("[{{{}, \"{last}\": {{}}}}]", members.join(", "))
        };
        for (json, expected) in [
            (r#"{"a": 1, "b": {"a": 2}, "c": [{"a": 1}, {"a": "a"}], "d": "a"}"#, None),
            (r#"{"a": 1}{"a": 1}"#, None),
            (r#"{"a": 1, "b": 2, "a": 3}"#, Some((17, r#""a""#))),
            (r#"{"a": {"b": 1, "b": 2}, "a": 3}"#, Some((15, r#""b""#))),
            (r#"[{"x": {"a": "\"a", "\u0061": 1}}]"#, Some((20, r#""\u0061""#))),
            (r#"{"a\\": ["a", "a"], "a\"": {}, "a\\": 1}"#, Some((31, r#""a\\""#))),
            (r#"{"": 1, "": 2}"#, Some((8, r#""""#))),
            (r#"["a", "a", {}, 1]"#, None),
            (&many("n100"), None),
            (&many("n7"), Some((992, r#""n7""#))),
            (&many("n99"), Some((992, r#""n99""#))),
        ] {
            let twice = found(json).unwrap().duplicate_name;
            let found = twice.map(|range| (range.start, json.get(range).unwrap()));
            assert_eq!(found, expected, "{json}");
        }
    }

    #[test]
    fn brackets_are_paired() {
        let found = found(r#"{"a]":[{}, "\"]"], "b": {}}"#).unwrap();
        assert_eq!(found.brackets, [(0, 26), (6, 16), (7, 8), (24, 25)]);
    }
}
