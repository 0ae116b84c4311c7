//! The reads of one call with their results, so that the call can be repeated without the cluster.
//!
//! ```text
//! record: query, result ─▶ CallReads ─▶ ReadRecord ─▶ a recording
//! repeat: a recording ─▶ ReadRecord ─▶ ReadAnswers: the same query gets the same result
//! ```
//!
//! A record has what the policy received: of each object, the fields that it declares.

use std::collections::HashMap;
use std::sync::Arc;

use opgate_cluster::{Key, Object};
use opgate_document::{Charge, Text};
use opgate_engine::reader::{
    DeclaredRead, PolicyQuery, QueryResult, ReadError, ReadResult, Sample,
};
use opgate_engine::wit::GroupVersionResource;
use opgate_text::without_space;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Maximum number of recorded reads of a call, and bytes of the objects in their results. They are shared with
/// the cluster state until they are written.
const MAX_READS: usize = 1_024;
const MAX_READ_BYTES: usize = 4 << 20;

/// Maximum bytes of a query in a record. Of a longer one, the record has a digest.
const MAX_QUERY_BYTES: usize = 512;

/// One read of a policy, as a recording stores it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReadRecord {
    /// The query, or its digest.
    query: String,
    /// Its result.
    result: RecordedResult,
}

/// The result of a read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RecordedResult {
    /// Objects, or their names only.
    Objects(Vec<RecordedObject>),
    /// Some objects of a kind, whole.
    Sample { objects: Vec<Box<RawValue>>, complete: bool },
    /// No result.
    Error { reason: ErrorReason, message: String },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct RecordedObject {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    /// What the policy received of it; none for a query of names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fields: Option<Box<RawValue>>,
}

/// The variants of [`ReadError`].
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum ErrorReason {
    NoCluster,
    NotDeclared,
    Invalid,
    NotGranted,
    Unavailable,
}

/// The reads of one call, with their results.
#[derive(Debug, Default)]
pub struct CallReads {
    reads: Vec<(String, CallResult)>,
    bytes: usize,
    is_cut: bool,
}

/// An object in the result of a read.
#[derive(Debug, Clone)]
pub struct ReadObject {
    /// What the policy reads of the resource.
    pub read: Arc<DeclaredRead>,
    /// Its namespace and name.
    pub key: Key,
    /// The fields that the policy received, JSON.
    pub fields: String,
}

#[derive(Debug)]
enum CallResult {
    Objects(QueryResult),
    Names(QueryResult),
    Sample(Sample),
    Error(ErrorReason, String),
}

impl CallReads {
    /// Adds the objects or names in a result, or the reason why there is none. A call that had to end at the query
    /// has no result of it.
    pub(super) fn add(&mut self, query: String, result: &ReadResult, with_fields: bool) {
        let result = match result {
            Err(_) => return,
            Ok(Err(error)) => error_result(error),
            Ok(Ok(found)) => {
                let size = |object: &Arc<Object>| object.size();
                let bytes = found.objects().iter().map(size).fold(0, usize::saturating_add);
                if !self.has_room(bytes) {
                    return;
                }
                let found = found.clone();
                if with_fields { CallResult::Objects(found) } else { CallResult::Names(found) }
            }
        };
        self.push(query, result);
    }

    /// Adds a sample.
    pub(super) fn add_sample(&mut self, query: String, result: &Result<Sample, ReadError>) {
        let result = match result {
            Err(error) => error_result(error),
            Ok(sample) => {
                let bytes = sample.objects.iter().map(|text| text.len());
                if !self.has_room(bytes.fold(0, usize::saturating_add)) {
                    return;
                }
                CallResult::Sample(sample.clone())
            }
        };
        self.push(query, result);
    }

    /// Whether a result of this size is kept. Only such results count: a review whose reads are cut is still recorded.
    fn has_room(&mut self, bytes: usize) -> bool {
        let total = self.bytes.saturating_add(bytes);
        self.is_cut |= total > MAX_READ_BYTES;
        if !self.is_cut {
            self.bytes = total;
        }
        !self.is_cut
    }

    fn push(&mut self, query: String, result: CallResult) {
        self.is_cut |= self.reads.len() >= MAX_READS;
        if !self.is_cut {
            self.reads.push((query, result));
        }
    }

    /// Whether reads are missing, because they exceed the limits.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether the call has read nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// Whether there are samples among the results.
    #[must_use]
    pub fn has_samples(&self) -> bool {
        self.reads.iter().any(|(_, result)| matches!(result, CallResult::Sample(_)))
    }

    /// The reasons why reads have no result.
    pub fn errors(&self) -> impl Iterator<Item = &str> {
        self.reads.iter().filter_map(|(_, result)| match result {
            CallResult::Error(_, message) => Some(message.as_str()),
            _ => None,
        })
    }

