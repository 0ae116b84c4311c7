//! OLM's reasons for failures.
//!
//! OLM writes such a reason into the status of a ClusterServiceVersion or an OperatorGroup. If a
//! violation denies, the audit annotation `olm-reason` has the same word, so that a search for it
//! finds the denial too.

use std::fmt;

use opgate_sdk::{Report, Rule};

/// A reason, by OLM's name for it.
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

/// Adds a violation for which OLM has a reason, and annotates the reason if the violation denies.
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
        report.annotate("olm-reason", reason.to_string());
    }
}
