//! Combines the verdicts of policies into the decision of the webhook.
//!
//! This module applies levels and modes, makes texts valid for the API, and combines the
//! violations of all policies into one decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use opgate_document::{Account, Charge};
use opgate_edit::Fix;

use super::descriptor::DefaultLevel;
use super::fix::FixLimiter;
use super::{Mode, OnError, Policy, RuleLevel, warnings};
use crate::cluster::CallReads;
use opgate_engine::{CallError, wit};
use opgate_text::one_line;

const MAX_VIOLATIONS: usize = 256;
const MAX_ANNOTATIONS: usize = 16;
const MAX_MESSAGE_BYTES: usize = 4_096;
const MAX_FIELD_BYTES: usize = 1_024;
const MAX_REASON_BYTES: usize = 1_024;
const MAX_SKIPPED: usize = 512;
const MAX_LOCATION_PARTS: usize = 8;
const MAX_LOCATION_PART_BYTES: usize = 256;

/// Bytes for the head of a response, and for HTTP.
const RESPONSE_HEAD_BYTES: usize = 4 << 10;

/// Maximum bytes of an annotation's key: 63 for the API server, less the longest name of a policy
/// and a point.
const MAX_ANNOTATION_KEY_BYTES: usize = 22;

/// Key of the audit annotation with the rules that were skipped.
const SKIPPED_RULES_KEY: &str = "skipped-rules";

/// The final effect of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The request is denied.
    Deny,
    /// The request is allowed with a warning.
    Warn,
    /// Log, metrics and audit annotation only.
    Audit,
}

impl Effect {
    /// The name in reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Warn => "warn",
            Self::Audit => "audit",
        }
    }
}

/// A violation of a rule, after levels and mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The policy.
    pub policy: String,
    /// The rule.
    pub rule: String,
    /// The effect.
    pub effect: Effect,
    /// Whether the level of the rule is deny, whatever the effect of the mode.
    pub would_deny: bool,
    /// The field, in the syntax of Kubernetes.
    pub field: String,
    /// One line.
    pub message: String,
    /// The logical location in a file, from the outermost to the innermost.
    pub logical_location: Vec<String>,
    /// The changes that fix it, for files only.
    pub fix: Option<Box<Fix>>,
}

/// A rule that was not evaluated, or only in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRule {
    /// The policy.
    pub policy: String,
    /// The rule.
    pub rule: String,
    /// The reason, in one line.
    pub reason: String,
}

/// A policy that returned no valid verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyError {
    /// The policy.
    pub policy: String,
    /// One line.
    pub cause: String,
    /// The label value for metrics.
    pub class: &'static str,
}

/// One cause of a denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The rule.
    pub rule: String,
    /// The field.
    pub field: String,
    /// The message.
    pub message: String,
}

/// The Status of a denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// HTTP code in the Status.
    pub code: u16,
    /// One line for each rule.
    pub message: String,
    /// `Forbidden` unless a policy sets one.
    pub reason: String,
    /// Every violation that denies.
    pub causes: Vec<Cause>,
}

/// Rules of a policy that only warn and could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedRules {
    /// The policy.
    pub policy: String,
    /// The rules.
    pub rules: Vec<String>,
    /// The reason, in one line.
    pub cause: String,
}

/// The decision on a review.
#[derive(Debug, Clone, Default)]
pub struct Decision {
    /// Set if the request is denied.
    pub denial: Option<Denial>,
    /// Lines for the user who sent the request.
    pub warnings: Vec<String>,
    /// Annotations for the API server's audit log.
    pub audit_annotations: BTreeMap<String, String>,
    /// All violations.
    pub violations: Vec<Violation>,
    /// Rules that were not evaluated.
    pub skipped: Vec<SkippedRule>,
    /// Advisory rules that were dropped because they caused a policy error.
    pub dropped: Vec<DroppedRules>,
    /// Policies that returned no valid verdict, whatever the effect.
    pub policy_errors: Vec<PolicyError>,
    /// A policy error after which the webhook must not respond, so that its `failurePolicy`
    /// applies.
    pub failure: Option<PolicyError>,
    /// What it depended on in addition to the review, if that was asked for.
    pub inputs: Option<Arc<DecisionInputs>>,
    /// The memory of the request that the violations use.
    violation_charges: Vec<Arc<Charge>>,
    /// Memory for the response, so that the decision can be sent.
    response_charge: Option<Arc<Charge>>,
}

