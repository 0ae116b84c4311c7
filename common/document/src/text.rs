//! JSON text with an index of its brackets and of its long strings.
//!
//! The index is built in the pass that limits the nesting. With it, a read of one level skips nested values:
//! all reads of a document together cost as much as reading it once, at any depth and in any order.
//! Annotations of many megabytes are also skipped in one step.
//!
//! A text can have documents in it that stand in other texts: what is put together of parts of large
//! files need not be copied and read again.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::account::{Account, Charge};
use crate::charged_vec::ChargedVec;
use crate::meter::{Cost, Meter};
use crate::scan::{self, MIN_INDEXED_STRING_BYTES, ScanOptions, ScanResult, string_end};
use crate::{Document, Error};

/// Deepest nesting of lists and objects. Kubernetes objects stay far below (a CRD schema of 60
/// levels of properties nests 130 deep); everything that recurses over a document is bounded by it.
pub const MAX_DEPTH: usize = 512;

/// A text that documents share.
#[derive(Default)]
pub struct Text {
    json: String,
    /// Offsets of opening and closing bracket, in the order of the opening ones.
    brackets: OffsetPairs,
    /// Offsets of the opening quote and behind the closing one, of strings of [`MIN_INDEXED_STRING_BYTES`] bytes and more.
    strings: OffsetPairs,
    /// Documents that stand for what is at an offset, in the order of the offsets.
    parts: Vec<(u32, Arc<Document>)>,
    /// Known of texts that were indexed while they were checked.
    duplicate_name: Option<Range<usize>>,
    /// It was checked, and is one value.
    is_json: bool,
    /// Charge for the index; documents of the text are charged separately.
    charge: Charge,
}

/// Offsets of two ends, in the order of the first ones.
type OffsetPairs = Vec<(u32, u32)>;

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

/// A text that was not read, and its charge, as they were.
type RejectedText = (String, Charge);

/// Why a text has no index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexError {
    /// Something nests too deep, or the text is too large.
    TooDeep(TooDeep),
    /// Its account has no room for the index.
    BudgetExceeded,
}

impl From<TooDeep> for IndexError {
    fn from(deep: TooDeep) -> Self {
        Self::TooDeep(deep)
    }
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::TooDeep(deep) => deep.into(),
            IndexError::BudgetExceeded => {
                Self::new("is larger than the memory that is left for it".to_owned())
            }
        }
    }
}

impl Text {
    /// Indexes a text. Syntax is not checked: brackets that do not fit are left to the parser.
    ///
    /// # Errors
    /// The offset of the first bracket that nests too deep.
    pub fn new(json: String) -> Result<Self, TooDeep> {
        let length = json.len();
        Self::with_charge(json, Charge::default()).map_err(|error| match error {
            IndexError::TooDeep(deep) => deep,
            // Without an account nothing is refused.
            IndexError::BudgetExceeded => TooDeep(length),
        })
    }

    /// [`Text::new`] with a memory account: the index, and all documents of this text, are charged to the
    /// account of `charge`, which may already include bytes (those of the text itself). The charge belongs to
    /// the text from now on.
    ///
    /// # Errors
    /// Fails as [`Text::new`], and if the account refuses the charge.
    pub fn with_charge(json: String, charge: Charge) -> Result<Self, IndexError> {
        let (brackets, strings) = Self::index(&json, &charge)?;
        Ok(Self { json, brackets, strings, charge, ..Self::default() })
    }

    /// [`Text::with_charge`], and checks the syntax in the same pass: [`Text::is_json`] returns the result. The
    /// errors of invalid JSON are left to the parser.
    ///
    /// # Errors
    /// Fails as [`Text::with_charge`].
    pub fn with_syntax_check(json: String, charge: Charge) -> Result<Self, IndexError> {
        let options = ScanOptions { max_depth: MAX_DEPTH, find_duplicates: false };
        match Self::scan(json, options, charge, None) {
            Ok((text, values)) => Ok(Self { is_json: values.len() == 1, ..text }),
            Err((json, charge)) => Self::with_charge(json, charge),
        }
    }

