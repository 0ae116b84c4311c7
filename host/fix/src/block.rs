//! Edits of collections on lines, by indentation.

use opgate_yaml::tree::{Node, NodeKind, ScalarStyle};

use crate::layout::{Layout, Splice};
use crate::path::Place;
use crate::render::{NewValue, Rendered, Shape, element_lines, indented, member_lines};

/// Adds a member behind the last one of a map.
pub(crate) fn add_member(
    layout: &Layout<'_>,
    map: &Node,
    name: &str,
    json: &str,
) -> Option<Vec<Splice>> {
    let NodeKind::Map(_, members) = &map.kind else { return None };
    let last = members.last()?;
    let column = layout.column(members.first()?.key.start);
    let lines = member_lines(name, NewValue::of(json)?.on_lines(layout, None), layout);
    let end = content_end(&last.value).max(last.key.end);
    Some(vec![lines_behind(layout, end, column, &lines)])
}

/// Inserts an element in a list.
pub(crate) fn insert_element(
    layout: &Layout<'_>,
    list: &Node,
    index: usize,
    json: &str,
) -> Option<Vec<Splice>> {
    let NodeKind::List(_, elements) = &list.kind else { return None };
    let first = elements.first()?;
    let column = layout.column(first.dash);
    let lines = element_lines(NewValue::of(json)?.on_lines(layout, None));
    if index == 0 {
        let mut text = joined(layout, column, &lines);
        text.push_str(layout.line_end);
        text.push_str(&" ".repeat(column));
        return Some(vec![Splice::new(first.dash, first.dash, text.trim_start_matches(' '))]);
    }
    let before = elements.get(index.checked_sub(1)?)?;
    let end = content_end(&before.value).max(before.dash.saturating_add(1));
    Some(vec![lines_behind(layout, end, column, &lines)])
}

/// Removes a member or an element. The collection keeps at least one.
pub(crate) fn remove(layout: &Layout<'_>, around: &Node, index: usize) -> Option<Vec<Splice>> {
    let bounds = |index: usize| match &around.kind {
        NodeKind::Map(_, members) => {
            let member = members.get(index)?;
            Some((member.key.start, content_end(&member.value).max(member.key.end)))
        }
        NodeKind::List(_, elements) => {
            let element = elements.get(index)?;
            Some((element.dash, content_end(&element.value).max(element.dash.saturating_add(1))))
        }
        _ => None,
    };
    let (start, end) = bounds(index)?;
    if !layout.begins_line(start) {
        // Behind the dash of an element: the next member takes its place.
        let (next, _) = bounds(index.checked_add(1)?)?;
        return layout.begins_line(next).then(|| vec![Splice::new(start, next, "")]);
    }
    let (start, next) = (layout.line_start(start), layout.next_line(end));
    if next == layout.text.len() && !layout.text.ends_with('\n') {
        // The text keeps its end without a line break.
        let before = layout.slice(0, start).trim_end_matches('\n').trim_end_matches('\r').len();
        return Some(vec![Splice::new(before, next, "")]);
    }
    Some(vec![Splice::new(start, next, "")])
}

/// Replaces the value at a place on lines.
pub(crate) fn replace(layout: &Layout<'_>, place: &Place<'_>, json: &str) -> Option<Vec<Splice>> {
    let node = place.node();
    let style = match node.kind {
        NodeKind::Scalar(style) if node.end > node.start => Some(style),
        _ => None,
    };
    let new = NewValue::of(json)?.on_lines(layout, style);
    let Some(member) = place.member() else {
        return Some(replace_element(layout, place, new));
    };
    let colon = colon_behind(layout, member.key.end)?;
    let column = layout.column(member.key.start);
    match new {
        Rendered::Inline(text) if Layout::is_block(node) => {
            // A comment behind the name stays there.
            let end = layout.line_end_at(colon);
            let value = Splice::new(colon, colon, format!(" {text}"));
            Some(vec![value, Splice::new(end, content_end(node), "")])
        }
        Rendered::Inline(text)
            if node.end <= colon || node.start < colon || node.start == node.end =>
        {
            Some(vec![Splice::new(colon, colon, format!(" {text}"))])
        }
        Rendered::Inline(text) => Some(vec![Splice::new(node.start, content_end(node), text)]),
        Rendered::Literal(header, lines) => {
            let indent = literal_indent(layout, node)
                .unwrap_or_else(|| column.saturating_add(layout.indent.len()));
            let lines: Vec<_> =
                lines.iter().map(|line| indented(&" ".repeat(indent), line)).collect();
            let text = format!(" {header}{}{}", layout.line_end, lines.join(layout.line_end));
            Some(vec![Splice::new(colon, content_end(node).max(colon), text)])
        }
        Rendered::Lines(lines, shape) => {
            let column = match shape {
                Shape::Map => column.saturating_add(layout.indent.len()),
                Shape::List => column.saturating_add(layout.list_indent),
            };
            let column = own_column(layout, node, shape).unwrap_or(column);
            Some(replace_by_lines(layout, node, colon, column, &lines))
        }
    }
}