/// What a decision depended on in addition to the review and the policies.
#[derive(Debug, Default)]
pub struct DecisionInputs {
    /// The reads of each policy.
    pub reads: Vec<(String, CallReads)>,
    /// Objects of unsettled requests that a denial names.
    pub pending_objects: Vec<String>,
    /// The reason why opgate let the calls of some policies count as failed: no recording repeats that.
    pub server_state: Option<String>,
    /// Policies and queries without a recorded result, if the decision was repeated.
    pub missing_reads: Vec<(String, String)>,
}

impl Decision {
    /// Reserves memory for a response of this many bytes; returns whether there is enough.
    pub(crate) fn reserve_response_memory(&mut self, account: &Arc<Account>, bytes: usize) -> bool {
        let charge = Charge::on(account);
        self.response_charge =
            charge.grow(RESPONSE_HEAD_BYTES.saturating_add(bytes)).then(|| Arc::new(charge));
        self.has_response_memory()
    }

    /// Whether memory for its response is reserved.
    pub(crate) fn has_response_memory(&self) -> bool {
        self.response_charge.is_some()
    }

    /// The memory for the response, which the caller keeps until the response was sent.
    pub fn take_response_charge(&mut self) -> Option<Arc<Charge>> {
        self.response_charge.take()
    }
}

/// The accepted verdict of one policy.
#[derive(Clone)]
pub(crate) struct AcceptedVerdict {
    violations: Vec<Violation>,
    reason: Option<String>,
    annotations: Vec<(String, String)>,
    skipped: Vec<SkippedRule>,
    dropped: Option<DroppedRules>,
    /// The memory of the request that the verdict uses.
    charge: Option<Arc<Charge>>,
}

/// Copies of a violation: in the decision, in the message of a denial and in its causes.
const COPIES_PER_VIOLATION: usize = 4;

impl AcceptedVerdict {
    /// Whether it denies the request.
    pub(crate) fn denies(&self) -> bool {
        self.violations.iter().any(|violation| violation.effect == Effect::Deny)
    }

    /// The rules with violations, each once.
    pub(crate) fn violated_rules(&self) -> Vec<&str> {
        let rules: BTreeSet<_> = self.violations.iter().map(|v| v.rule.as_str()).collect();
        rules.into_iter().collect()
    }

    /// Records that these rules were dropped.
    pub(crate) fn set_dropped(
        &mut self,
        policy: &Policy,
        rules: BTreeSet<&str>,
        fault: &CallError,
    ) {
        self.dropped = Some(DroppedRules {
            policy: policy.name.clone(),
            rules: rules.into_iter().map(str::to_owned).collect(),
            cause: one_line(&fault.to_string(), MAX_MESSAGE_BYTES),
        });
    }

