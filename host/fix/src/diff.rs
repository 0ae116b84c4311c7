//! Differences of two texts, in the format of `diff -u`.

use std::fmt::Write as _;

/// Lines around a change.
const CONTEXT: usize = 3;

/// Maximum number of changed lines for which the shortest difference is searched for. A fix changes few.
const MAX_CHANGES: usize = 2_000;

/// A line of the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line<'t> {
    Same(&'t str),
    Removed(&'t str),
    Added(&'t str),
}

/// Returns the difference of two texts, with their names; empty if there is none.
#[must_use]
pub fn unified_diff(old_name: &str, new_name: &str, old: &str, new: &str) -> String {
    if old == new && old_name == new_name {
        return String::new();
    }
    let mut diff = format!("--- {old_name}\n+++ {new_name}\n");
    let (old, new): (Vec<_>, Vec<_>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let lines = compare(&old, &new);
    for (start, end) in hunks(&lines) {
        write_hunk(&lines, start, end, &mut diff);
    }
    diff
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
    let (old, new): (Vec<_>, Vec<_>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let mut changes: Vec<LineChange> = Vec::new();
    let (mut line, mut is_open) = (1_usize, false);
    for part in compare(&old, &new) {
        if let Line::Same(_) = part {
            line = line.saturating_add(1);
            is_open = false;
            continue;
        }
        if !is_open {
            changes.push(LineChange { line, removed: 0, inserted: String::new() });
            is_open = true;
        }
        let Some(change) = changes.last_mut() else { continue };
        if let Line::Added(text) = part {
            change.inserted.push_str(text);
        } else {
            change.removed = change.removed.saturating_add(1);
            line = line.saturating_add(1);
        }
    }
    changes
}

/// Returns the ranges of lines that are shown.
fn hunks(lines: &[Line<'_>]) -> Vec<(usize, usize)> {
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        if matches!(line, Line::Same(_)) {
            continue;
        }
        let start = number.saturating_sub(CONTEXT);
        let end = number.saturating_add(CONTEXT).saturating_add(1).min(lines.len());
        match hunks.last_mut() {
            Some((_, last)) if start <= *last => *last = end,
            _ => hunks.push((start, end)),
        }
    }
    hunks
}

fn write_hunk(lines: &[Line<'_>], start: usize, end: usize, diff: &mut String) {
    let before = lines.get(..start).unwrap_or_default();
    let inside = lines.get(start..end).unwrap_or_default();
    let count = |lines: &[Line<'_>], without: fn(&Line<'_>) -> bool| {
        lines.iter().filter(|line| !without(line)).count()
    };
    let is_added = |line: &Line<'_>| matches!(line, Line::Added(_));
    let is_removed = |line: &Line<'_>| matches!(line, Line::Removed(_));
    let range = |without: fn(&Line<'_>) -> bool| {
        let (first, length) = (count(before, without), count(inside, without));
        // An empty range names the line before it.
        let first = if length == 0 { first } else { first.saturating_add(1) };
        if length == 1 { first.to_string() } else { format!("{first},{length}") }
    };
    // Writing to a text does not fail.
    let _ = writeln!(diff, "@@ -{} +{} @@", range(is_added), range(is_removed));
    for line in inside {
        let (mark, text) = match line {
            Line::Same(text) => (' ', text),
            Line::Removed(text) => ('-', text),
            Line::Added(text) => ('+', text),
        };
        diff.push(mark);
        diff.push_str(text);
        if !text.ends_with('\n') {
            diff.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Compares lines: those that both texts start and end with are the same, and of the others the longest common
/// sequence.
fn compare<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<Line<'t>> {
    let start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) =
        (old.get(start..).unwrap_or_default(), new.get(start..).unwrap_or_default());
    let end = old_rest.iter().rev().zip(new_rest.iter().rev());
    let end = end.take_while(|(old, new)| old == new).count();
    let old_middle = old_rest.get(..old_rest.len().saturating_sub(end)).unwrap_or_default();
    let new_middle = new_rest.get(..new_rest.len().saturating_sub(end)).unwrap_or_default();
    let head = old.iter().take(start).map(|line| Line::Same(line));
    let tail = old_rest.iter().skip(old_middle.len()).map(|line| Line::Same(line));
    head.chain(compare_middle(old_middle, new_middle)).chain(tail).collect()
}

/// Returns the shortest difference, or all lines if there are many.
fn compare_middle<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<Line<'t>> {
    let replaced = || {
        let removed = old.iter().map(|line| Line::Removed(line));
        removed.chain(new.iter().map(|line| Line::Added(line))).collect()
    };
    if old.is_empty() || new.is_empty() || old.len().saturating_add(new.len()) > MAX_CHANGES {
        return replaced();
    }
    // Lengths of the longest common sequences of the rests.
    let width = new.len().saturating_add(1);
    let mut lengths = vec![0_u32; width.saturating_mul(old.len().saturating_add(1))];
    let at = |i: usize, j: usize| i.saturating_mul(width).saturating_add(j);
    let get = |lengths: &[u32], i: usize, j: usize| lengths.get(at(i, j)).copied().unwrap_or(0);
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            let length = if old.get(i) == new.get(j) {
                get(&lengths, i.saturating_add(1), j.saturating_add(1)).saturating_add(1)
            } else {
                get(&lengths, i.saturating_add(1), j).max(get(&lengths, i, j.saturating_add(1)))
            };
            if let Some(place) = lengths.get_mut(at(i, j)) {
                *place = length;
            }
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while let (Some(left), Some(right)) = (old.get(i), new.get(j)) {
        if left == right {
            lines.push(Line::Same(left));
            (i, j) = (i.saturating_add(1), j.saturating_add(1));
        } else if get(&lengths, i.saturating_add(1), j) >= get(&lengths, i, j.saturating_add(1)) {
            lines.push(Line::Removed(left));
            i = i.saturating_add(1);
        } else {
            lines.push(Line::Added(right));
            j = j.saturating_add(1);
        }
    }
    lines.extend(old.iter().skip(i).map(|line| Line::Removed(line)));
    lines.extend(new.iter().skip(j).map(|line| Line::Added(line)));
    lines
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
