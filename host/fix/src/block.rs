//! Edits of collections on lines, by indentation.

use opgate_yaml::tree::{Node, NodeKind, ScalarStyle};

use crate::block_scalar::BlockScalar;
use crate::layout::{Layout, Splice, line_end_near};
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
    let end = content_end(layout, &last.value).max(last.key.end);
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
    if index == 0 && layout.begins_line(first.dash) {
        // The comments above the first one stay there.
        let at = layout.start_with_comments(first.dash, 0);
        let text = format!("{}{}", joined(layout, column, &lines), layout.line_end);
        return Some(vec![Splice::new(at, at, text)]);
    }
    if index == 0 {
        let mut text = joined(layout, column, &lines);
        text.push_str(layout.line_end);
        text.push_str(&" ".repeat(column));
        return Some(vec![Splice::new(first.dash, first.dash, text.trim_start_matches(' '))]);
    }
    let before = elements.get(index.checked_sub(1)?)?;
    let end = content_end(layout, &before.value).max(before.dash.saturating_add(1));
    Some(vec![lines_behind(layout, end, column, &lines)])
}

/// Removes the only member or element of a collection on lines below its name or dash. The comments around it stay.
pub(crate) fn remove_last(layout: &Layout<'_>, around: &Place<'_>) -> Option<Vec<Splice>> {
    let empty = if matches!(around.node().kind, NodeKind::Map(..)) { " {}" } else { " []" };
    let start = value_start(layout, around)?;
    let node = around.node();
    if node.start <= layout.line_end_at(start) || has_mark(layout, start, node) {
        return None;
    }
    let lines = remove(layout, node, 0)?;
    Some(std::iter::once(Splice::new(start, start, empty)).chain(lines).collect())
}

