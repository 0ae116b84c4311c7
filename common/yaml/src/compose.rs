//! Events into JSON text, written as they come.
//!
//! ```text
//! events ─▶ JSON so far ─┬▶ an alias: what its anchor stands for once more
//!                        └▶ the end of a map: names that stand twice, and `<<`
//! ```
//!
//! There is no tree. What an anchor stands for is a range of the JSON; how much may be written is
//! bounded, so that aliases cannot make much of little. Nothing here is recursive.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::{Error, Mark};
use crate::merge::MergedMap;
use crate::parser::{Event, Parser};
use crate::scalar::{BooleanWords, Value, float_json, float_key, resolve};
use crate::scanner::{Style, too_deep_message};
use crate::{MAX_DEPTH, ReadError};

/// Options for reading a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ComposeOptions {
    pub(crate) duplicate_keys: DuplicateKeyHandling,
    pub(crate) booleans: BooleanWords,
    /// Whether places are kept.
    pub(crate) with_offsets: bool,
    /// Most bytes of JSON in a document.
    pub(crate) max_json_bytes: usize,
}

/// Handling of a duplicate name in a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DuplicateKeyHandling {
    /// An error.
    Reject,
    /// The last member of the name, in the place of the first.
    KeepLast,
    /// Both members, in the JSON as well.
    KeepBoth,
}

/// A document.
#[derive(Debug, Default)]
pub(crate) struct ComposedDocument {
    pub(crate) json: Vec<u8>,
    /// Offsets in the text: of the document, and then, in the order of the JSON, of each member's name
    /// and of each element.
    pub(crate) offsets: Vec<u32>,
}

/// A list or map that is not complete.
#[derive(Debug)]
struct OpenCollection {
    is_map: bool,
    /// Its start in the JSON, and among the positions.
    json: usize,
    offsets: usize,
    count: usize,
    /// Whether the value of a member comes next.
    has_key: bool,
    members: Vec<Member>,
    /// Whether there is a `<<` among them.
    has_merge: bool,
    anchor: Option<usize>,
}

/// A member of a map that is not complete, in bytes of the JSON.
#[derive(Debug, Clone, Copy)]
struct Member {
    key: usize,
    value: usize,
    /// Its own place.
    offset: usize,
    is_merge: bool,
    mark: Mark,
}

/// Content of an anchor.
#[derive(Debug)]
enum Anchor {
    Incomplete,
    Written {
        json: Range<usize>,
        offsets: Range<usize>,
    },
    /// A copy: the JSON around it was rewritten.
    Copied {
        start: usize,
        json: Vec<u8>,
        offsets: Vec<u32>,
    },
}

pub(crate) struct Composer<'y> {
    parser: Parser<'y>,
    options: ComposeOptions,
    out: ComposedDocument,
    open: Vec<OpenCollection>,
    names: BTreeMap<&'y str, usize>,
    anchors: Vec<Anchor>,
    /// For each anchor, the number of nodes decoded before it, and then the number of its nodes.
    nodes: Vec<usize>,
    /// Nodes that upstream would have decoded so far, and those among them that aliases stand for.
    decoded: usize,
    aliased: usize,
    /// Bytes in copies.
    copied_bytes: usize,
}

fn offset(mark: Mark) -> u32 {
    u32::try_from(mark.offset).unwrap_or(u32::MAX)
}

impl<'y> Composer<'y> {
    pub(crate) fn new(text: &'y str, options: ComposeOptions) -> Result<Self, ReadError> {
        Ok(Self {
            parser: Parser::new(text)?,
            options,
            out: ComposedDocument::default(),
            open: Vec::new(),
            names: BTreeMap::new(),
            anchors: Vec::new(),
            nodes: Vec::new(),
            decoded: 1,
            aliased: 0,
            copied_bytes: 0,
        })
    }

