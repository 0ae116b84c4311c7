//! One round of fixes: all are made together. If that adds violations, these are fixed, too. If that is not possible,
//! halves are tried, until the fixes are found that do it.
//!
//! ```text
//! fixes ─▶ new texts ─▶ evaluate ─┬▶ all violations are old: accepted
//!                                 ├▶ new ones have fixes: together with these, at most three times
//!                                 ├▶ several fixes: each half, the second one after the first
//!                                 └▶ one fix: refused
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use opgate_edit::Edit;
use opgate_fix::{EditBudget, Refusal};

use super::added::{FieldChanges, KnownViolations};
use super::candidates::{Candidate, select};
use super::outcome::{FixNote, UnitFixes};
use super::real_paths::RealPaths;
use super::unit::{FileTexts, Texts, UnitSource};
use super::{Fixer, evaluation, moves, write};
use crate::cli::check::units::UnitResult;
use crate::cli::report::fix::FileEdit;

/// Maximum number of evaluations to find the fixes of a unit that add violations.
const MAX_TRIALS: usize = 256;
/// Maximum bytes that the edits of these trials read.
const MAX_TRIAL_BYTES: usize = 256 << 20;
/// Maximum number of times that the violations which a fix reveals are fixed with it.
const MAX_REVEALS: usize = 3;
/// Maximum number of violations that a refusal names.
const MAX_NAMED_VIOLATIONS: usize = 3;

/// What is left of the trials of a unit.
pub(super) struct TrialBudget {
    evaluations: usize,
    bytes: usize,
}

impl Default for TrialBudget {
    fn default() -> Self {
        Self { evaluations: MAX_TRIALS, bytes: MAX_TRIAL_BYTES }
    }
}

impl TrialBudget {
    /// Takes one trial. Reports whether it was left.
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.evaluations.checked_sub(1).zip(self.bytes.checked_sub(bytes));
        (self.evaluations, self.bytes) = left.unwrap_or_default();
        left.is_some()
    }
}

/// One round.
pub(super) struct Round<'r, 'u> {
    fixer: &'r Fixer,
    unit: &'r UnitSource<'u>,
    before: KnownViolations,
    /// Why a part had no result before.
    failure: Option<String>,
    fixes: &'r mut UnitFixes,
    trials: &'r mut TrialBudget,
    paths: &'r mut RealPaths<'u>,
    /// The files that were read.
    read: HashMap<PathBuf, FileTexts>,
    /// The keys of the fixes before the round. Others are those of violations that it adds or reveals.
    known: BTreeSet<String>,
    /// Number of the fixes of the round that were made.
    made: usize,
    /// The keys of the fixes that were refused.
    pub(super) refused: BTreeSet<String>,
}

/// Fixes that are made together, and what is there after them.
struct Trial {
    texts: Texts,
    notes: Vec<FixNote>,
    after: UnitResult,
    changes: FieldChanges,
}

/// Violations that were not there before.
struct AddedViolations {
    rules: BTreeSet<String>,
    /// The reason to refuse the fix that adds them.
    reason: String,
}