/// Removes a member or an element. The collection keeps at least one.
pub(crate) fn remove(layout: &Layout<'_>, around: &Node, index: usize) -> Option<Vec<Splice>> {
    let bounds = |index: usize| match &around.kind {
        NodeKind::Map(_, members) => {
            let member = members.get(index)?;
            Some((member.key.start, content_end(layout, &member.value).max(member.key.end)))
        }
        NodeKind::List(_, elements) => {
            let element = elements.get(index)?;
            let end = content_end(layout, &element.value);
            Some((element.dash, end.max(element.dash.saturating_add(1))))
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
        let before = layout.slice(0, start).trim_end_matches(['\r', '\n']).len();
        return Some(vec![Splice::new(before, next, "")]);
    }
    Some(vec![Splice::new(start, next, "")])
}

/// Replaces the value at a place on lines.
pub(crate) fn replace(layout: &Layout<'_>, place: &Place<'_>, json: &str) -> Option<Vec<Splice>> {
    let node = place.node();
    let new = NewValue::of(json)?;
    let start = value_start(layout, place)?;
    if has_mark(layout, start, node) {
        return None;
    }
    if let NodeKind::Scalar(style @ (ScalarStyle::Literal | ScalarStyle::Folded)) = node.kind {
        return replace_block_scalar(layout, place, style, start, &new);
    }
    let style = match node.kind {
        NodeKind::Scalar(style) if node.end > node.start => Some(style),
        _ => None,
    };
    let new = new.on_lines(layout, style);
    match place.member() {
        Some(member) => {
            Some(replace_member(layout, node, layout.column(member.key.start), start, new))
        }
        None => Some(replace_element(layout, place, new)),
    }
}

/// Returns the offset behind the colon or the dash before a value; for a document that of its value.
fn value_start(layout: &Layout<'_>, place: &Place<'_>) -> Option<usize> {
    match (place.member(), dash(place)) {
        (Some(member), _) => colon_behind(layout, member.key.end),
        (None, Some(dash)) => Some(dash.saturating_add(1)),
        (None, None) => Some(place.node().start),
    }
}

/// Returns the dash of an element on lines.
fn dash(place: &Place<'_>) -> Option<usize> {
    match &place.around()?.node().kind {
        NodeKind::List(_, elements) => elements.get(place.index()?).map(|element| element.dash),
        _ => None,
    }
}

/// Reports whether a value has a tag or an anchor, which an edit would remove.
fn has_mark(layout: &Layout<'_>, start: usize, node: &Node) -> bool {
    let mut lines = layout.slice(start, node.start).lines();
    lines.any(|line| line.trim_start().starts_with(['!', '&']))
}

/// Replaces the value of a member; `column` is that of its name, and `colon` the offset behind the colon.
fn replace_member(
    layout: &Layout<'_>,
    node: &Node,
    column: usize,
    colon: usize,
    new: Rendered,
) -> Vec<Splice> {
    let end = content_end(layout, node);
    match new {
        Rendered::Inline(text) if Layout::is_block(node) => {
            // A comment behind the name stays there.
            let line_end = layout.line_end_at(colon);
            let value = Splice::new(colon, colon, format!(" {text}"));
            vec![value, Splice::new(line_end, end, "")]
        }
        Rendered::Inline(text)
            if node.end <= colon || node.start < colon || node.start == node.end =>
        {
            vec![Splice::new(colon, colon, format!(" {text}"))]
        }
        Rendered::Inline(text) => vec![Splice::new(node.start, end, text)],
        Rendered::Literal(header, lines) => {
            let column = column.saturating_add(layout.indent.len());
            let lines = joined(layout, column, &lines);
            if Layout::is_block(node) {
                let below = format!("{}{lines}", layout.line_end);
                let mark = Splice::new(colon, colon, format!(" {header}"));
                return vec![mark, Splice::new(layout.line_end_at(colon), end, below)];
            }
            let end = end.max(colon);
            let line_end = layout.line_end_at(end);
            // A comment behind the value stays on its line.
            let mark = Splice::new(colon, end, format!(" {header}"));
            vec![mark, Splice::new(line_end, line_end, format!("{}{lines}", layout.line_end))]
        }
        Rendered::Lines(lines, shape) => {
            let column = match shape {
                Shape::Map => column.saturating_add(layout.indent.len()),
                Shape::List => column.saturating_add(layout.list_indent),
            };
            let column = own_column(layout, node, shape).unwrap_or(column);
            replace_by_lines(layout, node, colon, column, &lines)
        }
    }
}

/// Replaces a block scalar at a place, whose colon or dash ends at `start`.
fn replace_block_scalar(
    layout: &Layout<'_>,
    place: &Place<'_>,
    style: ScalarStyle,
    start: usize,
    new: &NewValue,
) -> Option<Vec<Splice>> {
    let node = place.node();
    let name = place.member().map(|member| member.key.start).or_else(|| dash(place));
    let column = name.map_or(0, |name| layout.column(name));
    let end = content_end(layout, node);
    let scalar = BlockScalar::of(layout, node, end, style, column);
    match new.on_lines(layout, None) {
        _ if new.text().is_some_and(|text| !text.trim().is_empty()) => {
            scalar.replace_text(layout, new.text().unwrap_or_default())
        }
        Rendered::Lines(..) | Rendered::Literal(..) if place.member().is_none() => {
            Some(replace_element(layout, place, new.on_lines(layout, None)))
        }
        Rendered::Lines(lines, shape) => {
            let deeper = if shape == Shape::Map { layout.indent.len() } else { layout.list_indent };
            let lines = joined(layout, column.saturating_add(deeper), &lines);
            let line_end = layout.line_end_at(node.start);
            let mark = scalar.replace_inline("").into_iter().next()?;
            // Without the space before the mark.
            let mark = Splice::new(start, mark.end, "");
            Some(vec![mark, Splice::new(line_end, end, format!("{}{lines}", layout.line_end))])
        }
        Rendered::Literal(..) => None,
        Rendered::Inline(text) => Some(scalar.replace_inline(&text)),
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
    let end = content_end(layout, node).max(colon);
    if Layout::is_block(node) {
        // A comment behind the name stays there.
        return vec![Splice::new(layout.line_end_at(colon), end, text)];
    }
    let line_end = layout.line_end_at(end);
    vec![Splice::new(colon, end, ""), Splice::new(line_end, line_end, text)]
}

/// Replaces an element of a list, or the whole document.
fn replace_element(layout: &Layout<'_>, place: &Place<'_>, new: Rendered) -> Vec<Splice> {
    let node = place.node();
    let (start, end) = (node.start, content_end(layout, node));
    let Some(dash) = dash(place) else {
        let text = match new {
            Rendered::Inline(text) => text,
            Rendered::Literal(header, lines) => {
                let lines = joined(layout, layout.indent.len(), &lines);
                format!("{header}{}{lines}", layout.line_end)
            }
            Rendered::Lines(lines, _) => joined(layout, 0, &lines),
        };
        // White space behind it would become a part of the last line.
        let is_last = layout.rest_of_line(end).is_empty();
        let end = if is_last { layout.line_end_at(end) } else { end };
        return vec![Splice::new(start, end, text)];
    };
    let behind = dash.saturating_add(1);
    let is_below = start > layout.line_end_at(behind);
    let column =
        if is_below { layout.column(start) } else { layout.column(dash).saturating_add(2) };
    let (first, below) = match new {
        Rendered::Inline(text) if is_below && Layout::is_block(node) => {
            // A comment behind the dash stays there.
            let lines = Splice::new(layout.line_end_at(behind), end, "");
            return vec![Splice::new(behind, behind, format!(" {text}")), lines];
        }
        Rendered::Inline(text) => (text, Vec::new()),
        Rendered::Literal(header, lines) => (header, lines),
        Rendered::Lines(mut lines, _) if !lines.is_empty() => (lines.remove(0), lines),
        Rendered::Lines(..) => (String::new(), Vec::new()),
    };
    let below = if below.is_empty() {
        String::new()
    } else {
        format!("{}{}", layout.line_end, joined(layout, column, &below))
    };
    let (start, end) = if node.end <= behind { (behind, behind) } else { (start, end) };
    let (start, space) = if is_below { (start, "") } else { (behind, " ") };
    if Layout::is_block(node) {
        return vec![Splice::new(start, end, format!("{space}{first}{below}"))];
    }
    // A comment behind the value stays on its line.
    let line_end = layout.line_end_at(end);
    let value = Splice::new(start, end, format!("{space}{first}"));
    vec![value, Splice::new(line_end, line_end, below)]
}

/// Returns the position behind the colon of a name.
fn colon_behind(layout: &Layout<'_>, end: usize) -> Option<usize> {
    let rest = layout.text.get(end..)?;
    let spaces = rest.len().checked_sub(rest.trim_start_matches([' ', '\t']).len())?;
    rest.get(spaces..)?.starts_with(':').then(|| end.saturating_add(spaces).saturating_add(1))
}

/// Returns the end of what a value is written as, before a line break.
pub(crate) fn content_end(layout: &Layout<'_>, node: &Node) -> usize {
    let end = node.end.max(node.start);
    let is_in_break = layout.slice(node.start, end).ends_with('\r')
        && layout.text.as_bytes().get(end) == Some(&b'\n');
    if is_in_break { end.saturating_sub(1) } else { end }
}

/// Adds lines behind the line of an offset, and behind the comments below it that are deeper than the column.
fn lines_behind(layout: &Layout<'_>, offset: usize, column: usize, lines: &[String]) -> Splice {
    let end = layout.end_with_comments(offset, column);
    let next = layout.next_line(end);
    // The line before keeps its line break, if it has one.
    let line_break = layout.slice(end, next);
    let text = if line_break.is_empty() {
        let line_break = line_end_near(layout.text, end);
        format!("{line_break}{}", indented_lines(column, lines).join(line_break))
    } else {
        format!("{}{line_break}", indented_lines(column, lines).join(line_break))
    };
    Splice::new(next, next, text)
}

/// Returns lines with an indentation, as a text.
fn joined(layout: &Layout<'_>, column: usize, lines: &[String]) -> String {
    indented_lines(column, lines).join(layout.line_end)
}

fn indented_lines(column: usize, lines: &[String]) -> Vec<String> {
    let indent = " ".repeat(column);
    lines.iter().map(|line| indented(&indent, line)).collect()
}