    /// Reports whether it is known to be one JSON value.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.is_json
    }

    /// Brackets and long strings.
    fn index(json: &str, charge: &Charge) -> Result<(OffsetPairs, OffsetPairs), IndexError> {
        // Objects of the cluster have a bracket in 50 to 100 bytes.
        let mut brackets = ChargedVec::with_capacity(charge, json.len() / 64);
        let mut strings = ChargedVec::new(charge);
        // Positions in `brackets` of those that are open.
        let mut open: Vec<usize> = Vec::new();
        let bytes = json.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match byte {
                b'"' => {
                    let end = string_end(bytes, at);
                    if end - at >= MIN_INDEXED_STRING_BYTES {
                        let offset = |at| u32::try_from(at).map_err(|_| TooDeep(at));
                        strings
                            .push((offset(at)?, offset(end)?))
                            .ok_or(IndexError::BudgetExceeded)?;
                    }
                    at = end;
                }
                b'{' | b'[' => {
                    let offset = u32::try_from(at).map_err(|_| TooDeep(at))?;
                    if open.len() == MAX_DEPTH {
                        return Err(TooDeep(at).into());
                    }
                    open.push(brackets.items.len());
                    brackets.push((offset, u32::MAX)).ok_or(IndexError::BudgetExceeded)?;
                    at += 1;
                }
                b'}' | b']' => {
                    let offset = u32::try_from(at).map_err(|_| TooDeep(at))?;
                    let pair = open.pop().and_then(|index| brackets.items.get_mut(index));
                    if let Some(pair) = pair {
                        pair.1 = offset;
                    }
                    at += 1;
                }
                _ => at += 1,
            }
        }
        let (brackets, _) = brackets.finish(0).ok_or(IndexError::BudgetExceeded)?;
        let (strings, _) = strings.finish(0).ok_or(IndexError::BudgetExceeded)?;
        Ok((brackets, strings))
    }

    /// Creates a text without an index.
    #[must_use]
    pub fn unindexed(text: String) -> Self {
        Self { json: text, ..Self::default() }
    }

    /// Reads JSON values, one after another, and indexes their brackets: the text, and where the
    /// values are.
    ///
    /// # Errors
    /// The text itself, where something in it is no JSON or nests deeper than `deepest` levels.
    pub fn parse_values(json: String, deepest: usize) -> Result<(Self, Vec<Range<usize>>), String> {
        let options = ScanOptions { max_depth: deepest.min(MAX_DEPTH), find_duplicates: true };
        Self::scan(json, options, Charge::default(), None).map_err(|(json, _)| json)
    }

    /// Scans a text as [`Text::parse_values`], with a charge. Returns text and charge on failure.
    pub(crate) fn scan(
        json: String,
        options: ScanOptions,
        charge: Charge,
        meter: Option<&Meter>,
    ) -> Result<(Self, Vec<Range<usize>>), RejectedText> {
        match scan::scan_values(&json, options, Cost { charge: &charge, meter }) {
            Some(found) => {
                let ScanResult { brackets, strings, values, duplicate_name } = found;
                let text =
                    Self { json, brackets, strings, duplicate_name, charge, ..Self::default() };
                Ok((text, values))
            }
            None => Err((json, charge)),
        }
    }

    /// Creates a text in which documents replace the values at some offsets (in rising order, a `null` each).
    ///
    /// # Errors
    /// Fails as [`Text::new`]. The parts do not count: each is a separate value.
    pub fn assemble(json: String, parts: Vec<(usize, Arc<Document>)>) -> Result<Self, TooDeep> {
        let mut text = Self::new(json)?;
        for (offset, part) in parts {
            text.parts.push((u32::try_from(offset).map_err(|_| TooDeep(offset))?, part));
        }
        Ok(text)
    }

    /// Returns the first duplicate name in a text that [`Text::parse_values`] has read, with its quotes. Documents
    /// use the last member of a name, and other readers may use the first.
    #[must_use]
    pub fn duplicate_name(&self) -> Option<Range<usize>> {
        self.duplicate_name.clone()
    }

    /// Returns the bytes of its index.
    #[must_use]
    pub fn index_size(&self) -> usize {
        let pairs = self.brackets.capacity().saturating_add(self.strings.capacity());
        pairs.saturating_mul(size_of::<(u32, u32)>())
    }

    /// Returns the account that is charged for it and for derived data, if there is one.
    #[must_use]
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.charge.account()
    }

    /// Returns its charge.
    pub(crate) fn charge(&self) -> &Charge {
        &self.charge
    }

    /// Returns the document that replaces the value at an offset.
    #[inline]
    pub(crate) fn part(&self, offset: u32) -> Option<&Document> {
        if self.parts.is_empty() {
            return None;
        }
        let found = self.parts.binary_search_by_key(&offset, |part| part.0).ok()?;
        self.parts.get(found).map(|(_, document)| document.as_ref())
    }

    /// Returns the text of a range, with the parts in it written out.
    pub(crate) fn whole(&self, range: Range<usize>) -> Cow<'_, str> {
        let plain = self.json.get(range.clone()).unwrap_or_default();
        let offset = |part: &(u32, Arc<Document>)| usize::try_from(part.0).unwrap_or(usize::MAX);
        let from = self.parts.partition_point(|part| offset(part) < range.start);
        let to = self.parts.partition_point(|part| offset(part) < range.end);
        let parts = self.parts.get(from..to).unwrap_or_default();
        if parts.is_empty() {
            return Cow::Borrowed(plain);
        }
        let (mut whole, mut at) = (String::with_capacity(plain.len()), range.start);
        for part in parts {
            whole.push_str(self.json.get(at..offset(part)).unwrap_or_default());
            whole.push_str(&part.1.root().raw());
            at = offset(part).saturating_add("null".len());
        }
        whole.push_str(self.json.get(at..range.end).unwrap_or_default());
        Cow::Owned(whole)
    }

    /// Returns bytes of [`Text::whole`].
    pub(crate) fn size(&self, range: Range<usize>) -> usize {
        let offset = |part: &(u32, Arc<Document>)| usize::try_from(part.0).unwrap_or(usize::MAX);
        let from = self.parts.partition_point(|part| offset(part) < range.start);
        let to = self.parts.partition_point(|part| offset(part) < range.end);
        let parts = self.parts.get(from..to).unwrap_or_default().iter();
        let longer = parts.map(|part| part.1.root().size().saturating_sub("null".len()));
        range.len().saturating_add(longer.sum())
    }

    /// Returns the offset of the bracket that closes the one at `open`, for a reader that moves forwards:
    /// `next` is the position in the index where the search starts, and is moved behind it. Siblings are
    /// found immediately, and skipped values in a few steps.
    pub(crate) fn closing_bracket(&self, open: usize, next: &mut Option<usize>) -> Option<usize> {
        let open = u32::try_from(open).ok()?;
        let from = next.unwrap_or_default();
        let rest = self.brackets.get(from..)?;
        let mut most = if next.is_some() { 1 } else { rest.len() };
        while rest.get(most.saturating_sub(1)).is_some_and(|pair| pair.0 < open) {
            most = most.saturating_mul(4);
        }
        let near = rest.get(..most).unwrap_or(rest);
        let found = near.binary_search_by_key(&open, |pair| pair.0).ok()?;
        *next = Some(from.saturating_add(found).saturating_add(1));
        near.get(found).and_then(|pair| usize::try_from(pair.1).ok())
    }

    /// Returns the offset behind the string that starts with the quote at `start`.
    pub(crate) fn string_end(&self, start: usize) -> usize {
        let bytes = self.json.as_bytes();
        let near = bytes.get(..start.saturating_add(MIN_INDEXED_STRING_BYTES)).unwrap_or(bytes);
        let end = string_end(near, start);
        let is_near = end < near.len() || near.len() == bytes.len();
        let far =
            || paired_offset(&self.strings, start).unwrap_or_else(|| string_end(bytes, start));
        if is_near { end } else { far() }
    }
}

