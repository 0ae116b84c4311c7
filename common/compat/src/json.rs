//! JSON as Go's `encoding/json` checks it: one pass, no recursion, any depth that is allowed.
//!
//! ```text
//! bytes ─▶ scan ─┬─▶ each_child   members or elements of the outermost value, as raw slices
//!                └─▶ Tree         every value with its place in the text, parents before children
//! ```
//!
//! Numbers and texts stay unchanged; texts are decoded on demand. Errors are those of Go's decoder.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::go::quote_byte;

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Boolean,
    /// A number of any size.
    Number,
    /// A string.
    Text,
    /// An array.
    List,
    /// An object.
    Object,
}

impl Kind {
    /// Returns Go's word for it in `cannot unmarshal …`.
    #[must_use]
    pub fn go_name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "bool",
            Self::Number => "number",
            Self::Text => "string",
            Self::List => "array",
            Self::Object => "object",
        }
    }
}

/// Why a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Position, in bytes.
    pub offset: usize,
    /// JSON pointer of the value in which it is.
    pub pointer: String,
    kind: ErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorKind {
    /// There is nothing.
    Empty,
    /// The text ends inside a value.
    End,
    /// A byte that may not be there.
    Byte(u8, &'static str),
    /// More levels than are allowed.
    Depth,
}

impl Error {
    /// Returns the text of `json.Decoder`, which differs from that of `json.Unmarshal` at the end of input.
    #[must_use]
    pub fn decoder_message(&self) -> String {
        match self.kind {
            ErrorKind::Empty => "EOF".to_owned(),
            ErrorKind::End => "unexpected EOF".to_owned(),
            _ => self.to_string(),
        }
    }

    /// Reports whether there are more levels than are allowed.
    #[must_use]
    pub fn is_too_deep(&self) -> bool {
        self.kind == ErrorKind::Depth
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ErrorKind::Empty | ErrorKind::End => f.write_str("unexpected end of JSON input"),
            ErrorKind::Byte(byte, context) => {
                write!(f, "invalid character {} {context}", quote_byte(byte))
            }
            ErrorKind::Depth => f.write_str("exceeded max depth"),
        }
    }
}

impl std::error::Error for Error {}

/// Options for reading a text.
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions {
    /// Levels of lists and objects.
    pub max_depth: usize,
    /// Whether anything but white space may follow the value, as after `Decoder.Decode`.
    pub allow_trailing: bool,
}

impl ReadOptions {
    /// One value, nothing after it, no limit.
    pub const WHOLE: Self = Self { max_depth: usize::MAX, allow_trailing: false };
}

/// Receives the events of reading a text. Offsets of keys include the quotes.
pub trait Sink {
    /// Receives the key of the next value.
    fn key(&mut self, _: Range<usize>) {}
    /// Receives the start of a list or an object.
    fn open(&mut self, _: Kind, _at: usize) {}
    /// Receives the end of a list or an object.
    fn close(&mut self, _: Kind, _end: usize) {}
    /// Receives any other value.
    fn scalar(&mut self, _: Kind, _: Range<usize>) {}
}

struct DiscardSink;

impl Sink for DiscardSink {}

struct Scanner<'j> {
    bytes: &'j [u8],
    at: usize,
}

#[derive(Clone, Copy)]
enum State {
    /// A value must follow.
    Value,
    /// A value, or the end of an empty list.
    First,
    /// A key, or the end of an empty object.
    FirstKey,
    /// A key.
    Key,
    /// The end of a value.
    After,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn fail(&self, context: &'static str) -> ErrorKind {
        self.peek().map_or(ErrorKind::End, |byte| ErrorKind::Byte(byte, context))
    }

