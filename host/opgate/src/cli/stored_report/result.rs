//! The result of a check or a replay, read back from its JSON.

use serde::Deserialize;
use serde_json::error::Category;
use thiserror::Error;

use crate::cli::exit::ExitStatus;
use crate::cli::report::html::EvaluationCommand;
use crate::cli::report::review_record::describe_request;
use crate::cli::report::{
    AppliedWaiver, PolicyErrorRecord, ReportItem, ReportLocation, ReportedViolation, ResultKind,
    UnreadableInput, Violation, describe_object,
};
use opgate_admission::policy::Effect;

/// A text that is no result: line and column from 1, and the reason.
#[derive(Debug, Error)]
#[error("{line}:{column}: {reason}")]
pub(super) struct ResultError {
    line: usize,
    column: usize,
    reason: String,
}

/// The records of a result.
#[derive(Debug)]
pub(super) struct StoredResult {
    records: Vec<StoredRecord>,
    unreadable: Vec<UnreadableInput>,
}

/// A record of `opgate check` or of `opgate replay`. Members that a page does not show are ignored.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordFields {
    source: String,
    #[serde(alias = "allowed")]
    ok: bool,
    /// Only in records of a check.
    #[serde(default)]
    kind: String,
    /// Only in records of a replay.
    operation: Option<String>,
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
    namespace: Option<String>,
    name: String,
    status: Option<StatusFields>,
    violations: Vec<ViolationFields>,
    error: Option<ErrorFields>,
    not_evaluated: Option<String>,
}

#[derive(Debug, Deserialize)]
struct StatusFields {
    message: String,
}

#[derive(Debug, Deserialize)]
struct ErrorFields {
    policy: String,
    cause: String,
}

#[derive(Debug, Deserialize)]
struct ViolationFields {
    policy: String,
    rule: String,
    effect: EffectName,
    field: String,
    message: String,
    waived: Option<WaiverFields>,
    location: Option<LocationFields>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EffectName {
    Deny,
    Warn,
    Audit,
}

#[derive(Debug, Deserialize)]
struct WaiverFields {
    reason: String,
    until: Option<String>,
}

#[derive(Debug, Deserialize)]
struct LocationFields {
    file: String,
    line: u64,
    column: u64,
}

/// A record of an evaluated object or review.
#[derive(Debug)]
struct StoredRecord {
    source: String,
    object: String,
    is_ok: bool,
    is_replayed: bool,
    message: String,
    violations: Vec<(Violation, Option<ReportLocation>)>,
    error: Option<PolicyErrorRecord>,
    not_evaluated: Option<String>,
}

impl StoredResult {
    /// Parses one list, or one object after the other.
    ///
    /// # Errors
    /// If the text is not JSON, is empty, or has another value than a record.
    pub(super) fn parse(text: &[u8]) -> Result<Self, ResultError> {
        let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
        let records: Vec<RecordFields> = match first {
            None => return Err(ResultError::empty()),
            Some(b'[') => serde_json::from_slice(text).map_err(|error| ResultError::of(&error))?,
            Some(_) => serde_json::Deserializer::from_slice(text)
                .into_iter()
                .collect::<Result<_, _>>()
                .map_err(|error| ResultError::of(&error))?,
        };
        let mut result = Self { records: Vec::new(), unreadable: Vec::new() };
        for record in records {
            match record.into_unreadable() {
                Ok(unreadable) => result.unreadable.push(unreadable),
                Err(record) => result.records.push(StoredRecord::from(*record)),
            }
        }
        Ok(result)
    }

    /// Returns the command that wrote the result.
    pub(super) fn command(&self) -> EvaluationCommand {
        if self.records.iter().any(|record| record.is_replayed) {
            EvaluationCommand::Replay
        } else {
            EvaluationCommand::Check
        }
    }

    /// Returns the evaluated objects.
    pub(super) fn items(&self) -> Vec<ReportItem<'_>> {
        self.records.iter().map(StoredRecord::item).collect()
    }

    /// Returns the inputs that the command could not read.
    pub(super) fn unreadable(&self) -> &[UnreadableInput] {
        &self.unreadable
    }
}

impl ResultError {
    fn empty() -> Self {
        let reason = "empty: write a result with `opgate check -o json` or `opgate replay -o json`";
        Self { line: 1, column: 1, reason: reason.to_owned() }
    }

