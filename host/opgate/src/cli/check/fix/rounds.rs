//! Rounds of fixes of one unit: a bundle, a catalog, a project or a file of manifests.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use opgate_edit::{Edit, edits_conflict};
use opgate_fix::EditBudget;
use opgate_input::read::UnsavedTexts;

use super::super::report::FixCandidate;
use super::super::units::UnitResult;
use super::unit::{FileTexts, Texts, UnitSource};
use super::{Fixer, moves, write};
use crate::cli::report::fix::FileEdit;

/// Maximum number of rounds: a fix can make room for another one.
const MAX_ROUNDS: usize = 10;

/// Maximum number of fixes that are tried one by one, if some of them add a violation.
const MAX_SINGLE_TRIALS: usize = 64;

/// The fixes of a unit.
#[derive(Debug, Default)]
pub(in crate::cli::check) struct UnitFixes {
    /// The original and the new text of each changed file.
    pub(super) files: BTreeMap<PathBuf, FileTexts>,
    pub(super) applied: Vec<FixNote>,
    pub(super) refused: Vec<(FixNote, String)>,
    /// Number of fixes that need --unsafe-fixes.
    pub(super) unsafe_count: usize,
}

/// A fix for people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli::check) struct FixNote {
    /// `file:line:column`, or the file.
    pub(super) place: String,
    pub(super) rule: String,
    pub(super) title: String,
}

/// The number of violations of each rule of each policy.
type Counts = BTreeMap<(String, String), usize>;

impl Fixer {
    /// Fixes a unit, of which the result is given: returns the result after the fixes, if there are any, and the
    /// fixes.
    pub(in crate::cli::check) fn fix_unit(
        &self,
        unit: &UnitSource<'_>,
        before: &UnitResult,
    ) -> (Option<UnitResult>, UnitFixes) {
        let mut fixes = UnitFixes::default();
        let mut refused = BTreeSet::new();
        let mut result = None;
        for _ in 0..MAX_ROUNDS {
            let current = result.as_ref().unwrap_or(before);
            let candidates = self.candidates(unit, current, &refused);
            let selected = select(&candidates);
            if selected.is_empty() {
                break;
            }
            let before = counts(current);
            let failure = current.failure();
            let mut round =
                Round { unit, before, failure, fixes: &mut fixes, refused: &mut refused };
            if let Some(after) = round.apply_all(&selected) {
                result = Some(after);
            }
        }
        fixes.unsafe_count = self.unsafe_fixes(unit, result.as_ref().unwrap_or(before));
        fixes.refused.sort();
        fixes.refused.dedup();
        (result, fixes)
    }

    /// Reports whether violations of a rule are fixed.
    fn includes_rule(&self, unit: &UnitSource<'_>, rule: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(rule))
            && !unit.waived.is_some_and(|waived| waived.contains(rule))
    }

    fn unsafe_fixes(&self, unit: &UnitSource<'_>, result: &UnitResult) -> usize {
        let candidates = result.fixes().filter(|it| self.includes_rule(unit, it.rule));
        candidates.filter(|it| !it.fix.is_safe() && !self.includes_unsafe).count()
    }

    /// Returns the fixes that may be applied, by the order of their rules.
    fn candidates<'r>(
        &self,
        unit: &UnitSource<'_>,
        result: &'r UnitResult,
        refused: &BTreeSet<String>,
    ) -> Vec<FixCandidate<'r>> {
        let mut candidates: Vec<_> = result
            .fixes()
            .filter(|it| self.includes_rule(unit, it.rule))
            .filter(|it| it.fix.is_safe() || self.includes_unsafe)
            .filter(|it| !refused.contains(&key(it)))
            .collect();
        let order = |it: &FixCandidate<'_>| {
            let rule = (it.policy.to_owned(), it.rule.to_owned());
            self.rule_order.get(&rule).copied().unwrap_or(usize::MAX)
        };
        candidates.sort_by_cached_key(order);
        candidates
    }
}

