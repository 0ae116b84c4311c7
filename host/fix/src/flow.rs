//! Edits of collections in brackets: JSON, and the flow style of YAML.

use opgate_yaml::tree::{Node, NodeKind, ScalarStyle};

use crate::layout::{Layout, Splice};
use crate::render::{JsonSpaces, NewValue, ScalarContext, json_string, yaml_text};

/// The start and end of a member or element.
type Bounds = (usize, usize);

/// Adds a member behind the last one.
pub(crate) fn add_member(
    layout: &Layout<'_>,
    map: &Node,
    name: &str,
    json: &str,
) -> Option<Vec<Splice>> {
    let entries = entries(map)?;
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
    let entries = entries(list)?;
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

/// Removes a member or element.
pub(crate) fn remove(layout: &Layout<'_>, around: &Node, index: usize) -> Option<Vec<Splice>> {
    let entries = entries(around)?;
    let (start, end) = *entries.get(index)?;
    let before = index.checked_sub(1).and_then(|before| entries.get(before));
    let splice = match (before, entries.get(index.saturating_add(1))) {
        (Some((_, before)), _) => Splice::new(*before, end, ""),
        (None, Some((next, _))) => Splice::new(start, *next, ""),
        // The only one.
        (None, None) => {
            let inner = around.start.checked_add(1)?..around.end.checked_sub(1)?;
            // A comment stays.
            if layout.slice(inner.start, start).contains('#')
                || layout.slice(end, inner.end).contains('#')
            {
                return None;
            }
            Splice::new(inner.start, inner.end, "")
        }
    };
    Some(vec![splice])
}

fn entries(node: &Node) -> Option<Vec<Bounds>> {
    match &node.kind {
        NodeKind::Map(_, members) => Some(
            members
                .iter()
                .map(|member| (member.key.start, member.value.end.max(member.key.end)))
                .collect(),
        ),
        NodeKind::List(_, elements) => {
            Some(elements.iter().map(|element| (element.value.start, element.value.end)).collect())
        }
        _ => None,
    }
}

/// Inserts an entry before the one at the index. `entry` renders it, with the indentation of its line if it has one.
fn insert_entry(
    layout: &Layout<'_>,
    around: &Node,
    entries: &[Bounds],
    index: usize,
    entry: impl Fn(Option<&str>) -> String,
) -> Option<Vec<Splice>> {
    let (Some((first, _)), Some((last, last_end))) = (entries.first(), entries.last()) else {
        return fill(layout, around, entry);
    };
    let is_on_lines = layout.begins_line(*last);
    let indent = layout.line_indent(*last);
    let text = entry(is_on_lines.then_some(indent));
    let between = if is_on_lines {
        format!("{}{indent}", layout.line_end)
    } else {
        comma_space(layout, entries).to_owned()
    };
    if index >= entries.len() {
        return Some(vec![Splice::new(*last_end, *last_end, format!(",{between}{text}"))]);
    }
    let (start, _) = entries.get(index)?;
    // The first one may be behind the bracket, and the others on lines.
    let between = if index == 0 && !layout.begins_line(*first) {
        comma_space(layout, entries).to_owned()
    } else {
        between
    };
    Some(vec![Splice::new(*start, *start, format!("{text},{between}"))])
}

/// Puts the first entry in an empty collection.
fn fill(
    layout: &Layout<'_>,
    around: &Node,
    entry: impl Fn(Option<&str>) -> String,
) -> Option<Vec<Splice>> {
    let (start, end) = (around.start.checked_add(1)?, around.end.checked_sub(1)?);
    if layout.slice(start, end).contains('#') {
        return None;
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
fn comma_space<'t>(layout: &Layout<'t>, entries: &[Bounds]) -> &'t str {
    let [(_, end), (next, _), ..] = entries else { return compact_space(layout) };
    let space = layout.slice(*end, *next).split_once(',').map(|(_, space)| space);
    space.filter(|space| space.chars().all(|c| c == ' ')).unwrap_or(" ")
}
