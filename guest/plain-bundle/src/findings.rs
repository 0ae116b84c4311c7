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
    /// How often each rule was broken, by level: a warning is no reason to deny what is left out.
    counts: BTreeMap<(&'static str, bool), usize>,
}

impl Findings {
    fn add(&mut self, level: Level, rule: &'static str, field: String, message: String) {
        let count = self.counts.entry((rule, level == Level::Deny)).or_default();
        *count += 1;
        if *count <= MOST {
            self.verdict.add(level, rule, field, message);
        }
    }

    pub(crate) fn deny(
        &mut self,
        rule: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.add(Level::Deny, rule, field.into(), message.into());
    }

    pub(crate) fn warn(
        &mut self,
        rule: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.add(Level::Warn, rule, field.into(), message.into());
    }

    /// The verdict, with how much did not fit.
    pub(crate) fn finish(mut self, settings: &Document) -> Verdict {
        for ((rule, denies), count) in self.counts {
            if count > MOST {
                let level = if denies { Level::Deny } else { Level::Warn };
                let message = format!("{} more violations of {rule} are left out", count - MOST);
                self.verdict.add(level, rule, "", message);
            }
        }
        Conventions(settings).finish(self.verdict)
    }
}
