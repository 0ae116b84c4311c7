//! Rounds of fixes of one unit: a bundle, a catalog, a project or a file of manifests.

use std::collections::BTreeSet;

use super::Fixer;
use super::candidates::{Candidate, select};
use super::outcome::UnitFixes;
use super::real_paths::RealPaths;
use super::trial::{Round, TrialBudget};
use super::unit::{Texts, UnitSource};
use crate::cli::check::units::UnitResult;

/// Maximum number of rounds: a fix can make room for another one.
const MAX_ROUNDS: usize = 10;

impl Fixer {
    /// Fixes a unit, of which the result is given: returns the result after the fixes, if there are any, and the
    /// fixes. `known` are the new texts of its files so far, with which the result was.
    pub(super) fn fix_unit(
        &self,
        unit: &UnitSource<'_>,
        before: &UnitResult,
        known: Texts,
    ) -> (Option<UnitResult>, UnitFixes) {
        let mut fixes = UnitFixes { files: known, ..UnitFixes::default() };
        let (mut paths, mut trials) = (RealPaths::of(unit.input), TrialBudget::default());
        let mut refused = BTreeSet::new();
        let (mut result, mut tried) = (None, 0);
        for _ in 0..MAX_ROUNDS {
            let current = result.as_ref().unwrap_or(before);
            let candidates = self.candidates(unit, current, &mut paths);
            let is_left = |candidate: &&Candidate<'_>| !refused.contains(&candidate.key());
            let selected = select(candidates.iter().filter(is_left).collect());
            if selected.is_empty() {
                if refused.is_empty() || fixes.applied.len() == tried {
                    break;
                }
                // The fixes since then can have made one possible that was refused.
                tried = fixes.applied.len();
                refused.clear();
                continue;
            }
            let start = (current, candidates.as_slice());
            let mut round = Round::new(self, unit, start, &mut fixes, &mut trials, &mut paths);
            let after = round.apply_all(&selected);
            refused.append(&mut round.refused);
            if after.is_some() {
                result = after;
            }
        }
        let current = result.as_ref().unwrap_or(before);
        let left = self.candidates(unit, current, &mut paths);
        let left: BTreeSet<_> = left.iter().map(Candidate::key).collect();
        fixes.refused.retain(|key, _| left.contains(key));
        fixes.unsafe_fixes = self.unsafe_fixes(unit, current, &mut paths);
        fixes.files.retain(|_, texts| texts.original != texts.new);
        (result, fixes)
    }
}
