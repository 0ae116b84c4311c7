//! Differences of two texts, in the format of `diff -u`.

use similar::{Algorithm, DiffTag, TextDiff, capture_diff_slices};

/// Lines around a change.
const CONTEXT: usize = 3;

/// Bounded like that of Git: for texts with little in common, the difference is not the shortest one.
const ALGORITHM: Algorithm = Algorithm::Myers;

/// Returns the difference of two texts, with their names; empty if there is none.
#[must_use]
pub fn unified_diff(old_name: &str, new_name: &str, old: &str, new: &str) -> String {
    if old == new && old_name == new_name {
        return String::new();
    }
    let (old, new) = (lines(old), lines(new));
    let diff =
        TextDiff::configure().algorithm(ALGORITHM).newline_terminated(true).diff_slices(&old, &new);
    let hunks = diff.unified_diff().context_radius(CONTEXT).to_string();
    format!("--- {old_name}\n+++ {new_name}\n{hunks}")
}

/// Lines of a text that are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineChange {
    /// The first replaced line, from 1, or the line before which lines are inserted.
    pub line: usize,
    /// The number of replaced lines.
    pub removed: usize,
    /// The new lines, with their ends.
    pub inserted: String,
}

/// Returns the changes from one text to another, by lines.
#[must_use]
pub fn changed_lines(old: &str, new: &str) -> Vec<LineChange> {
    let (old, new) = (lines(old), lines(new));
    let changes = capture_diff_slices(ALGORITHM, &old, &new).into_iter();
    let changes =
        changes.filter(|change| change.tag() != DiffTag::Equal).map(|change| LineChange {
            line: change.old_range().start.saturating_add(1),
            removed: change.old_range().len(),
            inserted: new.get(change.new_range()).unwrap_or_default().concat(),
        });
    changes.collect()
}

/// Splits a text after each `\n`.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_shown_with_context() {
        let numbers: Vec<_> = (1..=20).map(|number: u32| number.to_string()).collect();
        let old = numbers.join("\n") + "\n";
        let new = old.replace("5\n6\n", "5\nx\n6\n").replace("\n18\n", "\n");
        let expected = "--- a\n+++ b\n@@ -3,6 +3,7 @@\n 3\n 4\n 5\n+x\n 6\n 7\n 8\n@@ -15,6 +16,5 @@\n 15\n 16\n 17\n-18\n 19\n 20\n";
        assert_eq!(unified_diff("a", "b", &old, &new), expected);
        assert_eq!(unified_diff("a", "a", &old, &old), "");
    }

    #[test]
    fn changes_far_apart_are_hunks_of_their_own() {
        let old: String = (1..=30_000).map(|number: u32| number.to_string() + "\n").collect();
        let new = old.replacen("\n5\n", "\nx\n", 1).replacen("\n29500\n", "\n", 1);
        let diff = unified_diff("a", "a", &old, &new);
        let changed: Vec<_> = diff.lines().skip(2).filter(|line| !line.starts_with(' ')).collect();
        let expected = ["@@ -2,7 +2,7 @@", "-5", "+x", "@@ -29497,7 +29497,6 @@", "-29500"];
        assert_eq!(changed, expected);
    }

    /// Few different lines in another order are a bad case of a search for the shortest difference: its time grows with the
    /// square of 200,000.
    #[test]
    fn texts_with_little_in_common_are_compared() {
        let text = |step: u32| -> String {
            (0..200_000_u32)
                .map(|number| (number.wrapping_mul(step) % 7).to_string() + "\n")
                .collect()
        };
        let (old, new) = (text(3), text(5));
        let (old_lines, mut at, mut changed) = (lines(&old), 0, String::new());
        for LineChange { line, removed, inserted } in changed_lines(&old, &new) {
            changed.push_str(&old_lines[at..line - 1].concat());
            changed.push_str(&inserted);
            at = line - 1 + removed;
        }
        changed.push_str(&old_lines[at..].concat());
        assert!(changed == new);
    }

    #[test]
    fn changes_are_counted_in_lines() {
        let change = |line, removed, inserted: &str| LineChange {
            line,
            removed,
            inserted: inserted.to_owned(),
        };
        for (old, new, expected) in [
            ("a\nb\nc\n", "a\nx\ny\nc\n", vec![change(2, 1, "x\ny\n")]),
            ("a\nb\n", "a\nb\nc\n", vec![change(3, 0, "c\n")]),
            ("a\nb\nc\n", "b\nc\nd\n", vec![change(1, 1, ""), change(4, 0, "d\n")]),
            ("a\n", "a\n", vec![]),
        ] {
            assert_eq!(changed_lines(old, new), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn missing_line_break_at_the_end_is_shown() {
        let expected = "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n\\ No newline at end of file\n";
        assert_eq!(unified_diff("a", "a", "x\n", "y"), expected);
        assert_eq!(
            unified_diff("/dev/null", "a", "", "y\n"),
            "--- /dev/null\n+++ a\n@@ -0,0 +1 @@\n+y\n"
        );
    }
}