    /// Steps over what stands for itself in a string, eight bytes at a time: most of a text is that.
    fn skip_plain(&mut self) {
        const BYTE_ONES: u64 = 0x0101_0101_0101_0101;
        const BYTE_HIGH_BITS: u64 = 0x8080_8080_8080_8080;
        let mut rest = self.bytes.get(self.at..).unwrap_or_default();
        while let Some((chunk, after)) = rest.split_first_chunk() {
            let chunk = u64::from_le_bytes(*chunk);
            // The top bit of each byte that is too small; above the first, perhaps of others.
            let below = |bound: u8, of: u64| of.wrapping_sub(BYTE_ONES * u64::from(bound)) & !of;
            let special = below(0x20, chunk)
                | below(1, chunk ^ (BYTE_ONES * u64::from(b'"')))
                | below(1, chunk ^ (BYTE_ONES * u64::from(b'\\')));
            let special = special & BYTE_HIGH_BITS;
            if special != 0 {
                let first = usize::try_from(special.trailing_zeros() / 8).unwrap_or_default();
                self.at = self.bytes.len() - rest.len() + first;
                return;
            }
            rest = after;
        }
        let special = |&byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
        let more = rest.iter().position(special).unwrap_or(rest.len());
        self.at = self.bytes.len() - rest.len() + more;
    }

