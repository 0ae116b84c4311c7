//! An open text, kept up to date by incremental changes.

use std::ops::Range;
use std::sync::Arc;

use lsp_types::TextDocumentContentChangeEvent;

use crate::lines::LineIndex;
pub use crate::text_changes::AppliedEdit;
use crate::text_changes::TextChanges;

/// A text that an editor has open.
#[derive(Debug, Clone)]
pub struct TextDocument {
    version: i32,
    text: Arc<str>,
    lines: LineIndex,
}

impl TextDocument {
    /// Opens a text.
    #[must_use]
    pub fn new(version: i32, text: &str) -> Self {
        Self { version, text: text.into(), lines: LineIndex::of(text) }
    }

    /// Creates it from changes of a text that is not known; none if no change is the whole text.
    #[must_use]
    pub fn of_changes(version: i32, changes: &[TextDocumentContentChangeEvent]) -> Option<Self> {
        let whole = |(index, change): (usize, &TextDocumentContentChangeEvent)| match change {
            TextDocumentContentChangeEvent::TextDocumentContentChangeWholeDocument(change) => {
                Some((index, Self::new(version, &change.text)))
            }
            TextDocumentContentChangeEvent::TextDocumentContentChangePartial(_) => None,
        };
        let (index, mut document) = changes.iter().enumerate().rev().find_map(whole)?;
        document.apply(version, changes.get(index.saturating_add(1)..)?);
        Some(document)
    }

    /// Applies changes in their order. Each position is one of the text after the changes before it.
    pub fn apply(
        &mut self,
        version: i32,
        changes: &[TextDocumentContentChangeEvent],
    ) -> Vec<AppliedEdit> {
        self.version = version;
        // A key stroke: a rope of the whole text would cost more than the change.
        if let [change] = changes {
            return vec![self.apply_one(change)];
        }
        let mut text = TextChanges::of(&self.text);
        let mut apply = |change: &TextDocumentContentChangeEvent| match change {
            TextDocumentContentChangeEvent::TextDocumentContentChangePartial(change) => {
                text.replace(&change.range, &change.text)
            }
            TextDocumentContentChangeEvent::TextDocumentContentChangeWholeDocument(change) => {
                let (replaced, inserted) = changed_part(&text.to_text(), &change.text);
                text = TextChanges::of(&change.text);
                AppliedEdit { replaced, inserted: inserted.len() }
            }
        };
        let edits = changes.iter().map(&mut apply).collect();
        let text = text.to_text();
        self.lines = LineIndex::of(&text);
        self.text = text.into();
        edits
    }

    fn apply_one(&mut self, change: &TextDocumentContentChangeEvent) -> AppliedEdit {
        let (replaced, inserted) = match change {
            TextDocumentContentChangeEvent::TextDocumentContentChangePartial(change) => {
                let start = self.lines.offset(&self.text, change.range.start);
                let end = self.lines.offset(&self.text, change.range.end).max(start);
                (start..end, change.text.as_str())
            }
            TextDocumentContentChangeEvent::TextDocumentContentChangeWholeDocument(change) => {
                changed_part(&self.text, &change.text)
            }
        };
        let mut text = String::with_capacity(self.text.len() + inserted.len());
        text.push_str(self.text.get(..replaced.start).unwrap_or_default());
        text.push_str(inserted);
        text.push_str(self.text.get(replaced.end..).unwrap_or_default());
        self.lines = LineIndex::of(&text);
        self.text = text.into();
        AppliedEdit { replaced, inserted: inserted.len() }
    }

    /// Returns the version that the editor gave it.
    #[must_use]
    pub fn version(&self) -> i32 {
        self.version
    }

    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Returns the lines of the text.
    #[must_use]
    pub fn lines(&self) -> &LineIndex {
        &self.lines
    }
}