    /// The objects in the results, also of queries for names, in the order of the reads.
    pub fn objects(&self) -> impl Iterator<Item = ReadObject> {
        let results = self.reads.iter().filter_map(|(_, result)| match result {
            CallResult::Objects(found) | CallResult::Names(found) => {
                Some((found, found.declared_read()?))
            }
            CallResult::Sample(_) | CallResult::Error(..) => None,
        });
        results.flat_map(|(found, read)| {
            found.objects().iter().map(|object| ReadObject {
                read: read.clone(),
                key: object.key().clone(),
                fields: found.visible_text(object),
            })
        })
    }

    /// The bytes that the results keep in memory.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.saturating_add(self.reads.len().saturating_mul(MAX_QUERY_BYTES))
    }

    /// The records. With `redact`, which replaces objects, they have digests of the queries: these can have the same
    /// values. `None` if an object is no JSON, which no API server has sent.
    #[must_use]
    pub fn to_records(
        &self,
        redact: Option<&mut dyn FnMut(String) -> String>,
    ) -> Option<Vec<ReadRecord>> {
        let is_redacted = redact.is_some();
        let mut unchanged = |text: String| text;
        let redact = redact.unwrap_or(&mut unchanged);
        let mut raw = |json: &str| raw(&redact(json.to_owned()));
        let mut record = |(query, result): &(String, CallResult)| {
            let result = match result {
                CallResult::Error(reason, message) => {
                    RecordedResult::Error { reason: *reason, message: message.clone() }
                }
                CallResult::Sample(sample) => RecordedResult::Sample {
                    objects: sample.objects.iter().map(|text| raw(text)).collect::<Option<_>>()?,
                    complete: sample.complete,
                },
                CallResult::Objects(found) => {
                    let object = |object: &Arc<Object>| {
                        let fields = found.visible_text(object);
                        Some(RecordedObject { fields: Some(raw(&fields)?), ..named(object) })
                    };
                    RecordedResult::Objects(
                        found.objects().iter().map(object).collect::<Option<_>>()?,
                    )
                }
                CallResult::Names(found) => RecordedResult::Objects(
                    found.objects().iter().map(|object| named(object)).collect(),
                ),
            };
            let query = if is_redacted { digest(query) } else { query.clone() };
            Some(ReadRecord { query, result })
        };
        self.reads.iter().map(&mut record).collect()
    }
}

fn named(object: &Object) -> RecordedObject {
    let Key { namespace, name, .. } = object.key();
    RecordedObject { namespace: namespace.to_string(), name: name.to_string(), fields: None }
}

/// A JSON text on one line.
fn raw(json: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(opgate_text::without_line_breaks(json).into_owned()).ok()
}

fn error_result(error: &ReadError) -> CallResult {
    let (reason, message) = match error {
        ReadError::NoCluster(message) => (ErrorReason::NoCluster, message),
        ReadError::NotDeclared(message) => (ErrorReason::NotDeclared, message),
        ReadError::Invalid(message) => (ErrorReason::Invalid, message),
        ReadError::NotGranted(message) => (ErrorReason::NotGranted, message),
        ReadError::Unavailable(message) => (ErrorReason::Unavailable, message),
    };
    CallResult::Error(reason, message.clone())
}

/// The recorded results of the reads of one call.
#[derive(Debug, Default)]
pub struct ReadAnswers {
    /// By query, in the order of the reads.
    results: HashMap<String, Vec<RecordedResult>>,
}

impl ReadAnswers {
    /// The answers of these records.
    #[must_use]
    pub fn of(records: Vec<ReadRecord>) -> Self {
        let mut results: HashMap<String, Vec<RecordedResult>> = HashMap::new();
        for ReadRecord { query, result } in records {
            results.entry(query).or_default().push(result);
        }
        Self { results }
    }
}

/// The answers for one call, and what it has asked.
#[derive(Debug)]
pub(super) struct RepeatedReads {
    answers: Arc<ReadAnswers>,
    /// How often each query was asked.
    asked: HashMap<String, usize>,
    /// Queries without a recorded result.
    missing: Vec<String>,
}

impl RepeatedReads {
    pub(super) fn of(answers: Arc<ReadAnswers>) -> Self {
        Self { answers, asked: HashMap::new(), missing: Vec::new() }
    }

    /// Queries that the recorded call did not ask.
    pub(super) fn take_missing(&mut self) -> Vec<String> {
        std::mem::take(&mut self.missing)
    }

    fn add_missing(&mut self, query: String) {
        if self.missing.len() < MAX_READS {
            self.missing.push(query);
        }
    }

