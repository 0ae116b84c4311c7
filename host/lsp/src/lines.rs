//! Lines and positions of the protocol: lines end with `\n`, `\r\n` or `\r`, characters are units of UTF-16.

use lsp_types::{Position, Range};

/// The starts of the lines of a text.
#[derive(Debug, Clone)]
pub struct LineIndex {
    starts: Vec<usize>,
}

impl LineIndex {
    /// Finds the lines of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for at in memchr::memchr2_iter(b'\n', b'\r', bytes) {
            let is_pair = bytes.get(at) == Some(&b'\r') && bytes.get(at + 1) == Some(&b'\n');
            if !is_pair {
                starts.push(at + 1);
            }
        }
        Self { starts }
    }

    /// Returns the number of lines.
    #[must_use]
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// Returns the line of an offset, from 0.
    #[must_use]
    pub fn line_of(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset).saturating_sub(1)
    }

    /// Returns the bytes of a line, without its end.
    #[must_use]
    pub fn line<'t>(&self, text: &'t str, line: usize) -> (usize, &'t str) {
        let Some(start) = self.starts.get(line).copied() else { return (text.len(), "") };
        let end = self.starts.get(line + 1).copied().unwrap_or(text.len());
        (start, text.get(start..end).unwrap_or_default().trim_end_matches(['\n', '\r']))
    }

    /// Returns the position of an offset. An offset inside a character or in the end of a line counts as its start.
    #[must_use]
    pub fn position(&self, text: &str, offset: usize) -> Position {
        let line = self.line_of(offset.min(text.len()));
        let (start, content) = self.line(text, line);
        let inside = offset.saturating_sub(start);
        let before = content.char_indices().take_while(|(at, c)| at + c.len_utf8() <= inside);
        let character: usize = before.map(|(_, c)| c.len_utf16()).sum();
        Position { line: to_u32(line), character: to_u32(character) }
    }

    /// Returns the range of offsets.
    #[must_use]
    pub fn range(&self, text: &str, range: &std::ops::Range<usize>) -> Range {
        let start = self.position(text, range.start);
        Range { start, end: self.position(text, range.end.max(range.start)).max(start) }
    }

    /// Returns the offset of a position. Behind the end of a line or of the text, it is the offset of that end.
    #[must_use]
    pub fn offset(&self, text: &str, position: Position) -> usize {
        let line = usize::try_from(position.line).unwrap_or(usize::MAX);
        if line >= self.starts.len() {
            return text.len();
        }
        let (start, content) = self.line(text, line);
        let wanted = usize::try_from(position.character).unwrap_or(usize::MAX);
        let mut passed = 0_usize;
        for (at, c) in content.char_indices() {
            if passed >= wanted {
                return start + at;
            }
            passed += c.len_utf16();
        }
        start + content.len()
    }
}

/// Returns the offset of a place as reports have it: lines end with `\n`, columns are characters, both from 1.
#[must_use]
pub fn offset_of_place(text: &str, line: u64, column: u64) -> usize {
    let skipped = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
    let start = match skipped.checked_sub(1) {
        None => 0,
        Some(index) => match memchr::memchr_iter(b'\n', text.as_bytes()).nth(index) {
            Some(newline) => newline + 1,
            None => return text.len(),
        },
    };
    let rest = text.get(start..).unwrap_or_default();
    let content = rest.split('\n').next().unwrap_or_default().trim_end_matches('\r');
    let column = usize::try_from(column.saturating_sub(1)).unwrap_or(usize::MAX);
    start + content.char_indices().nth(column).map_or(content.len(), |(at, _)| at)
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn positions_count_units_of_utf16() {
        let text = "a😀b\r\nä\rc\n";
        let lines = LineIndex::of(text);
        for (offset, line, character) in [
            (0, 0, 0),
            (1, 0, 1),
            (5, 0, 3),
            (6, 0, 4),
            (7, 0, 4),
            (8, 1, 0),
            (10, 1, 1),
            (11, 2, 0),
            (12, 2, 1),
            (13, 3, 0),
            (99, 3, 0),
        ] {
            assert_eq!(lines.position(text, offset), Position { line, character }, "{offset}");
        }
        for (line, character, offset) in
            [(0, 3, 5), (0, 2, 5), (0, 99, 6), (1, 9, 10), (3, 0, 13), (9, 0, 13)]
        {
            assert_eq!(
                lines.offset(text, Position { line, character }),
                offset,
                "{line} {character}"
            );
        }
    }

    #[test]
    fn places_of_reports_are_offsets() {
        let text = "a: 1\r\nä: x\n\nb";
        for (line, column, offset) in [
            (1, 1, 0),
            (1, 99, 4),
            (2, 1, 6),
            (2, 2, 8),
            (3, 1, 12),
            (4, 1, 13),
            (9, 1, 14),
            (0, 0, 0),
        ] {
            assert_eq!(offset_of_place(text, line, column), offset, "{line}:{column}");
        }
    }

    proptest! {
        #[test]
        fn offset_of_a_position_is_the_offset(text in "[aé😀\\r\\n]{0,60}") {
            let lines = LineIndex::of(&text);
            for (offset, c) in text.char_indices() {
                let found = lines.offset(&text, lines.position(&text, offset));
                let is_line_end = matches!(c, '\r' | '\n');
                prop_assert!(found == offset || is_line_end && found <= offset);
            }
        }
    }
}