    /// Returns the next document, and its start; none at the end.
    pub(crate) fn document(&mut self) -> Result<Option<(ComposedDocument, usize)>, ReadError> {
        let mut start = None;
        loop {
            let (event, mark) = self.parser.next()?;
            match event {
                Event::StreamEnd => return Ok(None),
                Event::DocumentStart => {
                    self.names.clear();
                    self.anchors.clear();
                    self.nodes.clear();
                    // The document itself is one.
                    (self.decoded, self.aliased) = (1, 0);
                    self.copied_bytes = 0;
                    continue;
                }
                Event::DocumentEnd => {
                    let start = start.unwrap_or(mark.offset);
                    return Ok(Some((std::mem::take(&mut self.out), start)));
                }
                _ => start = start.or(Some(mark.offset)),
            }
            self.event(event, mark)?;
            if is_excessive(self.aliased, self.decoded) {
                return Err(ReadError::ExcessiveAliasing(mark));
            }
            if self.out.json.len().saturating_add(self.copied_bytes) > self.options.max_json_bytes {
                return Err(ReadError::TooLarge(mark));
            }
        }
    }

    fn event(&mut self, event: Event<'y>, mark: Mark) -> Result<(), ReadError> {
        if !matches!(event, Event::ListEnd | Event::MapEnd) {
            self.decoded = self.decoded.saturating_add(1);
        }
        match event {
            Event::Scalar { text, style, anchor, tag, .. } => {
                let is_plain = style == Style::Plain;
                let anchor = anchor.map(|name| self.anchor(name));
                self.scalar(text, is_plain, anchor, tag.as_deref(), mark)
            }
            Event::ListStart { anchor } => self.start(false, anchor, mark),
            Event::MapStart { anchor } => self.start(true, anchor, mark),
            Event::ListEnd | Event::MapEnd => self.end(),
            Event::Alias(name) => self.alias(name, mark),
            Event::StreamEnd | Event::DocumentStart | Event::DocumentEnd => Ok(()),
        }
    }

    fn anchor(&mut self, name: &'y str) -> usize {
        self.anchors.push(Anchor::Incomplete);
        // The node was counted already.
        self.nodes.push(self.decoded.saturating_sub(1));
        let number = self.anchors.len() - 1;
        self.names.insert(name, number);
        number
    }

    fn written(&mut self, anchor: Option<usize>, json: usize, offsets: usize) {
        let found = anchor.and_then(|number| self.anchors.get_mut(number));
        if let Some(anchor) = found {
            let (json, offsets) = (json..self.out.json.len(), offsets..self.out.offsets.len());
            *anchor = Anchor::Written { json, offsets };
        }
        self.count(anchor);
    }

    /// Completes the content of an anchor.
    fn count(&mut self, anchor: Option<usize>) {
        if let Some(nodes) = anchor.and_then(|number| self.nodes.get_mut(number)) {
            *nodes = self.decoded.saturating_sub(*nodes);
        }
    }

    fn push_offset(&mut self, mark: Mark) {
        if self.options.with_offsets {
            self.out.offsets.push(offset(mark));
        }
    }

    /// Reports whether the next node is a key.
    fn expects_key(&self) -> bool {
        self.open.last().is_some_and(|open| open.is_map && !open.has_key)
    }

    /// Starts a value that is no key.
    fn value(&mut self, mark: Mark) {
        match self.open.last_mut() {
            None => self.push_offset(mark),
            Some(open) if open.is_map => open.has_key = false,
            Some(open) => {
                open.count += 1;
                if open.count > 1 {
                    self.out.json.push(b',');
                }
                self.push_offset(mark);
            }
        }
    }

    /// Starts a key: `name` is the text between the quotes.
    fn key(&mut self, name: &str, is_merge: bool, mark: Mark) {
        let place = self.out.offsets.len();
        self.push_offset(mark);
        let Some(open) = self.open.last_mut() else { return };
        open.count += 1;
        open.has_key = true;
        open.has_merge |= is_merge;
        if open.count > 1 {
            self.out.json.push(b',');
        }
        let key = self.out.json.len();
        write_json_string(name, &mut self.out.json);
        self.out.json.push(b':');
        let value = self.out.json.len();
        open.members.push(Member { key, value, offset: place, is_merge, mark });
    }

