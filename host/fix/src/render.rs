//! New values as text: YAML on lines, YAML in brackets, and JSON.

use opgate_document::{Document, Kind, Value};
use opgate_yaml::tree::ScalarStyle;

use crate::ambiguity;
use crate::layout::Layout;

/// Returns a text as JSON.
pub(crate) fn json_string(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

/// A value for a text of YAML.
pub(crate) struct NewValue(Document);

/// A value on one line, or on several, which are relative to its indentation.
pub(crate) enum Rendered {
    Inline(String),
    /// The first line of a block, `|-`, and its lines.
    Literal(String, Vec<String>),
    Lines(Vec<String>, Shape),
}

/// What lines are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Map,
    List,
}

impl NewValue {
    /// Parses JSON text.
    pub(crate) fn of(json: &str) -> Option<Self> {
        Document::of(json.to_owned()).ok().map(Self)
    }

    /// Returns it as a text; none if it is another value.
    pub(crate) fn text(&self) -> Option<&str> {
        self.0.root().text()
    }

    /// Renders it for lines. `style` is that of the scalar which it replaces.
    pub(crate) fn on_lines(&self, layout: &Layout<'_>, style: Option<ScalarStyle>) -> Rendered {
        rendered(self.0.root(), layout, style)
    }

    /// Renders it for brackets on one line.
    pub(crate) fn in_brackets(&self, layout: &Layout<'_>, style: Option<ScalarStyle>) -> String {
        flow(self.0.root(), layout, style)
    }

    /// Renders it as JSON: on one line, or with an indentation.
    pub(crate) fn as_json(&self, spaces: JsonSpaces<'_>) -> String {
        let mut json = String::new();
        write_json(self.0.root(), spaces, &mut json);
        json
    }
}

/// White space in JSON.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JsonSpaces<'s> {
    /// Behind a name.
    pub(crate) colon: &'s str,
    /// Behind an element on the same line.
    pub(crate) comma: &'s str,
    /// For values on several lines: the end of a line, the indentation of the value, and one level.
    pub(crate) lines: Option<(&'s str, &'s str, &'s str)>,
}

fn rendered(value: Value<'_>, layout: &Layout<'_>, style: Option<ScalarStyle>) -> Rendered {
    match value.kind() {
        Kind::Object if value.length() != Some(0) => {
            let lines = members(value).into_iter().flat_map(|(name, member)| {
                member_lines(name, rendered(member, layout, None), layout)
            });
            Rendered::Lines(lines.collect(), Shape::Map)
        }
        Kind::List if value.length() != Some(0) => {
            let lines = value.items().flat_map(|item| element_lines(rendered(item, layout, None)));
            Rendered::Lines(lines.collect(), Shape::List)
        }
        Kind::Text => {
            let text = value.text().unwrap_or_default();
            literal(text, layout).unwrap_or_else(|| {
                Rendered::Inline(yaml_text(text, style, layout.quote, ScalarContext::Lines))
            })
        }
        _ => Rendered::Inline(value.raw().trim().to_owned()),
    }
}

/// Returns the members of an object in the order in which they are written.
fn members(value: Value<'_>) -> Vec<(&str, Value<'_>)> {
    let mut members: Vec<_> = value.members().collect();
    members.sort_by_key(|(_, member)| member.range().start);
    members
}

/// Returns a member as lines.
pub(crate) fn member_lines(name: &str, value: Rendered, layout: &Layout<'_>) -> Vec<String> {
    let name = yaml_text(name, None, layout.quote, ScalarContext::Key);
    match value {
        Rendered::Inline(value) => vec![format!("{name}: {value}")],
        Rendered::Literal(header, lines) => {
            let lines = lines.into_iter().map(|line| indented(&layout.indent, &line));
            std::iter::once(format!("{name}: {header}")).chain(lines).collect()
        }
        Rendered::Lines(lines, shape) => {
            let indent = match shape {
                Shape::Map => layout.indent.clone(),
                Shape::List => " ".repeat(layout.list_indent),
            };
            let lines = lines.into_iter().map(|line| indented(&indent, &line));
            std::iter::once(format!("{name}:")).chain(lines).collect()
        }
    }
}

/// Returns an element of a list as lines.
pub(crate) fn element_lines(value: Rendered) -> Vec<String> {
    match value {
        Rendered::Inline(value) => vec![format!("- {value}")],
        Rendered::Literal(header, lines) => {
            let lines = lines.into_iter().map(|line| indented("  ", &line));
            std::iter::once(format!("- {header}")).chain(lines).collect()
        }
        Rendered::Lines(lines, _) => {
            let line = |(number, line): (usize, String)| {
                if number == 0 { format!("- {line}") } else { indented("  ", &line) }
            };
            lines.into_iter().enumerate().map(line).collect()
        }
    }
}

/// Indents a line, unless it is empty.
pub(crate) fn indented(indent: &str, line: &str) -> String {
    if line.is_empty() { String::new() } else { format!("{indent}{line}") }
}

/// Returns a text of several lines as a block; none if it is on one line, or if a block cannot express it.
/// Spaces at the ends of its lines make no text a block.
fn literal(text: &str, layout: &Layout<'_>) -> Option<Rendered> {
    let is_odd = |c: char| c.is_control() && c != '\n' && c != '\t';
    let has_odd_line = text.lines().any(|line| line.ends_with([' ', '\t']));
    let is_written = !text.contains(is_odd) && !text.contains(['\u{85}', '\u{2028}', '\u{2029}']);
    let content = text.trim_end_matches('\n');
    let is_block = content.contains('\n') || text.ends_with('\n') && !content.is_empty();
    if !is_block
        || !is_written
        || has_odd_line
        || content.starts_with([' ', '\t', '\n'])
        || layout.is_json
    {
        return None;
    }
    let header = match text.len().saturating_sub(content.len()) {
        0 => "|-",
        1 => "|",
        _ => return None,
    };
    Some(Rendered::Literal(header.to_owned(), content.split('\n').map(str::to_owned).collect()))
}

