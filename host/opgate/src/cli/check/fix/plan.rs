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

/// Maximum bytes of results that wait until the files are written. Units with others are evaluated again.
const MAX_RESULT_BYTES: usize = 64 << 20;
/// Maximum bytes of old and new texts that wait. Further units are left as they are.
const MAX_TEXT_BYTES: usize = 256 << 20;

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
        let mut plan = FixPlan {
            fixer: self,
            writes,
            units: Vec::new(),
            outcome: FixOutcome::default(),
            result_bytes: 0,
            text_bytes: 0,
        };
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

impl FixPlan<'_> {
    /// Adds the next unit.
    fn add(&mut self, unit: &UnitSource<'_>, planned: PlannedUnit) {
        let path = unit.real_path();
        let known = self.outcome.texts_below(&path);
        let PlannedUnit { before, after, fixes } = planned;
        let text_bytes = self.text_bytes.saturating_add(fixes.byte_size());
        if text_bytes > MAX_TEXT_BYTES {
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
        let result = (bytes <= MAX_RESULT_BYTES).then_some(result);
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
