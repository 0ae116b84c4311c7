//! Edits of collections in brackets: JSON, and the flow style of YAML.

use opgate_yaml::tree::{Member, Node, NodeKind, ScalarStyle};

use crate::layout::{Layout, Splice};
use crate::render::{JsonSpaces, NewValue, ScalarContext, json_string, yaml_text};

/// A member or element, in bytes of the text.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Its start, with an anchor and a tag.
    start: usize,
    end: usize,
    /// The comma behind it, which the last one may lack.
    comma: Option<usize>,
}

impl Entry {
    /// Returns the end of the comma, or of the entry if there is none.
    fn end_with_comma(&self) -> usize {
        self.comma.map_or(self.end, |comma| comma.saturating_add(1))
    }

    /// Reports whether there is nothing else on its lines, except for a comment.
    fn is_alone(&self, layout: &Layout<'_>) -> bool {
        let rest = layout.rest_of_line(self.end_with_comma());
        layout.begins_line(self.start)
            && (rest.is_empty() || !layout.is_json && rest.starts_with('#'))
    }
}

/// Adds a member behind the last one.
pub(crate) fn add_member(
    layout: &Layout<'_>,
    map: &Node,
    name: &str,
    json: &str,
) -> Option<Vec<Splice>> {
    let entries = entries(layout, map)?;
    let value = NewValue::of(json)?;
    let name = if layout.is_json {
        json_string(name)
    } else {
        yaml_text(name, None, layout.quote, ScalarContext::Key)
    };
    let entry = |indent: Option<&str>| {
        let colon = if layout.is_json { colon_space(layout, map) } else { " " };
        format!("{name}:{colon}{}", rendered(layout, map, &value, indent, None))
    };
    insert_entry(layout, map, &entries, entries.len(), entry)
}

/// Inserts an element in a list.
pub(crate) fn insert_element(
    layout: &Layout<'_>,
    list: &Node,
    index: usize,
    json: &str,
) -> Option<Vec<Splice>> {
    let entries = entries(layout, list)?;
    let value = NewValue::of(json)?;
    let entry = |indent: Option<&str>| rendered(layout, list, &value, indent, None);
    insert_entry(layout, list, &entries, index, entry)
}

/// Replaces a value.
pub(crate) fn replace(layout: &Layout<'_>, node: &Node, json: &str) -> Option<Vec<Splice>> {
    let style = match node.kind {
        NodeKind::Scalar(style) => Some(style),
        _ => None,
    };
    let value = NewValue::of(json)?;
    if node.start == node.end {
        return None;
    }
    // A value in JSON is on lines if its document is.
    let is_on_lines = layout.is_json && layout.begins_line_of_entry(node);
    let indent = is_on_lines.then(|| layout.line_indent(node.start));
    let text = rendered(layout, node, &value, indent, style);
    Some(vec![Splice::new(node.start, node.end, text)])
}

/// Removes a member or element, with the comment on its line.
pub(crate) fn remove(layout: &Layout<'_>, around: &Node, index: usize) -> Option<Vec<Splice>> {
    let entries = entries(layout, around)?;
    let entry = entries.get(index)?;
    let before = index.checked_sub(1).and_then(|before| entries.get(before));
    let next = entries.get(index.saturating_add(1));
    let inner = around.start.checked_add(1)?..around.end.checked_sub(1)?;
    let own_end = layout.line_end_at(entry.end_with_comma()).min(inner.end);
    let others = [layout.slice(inner.start, entry.start), layout.slice(own_end, inner.end)];
    if entries.len() == 1 && !others.iter().any(|text| text.contains('#')) {
        return Some(vec![Splice::new(inner.start, inner.end, "")]);
    }
    if entry.is_alone(layout) {
        let (start, end) =
            (layout.line_start(entry.start), layout.next_line(entry.end_with_comma()));
        let comma = before.filter(|_| next.is_none() && entry.comma.is_none());
        let comma = comma.and_then(|before| before.comma);
        let comma = comma.map(|comma| Splice::new(comma, comma.saturating_add(1), ""));
        return Some(comma.into_iter().chain([Splice::new(start, end, "")]).collect());
    }
    match (before, next) {
        (Some(before), _) => {
            let comma = before.comma?;
            let behind = comma.saturating_add(1);
            if next.is_none() && layout.slice(behind, entry.start).contains('#') {
                // The comment of the one before stays on its line.
                let comma = Splice::new(comma, behind, "");
                return Some(vec![comma, Splice::new(entry.start, entry.end, "")]);
            }
            let is_close = layout.slice(before.end, comma).trim().is_empty();
            let start = if is_close { before.end } else { comma };
            Some(vec![Splice::new(start, entry.end, "")])
        }
        (None, Some(next)) => Some(vec![Splice::new(entry.start, next.start, "")]),
        (None, None) => None,
    }
}

