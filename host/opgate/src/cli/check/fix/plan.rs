//! The fixes of all units of a command. A file can be in several of them: the fixes of a later unit are made after
//! those of the earlier ones.
//!
//! ```text
//! unit, fixes ─▶ add ─┬▶ no earlier unit has changed a file of it ──────────┬▶ write ─▶ result of each unit: after
//!                     └▶ else: evaluated and fixed again, with the new texts ┘    its fixes, as far as they are
//!                                                                                 written
//! ```

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;

use opgate_files::parallel;

use super::outcome::{FixOutcome, UnitFixes};
use super::unit::{Texts, UnitSource, UnitSources};
use super::{Fixer, evaluation};
use crate::cli::check::inputs::LoadedUnit;
use crate::cli::check::units::UnitResult;

/// What waits until the files are written.
struct PlanLimits {
    /// Maximum bytes of results. Units with others are evaluated again.
    result_bytes: usize,
    /// Maximum bytes of old and new texts. Further units are left as they are.
    text_bytes: usize,
}

impl Default for PlanLimits {
    fn default() -> Self {
        Self { result_bytes: 64 << 20, text_bytes: 256 << 20 }
    }
}

/// The result of a unit, and its fixes.
struct PlannedUnit {
    before: UnitResult,
    /// None if nothing was fixed.
    after: Option<UnitResult>,
    fixes: UnitFixes,
}

/// A unit whose fixes were added.
#[derive(Default)]
struct AddedUnit {
    /// Its real path.
    path: PathBuf,
    /// The new texts of its files with which the result is.
    texts: Texts,
    /// None if there was no room for it.
    result: Option<UnitResult>,
}

/// The fixes of the units so far.
pub(in crate::cli::check) struct FixPlan<'f> {
    fixer: &'f Fixer,
    /// Whether files are written. A difference leaves the files as they are, and so are the results.
    writes: bool,
    units: Vec<AddedUnit>,
    outcome: FixOutcome,
    limits: PlanLimits,
    /// Bytes of the results and of the texts so far.
    result_bytes: usize,
    text_bytes: usize,
}

impl Fixer {
    /// Finds the fixes of all units. `on_unit` is called after each of them.
    pub(in crate::cli::check) fn plan_all<'f>(
        &'f self,
        units: &[LoadedUnit],
        sources: &UnitSources<'_>,
        writes: bool,
        on_unit: &(dyn Fn() + Sync),
    ) -> FixPlan<'f> {
        let mut plan = FixPlan::new(self, writes);
        let work = |unit: &LoadedUnit| {
            let source = sources.of(unit);
            let before = source.evaluate_files();
            let (after, fixes) = self.fix_unit(&source, &before, Texts::new());
            on_unit();
            PlannedUnit { before, after, fixes }
        };
        let Ok(()) = parallel::for_each_in_order(units, work, |unit, planned| {
            plan.add(&sources.of(unit), planned);
            Ok::<(), Infallible>(())
        });
        plan
    }

    /// Finds the fixes of a unit whose files have other texts already.
    fn plan_after(&self, unit: &UnitSource<'_>, known: Texts) -> (UnitResult, UnitFixes) {
        if known.get(&unit.real_path()).is_some_and(|file| file.new.is_none()) {
            // Another unit has the file, in its new place.
            return (UnitResult::default(), UnitFixes { files: known, ..UnitFixes::default() });
        }
        let before = evaluation::evaluate(unit, &known);
        let (after, fixes) = self.fix_unit(unit, &before, known);
        (after.unwrap_or(before), fixes)
    }
}

impl<'f> FixPlan<'f> {
    fn new(fixer: &'f Fixer, writes: bool) -> Self {
        Self {
            fixer,
            writes,
            units: Vec::new(),
            outcome: FixOutcome::default(),
            limits: PlanLimits::default(),
            result_bytes: 0,
            text_bytes: 0,
        }
    }

    /// Adds the next unit.
    fn add(&mut self, unit: &UnitSource<'_>, planned: PlannedUnit) {
        let path = unit.real_path();
        let known = self.outcome.texts_below(&path);
        let PlannedUnit { before, after, fixes } = planned;
        let text_bytes = self.text_bytes.saturating_add(fixes.byte_size());
        if text_bytes > self.limits.text_bytes {
            self.outcome.add_unfixed_unit();
            self.units.push(AddedUnit { path, texts: known, result: None });
            return;
        }
        self.text_bytes = text_bytes;
        let (result, fixes) = match (known.is_empty(), self.writes) {
            (true, true) => (after.unwrap_or(before), fixes),
            (true, false) => (before, fixes),
            (false, true) => self.fixer.plan_after(unit, known),
            (false, false) => (before, self.fixer.plan_after(unit, known).1),
        };
        let bytes = self.result_bytes.saturating_add(result.byte_size());
        let result = (bytes <= self.limits.result_bytes).then_some(result);
        if result.is_some() {
            self.result_bytes = bytes;
        }
        self.units.push(AddedUnit { path, texts: fixes.files.clone(), result });
        self.outcome.add(fixes);
    }