    /// Accepts a verdict. The memory of its violations is charged to `account`, if there is one.
    ///
    /// # Errors
    /// If it violates the contract, or there is no memory for it.
    pub(crate) fn of(
        policy: &Policy,
        verdict: wit::Verdict,
        account: Option<&Arc<Account>>,
    ) -> Result<Self, CallError> {
        let (count, notes) = (verdict.violations.len(), verdict.audit_annotations.len());
        if count > MAX_VIOLATIONS {
            return Err(CallError::TooManyItems(format!(
                "{count} violations are more than {MAX_VIOLATIONS}"
            )));
        }
        if notes > MAX_ANNOTATIONS {
            return Err(CallError::TooManyItems(format!(
                "{notes} audit annotations are more than {MAX_ANNOTATIONS}"
            )));
        }
        let left_out = verdict.skipped.len();
        if left_out > MAX_SKIPPED {
            return Err(CallError::TooManyItems(format!(
                "{left_out} skipped rules are more than {MAX_SKIPPED}"
            )));
        }
        let rule_of = |id: &str| {
            let unknown = || {
                CallError::InvalidVerdict(format!(
                    "{:?} is not a rule of the policy",
                    one_line(id, 64)
                ))
            };
            policy.descriptor.rule(id).ok_or_else(unknown)
        };
        let mut violations = Vec::with_capacity(count);
        let mut fixes = FixLimiter::new(policy, account.is_none());
        for violation in verdict.violations {
            let rule = rule_of(&violation.rule)?;
            let level = violation_level(policy, rule, violation.level);
            let Some(effect) = effect_of(level, policy.mode) else { continue };
            violations.push(Violation {
                policy: policy.name.clone(),
                fix: fixes.accept(&violation.rule, violation.fix),
                rule: violation.rule,
                effect,
                would_deny: level == RuleLevel::Deny,
                field: one_line(&violation.field, MAX_FIELD_BYTES),
                message: one_line(&violation.message, MAX_MESSAGE_BYTES),
                logical_location: logical_location(&violation.logical_location),
            });
        }
        let mut skipped = Vec::with_capacity(left_out);
        for missing in verdict.skipped {
            rule_of(&missing.rule)?;
            skipped.push(SkippedRule {
                policy: policy.name.clone(),
                rule: missing.rule,
                reason: one_line(&missing.reason, MAX_REASON_BYTES),
            });
        }
        let mut annotations = Vec::with_capacity(notes);
        for annotation in verdict.audit_annotations {
            let key = annotation.key;
            let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
            let ends = key.bytes().next_back().is_some_and(|b| b.is_ascii_alphanumeric());
            if !ends || key.len() > MAX_ANNOTATION_KEY_BYTES || !key.bytes().all(allowed) {
                let key = one_line(&key, 64);
                return Err(CallError::InvalidVerdict(format!(
                    "{key:?} cannot be the key of an audit annotation"
                )));
            }
            annotations.push((key, one_line(&annotation.value, MAX_MESSAGE_BYTES)));
        }
        let reason = verdict.reason.map(|reason| one_line(&reason, MAX_REASON_BYTES));
        let mut accepted_verdict =
            Self { violations, reason, annotations, skipped, dropped: None, charge: None };
        if let (Some(account), bytes @ 1..) = (account, accepted_verdict.violation_bytes()) {
            let charge = Charge::on(account);
            if !charge.grow(bytes.saturating_mul(COPIES_PER_VIOLATION)) {
                return Err(CallError::ServerMemory);
            }
            accepted_verdict.charge = Some(Arc::new(charge));
        }
        Ok(accepted_verdict)
    }

    /// Bytes of the violations.
    fn violation_bytes(&self) -> usize {
        let violations = self.violations.iter().map(
            |Violation { policy, rule, field, message, logical_location: about, .. }| {
                let about =
                    about.iter().map(|text| size_of::<String>() + text.len()).sum::<usize>();
                let texts = policy.len() + rule.len() + field.len() + message.len();
                size_of::<Violation>() + texts + about
            },
        );
        let skipped = self.skipped.iter().map(|SkippedRule { policy, rule, reason }| {
            size_of::<SkippedRule>() + policy.len() + rule.len() + reason.len()
        });
        let annotations = self.annotations.iter().map(|(key, value)| key.len() + value.len());
        violations.chain(skipped).chain(annotations).sum()
    }
}

/// The logical location of a violation, cut to the length that reports show.
fn logical_location(texts: &[String]) -> Vec<String> {
    texts
        .iter()
        .take(MAX_LOCATION_PARTS)
        .map(|text| one_line(text, MAX_LOCATION_PART_BYTES))
        .collect()
}

/// The level of a violation: the configured one of the rule, or else the one that the policy sets.
/// A rule that is off by default stays off unless one of its settings is present.
fn violation_level(policy: &Policy, rule: &super::Rule, level: wit::Level) -> RuleLevel {
    policy.level(&rule.id).unwrap_or_else(|| {
        let enabled =
            || rule.enabled_by.iter().any(|pointer| policy.settings.get(pointer).is_some());
        match level {
            _ if rule.default == DefaultLevel::Off && !enabled() => RuleLevel::Off,
            wit::Level::Deny => RuleLevel::Deny,
            wit::Level::Warn => RuleLevel::Warn,
        }
    })
}

