//! The verdict while it is put together.
//!
//! A rule's level is the one that it declares. Of one rule no more is told than a verdict holds: a
//! catalog with a hundred thousand wrong entries must not cost a hundred thousand messages.

use std::collections::BTreeMap;

use opgate_sdk::conventions::Conventions;
use opgate_sdk::{DefaultLevel, Document, Level, Verdict};

use crate::rules::RULES;

/// What a verdict holds.
const MOST: u32 = 256;
/// What a message holds, in bytes.
pub(crate) const LONGEST: usize = 4_096;

/// What was published does not change.
const PUBLISHED: &str = "FBC-46";

/// What was found so far.
pub(crate) struct Findings<'s> {
    settings: &'s Document,
    verdict: Verdict,
    /// Findings by rule, with those that are not told.
    counts: BTreeMap<&'static str, u32>,
    /// Rules that were left out in part, for want of memory.
    left_out: Vec<&'static str>,
}

impl<'s> Findings<'s> {
    pub(crate) fn new(settings: &'s Document) -> Self {
        Self {
            settings,
            verdict: Verdict::default(),
            counts: BTreeMap::new(),
            left_out: Vec::new(),
        }
    }

    /// Adds a finding; the place is a path into the document.
    pub(crate) fn add(&mut self, rule: &'static str, field: String, message: impl Into<String>) {
        let count = self.counts.entry(rule).or_default();
        *count = count.saturating_add(1);
        if *count <= MOST {
            let declared = RULES.iter().find(|declared| declared.id == rule);
            let level = match declared.map(|declared| declared.default_level) {
                Some(DefaultLevel::Deny) => Level::Deny,
                // Declared as advice; but whoever names what was published wants it to stay.
                _ if rule == PUBLISHED => Level::Deny,
                _ => Level::Warn,
            };
            self.verdict.add(level, rule, field, message);
        }
    }

    /// Whether the configuration leaves the rule on.
    pub(crate) fn is_on(&self, rule: &str) -> bool {
        self.settings.text_or_empty(&format!("/rules/{rule}")) != "off"
    }

    /// Notes that a rule did not look at everything.
    pub(crate) fn left_out(&mut self, rule: &'static str) {
        if !self.left_out.contains(&rule) {
            self.left_out.push(rule);
        }
    }

    /// The verdict, with notes for the audit log.
    pub(crate) fn finish(mut self) -> Verdict {
        if !self.left_out.is_empty() {
            let rules = self.left_out.join(" ");
            self.verdict.audit_annotations.push(("not-evaluated".to_owned(), rules));
        }
        Conventions(self.settings).finish(self.verdict)
    }
}

/// Texts with something between them, up to the length of a message.
pub(crate) fn joined<'t>(texts: impl IntoIterator<Item = &'t str>, between: &str) -> String {
    let mut joined = String::new();
    for (index, text) in texts.into_iter().enumerate() {
        if joined.len() > LONGEST {
            break;
        }
        if index > 0 {
            joined.push_str(between);
        }
        joined.push_str(text);
    }
    joined
}
