//! The verdict while it is put together: violations, what OLM calls them, and rules that could not
//! be evaluated because the cluster was not there to ask.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::cluster::ReadError;
use opgate_sdk::conventions::Conventions;
use opgate_sdk::identities::report_unlisted;
use opgate_sdk::{Document, Level, Request, Verdict};

/// Findings of one rule that are told one by one. One finding is a reason to look at the rest, and
/// an object with a hundred thousand wrong entries must not cost a hundred thousand messages.
pub(crate) const MOST: usize = 20;

/// What was found so far.
pub(crate) struct Findings<'s> {
    settings: &'s Document,
    verdict: Verdict,
    /// Words by which OLM names the failures, for those that deny.
    reasons: BTreeSet<&'static str>,
    /// Rules that were left out, and why.
    missing: BTreeMap<&'static str, String>,
}

impl<'s> Findings<'s> {
    pub(crate) fn new(settings: &'s Document) -> Self {
        Self {
            settings,
            verdict: Verdict::default(),
            reasons: BTreeSet::new(),
            missing: BTreeMap::new(),
        }
    }

    pub(crate) fn deny(&mut self, rule: &str, field: &str, message: impl Into<String>) {
        self.verdict.deny(rule, field, message);
    }

    pub(crate) fn warn(&mut self, rule: &str, field: &str, message: impl Into<String>) {
        self.verdict.warn(rule, field, message);
    }

    /// A finding for which OLM has a word. Where it denies, the word goes to the audit log.
    pub(crate) fn add(
        &mut self,
        level: Level,
        reason: &'static str,
        rule: &str,
        field: &str,
        message: impl Into<String>,
    ) {
        if level == Level::Deny {
            self.reasons.insert(reason);
        }
        self.verdict.add(level, rule, field, message);
    }

    /// Whether the configuration leaves the rule on. A rule that is off asks the cluster nothing.
    pub(crate) fn is_on(&self, rule: &str) -> bool {
        self.settings.text_or_empty(&format!("/rules/{rule}")) != "off"
    }

    /// Whether the configuration turns on a rule that is off by default.
    pub(crate) fn is_enabled(&self, rule: &str) -> bool {
        self.settings.text(&format!("/rules/{rule}")).is_some_and(|level| level != "off")
    }

    /// Says that somebody does what only OLM does and is not listed as OLM.
    pub(crate) fn unlisted(&mut self, request: &Request, what: &str) {
        report_unlisted(request, what, &mut self.verdict);
    }

    /// Notes that a rule could not be evaluated, and why.
    pub(crate) fn left_out(&mut self, rule: &'static str, why: &str) {
        self.missing.entry(rule).or_insert_with(|| why.to_owned());
    }

    /// The answer of the cluster, if there is one. Otherwise the rules that need it are left out
    /// (decision A-6). A selector that is wrong is no business of theirs.
    pub(crate) fn answer<T>(
        &mut self,
        rules: &[&'static str],
        needed: &'static str,
        answer: Result<T, ReadError>,
    ) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(ReadError::Absent) => {
                let why = format!("the cluster's {needed} are not available");
                for rule in rules {
                    self.left_out(rule, &why);
                }
                None
            }
            Err(ReadError::Invalid(_)) => None,
        }
    }

    /// The verdict, with notes for the audit log.
    pub(crate) fn finish(mut self) -> Verdict {
        let mut missing = std::mem::take(&mut self.missing);
        missing.retain(|rule, _| self.is_on(rule));
        if !missing.is_empty() {
            let rules: Vec<_> = missing.keys().copied().collect();
            self.verdict.audit_annotations.push(("not-evaluated".to_owned(), rules.join(" ")));
        }
        let conventions = Conventions(self.settings);
        if self.settings.text_or_empty("/context/missing") == "warn" {
            // A rule that the configuration sets to deny would refuse everything without a cluster.
            for (rule, why) in missing.iter().filter(|(rule, _)| !conventions.denies(rule, false)) {
                let message = format!("{rule} was not evaluated: {why}");
                self.verdict.warn(rule, "", message);
            }
        }
        if !self.reasons.is_empty() {
            let reasons: Vec<_> = self.reasons.iter().copied().collect();
            self.verdict.audit_annotations.push(("olm-reason".to_owned(), reasons.join(" ")));
        }
        conventions.finish(self.verdict)
    }
}
