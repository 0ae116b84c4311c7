//! A text as nodes with their positions and styles, for edits of the text.
//!
//! The nodes are what is written: an alias is one node, and a name that stands twice is there twice. The JSON that
//! [`crate::documents`] makes of the text is a separate result.

use std::borrow::Cow;

use crate::MAX_DEPTH;
use crate::error::{Error, Mark};
use crate::parser::{Event, Parser};
use crate::scalar::{BooleanWords, Value, float_key, resolve};
use crate::scanner::{Style, too_deep_message};

/// A node, in bytes of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its start, behind an anchor and a tag.
    pub start: usize,
    /// The end of its last character. A node that is not written ends at its start.
    pub end: usize,
    /// Whether it has an anchor or a tag.
    pub is_marked: bool,
    /// What it is.
    pub kind: NodeKind,
}

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// A text, a number, a word, or nothing.
    Scalar(ScalarStyle),
    /// A map.
    Map(CollectionStyle, Vec<Member>),
    /// A list.
    List(CollectionStyle, Vec<Element>),
    /// `*name`.
    Alias,
}

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarStyle {
    /// Without quotes.
    Plain,
    /// `'…'`
    SingleQuoted,
    /// `"…"`
    DoubleQuoted,
    /// `|`
    Literal,
    /// `>`
    Folded,
}

/// How a map or list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectionStyle {
    /// On separate lines, by indentation.
    Block,
    /// In brackets.
    Flow,
    /// The map of one member in `[a: b]`.
    Pair,
}

/// A member of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name in JSON; none if it is an alias or a collection.
    pub name: Option<String>,
    /// Whether it is `<<`, which stands for members of other maps.
    pub is_merge: bool,
    /// The name in the text.
    pub key: Node,
    /// The value.
    pub value: Node,
}

/// An element of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Its `-`; in brackets its start.
    pub dash: usize,
    /// The value.
    pub value: Node,
}

/// A collection that is not complete.
struct Open {
    start: usize,
    is_marked: bool,
    style: CollectionStyle,
    dash: usize,
    content: Content,
}

enum Content {
    Map { key: Option<(Node, Option<String>, bool)>, members: Vec<Member> },
    List(Vec<Element>),
}

/// Returns the nodes of all documents of a text, in the order of [`crate::documents`], which leaves out empty ones.
///
/// # Errors
/// Fails if the text is no YAML.
pub fn documents(text: &str, booleans: BooleanWords) -> Result<Vec<Node>, Error> {
    let mut parser = Parser::new(text)?;
    let mut builder = Builder { text, booleans, open: Vec::new(), roots: Vec::new() };
    loop {
        let (event, mark) = parser.next()?;
        if matches!(event, Event::StreamEnd) {
            return Ok(builder.roots);
        }
        builder.event(event, mark, parser.dash)?;
    }
}

