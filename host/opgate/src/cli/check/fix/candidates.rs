//! The fixes that a round can make: each with the real paths of its files, and those together that do not meet.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use opgate_edit::{Edit, edits_conflict};

use super::Fixer;
use super::added::FieldChanges;
use super::outcome::FixNote;
use super::real_paths::RealPaths;
use super::unit::UnitSource;
use crate::cli::check::report::FixCandidate;
use crate::cli::check::units::UnitResult;
use crate::cli::report::fix::FileEdit;

/// A fix, and the real paths of its files.
pub(super) struct Candidate<'r> {
    fix: FixCandidate<'r>,
    /// The real path for each edit, or why a file is not edited.
    files: Result<Vec<PathBuf>, String>,
}

impl<'r> Candidate<'r> {
    fn new(fix: FixCandidate<'r>, paths: &mut RealPaths<'_>) -> Self {
        let edits = fix.fix.edits().unwrap_or_default().iter();
        let files = edits.map(|edit| paths.find(&edit.path)).collect();
        Self { fix, files }
    }

    /// Returns the edits, each with the real path of its file.
    ///
    /// # Errors
    /// The reason why a file is not edited.
    pub(super) fn edits(&self) -> Result<impl Iterator<Item = (&Path, &FileEdit)>, String> {
        let files = self.files.as_ref().map_err(String::clone)?;
        Ok(files.iter().map(PathBuf::as_path).zip(self.fix.fix.edits().unwrap_or_default()))
    }

    /// Reports whether it edits the text of this file, and does nothing else.
    fn edits_only(&self, file: &Path) -> bool {
        let is_it = |files: &Vec<PathBuf>| files.iter().all(|edited| edited == file);
        !self.moves_file() && self.files.as_ref().is_ok_and(is_it)
    }

    /// Returns its rule.
    pub(super) fn rule(&self) -> &str {
        self.fix.rule
    }

    /// Adds what it does to the names of fields.
    pub(super) fn add_changes(&self, changes: &mut FieldChanges) {
        self.fix.fix.edits().into_iter().flatten().for_each(|edit| changes.add(&edit.edit));
    }

    /// Reports whether it moves a file.
    pub(super) fn moves_file(&self) -> bool {
        let edits = self.fix.fix.edits().unwrap_or_default();
        edits.iter().any(|edit| matches!(edit.edit, Edit::MoveFile { .. }))
    }

    /// Identifies it: the same fix in the same file, by whatever path the file was found.
    pub(super) fn key(&self) -> String {
        let edits = self.fix.fix.edits().unwrap_or_default().iter();
        let edits: Vec<_> = edits.map(|edit| (edit.document, &edit.edit)).collect();
        format!("{} {:?} {:?} {edits:?}", self.fix.rule, self.fix.fix.title(), self.files)
    }

    /// Returns it for people.
    pub(super) fn note(&self) -> FixNote {
        let file = self.fix.fix.edits().and_then(<[_]>::first);
        let file = file.map(|edit| edit.path.display().to_string()).unwrap_or_default();
        FixNote {
            place: self.fix.place.clone().unwrap_or(file),
            rule: self.fix.rule.to_owned(),
            title: self.fix.fix.title().to_owned(),
            files: self.files.clone().unwrap_or_default(),
        }
    }
}

impl Fixer {
    /// Reports whether violations of a rule are fixed.
    fn includes_rule(&self, unit: &UnitSource<'_>, rule: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(rule))
            && !unit.waived.is_some_and(|waived| waived.contains(rule))
    }

    /// Returns the keys of the fixes that are left out because they need a review.
    pub(super) fn unsafe_fixes(
        &self,
        unit: &UnitSource<'_>,
        result: &UnitResult,
        paths: &mut RealPaths<'_>,
    ) -> BTreeSet<String> {
        let fixes = result.fixes().filter(|it| self.includes_rule(unit, it.rule));
        let fixes = fixes.filter(|it| !it.fix.is_safe() && !self.includes_unsafe);
        fixes.map(|it| Candidate::new(it, paths).key()).collect()
    }

    /// Returns the fixes that may be made, by the order of their rules.
    pub(super) fn candidates<'r>(
        &self,
        unit: &UnitSource<'_>,
        result: &'r UnitResult,
        paths: &mut RealPaths<'_>,
    ) -> Vec<Candidate<'r>> {
        let mut fixes: Vec<_> = result
            .fixes()
            .filter(|it| self.includes_rule(unit, it.rule))
            .filter(|it| it.fix.is_safe() || self.includes_unsafe)
            .collect();
        let order = |it: &FixCandidate<'_>| {
            let rule = (it.policy.to_owned(), it.rule.to_owned());
            self.rule_order.get(&rule).copied().unwrap_or(usize::MAX)
        };
        fixes.sort_by_cached_key(order);
        let candidates = fixes.into_iter().map(|fix| Candidate::new(fix, paths));
        candidates.filter(|it| self.file.as_ref().is_none_or(|file| it.edits_only(file))).collect()
    }
}

/// Returns the fixes that do not meet an earlier one in a file: those that do wait for the next round, in which their
/// pointers are those of the new text.
pub(super) fn select<'c, 'r>(candidates: Vec<&'c Candidate<'r>>) -> Vec<&'c Candidate<'r>> {
    let mut edits: HashMap<(&Path, Option<usize>), Vec<&Edit>> = HashMap::new();
    let mut selected = Vec::new();
    // A move changes the list of the files, and is made when nothing else is left, one in a round.
    let (moves, others): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|candidate| candidate.moves_file());
    let candidates = if others.is_empty() { moves.into_iter().take(1).collect() } else { others };
    for candidate in candidates {
        let own: Vec<_> = candidate.edits().into_iter().flatten().collect();
        let meets = own.iter().any(|(file, edit)| {
            let known = edits.get(&(*file, edit.document)).into_iter().flatten();
            known.into_iter().any(|known| edits_conflict(known, &edit.edit))
        });
        if !meets {
            for (file, FileEdit { document, edit, .. }) in own {
                edits.entry((file, *document)).or_default().push(edit);
            }
            selected.push(candidate);
        }
    }
    selected
}
