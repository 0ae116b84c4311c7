//! Many changes of a text at once: a rope makes each of them without a copy of the whole text.

use std::ops::Range;

use lsp_types::Position;
use ropey::Rope;

/// A replaced part of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedEdit {
    /// The bytes that were replaced.
    pub replaced: Range<usize>,
    /// The number of bytes that replace them.
    pub inserted: usize,
}

/// A text to which changes are applied.
pub(crate) struct TextChanges {
    rope: Rope,
}

impl TextChanges {
    pub(crate) fn of(text: &str) -> Self {
        Self { rope: Rope::from_str(text) }
    }

    pub(crate) fn to_text(&self) -> String {
        self.rope.chunks().collect()
    }

    /// Replaces a range. Positions count as in [`LineIndex::offset`](crate::lines::LineIndex::offset).
    pub(crate) fn replace(&mut self, range: &lsp_types::Range, inserted: &str) -> AppliedEdit {
        let start = self.char_at(range.start);
        let end = self.char_at(range.end).max(start);
        let replaced = self.bytes(start..end);
        // Both are in the text.
        let _ = self.rope.try_remove(start..end);
        let _ = self.rope.try_insert(start, inserted);
        AppliedEdit { replaced, inserted: inserted.len() }
    }

    fn bytes(&self, chars: Range<usize>) -> Range<usize> {
        let byte = |at| self.rope.try_char_to_byte(at).unwrap_or(self.rope.len_bytes());
        byte(chars.start)..byte(chars.end)
    }

    /// Returns the character at a position, counted from the start of the text.
    fn char_at(&self, position: Position) -> usize {
        let line = usize::try_from(position.line).unwrap_or(usize::MAX);
        let units = usize::try_from(position.character).unwrap_or(usize::MAX);
        let (Some(content), Ok(start)) =
            (self.rope.get_line(line), self.rope.try_line_to_char(line))
        else {
            return self.rope.len_chars();
        };
        let length = content.len_chars();
        let has = |c, before_end: usize| {
            length.checked_sub(before_end).and_then(|at| content.get_char(at)) == Some(c)
        };
        let line_end = if has('\n', 1) && has('\r', 2) {
            2
        } else {
            usize::from(has('\n', 1) || has('\r', 1))
        };
        let Some(content) = content.get_slice(..length.saturating_sub(line_end)) else {
            return start;
        };
        let inside = content.try_utf16_cu_to_char(units).unwrap_or(content.len_chars());
        // The second half of a pair is behind its character.
        let is_half = content.try_char_to_utf16_cu(inside).is_ok_and(|before| before < units)
            && inside < content.len_chars();
        start.saturating_add(inside).saturating_add(usize::from(is_half))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lines::LineIndex;

    proptest! {
        #[test]
        fn positions_are_those_of_the_lines(
            text in "[aé😀\r\n]{0,40}",
            changes in prop::collection::vec(((0..9_u32, 0..9_u32), (0..9_u32, 0..9_u32), "[x😀\r\n]{0,4}"), 1..6),
        ) {
            let (mut expected, mut changed) = (text.clone(), TextChanges::of(&text));
            for (start, end, inserted) in changes {
                let position = |(line, character)| Position { line, character };
                let lines = LineIndex::of(&expected);
                let from = lines.offset(&expected, position(start));
                let to = lines.offset(&expected, position(end)).max(from);
                expected.replace_range(from..to, &inserted);
                let range = lsp_types::Range { start: position(start), end: position(end) };
                let edit = changed.replace(&range, &inserted);
                prop_assert_eq!(edit, AppliedEdit { replaced: from..to, inserted: inserted.len() });
                prop_assert_eq!(changed.to_text(), expected.as_str());
            }
        }
    }
}
