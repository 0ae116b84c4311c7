//! Lines and columns of offsets in a text, in one pass over it for any number of offsets.
//!
//! A pass records the position before each block of the text. A query searches one block. Whole
//! catalogs are on one line, so columns are counted by block, too.

/// Bytes of a block.
const BLOCK: usize = 4 << 10;

/// The position before a block.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    newlines: usize,
    /// Characters of the text.
    characters: usize,
    /// The start of the line that continues in the block, and the characters before it.
    line_start: usize,
    line_characters: usize,
}

/// Line and column of one offset, without an index of the lines.
#[must_use]
pub fn line_and_column(text: &str, offset: usize) -> (u64, u64) {
    let before = text.get(..offset).unwrap_or(text);
    let lines = memchr::memchr_iter(b'\n', before.as_bytes()).count();
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count();
    let number = |n: usize| u64::try_from(n + 1).unwrap_or(u64::MAX);
    (number(lines), number(column))
}

/// Column in characters of a column in bytes, as parsers of JSON count. Lines and columns start at 1.
#[must_use]
pub fn character_column(text: &[u8], line: usize, byte_column: usize) -> usize {
    let mut line_starts = memchr::memchr_iter(b'\n', text).map(|newline| newline + 1);
    let line_start = match line.checked_sub(2) {
        None => 0,
        Some(index) => line_starts.nth(index).unwrap_or(text.len()),
    };
    let before = text.get(line_start..).unwrap_or_default();
    let end = byte_column.saturating_sub(1).min(before.len());
    count_characters(before.get(..end).unwrap_or_default()).saturating_add(1)
}

/// The lines of a text.
#[derive(Debug)]
pub struct Lines(Vec<Before>);

/// Counts the characters of a text.
#[must_use]
pub fn count_characters(bytes: &[u8]) -> usize {
    // All bytes except those that continue a character.
    bytes.iter().filter(|byte| (**byte & 0xc0) != 0x80).count()
}

impl Before {
    /// The position after these bytes, which start at an offset.
    fn after(mut self, bytes: &[u8], offset: usize) -> Self {
        let mut from = 0;
        if let Some(last) = memchr::memrchr(b'\n', bytes) {
            self.newlines += memchr::memchr_iter(b'\n', bytes).count();
            from = last + 1;
            self.characters += count_characters(bytes.get(..from).unwrap_or_default());
            (self.line_start, self.line_characters) = (offset + from, self.characters);
        }
        self.characters += count_characters(bytes.get(from..).unwrap_or_default());
        self
    }
}

impl Lines {
    /// Records the positions of some lines.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut blocks = Vec::with_capacity(text.len() / BLOCK + 1);
        let mut before = Before::default();
        for (index, block) in text.as_bytes().chunks(BLOCK).enumerate() {
            blocks.push(before);
            before = before.after(block, index * BLOCK);
        }
        blocks.push(before);
        Self(blocks)
    }

    fn before(&self, text: &str, offset: usize) -> Before {
        let offset = offset.min(text.len());
        let block = offset / BLOCK;
        let before = self.0.get(block).copied().unwrap_or_default();
        let bytes = text.as_bytes().get(block * BLOCK..offset).unwrap_or_default();
        before.after(bytes, block * BLOCK)
    }

    /// Line and column, in characters, of an offset. Both start at 1.
    #[must_use]
    pub fn place(&self, text: &str, offset: usize) -> (u64, u64) {
        let before = self.before(text, offset);
        let number = |n: usize| u64::try_from(n.saturating_add(1)).unwrap_or(u64::MAX);
        (number(before.newlines), number(before.characters - before.line_characters))
    }

    /// The line around an offset, unless it is longer than this many bytes.
    #[must_use]
    pub fn line<'t>(&self, text: &'t str, offset: usize, most: usize) -> Option<&'t str> {
        let start = self.before(text, offset).line_start;
        let rest = text.as_bytes().get(start..)?;
        let end = memchr::memchr(b'\n', rest.get(..=most).unwrap_or(rest));
        let end = end.or_else(|| Some(rest.len()).filter(|length| *length <= most))?;
        text.get(start..start + end).map(|line| line.trim_end_matches('\r'))
    }

    /// The start of a line, counted from 0; the end of the text if there are not as many.
    #[must_use]
    pub fn start(&self, text: &str, line: usize) -> usize {
        let block = self.0.partition_point(|before| before.newlines < line).saturating_sub(1);
        let before = self.0.get(block).copied().unwrap_or_default();
        let Some(ahead) = line.checked_sub(before.newlines + 1) else { return 0 };
        let from = block * BLOCK;
        let rest = text.as_bytes().get(from..).unwrap_or_default();
        let found = memchr::memchr_iter(b'\n', rest).nth(ahead);
        found.map_or(text.len(), |newline| from + newline + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn between(text: &str, from: usize, to: usize) -> &str {
        text.get(from..to).unwrap()
    }

    /// Character by character.
    fn count_position(text: &str, offset: usize) -> (u64, u64) {
        let before = between(text, 0, offset);
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().unwrap().chars().count();
        (u64::try_from(line).unwrap() + 1, u64::try_from(column).unwrap() + 1)
    }

    proptest! {
        #[test]
        fn positions_match_a_simple_count(
            parts in proptest::collection::vec(("[aé€\\n]{0,20}", 0usize..3_000), 1..8),
            at in 0.0f64..1.0,
        ) {
            let text: String = parts.iter().map(|(part, count)| part.repeat(*count)).collect();
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, clippy::as_conversions, reason = "any place will do")]
            let mut offset = (text.len() as f64 * at) as usize;
            while !text.is_char_boundary(offset) {
                offset -= 1;
            }
            let lines = Lines::of(&text);
            let (line, column) = lines.place(&text, offset);
            prop_assert_eq!((line, column), count_position(&text, offset));
            let start = lines.start(&text, usize::try_from(line).unwrap() - 1);
            prop_assert_eq!(start, between(&text, 0, offset).rfind('\n').map_or(0, |newline| newline + 1));
            let whole = between(&text, start, text.len()).split('\n').next().unwrap();
            prop_assert_eq!(lines.line(&text, offset, 4_096), Some(whole).filter(|l| l.len() <= 4_096));
        }
    }
}
