//! Edits of YAML and JSON text by pointer. Everything else stays unchanged: comments, order, quoting, indentation and
//! line ends.
//!
//! ```text
//! text ─▶ source: documents as nodes with their positions, and as JSON ─▶ find the node of a pointer
//!            ▲                                                               │
//!            │                                    block: lines, by indentation ┐
//!            │                                    flow: in brackets, and JSON  ┼▶ splices ─▶ new text
//!            └── one edit after another ◀──────── render: new values          ─┘                │
//! new text ─▶ source ─▶ compare with the documents after `opgate_edit::apply` ◀─────────────────┘
//! ```
//!
//! The comparison makes the result certain: a text that does not mean exactly what the edits say is refused. So is a
//! place where an edit of the text would change other places, such as an anchor.

mod ambiguity;
mod block;
mod block_scalar;
mod budget;
mod comments;
mod diff;
mod flow;
mod json;
mod layout;
mod path;
mod rename;
mod render;
mod source;
mod split;

pub use budget::EditBudget;
pub use diff::{LineChange, changed_lines, unified_diff};
use opgate_edit::{Edit, EditError};
use opgate_yaml::tree::{Node, NodeKind, ScalarStyle};
use serde_json::Value;
pub use split::{SplitFile, split_document};

use crate::layout::{Layout, Splice, apply_splices};
use crate::path::{Place, Resolved, resolve};
use crate::source::{Source, same_json};

/// The reason why the text of a file is not edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The file is neither YAML nor JSON.
    #[error("the file cannot be edited: {0}")]
    Unreadable(String),
    /// The file has fewer documents.
    #[error("the file has changed: there is no document {}", .0.saturating_add(1))]
    NoDocument(usize),
    /// The edit does not fit the document.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The place is an alias, or has an anchor or a tag.
    #[error("{0} is written with an anchor, an alias or a tag: edit it manually")]
    Marked(String),
    /// The place comes from a merge key.
    #[error("{0} comes from a merge key (<<): edit it manually")]
    Merged(String),
    /// The text around the place has a style that is not edited.
    #[error("the text at {0} is written in a way that cannot be edited safely: edit it manually")]
    Style(String),
    /// A comment is in the text that the edit replaces.
    #[error("a comment at {0} would be lost: edit it manually")]
    Comment(String),
    /// A number or boolean in a notation that is not that of the new text.
    #[error("`{0}` can mean several texts: write it in quotes")]
    Notation(String),
    /// The new text would not mean what the edits say.
    #[error("the edited text would not mean what the fix says: edit it manually")]
    Different,
    /// The edit moves a file, which is no edit of a text.
    #[error("{0} is a file, not a value")]
    File(String),
}

/// Applies edits to a document of a file, and returns the new text. `name` is that of the file, and the number of the
/// document counts those that are not empty, from 0.
///
/// # Errors
/// Fails if the edits do not fit, or cannot be made in the text with certainty.
pub fn apply(text: &str, name: &str, document: usize, edits: &[Edit]) -> Result<String, Refusal> {
    // A byte order mark stays where it is.
    let (mark, text) = match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    };
    let before = Source::parse(text, name)?;
    let mut value = before.value(document)?;
    let mut new: Option<String> = None;
    for edit in edits {
        // The text of the first edit was parsed.
        let parsed = new.as_deref().map(|new| Source::parse(new, name)).transpose()?;
        let source = parsed.as_ref().unwrap_or(&before);
        let splices = edit_splices(source, document, &value, edit);
        opgate_edit::apply(&mut value, std::slice::from_ref(edit))?;
        let edited = apply_splices(source.text, splices?);
        new = Some(edited.ok_or_else(|| Refusal::Style(edit.pointer().to_owned()))?);
    }
    let new = new.unwrap_or_else(|| text.to_owned());
    let after = Source::parse(&new, name).map_err(|_| Refusal::Different)?;
    if is_expected(&before, &after, document, &value) {
        Ok(format!("{mark}{new}"))
    } else {
        Err(Refusal::Different)
    }
}

