//! The verdict while it is put together: violations, and rules that could not be evaluated.

use std::collections::BTreeMap;

use opgate_sdk::conventions::Conventions;
use opgate_sdk::{Document, Level, Verdict};

/// Findings of one rule that are told one by one. A verdict has room for 256 in all, and a file with
/// a hundred thousand wrong entries must not cost a hundred thousand messages.
const MOST: usize = 64;

/// What was found so far.
pub(crate) struct Findings<'s> {
    settings: &'s Document,
    verdict: Verdict,
    /// How often each rule was broken, by level: warnings must not crowd out a reason to deny.
    counts: BTreeMap<(&'static str, bool), usize>,
    /// Rules that were left out, and why.
    missing: BTreeMap<&'static str, &'static str>,
}

impl<'s> Findings<'s> {
    pub(crate) fn new(settings: &'s Document) -> Self {
        Self {
            settings,
            verdict: Verdict::default(),
            counts: BTreeMap::new(),
            missing: BTreeMap::new(),
        }
    }

    pub(crate) fn add(
        &mut self,
        level: Level,
        rule: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
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
        self.add(Level::Deny, rule, field, message);
    }

    pub(crate) fn warn(
        &mut self,
        rule: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        self.add(Level::Warn, rule, field, message);
    }

    /// Whether the configuration turns on a rule that is off by default.
    pub(crate) fn is_enabled(&self, rule: &str) -> bool {
        self.settings.text(&format!("/rules/{rule}")).is_some_and(|level| level != "off")
    }

    /// Notes that a rule could not be evaluated, and why.
    pub(crate) fn left_out(&mut self, rule: &'static str, why: &'static str) {
        self.missing.insert(rule, why);
    }

    /// The verdict, with what did not fit and what was not evaluated (decision A-6).
    pub(crate) fn finish(mut self) -> Verdict {
        for (&(rule, denies), &count) in &self.counts {
            if count > MOST {
                let level = if denies { Level::Deny } else { Level::Warn };
                let message = format!("{} more violations of {rule} are left out", count - MOST);
                self.verdict.add(level, rule, "", message);
            }
        }
        let settings = self.settings;
        let is_on = |rule: &str| settings.text_or_empty(&format!("/rules/{rule}")) != "off";
        self.missing.retain(|rule, _| is_on(rule));
        if !self.missing.is_empty() {
            let rules: Vec<_> = self.missing.keys().copied().collect();
            self.verdict.audit_annotations.push(("not-evaluated".to_owned(), rules.join(" ")));
        }
        let conventions = Conventions(settings);
        if settings.text_or_empty("/context/missing") == "warn" {
            // A rule that the configuration sets to deny would refuse what nobody has looked at.
            for (rule, why) in
                self.missing.iter().filter(|(rule, _)| !conventions.denies(rule, false))
            {
                self.verdict.warn(rule, "", format!("{rule} was not evaluated: {why}"));
            }
        }
        conventions.finish(self.verdict)
    }
}
