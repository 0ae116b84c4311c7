//! Locates the objects of a JSON file by its brackets.
//!
//! ```text
//! {"apiVersion": "v1", "items": [   {…}, {…}, …   ], "kind": "List"}   the next value
//! └──────────── head ───────────┘ └─ elements ──┘ └───── tail ─────┘
//! ```
//!
//! The result is not checked: the parser detects invalid JSON.

use std::io;

use opgate_document::Document;
use opgate_input::read::OpenFile;
use serde_json::value::RawValue;

use super::{BLOCK_BYTES, DumpIndex, FirstElement, MAX_FRAME_BYTES, MAX_SHARED_SLOT_BYTES, Slot};

/// The name of the list, with its quotes.
const ITEMS_KEY: &[u8] = b"\"items\"";

/// Position of a byte.
#[derive(Debug, Default, Clone, Copy)]
struct Position {
    offset: u64,
    lines: u64,
    columns: u64,
    /// Start of its line, if only spaces precede it.
    line: Option<u64>,
}

impl Position {
    /// Starts a slot here, with the preceding spaces.
    fn start_slot(self) -> Slot {
        let Self { offset, lines, columns, line } = self;
        let (start, columns) = line.map_or((offset, columns), |start| (start, 0));
        Slot { start, end: start, lines, columns, list: None }
    }
}

/// A value so far.
#[derive(Debug)]
struct PartialValue {
    range: Slot,
    /// After `[` and before `]` of the elements.
    head: Option<u64>,
    tail: Option<u64>,
    /// Number of lists with this name.
    lists: usize,
    /// Whether its API version and kind precede its elements.
    is_typed: bool,
    slots: Vec<Slot>,
}

/// Whether a byte is inside of a text.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum StringState {
    #[default]
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

/// A text of which a part was read.
#[derive(Debug, Default)]
struct Scanner {
    at: Position,
    depth: usize,
    quotes: StringState,
    in_elements: bool,
    /// Whether an element of the current slot has begun.
    in_slot: bool,
    /// The beginning of the last text directly in the value, with its quotes.
    last: Vec<u8>,
    current: Option<PartialValue>,
    /// Values that are complete.
    done: Vec<(PartialValue, u64)>,
    /// Whether something is not in brackets.
    has_unbracketed_text: bool,
}