struct Builder<'y> {
    text: &'y str,
    booleans: BooleanWords,
    open: Vec<Open>,
    roots: Vec<Node>,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, mark: Mark, dash: Mark) -> Result<(), Error> {
        match event {
            Event::Scalar { text, style, end, anchor, tag } => {
                let is_marked = anchor.is_some() || tag.is_some();
                let kind = NodeKind::Scalar(self.scalar_style(style, mark.offset));
                let node = Node { start: mark.offset, end, is_marked, kind };
                let value =
                    resolve(text.clone(), style == Style::Plain, tag.as_deref(), self.booleans);
                let value = value.map_err(|why| Error::value(why.to_string(), mark))?;
                let is_merge = style == Style::Plain && tag.is_none() && text == "<<";
                self.add(node, Some(value), is_merge, dash.offset);
            }
            Event::Alias(name) => {
                // The name follows the asterisk.
                let end = mark.offset.saturating_add(name.len()).saturating_add(1);
                let kind = NodeKind::Alias;
                let node = Node { start: mark.offset, end, is_marked: false, kind };
                self.add(node, None, false, dash.offset);
            }
            Event::MapStart { anchor } => {
                let members = Vec::new();
                let content = Content::Map { key: None, members };
                self.start(content, '{', anchor.is_some(), mark, dash)?;
            }
            Event::ListStart { anchor } => {
                self.start(Content::List(Vec::new()), '[', anchor.is_some(), mark, dash)?;
            }
            Event::MapEnd | Event::ListEnd => self.end(mark),
            Event::StreamEnd | Event::DocumentStart | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn scalar_style(&self, style: Style, start: usize) -> ScalarStyle {
        match style {
            Style::Plain => ScalarStyle::Plain,
            Style::Literal => ScalarStyle::Literal,
            Style::Folded => ScalarStyle::Folded,
            Style::Quoted if self.text.as_bytes().get(start) == Some(&b'\'') => {
                ScalarStyle::SingleQuoted
            }
            Style::Quoted => ScalarStyle::DoubleQuoted,
        }
    }

    fn start(
        &mut self,
        content: Content,
        bracket: char,
        is_marked: bool,
        mark: Mark,
        dash: Mark,
    ) -> Result<(), Error> {
        let is_inside = self.open.last().is_some_and(|open| open.style != CollectionStyle::Block);
        let rest = self.text.get(mark.offset..).unwrap_or_default();
        let style = match (rest.starts_with(bracket), is_inside) {
            (true, _) => CollectionStyle::Flow,
            (false, true) => CollectionStyle::Pair,
            (false, false) => CollectionStyle::Block,
        };
        let (start, dash) = (mark.offset, dash.offset);
        self.open.push(Open { start, is_marked, style, dash, content });
        if self.open.len() > MAX_DEPTH {
            return Err(Error::value(too_deep_message(), mark));
        }
        Ok(())
    }

    fn end(&mut self, mark: Mark) {
        let Some(Open { start, is_marked, style, dash, content }) = self.open.pop() else { return };
        let (last, kind) = match content {
            Content::Map { members, .. } => {
                let last = members.last().map(|member| member.value.end.max(member.key.end));
                (last, NodeKind::Map(style, members))
            }
            Content::List(elements) => {
                let last = elements.last();
                let last = last.map(|last| last.value.end.max(last.dash.saturating_add(1)));
                (last, NodeKind::List(style, elements))
            }
        };
        let end = match style {
            CollectionStyle::Flow => mark.offset.saturating_add(1),
            CollectionStyle::Block | CollectionStyle::Pair => last.unwrap_or(start),
        };
        self.add(Node { start, end, is_marked, kind }, None, false, dash);
    }

    /// Adds a complete node to the collection around it. `value` is that of a scalar.
    fn add(&mut self, node: Node, value: Option<Value<'_>>, is_merge: bool, dash: usize) {
        let Some(open) = self.open.last_mut() else {
            if value != Some(Value::Null) {
                self.roots.push(node);
            }
            return;
        };
        match &mut open.content {
            Content::List(elements) => {
                let is_block = open.style == CollectionStyle::Block;
                let dash = if is_block { dash } else { node.start };
                elements.push(Element { dash, value: node });
            }
            Content::Map { key, members } => match key.take() {
                None => *key = Some((node, value.and_then(name), is_merge)),
                Some((key, name, is_merge)) => {
                    members.push(Member { name, is_merge, key, value: node });
                }
            },
        }
    }
}

/// Returns a key as a name in JSON.
fn name(value: Value<'_>) -> Option<String> {
    Some(match value {
        Value::Text(text) => Cow::into_owned(text),
        Value::Int(number) => number.to_string(),
        Value::Bool(is_true) => is_true.to_string(),
        Value::Float(number) => float_key(number),
        Value::Null | Value::Uint(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nodes as text: each with its source, in brackets by kind.
    fn shown(text: &str, node: &Node) -> String {
        let source = text.get(node.start..node.end).unwrap();
        match &node.kind {
            NodeKind::Alias => source.to_owned(),
            NodeKind::Scalar(style) => format!("{style:?}({source})"),
            NodeKind::Map(style, members) => {
                let member = |member: &Member| {
                    let name = member.name.as_deref().unwrap_or("?");
                    format!("{name}={}", shown(text, &member.value))
                };
                let members: Vec<_> = members.iter().map(member).collect();
                format!("{style:?}{{{}}}", members.join(" "))
            }
            NodeKind::List(style, elements) => {
                let element = |element: &Element| {
                    let dash = text.get(element.dash..).unwrap();
                    let is_dash = dash.starts_with('-') || *style != CollectionStyle::Block;
                    assert!(is_dash, "{dash}");
                    shown(text, &element.value)
                };
                let elements: Vec<_> = elements.iter().map(element).collect();
                format!("{style:?}[{}]", elements.join(" "))
            }
        }
    }

    #[test]
    fn nodes_have_their_source_and_style() {
        for (text, expected) in [
            ("a: 1 # x\n", "Block{a=Plain(1)}"),
            (
                "a:\n  - b: 'x''y'\n    c: \"d\\\"\"\n  -\n    - e\n  -\n",
                "Block{a=Block[Block{b=SingleQuoted('x''y') c=DoubleQuoted(\"d\\\"\")} Block[Plain(e)] Plain()]}",
            ),
            ("a:\n- b\n- - c\n  - d\n", "Block{a=Block[Plain(b) Block[Plain(c) Plain(d)]]}"),
            (
                "a: {b: [1, c], d: e} \nf:\n",
                "Block{a=Flow{b=Flow[Plain(1) Plain(c)] d=Plain(e)} f=Plain()}",
            ),
            ("a: |\n  x\n  y\n\nb: >-\n  z\n", "Block{a=Literal(|\n  x\n  y) b=Folded(>-\n  z)}"),
            ("a: |+\n  x\n\nb: 1\n", "Block{a=Literal(|+\n  x\n) b=Plain(1)}"),
            ("a: b\n  c\nd: 1\n", "Block{a=Plain(b\n  c) d=Plain(1)}"),
            ("a: &x {b: 1}\nc: *x\n<<: *x\n", "Block{a=Flow{b=Plain(1)} c=*x <<=*x}"),
            ("[a: b, c]\n", "Flow[Pair{a=Plain(b)} Plain(c)]"),
            ("1: a\ntrue: b\n? c\n: d\n", "Block{1=Plain(a) true=Plain(b) c=Plain(d)}"),
            (
                "a: b\r\nc: |\r\n  x\r\n  y\r\nd: e\r\n",
                "Block{a=Plain(b) c=Literal(|\r\n  x\r\n  y) d=Plain(e)}",
            ),
        ] {
            let roots = documents(text, BooleanWords::Yaml11).unwrap();
            let [root] = &roots[..] else { panic!("{roots:?}") };
            assert_eq!(shown(text, root), expected, "{text}");
        }
    }

    #[test]
    fn empty_documents_are_left_out() {
        let roots =
            documents("# x\n---\n---\na: 1\n---\n~\n---\n- b\n", BooleanWords::Yaml11).unwrap();
        assert_eq!(roots.iter().map(|root| root.start).collect::<Vec<_>>(), [12, 27]);
    }
}
