//! A unit to fix, and the texts of its files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use opgate_files::DetectedInput;
use opgate_input::read::Reader;

use crate::cli::check::units::UnitResult;

/// A unit, and how it is evaluated.
pub(in crate::cli::check) struct UnitSource<'u> {
    pub(in crate::cli::check) input: &'u DetectedInput,
    pub(in crate::cli::check) reader: &'u Reader,
    /// Evaluates the unit, or a copy of it, with the texts of a reader.
    pub(in crate::cli::check) evaluate: &'u dyn Fn(&DetectedInput, &Reader) -> UnitResult,
    /// The rules that are waived there.
    pub(in crate::cli::check) waived: Option<&'u BTreeSet<String>>,
}

/// The texts of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::check) struct FileTexts {
    /// None for a new file.
    pub(super) original: Option<Arc<str>>,
    /// None for a file that is removed.
    pub(super) new: Option<Arc<str>>,
    /// The file that a new one has its permissions from.
    pub(super) source: Option<PathBuf>,
}

/// The texts of the files so far.
pub(super) type Texts = BTreeMap<PathBuf, FileTexts>;
