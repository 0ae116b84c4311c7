//! The objects of a cluster in a file of any size, as `kubectl get -A -o yaml` (or `-o json`) prints them.
//!
//! ```text
//! file ─ index (yaml, json): where its objects are ─▶ Slot: some objects, read and parsed on demand
//!                                                       │
//!                 Part ◀─────────────────────────────────┘
//!                  ├▶ each: the objects, for the cluster state of all others
//!                  └▶ subjects: requests as the API server would send them
//! ```
//!
//! The file is read several times and never kept: memory depends on the largest object, not on the file.
//! Input that cannot be split into objects, such as a list with anchors that other elements refer to, is read
//! as a whole.

mod json;
mod subjects;
#[cfg(test)]
mod tests;
mod yaml;

use std::path::Path;
use std::sync::Arc;

use opgate_document::Document;
use opgate_input::objects::{self, ElementType, ObjectError, TypedObject};
use opgate_input::read::{FilePath, OpenFile, Reader};
use opgate_platform::files::display_path;

use crate::content::{Content, Documents, File, Origin, has_documents};
use crate::kinds::is_stored_object;
use crate::{directory, duplicate_keys, template};
pub use subjects::{Subjects, live_subject};

/// The errors of files with objects of a cluster, one line each.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DumpError(String);

/// Bytes of a slot with more than one object or document.
const MAX_SHARED_SLOT_BYTES: u64 = 256 << 10;

/// Bytes that are read at a time.
const BLOCK_BYTES: u64 = 256 << 10;

/// A slot with more bytes counts as a separate file for the input limit.
const MAX_SLOT_BYTES: u64 = 16 << 20;

/// Maximum bytes of a list without its elements.
const MAX_FRAME_BYTES: u64 = 1 << 20;

/// Some objects of a file.
#[derive(Debug, Clone)]
pub struct Slot {
    start: u64,
    end: u64,
    /// Lines before it, and characters before it in its first line.
    lines: u64,
    columns: u64,
    /// The list that they are elements of.
    list: Option<usize>,
}

/// A list whose elements are read one after another.
#[derive(Debug)]
struct List {
    /// Type of elements that do not declare it.
    element_type: Option<ElementType>,
    /// The document.
    range: Slot,
}

/// Positions of the objects in a file.
#[derive(Debug, Default)]
struct DumpIndex {
    slots: Vec<Slot>,
    lists: Vec<List>,
}

impl DumpIndex {
    /// Adds the slots of a list; of a document that turns out to be none, the document.
    fn add_list(&mut self, frame: Option<ElementType>, mut slots: Vec<Slot>, whole: Slot) {
        let Some(typed) = frame else { return self.add_document(whole) };
        let list = Some(self.lists.len());
        for slot in &mut slots {
            slot.list = list;
        }
        self.slots.append(&mut slots);
        self.lists.push(List { element_type: Some(typed), range: whole });
    }

    /// Adds a document; small ones share a slot.
    fn add_document(&mut self, whole: Slot) {
        match self.slots.last_mut() {
            Some(last)
                if last.list.is_none()
                    && last.end == whole.start
                    && whole.end.saturating_sub(last.start) <= MAX_SHARED_SLOT_BYTES =>
            {
                last.end = whole.end;
            }
            _ => self.slots.push(whole),
        }
    }
}

/// A file with objects of a cluster.
#[derive(Debug)]
pub struct Dump {
    path: String,
    opened: OpenFile,
    is_json: bool,
    index: DumpIndex,
}

/// Returns the dumps at a path: a file, or the files of a directory.
///
/// # Errors
/// If one of them cannot be read: one line each.
pub fn open(path: &Path, reader: &Reader) -> Result<Vec<Dump>, DumpError> {
    if !path.is_dir() {
        return Dump::of(FilePath::Named(path), display_path(path), reader).map(|dump| vec![dump]);
    }
    let directory = directory::walk(path).map_err(|error| DumpError(format!("{error:#}")))?;
    let (mut dumps, mut errors) = (Vec::new(), Vec::new());
    for entry in directory.files.iter().filter(|entry| has_documents(&entry.path)) {
        let shown = display_path(&path.join(&entry.path));
        let dump = match &entry.rejection {
            Some(refused) => Err(DumpError(format!("{shown}: {}", refused.message))),
            None => Dump::of(entry.file_path(&directory), shown, reader),
        };
        match dump {
            Ok(dump) => dumps.push(dump),
            Err(why) => errors.push(why.to_string()),
        }
    }
    if errors.is_empty() { Ok(dumps) } else { Err(DumpError(errors.join("\n"))) }
}

/// Reports whether a file begins with a list of objects that an API server has stored, as `kubectl get` prints it. The
/// first object decides.
pub(crate) fn is_stored_list(path: &Path) -> bool {
    let Ok(opened) = FilePath::Named(path).open() else { return false };
    for bytes in [MAX_FRAME_BYTES, MAX_SLOT_BYTES] {
        let Ok(block) = opened.read_part(0..bytes) else { return false };
        let is_whole = u64::try_from(block.len()).is_ok_and(|length| length < bytes);
        let block = block.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&block);
        let is_json = block.trim_ascii_start().starts_with(b"{");
        let find = if is_json { json::first_element } else { yaml::first_element };
        match find(block, is_whole) {
            FirstElement::None => return false,
            FirstElement::Complete(document) => {
                return is_stored_object(&document, if is_json { "" } else { "/0" });
            }
            FirstElement::Incomplete => {}
        }
    }
    // Only a list in a list is this large.
    true
}

