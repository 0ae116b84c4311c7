//! The verdict while it is put together.

use crate::bindings::opgate::policy::types as wit;
use crate::{Level, Violation};

/// What a policy found. Without a violation of level deny the request is allowed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// Everything that was found, all at once.
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

impl From<Verdict> for wit::Verdict {
    fn from(from: Verdict) -> Self {
        let annotation = |(key, value)| wit::AuditAnnotation { key, value };
        Self {
            violations: from.violations,
            reason: from.reason,
            audit_annotations: from.audit_annotations.into_iter().map(annotation).collect(),
        }
    }
}
