//! A unit to fix, and the texts of its files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opgate_files::DetectedInput;
use opgate_input::read::Reader;

use crate::cli::check::inputs::LoadedUnit;
use crate::cli::check::units::UnitResult;

/// Evaluates a unit, or a copy of it, with the texts of a reader.
type Evaluate<'e> = dyn Fn(&DetectedInput, &Reader) -> UnitResult + Sync + 'e;

/// How the units of a command are evaluated.
pub(in crate::cli::check) struct UnitSources<'u> {
    pub(in crate::cli::check) reader: &'u Reader,
    pub(in crate::cli::check) evaluate: &'u Evaluate<'u>,
    /// The waived rules, by the indexes of the waivers.
    pub(in crate::cli::check) waived: &'u [BTreeSet<String>],
}

impl<'u> UnitSources<'u> {
    /// Returns one of the units, and how it is evaluated.
    pub(in crate::cli::check) fn of(&self, (input, waivers): &'u LoadedUnit) -> UnitSource<'u> {
        let Self { reader, evaluate, waived } = *self;
        UnitSource { input, reader, evaluate, waived: waivers.and_then(|index| waived.get(index)) }
    }
}

/// A unit, and how it is evaluated.
pub(in crate::cli::check) struct UnitSource<'u> {
    pub(in crate::cli::check) input: &'u DetectedInput,
    pub(in crate::cli::check) reader: &'u Reader,
    pub(in crate::cli::check) evaluate: &'u Evaluate<'u>,
    /// The rules that are waived there.
    pub(in crate::cli::check) waived: Option<&'u BTreeSet<String>>,
}

/// The texts of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileTexts {
    /// The path by which it was found.
    pub(super) path: PathBuf,
    /// None for a new file.
    pub(super) original: Option<Arc<str>>,
    /// None for a file that is removed.
    pub(super) new: Option<Arc<str>>,
    /// The real path of the file that a new one has its permissions from.
    pub(super) source: Option<PathBuf>,
}

/// The texts of the files so far, by their real paths: a file can be found by several paths.
pub(super) type Texts = BTreeMap<PathBuf, FileTexts>;

impl UnitSource<'_> {
    /// Returns its path without links.
    pub(super) fn real_path(&self) -> PathBuf {
        let path = &self.input.path;
        path.canonicalize().unwrap_or_else(|_| path.clone())
    }

    /// Evaluates it as its files are.
    pub(super) fn evaluate_files(&self) -> UnitResult {
        (self.evaluate)(self.input, &self.reader.with_full_budget())
    }
}

/// Returns the directory of a file.
pub(super) fn parent_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}