impl<'r, 'u> Round<'r, 'u> {
    /// Starts the round after a result, with its fixes.
    pub(super) fn new(
        fixer: &'r Fixer,
        unit: &'r UnitSource<'u>,
        (before, candidates): (&UnitResult, &[Candidate<'_>]),
        planned: &'r mut UnitFixes,
        trials: &'r mut TrialBudget,
        paths: &'r mut RealPaths<'u>,
    ) -> Self {
        let (read, made, refused) = (HashMap::new(), 0, BTreeSet::new());
        let (before, failure) = (KnownViolations::of(before), before.failure());
        let known = candidates.iter().map(Candidate::key).collect();
        Self {
            fixer,
            unit,
            before,
            failure,
            fixes: planned,
            trials,
            paths,
            read,
            known,
            made,
            refused,
        }
    }

    /// Applies the fixes, and returns the result after them; none if none of them can be applied.
    pub(super) fn apply_all(&mut self, selected: &[&Candidate<'_>]) -> Option<UnitResult> {
        let mut texts = self.fixes.files.clone();
        let mut applied = Vec::new();
        let mut budgets = HashMap::new();
        for candidate in selected {
            if !takes_budget(&texts, candidate, &mut budgets) {
                // It is left for the next round.
                continue;
            }
            match self.apply(&texts, candidate) {
                Ok(new) => {
                    texts = new;
                    applied.push(*candidate);
                }
                Err(reason) => self.refuse(candidate, reason),
            }
        }
        if applied.is_empty() {
            return None;
        }
        let after = evaluation::evaluate(self.unit, &texts);
        let mut changes = FieldChanges::default();
        for candidate in &applied {
            candidate.add_changes(&mut changes);
        }
        let notes = applied.iter().map(|candidate| candidate.note()).collect();
        let trial = Trial { texts, notes, after, changes };
        let Some(added) = self.added_violations(&trial) else {
            self.made += applied.len();
            return Some(self.accept(trial));
        };
        if let Some(trial) = self.fix_revealed(trial, added.rules) {
            self.made += applied.len();
            return Some(self.accept(trial));
        }
        match applied.as_slice() {
            [one] => {
                self.refuse(one, added.reason);
                None
            }
            several => self.split(several),
        }
    }

    /// Makes the fixes of the violations that others add or reveal, too. Returns all of them if no new violation is
    /// left.
    fn fix_revealed(&mut self, trial: Trial, mut rules: BTreeSet<String>) -> Option<Trial> {
        let Trial { mut texts, mut notes, mut after, mut changes } = trial;
        for _ in 0..MAX_REVEALS {
            let candidates = self.fixer.candidates(self.unit, &after, self.paths);
            let is_revealed = |candidate: &&Candidate<'_>| {
                rules.contains(candidate.rule())
                    && !candidate.moves_file()
                    && !self.known.contains(&candidate.key())
            };
            let revealed = select(candidates.iter().filter(is_revealed).collect());
            let bytes = revealed.iter().map(|candidate| self.edited_bytes(candidate));
            let bytes = bytes.fold(0, usize::saturating_add);
            if revealed.is_empty() || !self.trials.take(bytes) {
                return None;
            }
            let made = notes.len();
            for candidate in revealed {
                // What cannot be applied leaves its violation.
                if let Ok(new) = self.apply(&texts, candidate) {
                    texts = new;
                    candidate.add_changes(&mut changes);
                    notes.push(candidate.note());
                }
            }
            if notes.len() == made {
                return None;
            }
            after = evaluation::evaluate(self.unit, &texts);
            let trial = Trial { texts, notes, after, changes };
            let Some(added) = self.added_violations(&trial) else { return Some(trial) };
            Trial { texts, notes, after, changes } = trial;
            rules = added.rules;
        }
        None
    }

    /// Applies those of several fixes that together add violations.
    fn split(&mut self, candidates: &[&Candidate<'_>]) -> Option<UnitResult> {
        let (first, second) = candidates.split_at(candidates.len() / 2);
        let made = self.made;
        let result = self.try_half(first);
        let is_first_made = self.made - made == first.len();
        // With the whole first half, the second one is what was tried before.
        let is_known = is_first_made && second.len() > 1;
        let after = if is_known { self.split(second) } else { self.try_half(second) };
        after.or(result)
    }

    fn try_half(&mut self, candidates: &[&Candidate<'_>]) -> Option<UnitResult> {
        let bytes = candidates.iter().map(|candidate| self.edited_bytes(candidate));
        if self.trials.take(bytes.fold(0, usize::saturating_add)) {
            return self.apply_all(candidates);
        }
        for candidate in candidates {
            let reason = "too many other fixes would add violations: correct these manually";
            self.refuse(candidate, reason.to_owned());
        }
        None
    }

    /// Returns the bytes that the edits of a fix read.
    fn edited_bytes(&self, candidate: &Candidate<'_>) -> usize {
        let edits = candidate.edits().into_iter().flatten();
        let texts = edits.filter_map(|(path, _)| {
            let file = self.fixes.files.get(path).or_else(|| self.read.get(path))?;
            file.new.as_ref()
        });
        texts.fold(0, |sum, text| sum.saturating_add(text.len()))
    }

    fn accept(&mut self, trial: Trial) -> UnitResult {
        self.fixes.files = trial.texts;
        self.fixes.applied.extend(trial.notes);
        self.before = KnownViolations::of(&trial.after);
        trial.after
    }

    fn refuse(&mut self, candidate: &Candidate<'_>, reason: String) {
        let key = candidate.key();
        self.refused.insert(key.clone());
        self.fixes.refused.insert(key, (candidate.note(), reason));
    }

    /// Returns the texts after a fix.
    fn apply(&mut self, texts: &Texts, candidate: &Candidate<'_>) -> Result<Texts, String> {
        let edits: Vec<_> = candidate.edits()?.collect();
        // What it removes in one place can be what it writes in another.
        let can_move = edits.iter().any(|(_, it)| matches!(it.edit, Edit::Set { .. }));
        let mut texts = texts.clone();
        for (real, file_edit) in &edits {
            let FileEdit { path, document, edit, .. } = file_edit;
            let file = self.texts_of(&texts, real, path)?;
            if candidate.moves_file() {
                if edits.len() > 1 {
                    return Err("a file is moved and edited at once".to_owned());
                }
                return moves::apply(&texts, file_edit, real, &file);
            }
            let old = file.new.clone().ok_or("the file is moved by another fix")?;
            let document = document.ok_or("the file itself has no values")?;
            // A link can have another name.
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if can_move
                && matches!(edit, Edit::Remove { .. })
                && opgate_fix::has_comment(&old, &name, document, edit).is_ok_and(|has| has)
            {
                return Err(Refusal::Comment(edit.pointer().to_owned()).to_string());
            }
            let new = opgate_fix::apply(&old, &name, document, std::slice::from_ref(edit));
            let new = Some(new.map_err(|refusal| refusal.to_string())?.into());
            texts.insert(real.to_path_buf(), FileTexts { new, ..file });
        }
        Ok(texts)
    }

    /// Returns the texts of a file, which is read if no fix has changed it.
    fn texts_of(&mut self, texts: &Texts, real: &Path, path: &Path) -> Result<FileTexts, String> {
        if let Some(file) = texts.get(real).or_else(|| self.read.get(real)) {
            return Ok(file.clone());
        }
        let text = Some(write::read(real, path, self.unit.reader)?);
        let path = path.to_path_buf();
        let file = FileTexts { path, original: text.clone(), new: text, source: None };
        self.read.insert(real.to_path_buf(), file.clone());
        Ok(file)
    }

    /// Returns what a result has that was not there before.
    fn added_violations(&self, trial: &Trial) -> Option<AddedViolations> {
        let Trial { after, changes, .. } = trial;
        let failure = after.failure().filter(|failure| self.failure.as_ref() != Some(failure));
        if let Some(failure) = failure {
            let reason = format!("after it, the object could not be evaluated: {failure}");
            return Some(AddedViolations { rules: BTreeSet::new(), reason });
        }
        let after = KnownViolations::of(after);
        let added = after.added_since(&self.before, changes);
        let rest = match added.len().saturating_sub(MAX_NAMED_VIOLATIONS) {
            _ if added.is_empty() => return None,
            0 => String::new(),
            rest => format!("; and {rest} more"),
        };
        let (what, them) = match added.len() {
            1 => ("a violation".to_owned(), "it"),
            count => (format!("{count} violations"), "them"),
        };
        let shown = added.iter().take(MAX_NAMED_VIOLATIONS);
        let shown: Vec<_> = shown.map(|(rule, message)| format!("{rule} {message}")).collect();
        let shown = shown.join("; ");
        let reason = format!(
            "it adds or reveals {what}; make this change manually, and correct {them}: {shown}{rest}"
        );
        let rules = added.iter().map(|(rule, _)| (*rule).to_owned()).collect();
        Some(AddedViolations { rules, reason })
    }
}

/// Takes the work of a fix from what is left for its files in this round. Reports whether it was left.
fn takes_budget<'c>(
    texts: &Texts,
    candidate: &'c Candidate<'_>,
    budgets: &mut HashMap<&'c Path, EditBudget>,
) -> bool {
    let mut work: BTreeMap<&Path, usize> = BTreeMap::new();
    for (path, _) in candidate.edits().into_iter().flatten() {
        let known = texts.get(path).and_then(|file| file.new.as_ref());
        // The first fix of a file reads it.
        let bytes = known.map_or(1, |text| text.len());
        let sum = work.entry(path).or_default();
        *sum = sum.saturating_add(bytes);
    }
    work.into_iter().all(|(path, bytes)| budgets.entry(path).or_default().take(bytes))
}
