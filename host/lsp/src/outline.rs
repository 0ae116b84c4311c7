//! The structure of a text in YAML or JSON: names, elements and their places. It is read line by line without a
//! parser, so that a half-written text has one, too: what cannot be understood is left out.

use std::ops::Range;

/// Maximum number of nodes: more of a text is not described.
const MAX_NODES: usize = 200_000;
/// Maximum bytes of a quoted text that ends on a later line.
const MAX_QUOTED_BYTES: usize = 1 << 20;
/// Maximum nesting.
const MAX_DEPTH: usize = 256;

/// The place of a value in the value around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A whole document.
    Document,
    /// A member.
    Name(String),
    /// An element, from 0.
    Item(usize),
}

impl Key {
    /// Returns whether it is a member of this name.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        matches!(self, Self::Name(own) if own == name)
    }
}

/// A document, a member or an element.
#[derive(Debug, Clone)]
pub struct Node {
    /// The number of the node around it; none for a document.
    pub parent: Option<usize>,
    /// Its name or number.
    pub key: Key,
    /// The bytes of its name, or the start of an element.
    pub key_range: Range<usize>,
    /// The bytes of its text with quotes, if it is one; otherwise empty.
    pub value: Range<usize>,
    /// The end of everything in it.
    pub end: usize,
    /// The number of elements so far.
    items: usize,
}

/// The structure of a text.
#[derive(Debug, Clone, Default)]
pub struct Outline {
    nodes: Vec<Node>,
}

/// What comes next inside brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A name, or nothing.
    Name,
    /// A colon.
    Colon,
    /// A value.
    Value,
    /// A comma.
    Comma,
}

/// Brackets that are open.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// The node that they are the value of.
    pub(crate) node: usize,
    pub(crate) is_object: bool,
    pub(crate) expected: Expected,
    /// The member whose value is expected.
    pub(crate) member: Option<usize>,
}

/// A block that is open, by its indentation.
#[derive(Debug, Clone, Copy)]
struct OpenBlock {
    /// 0 for a document, otherwise the column from 1.
    level: usize,
    node: usize,
    is_item: bool,
}

/// Reads a text.
#[derive(Debug)]
pub(crate) struct Scanner<'t> {
    text: &'t str,
    pub(crate) nodes: Vec<Node>,
    open: Vec<OpenBlock>,
    /// Brackets that are open at the end.
    pub(crate) frames: Vec<Frame>,
    /// The level of a name with a block of text.
    pub(crate) text_level: Option<usize>,
    /// What begins before is read already.
    read_to: usize,
    last_end: usize,
}

/// Returns whether a text is JSON, as far as its start shows.
#[must_use]
pub fn is_json(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '['])
}

impl Outline {
    /// Reads a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut scanner = Scanner::new(text);
        scanner.read();
        Self { nodes: scanner.finish() }
    }

    /// Returns the nodes, each after the one around it.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the documents.
    pub fn documents(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().enumerate().filter(|(_, node)| node.parent.is_none()).map(|(at, _)| at)
    }

    /// Returns the members and elements of a node.
    pub fn children(&self, node: usize) -> impl Iterator<Item = usize> {
        let end = self.nodes.get(node).map_or(0, |node| node.end);
        let inner = self.nodes.iter().enumerate().skip(node + 1);
        let inner = inner.take_while(move |(_, inner)| inner.key_range.start < end.max(1));
        inner.filter(move |(_, inner)| inner.parent == Some(node)).map(|(at, _)| at)
    }

    /// Returns the node at names below another one.
    #[must_use]
    pub fn get(&self, node: usize, names: &[&str]) -> Option<usize> {
        names.iter().try_fold(node, |node, name| {
            self.children(node)
                .find(|child| self.nodes.get(*child).is_some_and(|child| child.key.is(name)))
        })
    }

    /// Returns the node at a path of a document.
    #[must_use]
    pub fn find(&self, document: usize, path: &[Key]) -> Option<usize> {
        path.iter().try_fold(document, |node, key| {
            self.children(node).find(|child| self.nodes.get(*child).is_some_and(|c| c.key == *key))
        })
    }

    /// Returns the text of a node, if it is one.
    #[must_use]
    pub fn text_of(&self, text: &str, node: usize) -> Option<String> {
        let value = self.nodes.get(node)?.value.clone();
        let raw = text.get(value)?;
        (!raw.is_empty()).then(|| unquote(raw))
    }

    /// Returns the text of the node at names below another one.
    #[must_use]
    pub fn text_at(&self, text: &str, node: usize, names: &[&str]) -> Option<String> {
        self.text_of(text, self.get(node, names)?)
    }

    /// Returns the innermost node whose name or text has an offset.
    #[must_use]
    pub fn node_at(&self, offset: usize) -> Option<usize> {
        let touches = |range: &Range<usize>| range.start <= offset && offset <= range.end;
        let is_at = |node: &Node| {
            touches(&node.key_range) && !node.key_range.is_empty()
                || touches(&node.value) && !node.value.is_empty()
        };
        self.nodes.iter().rposition(is_at)
    }

    /// Returns the document of a node, and its path in it.
    #[must_use]
    pub fn path(&self, node: usize) -> (usize, Vec<Key>) {
        path_of(&self.nodes, node)
    }
}

