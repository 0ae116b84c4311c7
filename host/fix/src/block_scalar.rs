//! New texts in the place of a block scalar, `|` or `>`. Its style and the comment behind its mark stay.

use std::collections::HashMap;

use opgate_yaml::tree::{Node, ScalarStyle};

use crate::layout::{Layout, Splice};
use crate::render::indented;

/// Maximum indentation that the mark of a block scalar can state.
const MAX_STATED_INDENT: usize = 9;

/// The mark of a block scalar, and the lines below it.
pub(crate) struct BlockScalar<'t> {
    start: usize,
    /// The end of the mark, such as `|2-`.
    mark_end: usize,
    /// The end of the first line, behind a comment.
    line_end: usize,
    end: usize,
    is_folded: bool,
    /// Whether the mark states the indentation.
    states_indent: bool,
    /// Whether it keeps the line breaks behind the text.
    keeps_breaks: bool,
    indent: usize,
    /// The column of the collection around it.
    column: usize,
    lines: Vec<&'t str>,
}

impl<'t> BlockScalar<'t> {
    /// Reads a block scalar, whose end is given. `column` is that of its name, or of the dash before it.
    pub(crate) fn of(
        layout: &Layout<'t>,
        node: &Node,
        end: usize,
        style: ScalarStyle,
        column: usize,
    ) -> Self {
        let line_end = layout.line_end_at(node.start).min(end);
        let first = layout.slice(node.start, line_end);
        let mark = first.find([' ', '\t']).map_or(first, |at| first.get(..at).unwrap_or(first));
        let stated = mark.chars().find(char::is_ascii_digit).and_then(|digit| digit.to_digit(10));
        let stated = stated.and_then(|digit| usize::try_from(digit).ok());
        let below: Vec<_> = layout.slice(line_end, end).lines().skip(1).collect();
        let first_line = below.iter().find(|line| !line.trim().is_empty());
        let found = first_line.map(|line| line.len() - line.trim_start_matches(' ').len());
        let indent = stated
            .map(|stated| column.saturating_add(stated))
            .or(found)
            .unwrap_or_else(|| column.saturating_add(layout.indent.len()));
        let lines = below.into_iter().map(|line| line.get(indent..).unwrap_or_default()).collect();
        Self {
            start: node.start,
            mark_end: node.start.saturating_add(mark.len()),
            line_end,
            end,
            is_folded: style == ScalarStyle::Folded,
            states_indent: stated.is_some(),
            keeps_breaks: mark.contains('+'),
            indent,
            column,
            lines,
        }
    }

    /// Replaces it by what is written on one line.
    pub(crate) fn replace_inline(&self, text: &str) -> Vec<Splice> {
        let lines = Splice::new(self.line_end, self.end, "");
        vec![Splice::new(self.start, self.mark_end, text), lines]
    }

    /// Replaces its text; none if the style cannot express the new one.
    pub(crate) fn replace_text(&self, layout: &Layout<'_>, text: &str) -> Option<Vec<Splice>> {
        let is_odd = |c: char| {
            c.is_control() && c != '\n' && c != '\t'
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
        };
        let content = text.trim_end_matches('\n');
        let breaks = text.len().saturating_sub(content.len());
        if text.contains(is_odd) {
            return None;
        }
        let mut lines = if self.is_folded {
            self.folded(content)
        } else {
            content.split('\n').map(str::to_owned).collect()
        };
        let keeps = breaks > 1 || breaks == 1 && self.keeps_breaks;
        let begins_with_space = lines
            .iter()
            .find(|line| !line.is_empty())
            .is_some_and(|line| line.starts_with([' ', '\t']));
        let stated = self.indent.saturating_sub(self.column);
        let states_indent = self.states_indent || begins_with_space;
        if states_indent && !(1..=MAX_STATED_INDENT).contains(&stated) {
            return None;
        }
        let mut mark = if self.is_folded { ">" } else { "|" }.to_owned();
        if states_indent {
            mark.push_str(&stated.to_string());
        }
        mark.push_str(match breaks {
            0 => "-",
            _ if keeps => "+",
            _ => "",
        });
        lines.extend(std::iter::repeat_n(String::new(), breaks.saturating_sub(1)));
        let indent = " ".repeat(self.indent);
        let lines: Vec<_> = lines.iter().map(|line| indented(&indent, line)).collect();
        let below = format!("{0}{1}", layout.line_end, lines.join(layout.line_end));
        let old_mark = layout.slice(self.start, self.mark_end);
        // `|-2` is `|2-`.
        let is_same = old_mark.len() == mark.len() && mark.chars().all(|c| old_mark.contains(c));
        let mark = (!is_same).then(|| Splice::new(self.start, self.mark_end, mark));
        Some(mark.into_iter().chain([Splice::new(self.line_end, self.end, below)]).collect())
    }

    /// Returns the lines of a folded text: its paragraphs keep the line breaks of the old ones.
    fn folded(&self, content: &str) -> Vec<String> {
        let old: Vec<_> = self.lines.split(|line| line.is_empty()).collect();
        let old: Vec<_> = old.into_iter().filter(|lines| !lines.is_empty()).collect();
        // By their texts, of which the first one counts.
        let by_text: HashMap<_, _> =
            old.iter().rev().map(|lines| (lines.join(" "), lines)).collect();
        let mut lines: Vec<String> = Vec::new();
        let (mut paragraphs, mut breaks, mut is_deeper) = (0_usize, 0_usize, false);
        for line in content.split('\n') {
            if line.is_empty() {
                breaks = breaks.saturating_add(1);
                continue;
            }
            let was_deeper = std::mem::replace(&mut is_deeper, line.starts_with([' ', '\t']));
            // One line break between two paragraphs is an empty line. Lines that are deeper are not folded.
            if paragraphs > 0 && (is_deeper || was_deeper) {
                breaks = breaks.saturating_sub(1);
            }
            lines.extend(std::iter::repeat_n(String::new(), breaks));
            breaks = 1;
            if is_deeper {
                lines.push(line.to_owned());
            } else {
                let same = by_text.get(line).copied();
                let near = same.or_else(|| old.get(paragraphs)).copied().unwrap_or_default();
                lines.extend(folded_like(line, near));
            }
            paragraphs = paragraphs.saturating_add(1);
        }
        lines
    }
}

/// Divides a text where an old text of the same start and end was divided.
fn folded_like(text: &str, old: &[&str]) -> Vec<String> {
    let (mut head, mut tail, mut rest) = (Vec::new(), Vec::new(), text);
    for line in old {
        let next = rest.strip_prefix(line).and_then(|rest| rest.strip_prefix(' '));
        let Some(next) = next.filter(|next| !next.starts_with([' ', '\t'])) else { break };
        head.push((*line).to_owned());
        rest = next;
    }
    for line in old.iter().rev() {
        let next = rest.strip_suffix(line).and_then(|rest| rest.strip_suffix(' '));
        let Some(next) = next.filter(|next| !next.is_empty() && !next.ends_with([' ', '\t']))
        else {
            break;
        };
        tail.push((*line).to_owned());
        rest = next;
    }
    head.push(rest.to_owned());
    head.extend(tail.into_iter().rev());
    head
}
