//! OLM's words for failures.
//!
//! OLM writes such a word into the status of what it lets fail. Where a finding denies, the same word
//! goes into the audit annotation `olm-reason`: who searches for it finds the denial too.

use std::fmt;

use opgate_sdk::{Report, Rule};

/// A word of OLM's.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OlmReason {
    CannotModifyStaticOperatorGroupProvidedAPIs,
    InterOperatorGroupOwnerConflict,
    MultipleOperatorGroupsFound,
    NoOperatorGroup,
    OwnerConflict,
    ServiceAccountNotFound,
    TooManyOperatorGroups,
    UnsupportedOperatorGroup,
}

/// As OLM writes it.
impl fmt::Display for OlmReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Adds a finding for which OLM has a word, and notes the word where the finding denies.
pub(crate) fn add(
    report: &mut Report<'_>,
    reason: OlmReason,
    rule: &'static Rule,
    field: &str,
    message: impl Into<String>,
) {
    let before = report.denials(rule);
    report.add(rule, field, message);
    if report.denials(rule) > before {
        report.note("olm-reason", reason.to_string());
    }
}