/// The effect of a violation of this level, which the mode limits.
fn effect_of(level: RuleLevel, mode: Mode) -> Option<Effect> {
    match (level, mode) {
        (RuleLevel::Off, _) | (_, Mode::Off) => None,
        (_, Mode::Audit) => Some(Effect::Audit),
        (RuleLevel::Deny, Mode::Enforce) => Some(Effect::Deny),
        (RuleLevel::Deny | RuleLevel::Warn, Mode::Enforce | Mode::Warn) => Some(Effect::Warn),
    }
}

/// Builds a decision, policy by policy.
#[derive(Clone, Default)]
pub(crate) struct DecisionBuilder {
    decision: Decision,
    reasons: Vec<Option<String>>,
    denied_by_error: Vec<String>,
    warned_by_error: Vec<String>,
}

impl DecisionBuilder {
    pub(crate) fn add_verdict(&mut self, policy: &Policy, accepted_verdict: AcceptedVerdict) {
        let AcceptedVerdict { violations, reason, annotations, skipped, dropped, charge } =
            accepted_verdict;
        self.decision.violation_charges.extend(charge);
        if violations.iter().any(|v| v.effect == Effect::Deny) {
            self.reasons.push(reason);
        }
        let without = |d: &DroppedRules| format!("dropped {}: {}", d.rules.join(" "), d.cause);
        let note = |v: &Violation| format!("{} {}: {}", v.effect.as_str(), v.rule, v.message);
        let notes: Vec<_> =
            dropped.iter().map(without).chain(violations.iter().map(note)).collect();
        if !notes.is_empty() {
            self.annotate(&policy.name, &notes.join("; "));
        }
        self.decision.dropped.extend(dropped);
        if !skipped.is_empty() {
            let rules: Vec<_> = skipped.iter().map(|missing| missing.rule.as_str()).collect();
            self.annotate(&format!("{}.{SKIPPED_RULES_KEY}", policy.name), &rules.join(" "));
            self.decision.skipped.extend(skipped);
        }
        for (key, value) in annotations {
            self.annotate(&format!("{}.{key}", policy.name), &value);
        }
        self.decision.violations.extend(violations);
    }

    /// Records a policy error. The administrator has configured its effect.
    pub(crate) fn add_policy_error(&mut self, found: PolicyError, mode: Mode, on_error: OnError) {
        let text = format!("policy {} failed: {}", found.policy, found.cause);
        self.annotate(&found.policy, &text);
        match (mode, on_error) {
            (Mode::Audit | Mode::Off, _) => {}
            (Mode::Warn, _) | (Mode::Enforce, OnError::Allow) => self.warned_by_error.push(text),
            (Mode::Enforce, OnError::Deny) => self.denied_by_error.push(text),
            (Mode::Enforce, OnError::FailurePolicy) => {
                self.decision.failure.get_or_insert_with(|| found.clone());
            }
        }
        self.decision.policy_errors.push(found);
    }

    fn annotate(&mut self, key: &str, value: &str) {
        self.decision.audit_annotations.insert(key.to_owned(), one_line(value, MAX_MESSAGE_BYTES));
    }

    pub(crate) fn build(mut self) -> Decision {
        self.decision.denial = self.denial();
        // A denial is final even if other policies failed: no other verdict could allow the
        // request.
        if self.decision.denial.is_some() {
            self.decision.failure = None;
        }
        let violations = &self.decision.violations;
        let warned = |would_deny: bool| {
            let found = violations.iter().filter(|v| v.effect == Effect::Warn);
            found.filter(move |v| v.would_deny == would_deny).map(|v| v.message.as_str())
        };
        // The most serious first: policy errors, then violations that only the mode keeps from
        // denying.
        let faults = self.warned_by_error.iter().map(String::as_str);
        self.decision.warnings =
            warnings::limit_lines(faults.chain(warned(true)).chain(warned(false)));
        self.decision
    }

