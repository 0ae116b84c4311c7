//! Edits that turn a text into another one, line by line.

use lsp_types::TextEdit;

use crate::lines::LineIndex;
use crate::text_document::changed_part;

/// Maximum number of lines between two changes that become one edit.
const MAX_LINES: usize = 20_000;

/// Returns the edits from a text to another one. Lines that are equal in both stay as they are.
#[must_use]
pub fn edits(text: &str, lines: &LineIndex, new: &str) -> Vec<TextEdit> {
    let mut edits = Vec::new();
    for (range, inserted) in hunks(text, new) {
        let old = text.get(range.clone()).unwrap_or_default();
        let (inner, inserted) = changed_part(old, inserted);
        let bytes = range.start + inner.start..range.start + inner.end;
        edits.push(TextEdit { range: lines.range(text, &bytes), new_text: inserted.to_owned() });
    }
    edits
}

/// Returns the replaced bytes and their replacements. Runs of equal lines are searched from the first difference.
fn hunks<'n>(old: &str, new: &'n str) -> Vec<(std::ops::Range<usize>, &'n str)> {
    let old_lines: Vec<&str> = old.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
    let (mut hunks, mut at, mut new_at) = (Vec::new(), 0, 0);
    let (mut i, mut j) = (0, 0);
    loop {
        while let (Some(a), Some(b)) = (old_lines.get(i), new_lines.get(j))
            && a == b
        {
            (at, new_at) = (at + a.len(), new_at + b.len());
            (i, j) = (i + 1, j + 1);
        }
        if i >= old_lines.len() && j >= new_lines.len() {
            return hunks;
        }
        let (skip, insert) = next_match(old_lines.get(i..), new_lines.get(j..));
        let bytes = |lines: Option<&[&str]>| {
            lines.unwrap_or_default().iter().map(|l| l.len()).sum::<usize>()
        };
        let (end, new_end): (usize, usize) =
            (at + bytes(old_lines.get(i..i + skip)), new_at + bytes(new_lines.get(j..j + insert)));
        hunks.push((at..end, new.get(new_at..new_end).unwrap_or_default()));
        (i, j, at, new_at) = (i + skip, j + insert, end, new_end);
    }
}

/// Returns the numbers of lines before the nearest line that both have and that is not trivial.
fn next_match(old: Option<&[&str]>, new: Option<&[&str]>) -> (usize, usize) {
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    // Two equal lines in a row, or the last line.
    let is_match =
        |i: usize, j: usize| old.get(i) == new.get(j) && old.get(i + 1) == new.get(j + 1);
    let longest = (old.len() + new.len()).min(MAX_LINES);
    let window = 64;
    for distance in 1..=longest.min(2 * window) {
        for i in 0..=distance.min(old.len()) {
            let j = distance - i;
            if j <= new.len() && i < old.len() && j < new.len() && is_match(i, j) {
                return (i, j);
            }
        }
    }
    (old.len(), new.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn apply(text: &str, edits: &[TextEdit]) -> String {
        let lines = LineIndex::of(text);
        let mut made = text.to_owned();
        for edit in edits.iter().rev() {
            let start = lines.offset(text, edit.range.start);
            made.replace_range(start..lines.offset(text, edit.range.end), &edit.new_text);
        }
        made
    }

    #[test]
    fn edits_leave_equal_lines() {
        let old = "a: 1\nb: 2\nc: 3\nd: 4\ne: 5\n";
        let new = "a: 1\nb: two\nc: 3\nd: 4\nx: 0\ne: 5\n";
        let edits = edits(old, &LineIndex::of(old), new);
        let texts: Vec<_> = edits.iter().map(|edit| edit.new_text.as_str()).collect();
        assert_eq!(texts, ["two", "x: 0\n"]);
        assert_eq!(apply(old, &edits), new);
    }

    proptest! {
        #[test]
        fn edits_make_the_new_text(old in "([abc]\\n){0,12}[ab]?", new in "([abc]\\n){0,12}[ab]?") {
            let edits = edits(&old, &LineIndex::of(&old), &new);
            prop_assert_eq!(apply(&old, &edits), new);
        }
    }
}
