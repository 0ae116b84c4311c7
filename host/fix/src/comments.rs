//! Comments that an edit would delete.

use std::ops::Range;

use opgate_yaml::tree::{Node, NodeKind, ScalarStyle};

use crate::layout::{Layout, Splice};
use crate::path::Place;

/// Returns the text of a member or element with the rest of its last line: a comment there is removed with it.
pub(crate) fn own_lines(layout: &Layout<'_>, place: &Place<'_>) -> Option<Range<usize>> {
    let (start, value) = match &place.around()?.node().kind {
        NodeKind::Map(_, members) => {
            let member = members.get(place.index()?)?;
            (member.key.start, &member.value)
        }
        NodeKind::List(_, elements) => {
            let element = elements.get(place.index()?)?;
            (element.dash, &element.value)
        }
        _ => return None,
    };
    let key_end = place.member().map_or(start, |member| member.key.end);
    // A node that is not written can be behind comments.
    let end = if value.end > value.start { value.end } else { key_end };
    Some(start..layout.line_end_at(end))
}

/// Reports whether splices of YAML delete a comment outside of the removed lines.
pub(crate) fn are_lost(
    layout: &Layout<'_>,
    root: &Node,
    splices: &[Splice],
    removed: Option<&Range<usize>>,
) -> bool {
    let deleted = |splice: &Splice| layout.slice(splice.start, splice.end).contains('#');
    if layout.is_json || !splices.iter().any(deleted) {
        return false;
    }
    let mut texts = Vec::new();
    add_texts(layout, root, &mut texts);
    splices.iter().any(|splice| {
        let text = layout.slice(splice.start, splice.end);
        let marks = text.match_indices('#').map(|(at, _)| splice.start.saturating_add(at));
        let mut marks = marks.filter(|at| !removed.is_some_and(|removed| removed.contains(at)));
        marks.any(|at| begins_comment(layout, at) && !is_inside(&texts, at))
    })
}

/// Reports whether `#` can begin a comment: it follows white space or a mark of YAML.
fn begins_comment(layout: &Layout<'_>, at: usize) -> bool {
    let before = layout.slice(0, at);
    before.is_empty()
        || before.ends_with(|c: char| {
            c.is_whitespace() || matches!(c, ',' | '[' | ']' | '{' | '}' | ':' | '"' | '\'')
        })
}

/// Reports whether an offset is in one of the ranges, which are in order.
fn is_inside(texts: &[Range<usize>], at: usize) -> bool {
    let next = texts.partition_point(|text| text.start <= at);
    let before = next.checked_sub(1).and_then(|index| texts.get(index));
    before.is_some_and(|text| text.contains(&at))
}

/// Adds the ranges of all scalars, in order. The limit of nesting limits the recursion.
fn add_texts(layout: &Layout<'_>, node: &Node, texts: &mut Vec<Range<usize>>) {
    match &node.kind {
        // A comment can be behind the mark of a block.
        NodeKind::Scalar(ScalarStyle::Literal | ScalarStyle::Folded) => {
            texts.push(layout.line_end_at(node.start).min(node.end)..node.end);
        }
        NodeKind::Scalar(_) if node.end > node.start => texts.push(node.start..node.end),
        NodeKind::Scalar(_) | NodeKind::Alias => {}
        NodeKind::List(_, elements) => {
            for element in elements {
                add_texts(layout, &element.value, texts);
            }
        }
        NodeKind::Map(_, members) => {
            for member in members {
                add_texts(layout, &member.key, texts);
                add_texts(layout, &member.value, texts);
            }
        }
    }
}