/// Returns the document of a node, and its path in it.
pub(crate) fn path_of(nodes: &[Node], node: usize) -> (usize, Vec<Key>) {
    let (mut at, mut path) = (node, Vec::new());
    while let Some(found) = nodes.get(at) {
        let Some(parent) = found.parent else { break };
        path.push(found.key.clone());
        at = parent;
    }
    path.reverse();
    (at, path)
}

/// Returns a text without its quotes.
#[must_use]
pub fn unquote(raw: &str) -> String {
    if let Some(inner) = raw.strip_prefix('"') {
        let inner = inner.strip_suffix('"').unwrap_or(inner);
        return serde_json::from_str(&format!("\"{inner}\"")).unwrap_or_else(|_| inner.to_owned());
    }
    match raw.strip_prefix('\'') {
        Some(inner) => inner.strip_suffix('\'').unwrap_or(inner).replace("''", "'"),
        None => raw.to_owned(),
    }
}

impl<'t> Scanner<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self {
            text,
            nodes: Vec::new(),
            open: Vec::new(),
            frames: Vec::new(),
            text_level: None,
            read_to: 0,
            last_end: 0,
        }
    }

    /// Reads everything.
    pub(crate) fn read(&mut self) {
        if is_json(self.text) {
            self.read_json();
        } else {
            self.read_lines(self.text.len());
        }
    }

    fn finish(mut self) -> Vec<Node> {
        while let Some(frame) = self.frames.pop() {
            self.end_node(frame.node, self.text.len());
        }
        self.close(0, false);
        self.nodes
    }

    /// Reads the values of a text in JSON, one after another.
    fn read_json(&mut self) {
        let mut at = 0;
        while let Some(found) =
            self.text.get(at..).and_then(|rest| rest.find(['{', '['])).map(|found| at + found)
        {
            self.close(0, false);
            self.start_document(found);
            let document = self.nodes.len().saturating_sub(1);
            at = self.read_brackets(found, document).max(found + 1);
            if !self.frames.is_empty() || self.is_full() {
                break;
            }
        }
    }

    /// Reads the lines that begin before an offset.
    pub(crate) fn read_lines(&mut self, end: usize) {
        let mut start = 0;
        while start < end && !self.is_full() {
            let rest = self.text.get(start..).unwrap_or_default();
            let length = rest.find('\n').map_or(rest.len(), |newline| newline + 1);
            let line = rest.get(..length).unwrap_or_default().trim_end_matches(['\n', '\r']);
            if start >= self.read_to {
                self.read_line(start, line);
            }
            start += length.max(1);
        }
    }

    fn is_full(&self) -> bool {
        self.nodes.len() >= MAX_NODES
    }

    fn read_line(&mut self, start: usize, line: &str) {
        let (start, line) = match line.strip_prefix('\u{feff}') {
            Some(rest) if start == 0 => (line.len() - rest.len(), rest),
            _ => (start, line),
        };
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        let is_empty = content.trim().is_empty();
        if let Some(level) = self.text_level {
            if is_empty || indent + 1 > level {
                if !is_empty {
                    self.last_end = start + line.len();
                }
                return;
            }
            self.text_level = None;
        }
        if is_empty || content.starts_with('#') {
            return;
        }
        if indent == 0 && (line == "---" || line.starts_with("--- ")) {
            self.close(0, false);
            self.start_document(start + line.len());
            return;
        }
        if indent == 0 && line.starts_with("...") {
            return;
        }
        if self.open.is_empty() {
            self.start_document(start);
        }
        let (column, rest) = self.read_dashes(start, indent, content);
        if !rest.is_empty() {
            self.read_entry(start + column, column + 1, rest);
        }
    }

    /// Opens the elements at the start of a line. Returns the column after them, and the rest of the line.
    pub(crate) fn read_dashes<'l>(
        &mut self,
        start: usize,
        indent: usize,
        content: &'l str,
    ) -> (usize, &'l str) {
        let (mut column, mut rest) = (indent, content);
        while let Some(after) = rest.strip_prefix('-') {
            if !(after.is_empty() || after.starts_with(' ')) {
                break;
            }
            self.close(column + 1, true);
            let at = start + column;
            self.last_end = at + 1;
            if let Some(node) = self.add_item(at..at + 1) {
                self.open.push(OpenBlock { level: column + 1, node, is_item: true });
            }
            let inner = after.trim_start_matches(' ');
            column += 1 + after.len() - inner.len();
            rest = inner;
        }
        (column, rest)
    }

    fn read_entry(&mut self, at: usize, level: usize, rest: &str) {
        let line_end = at + rest.trim_end().len();
        let Some((name, after)) = split_name(rest) else {
            self.last_end = line_end;
            let target = self.open.last().map(|block| block.node);
            self.read_value(at, rest, target, level.saturating_sub(1));
            return;
        };
        self.close(level, false);
        self.last_end = line_end;
        let Some(parent) = self.open.last().map(|block| block.node) else { return };
        if self.open.len() >= MAX_DEPTH {
            return;
        }
        let range = at..at + name.len();
        let Some(node) = self.add_node(parent, Key::Name(unquote(name)), range) else { return };
        self.open.push(OpenBlock { level, node, is_item: false });
        let value = rest.get(after..).unwrap_or_default();
        let inner = value.trim_start();
        self.read_value(at + after + value.len() - inner.len(), inner, Some(node), level);
    }

    /// Reads the value behind a name or a dash.
    fn read_value(&mut self, at: usize, value: &str, node: Option<usize>, level: usize) {
        let (mut at, mut value) = (at, value.trim_end());
        let Some(node) = node else { return };
        // Anchors and tags.
        while value.starts_with(['&', '!']) {
            let token = value.find(' ').unwrap_or(value.len());
            let inner = value.get(token..).unwrap_or_default().trim_start();
            (at, value) = (at + value.len() - inner.len(), inner);
        }
        match value.chars().next() {
            None | Some('#') => {}
            Some('|' | '>') => self.text_level = Some(level),
            Some('{' | '[') => {
                self.read_to = self.read_brackets(at, node);
                self.last_end = self.last_end.max(self.read_to);
            }
            Some('"' | '\'') => {
                let end = self.string_end(at, true);
                self.set_value(node, at..end);
                self.read_to = self.read_to.max(end);
                self.last_end = self.last_end.max(end);
            }
            Some(_) => {
                let end = value.find(" #").unwrap_or(value.len());
                let length = value.get(..end).unwrap_or_default().trim_end().len();
                self.set_value(node, at..at + length);
            }
        }
    }

    fn set_value(&mut self, node: usize, range: Range<usize>) {
        if let Some(node) = self.nodes.get_mut(node)
            && node.value.is_empty()
        {
            node.end = node.end.max(range.end);
            node.value = range;
        }
    }

    fn start_document(&mut self, at: usize) {
        let node = self.nodes.len();
        self.nodes.push(new_node(None, Key::Document, at..at));
        self.last_end = at;
        self.open = vec![OpenBlock { level: 0, node, is_item: false }];
    }

    /// Ends the blocks that are not around something at a level.
    pub(crate) fn close(&mut self, level: usize, is_item: bool) {
        while let Some(block) = self.open.last().copied() {
            // The elements of a list can have the column of its name.
            let is_around =
                block.level < level || block.level == level && is_item && !block.is_item;
            if level > 0 && is_around {
                break;
            }
            self.end_node(block.node, self.last_end);
            self.open.pop();
        }
    }

    fn end_node(&mut self, node: usize, end: usize) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.end = node.end.max(end).max(node.value.end).max(node.key_range.end);
        }
    }

    /// Returns the innermost open block.
    pub(crate) fn innermost(&self) -> Option<usize> {
        self.open.last().map(|block| block.node)
    }

    fn add_item(&mut self, range: Range<usize>) -> Option<usize> {
        let parent = self.open.last()?.node;
        self.add_element(parent, range)
    }

    fn add_element(&mut self, parent: usize, range: Range<usize>) -> Option<usize> {
        let around = self.nodes.get_mut(parent)?;
        let index = around.items;
        around.items += 1;
        self.add_node(parent, Key::Item(index), range)
    }

    fn add_node(&mut self, parent: usize, key: Key, range: Range<usize>) -> Option<usize> {
        if self.is_full() {
            return None;
        }
        self.nodes.push(new_node(Some(parent), key, range));
        Some(self.nodes.len() - 1)
    }

    /// Reads brackets that start at an offset. Returns the offset behind them, or the end of the text.
    fn read_brackets(&mut self, start: usize, node: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut at = start;
        while let Some(byte) = bytes.get(at).copied() {
            if self.is_full() {
                return bytes.len();
            }
            match byte {
                b'{' | b'[' => {
                    let around =
                        if self.frames.is_empty() { Some(node) } else { self.value_node(at) };
                    let Some(around) = around.filter(|_| self.frames.len() < MAX_DEPTH) else {
                        return bytes.len();
                    };
                    let is_object = byte == b'{';
                    let expected = if is_object { Expected::Name } else { Expected::Value };
                    self.frames.push(Frame { node: around, is_object, expected, member: None });
                    at += 1;
                }
                b'}' | b']' => {
                    at += 1;
                    if let Some(frame) = self.frames.pop() {
                        self.end_node(frame.node, at);
                    }
                    match self.frames.last_mut() {
                        Some(frame) => frame.end_value(at, &mut self.nodes),
                        None => return at,
                    }
                }
                b',' => {
                    if let Some(frame) = self.frames.last_mut() {
                        frame.member = None;
                        frame.expected =
                            if frame.is_object { Expected::Name } else { Expected::Value };
                    }
                    at += 1;
                }
                b':' => {
                    if let Some(frame) = self.frames.last_mut()
                        && frame.is_object
                    {
                        frame.expected = Expected::Value;
                    }
                    at += 1;
                }
                b' ' | b'\t' | b'\n' | b'\r' => at += 1,
                _ => at = self.read_token(at),
            }
        }
        bytes.len()
    }

    /// Reads a name or a text in brackets. Returns the offset behind it.
    fn read_token(&mut self, at: usize) -> usize {
        let end = match self.text.as_bytes().get(at) {
            Some(b'"' | b'\'') => self.string_end(at, false),
            _ => self.plain_end(at),
        };
        let range = at..end;
        let Some(frame) = self.frames.last() else { return end };
        // Without a comma or a colon, the next text in an object is a name.
        if frame.is_object && frame.expected != Expected::Value {
            let name = unquote(self.text.get(range.clone()).unwrap_or_default().trim_end());
            let parent = frame.node;
            let node = self.add_node(parent, Key::Name(name), range);
            if let Some(frame) = self.frames.last_mut() {
                (frame.member, frame.expected) = (node, Expected::Colon);
            }
        } else if let Some(node) = self.value_node(at) {
            self.set_value(node, range);
            if let Some(frame) = self.frames.last_mut() {
                frame.end_value(end, &mut self.nodes);
            }
        }
        end
    }

    /// Returns the node that a value at an offset belongs to: a member, or a new element.
    fn value_node(&mut self, at: usize) -> Option<usize> {
        let frame = self.frames.last()?;
        if frame.is_object {
            return frame.member;
        }
        let parent = frame.node;
        self.add_element(parent, at..at)
    }

    /// Returns the end of a quoted text: behind its quote, or the end of its line.
    fn string_end(&self, start: usize, can_continue: bool) -> usize {
        let rest = self.text.get(start..).unwrap_or_default();
        let quote = rest.chars().next().unwrap_or('"');
        let mut characters = rest.char_indices().skip(1).peekable();
        let mut line_end = None;
        while let Some((at, c)) = characters.next() {
            if at > MAX_QUOTED_BYTES {
                break;
            }
            match c {
                '\\' if quote == '"' => drop(characters.next()),
                '\n' if !can_continue => return start + at,
                '\n' => drop(line_end.get_or_insert(at)),
                c if c == quote => {
                    if quote == '\'' && characters.peek().is_some_and(|(_, next)| *next == '\'') {
                        characters.next();
                    } else {
                        return start + at + 1;
                    }
                }
                _ => {}
            }
        }
        start + line_end.unwrap_or(rest.len())
    }

    fn plain_end(&self, start: usize) -> usize {
        let rest = self.text.get(start..).unwrap_or_default();
        let is_end = |(at, c): &(usize, char)| match c {
            ',' | '}' | ']' | '{' | '[' | '"' | '\n' | '\r' => true,
            ':' => rest
                .get(at + 1..)
                .is_none_or(|after| after.is_empty() || after.starts_with([' ', '\n', '\r'])),
            _ => false,
        };
        let end = rest.char_indices().find(is_end).map_or(rest.len(), |(at, _)| at);
        let length = rest.get(..end).unwrap_or_default().trim_end().len();
        start + length.max(1).min(rest.len().max(1))
    }
}

