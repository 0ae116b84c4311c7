//! Locates the objects of a YAML file by the indentation of its lines.
//!
//! ```text
//! apiVersion: v1        ┐
//! items:                ┘ head
//! - apiVersion: v1      ┐
//!   kind: Pod           │ elements: a line with a dash where the first one has it begins the next
//! - apiVersion: v1      ┘
//! kind: List              tail: a line that is indented less, or is no element
//! ---                     the next document
//! ```
//!
//! No line of an element is indented less than its dash, except inside quotes and brackets. An element that
//! is cut there is unreadable separately, and the list is read as a whole.

use std::io;

use opgate_document::Document;
use opgate_input::objects::ElementType;
use opgate_input::read::OpenFile;
use opgate_input::yaml;
use opgate_yaml::BooleanWords;

use super::{BLOCK_BYTES, DumpIndex, FirstElement, MAX_FRAME_BYTES, MAX_SHARED_SLOT_BYTES, Slot};

/// Bytes at the beginning of a line that determine its type.
const PREFIX_BYTES: usize = 64;

/// Maximum indentation of the elements.
const MAX_INDENT: usize = 32;

/// The expected next element of a document.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ListState {
    #[default]
    Head,
    /// The first element, after `items:`.
    Start,
    Elements,
    Tail,
    /// No list.
    Other,
}

/// A line.
#[derive(Debug, Clone, Copy)]
struct Line<'l> {
    start: u64,
    number: u64,
    prefix: &'l [u8],
}

impl Line<'_> {
    fn indent(&self) -> usize {
        self.prefix.iter().take_while(|byte| **byte == b' ').count()
    }

    fn rest(&self) -> &[u8] {
        self.prefix.get(self.indent()..).unwrap_or_default()
    }

    /// Reports whether nothing is on it. A line that begins with many spaces has something behind them.
    fn is_empty(&self) -> bool {
        let rest = self.rest();
        self.prefix.len() < PREFIX_BYTES && rest.trim_ascii().is_empty() || rest.starts_with(b"#")
    }

    fn is_marker(&self, marker: &[u8]) -> bool {
        let after = self.prefix.strip_prefix(marker);
        after.is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
    }

    fn is_dash(&self) -> bool {
        let after = self.rest().strip_prefix(b"-");
        after.is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
    }

    fn is_items(&self) -> bool {
        let after = self.prefix.strip_prefix(b"items:");
        after.is_some_and(|rest| self.prefix.len() < PREFIX_BYTES && rest.trim_ascii().is_empty())
    }
}

/// A document so far.
#[derive(Debug, Default)]
struct PartialDocument {
    start: u64,
    lines: u64,
    has_content: bool,
    /// Whether its API version and kind precede its elements.
    is_typed: bool,
    state: ListState,
    indent: usize,
    /// Position of `items:`, and of the text after the elements.
    items: u64,
    tail: u64,
    slots: Vec<Slot>,
}

impl PartialDocument {
    fn add_line(&mut self, line: Line<'_>) {
        if line.is_empty() {
            return;
        }
        self.has_content |= !matches!(line.prefix.trim_ascii(), b"---" | b"...");
        match self.state {
            ListState::Head if line.is_items() => {
                (self.state, self.items) = (ListState::Start, line.start);
            }
            ListState::Head => self.is_typed |= line.prefix.starts_with(b"apiVersion:"),
            ListState::Start if line.is_dash() && line.indent() <= MAX_INDENT => {
                (self.state, self.indent) = (ListState::Elements, line.indent());
                self.start_element(line);
            }
            ListState::Start => self.state = ListState::Other,
            ListState::Elements if line.indent() > self.indent => {}
            ListState::Elements if line.indent() == self.indent && line.is_dash() => {
                self.start_element(line);
            }
            ListState::Elements => {
                self.end_slot(line.start);
                (self.state, self.tail) = (ListState::Tail, line.start);
            }
            ListState::Tail | ListState::Other => {}
        }
    }

    fn start_element(&mut self, line: Line<'_>) {
        match self.slots.last() {
            Some(last) if line.start.saturating_sub(last.start) < MAX_SHARED_SLOT_BYTES => {}
            _ => {
                self.end_slot(line.start);
                let (start, lines) = (line.start, line.number);
                self.slots.push(Slot { start, end: start, lines, columns: 0, list: None });
            }
        }
    }

    fn end_slot(&mut self, end: u64) {
        if let Some(last) = self.slots.last_mut().filter(|last| last.end == last.start) {
            last.end = end;
        }
    }

    /// Ends the document here.
    fn finish(mut self, end: u64, opened: &OpenFile, index: &mut DumpIndex) -> io::Result<()> {
        if !self.has_content {
            return Ok(());
        }
        self.end_slot(end);
        let tail = if self.state == ListState::Tail { self.tail } else { end };
        let whole = Slot { start: self.start, end, lines: self.lines, columns: 0, list: None };
        let is_list = matches!(self.state, ListState::Elements | ListState::Tail);
        let extra = self.items.saturating_sub(self.start) + end.saturating_sub(tail);
        if !is_list || extra > MAX_FRAME_BYTES {
            index.add_document(whole);
            return Ok(());
        }
        let mut frame = opened.read_part(self.start..self.items)?;
        frame.extend_from_slice(b"items: []\n");
        frame.extend(opened.read_part(tail..end)?);
        index.add_list(parse_element_type(frame), self.slots, whole);
        Ok(())
    }
}