/// Identifies a fix, to refuse it only once.
fn key(candidate: &FixCandidate<'_>) -> String {
    format!("{} {:?} {:?}", candidate.rule, candidate.fix.title(), candidate.fix.edits())
}

/// Returns the fixes that do not meet an earlier one in a file.
fn select<'c, 'r>(candidates: &'c [FixCandidate<'r>]) -> Vec<&'c FixCandidate<'r>> {
    let mut edits: HashMap<(&Path, Option<usize>), Vec<&Edit>> = HashMap::new();
    let mut selected = Vec::new();
    let is_move = |candidate: &&FixCandidate<'_>| candidate.fix.edits().is_some_and(moves_file);
    // A move changes the list of the files, and is made when nothing else is left, one in a round.
    let edits_only = candidates.iter().filter(|candidate| !is_move(candidate));
    let moves = candidates.iter().filter(is_move).take(1);
    let has_edits = edits_only.clone().next().is_some();
    let candidates: Vec<_> = if has_edits { edits_only.collect() } else { moves.collect() };
    for candidate in candidates {
        let own = candidate.fix.edits().unwrap_or_default();
        let meets = own.iter().any(|edit| {
            let place = (edit.path.as_path(), edit.document);
            let known = edits.get(&place).into_iter().flatten();
            known.into_iter().any(|known| edits_conflict(known, &edit.edit))
        });
        if !meets {
            for FileEdit { path, document, edit, .. } in own {
                edits.entry((path.as_path(), *document)).or_default().push(edit);
            }
            selected.push(candidate);
        }
    }
    selected
}

fn moves_file(edits: &[FileEdit]) -> bool {
    edits.iter().any(|edit| matches!(edit.edit, Edit::MoveFile { .. }))
}

/// One round.
struct Round<'r, 'u> {
    unit: &'r UnitSource<'u>,
    before: Counts,
    /// Why a part had no result before.
    failure: Option<String>,
    fixes: &'r mut UnitFixes,
    refused: &'r mut BTreeSet<String>,
}