    fn of(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let why = text.split(" at line ").next().unwrap_or_default();
        let reason = match error.classify() {
            Category::Data => format!(
                "not a result of `opgate check` or `opgate replay` in the format json or jsonl: {why}"
            ),
            Category::Io | Category::Syntax | Category::Eof => format!("not JSON: {why}"),
        };
        Self { line: error.line(), column: error.column(), reason }
    }
}

impl RecordFields {
    /// Returns the unreadable input if a check has written the record for one, otherwise the record.
    fn into_unreadable(self) -> Result<UnreadableInput, Box<Self>> {
        match self {
            Self { operation: None, error: Some(error), source, kind, .. }
                if kind.is_empty() && error.policy.is_empty() =>
            {
                Ok(UnreadableInput { source, line: error.cause })
            }
            record => Err(Box::new(record)),
        }
    }
}

impl From<RecordFields> for StoredRecord {
    fn from(fields: RecordFields) -> Self {
        let RecordFields { operation, kind, resource, subresource, namespace, name, .. } = fields;
        let object = match &operation {
            Some(operation) => {
                let namespace = namespace.as_deref().unwrap_or_default();
                describe_request(operation, &resource, &subresource, namespace, &name)
            }
            None => describe_object(&kind, namespace.as_deref(), &name),
        };
        let error =
            fields.error.map(|ErrorFields { policy, cause }| PolicyErrorRecord { policy, cause });
        Self {
            source: fields.source,
            object,
            is_ok: fields.ok,
            is_replayed: operation.is_some(),
            message: fields.status.map(|status| status.message).unwrap_or_default(),
            violations: fields.violations.into_iter().map(ViolationFields::into_parts).collect(),
            error,
            not_evaluated: fields.not_evaluated,
        }
    }
}

impl ViolationFields {
    fn into_parts(self) -> (Violation, Option<ReportLocation>) {
        let Self { policy, rule, effect, field, message, waived, location } = self;
        let waived = waived.map(|WaiverFields { reason, until }| AppliedWaiver {
            reason,
            until,
            at: ReportLocation::default(),
        });
        let location = location.map(|LocationFields { file, line, column }| ReportLocation {
            file,
            line,
            column,
            excerpt: String::new(),
        });
        let effect = match effect {
            EffectName::Deny => Effect::Deny,
            EffectName::Warn => Effect::Warn,
            EffectName::Audit => Effect::Audit,
        };
        let (effect, fix) = (effect.as_str(), None);
        (Violation { policy, rule, effect, field, message, waived, fix }, location)
    }
}

impl StoredRecord {
    fn item(&self) -> ReportItem<'_> {
        let outcome = match (&self.error, self.is_ok) {
            (Some(_), _) => ExitStatus::Engine,
            (None, false) => ExitStatus::Denied,
            (None, true) => ExitStatus::Ok,
        };
        let warns = self.violations.iter().any(|(violation, _)| violation.has_effect(Effect::Warn));
        ReportItem {
            source: &self.source,
            region: None,
            object: self.object.clone(),
            outcome,
            message: self.message.clone(),
            time: None,
            lines: self
                .violations
                .iter()
                .map(|(violation, at)| ReportedViolation { violation, location: at.as_ref() })
                .collect(),
            is_located: !self.is_replayed,
            error: self.error.as_ref(),
            not_evaluated: self.not_evaluated.as_deref(),
            result_kind: ResultKind::of(outcome, self.not_evaluated.is_none(), warns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_result_is_an_error_with_its_position() {
        let record = r#"{"source":"a","ok":true,"kind":"Pod","name":"a","violations":[]}"#;
        let effect = r#"{"source":"a","ok":true,"name":"a","violations":[{"policy":"p","rule":"r","effect":"block","field":"","message":"m"}]}"#;
        for (text, expected) in [
            (" \n".to_owned(), "1:1: empty: "),
            (format!("[{record},\n {{\"source\"]"), "2:11: not JSON: expected `:`"),
            (format!("{record}\n{{\"ok\":true}}\n"), "2:11: not a result of "),
            (format!("[{record}"), "1:65: not JSON: EOF while parsing a list"),
            (format!("[{record}] x"), "1:68: not JSON: trailing characters"),
            ("kind: Pod".to_owned(), "1:1: not JSON: expected value"),
            ("[1]".to_owned(), "1:2: not a result of "),
            (effect.to_owned(), "1:90: not a result of "),
        ] {
            let error = StoredResult::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