    fn text(&mut self) -> Result<(), ErrorKind> {
        self.at += 1;
        loop {
            self.skip_plain();
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => {}
                        Some(b'u') => {
                            for _ in 0..4 {
                                self.at += 1;
                                if !self.peek().is_some_and(|b| b.is_ascii_hexdigit()) {
                                    return Err(self.fail("in \\u hexadecimal character escape"));
                                }
                            }
                        }
                        _ => return Err(self.fail("in string escape code")),
                    }
                }
                Some(0x20..) => {}
                _ => return Err(self.fail("in string literal")),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    fn digits(&mut self, context: &'static str) -> Result<(), ErrorKind> {
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return Err(self.fail(context));
        }
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), ErrorKind> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn literal(&mut self, rest: &[(u8, &'static str)]) -> Result<(), ErrorKind> {
        self.at += 1;
        for &(byte, context) in rest {
            if self.peek() != Some(byte) {
                return Err(self.fail(context));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Reads one value; `open` are the containers around it, `true` for objects.
    fn value(&mut self, max_depth: usize, sink: &mut impl Sink) -> Result<(), ErrorKind> {
        const TRUE: &[(u8, &str)] = &[
            (b'r', "in literal true (expecting 'r')"),
            (b'u', "in literal true (expecting 'u')"),
            (b'e', "in literal true (expecting 'e')"),
        ];
        const FALSE: &[(u8, &str)] = &[
            (b'a', "in literal false (expecting 'a')"),
            (b'l', "in literal false (expecting 'l')"),
            (b's', "in literal false (expecting 's')"),
            (b'e', "in literal false (expecting 'e')"),
        ];
        const NULL: &[(u8, &str)] = &[
            (b'u', "in literal null (expecting 'u')"),
            (b'l', "in literal null (expecting 'l')"),
            (b'l', "in literal null (expecting 'l')"),
        ];
        let mut open: Vec<bool> = Vec::new();
        let mut state = State::Value;
        loop {
            self.skip_space();
            match (state, self.peek()) {
                (State::First, Some(b']')) | (State::FirstKey, Some(b'}')) => {
                    self.at += 1;
                    let object = open.pop() == Some(true);
                    sink.close(if object { Kind::Object } else { Kind::List }, self.at);
                    state = State::After;
                }
                (State::FirstKey | State::Key, Some(b'"')) => {
                    let start = self.at;
                    self.text()?;
                    sink.key(start..self.at);
                    self.skip_space();
                    if self.peek() != Some(b':') {
                        return Err(self.fail("after object key"));
                    }
                    self.at += 1;
                    state = State::Value;
                }
                (State::FirstKey | State::Key, _) => {
                    return Err(self.fail("looking for beginning of object key string"));
                }
                (State::After, found) => match (open.last(), found) {
                    (None, _) => return Ok(()),
                    (Some(true), Some(b',')) => {
                        self.at += 1;
                        state = State::Key;
                    }
                    (Some(false), Some(b',')) => {
                        self.at += 1;
                        state = State::Value;
                    }
                    (Some(true), Some(b'}')) | (Some(false), Some(b']')) => {
                        self.at += 1;
                        let object = open.pop() == Some(true);
                        sink.close(if object { Kind::Object } else { Kind::List }, self.at);
                    }
                    (Some(true), _) => return Err(self.fail("after object key:value pair")),
                    (Some(false), _) => return Err(self.fail("after array element")),
                },
                (State::Value | State::First, Some(byte @ (b'{' | b'['))) => {
                    if open.len() >= max_depth {
                        return Err(ErrorKind::Depth);
                    }
                    let object = byte == b'{';
                    open.push(object);
                    sink.open(if object { Kind::Object } else { Kind::List }, self.at);
                    self.at += 1;
                    state = if object { State::FirstKey } else { State::First };
                }
                (State::Value | State::First, found) => {
                    let start = self.at;
                    let kind = match found {
                        Some(b'"') => self.text().map(|()| Kind::Text),
                        Some(b'-' | b'0'..=b'9') => self.number().map(|()| Kind::Number),
                        Some(b't') => self.literal(TRUE).map(|()| Kind::Boolean),
                        Some(b'f') => self.literal(FALSE).map(|()| Kind::Boolean),
                        Some(b'n') => self.literal(NULL).map(|()| Kind::Null),
                        _ => Err(self.fail("looking for beginning of value")),
                    }?;
                    sink.scalar(kind, start..self.at);
                    state = State::After;
                    if open.is_empty() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// Reads a text. Tells where and why it failed.
fn scan(
    bytes: &[u8],
    options: ReadOptions,
    sink: &mut impl Sink,
) -> Result<(), (usize, ErrorKind)> {
    let mut scanner = Scanner { bytes, at: 0 };
    scanner.skip_space();
    if scanner.peek().is_none() {
        return Err((scanner.at, ErrorKind::Empty));
    }
    scanner.value(options.max_depth, sink).map_err(|fault| (scanner.at, fault))?;
    scanner.skip_space();
    match scanner.peek() {
        Some(byte) if !options.allow_trailing => {
            Err((scanner.at, ErrorKind::Byte(byte, "after top-level value")))
        }
        _ => Ok(()),
    }
}

/// Checks a text without keeping anything of it but a bit for each open level.
///
/// # Errors
/// Fails if it is not JSON.
pub fn check(bytes: &[u8], options: ReadOptions) -> Result<(), Error> {
    read(bytes, options, &mut DiscardSink)
}

/// Reads a text and reports what is in it. Errors have no pointer.
///
/// # Errors
/// Fails if it is not JSON.
pub fn read(bytes: &[u8], options: ReadOptions, sink: &mut impl Sink) -> Result<(), Error> {
    scan(bytes, options, sink).map_err(|(offset, fault)| Error {
        offset,
        pointer: String::new(),
        kind: fault,
    })
}

/// Splits a text after its first value, for texts that are one value after the other.
///
/// # Errors
/// Fails if it does not begin with JSON, as at the end of the text.
pub fn split_first(bytes: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let mut scanner = Scanner { bytes, at: 0 };
    scanner.skip_space();
    let start = scanner.at;
    let result = match scanner.peek() {
        None => Err(ErrorKind::Empty),
        Some(_) => scanner.value(usize::MAX, &mut DiscardSink),
    };
    result.map_err(|fault| Error { offset: scanner.at, pointer: String::new(), kind: fault })?;
    let value = bytes.get(start..scanner.at).unwrap_or_default();
    Ok((value, bytes.get(scanner.at..).unwrap_or_default()))
}

/// A member of an object or an element of a list.
#[derive(Debug, Clone, Copy)]
pub struct Child<'j> {
    /// The key as written, quotes included; `None` in a list.
    pub key: Option<&'j [u8]>,
    /// Its type.
    pub kind: Kind,
    /// Its text.
    pub raw: &'j [u8],
    /// Start of its text.
    pub offset: usize,
}

impl Child<'_> {
    /// Reports whether the key is this one.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.key.is_some_and(|key| is_string(key, name))
    }
}

/// Calls `visit` with each member or element of the value, in order. A scalar has none.
///
/// # Errors
/// Fails if the text is not JSON.
pub fn each_child<'j>(bytes: &'j [u8], visit: impl FnMut(Child<'j>)) -> Result<(), Error> {
    struct Children<'j, F> {
        bytes: &'j [u8],
        depth: usize,
        key: Option<Range<usize>>,
        start: usize,
        kind: Kind,
        visit: F,
    }
    impl<'j, F: FnMut(Child<'j>)> Children<'j, F> {
        fn visit_child(&mut self, kind: Kind, range: Range<usize>) {
            let offset = range.start;
            let raw = self.bytes.get(range).unwrap_or_default();
            let key = self.key.take().and_then(|key| self.bytes.get(key));
            (self.visit)(Child { key, kind, raw, offset });
        }
    }
    impl<'j, F: FnMut(Child<'j>)> Sink for Children<'j, F> {
        fn key(&mut self, key: Range<usize>) {
            if self.depth == 1 {
                self.key = Some(key);
            }
        }
        fn open(&mut self, kind: Kind, at: usize) {
            if self.depth == 1 {
                (self.kind, self.start) = (kind, at);
            }
            self.depth += 1;
        }
        fn close(&mut self, _: Kind, end: usize) {
            self.depth -= 1;
            if self.depth == 1 {
                self.visit_child(self.kind, self.start..end);
            }
        }
        fn scalar(&mut self, kind: Kind, range: Range<usize>) {
            if self.depth == 1 {
                self.visit_child(kind, range);
            }
        }
    }
    let mut sink = Children { bytes, depth: 0, key: None, start: 0, kind: Kind::Null, visit };
    read(bytes, ReadOptions::WHOLE, &mut sink)
}

/// Returns the type of the outermost value, by its first byte; `None` if no value begins with it.
#[must_use]
pub fn kind(bytes: &[u8]) -> Option<Kind> {
    Some(match bytes.trim_ascii_start().first()? {
        b'{' => Kind::Object,
        b'[' => Kind::List,
        b'"' => Kind::Text,
        b't' | b'f' => Kind::Boolean,
        b'n' => Kind::Null,
        b'-' | b'0'..=b'9' => Kind::Number,
        _ => return None,
    })
}

/// Reports whether a JSON string equals this name.
#[must_use]
pub fn is_string(raw: &[u8], name: &str) -> bool {
    decode_text(raw) == name
}

/// Decodes a JSON string. Invalid parts become U+FFFD, as in Go.
#[must_use]
pub fn text(raw: &[u8]) -> String {
    decode_text(raw).into_owned()
}

/// Decodes a string without a copy if it has no escapes.
#[must_use]
pub fn decode_text(raw: &[u8]) -> Cow<'_, str> {
    let inner = raw.strip_prefix(b"\"").and_then(|raw| raw.strip_suffix(b"\"")).unwrap_or(raw);
    let escaped = inner.contains(&b'\\');
    // Checking a valid text is faster than making it valid, and nearly all are.
    let lossy = match std::str::from_utf8(inner) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(inner),
    };
    if !escaped {
        return lossy;
    }
    let mut text = String::with_capacity(lossy.len());
    let mut chars = lossy.chars();
    let mut high: Option<u32> = None;
    while let Some(c) = chars.next() {
        let mut unit = None;
        let c = match c {
            '\\' => match chars.next() {
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('u') => {
                    let code = (0..4).fold(0, |code, _| {
                        code * 16 + chars.next().and_then(|c| c.to_digit(16)).unwrap_or_default()
                    });
                    unit = Some(code);
                    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
                }
                Some(c) => c,
                None => char::REPLACEMENT_CHARACTER,
            },
            c => c,
        };
        match (high.take(), unit) {
            (Some(first), Some(second @ 0xdc00..=0xdfff)) => {
                let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                continue;
            }
            (Some(_), _) => text.push(char::REPLACEMENT_CHARACTER),
            (None, _) => {}
        }
        match unit {
            Some(first @ 0xd800..=0xdbff) => high = Some(first),
            _ => text.push(c),
        }
    }
    if high.is_some() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    text.into()
}