    fn scalar(
        &mut self,
        text: Cow<'y, str>,
        is_plain: bool,
        anchor: Option<usize>,
        tag: Option<&str>,
        mark: Mark,
    ) -> Result<(), ReadError> {
        let wants_key = self.expects_key();
        let is_merge = wants_key
            && text == "<<"
            && (is_plain && tag.is_none() || tag == Some("tag:yaml.org,2002:merge"));
        let value = resolve(text, is_plain, tag, self.options.booleans)
            .map_err(|why| Error::value(why.to_string(), mark))?;
        if wants_key {
            let offsets = self.out.offsets.len() + 1;
            let name: Cow<'_, str> = match value {
                Value::Text(text) => text,
                Value::Int(number) => number.to_string().into(),
                Value::Bool(is_true) => is_true.to_string().into(),
                Value::Float(number) => float_key(number).into(),
                Value::Null | Value::Uint(_) => return Err(missing_key_error(mark)),
            };
            self.key(&name, is_merge, mark);
            // Without the colon.
            let found = anchor.and_then(|number| self.anchors.get_mut(number));
            if let Some(anchor) = found {
                let end = self.out.json.len().saturating_sub(1);
                let start = self.open.last().and_then(|open| open.members.last());
                let json = start.map_or(end, |member| member.key)..end;
                *anchor = Anchor::Written { json, offsets: offsets..offsets };
            }
            self.count(anchor);
            // Upstream sees what it is without decoding it.
            self.decoded = self.decoded.saturating_sub(usize::from(is_merge));
            return Ok(());
        }
        self.value(mark);
        let (json, offsets) = (self.out.json.len(), self.out.offsets.len());
        let out = &mut self.out.json;
        match value {
            Value::Text(text) => write_json_string(&text, out),
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(is_true) => out.extend_from_slice(if is_true { b"true" } else { b"false" }),
            Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::Uint(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Value::Float(number) if number.is_finite() => {
                out.extend_from_slice(float_json(number).as_bytes());
            }
            Value::Float(number) => {
                let why = format!("non-finite float `{}` is no number of JSON", float_key(number));
                return Err(Error::value(why, mark).into());
            }
        }
        self.written(anchor, json, offsets);
        Ok(())
    }

    fn start(
        &mut self,
        is_map: bool,
        anchor: Option<&'y str>,
        mark: Mark,
    ) -> Result<(), ReadError> {
        if self.expects_key() {
            return Err(missing_key_error(mark));
        }
        let anchor = anchor.map(|name| self.anchor(name));
        self.value(mark);
        let (json, offsets) = (self.out.json.len(), self.out.offsets.len());
        self.out.json.push(if is_map { b'{' } else { b'[' });
        self.open.push(OpenCollection {
            is_map,
            json,
            offsets,
            count: 0,
            has_key: false,
            members: Vec::new(),
            has_merge: false,
            anchor,
        });
        if self.open.len() > MAX_DEPTH {
            return Err(Error::value(too_deep_message(), mark).into());
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), ReadError> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        self.out.json.push(if open.is_map { b'}' } else { b']' });
        let once = match self.options.duplicate_keys {
            DuplicateKeyHandling::KeepBoth => Ok(()),
            DuplicateKeyHandling::Reject | DuplicateKeyHandling::KeepLast => {
                self.check_unique_names(&open.members)
            }
        };
        // A map that is rewritten with its merged members keeps the last one of each name.
        let is_written_anew = open.has_merge || once.is_err();
        if self.options.duplicate_keys == DuplicateKeyHandling::Reject {
            once?;
        }
        if is_written_anew {
            self.merge(&open)?;
        }
        self.written(open.anchor, open.json, open.offsets);
        Ok(())
    }