impl Frame {
    fn end_value(&mut self, end: usize, nodes: &mut [Node]) {
        self.expected = Expected::Comma;
        if let Some(node) = self.member.take().and_then(|member| nodes.get_mut(member)) {
            node.end = node.end.max(end);
        }
    }
}

fn new_node(parent: Option<usize>, key: Key, key_range: Range<usize>) -> Node {
    let end = key_range.end;
    Node { parent, key, value: end..end, end, key_range, items: 0 }
}

/// Splits `name: value`. Returns the name with its quotes, and the offset behind the colon.
pub(crate) fn split_name(entry: &str) -> Option<(&str, usize)> {
    let is_colon = |at: usize| {
        let rest = entry.get(at..).unwrap_or_default();
        rest == ":" || rest.starts_with(": ")
    };
    if let Some(quote) = entry.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let close = entry.get(1..)?.find(quote)? + 2;
        let rest = entry.get(close..)?;
        let colon = close + rest.len() - rest.trim_start().len();
        return is_colon(colon).then(|| Some((entry.get(..close)?, colon + 1))).flatten();
    }
    if entry.starts_with(['{', '[', '|', '>', '#', '&', '*', '!']) {
        return None;
    }
    let colon = entry.match_indices(':').map(|(at, _)| at).find(|at| is_colon(*at))?;
    let name = entry.get(..colon)?;
    (!name.contains(" #")).then(|| (name.trim_end(), colon + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn describe(text: &str) -> Vec<String> {
        let outline = Outline::of(text);
        let line = |(at, node): (usize, &Node)| {
            let (_, path) = outline.path(at);
            let path = path.iter().map(|key| match key {
                Key::Document => "---".to_owned(),
                Key::Name(name) => name.clone(),
                Key::Item(index) => index.to_string(),
            });
            let path = path.collect::<Vec<_>>().join("/");
            let value = outline.text_of(text, at).unwrap_or_default();
            let inner = text.get(node.key_range.start..node.end).unwrap_or("?");
            format!("{path}={value} [{}]", inner.lines().count())
        };
        outline.nodes().iter().enumerate().map(line).collect()
    }

    #[test]
    fn many_anchors_are_read_without_recursion() {
        let text = format!("a: {}b\n", "& ".repeat(200_000));
        let outline = Outline::of(&text);
        let document = outline.documents().next().unwrap();
        assert_eq!(outline.text_at(&text, document, &["a"]).as_deref(), Some("b"));
        assert_eq!(Outline::of(&format!("- {}", "!".repeat(200_000))).nodes().len(), 2);
    }

    #[test]
    fn yaml_has_its_structure() {
        let text = "# x\nkind: A # b\nmetadata:\n  annotations:\n    \"a/b\": 'it''s'\n    c: |-\n      d: e\n\n      f\n  name: n\nlist:\n- a: 1\n  b: {x: [1, y]}\n-   - z\nlast: \"a\n  b\"\n---\nkind: B\n";
        assert_eq!(
            describe(text),
            [
                "= [15]",
                "kind=A [1]",
                "metadata= [8]",
                "metadata/annotations= [6]",
                "metadata/annotations/a/b=it's [1]",
                "metadata/annotations/c= [4]",
                "metadata/name=n [1]",
                "list= [4]",
                "list/0= [2]",
                "list/0/a=1 [1]",
                "list/0/b= [1]",
                "list/0/b/x= [1]",
                "list/0/b/x/0=1 [1]",
                "list/0/b/x/1=y [1]",
                "list/1= [1]",
                "list/1/0=z [1]",
                "last=a\n  b [2]",
                "= [2]",
                "kind=B [1]",
            ]
        );
    }

    #[test]
    fn json_has_its_structure() {
        let text = "{\"a\": {\"b\": [1, {\"c\": \"d\\\"e\"}]}}\n{\"f\": true}";
        let names: Vec<_> = describe(text);
        assert_eq!(
            names,
            [
                "= [1]",
                "a= [1]",
                "a/b= [1]",
                "a/b/0=1 [1]",
                "a/b/1= [1]",
                "a/b/1/c=d\"e [1]",
                "= [1]",
                "f=true [1]"
            ]
        );
    }

    #[test]
    fn half_written_text_has_the_structure_that_is_there() {
        for (text, expected) in [
            ("a:\n  b: 1\n  c\nd: [1\n", &["=", "a=", "a/b=1", "d=", "d/0=1"][..]),
            ("{\"a\": 1 \"b\"\n \"c\": {", &["=", "a=1", "b=", "c="]),
            ("{\"a\": \"x\n \"b\": 2}", &["=", "a=x", "b=2"]),
            ("a: \"x\nb: 1\n", &["=", "a=x", "b=1"]),
            ("- a\n-\n- b: ", &["=", "0=a", "1=", "2=", "2/b="]),
            ("\u{feff}a: 1", &["=", "a=1"]),
            (":\n: x\n- ]\n}", &["=", "=", "=x", "/0=]"]),
        ] {
            let found: Vec<_> = describe(text)
                .iter()
                .map(|line| line.rsplit_once(" [").unwrap().0.to_owned())
                .collect();
            assert_eq!(found, expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_structure(text in "[ab:\\- \\n\"'{}\\[\\],|#&\u{e4}]{0,80}") {
            let outline = Outline::of(&text);
            for (at, node) in outline.nodes().iter().enumerate() {
                prop_assert!(node.parent.is_none_or(|parent| parent < at));
                prop_assert!(text.get(node.key_range.clone()).is_some());
                prop_assert!(text.get(node.value.clone()).is_some());
                prop_assert!(node.end <= text.len());
            }
        }
    }
}
