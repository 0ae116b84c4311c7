//! How a text is laid out: its indentation, quotes and line ends, and the lines around its nodes.

use opgate_yaml::tree::{CollectionStyle, Node, NodeKind, ScalarStyle};

use crate::path::Place;
use crate::source::Source;

/// A part of the text, and what replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Splice {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) text: String,
}

impl Splice {
    pub(crate) fn new(start: usize, end: usize, text: impl Into<String>) -> Self {
        Self { start, end, text: text.into() }
    }
}

/// Applies splices, which do not overlap; none if they do, or lead out of the text.
pub(crate) fn apply_splices(text: &str, mut splices: Vec<Splice>) -> Option<String> {
    splices.sort_by_key(|splice| (splice.start, splice.end));
    let (mut new, mut at) = (String::with_capacity(text.len()), 0);
    for splice in splices {
        new.push_str(text.get(at..splice.start)?);
        new.push_str(&splice.text);
        at = splice.end.max(splice.start);
    }
    new.push_str(text.get(at..)?);
    Some(new)
}

/// Returns the line break of the line of an offset, or of the one before if it has none.
pub(crate) fn line_end_near(text: &str, offset: usize) -> &'static str {
    let behind = text.get(offset..).and_then(|rest| rest.find('\n'));
    let at = behind.map(|at| offset.saturating_add(at)).or_else(|| text.rfind('\n'));
    let before = at.and_then(|at| text.get(..at)).unwrap_or_default();
    if before.ends_with('\r') { "\r\n" } else { "\n" }
}

/// The layout of a document.
pub(crate) struct Layout<'t> {
    pub(crate) text: &'t str,
    pub(crate) is_json: bool,
    /// The end of a new line, `\n` or `\r\n`: that of the line next to it.
    pub(crate) line_end: &'static str,
    /// One level of indentation.
    pub(crate) indent: String,
    /// The indentation of a list below the member that it is the value of.
    pub(crate) list_indent: usize,
    /// The quote of texts that need one.
    pub(crate) quote: char,
}

/// Maximum number of members that show the layout of a document.
const MAX_SHOWN_MEMBERS: usize = 1_000;

/// What a document shows of its layout.
#[derive(Default)]
struct Habits {
    indent: Option<usize>,
    list_indent: Option<usize>,
    single_quotes: usize,
    double_quotes: usize,
    members: usize,
}

impl<'t> Layout<'t> {
    /// Returns the layout of a document. New lines end as the line of the offset.
    pub(crate) fn of(source: &Source<'t>, root: &Node, offset: usize) -> Self {
        let Source { text, is_json, .. } = *source;
        let mut habits = Habits::default();
        let mut layout = Self {
            text,
            is_json,
            line_end: line_end_near(text, offset),
            indent: "  ".to_owned(),
            list_indent: 0,
            quote: '"',
        };
        if !is_json {
            layout.find_habits(root, &mut habits);
        }
        if is_json {
            layout.indent = layout.json_indent(root).unwrap_or(layout.indent);
        } else if let Some(width) = habits.indent.filter(|width| (1..=8).contains(width)) {
            layout.indent = " ".repeat(width);
        }
        layout.list_indent = habits.list_indent.filter(|width| *width <= 8).unwrap_or(0);
        if habits.single_quotes > habits.double_quotes {
            layout.quote = '\'';
        }
        layout
    }

    /// Walks over the nodes of a document. The limit of nesting limits the recursion.
    fn find_habits(&self, node: &Node, habits: &mut Habits) {
        match &node.kind {
            NodeKind::Scalar(ScalarStyle::SingleQuoted) => habits.single_quotes += 1,
            NodeKind::Scalar(ScalarStyle::DoubleQuoted) => habits.double_quotes += 1,
            NodeKind::Scalar(_) | NodeKind::Alias => {}
            NodeKind::List(_, elements) => {
                for element in elements {
                    self.find_habits(&element.value, habits);
                }
            }
            NodeKind::Map(_, members) => {
                for member in members {
                    habits.members += 1;
                    if habits.members > MAX_SHOWN_MEMBERS {
                        return;
                    }
                    let own = || self.column(member.key.start);
                    match &member.value.kind {
                        NodeKind::Map(CollectionStyle::Block, _) => {
                            let width = self.column(member.value.start).checked_sub(own());
                            habits.indent = habits.indent.or(width);
                        }
                        NodeKind::List(CollectionStyle::Block, elements) => {
                            let dash = elements.first().map(|first| self.column(first.dash));
                            let width = dash.and_then(|dash| dash.checked_sub(own()));
                            habits.list_indent = habits.list_indent.or(width);
                        }
                        _ => {}
                    }
                    self.find_habits(&member.value, habits);
                }
            }
        }
    }

