//! Edits that turn a text into another one, line by line.

use lsp_types::TextEdit;
use similar::{Algorithm, DiffTag, capture_diff_slices};

use crate::lines::LineIndex;
use crate::text_document::changed_part;

/// Returns the edits from a text to another one. Lines that are equal in both stay as they are.
#[must_use]
pub fn edits(text: &str, lines: &LineIndex, new: &str) -> Vec<TextEdit> {
    let old_lines: Vec<&str> = text.split_inclusive('\n').collect();
    let new_lines: Vec<&str> = new.split_inclusive('\n').collect();
    let (mut edits, mut at) = (Vec::new(), 0_usize);
    for change in capture_diff_slices(Algorithm::Myers, &old_lines, &new_lines) {
        let old = old_lines.get(change.old_range()).unwrap_or_default().concat();
        if change.tag() != DiffTag::Equal {
            let inserted = new_lines.get(change.new_range()).unwrap_or_default().concat();
            let (inner, inserted) = changed_part(&old, &inserted);
            let range = lines.range(text, &(at + inner.start..at + inner.end));
            edits.push(TextEdit { range, new_text: inserted.to_owned() });
        }
        at += old.len();
    }
    edits
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