/// Returns the members or elements; none if they are not written as expected.
fn entries(layout: &Layout<'_>, node: &Node) -> Option<Vec<Entry>> {
    let ends: Vec<_> = match &node.kind {
        NodeKind::Map(_, members) => {
            members.iter().map(|member| member_end(layout, member)).collect()
        }
        NodeKind::List(_, elements) => elements.iter().map(|element| element.value.end).collect(),
        _ => return None,
    };
    let mut entries = Vec::new();
    let mut at = node.start.checked_add(1)?;
    for end in &ends {
        let start = skip_space(layout, at);
        let behind = skip_space(layout, *end);
        let comma = layout.text.get(behind..)?.starts_with(',').then_some(behind);
        let entry = Entry { start, end: *end, comma };
        entries.push(entry);
        at = entry.end_with_comma();
        if comma.is_none() && entries.len() < ends.len() {
            return None;
        }
    }
    Some(entries)
}

/// Returns the end of a member. A value that is not written can be behind comments.
fn member_end(layout: &Layout<'_>, member: &Member) -> usize {
    if member.value.end > member.value.start {
        return member.value.end;
    }
    let key_end = member.key.end;
    let behind = layout.text.get(key_end..).unwrap_or_default();
    let spaces = behind.len().saturating_sub(behind.trim_start_matches([' ', '\t']).len());
    let colon = key_end.saturating_add(spaces);
    if layout.slice(colon, member.value.start).starts_with(':') {
        colon.saturating_add(1)
    } else {
        key_end
    }
}

/// Returns the offset behind white space and comments.
fn skip_space(layout: &Layout<'_>, mut at: usize) -> usize {
    loop {
        let rest = layout.text.get(at..).unwrap_or_default();
        let content = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        at = at.saturating_add(rest.len().saturating_sub(content.len()));
        if layout.is_json || !content.starts_with('#') {
            return at;
        }
        at = layout.line_end_at(at);
    }
}

/// Inserts an entry before the one at the index. `entry` renders it, with the indentation of its line if it has one.
fn insert_entry(
    layout: &Layout<'_>,
    around: &Node,
    entries: &[Entry],
    index: usize,
    entry: impl Fn(Option<&str>) -> String,
) -> Option<Vec<Splice>> {
    let Some(last) = entries.last() else { return fill(layout, around, entry) };
    let Some(next) = entries.get(index) else {
        return Some(append(layout, around, entries, last, entry));
    };
    if !layout.begins_line(next.start) {
        let text = format!("{},{}", entry(None), comma_space(layout, entries));
        return Some(vec![Splice::new(next.start, next.start, text)]);
    }
    // The comments above the next one stay there.
    let before = index.checked_sub(1).and_then(|before| entries.get(before));
    let floor = before.map_or(around.start, Entry::end_with_comma);
    let at = layout.start_with_comments(next.start, floor);
    let indent = layout.line_indent(next.start);
    let text = format!("{indent}{},{}", entry(Some(indent)), layout.line_end);
    Some(vec![Splice::new(at, at, text)])
}

