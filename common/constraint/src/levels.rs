//! Which of the rules about constraints are advice: findings of these warn, those of all others deny.
//!
//! The policy says the same of its rules, where it can be configured; its tests compare the two. Here it
//! is for those who check a constraint without a policy.

/// Whether a finding of a rule is advice.
#[must_use]
pub fn is_advice(rule: &str) -> bool {
    matches!(rule, "CON-10" | "CON-14" | "CON-15" | "CON-26" | "CON-27")
}
