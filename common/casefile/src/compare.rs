//! Whether an answer is the expected one.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Case, Finding};

/// Result of a policy for a case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// All violations, each with its level, its field, and its whole message.
    pub findings: Vec<Finding>,
    /// Rules that were not evaluated.
    pub skipped: BTreeSet<String>,
    /// Audit annotations.
    pub notes: BTreeMap<String, String>,
    /// Reason of the denial, if it is not `Forbidden`.
    pub reason: Option<String>,
}

/// In what an answer differs from the expected one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// Expected, and not found.
    pub missing: Vec<Finding>,
    /// Found, and not expected.
    pub unexpected: Vec<Finding>,
    /// Other differences, a line each.
    pub others: Vec<String>,
}

impl Diff {
    /// Reports whether there is no difference.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.others.is_empty()
    }
}

/// Findings, and what was expected.
pub(crate) struct Matched<'a> {
    /// Expected, and not found.
    pub(crate) missing: Vec<&'a Finding>,
    /// Found, in the order of the answer, each with what it was expected as.
    pub(crate) found: Vec<(&'a Finding, Option<&'a Finding>)>,
}

impl Finding {
    /// Reports whether this is what is expected, of which `level` is the level unless it names one.
    fn fits(&self, expected: &Self, level: Option<&str>) -> bool {
        let level = expected.level.as_deref().or(level);
        self.rule == expected.rule
            && level.is_none_or(|level| self.level.as_deref() == Some(level))
            && expected.at.as_ref().is_none_or(|at| Some(at) == self.at.as_ref())
            && (self.message == expected.message
                || expected.starts && self.message.starts_with(&expected.message))
    }
}

impl Case {
    /// Compares a result with the expected one of the case. `level` is the level of a rule (`deny` or `warn`)
    /// if the case sets none, or none if any is right.
    #[must_use]
    pub fn compare(&self, answer: &Answer, level: impl Fn(&str) -> Option<&'static str>) -> Diff {
        let Matched { missing, found } = self.matched(answer, level);
        let unexpected = found.into_iter().filter(|(_, expected)| expected.is_none());
        let unexpected = unexpected.map(|(one, _)| one.clone()).collect();
        let mut others = Vec::new();
        let skipped = self.skipped_of(answer);
        let list = |rules: &BTreeSet<String>| match rules.len() {
            0 => "none".to_owned(),
            _ => rules.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
        };
        if skipped != self.skipped {
            others.push(format!(
                "not evaluated: {}, expected {}",
                list(&skipped),
                list(&self.skipped)
            ));
        }
        if let Some(expected) = self.notes.as_ref().filter(|notes| **notes != answer.notes) {
            others.push(format!("auditAnnotations: {:?}, expected {expected:?}", answer.notes));
        }
        if self.reason != answer.reason {
            let name = |reason: &Option<String>| reason.clone().unwrap_or("Forbidden".to_owned());
            let (found, expected) = (name(&answer.reason), name(&self.reason));
            others.push(format!("reason: {found}, expected {expected}"));
        }
        Diff { missing: missing.into_iter().cloned().collect(), unexpected, others }
    }

    /// Returns the rules that were skipped and count here.
    pub(crate) fn skipped_of(&self, answer: &Answer) -> BTreeSet<String> {
        answer.skipped.iter().filter(|rule| self.counts(rule)).cloned().collect()
    }

    /// Matches the violations that count with the expected ones.
    pub(crate) fn matched<'a>(
        &'a self,
        answer: &'a Answer,
        level: impl Fn(&str) -> Option<&'static str>,
    ) -> Matched<'a> {
        let mut expected: Vec<_> = self.findings.iter().collect();
        // The most specific expectations are matched first.
        expected.sort_by_key(|one| (one.starts, one.at.is_none()));
        let found: Vec<_> = answer.findings.iter().filter(|one| self.counts(&one.rule)).collect();
        let mut as_what: Vec<Option<&Finding>> = vec![None; found.len()];
        let mut missing = Vec::new();
        for wanted in expected {
            let slots = found.iter().zip(&mut as_what);
            let mut free = slots.filter(|(_, slot)| slot.is_none());
            match free.find(|(one, _)| one.fits(wanted, level(&wanted.rule))) {
                Some((_, slot)) => *slot = Some(wanted),
                None => missing.push(wanted),
            }
        }
        Matched { missing, found: found.into_iter().zip(as_what).collect() }
    }
}