impl Scanner {
    fn feed(&mut self, block: &[u8]) {
        let mut rest = block;
        while let Some((&byte, after)) = rest.split_first() {
            if self.quotes == StringState::Inside && self.depth > 1 {
                // The text before the next of these two bytes is irrelevant.
                let length = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                let (inside, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
                if !inside.is_empty() {
                    self.advance_bytes(inside);
                    rest = behind;
                    continue;
                }
            }
            self.scan_byte(byte);
            self.advance_byte(byte);
            rest = after;
        }
    }

    /// Goes on behind a byte.
    fn advance_byte(&mut self, byte: u8) {
        let at = &mut self.at;
        at.offset = at.offset.saturating_add(1);
        if byte == b'\n' {
            (at.lines, at.columns) = (at.lines.saturating_add(1), 0);
            at.line = Some(at.offset);
            return;
        }
        // Characters, not the bytes that continue them.
        at.columns = at.columns.saturating_add(u64::from(byte & 0xc0 != 0x80));
        if !byte.is_ascii_whitespace() {
            at.line = None;
        }
    }

    /// Goes on behind some bytes.
    fn advance_bytes(&mut self, bytes: &[u8]) {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let at = &mut self.at;
        let length = count(bytes.len());
        for newline in memchr::memchr_iter(b'\n', bytes) {
            at.lines = at.lines.saturating_add(1);
            at.columns = 0;
            at.line = Some(at.offset.saturating_add(count(newline)).saturating_add(1));
        }
        let last = bytes.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let chars = last.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        at.columns = at.columns.saturating_add(count(chars));
        if last.iter().any(|byte| !byte.is_ascii_whitespace()) {
            at.line = None;
        }
        at.offset = at.offset.saturating_add(length);
    }

    fn scan_byte(&mut self, byte: u8) {
        if self.quotes != StringState::Outside {
            return self.scan_string_byte(byte);
        }
        let is_of_elements = self.in_elements && self.depth == 2;
        if is_of_elements && !byte.is_ascii_whitespace() && !matches!(byte, b',' | b']') {
            self.start_element();
        }
        match byte {
            b'"' => {
                self.quotes = StringState::Inside;
                if self.depth == 1 {
                    self.last.clear();
                    self.last.push(byte);
                }
                self.has_unbracketed_text |= self.depth == 0;
            }
            b':' if self.depth == 1 => {
                if let Some(current) = self.current.as_mut() {
                    current.lists += usize::from(self.last == ITEMS_KEY);
                    current.is_typed |= self.last == b"\"apiVersion\"";
                }
            }
            b'{' | b'[' => {
                if self.depth == 0 {
                    let (whole, slots) = (self.at.start_slot(), Vec::new());
                    let (head, tail, lists, is_typed) = (None, None, 0, false);
                    self.current =
                        Some(PartialValue { range: whole, head, tail, lists, is_typed, slots });
                    self.last.clear();
                }
                let is_items = byte == b'[' && self.depth == 1 && self.last == ITEMS_KEY;
                self.depth = self.depth.saturating_add(1);
                let after = self.at.offset.saturating_add(1);
                let first = self.current.as_mut().filter(|c| is_items && c.lists == 1);
                if let Some(current) = first.filter(|current| current.head.is_none()) {
                    current.head = Some(after);
                    self.in_elements = true;
                }
            }
            b',' if is_of_elements => self.end_slot(MAX_SHARED_SLOT_BYTES),
            b']' | b'}' => self.close_bracket(is_of_elements),
            byte => self.has_unbracketed_text |= self.depth == 0 && !byte.is_ascii_whitespace(),
        }
    }

    fn scan_string_byte(&mut self, byte: u8) {
        if self.depth <= 1 && self.last.len() <= ITEMS_KEY.len().max(16) {
            self.last.push(byte);
        }
        self.quotes = match (self.quotes, byte) {
            (StringState::Inside, b'\\') => StringState::Escaped,
            (StringState::Inside, b'"') => StringState::Outside,
            _ => StringState::Inside,
        };
    }

    fn close_bracket(&mut self, is_of_elements: bool) {
        if is_of_elements {
            self.end_slot(0);
            self.in_elements = false;
            let offset = self.at.offset;
            if let Some(current) = self.current.as_mut() {
                current.tail = Some(offset);
            }
        }
        self.has_unbracketed_text |= self.depth == 0;
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0
            && let Some(mut current) = self.current.take()
        {
            let end = self.at.offset.saturating_add(1);
            current.range.end = end;
            self.done.push((current, end));
        }
    }

    fn start_element(&mut self) {
        if let Some(current) = self.current.as_mut().filter(|_| !self.in_slot) {
            current.slots.push(self.at.start_slot());
            self.in_slot = true;
        }
    }

    /// Ends a slot that has at least this number of bytes.
    fn end_slot(&mut self, least: u64) {
        let end = self.at.offset;
        let slot = self.current.as_mut().and_then(|current| current.slots.last_mut());
        let slot = slot.filter(|slot| self.in_slot && end.saturating_sub(slot.start) >= least);
        if let Some(slot) = slot {
            slot.end = end;
            self.in_slot = false;
        }
    }
}

/// Returns the objects of a file.
pub(super) fn build_index(opened: &OpenFile) -> io::Result<DumpIndex> {
    let (mut index, mut scan) = (DumpIndex::default(), Scanner::default());
    let mut at = 0_u64;
    loop {
        let block = opened.read_part(at..at.saturating_add(BLOCK_BYTES))?;
        if block.is_empty() {
            break;
        }
        at = at.saturating_add(u64::try_from(block.len()).unwrap_or_default());
        match block.strip_prefix(b"\xef\xbb\xbf").filter(|_| scan.at.offset == 0) {
            Some(rest) => {
                scan.at.offset = 3;
                scan.feed(rest);
            }
            None => scan.feed(&block),
        }
        for (current, end) in std::mem::take(&mut scan.done) {
            current.finish(end, opened, &mut index)?;
        }
    }
    if scan.has_unbracketed_text || scan.quotes != StringState::Outside || scan.current.is_some() {
        // Invalid JSON, or values of another kind: the reader of the whole file reports it.
        let whole = Slot { start: 0, end: at, lines: 0, columns: 0, list: None };
        return Ok(DumpIndex { slots: vec![whole], lists: Vec::new() });
    }
    Ok(index)
}

impl PartialValue {
    fn finish(self, end: u64, opened: &OpenFile, index: &mut DumpIndex) -> io::Result<()> {
        let Self { range: whole, head, tail, lists, slots, .. } = self;
        let (Some(head), Some(tail), 1, false) = (head, tail, lists, slots.is_empty()) else {
            index.add_value(whole);
            return Ok(());
        };
        let extra = head.saturating_sub(whole.start) + end.saturating_sub(tail);
        if extra > MAX_FRAME_BYTES {
            index.add_value(whole);
            return Ok(());
        }
        let mut frame = opened.read_part(whole.start..head)?;
        frame.extend(opened.read_part(tail..end)?);
        let document = String::from_utf8(frame).ok().and_then(|text| Document::parse(&text).ok());
        index.add_list(document.as_ref().and_then(super::read_element_type), slots, whole);
        Ok(())
    }
}

impl DumpIndex {
    /// Adds a value that is no list. Nothing but spaces is between two values.
    fn add_value(&mut self, whole: Slot) {
        match self.slots.last_mut().filter(|last| last.list.is_none()) {
            Some(last) if whole.end.saturating_sub(last.start) <= MAX_SHARED_SLOT_BYTES => {
                last.end = whole.end;
            }
            _ => self.slots.push(whole),
        }
    }
}

/// Values that were elements of a list, one after another.
pub(super) fn blank_commas(bytes: &mut [u8]) {
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    for byte in bytes {
        match *byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_text,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => depth = depth.saturating_add(1),
            b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
            b',' if !in_text && depth == 0 => *byte = b' ',
            _ => {}
        }
    }
}

/// Returns the first element of the list at the beginning of a text, which is that of a whole file or its beginning.
pub(super) fn first_element(block: &[u8], is_whole: bool) -> FirstElement {
    let mut scan = Scanner::default();
    scan.feed(block);
    let first = scan.done.first().map(|(current, _)| current).or(scan.current.as_ref());
    let first = first.filter(|current| current.is_typed).and_then(|list| list.slots.first());
    let Some(start) = first.and_then(|slot| usize::try_from(slot.start).ok()) else {
        return FirstElement::None;
    };
    let rest = block.get(start..).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
    match values.next() {
        Some(Ok(element)) => match Document::parse(element.get()) {
            Ok(document) => FirstElement::Complete(document),
            Err(_) => FirstElement::None,
        },
        Some(Err(error)) if error.is_eof() && !is_whole => FirstElement::Incomplete,
        _ => FirstElement::None,
    }
}
