//! Text into tokens, by the rules of libyaml as go-yaml has them.
//!
//! Indentation becomes separate tokens. A scalar is known to be a key only at its `:`, which may come 1,024
//! characters later on the same line: the tokens between wait in a queue, and the token for the start of a
//! key is inserted before them.
//!
//! Differences: encodings other than UTF-8, and 10,000 levels; here the limit is [`MAX_DEPTH`].

mod scalars;
mod tags;

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::MAX_DEPTH;
use crate::error::{Error, Mark};

/// Style of a scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Quoted,
    Literal,
    Folded,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token<'y> {
    StreamEnd,
    Version { major: u32, minor: u32 },
    TagPrefix { handle: &'y str, prefix: Cow<'y, str> },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(&'y str),
    Anchor(&'y str),
    Tag { handle: &'y str, suffix: Cow<'y, str> },
    Scalar { text: Cow<'y, str>, style: Style, end: usize },
}

/// A possible key.
#[derive(Debug, Clone, Copy, Default)]
struct Candidate {
    is_possible: bool,
    /// No other token is valid here.
    is_required: bool,
    /// Number of the token.
    number: usize,
    mark: Mark,
}

pub(crate) struct Scanner<'y> {
    text: &'y str,
    offset: usize,
    line: usize,
    line_start: usize,
    /// Whether there are line breaks in it that are not ASCII.
    has_odd_breaks: bool,
    tokens: VecDeque<(Token<'y>, Mark)>,
    /// Number of tokens taken from the queue.
    tokens_taken: usize,
    flow_level: usize,
    /// Columns of the open block collections around the innermost one, whose column is `indent`.
    indents: Vec<isize>,
    indent: isize,
    /// Whether a key may begin here.
    may_be_key: bool,
    /// One for each open flow collection, and one for what is around them.
    candidates: Vec<Candidate>,
}

const NO_KEY: &str = "could not find expected ':'";
const CANNOT_START: &str = "found character that cannot start any token";

pub(crate) fn too_deep_message() -> String {
    format!("nests deeper than {MAX_DEPTH} levels")
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn signed(column: usize) -> isize {
    isize::try_from(column).unwrap_or(isize::MAX)
}

/// Reports whether a text has line breaks that are not ASCII; fails at a character that no YAML may have.
fn check_characters(text: &str) -> Result<bool, usize> {
    let mut has_odd_breaks = false;
    let bytes = text.as_bytes();
    for (offset, byte) in bytes.iter().enumerate() {
        match byte {
            b'\t'
            | b'\n'
            | b'\r'
            | 0x20..=0x7e
            | 0x80..=0xc1
            | 0xc3..=0xe1
            | 0xe3..=0xee
            | 0xf0.. => {}
            0xc2 => match bytes.get(offset + 1) {
                Some(0x85) => has_odd_breaks = true,
                Some(0x80..0xa0) => return Err(offset),
                _ => {}
            },
            0xe2 => {
                let rest = bytes.get(offset + 1..offset + 3).unwrap_or_default();
                has_odd_breaks |= matches!(rest, [0x80, 0xa8 | 0xa9]);
            }
            0xef => {
                let rest = bytes.get(offset + 1..offset + 3).unwrap_or_default();
                if matches!(rest, [0xbf, 0xbe | 0xbf]) {
                    return Err(offset);
                }
            }
            _ => return Err(offset),
        }
    }
    Ok(has_odd_breaks)
}

impl<'y> Scanner<'y> {
    pub(crate) fn new(text: &'y str) -> Result<Self, Error> {
        let has_odd_breaks = check_characters(text).map_err(|offset| {
            let mark = Mark { offset, ..Mark::default() };
            Error::value("control characters are not allowed", mark)
        })?;
        let mut scanner = Self {
            text,
            offset: 0,
            line: 0,
            line_start: 0,
            has_odd_breaks,
            tokens: VecDeque::new(),
            tokens_taken: 0,
            flow_level: 0,
            indents: Vec::new(),
            indent: -1,
            may_be_key: true,
            candidates: vec![Candidate::default()],
        };
        if text.starts_with('\u{feff}') {
            scanner.offset = '\u{feff}'.len_utf8();
            scanner.line_start = scanner.offset;
        }
        Ok(scanner)
    }

    /// Returns the next token, without taking it.
    pub(crate) fn peek(&mut self) -> Result<(&Token<'y>, Mark), Error> {
        while self.must_fetch()? {
            self.fetch()?;
        }
        match self.tokens.front() {
            Some((token, mark)) => Ok((token, *mark)),
            None => Err(self.error(CANNOT_START, self.mark())),
        }
    }

    pub(crate) fn take(&mut self) -> Result<(Token<'y>, Mark), Error> {
        self.peek()?;
        self.tokens_taken += 1;
        self.tokens.pop_front().ok_or_else(|| self.error(CANNOT_START, self.mark()))
    }

    /// Reports whether the queue needs another token: it is empty, or its first one may be a key.
    fn must_fetch(&mut self) -> Result<bool, Error> {
        if self.tokens.is_empty() {
            return Ok(true);
        }
        let taken = self.tokens_taken;
        let is_first = |candidate: &Candidate| candidate.is_possible && candidate.number == taken;
        match self.candidates.iter().position(is_first) {
            Some(index) => self.check_candidate(index),
            None => Ok(false),
        }
    }

    /// Reports whether a bracket is open.
    pub(crate) fn in_flow(&self) -> bool {
        self.flow_level > 0
    }

    // Looking.

    fn mark(&self) -> Mark {
        Mark { offset: self.offset, line: self.line, column: self.column() }
    }

    fn column(&self) -> usize {
        self.offset.saturating_sub(self.line_start)
    }

    fn error(&self, message: &'static str, context: Mark) -> Error {
        Error::scanner(message, self.mark(), context)
    }

    fn rest(&self) -> &'y [u8] {
        self.text.as_bytes().get(self.offset..).unwrap_or_default()
    }

    fn slice(&self, from: usize, to: usize) -> &'y str {
        self.text.get(from..to).unwrap_or_default()
    }

    /// Returns a byte further on; 0 behind the end.
    fn at(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.offset + ahead).copied().unwrap_or_default()
    }

    fn is_end(&self) -> bool {
        self.offset >= self.text.len()
    }

    fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.at(ahead), b' ' | b'\t')
    }

    /// Returns bytes of the line break further on; 0 where there is none.
    fn break_at(&self, ahead: usize) -> usize {
        match self.at(ahead) {
            b'\n' => 1,
            b'\r' => 1 + usize::from(self.at(ahead + 1) == b'\n'),
            0xc2 if self.has_odd_breaks => 2 * usize::from(self.at(ahead + 1) == 0x85),
            0xe2 if self.has_odd_breaks => {
                let is_break =
                    self.at(ahead + 1) == 0x80 && matches!(self.at(ahead + 2), 0xa8 | 0xa9);
                3 * usize::from(is_break)
            }
            _ => 0,
        }
    }

    fn is_break(&self, ahead: usize) -> bool {
        self.break_at(ahead) > 0
    }

    /// Reports whether a line break, or the end, follows.
    fn is_breakz(&self, ahead: usize) -> bool {
        self.offset + ahead >= self.text.len() || self.is_break(ahead)
    }

    fn is_blankz(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_breakz(ahead)
    }

    /// Reports whether `---` or `...` is at the start of a line.
    fn is_marker(&self, marker: &[u8]) -> bool {
        self.column() == 0 && self.rest().starts_with(marker) && self.is_blankz(marker.len())
    }

    fn is_any_marker(&self) -> bool {
        self.is_marker(b"---") || self.is_marker(b"...")
    }

    // Going on.

    fn skip(&mut self, bytes: usize) {
        self.offset += bytes;
    }

    /// Steps over a line break; gives what it is in a scalar.
    fn skip_break(&mut self) -> &'y str {
        let length = self.break_at(0);
        let kept = if length == 3 { self.slice(self.offset, self.offset + 3) } else { "\n" };
        self.offset += length;
        self.line += usize::from(length > 0);
        self.line_start = self.offset;
        if length > 0 { kept } else { "" }
    }

    fn skip_blanks(&mut self) {
        while self.is_blank(0) {
            self.skip(1);
        }
    }

    /// Steps to the end of the line.
    fn skip_line(&mut self) {
        if !self.has_odd_breaks {
            let rest = self.rest();
            self.skip(memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len()));
        }
        while !self.is_breakz(0) {
            self.skip(1);
        }
    }

    fn skip_comment(&mut self) {
        if self.at(0) == b'#' {
            self.skip_line();
        }
    }

    fn push(&mut self, token: Token<'y>, mark: Mark) {
        self.tokens.push_back((token, mark));
    }

    // Keys.

    fn check_candidate(&mut self, index: usize) -> Result<bool, Error> {
        let Some(candidate) = self.candidates.get(index).copied() else { return Ok(false) };
        if !candidate.is_possible {
            return Ok(false);
        }
        let mark = candidate.mark;
        let is_far = || {
            // Characters are counted only if the number of bytes is inconclusive.
            self.offset - mark.offset > 1_024
                && self.slice(mark.offset, self.offset).chars().count() > 1_024
        };
        if mark.line == self.line && !is_far() {
            return Ok(true);
        }
        if candidate.is_required {
            return Err(self.error(NO_KEY, mark));
        }
        if let Some(candidate) = self.candidates.get_mut(index) {
            candidate.is_possible = false;
        }
        Ok(false)
    }

    fn save_candidate(&mut self) -> Result<(), Error> {
        if !self.may_be_key {
            return Ok(());
        }
        self.drop_candidate()?;
        let candidate = Candidate {
            is_possible: true,
            is_required: self.flow_level == 0 && self.indent == signed(self.column()),
            number: self.tokens_taken + self.tokens.len(),
            mark: self.mark(),
        };
        if let Some(last) = self.candidates.last_mut() {
            *last = candidate;
        }
        Ok(())
    }

    fn drop_candidate(&mut self) -> Result<(), Error> {
        let Some(last) = self.candidates.last_mut() else { return Ok(()) };
        let (is_lost, mark) = (last.is_possible && last.is_required, last.mark);
        last.is_possible = false;
        if is_lost { Err(self.error(NO_KEY, mark)) } else { Ok(()) }
    }

    // Indentation.

    /// Opens a block collection if this is indented further; `number` is the token that it precedes.
    fn indent_to(
        &mut self,
        mark: Mark,
        number: Option<usize>,
        token: Token<'y>,
    ) -> Result<(), Error> {
        let column = signed(mark.column);
        if self.flow_level > 0 || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > MAX_DEPTH {
            return Err(Error::value(too_deep_message(), mark));
        }
        match number {
            Some(number) => {
                let place = number.saturating_sub(self.tokens_taken).min(self.tokens.len());
                self.tokens.insert(place, (token, mark));
            }
            None => self.push(token, mark),
        }
        Ok(())
    }

    fn outdent_to(&mut self, column: isize) {
        while self.flow_level == 0 && self.indent > column {
            self.push(Token::BlockEnd, self.mark());
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    // Tokens.

    fn fetch(&mut self) -> Result<(), Error> {
        self.skip_to_token();
        self.outdent_to(signed(self.column()));
        if self.is_end() {
            return self.fetch_end();
        }
        let (byte, in_flow) = (self.at(0), self.flow_level > 0);
        match byte {
            b'%' if self.column() == 0 => self.fetch_directive(),
            b'-' if self.is_marker(b"---") => self.fetch_marker(Token::DocumentStart),
            b'.' if self.is_marker(b"...") => self.fetch_marker(Token::DocumentEnd),
            b'[' => self.fetch_flow_start(Token::FlowSequenceStart),
            b'{' => self.fetch_flow_start(Token::FlowMappingStart),
            b']' => self.fetch_flow_end(Token::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(Token::FlowMappingEnd),
            b',' => {
                self.drop_candidate()?;
                self.may_be_key = true;
                self.fetch_one(Token::FlowEntry);
                Ok(())
            }
            b'-' if self.is_blankz(1) => self.fetch_entry(),
            b'?' if in_flow || self.is_blankz(1) => self.fetch_key(),
            b':' if in_flow || self.is_blankz(1) => self.fetch_value(),
            b'*' | b'&' => self.fetch_name(byte == b'*'),
            b'!' => {
                self.save_candidate()?;
                self.may_be_key = false;
                self.fetch_tag()
            }
            b'|' | b'>' if !in_flow => {
                self.drop_candidate()?;
                self.may_be_key = true;
                self.fetch_block_scalar(byte == b'|')
            }
            b'\'' | b'"' => {
                self.save_candidate()?;
                self.may_be_key = false;
                self.fetch_quoted(byte)
            }
            // A tab that is no indentation, and what YAML keeps for itself.
            b'\t' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' => {
                Err(self.error(CANNOT_START, self.mark()))
            }
            _ => {
                self.save_candidate()?;
                self.may_be_key = false;
                self.fetch_plain()
            }
        }
    }

    /// Steps over blanks, comments and line breaks. Tabs are blanks where no key may begin.
    fn skip_to_token(&mut self) {
        loop {
            if self.column() == 0 && self.rest().starts_with("\u{feff}".as_bytes()) {
                // One character, at any position.
                self.skip(3);
                self.line_start += 2;
            }
            while self.at(0) == b' '
                || self.at(0) == b'\t' && (self.flow_level > 0 || !self.may_be_key)
            {
                self.skip(1);
            }
            self.skip_comment();
            if !self.is_break(0) {
                return;
            }
            self.skip_break();
            self.may_be_key |= self.flow_level == 0;
        }
    }

    fn fetch_one(&mut self, token: Token<'y>) {
        let mark = self.mark();
        self.skip(1);
        self.push(token, mark);
    }

    fn fetch_end(&mut self) -> Result<(), Error> {
        // An end is at the start of a line.
        if self.column() > 0 {
            self.line += 1;
            self.line_start = self.offset;
        }
        self.outdent_to(-1);
        self.drop_candidate()?;
        self.may_be_key = false;
        self.push(Token::StreamEnd, self.mark());
        Ok(())
    }

    fn fetch_marker(&mut self, token: Token<'y>) -> Result<(), Error> {
        self.outdent_to(-1);
        self.drop_candidate()?;
        self.may_be_key = false;
        let mark = self.mark();
        self.skip(3);
        self.push(token, mark);
        Ok(())
    }

    fn fetch_flow_start(&mut self, token: Token<'y>) -> Result<(), Error> {
        self.save_candidate()?;
        self.candidates.push(Candidate::default());
        self.flow_level += 1;
        if self.flow_level > MAX_DEPTH {
            return Err(Error::value(too_deep_message(), self.mark()));
        }
        self.may_be_key = true;
        self.fetch_one(token);
        Ok(())
    }

    fn fetch_flow_end(&mut self, token: Token<'y>) -> Result<(), Error> {
        self.drop_candidate()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            self.candidates.pop();
        }
        self.may_be_key = false;
        self.fetch_one(token);
        Ok(())
    }

    fn fetch_entry(&mut self) -> Result<(), Error> {
        // The parser refuses it in flow collections.
        if self.flow_level == 0 {
            let mark = self.mark();
            if !self.may_be_key {
                let message = "block sequence entries are not allowed in this context";
                return Err(self.error(message, mark));
            }
            self.indent_to(mark, None, Token::BlockSequenceStart)?;
        }
        self.drop_candidate()?;
        self.may_be_key = true;
        self.fetch_one(Token::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Error> {
        if self.flow_level == 0 {
            let mark = self.mark();
            if !self.may_be_key {
                return Err(self.error("mapping keys are not allowed in this context", mark));
            }
            self.indent_to(mark, None, Token::BlockMappingStart)?;
        }
        self.drop_candidate()?;
        self.may_be_key = self.flow_level == 0;
        self.fetch_one(Token::Key);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Error> {
        let index = self.candidates.len().saturating_sub(1);
        let candidate = self.candidates.get(index).copied().unwrap_or_default();
        if self.check_candidate(index)? {
            let place = candidate.number.saturating_sub(self.tokens_taken).min(self.tokens.len());
            self.tokens.insert(place, (Token::Key, candidate.mark));
            self.indent_to(candidate.mark, Some(candidate.number), Token::BlockMappingStart)?;
            if let Some(candidate) = self.candidates.get_mut(index) {
                candidate.is_possible = false;
            }
            self.may_be_key = false;
        } else {
            if self.flow_level == 0 {
                let mark = self.mark();
                if !self.may_be_key {
                    return Err(self.error("mapping values are not allowed in this context", mark));
                }
                self.indent_to(mark, None, Token::BlockMappingStart)?;
            }
            self.may_be_key = self.flow_level == 0;
        }
        self.fetch_one(Token::Value);
        Ok(())
    }

    /// Reads an anchor or an alias.
    fn fetch_name(&mut self, is_alias: bool) -> Result<(), Error> {
        self.save_candidate()?;
        self.may_be_key = false;
        let mark = self.mark();
        self.skip(1);
        let name = self.word();
        let is_over = self.is_blankz(0)
            || matches!(self.at(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !is_over {
            return Err(self.error("did not find expected alphabetic or numeric character", mark));
        }
        self.push(if is_alias { Token::Alias(name) } else { Token::Anchor(name) }, mark);
        Ok(())
    }

    fn word(&mut self) -> &'y str {
        let start = self.offset;
        while is_word(self.at(0)) {
            self.skip(1);
        }
        self.slice(start, self.offset)
    }
}
