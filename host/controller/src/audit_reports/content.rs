//! The content of a report: the results of one object, bounded, with a digest.
//!
//! ```text
//! results ─▶ sorted ─▶ shortened, at most MAX_RESULTS and MAX_RESULT_BYTES ─▶ ObjectReport ─▶ digest, body
//! ```
//!
//! Policies write the messages, which quote objects of tenants: each text is one line with a limit.

use aws_lc_rs::digest::{SHA256, digest};
use opgate_compat::names::{is_label, is_subdomain};
use opgate_text::one_line;
use serde_json::{Value, json};

use super::{DIGEST_ANNOTATION, ReportApi, ReportKey, ReportOwner};

/// Maximum number of results of a report, without the one that counts the others.
const MAX_RESULTS: usize = 100;

/// Maximum bytes of all results as JSON. With names, labels and the owner, a report stays below 64 KiB.
const MAX_RESULT_BYTES: usize = 60 << 10;

/// Bytes of the time of a result.
const TIMESTAMP_BYTES: usize = 64;

/// Maximum bytes of a message, of a field, and of a name.
const MAX_MESSAGE_BYTES: usize = 1_024;
const MAX_FIELD_BYTES: usize = 512;
const MAX_NAME_BYTES: usize = 253;

/// Source of the results.
const SOURCE: &str = "opgate";

/// The object of a report. Its texts may come from an API server of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedObject {
    /// `group/version`, or the version of the core group.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace, empty for objects of the cluster.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

impl ReportedObject {
    /// Returns the key of its report, unless an API server would not accept it.
    pub(super) fn report_key(&self, owner: &ReportOwner) -> Option<ReportKey> {
        let Self { api_version, kind, namespace, name, uid } = self;
        let is_short = |text: &str| !text.is_empty() && text.len() <= MAX_NAME_BYTES;
        let report = format!("{}{uid}", owner.name_prefix());
        let is_valid = [api_version, kind, name, uid].into_iter().all(|text| is_short(text))
            && (namespace.is_empty() || is_label(namespace))
            && report.len() <= MAX_NAME_BYTES
            && is_subdomain(&report);
        is_valid.then(|| ReportKey { namespace: namespace.clone(), name: report })
    }

    fn owner(&self) -> Value {
        json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "blockOwnerDeletion": false,
        })
    }

    fn reference(&self) -> Value {
        let mut reference = json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
        });
        if let Some(members) = reference.as_object_mut().filter(|_| !self.namespace.is_empty()) {
            members.insert("namespace".to_owned(), json!(self.namespace));
        }
        reference
    }
}

/// Status of a result, the most severe one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResultStatus {
    /// A policy returned no valid verdict.
    Error,
    /// The object would be denied.
    Fail,
    /// Any other violation.
    Warn,
}

impl ResultStatus {
    fn of_text(text: &str) -> Option<Self> {
        [Self::Error, Self::Fail, Self::Warn].into_iter().find(|status| status.as_str() == text)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Fail => "fail",
            Self::Warn => "warn",
        }
    }
}

/// One result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportResult {
    /// Status.
    pub status: ResultStatus,
    /// Name of the policy.
    pub policy: String,
    /// Rule, empty for a policy error.
    pub rule: String,
    /// Path in the object, or empty.
    pub field: String,
    /// `deny`, `warn` or `audit`, empty for a policy error.
    pub effect: String,
    /// Message.
    pub message: String,
}

impl ReportResult {
    /// Reads a result of a stored report.
    pub(super) fn of_value(value: &Value) -> Option<Self> {
        let text =
            |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let status = ResultStatus::of_text(text("/result"))?;
        Some(Self {
            status,
            policy: text("/policy").to_owned(),
            rule: text("/rule").to_owned(),
            field: text("/properties/field").to_owned(),
            effect: text("/properties/effect").to_owned(),
            message: text("/message").to_owned(),
        })
    }