/// Index of a value in a [`Tree`]; the outermost has 0.
pub type Index = usize;

#[derive(Debug, Clone)]
struct Node {
    kind: Kind,
    start: usize,
    end: usize,
    /// Empty where there is none.
    key: Range<usize>,
    parent: Index,
    /// The first value after this one and everything in it.
    next: Index,
}

/// Every value of a text, parents before children.
#[derive(Debug)]
pub struct Tree<'j> {
    bytes: &'j [u8],
    nodes: Vec<Node>,
}

/// Tokens of a pointer that are shown: a text that is thousands of levels deep has long ones.
const MAX_SHOWN_TOKENS: usize = 64;

#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    open: Vec<Index>,
    key: Range<usize>,
}

impl Builder {
    fn push(&mut self, kind: Kind, range: Range<usize>) -> Index {
        let index = self.nodes.len();
        let key = std::mem::take(&mut self.key);
        let parent = self.open.last().copied().unwrap_or_default();
        self.nodes.push(Node {
            kind,
            start: range.start,
            end: range.end,
            key,
            parent,
            next: index + 1,
        });
        index
    }
}

impl Sink for Builder {
    fn key(&mut self, key: Range<usize>) {
        self.key = key;
    }
    fn open(&mut self, kind: Kind, at: usize) {
        let index = self.push(kind, at..at);
        self.open.push(index);
    }
    fn close(&mut self, _: Kind, end: usize) {
        let next = self.nodes.len();
        if let Some(node) = self.open.pop().and_then(|index| self.nodes.get_mut(index)) {
            node.end = end;
            node.next = next;
        }
    }
    fn scalar(&mut self, kind: Kind, range: Range<usize>) {
        self.push(kind, range);
    }
}

