//! A text in blocks, for many changes at once: each one searches and copies some blocks, not the whole text.
//!
//! ```text
//! text ─▶ blocks of some KiB ─▶ change after change: position ─▶ block, from that of the change before ─▶ text
//! ```

use std::cell::Cell;

use lsp_types::Position;

use crate::lines::LineIndex;
use crate::text_document::AppliedEdit;

/// Bytes of a block. One that has become twice as long is split.
const BLOCK_BYTES: usize = 4 << 10;

struct Block {
    text: String,
    lines: LineIndex,
    /// The units of UTF-16, if no line ends in it.
    units: Option<usize>,
}

/// A block, and what is before it.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    block: usize,
    bytes: usize,
    line_ends: usize,
}

/// A text to which changes are applied.
pub(crate) struct BlockText {
    /// At least one. Of a line end of two bytes, both are in the same block.
    blocks: Vec<Block>,
    at: Cursor,
    /// Blocks that were visited, and bytes that were searched or copied.
    work: Cell<usize>,
}

impl Block {
    fn of(text: &str) -> Self {
        let lines = LineIndex::of(text);
        let units = (lines.count() == 1).then(|| text.encode_utf16().count());
        Self { text: text.to_owned(), lines, units }
    }

    fn line_ends(&self) -> usize {
        self.lines.count().saturating_sub(1)
    }
}

impl BlockText {
    pub(crate) fn of(text: &str) -> Self {
        let mut blocks = split(text);
        if blocks.is_empty() {
            blocks.push(Block::of(""));
        }
        Self { blocks, at: Cursor::default(), work: Cell::new(text.len()) }
    }

    pub(crate) fn to_text(&self) -> String {
        self.blocks.iter().map(|block| block.text.as_str()).collect()
    }

    /// Replaces a range. Positions count as in [`LineIndex::offset`].
    pub(crate) fn replace(&mut self, range: &lsp_types::Range, inserted: &str) -> AppliedEdit {
        let (start, start_offset) = self.find(range.start);
        let (end, end_offset) = self.find(range.end);
        let first = start.bytes.saturating_add(start_offset);
        let last = end.bytes.saturating_add(end_offset);
        let (end, end_offset) =
            if last < first { (start, start_offset) } else { (end, end_offset) };
        self.splice((start, start_offset), (end.block, end_offset), inserted);
        AppliedEdit { replaced: first..last.max(first), inserted: inserted.len() }
    }

    /// Returns the block of a position, and the offset in it.
    fn find(&mut self, position: Position) -> (Cursor, usize) {
        let line = usize::try_from(position.line).unwrap_or(usize::MAX);
        let mut wanted = usize::try_from(position.character).unwrap_or(usize::MAX);
        while self.at.block > 0 && self.at.line_ends >= line {
            self.at = self.before(self.at);
        }
        while let Some(next) = self.after(self.at)
            && next.line_ends < line
        {
            self.at = next;
        }
        let mut cursor = self.at;
        let mut line_in_block = line.saturating_sub(cursor.line_ends);
        loop {
            let Some(block) = self.blocks.get(cursor.block) else { return (cursor, 0) };
            if line_in_block >= block.lines.count() {
                return (cursor, block.text.len());
            }
            let next = self.after(cursor);
            if let Some(rest) = block.units.and_then(|units| wanted.checked_sub(units))
                && let Some(next) = next
            {
                // The line continues, and the position is behind this block.
                (cursor, wanted) = (next, rest);
                continue;
            }
            let (start, content) = block.lines.line(&block.text, line_in_block);
            self.add_work(content.len());
            let mut units = content.char_indices().scan(0_usize, |passed, (at, c)| {
                let before = *passed;
                *passed = before.saturating_add(c.len_utf16());
                Some((at, before))
            });
            if let Some((at, _)) = units.find(|(_, before)| *before >= wanted) {
                return (cursor, start.saturating_add(at));
            }
            let is_end = line_in_block < block.line_ends();
            let Some(next) = next.filter(|_| !is_end) else {
                return (cursor, start.saturating_add(content.len()));
            };
            wanted = wanted.saturating_sub(content.encode_utf16().count());
            (cursor, line_in_block) = (next, 0);
        }
    }

    fn add_work(&self, amount: usize) {
        self.work.set(self.work.get().saturating_add(amount));
    }

    fn before(&self, at: Cursor) -> Cursor {
        self.add_work(1);
        let index = at.block.saturating_sub(1);
        let Some(block) = self.blocks.get(index) else { return Cursor::default() };
        Cursor {
            block: index,
            bytes: at.bytes.saturating_sub(block.text.len()),
            line_ends: at.line_ends.saturating_sub(block.line_ends()),
        }
    }

    fn after(&self, at: Cursor) -> Option<Cursor> {
        self.add_work(1);
        let index = at.block.checked_add(1).filter(|index| *index < self.blocks.len())?;
        let block = self.blocks.get(at.block)?;
        Some(Cursor {
            block: index,
            bytes: at.bytes.saturating_add(block.text.len()),
            line_ends: at.line_ends.saturating_add(block.line_ends()),
        })
    }