    fn to_value(&self) -> Value {
        let mut result = json!({
            "source": SOURCE,
            "policy": one_line(&self.policy, MAX_NAME_BYTES),
            "result": self.status.as_str(),
            "message": one_line(&self.message, MAX_MESSAGE_BYTES),
        });
        let properties = [("effect", &self.effect), ("field", &self.field)];
        let properties: serde_json::Map<_, _> = properties
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| (name.to_owned(), json!(one_line(text, MAX_FIELD_BYTES))))
            .collect();
        if let Value::Object(members) = &mut result {
            if !self.rule.is_empty() {
                members.insert("rule".to_owned(), json!(one_line(&self.rule, MAX_NAME_BYTES)));
            }
            if !properties.is_empty() {
                members.insert("properties".to_owned(), Value::Object(properties));
            }
        }
        result
    }
}

/// The report about one object.
#[derive(Debug)]
pub(super) struct ObjectReport {
    pub(super) key: ReportKey,
    object: ReportedObject,
    owner: ReportOwner,
    results: Vec<Value>,
    summary: Value,
    /// Digest of scope, summary and results.
    pub(super) digest: String,
}

impl ObjectReport {
    /// Creates the report with this key.
    pub(super) fn new(
        key: ReportKey,
        object: ReportedObject,
        owner: ReportOwner,
        mut results: Vec<ReportResult>,
    ) -> Self {
        results.sort_unstable();
        results.dedup();
        let count = |status| results.iter().filter(|result| result.status == status).count();
        let summary = json!({
            "pass": 0,
            "fail": count(ResultStatus::Fail),
            "warn": count(ResultStatus::Warn),
            "error": count(ResultStatus::Error),
            "skip": 0,
        });
        let results = bounded_values(&results);
        let content = json!({"scope": object.reference(), "summary": summary, "results": results})
            .to_string();
        let hash = digest(&SHA256, content.as_bytes());
        let bytes: Vec<_> = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { key, object, owner, results, summary, digest: bytes.concat() }
    }

    /// Returns the object to apply, with the time of the results in seconds.
    pub(super) fn body(&self, api: ReportApi, seconds: u64) -> Value {
        let Self { key, object, owner, results, summary, digest } = self;
        let labels = owner.labels().into_iter().map(|(key, value)| (key.to_owned(), json!(value)));
        let labels: serde_json::Map<_, _> = labels.collect();
        let timed = results.iter().cloned().map(|mut result| {
            if let Value::Object(members) = &mut result {
                let time = json!({"seconds": seconds, "nanos": 0});
                members.insert("timestamp".to_owned(), time);
            }
            result
        });
        let mut metadata = json!({
            "name": key.name,
            "labels": labels,
            "annotations": {DIGEST_ANNOTATION: digest},
            "ownerReferences": [object.owner()],
        });
        if let Some(members) = metadata.as_object_mut().filter(|_| key.is_namespaced()) {
            members.insert("namespace".to_owned(), json!(key.namespace));
        }
        let mut body = json!({
            "apiVersion": api.group_version(),
            "kind": api.kind(key.is_namespaced()),
            "metadata": metadata,
            "scope": object.reference(),
            "summary": summary,
            "results": timed.collect::<Vec<_>>(),
        });
        if let Some(members) = body.as_object_mut().filter(|_| api == ReportApi::OpenReports) {
            members.insert("source".to_owned(), json!(SOURCE));
        }
        body
    }
}

/// Returns the first results, and the number of the others as the last one.
fn bounded_values(results: &[ReportResult]) -> Vec<Value> {
    let mut values = Vec::new();
    let mut bytes = 0;
    for result in results.iter().take(MAX_RESULTS) {
        let value = result.to_value();
        bytes += value.to_string().len() + TIMESTAMP_BYTES;
        if bytes > MAX_RESULT_BYTES {
            break;
        }
        values.push(value);
    }
    if let Some(first_omitted) = results.get(values.len()) {
        let count = results.len() - values.len();
        let rest = ReportResult {
            status: first_omitted.status,
            policy: SOURCE.to_owned(),
            rule: String::new(),
            field: String::new(),
            effect: String::new(),
            message: format!("{count} more results are omitted; `opgate audit` prints all"),
        };
        values.push(rest.to_value());
    }
    values
}