impl<'j> Tree<'j> {
    /// Reads a text.
    ///
    /// # Errors
    /// Fails if it is not JSON.
    pub fn parse(bytes: &'j [u8], options: ReadOptions) -> Result<Self, Error> {
        let mut builder = Builder::default();
        let result = scan(bytes, options, &mut builder);
        let Builder { nodes, open, key } = builder;
        let tree = Self { bytes, nodes };
        let Err((offset, fault)) = result else { return Ok(tree) };
        let mut pointer = open.last().map(|&index| tree.pointer(index)).unwrap_or_default();
        if !key.is_empty() {
            pointer.push('/');
            pointer.push_str(&escape(&decode_text(bytes.get(key).unwrap_or_default())));
        }
        Err(Error { offset, pointer, kind: fault })
    }

    /// Returns the type of a value.
    #[must_use]
    pub fn kind(&self, index: Index) -> Kind {
        self.nodes.get(index).map_or(Kind::Null, |node| node.kind)
    }

    /// Returns the text of a value.
    #[must_use]
    pub fn raw(&self, index: Index) -> &'j [u8] {
        let raw = self.nodes.get(index).and_then(|node| self.bytes.get(node.start..node.end));
        raw.unwrap_or_default()
    }

    /// Returns a decoded string; `None` for other values.
    #[must_use]
    pub fn text(&self, index: Index) -> Option<String> {
        (self.kind(index) == Kind::Text).then(|| text(self.raw(index)))
    }

    /// Returns the name of a member; empty for anything else.
    #[must_use]
    pub fn key(&self, index: Index) -> Cow<'j, str> {
        let key = self.nodes.get(index).and_then(|node| self.bytes.get(node.key.clone()));
        key.map(decode_text).unwrap_or_default()
    }

    /// Members of an object or elements of a list, in order.
    pub fn children(&self, index: Index) -> impl Iterator<Item = Index> + '_ {
        let end = self.nodes.get(index).map_or(0, |node| node.next);
        let first = Some(index + 1).filter(|&first| first < end);
        std::iter::successors(first, move |&child| {
            self.nodes.get(child).map(|node| node.next).filter(|&next| next < end)
        })
    }

    /// Returns the value of a member by its exact name; the last one counts.
    #[must_use]
    pub fn member(&self, index: Index, name: &str) -> Option<Index> {
        if self.kind(index) != Kind::Object {
            return None;
        }
        self.children(index).filter(|&child| self.key(child) == name).last()
    }

    /// Returns the JSON pointer of a value; that of an enclosing value if it is very deep.
    #[must_use]
    pub fn pointer(&self, index: Index) -> String {
        let mut path = Vec::new();
        let mut at = index;
        while at != 0 {
            path.push(at);
            at = self.nodes.get(at).map_or(0, |node| node.parent);
        }
        let mut pointer = String::new();
        for &child in path.iter().rev().take(MAX_SHOWN_TOKENS) {
            pointer.push('/');
            let Some(node) = self.nodes.get(child) else { break };
            if self.kind(node.parent) == Kind::Object {
                pointer.push_str(&escape(&self.key(child)));
            } else {
                let position = self.children(node.parent).take_while(|&c| c != child).count();
                pointer.push_str(&position.to_string());
            }
        }
        pointer
    }
}

