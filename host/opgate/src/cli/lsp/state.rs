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
use super::messages::{Knowledge, UnitKey};

/// An open text.
pub(super) struct OpenFile {
    /// As the editor writes it.
    pub(super) uri: Uri,
    pub(super) document: TextDocument,
    pub(super) outline: Arc<Outline>,
    pub(super) kind: FileKind,
}

impl OpenFile {
    pub(super) fn new(path: &Path, uri: Uri, document: TextDocument) -> Self {
        let outline = Arc::new(Outline::of(document.text()));
        let kind = file_kind(path, document.text(), &outline);
        Self { uri, document, outline, kind }
    }

    pub(super) fn update(&mut self, path: &Path) {
        self.outline = Arc::new(Outline::of(self.document.text()));
        self.kind = file_kind(path, self.document.text(), &self.outline);
    }
}

/// What features answer from.
pub(super) struct SessionState {
    pub(super) options: ClientOptions,
    pub(super) files: HashMap<PathBuf, OpenFile>,
    findings: HashMap<PathBuf, BTreeMap<UnitKey, Vec<Finding>>>,
    units: HashMap<UnitKey, HashSet<PathBuf>>,
    pub(super) knowledge: Option<Box<Knowledge>>,
    pub(super) names: NameIndex,
}

impl SessionState {
    pub(super) fn new(options: ClientOptions) -> Self {
        Self {
            options,
            files: HashMap::new(),
            findings: HashMap::new(),
            units: HashMap::new(),
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

    /// Moves the findings of a text with its edits.
    pub(super) fn move_findings(&mut self, path: &Path, edits: &[AppliedEdit]) {
        if let Some(units) = self.findings.get_mut(path) {
            for list in units.values_mut() {
                list.retain_mut(|finding| edits.iter().all(|edit| finding.follow(edit)));
            }
        }
    }

    /// Sets the findings of a unit that has none.
    pub(super) fn add_unit(&mut self, unit: &UnitKey, findings: HashMap<PathBuf, Vec<Finding>>) {
        if !findings.is_empty() {
            self.units.insert(unit.clone(), findings.keys().cloned().collect());
        }
        for (path, list) in findings {
            self.findings.entry(path).or_default().insert(unit.clone(), list);
        }
        self.findings.retain(|_, units| !units.is_empty());
    }

    /// Removes the findings of a unit. Returns their files.
    pub(super) fn remove_unit(&mut self, unit: &UnitKey) -> HashSet<PathBuf> {
        let files = self.units.remove(unit).unwrap_or_default();
        for path in &files {
            if let Some(units) = self.findings.get_mut(path) {
                units.remove(unit);
            }
        }
        files
    }
}