    /// Writes the files, unless the changes are printed. Returns the path and a line for each that cannot be
    /// written.
    pub(in crate::cli::check) fn write(&mut self) -> Vec<(PathBuf, String)> {
        if self.writes { self.outcome.write() } else { Vec::new() }
    }

    /// Returns the result of the unit with this number. It is evaluated again if its files are not as its fixes
    /// left them.
    pub(in crate::cli::check) fn take_result(
        &mut self,
        number: usize,
        unit: &UnitSource<'_>,
    ) -> UnitResult {
        let added = self.units.get_mut(number).map(std::mem::take).unwrap_or_default();
        let AddedUnit { path, texts, result } = added;
        let is_current =
            || !self.outcome.has_failed_below(&path) && self.outcome.texts_below(&path) == texts;
        let result = result.filter(|_| !self.writes || is_current());
        result.unwrap_or_else(|| unit.evaluate_files())
    }

    /// Prints the changes, unless they are written. `named` gives a path another name.
    pub(in crate::cli::check) fn print_diff(
        &self,
        named: impl Fn(&str) -> String,
    ) -> io::Result<()> {
        if self.writes { Ok(()) } else { self.outcome.print_diff(named) }
    }

    /// Tells what was fixed, or would be, what was not, and what else could be.
    pub(in crate::cli::check) fn print_summary(&self) {
        self.outcome.print_summary(self.writes);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use opgate_files::{CheckInputType, DetectedInput};
    use opgate_input::read::Reader;

    use super::super::unit::FileTexts;
    use super::*;

    const FIXER: fn() -> Fixer =
        || Fixer { includes_unsafe: false, only: None, file: None, rule_order: HashMap::new() };

    /// A unit of one file, whose text `a` became `b`, and whose result has a warning.
    fn planned(path: &Path) -> PlannedUnit {
        let texts = |text: &str| Some(Arc::from(text.repeat(40)));
        let file = FileTexts {
            path: path.to_owned(),
            original: texts("a"),
            new: texts("b"),
            source: None,
        };
        let files = Texts::from([(path.to_owned(), file)]);
        let after = UnitResult { warnings: vec!["kept".to_owned()], ..UnitResult::default() };
        PlannedUnit {
            before: UnitResult::default(),
            after: Some(after),
            fixes: UnitFixes { files, ..UnitFixes::default() },
        }
    }

    /// Adds units of the files `a`, `b` and `c`. Returns the files whose fixes are planned, and the number of units
    /// that are evaluated again.
    fn plan(limits: PlanLimits) -> (Vec<String>, usize) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let evaluations = AtomicUsize::new(0);
        let evaluate = |_: &DetectedInput, _: &Reader| {
            evaluations.fetch_add(1, Ordering::Relaxed);
            UnitResult::default()
        };
        let reader = Reader::new(1 << 20);
        let sources = UnitSources { reader: &reader, evaluate: &evaluate, waived: &[] };
        let units = ["a", "b", "c"].map(|name| {
            let path = root.join(name);
            std::fs::write(&path, "a".repeat(40)).unwrap();
            (DetectedInput::new(path, CheckInputType::Manifest), None)
        });
        let fixer = FIXER();
        let mut plan = FixPlan { limits, ..FixPlan::new(&fixer, true) };
        for unit in &units {
            plan.add(&sources.of(unit), planned(&unit.0.path));
        }
        let changed = plan.outcome.texts_below(&root).into_keys();
        let changed = changed.map(|path| path.file_name().unwrap().display().to_string()).collect();
        for (number, unit) in units.iter().enumerate() {
            plan.take_result(number, &sources.of(unit));
        }
        (changed, evaluations.into_inner())
    }

    #[test]
    fn limits_of_texts_leave_units_unfixed_and_those_of_results_evaluate_them_again() {
        let all = || ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(plan(PlanLimits::default()), (all(), 0));
        // The texts of a unit have 80 bytes.
        let texts = PlanLimits { text_bytes: 160, ..PlanLimits::default() };
        assert_eq!(plan(texts), (vec!["a".to_owned(), "b".to_owned()], 1));
        let results = PlanLimits { result_bytes: 0, ..PlanLimits::default() };
        assert_eq!(plan(results), (all(), 3));
    }
}
