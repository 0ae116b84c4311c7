//! What the session, the evaluator and the scan send to each other.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use lsp_server::Message;
use opgate_files::DetectedInput;
use opgate_lsp::completion::Vocabulary;
use opgate_lsp::names::Declaration;

use super::backlog::BacklogCharge;
use super::file_findings::FileFindings;

/// What a session receives.
pub(super) enum Event {
    /// A message of the editor.
    Message(Message),
    /// The editor is gone.
    Disconnected,
    /// The policies are loaded.
    Ready(Box<Knowledge>),
    /// The findings of a unit.
    Evaluated(EvaluatedUnit),
    /// The text of a file after its safe fixes; none if there are none.
    Fixed(FixAllTicket, Option<Arc<str>>),
    /// A unit is not there any more.
    Removed(UnitKey),
    /// The names that a file declares.
    Names(PathBuf, Vec<Declaration>),
    /// The workspace is searched: the number of its units, and the files with names.
    Indexed(usize, HashSet<PathBuf>),
    /// All units of the workspace are evaluated.
    Checked(usize),
    /// Something that the user should know.
    Note(String),
    /// Nothing can be evaluated.
    Failed(String),
}

/// A task of the evaluator.
pub(super) enum Job {
    /// The texts of the editor have changed.
    Texts,
    /// The text of a file after its safe fixes is wanted.
    FixAll(FixAllTicket, PathBuf),
    /// The units of the workspace.
    Detected(Vec<DetectedInput>),
    /// Files on disk have changed, together.
    FilesChanged(FileChanges),
    /// Something was deleted that can be a directory.
    Deleted(Vec<PathBuf>),
    /// A text was saved.
    Saved(PathBuf),
    /// The workspace has other directories.
    Roots(Vec<PathBuf>),
    /// The configuration has changed.
    Reload,
    /// The editor ends.
    Stop,
}

/// Changes of files on disk.
#[derive(Debug, Default)]
pub(super) struct FileChanges {
    pub(super) paths: Vec<PathBuf>,
    /// Whether files were added or removed: the workspace can have other units.
    pub(super) needs_scan: bool,
}

/// The findings of a unit.
pub(super) struct EvaluatedUnit {
    /// Names the unit: its path, or the file whose syntax was read.
    pub(super) unit: UnitKey,
    pub(super) findings: FileFindings,
    /// Numbers of the texts of the editor that were evaluated.
    pub(super) revisions: HashMap<PathBuf, u64>,
    /// Groups that end with it.
    pub(super) ended: Vec<UnitKey>,
    /// Its bytes, until it is dropped.
    pub(super) charge: BacklogCharge,
}

/// The number of a request for the safe fixes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FixAllTicket(pub(super) u64);

/// The name of a group of findings, which are replaced together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum UnitKey {
    /// Syntax of a file.
    Syntax(PathBuf),
    /// A unit at a path.
    Unit(PathBuf),
}

/// What features know of the rules.
pub(super) struct Knowledge {
    pub(super) vocabulary: Vocabulary,
    /// Pages by rule.
    pub(super) pages: HashMap<String, String>,
}
