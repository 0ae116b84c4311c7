//! Makes the decision of a verdict: levels, mode, and texts within the limits of a server.

use std::collections::BTreeMap;

use opgate_text::one_line;
use serde::Serialize;

use crate::bindings::types::{Level, Verdict};
use crate::call::Call;
use crate::configuration::{Mode, RuleLevel};
use crate::loaded_policy::LoadedPolicy;

const MAX_VIOLATIONS: usize = 256;
const MAX_ANNOTATIONS: usize = 16;
const MAX_SKIPPED: usize = 512;
const MAX_MESSAGE_BYTES: usize = 4_096;
const MAX_FIELD_BYTES: usize = 1_024;
const MAX_REASON_BYTES: usize = 1_024;
const MAX_LOCATION_PARTS: usize = 8;
const MAX_LOCATION_PART_BYTES: usize = 256;
const MAX_ANNOTATION_KEY_BYTES: usize = 22;

/// The effect of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Effect {
    /// The request is denied.
    Deny,
    /// The request is allowed with a warning.
    Warn,
    /// It is only recorded.
    Audit,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Violation {
    rule: String,
    name: String,
    title: String,
    effect: Effect,
    field: String,
    message: String,
    logical_location: Vec<String>,
}

#[derive(Serialize)]
struct SkippedRule {
    rule: String,
    reason: String,
}

/// The decision on a review by one policy.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decision {
    policy: String,
    allowed: bool,
    /// Reason of a denial.
    reason: Option<String>,
    violations: Vec<Violation>,
    skipped: Vec<SkippedRule>,
    audit_annotations: BTreeMap<String, String>,
    policy_error: Option<String>,
    log: Vec<String>,
}

/// A verdict that violates the contract.
#[derive(Debug, thiserror::Error)]
#[error("returned an invalid verdict: {0}")]
struct InvalidVerdict(String);

impl Decision {
    /// Makes the decision of a call that has ended.
    pub(crate) fn of(policy: &LoadedPolicy, verdict: Result<Verdict, String>) -> Self {
        let Call { error, log, .. } = Call::end();
        let verdict = error.map_or(verdict, Err);
        let accepted = verdict.and_then(|verdict| {
            Self::accept(policy, verdict).map_err(|invalid| invalid.to_string())
        });
        let name = policy.descriptor.name.clone();
        match accepted {
            Ok(decision) => Self { policy: name, log, ..decision },
            Err(error) => {
                let last = log.last().filter(|line| line.starts_with("panicked"));
                let error = last.map_or(error, Clone::clone);
                let policy_error = Some(one_line(&error, MAX_MESSAGE_BYTES));
                Self { policy: name, log, policy_error, ..Self::default() }
            }
        }
    }

    fn accept(policy: &LoadedPolicy, verdict: Verdict) -> Result<Self, InvalidVerdict> {
        for (what, count, most) in [
            ("violations", verdict.violations.len(), MAX_VIOLATIONS),
            ("audit annotations", verdict.audit_annotations.len(), MAX_ANNOTATIONS),
            ("skipped rules", verdict.skipped.len(), MAX_SKIPPED),
        ] {
            if count > most {
                return Err(InvalidVerdict(format!("{count} {what} are more than {most}")));
            }
        }
        let mut decision = Self { allowed: true, ..Self::default() };
        for found in verdict.violations {
            decision.violations.extend(accept_violation(policy, found)?);
        }
        for missing in verdict.skipped {
            find_rule(policy, &missing.rule)?;
            let reason = one_line(&missing.reason, MAX_REASON_BYTES);
            decision.skipped.push(SkippedRule { rule: missing.rule, reason });
        }
        for note in verdict.audit_annotations {
            let key = note.key;
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
            let ends = key.bytes().next_back().is_some_and(|b| b.is_ascii_alphanumeric());
            if !ends || key.len() > MAX_ANNOTATION_KEY_BYTES || !key.bytes().all(allowed) {
                let key = one_line(&key, 64);
                let why = format!("{key:?} cannot be the key of an audit annotation");
                return Err(InvalidVerdict(why));
            }
            decision.audit_annotations.insert(key, one_line(&note.value, MAX_MESSAGE_BYTES));
        }
        if decision.violations.iter().any(|violation| violation.effect == Effect::Deny) {
            decision.allowed = false;
            let reason = verdict.reason.map(|reason| one_line(&reason, MAX_REASON_BYTES));
            decision.reason = Some(reason.unwrap_or_else(|| "Forbidden".to_owned()));
        }
        Ok(decision)
    }
}

fn find_rule<'p>(
    policy: &'p LoadedPolicy,
    id: &str,
) -> Result<&'p crate::bindings::types::Rule, InvalidVerdict> {
    policy.rule(id).ok_or_else(|| {
        InvalidVerdict(format!("{:?} is not a rule of the policy", one_line(id, 64)))
    })
}

/// The violation with its effect; none if the rule is off.
fn accept_violation(
    policy: &LoadedPolicy,
    found: crate::bindings::types::Violation,
) -> Result<Option<Violation>, InvalidVerdict> {
    let rule = find_rule(policy, &found.rule)?;
    let level: Level = found.level;
    let effect = match (policy.violation_level(rule, level), policy.mode) {
        (RuleLevel::Off, _) | (_, Mode::Off) => return Ok(None),
        (_, Mode::Audit) => Effect::Audit,
        (RuleLevel::Deny, Mode::Enforce) => Effect::Deny,
        (RuleLevel::Deny | RuleLevel::Warn, Mode::Enforce | Mode::Warn) => Effect::Warn,
    };
    let part = |text: &String| one_line(text, MAX_LOCATION_PART_BYTES);
    Ok(Some(Violation {
        name: rule.name.clone(),
        title: one_line(&rule.title, MAX_FIELD_BYTES),
        rule: found.rule,
        effect,
        field: one_line(&found.field, MAX_FIELD_BYTES),
        message: one_line(&found.message, MAX_MESSAGE_BYTES),
        logical_location: found
            .logical_location
            .iter()
            .take(MAX_LOCATION_PARTS)
            .map(part)
            .collect(),
    }))
}