/// Reports whether a member or element has a comment inside of it or on its last line. A fix that moves it elsewhere
/// would lose it.
///
/// # Errors
/// Fails if there is no such place.
pub fn has_comment(
    text: &str,
    name: &str,
    document: usize,
    removal: &Edit,
) -> Result<bool, Refusal> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source::parse(text, name)?;
    let (root, value) = (source.root(document)?, source.value(document)?);
    let resolved = resolve(root, &value, removal)?;
    let layout = Layout::of(&source, root, neighbour(&resolved, removal));
    let lines = comments::own_lines(&layout, &resolved.place);
    let splices =
        lines.map(|lines| Splice { start: lines.start, end: lines.end, text: String::new() });
    Ok(comments::are_lost(&layout, root, splices.as_slice(), None))
}

/// Reports whether a document has the expected value, and all others are unchanged.
fn is_expected(before: &Source<'_>, after: &Source<'_>, document: usize, expected: &Value) -> bool {
    before.len() == after.len()
        && (0..before.len()).all(|number| {
            if number == document {
                after.value(number).is_ok_and(|value| same_json(&value, expected))
            } else {
                before.json(number) == after.json(number)
            }
        })
}

/// Makes an edit in a text, whose document has the value.
fn edit_splices(
    source: &Source<'_>,
    document: usize,
    value: &Value,
    edit: &Edit,
) -> Result<Vec<Splice>, Refusal> {
    let root = source.root(document)?;
    let pointer = edit.pointer();
    if let Edit::Set { value: new, .. } = edit
        && let Some(old) = value.pointer(pointer)
        && serde_json::from_str::<Value>(new).is_ok_and(|new| new == *old)
    {
        return Ok(Vec::new());
    }
    let resolved = resolve(root, value, edit)?;
    let layout = Layout::of(source, root, neighbour(&resolved, edit));
    if let Edit::Set { value: new, .. } = edit
        && resolved.missing.is_empty()
    {
        check_notation(&layout, resolved.place.node(), value.pointer(pointer), new)?;
    }
    let splices = match edit {
        Edit::Set { value, .. } => set(&layout, &resolved, value),
        Edit::Insert { value, .. } => {
            resolved.parent().and_then(|around| insert(&layout, around, &resolved.last, value))
        }
        Edit::Remove { .. } => remove(&layout, &resolved.place),
        Edit::RenameKey { name, .. } => {
            resolved.place.member().and_then(|member| rename::rename(&layout, member, name))
        }
        Edit::MoveFile { .. } => return Err(Refusal::File(pointer.to_owned())),
    };
    let splices = splices.ok_or_else(|| Refusal::Style(pointer.to_owned()))?;
    let is_removal = matches!(edit, Edit::Remove { .. });
    let removed = comments::own_lines(&layout, &resolved.place).filter(|_| is_removal);
    if comments::are_lost(&layout, root, &splices, removed.as_ref()) {
        return Err(Refusal::Comment(pointer.to_owned()));
    }
    Ok(splices)
}

/// Returns an offset in the line next to the new lines of an edit.
fn neighbour(resolved: &Resolved<'_>, edit: &Edit) -> usize {
    let place = match edit {
        Edit::Insert { .. } => resolved.parent().unwrap_or(&resolved.place),
        _ => &resolved.place,
    };
    let is_entry = matches!(edit, Edit::Insert { .. }) || !resolved.missing.is_empty();
    match &place.node().kind {
        NodeKind::Map(_, members) if is_entry => {
            members.last().map_or(place.node().start, |last| last.value.end.max(last.key.end))
        }
        NodeKind::List(_, elements) if is_entry => {
            let index = resolved.last.parse().unwrap_or(elements.len());
            let next =
                elements.get(index).filter(|_| index == 0 || !Layout::is_block(place.node()));
            let before = index.checked_sub(1).and_then(|index| elements.get(index));
            match (next, before) {
                (Some(next), _) => next.value.start.min(next.dash),
                (None, Some(before)) => before.value.end,
                (None, None) => place.node().start,
            }
        }
        _ => place.member().map_or(place.node().start, |member| member.key.start),
    }
}