/// Where a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarContext {
    /// The name of a member, in brackets or not.
    Key,
    /// A value in brackets.
    Brackets,
    /// A value on a line.
    Lines,
}

/// Returns a text as a scalar of YAML on one line, in the style of the one that it replaces if that is possible.
pub(crate) fn yaml_text(
    text: &str,
    style: Option<ScalarStyle>,
    quote: char,
    context: ScalarContext,
) -> String {
    let can_be_single = !text.contains(|c: char| {
        c.is_control() || matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
    });
    let single = || format!("'{}'", text.replace('\'', "''"));
    match style {
        Some(ScalarStyle::SingleQuoted) if can_be_single => single(),
        Some(ScalarStyle::DoubleQuoted) => double_quoted(text),
        _ if is_plain(text, context) => text.to_owned(),
        _ if can_be_single && (quote == '\'' || needs_fewer_escapes(text)) => single(),
        _ => double_quoted(text),
    }
}

/// Returns a text in double quotes: JSON, with escapes also for what YAML does not take or reads as a line break.
fn double_quoted(text: &str) -> String {
    let json = json_string(text);
    let is_escaped = |c: char| {
        matches!(
            c,
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
        )
    };
    if !json.contains(is_escaped) {
        return json;
    }
    let escaped = |c: char| {
        if is_escaped(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() }
    };
    json.chars().map(escaped).collect()
}

/// Reports whether a text needs escapes in double quotes, and none in single ones: JSON in an annotation.
fn needs_fewer_escapes(text: &str) -> bool {
    text.contains(['"', '\\']) && !text.contains('\'')
}

/// Reports whether a text can be written without quotes, and means a text to every reader.
fn is_plain(text: &str, context: ScalarContext) -> bool {
    let starts_like_text = text.starts_with(|c: char| {
        c.is_alphanumeric() || matches!(c, '/' | '_' | '.' | '$' | '(' | '+' | '<' | '^')
    });
    // Some readers end a text in brackets at these.
    let is_bracket = |c: char| matches!(c, '{' | '}' | '[' | ']' | ',' | '?' | ':');
    let is_break = |c: char| matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}');
    let has_brackets = context == ScalarContext::Brackets && text.contains(is_bracket)
        || context == ScalarContext::Key && text.contains(['{', '}', '[', ']', ',', '?']);
    let is_short = context != ScalarContext::Key || text.len() < 128;
    starts_like_text
        && is_short
        && !ambiguity::is_ambiguous(text)
        && !text.ends_with([' ', ':', '\t'])
        && !has_brackets
        && !text.contains(|c: char| c.is_control() || is_break(c))
        && !text.contains(": ")
        && !text.contains(" #")
        && opgate_yaml::read_strict(&format!("- {text}\n"), 1 << 20)
            .is_ok_and(|json| json == format!("[{}]", json_string(text)).into_bytes())
}

/// Returns a value in brackets.
fn flow(value: Value<'_>, layout: &Layout<'_>, style: Option<ScalarStyle>) -> String {
    match value.kind() {
        Kind::Object => {
            let member = |(name, value): (&str, Value<'_>)| {
                let name = yaml_text(name, None, layout.quote, ScalarContext::Key);
                format!("{name}: {}", flow(value, layout, None))
            };
            format!("{{{}}}", members(value).into_iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Kind::List => {
            let items = value.items().map(|item| flow(item, layout, None));
            format!("[{}]", items.collect::<Vec<_>>().join(", "))
        }
        Kind::Text => yaml_text(
            value.text().unwrap_or_default(),
            style,
            layout.quote,
            ScalarContext::Brackets,
        ),
        _ => value.raw().trim().to_owned(),
    }
}

fn write_json(value: Value<'_>, spaces: JsonSpaces<'_>, json: &mut String) {
    let (open, close) = match value.kind() {
        Kind::Object => ('{', '}'),
        Kind::List => ('[', ']'),
        Kind::Text => return json.push_str(&double_quoted(value.text().unwrap_or_default())),
        _ => return json.push_str(value.raw().trim()),
    };
    json.push(open);
    let deeper =
        spaces.lines.map(|(line_end, indent, unit)| (line_end, format!("{indent}{unit}"), unit));
    let inner = JsonSpaces {
        lines: deeper.as_ref().map(|(line_end, indent, unit)| (*line_end, indent.as_str(), *unit)),
        ..spaces
    };
    let mut count = 0_usize;
    let mut separate = |json: &mut String| {
        if count > 0 {
            json.push(',');
        }
        match inner.lines {
            Some((line_end, indent, _)) => json.extend([line_end, indent]),
            None if count > 0 => json.push_str(spaces.comma),
            None => {}
        }
        count = count.saturating_add(1);
    };
    if close == '}' {
        for (name, member) in members(value) {
            separate(json);
            json.extend([json_string(name).as_str(), ":", spaces.colon]);
            write_json(member, inner, json);
        }
    } else {
        for item in value.items() {
            separate(json);
            write_json(item, inner, json);
        }
    }
    if let Some((line_end, indent, _)) = spaces.lines.filter(|_| count > 0) {
        json.extend([line_end, indent]);
    }
    json.push(close);
}