    /// Returns the indentation of the first member or element of a document in JSON that begins a line.
    fn json_indent(&self, root: &Node) -> Option<String> {
        let first = match &root.kind {
            NodeKind::Map(_, members) => members.first()?.key.start,
            NodeKind::List(_, elements) => elements.first()?.value.start,
            _ => return None,
        };
        let own = self.line_indent(root.start);
        let inner = self.slice(self.line_start(first), first);
        let inner = inner.strip_prefix(own).filter(|_| self.begins_line(first))?;
        Some(inner.to_owned()).filter(|inner| !inner.is_empty())
    }

    pub(crate) fn slice(&self, start: usize, end: usize) -> &'t str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// Returns the start of the line of an offset.
    pub(crate) fn line_start(&self, offset: usize) -> usize {
        self.slice(0, offset).rfind('\n').map_or(0, |newline| newline.saturating_add(1))
    }

    /// Returns the end of the line of an offset, before its line break.
    pub(crate) fn line_end_at(&self, offset: usize) -> usize {
        let rest = self.text.get(offset..).unwrap_or_default();
        let end = rest.find('\n').map_or(self.text.len(), |newline| offset.saturating_add(newline));
        if self.slice(offset, end).ends_with('\r') { end.saturating_sub(1) } else { end }
    }

    /// Returns the text from an offset to the end of its line, without white space.
    pub(crate) fn rest_of_line(&self, offset: usize) -> &'t str {
        self.slice(offset, self.line_end_at(offset)).trim()
    }

    /// Returns the start of the comments directly above the line of an offset, or of that line if there are none.
    /// They begin behind the line of `floor`.
    pub(crate) fn start_with_comments(&self, offset: usize, floor: usize) -> usize {
        let mut start = self.line_start(offset);
        while let Some(above) = start.checked_sub(1) {
            let line = self.line_start(above);
            if line <= floor && floor > 0 || !self.slice(line, above).trim_start().starts_with('#')
            {
                break;
            }
            start = line;
        }
        start
    }

    /// Returns the end of the line of an offset, or of the comments below it that are deeper than a column.
    pub(crate) fn end_with_comments(&self, offset: usize, column: usize) -> usize {
        let mut end = self.line_end_at(offset);
        let mut at = self.next_line(offset);
        while at < self.text.len() {
            let line_end = self.line_end_at(at);
            let line = self.slice(at, line_end);
            let content = line.trim_start_matches([' ', '\t']);
            let is_deeper = line.len().saturating_sub(content.len()) > column;
            if content.starts_with('#') && is_deeper {
                end = line_end;
            } else if !content.is_empty() {
                break;
            }
            at = self.next_line(at);
        }
        end
    }

    /// Returns the start of the next line, or the end of the text.
    pub(crate) fn next_line(&self, offset: usize) -> usize {
        let rest = self.text.get(offset..).unwrap_or_default();
        let end = rest.find('\n').map(|newline| offset.saturating_add(newline));
        end.map_or(self.text.len(), |end| end.saturating_add(1))
    }

    /// Returns the column of an offset, in characters from 0.
    pub(crate) fn column(&self, offset: usize) -> usize {
        self.slice(self.line_start(offset), offset).chars().count()
    }

    /// Reports whether only white space precedes an offset on its line.
    pub(crate) fn begins_line(&self, offset: usize) -> bool {
        self.slice(self.line_start(offset), offset).chars().all(|c| c == ' ' || c == '\t')
    }

    /// Returns the white space at the start of the line of an offset.
    pub(crate) fn line_indent(&self, offset: usize) -> &'t str {
        let line = self.text.get(self.line_start(offset)..).unwrap_or_default();
        let end = line.find(|c| c != ' ' && c != '\t').unwrap_or(line.len());
        line.get(..end).unwrap_or_default()
    }

    pub(crate) fn is_block(node: &Node) -> bool {
        matches!(
            node.kind,
            NodeKind::Map(CollectionStyle::Block, _) | NodeKind::List(CollectionStyle::Block, _)
        )
    }

    /// Reports whether a place is on lines, and not in brackets.
    pub(crate) fn is_in_block(&self, place: &Place<'_>) -> bool {
        !self.is_json && place.around().is_none_or(|around| Self::is_block(around.node()))
    }

    /// Reports whether an empty collection in brackets is written on lines when it gets content. A comment in it stays.
    pub(crate) fn is_written_anew(&self, place: &Place<'_>) -> bool {
        let node = place.node();
        self.is_in_block(place) && !self.slice(node.start, node.end).contains('#')
    }

    /// Reports whether the line of a node in JSON has nothing else than its member or element before it: its document
    /// is written on lines.
    pub(crate) fn begins_line_of_entry(&self, node: &Node) -> bool {
        let before = self.slice(self.line_start(node.start), node.start).trim_start();
        let is_name = before.starts_with('"') && before.trim_end().ends_with(':');
        let is_on_lines = self.text.trim_end().contains('\n');
        is_on_lines && (before.is_empty() || is_name && !before.contains(['{', '[', ',']))
    }
}