/// Returns the second of the pair that starts with this offset.
fn paired_offset(pairs: &[(u32, u32)], first: usize) -> Option<usize> {
    let first = u32::try_from(first).ok()?;
    let found = pairs.binary_search_by_key(&first, |pair| pair.0).ok()?;
    let (_, second) = pairs.get(found)?;
    usize::try_from(*second).ok()
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
    fn brackets_are_matched_to_their_closing_ones() {
        let text = Text::new(r#"{"a]":[{}, "\"]"], "b": {}}"#.to_owned()).unwrap();
        for (open, close) in [(0, 26), (6, 16), (7, 8), (24, 25)] {
            assert_eq!(text.closing_bracket(open, &mut None), Some(close));
        }
        assert_eq!(text.closing_bracket(1, &mut None), None);
        let many = Text::new(format!("[{}]", "[[{}],[]],".repeat(100))).unwrap();
        for inside in [1, 2, 3, 5, 50, 100] {
            let mut next = None;
            for at in (1..1_000).step_by(inside * 10) {
                assert_eq!(many.closing_bracket(at, &mut next), Some(at + 8));
            }
            assert_eq!(many.closing_bracket(4, &mut next), None, "it only goes forwards");
        }
    }

    #[test]
    fn string_end_is_found_for_any_length() {
        for length in (0..40).chain(490..530).chain([100_000]) {
            for (fill, size) in [("x", 1), ("\\\"", 2), ("é", 2)] {
                let string = format!("\"{}\"", fill.repeat(length / size));
                let json = format!("[1, {string}, \"a\"]");
                let end = 4 + string.len();
                let checked = Text::with_syntax_check(json.clone(), Charge::default()).unwrap();
                for text in [Text::new(json).unwrap(), checked] {
                    assert_eq!(text.string_end(4), end, "{length} of {fill}");
                    // Nothing reads a long string again to find its end.
                    let is_long = string.len() >= MIN_INDEXED_STRING_BYTES;
                    assert_eq!(paired_offset(&text.strings, 4), is_long.then_some(end), "{length}");
                }
            }
        }
    }
}
