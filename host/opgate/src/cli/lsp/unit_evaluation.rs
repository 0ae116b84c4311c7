//! Evaluates a unit for an editor: findings by file, and the resources of other objects that they depend on.
//!
//! ```text
//! unit, texts of the editor ─▶ CollectedResults ─▶ FindingCollector ─▶ UnitFindings
//! ```

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use opgate_files::DetectedInput;
use opgate_input::read::Reader;

use super::file_findings::{FileFindings, FindingCollector};
use super::settings::LoadedPolicies;
use crate::cli::check::collected::{CollectedResults, waiver_directory};
use crate::cli::check::decision_cache::DecisionCache;
use crate::cli::report::page::RulePages;

/// Number of units whose earlier decisions are kept.
const MAX_CACHED_UNITS: usize = 4;

/// The policies, and earlier decisions.
pub(super) struct Policies {
    pub(super) loaded: LoadedPolicies,
    pub(super) pages: RulePages,
    caches: VecDeque<(PathBuf, DecisionCache)>,
}

/// A unit to evaluate.
pub(super) struct UnitParameters<'u> {
    pub(super) input: &'u DetectedInput,
    pub(super) reader: &'u Reader,
    /// The texts of the editor: only their findings need fixes.
    pub(super) open: &'u HashMap<PathBuf, Arc<str>>,
    /// The file for what has no place; none for that of the unit.
    pub(super) main_file: Option<&'u Path>,
}

/// The findings of a unit.
pub(super) struct UnitFindings {
    pub(super) files: FileFindings,
    /// The resources that rules read; none if they are not all known.
    pub(super) reads: Option<BTreeSet<String>>,
}

impl Policies {
    pub(super) fn new(loaded: LoadedPolicies, pages: RulePages) -> Self {
        Self { loaded, pages, caches: VecDeque::new() }
    }

    /// Takes the earlier decisions on a unit.
    pub(super) fn take_cache(&mut self, unit: &Path) -> Option<DecisionCache> {
        let index = self.caches.iter().position(|(known, _)| known == unit)?;
        self.caches.remove(index).map(|(_, cache)| cache)
    }

    /// Keeps the decisions on a unit that is edited, and will be evaluated again and again.
    pub(super) fn keep_cache(&mut self, unit: &Path, cache: DecisionCache) {
        self.caches.push_front((unit.to_owned(), cache));
        self.caches.truncate(MAX_CACHED_UNITS);
    }

    /// Returns whether earlier decisions on a unit are kept.
    pub(super) fn has_cache(&self, unit: &Path) -> bool {
        self.caches.iter().any(|(known, _)| known == unit)
    }

    /// Forgets all decisions: objects that rules read have changed.
    pub(super) fn forget_decisions(&mut self) {
        self.caches.clear();
    }

    /// Evaluates a unit. None if it is cancelled.
    pub(super) fn evaluate(
        &self,
        unit: &UnitParameters<'_>,
        cache: &DecisionCache,
    ) -> Option<UnitFindings> {
        let UnitParameters { input, reader, open, main_file } = *unit;
        let LoadedPolicies { configuration, set, .. } = &self.loaded;
        let results = CollectedResults::of_unit(input, configuration, set, reader, cache)?;
        let main_file = main_file.map_or_else(|| self::main_file(input), Path::to_owned);
        let collector = FindingCollector::new(reader, main_file, waiver_directory(input));
        let mut collector = collector.with_fixes_of(open);
        collector.add_results(&results, &self.pages);
        Some(UnitFindings { files: collector.finish(), reads: results.reads })
    }

    /// Evaluates a unit without earlier decisions.
    pub(super) fn evaluate_once(
        &self,
        unit: &UnitParameters<'_>,
        input_generation: &Arc<AtomicU64>,
        generation: u64,
    ) -> Option<UnitFindings> {
        let mut cache = DecisionCache::default();
        cache.start_evaluation(input_generation, generation);
        self.evaluate(unit, &cache)
    }
}

/// Returns the file that stands for a unit as a whole.
fn main_file(input: &DetectedInput) -> PathBuf {
    if input.directory.is_some() || !input.path.is_dir() {
        return input.path.clone();
    }
    let annotations = input.path.join("metadata/annotations.yaml");
    if annotations.is_file() {
        return annotations;
    }
    let first = |directory: &Path| {
        let mut files: Vec<_> = directory
            .read_dir()
            .ok()?
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| opgate_lsp::paths::is_document(path))
            .collect();
        files.sort();
        files.into_iter().next()
    };
    first(&input.path.join("manifests"))
        .or_else(|| first(&input.path))
        .unwrap_or_else(|| input.path.join("opgate.yaml"))
}