/// Returns the part of a text that differs from a new one, and its replacement.
#[must_use]
pub fn changed_part<'n>(old: &str, new: &'n str) -> (Range<usize>, &'n str) {
    let same = |(a, b): &(u8, u8)| a == b;
    let mut start = old.bytes().zip(new.bytes()).take_while(same).count();
    while !(old.is_char_boundary(start) && new.is_char_boundary(start)) {
        start -= 1;
    }
    let rest = old.len().min(new.len()) - start;
    let mut end = old.bytes().rev().zip(new.bytes().rev()).take(rest).take_while(same).count();
    while !(old.is_char_boundary(old.len() - end) && new.is_char_boundary(new.len() - end)) {
        end -= 1;
    }
    (start..old.len() - end, new.get(start..new.len() - end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use lsp_types::{
        Position, Range, TextDocumentContentChangePartial, TextDocumentContentChangeWholeDocument,
    };
    use proptest::prelude::*;

    use super::*;

    fn partial(from: (u32, u32), to: (u32, u32), text: &str) -> TextDocumentContentChangeEvent {
        let position = |(line, character)| Position { line, character };
        TextDocumentContentChangePartial {
            range: Range { start: position(from), end: position(to) },
            text: text.to_owned(),
            ..TextDocumentContentChangePartial::default()
        }
        .into()
    }

    fn whole(text: &str) -> TextDocumentContentChangeEvent {
        TextDocumentContentChangeWholeDocument { text: text.to_owned() }.into()
    }

    #[test]
    fn changes_at_once_are_those_one_by_one() {
        let text = "ab\r\ncd\nef";
        for changes in [
            vec![
                partial((2, 0), (2, 1), "x\n"),
                partial((1, 0), (1, 2), ""),
                partial((0, 1), (0, 9), "y"),
            ],
            vec![partial((1, 1), (1, 1), "1"), partial((1, 1), (1, 1), "2")],
            vec![partial((0, 0), (0, 1), "\n"), partial((0, 0), (0, 0), "z")],
            vec![partial((0, 0), (0, 1), "\n"), partial((1, 0), (1, 1), "z")],
            vec![partial((0, 0), (0, 0), "z"), partial((2, 0), (2, 1), "y")],
            vec![whole("ab\ncd"), partial((1, 0), (1, 1), "x"), whole("ab\nxx")],
            vec![],
        ] {
            let (mut document, mut single) =
                (TextDocument::new(1, text), TextDocument::new(1, text));
            let edits = document.apply(2, &changes);
            let expected: Vec<_> = changes.iter().map(|change| single.apply_one(change)).collect();
            assert_eq!((document.text(), edits), (single.text(), expected), "{changes:?}");
            assert_eq!(
                document.lines().offset(document.text(), Position { line: 1, character: 0 }),
                single.lines().offset(single.text(), Position { line: 1, character: 0 })
            );
        }
    }

    /// The text is not copied for each of them: that would be 40 GB.
    #[test]
    fn thousands_of_changes_in_any_order_are_applied_at_once() {
        const LINES: u32 = 20_000;
        let text = "key: a long value of more than one hundred bytes ".repeat(2) + "\n";
        let text = text.repeat(usize::try_from(LINES).unwrap());
        let changes: Vec<_> = (0..LINES)
            .map(|number| if number % 2 == 0 { number } else { LINES - number })
            .map(|line| partial((line, 0), (line, 3), "name"))
            .collect();
        let mut document = TextDocument::new(1, &text);
        let edits = document.apply(2, &changes);
        assert_eq!(edits.len(), changes.len());
        assert!(document.text().lines().all(|line| line.starts_with("name: a long")));
    }

    #[test]
    fn changes_apply_in_order_with_positions_of_utf16() {
        let mut document = TextDocument::new(1, "a😀b\nc\n");
        let changes = [
            partial((0, 3), (0, 4), "x"),
            partial((1, 0), (1, 1), "d\ne"),
            partial((2, 1), (2, 1), "!"),
        ];
        let edits = document.apply(2, &changes);
        assert_eq!((&**document.text(), document.version()), ("a😀x\nd\ne!\n", 2));
        assert_eq!(edits.first(), Some(&AppliedEdit { replaced: 5..6, inserted: 1 }));
        // Positions behind the text, and a range that ends before it starts.
        document.apply(3, &[partial((9, 9), (0, 0), "z")]);
        assert_eq!(&**document.text(), "a😀x\nd\ne!\nz");
        let edits = document.apply(4, &[whole("a😀y\nd\ne!\nz")]);
        assert_eq!(edits, [AppliedEdit { replaced: 5..6, inserted: 1 }]);
    }

    proptest! {
        #[test]
        fn changed_part_makes_the_new_text(old in "[aé😀\\n]{0,12}", new in "[aé😀\\n]{0,12}") {
            let (range, inserted) = changed_part(&old, &new);
            let mut made = old.clone();
            made.replace_range(range, inserted);
            prop_assert_eq!(made, new);
        }
    }
}