impl Round<'_, '_> {
    /// Applies the fixes, and returns the result after them; none if none of them can be applied.
    fn apply_all(&mut self, selected: &[&FixCandidate<'_>]) -> Option<UnitResult> {
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
        let after = self.evaluate(&texts);
        if self.added_violation(&after).is_none() {
            self.accept(texts, &applied);
            return Some(after);
        }
        self.apply_singly(&applied)
    }

    /// Applies the fixes one by one, without those that add a violation.
    fn apply_singly(&mut self, candidates: &[&FixCandidate<'_>]) -> Option<UnitResult> {
        let mut result = None;
        for (number, candidate) in candidates.iter().enumerate() {
            if number >= MAX_SINGLE_TRIALS {
                let reason =
                    "another fix of this round would add a violation: fix the others first";
                self.refuse(candidate, reason.to_owned());
                continue;
            }
            let texts = match self.apply(&self.fixes.files, candidate) {
                Ok(texts) => texts,
                Err(reason) => {
                    self.refuse(candidate, reason);
                    continue;
                }
            };
            let after = self.evaluate(&texts);
            if let Some(added) = self.added_violation(&after) {
                self.refuse(candidate, format!("the fix would add a violation: {added}"));
                continue;
            }
            self.before = counts(&after);
            self.accept(texts, &[candidate]);
            result = Some(after);
        }
        result
    }

    fn accept(&mut self, texts: Texts, applied: &[&FixCandidate<'_>]) {
        self.fixes.files = texts;
        self.fixes.applied.extend(applied.iter().map(|candidate| note(candidate)));
    }

    fn refuse(&mut self, candidate: &FixCandidate<'_>, reason: String) {
        self.refused.insert(key(candidate));
        self.fixes.refused.push((note(candidate), reason));
    }

    /// Returns the texts after a fix.
    fn apply(&self, texts: &Texts, candidate: &FixCandidate<'_>) -> Result<Texts, String> {
        let edits = candidate.fix.edits();
        let edits = edits.ok_or_else(|| "it is not for a file".to_owned())?;
        let mut texts = texts.clone();
        for file_edit in edits {
            let FileEdit { path, document, edit, .. } = file_edit;
            let file = if let Some(file) = texts.get(path) {
                file.clone()
            } else {
                let text = Some(write::read(path, self.unit.input, self.unit.reader)?);
                FileTexts { original: text.clone(), new: text, source: None }
            };
            if moves_file(edits) {
                if edits.len() > 1 {
                    return Err("a file is moved and edited at once".to_owned());
                }
                return moves::apply(&texts, file_edit, &file);
            }
            let old = file.new.clone().ok_or("the file is moved by another fix")?;
            let document = document.ok_or("the file itself has no values")?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let new = opgate_fix::apply(&old, &name, document, std::slice::from_ref(edit));
            let new = Some(new.map_err(|refusal| refusal.to_string())?.into());
            texts.insert(path.clone(), FileTexts { new, ..file });
        }
        Ok(texts)
    }

    fn evaluate(&self, texts: &Texts) -> UnitResult {
        if moves::has_moves(texts) {
            return moves::evaluate(self.unit, texts).unwrap_or_else(UnitResult::of_error);
        }
        let texts = texts.iter();
        let texts = texts.filter_map(|(path, file)| Some((path.clone(), file.new.clone()?)));
        let texts = Arc::new(UnsavedTexts::new(texts.collect()));
        let reader = self.unit.reader.with_full_budget().with_unsaved(texts);
        (self.unit.evaluate)(self.unit.input, &reader)
    }

    /// Returns what a result has that was not there before.
    fn added_violation(&self, after: &UnitResult) -> Option<String> {
        let failure = after.failure();
        if failure.is_some() && failure != self.failure {
            return failure;
        }
        let found = counts(after);
        let added = found
            .iter()
            .find(|(rule, count)| **count > self.before.get(*rule).copied().unwrap_or_default());
        let ((_, rule), _) = added?;
        let message = after.violations().find(|violation| violation.rule == *rule);
        let message = message.map(|violation| violation.message.as_str()).unwrap_or_default();
        Some(format!("{rule} {message}"))
    }
}

/// Takes the work of a fix from what is left for its files in this round. Reports whether it was left.
fn takes_budget<'c>(
    texts: &Texts,
    candidate: &'c FixCandidate<'_>,
    budgets: &mut HashMap<&'c Path, EditBudget>,
) -> bool {
    let edits = candidate.fix.edits().unwrap_or_default();
    let mut work: BTreeMap<&Path, usize> = BTreeMap::new();
    for edit in edits {
        let known = texts.get(&edit.path).and_then(|file| file.new.as_ref());
        // The first fix of a file reads it.
        let bytes = known.map_or(1, |text| text.len());
        let sum = work.entry(edit.path.as_path()).or_default();
        *sum = sum.saturating_add(bytes);
    }
    work.into_iter().all(|(path, bytes)| budgets.entry(path).or_default().take(bytes))
}

fn counts(result: &UnitResult) -> Counts {
    let mut counts = Counts::new();
    for violation in result.violations() {
        *counts.entry((violation.policy.clone(), violation.rule.clone())).or_default() += 1;
    }
    counts
}

fn note(candidate: &FixCandidate<'_>) -> FixNote {
    let file = candidate.fix.edits().and_then(<[_]>::first);
    let file = file.map(|edit| edit.path.display().to_string()).unwrap_or_default();
    FixNote {
        place: candidate.place.clone().unwrap_or(file),
        rule: candidate.rule.to_owned(),
        title: candidate.fix.title().to_owned(),
    }
}