    fn denial(&self) -> Option<Denial> {
        let denied: Vec<_> =
            self.decision.violations.iter().filter(|v| v.effect == Effect::Deny).collect();
        if denied.is_empty() && self.denied_by_error.is_empty() {
            return None;
        }
        let mut lines = lines_by_rule(&denied);
        lines.extend(self.denied_by_error.iter().cloned());
        let cause = |v: &&Violation| Cause {
            rule: v.rule.clone(),
            field: v.field.clone(),
            message: v.message.clone(),
        };
        // The decision has a reason only if all policies that deny give the same one.
        let reason = match self.reasons.split_first() {
            Some((Some(first), rest))
                if self.denied_by_error.is_empty()
                    && rest.iter().all(|r| r.as_ref() == Some(first)) =>
            {
                first.clone()
            }
            _ if denied.is_empty() => "InternalError".to_owned(),
            _ => "Forbidden".to_owned(),
        };
        Some(Denial {
            code: if denied.is_empty() { 500 } else { 403 },
            message: lines.join("\n"),
            reason,
            causes: denied.iter().map(cause).collect(),
        })
    }
}

/// One line for each rule: its message or, for several violations, `[a, b]`, in the format of a Go
/// aggregate of errors. Equal texts count once.
fn lines_by_rule(denied: &[&Violation]) -> Vec<String> {
    let mut rules: Vec<((&str, &str), Vec<&str>)> = Vec::new();
    for violation in denied {
        let key = (violation.policy.as_str(), violation.rule.as_str());
        let message = violation.message.as_str();
        match rules.iter_mut().find(|(known, _)| *known == key) {
            Some((_, messages)) if messages.contains(&message) => {}
            Some((_, messages)) => messages.push(message),
            None => rules.push((key, vec![message])),
        }
    }
    let line = |(_, messages): ((&str, &str), Vec<&str>)| match messages.as_slice() {
        [one] => (*one).to_owned(),
        several => format!("[{}]", several.join(", ")),
    };
    rules.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_serious_warnings_come_first() {
        let violation = |rule: &str, effect, would_deny| Violation {
            policy: "p".to_owned(),
            rule: rule.to_owned(),
            effect,
            would_deny,
            field: String::new(),
            message: format!("{rule}: {}", "x".repeat(200)),
            logical_location: Vec::new(),
            fix: None,
        };
        let violations: Vec<_> = (1..=9)
            .map(|n| violation(&format!("A-{n}"), Effect::Warn, false))
            .chain([violation("B-1", Effect::Warn, true), violation("B-2", Effect::Warn, true)])
            .chain([violation("C-1", Effect::Deny, true), violation("D-1", Effect::Audit, true)])
            .collect();
        let decision = Decision { violations, ..Decision::default() };
        let warned_by_fault = vec!["policy q failed: panicked".to_owned()];
        let built = DecisionBuilder {
            decision,
            warned_by_error: warned_by_fault,
            ..DecisionBuilder::default()
        }
        .build();
        let firsts: Vec<_> =
            built.warnings.iter().map(|line| line.split(':').next().unwrap()).collect();
        // The id of a rule that begins a text (`messages.prefixRuleId`) is in the rest of it.
        let expected =
            ["policy q failed", "B-1", "B-2", "A-1", "A-2", "A-3", "A-4", "A-5", "4 more warnings"];
        assert_eq!(firsts, expected);
        // Violations that deny are reported in full.
        assert_eq!(built.denial.unwrap().causes[0].message.len(), 205);
    }

    #[test]
    fn violation_texts_are_truncated() {
        let about = logical_location(&vec!["channel \"x\u{1b}\"".repeat(100); 100]);
        assert_eq!(about.len(), MAX_LOCATION_PARTS);
        assert!(
            about
                .iter()
                .all(|text| text.len() <= MAX_LOCATION_PART_BYTES && !text.contains('\u{1b}'))
        );
    }
}