    /// Checks that every name is unique.
    fn check_unique_names(&self, members: &[Member]) -> Result<(), ReadError> {
        let name =
            |member: &Member| self.out.json.get(member.key..member.value).unwrap_or_default();
        let twice = if members.len() < 9 {
            let is_known = |(at, member): &(usize, &Member)| {
                members.iter().take(*at).any(|earlier| name(earlier) == name(member))
            };
            members.iter().enumerate().find(is_known).map(|(_, member)| member)
        } else {
            let mut order: Vec<&Member> = members.iter().collect();
            order.sort_unstable_by_key(|member| (name(member), member.key));
            let pairs = order.array_windows::<2>().filter(|[one, other]| name(one) == name(other));
            pairs.map(|[_, other]| *other).min_by_key(|member| member.key)
        };
        let Some(member) = twice else { return Ok(()) };
        let quoted = name(member).strip_suffix(b":").unwrap_or_default();
        let said = String::from_utf8_lossy(quoted);
        let said = said.strip_prefix('"').and_then(|said| said.strip_suffix('"'));
        let why = format!("duplicate mapping key: {}", said.unwrap_or_default());
        Err(Error::value(why, member.mark).into())
    }

    fn alias(&mut self, name: &str, mark: Mark) -> Result<(), ReadError> {
        let number = self.names.get(name).copied();
        if let Some(Anchor::Written { .. } | Anchor::Copied { .. }) =
            number.and_then(|number| self.anchors.get(number))
        {
            let nodes = number.and_then(|number| self.nodes.get(number)).copied();
            let nodes = nodes.unwrap_or_default();
            self.decoded = self.decoded.saturating_add(nodes);
            self.aliased = self.aliased.saturating_add(nodes);
        }
        let (json, offsets) = match number.and_then(|number| self.anchors.get(number)) {
            None => {
                let why = format!("unknown anchor '{name}' referenced");
                return Err(Error::value(why, mark).into());
            }
            Some(Anchor::Incomplete) => {
                let why = format!("anchor '{name}' value contains itself");
                return Err(Error::value(why, mark).into());
            }
            Some(Anchor::Written { json, offsets }) => (json.clone(), offsets.clone()),
            Some(Anchor::Copied { json, offsets, .. }) => {
                // Its content is written where the next lookup expects it.
                let (json, offsets) = (json.clone(), offsets.clone());
                return self.write_alias(&json, &offsets, mark);
            }
        };
        if self.out.json.len().saturating_add(json.len()) > self.options.max_json_bytes {
            return Err(ReadError::TooLarge(mark));
        }
        let json = self.out.json.get(json).unwrap_or_default().to_vec();
        let offsets = self.out.offsets.get(offsets).unwrap_or_default().to_vec();
        self.write_alias(&json, &offsets, mark)
    }

    /// Writes what an alias stands for.
    fn write_alias(&mut self, json: &[u8], offsets: &[u32], mark: Mark) -> Result<(), ReadError> {
        if self.expects_key() {
            let name = match json.first() {
                Some(b'"') => json.get(1..json.len().saturating_sub(1)),
                Some(b'{' | b'[' | b'n') | None => None,
                Some(_) => Some(json),
            };
            let name = name.and_then(|name| std::str::from_utf8(name).ok());
            let name = name.ok_or_else(|| missing_key_error(mark))?;
            // The key is already written as JSON.
            self.key("", false, mark);
            let open = self.open.last_mut().and_then(|open| open.members.last_mut());
            let out = &mut self.out.json;
            out.truncate(out.len().saturating_sub(2));
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            if let Some(member) = open {
                member.value = out.len();
            }
            return Ok(());
        }
        self.value(mark);
        self.out.json.extend_from_slice(json);
        self.out.offsets.extend_from_slice(offsets);
        Ok(())
    }