/// Returns the column of a collection that is replaced by one of the same shape.
fn own_column(layout: &Layout<'_>, node: &Node, shape: Shape) -> Option<usize> {
    let start = match (&node.kind, shape) {
        (NodeKind::Map(_, members), Shape::Map) => members.first()?.key.start,
        (NodeKind::List(_, elements), Shape::List) => elements.first()?.dash,
        _ => return None,
    };
    Layout::is_block(node).then(|| layout.column(start))
}

/// Replaces the value behind a colon by lines below it.
fn replace_by_lines(
    layout: &Layout<'_>,
    node: &Node,
    colon: usize,
    column: usize,
    lines: &[String],
) -> Vec<Splice> {
    let text = format!("{}{}", layout.line_end, joined(layout, column, lines));
    let end = content_end(node).max(colon);
    if Layout::is_block(node) {
        // A comment behind the name stays there.
        return vec![Splice::new(layout.line_end_at(colon), end, text)];
    }
    if layout.slice(colon, end).contains('\n') {
        return vec![Splice::new(colon, end, text)];
    }
    let line_end = layout.line_end_at(end);
    vec![Splice::new(colon, end, ""), Splice::new(line_end, line_end, text)]
}

/// Replaces an element of a list, or the whole document.
fn replace_element(layout: &Layout<'_>, place: &Place<'_>, new: Rendered) -> Vec<Splice> {
    let node = place.node();
    let dash = place.around().and_then(|list| match &list.node().kind {
        NodeKind::List(_, elements) => elements.get(place.index()?).map(|element| element.dash),
        _ => None,
    });
    let column = dash.map_or(0, |dash| layout.column(dash).saturating_add(2));
    let text = match new {
        Rendered::Inline(text) => text,
        Rendered::Literal(header, lines) => {
            let lines: Vec<_> =
                lines.iter().map(|line| indented(&" ".repeat(column), line)).collect();
            format!("{header}{}{}", layout.line_end, lines.join(layout.line_end))
        }
        Rendered::Lines(lines, _) => {
            joined(layout, column, &lines).trim_start_matches(' ').to_owned()
        }
    };
    match dash {
        // `-` without a value.
        Some(dash) if node.end <= dash.saturating_add(1) => {
            let behind = dash.saturating_add(1);
            vec![Splice::new(behind, behind, format!(" {text}"))]
        }
        Some(dash) => vec![Splice::new(dash, content_end(node), format!("- {text}"))],
        None => vec![Splice::new(node.start, content_end(node), text)],
    }
}

/// Returns the position behind the colon of a name.
fn colon_behind(layout: &Layout<'_>, end: usize) -> Option<usize> {
    let rest = layout.text.get(end..)?;
    let spaces = rest.len().checked_sub(rest.trim_start_matches([' ', '\t']).len())?;
    rest.get(spaces..)?.starts_with(':').then(|| end.saturating_add(spaces).saturating_add(1))
}

/// Returns the end of what a value is written as.
fn content_end(node: &Node) -> usize {
    node.end.max(node.start)
}

/// Returns the indentation of the lines of a block scalar.
fn literal_indent(layout: &Layout<'_>, node: &Node) -> Option<usize> {
    let NodeKind::Scalar(ScalarStyle::Literal | ScalarStyle::Folded) = node.kind else {
        return None;
    };
    let lines = layout.slice(node.start, node.end).lines().skip(1);
    let first = lines.into_iter().find(|line| !line.trim().is_empty())?;
    first.len().checked_sub(first.trim_start_matches(' ').len())
}

/// Adds lines behind the line of an offset.
fn lines_behind(layout: &Layout<'_>, offset: usize, column: usize, lines: &[String]) -> Splice {
    let end = layout.line_end_at(offset);
    Splice::new(end, end, format!("{}{}", layout.line_end, joined(layout, column, lines)))
}

/// Returns lines with an indentation.
fn joined(layout: &Layout<'_>, column: usize, lines: &[String]) -> String {
    let indent = " ".repeat(column);
    let lines: Vec<_> = lines.iter().map(|line| indented(&indent, line)).collect();
    lines.join(layout.line_end)
}
