//! Results of a check in memory, for a page instead of a report.
//!
//! ```text
//! PATH ─▶ LoadedInput ─▶ UnitEvaluator ─▶ CollectedResults: records, unreadable inputs, notes
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opgate_admission::policy::{Configuration, PolicySet};
use opgate_files::{CheckInputType, DetectedInput, parallel};
use opgate_input::read::Reader;
use opgate_platform::files::{display_path, remove_directory};

use super::decision_cache::DecisionCache;
use super::evaluate::{SubjectResult, error_lines};
use super::fix::FileToFix;
use super::inputs::LoadedInput;
use super::report::CheckRecord;
use super::units::{UnitEvaluator, UnitResult};
use super::waivers::{self, DirectoryWaivers, KnownRules, WaiverFile};
use crate::cli::report::{ReportItem, UnreadableInput};

/// Results of a file or a directory. Names of files are relative to the directory.
pub(in crate::cli) struct CollectedResults {
    records: Vec<CheckRecord>,
    pub(in crate::cli) unreadable: Vec<UnreadableInput>,
    /// One line each.
    pub(in crate::cli) notes: Vec<String>,
    /// Whether rules were skipped for want of cluster state.
    pub(in crate::cli) has_skipped_rules: bool,
    /// The resources that rules read; none if they are not all known.
    pub(in crate::cli) reads: Option<BTreeSet<String>>,
    /// The directory of all paths.
    directory: PathBuf,
}

impl CollectedResults {
    /// Evaluates everything in a directory, or only this file in it.
    pub(in crate::cli) fn of(
        directory: &Path,
        file: Option<&Path>,
        configuration: &Configuration,
        set: &PolicySet,
        reader: &Reader,
    ) -> Self {
        let mut collected = Self { directory: directory.to_owned(), ..Self::empty() };
        let path = file.map_or_else(|| directory.to_owned(), |file| directory.join(file));
        let mut loaded = load(path, &KnownRules::of(configuration, set), reader);
        let mut waivers: Vec<_> = std::mem::take(&mut loaded.waivers)
            .into_iter()
            .map(|read| WaiverFile::new(read, false, waivers::today()))
            .collect();
        let units = UnitEvaluator::new(set, reader);
        units.share_objects(&loaded.units);
        let evaluate = |(input, _): &(DetectedInput, Option<usize>)| units.evaluate(input);
        let Ok(()) =
            parallel::for_each_in_order(&loaded.units, evaluate, |(input, number), unit| {
                let file = number.and_then(|number| waivers.get_mut(number));
                collected.add_unit(&input.path, unit, file, configuration.warnings_as_errors);
                Ok::<(), std::convert::Infallible>(())
            });
        collected.unreadable.append(&mut loaded.unreadable);
        collected.notes.extend(waivers.iter().flat_map(WaiverFile::notes));
        collected.rename_paths();
        collected
    }

    fn empty() -> Self {
        Self {
            records: Vec::new(),
            unreadable: Vec::new(),
            notes: Vec::new(),
            has_skipped_rules: false,
            reads: Some(BTreeSet::new()),
            directory: PathBuf::new(),
        }
    }

    /// Reads the waivers of a directory without a unit.
    pub(in crate::cli) fn of_waivers(
        directory: &Path,
        configuration: &Configuration,
        set: &PolicySet,
        reader: &Reader,
    ) -> Self {
        let mut collected = Self::empty();
        let file = display_path(&directory.join(opgate_files::waivers::FILE_NAME));
        match KnownRules::of(configuration, set).waivers(directory, &reader.with_full_budget()) {
            Ok(_) => collected.notes.push(format!(
                "{file}:1:1: it has no effect here: it belongs in the directory of a bundle or a catalog"
            )),
            Err(lines) => collected.add_error(&file, &lines.to_string()),
        }
        collected
    }

    /// Evaluates one unit, with the waivers of its directory. Names of files stay as they are. None if it is
    /// cancelled.
    pub(in crate::cli) fn of_unit(
        input: &DetectedInput,
        configuration: &Configuration,
        set: &PolicySet,
        reader: &Reader,
        decisions: &DecisionCache,
    ) -> Option<Self> {
        let mut collected = Self::empty();
        let mut waivers = None;
        if let Some(directory) = waiver_directory(input) {
            let rules = KnownRules::of(configuration, set);
            match rules.waivers(&directory, &reader.with_full_budget()) {
                Ok(read) => {
                    let is_whole = directory == input.path;
                    let file = |waivers| DirectoryWaivers { waivers, is_whole };
                    let file = |waivers| WaiverFile::new(file(waivers), false, waivers::today());
                    waivers = read.map(file);
                }
                Err(lines) => {
                    let file = directory.join(opgate_files::waivers::FILE_NAME);
                    collected.add_error(&display_path(&file), &lines.to_string());
                }
            }
        }
        let mut units = UnitEvaluator::new(set, reader);
        units.decisions = Some(decisions);
        let unit = units.evaluate(input);
        if decisions.is_cancelled() {
            return None;
        }
        collected.add_unit(&input.path, unit, waivers.as_mut(), configuration.warnings_as_errors);
        collected.notes.extend(waivers.iter().flat_map(WaiverFile::notes));
        Some(collected)
    }

