//! The verdict while it is put together.
//!
//! A rule's level is the one that the configuration gives to it, or else the one that it declares. A
//! verdict holds so many findings and no more. Where there are more, every rule that has any is told,
//! and its last finding says how many are left out: a catalog with a hundred thousand wrong entries
//! must not cost a hundred thousand messages, and must not hide the one wrong channel either.

use std::collections::BTreeMap;

use opgate_sdk::conventions::Conventions;
use opgate_sdk::{DefaultLevel, Document, Level, Verdict, Violation};

use crate::rules::RULES;

/// What a verdict holds.
const MOST: usize = 256;
/// What a message holds, in bytes.
pub(crate) const LONGEST: usize = 4_096;

/// What was published does not change.
const PUBLISHED: &str = "FBC-46";

/// What was found so far.
pub(crate) struct Findings<'s> {
    settings: &'s Document,
    /// By rule.
    found: BTreeMap<&'static str, Found>,
    /// Rules that were left out in part, for want of memory.
    left_out: Vec<&'static str>,
}

/// What was found against one rule.
struct Found {
    /// None where the rule is off.
    level: Option<Level>,
    /// The first ones, in the order in which they were found.
    first: Vec<Violation>,
    /// All of them.
    count: usize,
}

impl<'s> Findings<'s> {
    pub(crate) fn new(settings: &'s Document) -> Self {
        Self { settings, found: BTreeMap::new(), left_out: Vec::new() }
    }

    /// Adds a finding; the place is a path into the document.
    pub(crate) fn add(&mut self, rule: &'static str, field: String, message: impl Into<String>) {
        let settings = self.settings;
        let found = self.found.entry(rule).or_insert_with(|| Found {
            level: level(settings, rule),
            first: Vec::new(),
            count: 0,
        });
        let Some(level) = found.level else { return };
        found.count = found.count.saturating_add(1);
        if found.count <= MOST {
            let (rule, message) = (rule.to_owned(), message.into());
            found.first.push(Violation { rule, level, field, message });
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
    pub(crate) fn finish(self) -> Verdict {
        let mut verdict = Verdict::default();
        let counts: Vec<_> = self.found.values().map(|found| found.count).collect();
        let share = share(&counts);
        for mut found in self.found.into_values() {
            let more = found.count.saturating_sub(share);
            found.first.truncate(share);
            if let Some(last) = found.first.last_mut().filter(|_| more > 0) {
                // More than a message holds is cut, and this is the part that counts.
                let message = &last.message;
                last.message = format!("{more} more findings of this rule are left out; {message}");
            }
            verdict.violations.append(&mut found.first);
        }
        if !self.left_out.is_empty() {
            let rules = self.left_out.join(" ");
            verdict.audit_annotations.push(("not-evaluated".to_owned(), rules));
        }
        Conventions(self.settings).finish(verdict)
    }
}

/// How many findings of each rule fit into a verdict.
fn share(counts: &[usize]) -> usize {
    let fits = |share: usize| counts.iter().map(|count| *count.min(&share)).sum::<usize>() <= MOST;
    // There are fewer rules than findings in a verdict.
    (1..=MOST).rev().find(|share| fits(*share)).unwrap_or(1)
}

/// What a finding of a rule does; none where the rule is off.
fn level(settings: &Document, rule: &str) -> Option<Level> {
    match settings.text_or_empty(&format!("/rules/{rule}")).as_str() {
        "off" => return None,
        "deny" => return Some(Level::Deny),
        "" => {}
        _ => return Some(Level::Warn),
    }
    let declared = RULES.iter().find(|declared| declared.id == rule);
    Some(match declared.map(|declared| declared.default_level) {
        Some(DefaultLevel::Deny) => Level::Deny,
        // Declared as advice; but whoever names what was published wants it to stay.
        _ if rule == PUBLISHED => Level::Deny,
        _ => Level::Warn,
    })
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