/// Escapes a name for use as one token of a JSON pointer.
#[must_use]
pub fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn tree(json: &str) -> Tree<'_> {
        Tree::parse(json.as_bytes(), ReadOptions::WHOLE).unwrap_or_else(|e| panic!("{json}: {e}"))
    }

    /// Converts a tree to the result of another parser.
    fn read(tree: &Tree<'_>, index: Index) -> Value {
        match tree.kind(index) {
            Kind::List => tree.children(index).map(|c| read(tree, c)).collect(),
            Kind::Object => Value::Object(
                tree.children(index).map(|c| (tree.key(c).into_owned(), read(tree, c))).collect(),
            ),
            Kind::Text => Value::String(tree.text(index).unwrap()),
            _ => serde_json::from_slice(tree.raw(index)).unwrap(),
        }
    }

    #[test]
    fn errors_match_those_of_go() {
        for (json, offset, pointer, error) in [
            ("", 0, "", "unexpected end of JSON input"),
            ("  ", 2, "", "unexpected end of JSON input"),
            ("{", 1, "", "unexpected end of JSON input"),
            ("]", 0, "", "invalid character ']' looking for beginning of value"),
            ("x", 0, "", "invalid character 'x' looking for beginning of value"),
            ("'", 0, "", r"invalid character '\'' looking for beginning of value"),
            ("{}}", 2, "", "invalid character '}' after top-level value"),
            ("{a}", 1, "", "invalid character 'a' looking for beginning of object key string"),
            (r#"{"a"}"#, 4, "/a", "invalid character '}' after object key"),
            (r#"{"a":}"#, 5, "/a", "invalid character '}' looking for beginning of value"),
            (r#"{"a":1 2}"#, 7, "", "invalid character '2' after object key:value pair"),
            (
                r#"{"a":1,}"#,
                7,
                "",
                "invalid character '}' looking for beginning of object key string",
            ),
            ("[1 2]", 3, "", "invalid character '2' after array element"),
            ("[1,]", 3, "", "invalid character ']' looking for beginning of value"),
            ("[01]", 2, "", "invalid character '1' after array element"),
            ("[-]", 2, "", "invalid character ']' in numeric literal"),
            ("[1.]", 3, "", "invalid character ']' after decimal point in numeric literal"),
            ("[1e]", 3, "", "invalid character ']' in exponent of numeric literal"),
            ("[tru]", 4, "", "invalid character ']' in literal true (expecting 'e')"),
            ("nul", 3, "", "unexpected end of JSON input"),
            ("\"\n\"", 1, "", r"invalid character '\n' in string literal"),
            (r#""\x""#, 2, "", "invalid character 'x' in string escape code"),
            (r#""\u12g4""#, 5, "", r"invalid character 'g' in \u hexadecimal character escape"),
            ("é", 0, "", "invalid character 'Ã' looking for beginning of value"),
        ] {
            let found = Tree::parse(json.as_bytes(), ReadOptions::WHOLE).unwrap_err();
            let found = (found.offset, found.pointer.as_str(), found.to_string());
            assert_eq!(found, (offset, pointer, error.to_owned()), "{json}");
            assert_eq!(check(json.as_bytes(), ReadOptions::WHOLE).unwrap_err().to_string(), error);
        }
        let decoder = |json: &str| {
            Tree::parse(json.as_bytes(), ReadOptions::WHOLE).unwrap_err().decoder_message()
        };
        assert_eq!(decoder(""), "EOF");
        assert_eq!(decoder("{"), "unexpected EOF");
    }

    #[test]
    fn deep_json_does_not_overflow_the_stack() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let options = ReadOptions { max_depth: 10_000, allow_trailing: false };
        assert!(Tree::parse(nested(10_000).as_bytes(), options).is_ok());
        let error = Tree::parse(nested(10_001).as_bytes(), options).unwrap_err();
        assert!(error.is_too_deep() && error.to_string() == "exceeded max depth", "{error}");
        let deep = nested(1_000_000);
        let tree = Tree::parse(deep.as_bytes(), ReadOptions::WHOLE).unwrap();
        assert_eq!(tree.pointer(999_999).len(), 2 * MAX_SHOWN_TOKENS);
    }

    #[test]
    fn trailing_data_is_accepted_if_enabled() {
        let lenient = ReadOptions { allow_trailing: true, ..ReadOptions::WHOLE };
        assert!(Tree::parse(b"{} garbage", lenient).is_ok());
        assert!(Tree::parse(b"1 garbage", lenient).is_ok());
    }

    #[test]
    fn texts_are_decoded() {
        for json in [r#""a\"\\\/\b\f\n\r\tA\ud83d\ude00é""#, r#""""#] {
            let expected: String = serde_json::from_str(json).unwrap();
            assert_eq!(text(json.as_bytes()), expected);
        }
        assert_eq!(text(br#""\ud800""#), "\u{fffd}");
        assert_eq!(text(br#""\ud800x\udc00\ud800\ud83d\ude00""#), "\u{fffd}x\u{fffd}\u{fffd}😀");
        assert_eq!(text(b"\"\xff\""), "\u{fffd}");
    }

    #[test]
    fn children_include_their_source_text() {
        let json = br#" {"a" : [1, {"x":2}], "b\"" : {} , "c":3} "#;
        let mut found = Vec::new();
        each_child(json, |c| {
            assert_eq!(json.get(c.offset..c.offset + c.raw.len()), Some(c.raw));
            found.push((text(c.key.unwrap()), String::from_utf8_lossy(c.raw).into_owned()));
        })
        .unwrap();
        let expected = [("a", r#"[1, {"x":2}]"#), ("b\"", "{}"), ("c", "3")];
        assert_eq!(found, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(".{0,4}", inner, 0..6)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn tree_equals_the_serde_json_value(value in any_json()) {
            for json in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
                let tree = tree(&json);
                prop_assert_eq!(&read(&tree, 0), &value);
                for index in 0..tree.nodes.len() {
                    let at = value.pointer(&tree.pointer(index));
                    prop_assert_eq!(at, Some(&read(&tree, index)));
                }
            }
        }

        #[test]
        fn invalid_json_is_rejected_like_in_serde_json(json in r#"[\[\]{}",:0-9.eEtrufalsn\\ -]{0,24}"#) {
            // The other parser has an opinion on the range of numbers, and of surrogates, as well.
            let tree = Tree::parse(json.as_bytes(), ReadOptions::WHOLE);
            match serde_json::from_str::<&serde_json::value::RawValue>(&json) {
                Ok(_) => prop_assert!(tree.is_ok(), "{}", json),
                Err(_) if json.contains("\\u") => {}
                Err(_) => prop_assert!(tree.is_err(), "{}", json),
            }
            prop_assert_eq!(check(json.as_bytes(), ReadOptions::WHOLE).is_ok(), tree.is_ok());
        }

        #[test]
        fn any_bytes_are_parsed_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Tree::parse(&bytes, ReadOptions::WHOLE);
            let _ = each_child(&bytes, |_| {});
            let _ = text(&bytes);
        }
    }
}