    /// The next result of a query; the last one again if there is no further one.
    fn next(&mut self, query: String) -> Option<RecordedResult> {
        let results = &self.answers.results;
        let known = results.get(&query).or_else(|| results.get(&digest(&query)));
        let Some(results) = known.filter(|results| !results.is_empty()) else {
            self.add_missing(query);
            return None;
        };
        let count = self.asked.entry(query).or_default();
        let index = (*count).min(results.len().saturating_sub(1));
        *count = count.saturating_add(1);
        results.get(index).cloned()
    }

    /// The recorded objects that match a query.
    pub(super) fn objects(
        &mut self,
        query: String,
        scope: Option<&Arc<DeclaredRead>>,
    ) -> Result<QueryResult, ReadError> {
        let Some(scope) = scope else {
            self.add_missing(query);
            return Err(not_recorded());
        };
        let objects = match self.next(query) {
            Some(RecordedResult::Objects(objects)) => objects,
            Some(RecordedResult::Error { reason, message }) => {
                return Err(read_error(reason, message));
            }
            Some(RecordedResult::Sample { .. }) | None => return Err(not_recorded()),
        };
        let objects = objects.into_iter().map(restored).collect::<Option<_>>();
        let objects = objects.ok_or_else(not_recorded)?;
        Ok(QueryResult::new(objects, scope.clone(), false))
    }

    /// The recorded sample.
    pub(super) fn sample(&mut self, query: String) -> Result<Sample, ReadError> {
        match self.next(query) {
            Some(RecordedResult::Sample { objects, complete }) => {
                let text = |json: Box<RawValue>| text_of(&json).map(Arc::new);
                let objects: Option<_> = objects.into_iter().map(text).collect();
                objects.map(|objects| Sample { objects, complete }).ok_or_else(not_recorded)
            }
            Some(RecordedResult::Error { reason, message }) => Err(read_error(reason, message)),
            Some(RecordedResult::Objects(_)) | None => Err(not_recorded()),
        }
    }
}

fn not_recorded() -> ReadError {
    ReadError::NoCluster("the recording has no result of this read".to_owned())
}

fn read_error(reason: ErrorReason, message: String) -> ReadError {
    match reason {
        ErrorReason::NoCluster => ReadError::NoCluster(message),
        ErrorReason::NotDeclared => ReadError::NotDeclared(message),
        ErrorReason::Invalid => ReadError::Invalid(message),
        ErrorReason::NotGranted => ReadError::NotGranted(message),
        ErrorReason::Unavailable => ReadError::Unavailable(message),
    }
}

/// The object of a record. `None` if its fields nest too deep.
fn restored(recorded: RecordedObject) -> Option<Arc<Object>> {
    let RecordedObject { namespace, name, fields } = recorded;
    let fields = match fields {
        Some(fields) => text_of(&fields)?,
        None => Text::new("{}".to_owned()).ok()?,
    };
    Some(Arc::new(Object::of_text(Key::new(&namespace, &name), fields)))
}

/// A text whose nesting is checked, as the host checks each text that a policy reads.
fn text_of(json: &RawValue) -> Option<Text> {
    Text::with_syntax_check(json.get().to_owned(), Charge::default()).ok()
}

/// The query for one object.
pub(super) fn get_query(resource: &GroupVersionResource, namespace: &str, name: &str) -> String {
    bounded(format!("get {} {namespace}/{name}", path(resource)))
}

/// The query for objects (`list`) or names (`names`).
pub(super) fn list_query(
    verb: &str,
    resource: &GroupVersionResource,
    query: &PolicyQuery,
) -> String {
    let PolicyQuery { namespace, labels, matches, after, limit } = query;
    // A policy can copy a selector from the review, whose line breaks a recording does not have.
    let labels = labels.as_deref().map(without_space);
    let parameters = serde_json::json!([namespace, labels, matches, after, limit]);
    bounded(format!("{verb} {} {parameters}", path(resource)))
}

/// The query for a sample.
pub(super) fn sample_query(resource: &GroupVersionResource, limit: usize) -> String {
    bounded(format!("sample {} {limit}", path(resource)))
}

fn path(GroupVersionResource { group, version, resource }: &GroupVersionResource) -> String {
    format!("{group}/{version}/{resource}")
}

fn bounded(query: String) -> String {
    if query.len() <= MAX_QUERY_BYTES { query } else { digest(&query) }
}

