//! Finds the units of a workspace, and the names that files refer to, in a separate thread.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use opgate_files::{self as files, DetectedInput, directory};
use opgate_input::read::{ReadPurpose, Reader};
use opgate_lsp::names::{self, Declaration, MAX_INDEX_BYTES};
use opgate_lsp::outline::Outline;
use opgate_lsp::paths::is_document;

use super::messages::{Event, Job};

/// Maximum bytes of a file in which names are searched, and of all together.
const MAX_FILE_BYTES: u64 = 8 << 20;
const MAX_ALL_BYTES: usize = 1 << 30;
/// Maximum number of files with names.
const MAX_FILES: usize = 200_000;

/// Searches directories. The units arrive before the names.
pub(super) fn scan(roots: &[PathBuf], jobs: &Sender<Job>, events: &Sender<Event>) {
    let mut inputs = Vec::new();
    for root in roots {
        // A directory without anything to check is no error in an editor.
        match files::detect(root, &Reader::default()) {
            Ok(found) => inputs.extend(found.inputs),
            Err(error) => tracing::debug!(error = %error, "nothing to check found"),
        }
    }
    let units = inputs.clone();
    // Without a receiver the session has ended.
    if jobs.send(Job::Detected(inputs)).is_err() {
        return;
    }
    let reader = Reader::new(MAX_ALL_BYTES);
    let (mut files, mut bytes) = (HashSet::new(), 0_usize);
    'units: for unit in &units {
        for (path, declared) in unit_names(unit, &reader) {
            bytes = bytes.saturating_add(names::size_of_file(&path, &declared));
            if files.len() >= MAX_FILES || bytes > MAX_INDEX_BYTES {
                break 'units;
            }
            files.insert(path.clone());
            if events.send(Event::Names(path, declared)).is_err() {
                return;
            }
        }
    }
    let _ = events.send(Event::Indexed(units.len(), files));
}

fn unit_names(unit: &DetectedInput, reader: &Reader) -> Vec<(PathBuf, Vec<Declaration>)> {
    let is_file = unit.directory.is_some() || !unit.path.is_dir();
    if is_file {
        let declared = file_names(&unit.path, reader);
        return declared.map(|declared| (unit.path.clone(), declared)).into_iter().collect();
    }
    let Ok(listing) = directory::walk(&unit.path) else { return Vec::new() };
    let documents = listing
        .files
        .iter()
        .filter(|entry| entry.rejection.is_none() && is_document(Path::new(&entry.path)));
    let names = documents.filter_map(|entry| {
        let opened = entry.file_path(&listing).open().ok()?;
        let declared = opened_names(opened, reader)?;
        Some((unit.path.join(&entry.path), declared))
    });
    names.collect()
}

/// Returns the names of a file; none if it has none.
pub(super) fn file_names(path: &Path, reader: &Reader) -> Option<Vec<Declaration>> {
    // A link could lead anywhere.
    if path.symlink_metadata().ok()?.is_symlink() {
        return None;
    }
    opened_names(opgate_input::read::open_named(path).ok()?, reader)
}

fn opened_names(opened: opgate_input::read::OpenFile, reader: &Reader) -> Option<Vec<Declaration>> {
    if opened.size > MAX_FILE_BYTES {
        return None;
    }
    let text = String::from_utf8(reader.read(opened, true, ReadPurpose::Scan).ok()?).ok()?;
    if !names::may_declare(&text) {
        return None;
    }
    let declared = names::declarations(&text, &Outline::of(&text));
    (!declared.is_empty()).then_some(declared)
}
