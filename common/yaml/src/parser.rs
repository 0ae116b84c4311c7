//! Tokens into events, by the grammar of libyaml: one state a place in it, and a stack of where to go on.

use std::borrow::Cow;

use crate::error::{Error, Mark};
use crate::scanner::{Scanner, Style, Token};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event<'y> {
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(&'y str),
    Scalar {
        text: Cow<'y, str>,
        style: Style,
        /// In bytes of the text.
        end: usize,
        anchor: Option<&'y str>,
        tag: Option<Cow<'y, str>>,
    },
    ListStart {
        anchor: Option<&'y str>,
    },
    ListEnd,
    MapStart {
        anchor: Option<&'y str>,
    },
    MapEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Start of the first document, which needs no marker.
    FirstDocument,
    Document,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockEntry,
    IndentlessEntry,
    BlockKey,
    BlockValue,
    FlowFirstEntry,
    FlowEntry,
    /// `[a: b]`: a map of one member in a list.
    FlowEntryKey,
    FlowEntryValue,
    FlowEntryEnd,
    FlowFirstKey,
    FlowKey,
    FlowValue,
    FlowNoValue,
    End,
}

/// Position in a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeContext {
    Flow,
    Block,
    /// A value in a block, which may be a list that is not indented.
    Member,
}

pub(crate) struct Parser<'y> {
    scanner: Scanner<'y>,
    state: State,
    states: Vec<State>,
    /// Starts of the open collections.
    marks: Vec<Mark>,
    /// The `-` of the newest element of a block.
    pub(crate) dash: Mark,
    /// Handles of tags, and what they stand for.
    tag_prefixes: Vec<(&'y str, Cow<'y, str>)>,
}

type EventResult<'y> = Result<(Event<'y>, Mark), Error>;

impl<'y> Parser<'y> {
    pub(crate) fn new(text: &'y str) -> Result<Self, Error> {
        Ok(Self {
            scanner: Scanner::new(text)?,
            state: State::FirstDocument,
            states: Vec::new(),
            marks: Vec::new(),
            dash: Mark::default(),
            tag_prefixes: Vec::new(),
        })
    }

