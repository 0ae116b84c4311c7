//! JSON text with an index of its brackets and of its long strings.
//!
//! The index is made in the pass that bounds the nesting. With it, a look at one level steps over
//! nested values instead of reading them: all looks at a document together cost as much as reading
//! it once, however deep it is and in whatever order it is looked at. Annotations of many megabytes
//! are stepped over at once as well.

use std::fmt;
use std::ops::Deref;

use crate::Error;

/// Deepest nesting of lists and objects. Kubernetes objects stay far below (a CRD schema of 60
/// levels of properties nests 130 deep); everything that recurses over a document is bounded by it.
pub const MAX_DEPTH: usize = 512;

/// A text that documents share.
#[derive(Default)]
pub struct Text {
    json: String,
    /// Offsets of opening and closing bracket, in the order of the opening ones.
    brackets: Vec<(u32, u32)>,
    /// Offsets of the opening quote and behind the closing one, of strings of [`LONG`] bytes and more.
    strings: Vec<(u32, u32)>,
}

/// Bytes that are read faster than they are looked up.
const LONG: usize = 512;

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.json.fmt(f)
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.json
    }
}

/// Something nests deeper than [`MAX_DEPTH`], or the text is larger than 4 GiB: where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooDeep(pub usize);

impl From<TooDeep> for Error {
    fn from(_: TooDeep) -> Self {
        Self::new(format!("nests deeper than {MAX_DEPTH} levels"))
    }
}

impl Text {
    /// Indexes a text. Syntax is not checked: brackets that do not fit are left to the parser.
    ///
    /// # Errors
    /// The offset of the first bracket that nests too deep.
    pub fn new(json: String) -> Result<Self, TooDeep> {
        let mut brackets: Vec<(u32, u32)> = Vec::new();
        let mut strings: Vec<(u32, u32)> = Vec::new();
        // Positions in `brackets` of those that are open.
        let mut open: Vec<usize> = Vec::new();
        let bytes = json.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    let end = string_end(bytes, at);
                    if end - at >= LONG {
                        let offset = |at| u32::try_from(at).map_err(|_| TooDeep(at));
                        strings.push((offset(at)?, offset(end)?));
                    }
                    at = end;
                }
                b'{' | b'[' => {
                    let offset = u32::try_from(at).map_err(|_| TooDeep(at))?;
                    if open.len() == MAX_DEPTH {
                        return Err(TooDeep(at));
                    }
                    open.push(brackets.len());
                    brackets.push((offset, u32::MAX));
                    at += 1;
                }
                b'}' | b']' => {
                    let offset = u32::try_from(at).map_err(|_| TooDeep(at))?;
                    if let Some(pair) = open.pop().and_then(|index| brackets.get_mut(index)) {
                        pair.1 = offset;
                    }
                    at += 1;
                }
                _ => at += 1,
            }
        }
        Ok(Self { json, brackets, strings })
    }

    /// Offset of the bracket that closes the one at `open`.
    pub(crate) fn closing(&self, open: usize) -> Option<usize> {
        partner(&self.brackets, open)
    }

    /// Offset behind the string that starts with the quote at `start`.
    pub(crate) fn string_end(&self, start: usize) -> usize {
        let bytes = self.json.as_bytes();
        let near = bytes.get(..start.saturating_add(LONG)).unwrap_or(bytes);
        let end = string_end(near, start);
        let is_near = end < near.len() || near.len() == bytes.len();
        if is_near { end } else { partner(&self.strings, start).unwrap_or(end) }
    }
}

/// The second of the pair that starts with this offset.
fn partner(pairs: &[(u32, u32)], first: usize) -> Option<usize> {
    let first = u32::try_from(first).ok()?;
    let found = pairs.binary_search_by_key(&first, |pair| pair.0).ok()?;
    let (_, second) = pairs.get(found)?;
    usize::try_from(*second).ok()
}

/// Offset behind the string that starts with the quote at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_count_only_outside_of_strings() {
        let check = |json: String| Text::new(json).map(|_| ());
        let deep = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        assert_eq!(check(deep), Ok(()));
        assert_eq!(check("[".repeat(MAX_DEPTH + 1)), Err(TooDeep(MAX_DEPTH)));
        let quoted = format!("[\"{}\\\"{}\"]", "[".repeat(1000), "{".repeat(1000));
        assert_eq!(check(quoted), Ok(()));
        let wide = format!("[{}[]]", "[],".repeat(1000));
        assert_eq!(check(wide), Ok(()));
    }

    #[test]
    fn brackets_find_their_partners() {
        let text = Text::new(r#"{"a]":[{}, "\"]"], "b": {}}"#.to_owned()).unwrap();
        for (open, close) in [(0, 26), (6, 16), (7, 8), (24, 25)] {
            assert_eq!(text.closing(open), Some(close));
        }
        assert_eq!(text.closing(1), None);
    }

    #[test]
    fn strings_end_where_they_end_however_long_they_are() {
        for length in (0..40).chain(490..530).chain([100_000]) {
            for (fill, size) in [("x", 1), ("\\\"", 2), ("é", 2)] {
                let string = format!("\"{}\"", fill.repeat(length / size));
                let text = Text::new(format!("[1, {string}, \"a\"]")).unwrap();
                assert_eq!(text.string_end(4), 4 + string.len(), "{length} of {fill}");
            }
        }
    }
}
