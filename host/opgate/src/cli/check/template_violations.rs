//! Violations of a workload and of the Pod of its template, each once.
//!
//! ```text
//! decision on the workload ─▶ its violations ─┐
//! decision on its Pod ────────────────────────┴▶ the decision without those that the workload has
//! ```
//!
//! A rule can evaluate both. It can report the same field of both, or two fields of which one contains the other, and it
//! can find in the Pod what it does not read in the workload.

use opgate_admission::policy::{Decision, Effect, Violation};
use opgate_files::PodTemplate;

/// Removes the violations that the workload has from the decision on its Pod.
pub(super) fn without_known(
    mut decision: Decision,
    template: &PodTemplate,
    known: &[Violation],
) -> Decision {
    let path = template.field();
    decision.violations.retain(|violation| {
        let field = template.workload_field(&violation.field);
        !known.iter().any(|known| is_same(known, violation, &field, &path))
    });
    let denies = decision.violations.iter().any(|v| v.effect == Effect::Deny);
    if !denies && decision.policy_errors.is_empty() {
        decision.denial = None;
    }
    decision
}

/// Reports whether a violation of a workload is that of its Pod, which has this field in the workload: the rule has
/// reported that field, a field in it, or a field of the template around it. Outside of the template, a violation can be
/// one of the workload only, unless it has the same text.
fn is_same(known: &Violation, of_pod: &Violation, field: &str, template: &str) -> bool {
    if (&known.policy, &known.rule) != (&of_pod.policy, &of_pod.rule) {
        return false;
    }
    let is_in_template = contains(template, &known.field);
    contains(field, &known.field)
        || contains(&known.field, field) && (is_in_template || known.message == of_pod.message)
}

/// Reports whether a field is another one, or in it.
fn contains(outer: &str, inner: &str) -> bool {
    let rest = inner.strip_prefix(outer);
    outer.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violation(rule: &str, field: &str, message: &str) -> Violation {
        Violation {
            policy: "p".to_owned(),
            rule: rule.to_owned(),
            effect: Effect::Deny,
            would_deny: true,
            field: field.to_owned(),
            message: message.to_owned(),
            logical_location: Vec::new(),
            fix: None,
        }
    }

    #[test]
    fn violation_of_both_is_that_of_the_workload() {
        let image = "spec.template.spec.containers[0].image";
        for (known, message, field, expected) in [
            (image, "other text", image, true),
            ("spec.template.spec.containers[0]", "other text", image, true),
            ("spec.template", "other text", image, true),
            (image, "other text", "spec.template.spec", true),
            (image, "other text", "spec.template", true),
            ("metadata.namespace", "other text", "metadata.namespace", true),
            // Also a rule without fields reports once.
            ("", "text", "spec.template", true),
            ("spec", "text", image, true),
            ("", "other text", "spec.template", false),
            ("spec", "other text", image, false),
            ("spec.template.spec.containers[1].image", "text", image, false),
            ("spec.template.spec.container", "text", image, false),
            ("metadata.labels", "text", "spec.template.metadata.labels", false),
            ("spec.replicas", "text", image, false),
        ] {
            let (known, of_pod) = (violation("A-1", known, message), violation("A-1", "", "text"));
            let is_known = is_same(&known, &of_pod, field, "spec.template");
            assert_eq!(is_known, expected, "{:?} {field}", known.field);
            let other_rule = violation("A-2", &known.field, message);
            assert!(!is_same(&other_rule, &of_pod, field, "spec.template"));
        }
    }
}