/// Adds an entry behind the last one, whose comment stays on its line.
fn append(
    layout: &Layout<'_>,
    around: &Node,
    entries: &[Entry],
    last: &Entry,
    entry: impl Fn(Option<&str>) -> String,
) -> Vec<Splice> {
    let end = last.end_with_comma();
    let rest = layout.rest_of_line(end);
    let has_comment = !layout.is_json && rest.starts_with('#');
    // A comma behind the last one is a habit.
    let comma = if last.comma.is_some() { "," } else { "" };
    let first_comma = (last.comma.is_none()).then(|| Splice::new(last.end, last.end, ","));
    let is_on_lines = layout.begins_line(last.start);
    let splice = if is_on_lines || has_comment {
        let is_behind_bracket =
            layout.line_start(last.start) == layout.line_start(around.start) && !is_on_lines;
        let deeper = if is_behind_bracket { layout.indent.as_str() } else { "" };
        let indent = format!("{}{deeper}", layout.line_indent(last.start));
        let at = if rest.is_empty() || has_comment { layout.line_end_at(end) } else { end };
        let text = entry(Some(&indent));
        Splice::new(at, at, format!("{}{indent}{text}{comma}", layout.line_end))
    } else {
        let space = comma_space(layout, entries);
        Splice::new(end, end, format!("{space}{}{comma}", entry(None)))
    };
    first_comma.into_iter().chain([splice]).collect()
}

/// Puts the first entry in an empty collection.
fn fill(
    layout: &Layout<'_>,
    around: &Node,
    entry: impl Fn(Option<&str>) -> String,
) -> Option<Vec<Splice>> {
    let (start, end) = (around.start.checked_add(1)?, around.end.checked_sub(1)?);
    if layout.slice(start, end).contains('#') {
        // Behind the comments, if the bracket is on a separate line, and with the indentation of the last one.
        let at = layout.line_start(end);
        let above = layout.line_start(at.saturating_sub(1));
        let indent = if layout.line_start(around.start) < above {
            layout.line_indent(above).to_owned()
        } else {
            format!("{}{}", layout.line_indent(end), layout.indent)
        };
        let text = format!("{indent}{}{}", entry(Some(&indent)), layout.line_end);
        return layout.begins_line(end).then(|| vec![Splice::new(at, at, text)]);
    }
    let text = if layout.is_json && layout.begins_line_of_entry(around) {
        let own = layout.line_indent(around.start);
        let inner = format!("{own}{}", layout.indent);
        format!("{0}{inner}{1}{0}{own}", layout.line_end, entry(Some(&inner)))
    } else {
        entry(None)
    };
    Some(vec![Splice::new(start, end, text)])
}

fn rendered(
    layout: &Layout<'_>,
    near: &Node,
    value: &NewValue,
    indent: Option<&str>,
    style: Option<ScalarStyle>,
) -> String {
    if !layout.is_json {
        return value.in_brackets(layout, style);
    }
    let colon = colon_space(layout, near);
    let lines = indent.map(|indent| (layout.line_end, indent, layout.indent.as_str()));
    let colon = if lines.is_some() { " " } else { colon };
    value.as_json(JsonSpaces { colon, comma: colon, lines })
}

/// Returns the white space behind the first colon of a map in JSON; one space if there is none.
fn colon_space<'t>(layout: &Layout<'t>, map: &Node) -> &'t str {
    let NodeKind::Map(_, members) = &map.kind else { return compact_space(layout) };
    let Some(first) = members.first() else { return compact_space(layout) };
    let between = layout.slice(first.key.end, first.value.start);
    let space = between.split_once(':').map(|(_, space)| space);
    space.filter(|space| space.chars().all(|c| c == ' ')).unwrap_or(" ")
}

/// Returns a space, unless the text is JSON without spaces behind its names.
fn compact_space<'t>(layout: &Layout<'t>) -> &'t str {
    let is_compact = layout.is_json && layout.text.contains("\":") && !layout.text.contains("\": ");
    if is_compact { "" } else { " " }
}

/// Returns the white space behind the first comma; one space if there is none, or if it has a line break.
fn comma_space<'t>(layout: &Layout<'t>, entries: &[Entry]) -> &'t str {
    let [Entry { comma: Some(comma), .. }, next, ..] = entries else {
        return compact_space(layout);
    };
    let space = layout.slice(comma.saturating_add(1), next.start);
    if space.chars().all(|c| c == ' ') { space } else { " " }
}