    /// Returns the next event, and its position. After an error or the end there are no more.
    pub(crate) fn next(&mut self) -> EventResult<'y> {
        match self.state {
            State::FirstDocument => self.document(true),
            State::Document => self.document(false),
            State::DocumentContent => {
                let (token, mark) = self.scanner.peek()?;
                if is_between(token) {
                    self.pop();
                    return Ok(empty(mark));
                }
                self.node(NodeContext::Block)
            }
            State::DocumentEnd => {
                let mark = self.scanner.peek()?.1;
                if matches!(self.scanner.peek()?.0, Token::DocumentEnd) {
                    self.scanner.take()?;
                }
                self.tag_prefixes.clear();
                self.state = State::Document;
                Ok((Event::DocumentEnd, mark))
            }
            State::BlockNode => self.node(NodeContext::Block),
            State::BlockEntry => self.block_entry(),
            State::IndentlessEntry => self.indentless_entry(),
            State::BlockKey => self.block_key(),
            State::BlockValue => self.block_value(),
            State::FlowFirstEntry => self.flow_entry(true),
            State::FlowEntry => self.flow_entry(false),
            State::FlowEntryKey => self.flow_entry_key(),
            State::FlowEntryValue => self.flow_entry_value(),
            State::FlowEntryEnd => {
                self.state = State::FlowEntry;
                Ok((Event::MapEnd, self.scanner.peek()?.1))
            }
            State::FlowFirstKey => self.flow_key(true),
            State::FlowKey => self.flow_key(false),
            State::FlowValue => self.flow_value(),
            State::FlowNoValue => {
                self.state = State::FlowKey;
                Ok(empty(self.scanner.peek()?.1))
            }
            State::End => Ok((Event::StreamEnd, Mark::default())),
        }
    }

    fn pop(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    /// Parses a node, after which the given state follows.
    fn node_then(&mut self, then: State, node_context: NodeContext) -> EventResult<'y> {
        self.states.push(then);
        self.node(node_context)
    }

    /// Returns an empty node at an optional position.
    fn empty_then(&mut self, then: State, mark: Mark) -> (Event<'y>, Mark) {
        self.state = then;
        empty(mark)
    }

    fn end(&mut self, event: Event<'y>) -> EventResult<'y> {
        self.pop();
        self.marks.pop();
        let (_, mark) = self.scanner.take()?;
        Ok((event, mark))
    }

    fn fail(&mut self, message: &'static str, mark: Mark) -> EventResult<'y> {
        let context = self.marks.last().copied().unwrap_or_default();
        Err(self.unexpected_end(message, mark, context))
    }

    /// Reports a missing token at the end of the text in the innermost collection.
    fn unexpected_end(&mut self, message: &'static str, mark: Mark, context: Mark) -> Error {
        let error = Error::parser(message, mark, context);
        let is_end = matches!(self.scanner.peek(), Ok((Token::StreamEnd, _)));
        match self.marks.last().filter(|_| is_end) {
            Some(open) => {
                error.with_position(*open, self.scanner.in_flow().then_some("unclosed bracket"))
            }
            None => error,
        }
    }

    // Documents.

    fn document(&mut self, may_be_bare: bool) -> EventResult<'y> {
        if !may_be_bare {
            while matches!(self.scanner.peek()?.0, Token::DocumentEnd) {
                self.scanner.take()?;
            }
        }
        let (token, mark) = self.scanner.peek()?;
        match token {
            Token::StreamEnd => {
                self.state = State::End;
                return Ok((Event::StreamEnd, mark));
            }
            Token::Version { .. } | Token::TagPrefix { .. } | Token::DocumentStart => {
                self.directives()?;
                let (token, at) = self.scanner.peek()?;
                if *token != Token::DocumentStart {
                    return Err(Error::parser(
                        "did not find expected <document start>",
                        at,
                        Mark::default(),
                    ));
                }
                self.scanner.take()?;
                self.state = State::DocumentContent;
            }
            _ if may_be_bare => {
                self.directives()?;
                self.state = State::BlockNode;
            }
            _ => {
                let message = "did not find expected <document start>";
                return Err(Error::parser(message, mark, Mark::default()));
            }
        }
        self.states.push(State::DocumentEnd);
        Ok((Event::DocumentStart, mark))
    }

    fn directives(&mut self) -> Result<(), Error> {
        let refuse = |message, mark| Err(Error::parser(message, mark, Mark::default()));
        let mut has_version = false;
        loop {
            match self.scanner.peek()? {
                (Token::Version { major, minor }, mark) => {
                    if has_version {
                        return refuse("found duplicate %YAML directive", mark);
                    }
                    // The version of go-yaml v2 takes no other; 1.2 is what v3 takes as well.
                    if *major != 1 || !matches!(minor, 1 | 2) {
                        return refuse("found incompatible YAML document", mark);
                    }
                    has_version = true;
                }
                (Token::TagPrefix { handle, prefix }, mark) => {
                    if self.tag_prefixes.iter().any(|(known, _)| known == handle) {
                        return refuse("found duplicate %TAG directive", mark);
                    }
                    let known = (*handle, prefix.clone());
                    self.tag_prefixes.push(known);
                }
                _ => break,
            }
            self.scanner.take()?;
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if !self.tag_prefixes.iter().any(|(known, _)| *known == handle) {
                self.tag_prefixes.push((handle, prefix.into()));
            }
        }
        Ok(())
    }

    // Nodes.

    fn node(&mut self, node_context: NodeContext) -> EventResult<'y> {
        if let (Token::Alias(name), mark) = self.scanner.peek()? {
            let event = (Event::Alias(name), mark);
            self.pop();
            self.scanner.take()?;
            return Ok(event);
        }
        let start = self.scanner.peek()?.1;
        let (mut anchor, mut tag) = (None, None);
        loop {
            match self.scanner.peek()?.0 {
                Token::Anchor(name) if anchor.is_none() => anchor = Some(*name),
                Token::Tag { .. } if tag.is_none() => {
                    let (token, mark) = self.scanner.take()?;
                    if let Token::Tag { handle, suffix } = token {
                        tag = Some(self.tag(handle, suffix, start, mark)?);
                    }
                    continue;
                }
                _ => break,
            }
            self.scanner.take()?;
        }
        let (token, mark) = self.scanner.peek()?;
        let (event, next) = match token {
            Token::BlockEntry if node_context == NodeContext::Member => {
                (Event::ListStart { anchor }, State::IndentlessEntry)
            }
            Token::Scalar { .. } => {
                self.pop();
                let (token, _) = self.scanner.take()?;
                let Token::Scalar { text, style, end } = token else {
                    return self.fail("did not find expected node content", mark);
                };
                return Ok((Event::Scalar { text, style, end, anchor, tag }, mark));
            }
            Token::FlowSequenceStart => (Event::ListStart { anchor }, State::FlowFirstEntry),
            Token::FlowMappingStart => (Event::MapStart { anchor }, State::FlowFirstKey),
            Token::BlockSequenceStart if node_context != NodeContext::Flow => {
                (Event::ListStart { anchor }, State::BlockEntry)
            }
            Token::BlockMappingStart if node_context != NodeContext::Flow => {
                (Event::MapStart { anchor }, State::BlockKey)
            }
            _ if anchor.is_some() || tag.is_some() => {
                self.pop();
                let text = Cow::Borrowed("");
                let (style, end) = (Style::Plain, start.offset);
                return Ok((Event::Scalar { text, style, end, anchor, tag }, start));
            }
            _ => {
                return Err(self.unexpected_end("did not find expected node content", mark, start));
            }
        };
        // The first entry starts a list that is not indented.
        if next != State::IndentlessEntry {
            self.scanner.take()?;
            self.marks.push(mark);
        }
        self.state = next;
        Ok((event, mark))
    }

    fn tag(
        &self,
        handle: &'y str,
        suffix: Cow<'y, str>,
        start: Mark,
        mark: Mark,
    ) -> Result<Cow<'y, str>, Error> {
        if handle.is_empty() {
            return Ok(suffix);
        }
        match self.tag_prefixes.iter().find(|(known, _)| *known == handle) {
            Some((_, prefix)) => Ok(Cow::Owned(format!("{prefix}{suffix}"))),
            None => Err(Error::parser("found undefined tag handle", mark, start)),
        }
    }

    // Blocks.

    fn block_entry(&mut self) -> EventResult<'y> {
        match self.scanner.peek()? {
            (Token::BlockEntry, mark) => {
                let after = mark.after(1);
                self.dash = mark;
                self.scanner.take()?;
                match self.scanner.peek()?.0 {
                    Token::BlockEntry | Token::BlockEnd => {
                        Ok(self.empty_then(State::BlockEntry, after))
                    }
                    _ => self.node_then(State::BlockEntry, NodeContext::Block),
                }
            }
            (Token::BlockEnd, _) => self.end(Event::ListEnd),
            (_, mark) => self.fail("did not find expected '-' indicator", mark),
        }
    }

    fn indentless_entry(&mut self) -> EventResult<'y> {
        match self.scanner.peek()? {
            (Token::BlockEntry, mark) => {
                let after = mark.after(1);
                self.dash = mark;
                self.scanner.take()?;
                match self.scanner.peek()?.0 {
                    Token::BlockEntry | Token::Key | Token::Value | Token::BlockEnd => {
                        Ok(self.empty_then(State::IndentlessEntry, after))
                    }
                    _ => self.node_then(State::IndentlessEntry, NodeContext::Block),
                }
            }
            (_, mark) => {
                self.pop();
                Ok((Event::ListEnd, mark))
            }
        }
    }

    fn block_key(&mut self) -> EventResult<'y> {
        match self.scanner.peek()? {
            (Token::Key, mark) => {
                self.scanner.take()?;
                match self.scanner.peek()?.0 {
                    Token::Key | Token::Value | Token::BlockEnd => {
                        Ok(self.empty_then(State::BlockValue, mark))
                    }
                    _ => self.node_then(State::BlockValue, NodeContext::Member),
                }
            }
            (Token::BlockEnd, _) => self.end(Event::MapEnd),
            (_, mark) => self.fail("did not find expected key", mark),
        }
    }

    fn block_value(&mut self) -> EventResult<'y> {
        match self.scanner.peek()? {
            (Token::Value, mark) => {
                let after = mark.after(1);
                self.scanner.take()?;
                match self.scanner.peek()?.0 {
                    Token::Key | Token::Value | Token::BlockEnd => {
                        Ok(self.empty_then(State::BlockKey, after))
                    }
                    _ => self.node_then(State::BlockKey, NodeContext::Member),
                }
            }
            (_, mark) => Ok(self.empty_then(State::BlockKey, mark)),
        }
    }

    // Flow collections.

    fn flow_entry(&mut self, is_first: bool) -> EventResult<'y> {
        let (mut token, mut mark) = self.scanner.peek()?;
        if *token != Token::FlowSequenceEnd {
            if !is_first {
                if *token != Token::FlowEntry {
                    return self.fail("did not find expected ',' or ']'", mark);
                }
                self.scanner.take()?;
                (token, mark) = self.scanner.peek()?;
            }
            if *token == Token::Key {
                self.scanner.take()?;
                self.state = State::FlowEntryKey;
                return Ok((Event::MapStart { anchor: None }, mark));
            }
            if *token != Token::FlowSequenceEnd {
                return self.node_then(State::FlowEntry, NodeContext::Flow);
            }
        }
        self.end(Event::ListEnd)
    }

    fn flow_entry_key(&mut self) -> EventResult<'y> {
        let (token, mark) = self.scanner.peek()?;
        if matches!(token, Token::Value | Token::FlowEntry | Token::FlowSequenceEnd) {
            // Upstream steps over it, whatever it is.
            self.scanner.take()?;
            return Ok(self.empty_then(State::FlowEntryValue, mark));
        }
        self.node_then(State::FlowEntryValue, NodeContext::Flow)
    }

    fn flow_entry_value(&mut self) -> EventResult<'y> {
        if *self.scanner.peek()?.0 == Token::Value {
            self.scanner.take()?;
            if !matches!(self.scanner.peek()?.0, Token::FlowEntry | Token::FlowSequenceEnd) {
                return self.node_then(State::FlowEntryEnd, NodeContext::Flow);
            }
        }
        let mark = self.scanner.peek()?.1;
        Ok(self.empty_then(State::FlowEntryEnd, mark))
    }

    fn flow_key(&mut self, is_first: bool) -> EventResult<'y> {
        let (mut token, mark) = self.scanner.peek()?;
        if *token != Token::FlowMappingEnd {
            if !is_first {
                if *token != Token::FlowEntry {
                    return self.fail("did not find expected ',' or '}'", mark);
                }
                self.scanner.take()?;
                token = self.scanner.peek()?.0;
            }
            if *token == Token::Key {
                self.scanner.take()?;
                let (token, mark) = self.scanner.peek()?;
                if matches!(token, Token::Value | Token::FlowEntry | Token::FlowMappingEnd) {
                    return Ok(self.empty_then(State::FlowValue, mark));
                }
                return self.node_then(State::FlowValue, NodeContext::Flow);
            }
            if *token != Token::FlowMappingEnd {
                return self.node_then(State::FlowNoValue, NodeContext::Flow);
            }
        }
        self.end(Event::MapEnd)
    }

    fn flow_value(&mut self) -> EventResult<'y> {
        if *self.scanner.peek()?.0 == Token::Value {
            self.scanner.take()?;
            if !matches!(self.scanner.peek()?.0, Token::FlowEntry | Token::FlowMappingEnd) {
                return self.node_then(State::FlowKey, NodeContext::Flow);
            }
        }
        let mark = self.scanner.peek()?.1;
        Ok(self.empty_then(State::FlowKey, mark))
    }
}

/// Reports whether a token separates documents.
fn is_between(token: &Token<'_>) -> bool {
    matches!(
        token,
        Token::Version { .. }
            | Token::TagPrefix { .. }
            | Token::DocumentStart
            | Token::DocumentEnd
            | Token::StreamEnd
    )
}

fn empty<'y>(mark: Mark) -> (Event<'y>, Mark) {
    let (text, style, end) = (Cow::Borrowed(""), Style::Plain, mark.offset);
    (Event::Scalar { text, style, end, anchor: None, tag: None }, mark)
}
