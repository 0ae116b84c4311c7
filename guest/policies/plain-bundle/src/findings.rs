//! The verdict while it is put together.

use std::collections::BTreeMap;

use opgate_sdk::conventions::Conventions;
use opgate_sdk::{Document, Level, Verdict};

/// Findings of one rule that are told one by one. A verdict has room for 256 in all, and a file with
/// a hundred thousand wrong objects must not cost a hundred thousand messages.
const MOST: usize = 64;

/// What was found so far.
#[derive(Default)]
pub(crate) struct Findings {
    verdict: Verdict,
    /// How often each rule was broken.
    counts: BTreeMap<&'static str, usize>,
}

impl Findings {
    pub(crate) fn deny(
        &mut self,
        rule: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        let count = self.counts.entry(rule).or_default();
        *count += 1;
        if *count <= MOST {
            self.verdict.add(Level::Deny, rule, field, message);
        }
    }

    /// The verdict, with how much did not fit.
    pub(crate) fn finish(mut self, settings: &Document) -> Verdict {
        for (rule, count) in self.counts {
            if count > MOST {
                let message = format!("{} more violations of {rule} are left out", count - MOST);
                self.verdict.add(Level::Deny, rule, "", message);
            }
        }
        Conventions(settings).finish(self.verdict)
    }
}