/// The first element of a list at the beginning of a text.
enum FirstElement {
    /// There is no list with elements.
    None,
    /// The element; in YAML, as a list of it.
    Complete(Document),
    /// The text ends in it.
    Incomplete,
}

/// Returns the type of a list's elements, from the list without them; none if it is no list.
fn read_element_type(document: &Document) -> Option<ElementType> {
    let text = |pointer: &str| document.get(pointer).and_then(|value| value.text());
    ElementType::of_list(text("/apiVersion")?, text("/kind")?)
}

impl Dump {
    fn of(at: FilePath<'_>, path: String, reader: &Reader) -> Result<Self, DumpError> {
        let failed = |error: std::io::Error| DumpError(format!("{path}: {error}"));
        let opened = at.open().map_err(failed)?;
        reader.charge_file(&opened).map_err(failed)?;
        let start = opened.read_part(0..BLOCK_BYTES).map_err(failed)?;
        let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start).trim_ascii_start();
        let is_json = start.starts_with(b"{");
        let index = if is_json { json::build_index(&opened) } else { yaml::build_index(&opened) };
        let index = index.map_err(failed)?;
        Ok(Self { path, opened, is_json, index })
    }

    /// Its name in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.path
    }

    /// Returns the parts of the file, in order.
    #[must_use]
    pub fn slots(&self) -> &[Slot] {
        &self.index.slots
    }

    /// Reads a part. An error in it becomes its content.
    #[must_use]
    pub fn read(&self, slot: &Slot, reader: &Reader) -> DumpPart {
        // Data that is dropped immediately does not count.
        let free = Reader::new(usize::MAX);
        let is_small = slot.end.saturating_sub(slot.start) <= MAX_SLOT_BYTES;
        let reader = if is_small { &free } else { reader };
        let content = match self.opened.read_part(slot.start..slot.end) {
            Ok(mut bytes) => {
                if self.is_json && slot.list.is_some() {
                    json::blank_commas(&mut bytes);
                }
                Content::of(bytes, &self.path, reader)
            }
            Err(error) => Content::unreadable(&error),
        };
        let origin = Origin::Part { lines: slot.lines, columns: slot.columns };
        let file = duplicate_keys::reject_duplicates(File::new_part(
            self.path.clone(),
            self.path.clone(),
            content,
            origin,
        ));
        let list = slot.list.and_then(|list| self.index.lists.get(list));
        let typed = list.and_then(|list| list.element_type.clone());
        let is_sequence = list.is_some() && !self.is_json;
        DumpPart { file: Arc::new(file), list: slot.list, is_sequence, element_type: typed }
    }

    /// Reads lists as a whole from now on if their elements are unreadable separately.
    pub fn keep_whole(&mut self, lists: &[usize]) -> Vec<Slot> {
        let mut whole = Vec::new();
        for number in lists {
            let Some(list) = self.index.lists.get(*number) else { continue };
            let of = |slot: &Slot| slot.list == Some(*number);
            let slots = &mut self.index.slots;
            let Some(first) = slots.iter().position(of) else { continue };
            slots.retain(|slot| !of(slot));
            slots.insert(first, list.range.clone());
            whole.push(list.range.clone());
        }
        whole
    }
}

/// A part of a file that was read.
#[derive(Debug)]
pub struct DumpPart {
    file: Arc<File>,
    list: Option<usize>,
    /// Whether its objects are elements of a YAML sequence.
    is_sequence: bool,
    element_type: Option<ElementType>,
}

impl DumpPart {
    /// Returns the list that must be read as a whole, because this section of it is unreadable separately.
    #[must_use]
    pub fn unreadable_list(&self) -> Option<usize> {
        self.list.filter(|_| self.file.documents().is_none())
    }

    /// Returns a line with the reason why it is unreadable, if so.
    #[must_use]
    pub fn error_line(&self) -> Option<String> {
        template::error_line(&self.file)
    }

    /// Calls `visit` with each object.
    pub fn for_each_object(&self, visit: &mut impl FnMut(TypedObject<'_, '_>)) {
        for index in 0..self.file.documents().map_or(0, Documents::len) {
            self.visit_document(index, &mut |found| {
                if let Ok(found) = found {
                    visit(found);
                }
            });
        }
    }

    fn visit_document(
        &self,
        index: usize,
        visit: &mut impl FnMut(Result<TypedObject<'_, '_>, ObjectError>),
    ) {
        let Some(documents) = self.file.documents() else { return };
        let document = documents.document(index);
        let (root, typed) = (document.root(), self.element_type.as_ref());
        if self.is_sequence {
            objects::for_each_element(root, "", &mut String::new(), typed, visit);
        } else {
            objects::for_each_object(root, typed, visit);
        }
    }
}