/// Returns the type of a list's elements; none if the document is no list.
fn parse_element_type(frame: Vec<u8>) -> Option<ElementType> {
    let parts =
        yaml::parse_documents(&String::from_utf8(frame).ok()?, BooleanWords::Yaml11).ok()?;
    let [part] = parts.as_slice() else { return None };
    let document = Document::part(part.json.clone(), 0..part.json.len());
    super::read_element_type(&document)
}

/// Returns the objects of a file.
pub(super) fn build_index(opened: &OpenFile) -> io::Result<DumpIndex> {
    let mut index = DumpIndex::default();
    let (mut current, mut is_first, mut has_directive) = (PartialDocument::default(), true, false);
    let mut failed = Ok(());
    let end = for_each_line(opened, |line| {
        if failed.is_err() || has_directive {
            return;
        }
        if is_first {
            current.start = line.start;
            is_first = false;
        } else if line.is_marker(b"---") {
            let next = PartialDocument {
                start: line.start,
                lines: line.number,
                ..PartialDocument::default()
            };
            let last = std::mem::replace(&mut current, next);
            failed = last.finish(line.start, opened, &mut index);
        }
        has_directive = line.prefix.starts_with(b"%");
        // Text after the end of a document belongs to no list.
        if line.is_marker(b"...") && current.state != ListState::Head {
            current.end_slot(line.start);
            current.state = ListState::Other;
        }
        current.add_line(line);
    })?;
    failed?;
    if has_directive {
        // Directives are rare. They apply to the text after them.
        let whole = Slot { start: 0, end, lines: 0, columns: 0, list: None };
        return Ok(DumpIndex { slots: vec![whole], lists: Vec::new() });
    }
    current.finish(end, opened, &mut index)?;
    Ok(index)
}

/// Calls `visit` with the lines of a file; gives its end.
fn for_each_line(opened: &OpenFile, mut visit: impl FnMut(Line<'_>)) -> io::Result<u64> {
    let mut at = 0_u64;
    let (mut start, mut number) = (0, 0);
    let mut prefix = Vec::with_capacity(PREFIX_BYTES);
    loop {
        let block = opened.read_part(at..at.saturating_add(BLOCK_BYTES))?;
        let bom = if at == 0 && block.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        if at == 0 {
            start = u64::try_from(bom).unwrap_or_default();
        }
        let mut rest = block.get(bom..).unwrap_or_default();
        let mut offset = at.saturating_add(u64::try_from(bom).unwrap_or_default());
        while !rest.is_empty() {
            let newline = memchr::memchr(b'\n', rest);
            let length = newline.unwrap_or(rest.len());
            let room = PREFIX_BYTES.saturating_sub(prefix.len()).min(length);
            prefix.extend_from_slice(rest.get(..room).unwrap_or_default());
            let taken = newline.map_or(length, |newline| newline + 1);
            rest = rest.get(taken..).unwrap_or_default();
            offset = offset.saturating_add(u64::try_from(taken).unwrap_or_default());
            if newline.is_some() {
                visit(Line { start, number, prefix: &prefix });
                prefix.clear();
                (start, number) = (offset, number + 1);
            }
        }
        if block.is_empty() {
            if !prefix.is_empty() {
                visit(Line { start, number, prefix: &prefix });
            }
            return Ok(at);
        }
        at = at.saturating_add(u64::try_from(block.len()).unwrap_or_default());
    }
}

/// Returns the first element of the list at the beginning of a text, as a list of it. The text is that of a whole file
/// or its beginning.
pub(super) fn first_element(block: &[u8], is_whole: bool) -> FirstElement {
    let (mut current, mut start, mut end) = (PartialDocument::default(), None, None);
    let mut next = 0_usize;
    for line in block.split_inclusive(|byte| *byte == b'\n') {
        let (offset, prefix) = (next, line.get(..line.len().min(PREFIX_BYTES)).unwrap_or_default());
        next = next.saturating_add(line.len());
        let line =
            Line { start: 0, number: 0, prefix: prefix.strip_suffix(b"\n").unwrap_or(prefix) };
        let is_marker = line.is_marker(b"---") || line.is_marker(b"...");
        if start.is_some() {
            if is_marker || !line.is_empty() && line.indent() <= current.indent {
                end = Some(offset);
                break;
            }
            continue;
        }
        if is_marker && current.has_content || line.prefix.starts_with(b"%") {
            break;
        }
        current.add_line(line);
        match current.state {
            ListState::Head | ListState::Start => {}
            ListState::Elements if current.is_typed => start = Some(offset),
            _ => break,
        }
    }
    let Some(start) = start else { return FirstElement::None };
    let Some(end) = end.or(is_whole.then_some(block.len())) else {
        return FirstElement::Incomplete;
    };
    let text = block.get(start..end).and_then(|text| std::str::from_utf8(text).ok());
    let parts = text.and_then(|text| yaml::parse_documents(text, BooleanWords::Yaml11).ok());
    match parts.as_deref() {
        Some([part]) => {
            FirstElement::Complete(Document::part(part.json.clone(), 0..part.json.len()))
        }
        _ => FirstElement::None,
    }
}
