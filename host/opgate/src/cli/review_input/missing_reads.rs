//! Rules that could not be evaluated on recorded reviews, because the recording does not have what they read.
//!
//! A recording has the reads of the policies that decided, with their settings. Other rules can need more.

use std::collections::BTreeSet;

use opgate_admission::policy::Decision;

use crate::cli::explanation::list_some;

/// The rules, and the number of reviews.
#[derive(Debug, Default)]
pub(in crate::cli) struct MissingReads {
    rules: BTreeSet<String>,
    reviews: usize,
}

impl MissingReads {
    /// Returns the rules that one decision lacks.
    pub(in crate::cli) fn rules_of(decision: &Decision) -> BTreeSet<String> {
        let missing = decision.inputs.iter().flat_map(|inputs| &inputs.missing_reads);
        let policies: BTreeSet<_> = missing.map(|(policy, _)| policy).collect();
        let skipped = decision.skipped.iter().filter(|one| policies.contains(&one.policy));
        skipped.map(|one| one.rule.clone()).collect()
    }

    /// Adds the rules that the decisions on a review lack.
    pub(in crate::cli) fn add(&mut self, rules: BTreeSet<String>) {
        self.reviews = self.reviews.saturating_add(usize::from(!rules.is_empty()));
        self.rules.extend(rules);
    }

    /// Logs a warning if there are any.
    pub(in crate::cli) fn warn(&self) {
        let Self { rules, reviews } = self;
        if rules.is_empty() {
            return;
        }
        let rules: Vec<_> = rules.iter().map(String::as_str).collect();
        let rules = list_some(&rules);
        tracing::warn!(
            rules,
            reviews,
            "not evaluated: they read objects that the recording does not have"
        );
    }
}