    /// Rewrites a map with the members that `<<` refers to in its place. As in go-yaml v2 the last one of a
    /// name counts, in the order of the text.
    fn merge(&mut self, open: &OpenCollection) -> Result<(), ReadError> {
        self.copy_anchors(open)?;
        let json = self.out.json.split_off(open.json);
        let offsets = self.out.offsets.split_off(open.offsets.min(self.out.offsets.len()));
        let within = |at: usize| at.saturating_sub(open.json);
        let ends = open.members.iter().skip(1).map(|next| within(next.key).saturating_sub(1));
        let ends = ends.chain([json.len().saturating_sub(1)]);
        let place_ends = open.members.iter().skip(1).map(|next| next.offset - open.offsets);
        let place_ends = place_ends.chain([offsets.len()]);
        let mut merged = MergedMap::new(&json, &offsets);
        for ((member, end), place_end) in open.members.iter().zip(ends).zip(place_ends) {
            let value = within(member.value)..end;
            // Without places there are none to skip.
            let first = (member.offset.saturating_sub(open.offsets)).min(offsets.len());
            if member.is_merge {
                let inner = (first + 1).min(place_end.max(first))..place_end.max(first);
                let added =
                    merged.add_all(value, inner).map_err(|why| Error::value(why, member.mark))?;
                // Work that is not seen in what is written.
                self.copied_bytes = self.copied_bytes.saturating_add(added);
            } else {
                merged.set(within(member.key)..end, first..place_end.max(first));
            }
        }
        merged.write(&mut self.out.json, &mut self.out.offsets);
        Ok(())
    }

    /// Takes copies of what anchors in a map stand for.
    fn copy_anchors(&mut self, open: &OpenCollection) -> Result<(), ReadError> {
        // In the order of their starts: those before the map come last.
        for anchor in self.anchors.iter_mut().rev() {
            let (json, offsets) = match anchor {
                Anchor::Copied { start, .. } if *start < open.json => break,
                Anchor::Incomplete | Anchor::Copied { .. } => continue,
                Anchor::Written { json, .. } if json.start < open.json => break,
                Anchor::Written { json, offsets } => (json, offsets),
            };
            self.copied_bytes = self.copied_bytes.saturating_add(json.len());
            if self.copied_bytes > self.options.max_json_bytes {
                return Err(ReadError::TooLarge(Mark::default()));
            }
            let json = self.out.json.get(json.clone()).unwrap_or_default().to_vec();
            let offsets = self.out.offsets.get(offsets.clone()).unwrap_or_default().to_vec();
            *anchor = Anchor::Copied { start: open.json, json, offsets };
        }
        Ok(())
    }
}

/// Reports whether upstream would refuse a document for its aliases: 99 % of what is decoded may be theirs,
/// and from 400,000 nodes on less, down to 10 % from 4,000,000 on.
fn is_excessive(aliased: usize, decoded: usize) -> bool {
    let number = |count: usize| u32::try_from(count).map_or(f64::INFINITY, f64::from);
    if aliased <= 100 || decoded <= 1_000 {
        return false;
    }
    let (aliased, decoded) = (number(aliased), number(decoded));
    let large = ((decoded - 400_000.0) / 3_600_000.0).clamp(0.0, 1.0);
    aliased > decoded * (0.99 - 0.89 * large)
}

fn missing_key_error(mark: Mark) -> ReadError {
    Error::value("a key is no text: JSON has no other keys", mark).into()
}

/// Writes a text as JSON.
fn write_json_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let mut from = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let escape: [u8; 2] = match byte {
            b'"' => *b"\\\"",
            b'\\' => *b"\\\\",
            b'\n' => *b"\\n",
            b'\r' => *b"\\r",
            b'\t' => *b"\\t",
            ..0x20 => [0, 0],
            _ => continue,
        };
        out.extend_from_slice(bytes.get(from..at).unwrap_or_default());
        from = at + 1;
        if escape == [0, 0] {
            out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
        } else {
            out.extend_from_slice(&escape);
        }
    }
    out.extend_from_slice(bytes.get(from..).unwrap_or_default());
    out.push(b'"');
}