/// Fails if a text is to stand for a number or boolean of the same value, but in another notation: which of them was
/// meant is not known. So is the last zero of `1.20` in a text that does not begin with it.
fn check_notation(
    layout: &Layout<'_>,
    node: &Node,
    old: Option<&Value>,
    new: &str,
) -> Result<(), Refusal> {
    let is_plain = !layout.is_json && node.kind == NodeKind::Scalar(ScalarStyle::Plain);
    let Some(old @ (Value::Number(_) | Value::Bool(_))) = old.filter(|_| is_plain) else {
        return Ok(());
    };
    let Ok(Value::String(text)) = serde_json::from_str(new) else { return Ok(()) };
    let written = layout.slice(node.start, node.end);
    let is_same = serde_json::from_str(&text).is_ok_and(|value| same_json(old, &value));
    let ends_with_zero = written.contains('.') && written.ends_with('0');
    if is_same && text != written || ends_with_zero && !text.starts_with(written) {
        return Err(Refusal::Notation(written.to_owned()));
    }
    Ok(())
}

/// Replaces the value at a place, or adds the missing members that lead to it.
fn set(layout: &Layout<'_>, resolved: &Resolved<'_>, json: &str) -> Option<Vec<Splice>> {
    let Some((first, further)) = resolved.missing.split_first() else {
        return replace(layout, &resolved.place, json);
    };
    // The members on the way, from the innermost.
    let nested = further
        .iter()
        .rev()
        .fold(json.to_owned(), |json, name| format!("{{{}:{json}}}", Value::String(name.clone())));
    let node = resolved.place.node();
    match &node.kind {
        NodeKind::Map(..) if Layout::is_block(node) => {
            block::add_member(layout, node, first, &nested)
        }
        NodeKind::Map(_, members) => {
            if members.is_empty() && layout.is_written_anew(&resolved.place) {
                let whole = format!("{{{}:{nested}}}", Value::String(first.clone()));
                return replace(layout, &resolved.place, &whole);
            }
            flow::add_member(layout, node, first, &nested)
        }
        // A member without a value.
        NodeKind::Scalar(_) => {
            let whole = format!("{{{}:{nested}}}", Value::String(first.clone()));
            replace(layout, &resolved.place, &whole)
        }
        _ => None,
    }
}

fn replace(layout: &Layout<'_>, place: &Place<'_>, json: &str) -> Option<Vec<Splice>> {
    if layout.is_in_block(place) {
        block::replace(layout, place, json)
    } else {
        flow::replace(layout, place.node(), json)
    }
}

fn insert(layout: &Layout<'_>, list: &Place<'_>, token: &str, json: &str) -> Option<Vec<Splice>> {
    let NodeKind::List(_, elements) = &list.node().kind else { return None };
    let index = if token == "-" { elements.len() } else { token.parse().ok()? };
    if Layout::is_block(list.node()) {
        block::insert_element(layout, list.node(), index, json)
    } else if elements.is_empty() && layout.is_written_anew(list) {
        replace(layout, list, &format!("[{json}]"))
    } else {
        flow::insert_element(layout, list.node(), index, json)
    }
}

fn remove(layout: &Layout<'_>, place: &Place<'_>) -> Option<Vec<Splice>> {
    let around = place.around()?;
    let count = match &around.node().kind {
        NodeKind::Map(_, members) => members.len(),
        NodeKind::List(_, elements) => elements.len(),
        _ => return None,
    };
    if !Layout::is_block(around.node()) {
        return flow::remove(layout, around.node(), place.index()?);
    }
    if count == 1 {
        if let Some(splices) = block::remove_last(layout, around) {
            return Some(splices);
        }
        let is_map = matches!(around.node().kind, NodeKind::Map(..));
        return replace(layout, around, if is_map { "{}" } else { "[]" });
    }
    block::remove(layout, around.node(), place.index()?)
}

#[cfg(test)]
mod tests;