fn digest(query: &str) -> String {
    opgate_engine::digest(query.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use opgate_cluster::Declaration;

    fn resource() -> GroupVersionResource {
        let text = str::to_owned;
        GroupVersionResource { group: text("g"), version: text("v1"), resource: text("widgets") }
    }

    fn found(objects: &[(&str, &str)]) -> QueryResult {
        let declaration = Declaration::new(&["/spec".to_owned()], &[], &[]).unwrap();
        let resource = opgate_cluster::Resource {
            group: "g".to_owned(),
            version: "v1".to_owned(),
            resource: "widgets".to_owned(),
        };
        let objects = objects.iter().map(|(name, text)| {
            let text = Text::new((*text).to_owned()).unwrap();
            Arc::new(Object::of_text(Key::new("ns", name), text))
        });
        let scope = Arc::new(DeclaredRead { resource, declaration });
        QueryResult::new(objects.collect(), scope, true)
    }

    fn answers(reads: &CallReads) -> RepeatedReads {
        let records = reads.to_records(None).unwrap();
        // As in a file.
        let records = records.iter().map(|record| {
            let line = serde_json::to_string(record).unwrap();
            assert!(!line.contains('\n'), "{line}");
            serde_json::from_str(&line).unwrap()
        });
        RepeatedReads::of(Arc::new(ReadAnswers::of(records.collect())))
    }

    #[test]
    fn equal_queries_get_their_results_in_order() {
        let mut reads = CallReads::default();
        let query = |name: &str| get_query(&resource(), "ns", name);
        let before = "{\"spec\":\n{\"n\": 1.00},\"status\":{\"hidden\":true}}";
        reads.add(query("a"), &Ok(Ok(found(&[("a", before)]))), true);
        reads.add(query("a"), &Ok(Ok(found(&[]))), true);
        reads.add(query("b"), &Ok(Err(ReadError::Unavailable("why".to_owned()))), true);
        let mut answers = answers(&reads);
        let none = found(&[]);
        let scope = none.declared_read().unwrap();
        let first = answers.objects(query("a"), Some(scope)).unwrap();
        let texts: Vec<_> = first.objects().iter().map(|o| first.visible_text(o)).collect();
        assert_eq!(texts, ["{\"spec\":{\"n\": 1.00}}"], "declared fields, as they were written");
        for _ in 0..2 {
            assert!(answers.objects(query("a"), Some(scope)).unwrap().objects().is_empty());
        }
        let error = answers.objects(query("b"), Some(scope)).unwrap_err();
        assert!(matches!(error, ReadError::Unavailable(why) if why == "why"));
        assert!(answers.take_missing().is_empty());
        let error = answers.objects(query("c"), Some(scope)).unwrap_err();
        assert!(matches!(error, ReadError::NoCluster(_)), "rules are skipped");
        assert_eq!(answers.take_missing(), ["get g/v1/widgets ns/c"]);
    }

    #[test]
    fn redacted_records_have_no_values_of_queries() {
        let mut reads = CallReads::default();
        let query = || get_query(&resource(), "ns", "confidential");
        reads.add(query(), &Ok(Ok(found(&[("a", r#"{"spec":"confidential"}"#)]))), true);
        let mut redact = |_: String| r#""redacted""#.to_owned();
        let records = reads.to_records(Some(&mut redact)).unwrap();
        let text = serde_json::to_string(&records).unwrap();
        assert!(!text.contains("confidential"), "{text}");
        let mut answers = RepeatedReads::of(Arc::new(ReadAnswers::of(records)));
        let none = found(&[]);
        let objects = answers.objects(query(), none.declared_read()).unwrap();
        assert_eq!(objects.visible_text(&objects.objects()[0]), r#""redacted""#);
    }

    #[test]
    fn space_in_a_selector_makes_no_other_query() {
        let query = |labels: &str| {
            let labels = Some(labels.to_owned());
            list_query("list", &resource(), &PolicyQuery { labels, ..PolicyQuery::default() })
        };
        let compact = query(r#"{"matchLabels":{"a":"b c"}}"#);
        assert_eq!(query("{\n  \"matchLabels\": {\r\n \"a\": \"b c\"}}"), compact);
        assert_ne!(query(r#"{"matchLabels":{"a":"bc"}}"#), compact);
    }

    #[test]
    fn reads_beyond_the_limits_are_not_recorded() {
        let large = format!("{{\"spec\":\"{}\"}}", "x".repeat(1 << 20));
        let mut reads = CallReads::default();
        for number in 0..8 {
            reads.add(format!("query {number}"), &Ok(Ok(found(&[("a", &large)]))), true);
        }
        assert!(reads.is_cut() && reads.reads.len() < 4 && reads.size() < MAX_READ_BYTES + 4_096);
        let mut reads = CallReads::default();
        for number in 0..2_000 {
            reads.add(format!("query {number}"), &Ok(Ok(found(&[]))), true);
        }
        assert!(reads.is_cut());
        assert_eq!(reads.reads.len(), MAX_READS);
        let query = list_query(
            "list",
            &resource(),
            &PolicyQuery {
                matches: vec![("index".to_owned(), vec!["v".repeat(1 << 16)], false)],
                ..PolicyQuery::default()
            },
        );
        assert!(query.starts_with("sha256:") && query.len() < 100, "{query}");
    }
}
