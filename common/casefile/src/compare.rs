//! Whether an answer is the expected one.

use std::collections::{BTreeMap, BTreeSet};

use opgate_edit::Fix;

use crate::{Case, Violation, fixed};

/// Result of a policy for a case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyResult {
    /// All violations, each with its level, its field, and its whole message.
    pub violations: Vec<Violation>,
    /// Rules that were not evaluated.
    pub skipped: BTreeSet<String>,
    /// Audit annotations.
    pub audit_annotations: BTreeMap<String, String>,
    /// Reason of the denial, if it is not `Forbidden`.
    pub reason: Option<String>,
    /// The fixes of the violations, each with the rule, in the order of the violations.
    pub fixes: Vec<(String, Fix)>,
}

/// In what an answer differs from the expected one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// Expected, and not found.
    pub missing: Vec<Violation>,
    /// Found, and not expected.
    pub unexpected: Vec<Violation>,
    /// Other differences, a line each.
    pub other_differences: Vec<String>,
}

impl Diff {
    /// Reports whether there is no difference.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.other_differences.is_empty()
    }
}

/// Findings, and what was expected.
pub(crate) struct ViolationMatches<'a> {
    /// Expected, and not found.
    pub(crate) missing: Vec<&'a Violation>,
    /// Found, in the order of the answer, each with what it was expected as.
    pub(crate) reported: Vec<(&'a Violation, Option<&'a Violation>)>,
}

impl Violation {
    /// Reports whether this is what is expected, of which `level` is the level unless it names one.
    fn matches(&self, expected: &Self, level: Option<&str>) -> bool {
        let level = expected.level.as_deref().or(level);
        self.rule == expected.rule
            && level.is_none_or(|level| self.level.as_deref() == Some(level))
            && expected.field.as_ref().is_none_or(|at| Some(at) == self.field.as_ref())
            && (self.message == expected.message
                || expected.is_prefix && self.message.starts_with(&expected.message))
    }
}

impl Case {
    /// Compares a result with the expected one of the case. `level` is the level of a rule (`deny` or `warn`)
    /// if the case sets none, or none if any is right.
    #[must_use]
    pub fn compare(
        &self,
        result: &PolicyResult,
        level: impl Fn(&str) -> Option<&'static str>,
    ) -> Diff {
        let ViolationMatches { missing, reported: found } = self.match_violations(result, level);
        let unexpected = found.into_iter().filter(|(_, expected)| expected.is_none());
        let unexpected = unexpected.map(|(one, _)| one.clone()).collect();
        let mut others = Vec::new();
        let skipped = self.counted_skips(result);
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
        if let Some(expected) =
            self.audit_annotations.as_ref().filter(|notes| **notes != result.audit_annotations)
        {
            others.push(format!(
                "auditAnnotations: {:?}, expected {expected:?}",
                result.audit_annotations
            ));
        }
        if self.reason != result.reason {
            let name = |reason: &Option<String>| reason.clone().unwrap_or("Forbidden".to_owned());
            let (found, expected) = (name(&result.reason), name(&self.reason));
            others.push(format!("reason: {found}, expected {expected}"));
        }
        if let Some(object) = &self.object {
            let own = result.fixes.iter().filter(|(rule, _)| *rule == self.rule);
            let own: Vec<_> = own.map(|(_, fix)| fix).collect();
            others.extend(fixed::differences(&self.rule, object, self.fixed.as_ref(), &own));
        }
        Diff {
            missing: missing.into_iter().cloned().collect(),
            unexpected,
            other_differences: others,
        }
    }

    /// Returns the rules that were skipped and count here.
    pub(crate) fn counted_skips(&self, result: &PolicyResult) -> BTreeSet<String> {
        result.skipped.iter().filter(|rule| self.is_rule_counted(rule)).cloned().collect()
    }

    /// Matches the violations that count with the expected ones.
    pub(crate) fn match_violations<'a>(
        &'a self,
        result: &'a PolicyResult,
        level: impl Fn(&str) -> Option<&'static str>,
    ) -> ViolationMatches<'a> {
        let mut expected: Vec<_> = self.violations.iter().collect();
        // The most specific expectations are matched first.
        expected.sort_by_key(|one| (one.is_prefix, one.field.is_none()));
        let found: Vec<_> =
            result.violations.iter().filter(|one| self.is_rule_counted(&one.rule)).collect();
        let mut matched_as: Vec<Option<&Violation>> = vec![None; found.len()];
        let mut missing = Vec::new();
        for expected_violation in expected {
            let slots = found.iter().zip(&mut matched_as);
            let mut free = slots.filter(|(_, slot)| slot.is_none());
            match free
                .find(|(one, _)| one.matches(expected_violation, level(&expected_violation.rule)))
            {
                Some((_, slot)) => *slot = Some(expected_violation),
                None => missing.push(expected_violation),
            }
        }
        ViolationMatches { missing, reported: found.into_iter().zip(matched_as).collect() }
    }
}
