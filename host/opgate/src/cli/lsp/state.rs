//! The open texts, findings and names of a session.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsp_types::Uri;
use opgate_lsp::finding::Finding;
use opgate_lsp::names::NameIndex;
use opgate_lsp::outline::Outline;
use opgate_lsp::paths::{FileKind, file_kind};
use opgate_lsp::text_document::{AppliedEdit, TextDocument};
use opgate_lsp::uri;

use super::client::ClientOptions;
use super::file_findings::FileFindings;
use super::messages::{Knowledge, UnitKey};

/// An open text.
pub(super) struct OpenFile {
    /// As the editor writes it.
    pub(super) uri: Uri,
    pub(super) document: TextDocument,
    pub(super) outline: Arc<Outline>,
    pub(super) kind: FileKind,
    /// The number of this text in the session: editors use a version again when they open a file again.
    pub(super) revision: u64,
}

impl OpenFile {
    pub(super) fn new(path: &Path, uri: Uri, document: TextDocument) -> Self {
        let outline = Arc::new(Outline::of(document.text()));
        let kind = file_kind(path, document.text(), &outline);
        Self { uri, document, outline, kind, revision: 0 }
    }

    pub(super) fn update(&mut self, path: &Path) {
        self.outline = Arc::new(Outline::of(self.document.text()));
        self.kind = file_kind(path, self.document.text(), &self.outline);
    }
}

/// Maximum bytes of all findings. Those of further files are not shown while they are not open.
const MAX_FINDING_BYTES: usize = 64 << 20;

/// What features answer from.
pub(super) struct SessionState {
    pub(super) options: ClientOptions,
    pub(super) files: HashMap<PathBuf, OpenFile>,
    last_revision: u64,
    findings: HashMap<PathBuf, BTreeMap<UnitKey, Vec<Finding>>>,
    units: HashMap<UnitKey, HashSet<PathBuf>>,
    finding_bytes: usize,
    pub(super) knowledge: Option<Box<Knowledge>>,
    pub(super) names: NameIndex,
}

impl SessionState {
    pub(super) fn new(options: ClientOptions) -> Self {
        Self {
            options,
            files: HashMap::new(),
            last_revision: 0,
            findings: HashMap::new(),
            units: HashMap::new(),
            finding_bytes: 0,
            knowledge: None,
            names: NameIndex::default(),
        }
    }

    /// Returns the findings of a file.
    pub(super) fn findings_of(&self, path: &Path) -> impl Iterator<Item = &Finding> {
        self.findings.get(path).into_iter().flat_map(|units| units.values().flatten())
    }

    /// Returns the address of a path, as the editor writes it.
    pub(super) fn uri_of(&self, path: &Path) -> Uri {
        let open = self.files.get(path);
        open.map_or_else(|| Uri::from(uri::of_path(path)), |file| file.uri.clone())
    }

    /// Returns the files with findings of a unit.
    pub(super) fn files_of(&self, unit: &UnitKey) -> impl Iterator<Item = &PathBuf> {
        self.units.get(unit).into_iter().flatten()
    }

    /// Gives a new text its number, if it is open. The fixes were made for another one.
    pub(super) fn revise(&mut self, path: &Path) {
        self.last_revision = self.last_revision.saturating_add(1);
        if let Some(file) = self.files.get_mut(path) {
            file.revision = self.last_revision;
        }
        let units = self.findings.get_mut(path).into_iter().flat_map(BTreeMap::values_mut);
        for list in units {
            let before = size_of_list(list);
            for finding in list.iter_mut() {
                finding.fix = None;
            }
            let bytes = self.finding_bytes.saturating_sub(before);
            self.finding_bytes = bytes.saturating_add(size_of_list(list));
        }
    }

    /// Moves the findings of a text with its edits.
    pub(super) fn move_findings(&mut self, path: &Path, edits: &[AppliedEdit]) {
        if let Some(units) = self.findings.get_mut(path) {
            for list in units.values_mut() {
                let before = size_of_list(list);
                list.retain_mut(|finding| edits.iter().all(|edit| finding.follow(edit)));
                let bytes = self.finding_bytes.saturating_sub(before);
                self.finding_bytes = bytes.saturating_add(size_of_list(list));
            }
        }
    }

    /// Returns the bytes of the open texts.
    pub(super) fn open_bytes(&self) -> usize {
        self.files.values().map(|file| file.document.text().len()).sum()
    }

    /// Sets the findings of a unit that has none. Returns the number of those that are not kept.
    pub(super) fn add_unit(&mut self, unit: &UnitKey, findings: FileFindings) -> usize {
        let mut dropped = 0_usize;
        for (path, list) in findings {
            let bytes = size_of_list(&list);
            let is_kept = self.files.contains_key(&path)
                || self.finding_bytes.saturating_add(bytes) <= MAX_FINDING_BYTES;
            if !is_kept {
                dropped = dropped.saturating_add(list.len());
                continue;
            }
            self.finding_bytes = self.finding_bytes.saturating_add(bytes);
            self.units.entry(unit.clone()).or_default().insert(path.clone());
            self.findings.entry(path).or_default().insert(unit.clone(), list);
        }
        dropped
    }

    /// Removes the findings of a unit. Returns their files.
    pub(super) fn remove_unit(&mut self, unit: &UnitKey) -> HashSet<PathBuf> {
        let files = self.units.remove(unit).unwrap_or_default();
        for path in &files {
            let Some(units) = self.findings.get_mut(path) else { continue };
            let bytes = units.remove(unit).map_or(0, |list| size_of_list(&list));
            self.finding_bytes = self.finding_bytes.saturating_sub(bytes);
            if units.is_empty() {
                self.findings.remove(path);
            }
        }
        files
    }
}

fn size_of_list(list: &[Finding]) -> usize {
    list.iter().map(Finding::size).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use opgate_lsp::finding::Severity;

    use super::super::file_findings::error_finding;
    use super::*;

    #[test]
    fn findings_of_closed_files_are_bounded() {
        let mut state = SessionState::new(ClientOptions::default());
        let open = PathBuf::from("/open.yaml");
        let document = TextDocument::new(1, "");
        let file = OpenFile::new(&open, Uri::from("file:///open.yaml"), document);
        state.files.insert(open.clone(), file);
        let finding = error_finding(Severity::Error, &"x".repeat(4_000));
        let key = |number: usize| UnitKey::Unit(PathBuf::from(format!("/{number}")));
        let mut dropped = 0;
        for number in 0..100 {
            let path = PathBuf::from(format!("/{number}/a.yaml"));
            let list = vec![finding.clone(); 1_000];
            dropped += state.add_unit(&key(number), FileFindings::from([(path, list)]));
        }
        assert!(dropped > 50_000 && state.finding_bytes <= MAX_FINDING_BYTES, "{dropped}");
        // An open file has its findings also then.
        let list = vec![finding.clone()];
        assert_eq!(state.add_unit(&key(200), FileFindings::from([(open.clone(), list)])), 0);
        assert_eq!(state.findings_of(&open).count(), 1);
        state.move_findings(&open, &[AppliedEdit { replaced: 0..0, inserted: 1 }]);
        (0..=200).for_each(|number| drop(state.remove_unit(&key(number))));
        assert_eq!((state.finding_bytes, state.findings.len()), (0, 0));
    }
}