    fn splice(
        &mut self,
        (mut start, start_offset): (Cursor, usize),
        (mut last, end_offset): (usize, usize),
        inserted: &str,
    ) {
        let text_of = |index: usize| self.blocks.get(index).map(|block| block.text.as_str());
        let mut text = String::new();
        text.push_str(text_of(start.block).and_then(|t| t.get(..start_offset)).unwrap_or_default());
        text.push_str(inserted);
        text.push_str(text_of(last).and_then(|t| t.get(end_offset..)).unwrap_or_default());
        // `\r` and `\n` of two blocks can have become one line end.
        if let Some(next) = text_of(last.saturating_add(1))
            && (text.is_empty() || text.ends_with('\r') && next.starts_with('\n'))
        {
            text.push_str(next);
            last = last.saturating_add(1);
        }
        if let Some(before) = start.block.checked_sub(1).and_then(text_of)
            && before.ends_with('\r')
            && text.starts_with('\n')
        {
            text.insert_str(0, before);
            start = self.before(start);
        }
        self.add_work(text.len());
        let count = self.blocks.len();
        self.blocks.splice(start.block..=last, split(&text));
        if self.blocks.len() != count {
            self.add_work(count.saturating_sub(last));
        }
        if self.blocks.is_empty() {
            self.blocks.push(Block::of(""));
        }
        self.at = if start.block < self.blocks.len() { start } else { self.before(start) };
    }
}

/// Splits a text, but no line end of two bytes.
fn split(text: &str) -> Vec<Block> {
    let (mut blocks, mut rest) = (Vec::new(), text);
    while rest.len() > 2 * BLOCK_BYTES {
        let mut end = rest.floor_char_boundary(BLOCK_BYTES);
        if rest.get(end..).is_some_and(|rest| rest.starts_with('\n')) {
            end = end.saturating_add(1);
        }
        let Some((block, others)) = rest.split_at_checked(end) else { break };
        blocks.push(Block::of(block));
        rest = others;
    }
    if !rest.is_empty() {
        blocks.push(Block::of(rest));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    type Order<'o> = &'o dyn Fn(u32) -> u32;

    /// Changes at arbitrary places of a text with long lines and all line ends are those of the whole text.
    #[test]
    fn changes_in_blocks_are_those_of_the_text() {
        let mut state = 7_u64;
        let mut next = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % below
        };
        let line_ends = ["\n", "\r\n", "\r", "\n\r", ""];
        for round in 0..40 {
            let mut text = String::new();
            for _ in 0..next(12) {
                text.push_str(&["a", "é", "😀"][next(3)].repeat(next(3 * BLOCK_BYTES)));
                text.push_str(line_ends[next(5)]);
            }
            let mut blocks = BlockText::of(&text);
            for step in 0..40 {
                let lines = LineIndex::of(&text);
                let mut position = || {
                    let line = u32::try_from(next(lines.count() + 1)).unwrap();
                    let character = [0, next(5), next(3 * BLOCK_BYTES), 99_999][next(4)];
                    Position { line, character: u32::try_from(character).unwrap() }
                };
                let (start, end) = (position(), position());
                let end = if next(2) == 0 { start } else { end };
                let inserted = match next(3) {
                    0 => "x".repeat(next(2 * BLOCK_BYTES)),
                    1 => "\r\n".repeat(next(1_000)),
                    _ => line_ends[next(5)].to_owned(),
                };
                let from = lines.offset(&text, start);
                let to = lines.offset(&text, end).max(from);
                let edit = blocks.replace(&lsp_types::Range { start, end }, &inserted);
                text.replace_range(from..to, &inserted);
                assert_eq!(edit, AppliedEdit { replaced: from..to, inserted: inserted.len() });
                assert!(blocks.to_text() == text, "{round}.{step}: {start:?} {end:?}");
            }
        }
    }

    /// Not the text for each of them, in any order, also if it is one line.
    #[test]
    fn many_changes_take_the_work_of_their_blocks() {
        const CHANGES: u32 = 2_000;
        let text = "key: value\n".repeat(200_000);
        let line = text.replace('\n', " ");
        let blocks = text.len() / BLOCK_BYTES;
        let changes = usize::try_from(CHANGES).unwrap();
        let middle = |number: u32| if number % 2 == 0 { number } else { CHANGES - number };
        let orders: [(Order<'_>, usize); 3] =
            [(&|number| number, 4), (&|number| CHANGES - number, 4), (&middle, blocks / 8)];
        for (order, visited) in orders {
            let mut changed = BlockText::of(&text);
            for number in 0..CHANGES {
                let start = Position { line: order(number) * 50, character: 3 };
                changed.replace(&lsp_types::Range { start, end: start }, "s");
            }
            let work = changed.work.get() - text.len();
            assert!(work < changes * (3 * BLOCK_BYTES + visited + 100), "{work}");
        }
        let mut changed = BlockText::of(&line);
        for number in 0..CHANGES {
            let start = Position { line: 0, character: number * 500 };
            changed.replace(&lsp_types::Range { start, end: start }, "s");
        }
        let work = changed.work.get() - text.len();
        assert!(work < changes * (7 * BLOCK_BYTES + 2 * blocks), "{work}");
        assert!(changed.blocks.iter().all(|block| block.text.len() <= 2 * BLOCK_BYTES));
    }
}
