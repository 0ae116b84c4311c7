//! The verdict while it is put together.

use crate::bindings::opgate::policy::types as wit;
use crate::{Level, Violation};

/// What a policy found. Without a violation of level deny the request is allowed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// Everything that was found, all at once. The host gets at most 256, denials first.
    pub violations: Vec<Violation>,
    /// Reason of the Status that refuses the request; `Forbidden` unless set.
    pub reason: Option<String>,
    /// Notes for the API server's audit log, key and value.
    pub audit_annotations: Vec<(String, String)>,
}

impl Verdict {
    /// Adds a violation: the rule's id, the field as Kubernetes writes it, one sentence.
    pub fn add(
        &mut self,
        level: Level,
        rule: &str,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        let (field, message) = (field.into(), message.into());
        self.violations.push(Violation { rule: rule.to_owned(), level, field, message });
    }

    /// [`Verdict::add`] with level deny.
    pub fn deny(&mut self, rule: &str, field: impl Into<String>, message: impl Into<String>) {
        self.add(Level::Deny, rule, field, message);
    }

    /// [`Verdict::add`] with level warn.
    pub fn warn(&mut self, rule: &str, field: impl Into<String>, message: impl Into<String>) {
        self.add(Level::Warn, rule, field, message);
    }
}

/// What the host takes at the most, see `wit/policy.wit`. More would be a fault, and a fault may let
/// pass what should be denied: a verdict is cut to it instead.
const VIOLATIONS: usize = 256;
const MESSAGE: usize = 4_096;
const FIELD: usize = 1_024;

fn cut(text: &mut String, limit: usize) {
    if text.len() > limit {
        let end = (0..=limit).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or_default());
    }
}

/// Denials first where there are too many, and the last one says how many are left out.
fn cut_violations(violations: &mut Vec<Violation>) {
    if violations.len() > VIOLATIONS {
        violations.sort_by_key(|violation| violation.level != Level::Deny);
        let left_out = violations.len() - (VIOLATIONS - 1);
        violations.truncate(VIOLATIONS);
        if let Some(last) = violations.last_mut() {
            last.field = String::new();
            last.message = format!("{left_out} more violations are left out");
        }
    }
    for violation in violations {
        cut(&mut violation.message, MESSAGE);
        cut(&mut violation.field, FIELD);
    }
}

impl From<Verdict> for wit::Verdict {
    fn from(mut from: Verdict) -> Self {
        cut_violations(&mut from.violations);
        let annotation = |(key, value)| wit::AuditAnnotation { key, value };
        Self {
            violations: from.violations,
            reason: from.reason,
            audit_annotations: from.audit_annotations.into_iter().map(annotation).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_cut_to_what_the_host_takes_and_still_denies() {
        let mut verdict = Verdict::default();
        for n in 0..1_000 {
            verdict.warn("W", format!("f{n}"), "é".repeat(3_000));
        }
        verdict.deny("D", "x".repeat(2_000), "no");
        let wit::Verdict { violations, .. } = verdict.into();
        assert_eq!(violations.len(), VIOLATIONS);
        assert_eq!((violations[0].rule.as_str(), violations[0].field.len()), ("D", FIELD));
        assert!(violations.iter().all(|v| v.message.len() <= MESSAGE));
        assert_eq!(violations[VIOLATIONS - 1].message, "746 more violations are left out");
    }
}