    /// Returns the text of a file of a unit after all safe fixes of this file, as `opgate check --fix` makes them.
    /// None if the text does not change, or if it is cancelled.
    pub(in crate::cli) fn fixed_text(
        input: &DetectedInput,
        file: &Path,
        (configuration, set): (&Configuration, &PolicySet),
        reader: &Reader,
        decisions: &DecisionCache,
    ) -> Option<Arc<str>> {
        let rules = KnownRules::of(configuration, set);
        let directory = waiver_directory(input);
        let read = directory.map(|directory| rules.waivers(&directory, &reader.with_full_budget()));
        // Without valid waivers, a fix could be made of a violation that the author has waived.
        let waived = read.transpose().ok()?.flatten().map(|waivers| {
            let file = DirectoryWaivers { waivers, is_whole: true };
            WaiverFile::new(file, false, waivers::today()).waived_rules()
        });
        let mut units = UnitEvaluator::new(set, reader);
        units.decisions = Some(decisions);
        let evaluate = |input: &DetectedInput, reader: &Reader| units.evaluate_with(reader, input);
        let fixed = FileToFix { input, file, reader, waived: waived.as_ref() };
        fixed.new_text(set, &evaluate).filter(|_| !decisions.is_cancelled())
    }

    fn add_unit(
        &mut self,
        path: &Path,
        unit: UnitResult,
        mut waivers: Option<&mut WaiverFile>,
        warnings_as_errors: bool,
    ) {
        let source = display_path(path);
        self.notes.extend(unit.warnings);
        self.add_error(&source, unit.error.as_deref().unwrap_or_default());
        for result in unit.results {
            match result {
                Ok(result) => self.add_result(result, waivers.as_deref_mut(), warnings_as_errors),
                Err(error) => self.add_error(&source, &format!("{error:#}")),
            }
        }
    }

    fn add_result(
        &mut self,
        result: SubjectResult,
        waivers: Option<&mut WaiverFile>,
        warnings_as_errors: bool,
    ) {
        self.has_skipped_rules |= result.has_skipped_rules();
        let SubjectResult { mut record, unreported, reads, .. } = result;
        match (&mut self.reads, reads) {
            (Some(known), Some(reads)) => known.extend(reads),
            (known, _) => *known = None,
        }
        if let Some(waivers) = waivers {
            waivers.waive(&mut record);
        }
        record.conclude(warnings_as_errors, unreported.is_empty());
        let unreadable =
            unreported.into_iter().map(|(source, line)| UnreadableInput { source, line });
        self.unreadable.extend(unreadable);
        self.records.push(record);
    }

    fn add_error(&mut self, source: &str, lines: &str) {
        let lines = error_lines(source, lines).into_iter();
        self.unreadable
            .extend(lines.map(|line| UnreadableInput { source: source.to_owned(), line }));
    }

    /// Removes the directory from all names of files.
    fn rename_paths(&mut self) {
        let named = |text: &str| remove_directory(text, &self.directory, "(input)");
        self.records.iter_mut().for_each(|record| record.rename_paths(named));
        for UnreadableInput { source, line } in &mut self.unreadable {
            (*source, *line) = (named(source), named(line));
        }
        self.notes.iter_mut().for_each(|note| *note = named(note));
    }

    /// Returns the results for a report.
    pub(in crate::cli) fn items(&self) -> Vec<ReportItem<'_>> {
        self.records.iter().map(CheckRecord::item).collect()
    }
}

/// Returns the directory whose waivers apply to a unit.
pub(in crate::cli) fn waiver_directory(input: &DetectedInput) -> Option<PathBuf> {
    if let Some(directory) = &input.directory {
        return Some(directory.clone());
    }
    if input.path.is_dir() {
        return Some(input.path.clone());
    }
    input.path.parent().map(Path::to_owned)
}

/// Finds the subjects. Objects that were exported from a cluster are manifests here: they are not all objects of it.
fn load(path: PathBuf, rules: &KnownRules<'_>, reader: &Reader) -> LoadedInput {
    let waivers = |directory: &Path| rules.waivers(directory, &reader.with_full_budget());
    let paths = [path];
    let loaded = LoadedInput::of(&paths, None, None, reader, &waivers);
    if loaded.dumps.is_empty() {
        return loaded;
    }
    LoadedInput::of(&paths, Some(CheckInputType::Manifest), None, reader, &waivers)
}
