//! The results of the last complete audit by a server, so that the next one evaluates only what can have changed.
//!
//! ```text
//! audit:      object ─▶ its result, the resources that its calls read ─▶ results of this audit ─ complete ─┐
//! next audit: the same object, and the same content of these resources? ─▶ the same result  ◀──────────────┘
//! ```
//!
//! A result depends on the object (its UID and `resourceVersion`), on the configuration with its policies, and on
//! what the policies read of the cluster: they have no clock, and nothing else that changes. Of a resource that a
//! call has read, all of its content counts, as far as any policy declares it. Failed calls are not remembered.
//!
//! The API server can return an object differently in the same `resourceVersion`: after an update of itself, of a
//! CRD or of a conversion webhook. So a result also depends on the schemas of the object's API version, and all results
//! have a maximum age.
//!
//! Objects are kept as hashes, with keys that tenants do not know: two objects are never taken for each other.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use opgate_admission::cluster::{ClusterState, ResourceCache};
use opgate_document::Document;

/// Maximum time for which results are kept. The next audit evaluates all objects.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Maximum bytes of the results of one audit, about those of a million objects without violations. Objects beyond
/// that are evaluated in each audit.
const MAX_BYTES: usize = 32 << 20;

/// Bytes of an object: hash, number of its outcome, and the share of a map that is partly empty.
const OBJECT_BYTES: usize = 32;

/// Bytes of an outcome with its report's digest and its place in a map that is partly empty, of a violation in it,
/// and of the name of a resource.
const OUTCOME_BYTES: usize = 512;
const VIOLATION_BYTES: usize = 16;
const RESOURCE_BYTES: usize = 96;

/// The result of an object, as far as a server needs it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::cli) struct RememberedResult {
    pub(in crate::cli) violations: Vec<Arc<RememberedViolation>>,
    /// Digest of the report.
    pub(in crate::cli) report: Option<String>,
}

/// A violation without its message.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::cli) struct RememberedViolation {
    pub(in crate::cli) policy: String,
    pub(in crate::cli) rule: String,
    pub(in crate::cli) effect: &'static str,
}

/// Why an object was not evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::cli) enum SkippedObject {
    /// It is being deleted or replaced.
    Terminating,
    /// No webhook matches it.
    Exempt,
    /// It makes no review: it nests too deep, for example.
    Unreadable,
}

/// What is remembered of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::cli) enum RememberedOutcome {
    Evaluated(RememberedResult),
    /// It was not evaluated, and would not be in this version.
    Skipped(SkippedObject),
    /// It makes no review, for this reason.
    Unreadable(String),
}

/// A result, and the resources that it depends on.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::cli) struct Outcome {
    reads: BTreeSet<String>,
    result: RememberedOutcome,
}

impl Outcome {
    pub(in crate::cli) fn result(&self) -> &RememberedOutcome {
        &self.result
    }
}

/// The results of one audit.
#[derive(Debug, Default)]
struct AuditedObjects {
    /// Digest of the configuration.
    configuration: String,
    /// The content of the resources that policies read, by the names of caches.
    contents: BTreeMap<String, u64>,
    objects: HashMap<u64, u32>,
    outcomes: Vec<Arc<Outcome>>,
    numbers: HashMap<Arc<Outcome>, u32>,
    violations: HashSet<Arc<RememberedViolation>>,
    bytes: usize,
}

impl AuditedObjects {
    fn add(&mut self, object: u64, outcome: Arc<Outcome>) {
        let Some(number) = self.number_of(outcome) else { return };
        if self.charge(OBJECT_BYTES) {
            self.objects.insert(object, number);
        }
    }

    /// Returns the number of an outcome, which is added if it is new and there is room.
    fn number_of(&mut self, outcome: Arc<Outcome>) -> Option<u32> {
        if let Some(number) = self.numbers.get(&outcome) {
            return Some(*number);
        }
        let number = u32::try_from(self.outcomes.len()).ok()?;
        let content = match &outcome.result {
            RememberedOutcome::Evaluated(result) => {
                result.violations.len().saturating_mul(VIOLATION_BYTES)
            }
            RememberedOutcome::Skipped(_) => 0,
            RememberedOutcome::Unreadable(reason) => reason.len(),
        };
        let resources = outcome.reads.len().saturating_mul(RESOURCE_BYTES);
        let bytes = OUTCOME_BYTES.saturating_add(content).saturating_add(resources);
        if !self.charge(bytes) {
            return None;
        }
        self.outcomes.push(outcome.clone());
        self.numbers.insert(outcome, number);
        Some(number)
    }

    fn charge(&mut self, bytes: usize) -> bool {
        let total = self.bytes.saturating_add(bytes);
        let has_room = total <= MAX_BYTES;
        if has_room {
            self.bytes = total;
        }
        has_room
    }

    /// Returns one violation for all that are equal.
    fn intern(&mut self, violation: Arc<RememberedViolation>) -> Arc<RememberedViolation> {
        if let Some(known) = self.violations.get(&violation) {
            return known.clone();
        }
        self.violations.insert(violation.clone());
        violation
    }
}

/// The results of the last complete audit, and of the current one.
#[derive(Debug, Default)]
pub(in crate::cli) struct EvaluationMemory {
    hashes: RandomState,
    last: AuditedObjects,
    current: AuditedObjects,
    /// The time of the last audit that evaluated all objects.
    fresh_since: Option<Instant>,
    /// Hashes of the schemas now, by group and version.
    schemas: HashMap<String, u64>,
    /// For each outcome of the last audit, whether nothing has changed of what it depends on.
    is_valid: Vec<bool>,
}

impl EvaluationMemory {
    /// Begins an audit with a configuration, by its digest, once the objects that policies read are listed.
    pub(in crate::cli) fn begin(
        &mut self,
        configuration: &str,
        cluster: &ClusterState,
        now: Instant,
    ) {
        self.forget_old(now);
        let content = |cache: &ResourceCache| {
            Some((cache.name().to_owned(), cache.content_fingerprint(&self.hashes)?))
        };
        let contents: BTreeMap<_, _> =
            cluster.caches().iter().filter_map(|cache| content(cache.as_ref())).collect();
        let is_same = self.last.configuration == configuration;
        let resources: BTreeMap<String, Vec<&str>> = caches_by_resource(cluster);
        let is_unchanged = |resource: &String| {
            // A call can ask for what no policy declares: the answer is always the same.
            let caches = resources.get(resource).into_iter().flatten();
            caches.into_iter().all(|cache| {
                let (last, now) = (self.last.contents.get(*cache), contents.get(*cache));
                last.is_some() && last == now
            })
        };
        let valid = self.last.outcomes.iter();
        let valid = valid.map(|outcome| is_same && outcome.reads.iter().all(is_unchanged));
        self.is_valid = valid.collect();
        self.current = AuditedObjects {
            configuration: configuration.to_owned(),
            contents,
            ..Default::default()
        };
    }

    /// Sets what identifies the schemas of each group and version. They must be read before the objects are listed: if
    /// they change later, the next audit evaluates the objects again.
    pub(in crate::cli) fn set_schemas(&mut self, schemas: &BTreeMap<String, String>) {
        let hash =
            |(version, schema): (&String, &String)| (version.clone(), self.hashes.hash_one(schema));
        self.schemas = schemas.iter().map(hash).collect();
    }

    fn forget_old(&mut self, now: Instant) {
        let age = self.fresh_since.map(|since| now.saturating_duration_since(since));
        if age.is_none_or(|age| age >= MAX_AGE) {
            self.last = AuditedObjects::default();
            self.fresh_since = Some(now);
        }
    }

    /// Reports whether there are results of an earlier audit that an evaluation would repeat.
    pub(in crate::cli) fn has_valid_results(&self) -> bool {
        self.is_valid.iter().any(|is_valid| *is_valid)
    }

    /// Returns the hash that stands for an object of a resource in its version, and for the schemas with which the API
    /// server returns it; none if an API server did not store it.
    pub(in crate::cli) fn object_key(&self, resource: &str, object: &Document) -> Option<u64> {
        let text = |pointer: &str| {
            object.get(pointer).and_then(|value| value.text()).filter(|text| !text.is_empty())
        };
        let uid = text("/metadata/uid")?;
        let version = text("/metadata/resourceVersion")?;
        let place = (text("/metadata/namespace"), text("/metadata/name"));
        let schema = resource.rsplit_once('/').and_then(|(version, _)| self.schemas.get(version));
        Some(self.hashes.hash_one((resource, schema, uid, version, place)))
    }

    /// Returns the result of an object in the last audit, if an evaluation would have the same one.
    pub(in crate::cli) fn recall(&self, object: u64) -> Option<Arc<Outcome>> {
        let number = usize::try_from(*self.last.objects.get(&object)?).ok()?;
        let outcome = self.last.outcomes.get(number)?;
        self.is_valid.get(number).copied().unwrap_or_default().then(|| outcome.clone())
    }

    /// Keeps the result of an object that was recalled.
    pub(in crate::cli) fn keep(&mut self, object: u64, outcome: Arc<Outcome>) {
        self.current.add(object, outcome);
    }

    /// Adds the result of an object that was evaluated, and the resources that the calls have read.
    pub(in crate::cli) fn remember(
        &mut self,
        object: u64,
        reads: BTreeSet<String>,
        result: RememberedResult,
    ) {
        let RememberedResult { violations, report } = result;
        let violations = violations.into_iter().map(|one| self.current.intern(one)).collect();
        let result = RememberedOutcome::Evaluated(RememberedResult { violations, report });
        self.current.add(object, Arc::new(Outcome { reads, result }));
    }

    /// Remembers that an object is not evaluated: that depends on the object only.
    pub(in crate::cli) fn remember_unevaluated(&mut self, object: u64, result: RememberedOutcome) {
        self.current.add(object, Arc::new(Outcome { reads: BTreeSet::new(), result }));
    }

    /// Makes the results of the current audit those of the last one: it was complete.
    pub(in crate::cli) fn complete(&mut self) {
        self.last = std::mem::take(&mut self.current);
        self.is_valid.clear();
    }

    /// Forgets the current audit, which was not complete.
    pub(in crate::cli) fn abandon(&mut self) {
        self.current = AuditedObjects::default();
        self.is_valid.clear();
    }
}

/// The names of the caches of each resource.
fn caches_by_resource(cluster: &ClusterState) -> BTreeMap<String, Vec<&str>> {
    let mut caches: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for cache in cluster.caches() {
        caches.entry(cache.resource().to_string()).or_default().push(cache.name());
    }
    caches
}

#[cfg(test)]
mod tests {
    use super::*;
    use opgate_admission::cluster::{ClusterOptions, ResolvedRead, Snapshot, Source};
    use opgate_cluster::{Declaration, Resource, Selector};

    fn document(text: &str) -> Document {
        Document::parse(text).unwrap()
    }

    /// Namespaces and groups, of which policies read `spec`.
    fn cluster(objects: &[&str]) -> ClusterState {
        let read = |group: &str, resource: &str| ResolvedRead {
            resource: Resource {
                group: group.to_owned(),
                version: "v1".to_owned(),
                resource: resource.to_owned(),
            },
            declaration: Declaration::new(&["/spec".to_owned()], &[], &[]).unwrap(),
            labels: Selector::default(),
            namespace: None,
            optional: false,
        };
        let reads = [read("", "namespaces"), read("operators.coreos.com", "operatorgroups")];
        let cluster = ClusterState::new(&reads, ClusterOptions::of(Source::Snapshot));
        let mut snapshot = Snapshot::default();
        for object in objects {
            snapshot.add(document(object)).unwrap();
        }
        snapshot.replace_state(&cluster);
        cluster
    }

    const NAMESPACE: &str = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n","resourceVersion":"1"},"spec":{}}"#;
    const GROUP: &str = r#"{"apiVersion":"operators.coreos.com/v1","kind":"OperatorGroup","metadata":{"name":"g","namespace":"n","resourceVersion":"2"},"spec":{"a":1},"status":{"b":1}}"#;
    const OBJECT: &str = r#"{"metadata":{"name":"o","uid":"u","resourceVersion":"3"}}"#;

    fn violating() -> RememberedResult {
        let policy = "p".to_owned();
        let violation = RememberedViolation { policy, rule: "R-1".to_owned(), effect: "deny" };
        RememberedResult { violations: vec![Arc::new(violation)], report: Some("d".to_owned()) }
    }

    /// A memory of one object whose call has read groups.
    fn memory(began: Instant) -> EvaluationMemory {
        let mut memory = EvaluationMemory::default();
        memory.begin("c", &cluster(&[NAMESPACE, GROUP]), began);
        let key = memory.object_key("v1/objects", &document(OBJECT)).unwrap();
        let reads = BTreeSet::from(["operators.coreos.com/v1/operatorgroups".to_owned()]);
        memory.remember(key, reads, violating());
        memory.complete();
        memory
    }

    fn recall(memory: &EvaluationMemory, object: &str) -> Option<RememberedResult> {
        let key = memory.object_key("v1/objects", &document(object))?;
        match memory.recall(key)?.result() {
            RememberedOutcome::Evaluated(result) => Some(result.clone()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn result_is_kept_until_something_changes_that_it_depends_on() {
        let newer_group = GROUP.replace("\"2\"", "\"9\"").replace("\"b\":1", "\"b\":2");
        let changed_group = GROUP.replace("\"a\":1", "\"a\":2");
        let other_group = GROUP.replace("\"name\":\"g\"", "\"name\":\"h\"");
        let changed_namespace = NAMESPACE.replace("\"spec\":{}", "\"spec\":{\"a\":1}");
        let newer_object = OBJECT.replace("\"3\"", "\"4\"");
        let replaced_object = OBJECT.replace("\"u\"", "\"v\"");
        for (what, configuration, objects, object, is_kept) in [
            ("nothing", "c", vec![NAMESPACE, GROUP], OBJECT, true),
            ("version and status of a group", "c", vec![NAMESPACE, &newer_group], OBJECT, true),
            ("an object of another kind", "c", vec![&changed_namespace, GROUP], OBJECT, true),
            ("the configuration", "d", vec![NAMESPACE, GROUP], OBJECT, false),
            ("a group", "c", vec![NAMESPACE, &changed_group], OBJECT, false),
            ("a new group", "c", vec![NAMESPACE, GROUP, &other_group], OBJECT, false),
            ("no group", "c", vec![NAMESPACE], OBJECT, false),
            ("the object", "c", vec![NAMESPACE, GROUP], newer_object.as_str(), false),
            ("its UID", "c", vec![NAMESPACE, GROUP], replaced_object.as_str(), false),
        ] {
            let mut memory = memory(Instant::now());
            memory.begin(configuration, &cluster(&objects), Instant::now());
            let kept = recall(&memory, object);
            assert_eq!(kept, is_kept.then(violating), "{what}");
            let is_same = configuration == "c" && !objects.contains(&changed_group.as_str());
            assert_eq!(memory.has_valid_results(), is_same && objects.len() == 2, "{what}");
        }
    }

    #[test]
    fn result_is_kept_until_the_schemas_of_its_version_change() {
        let schemas = |hashes: &[(&str, &str)]| -> BTreeMap<String, String> {
            hashes
                .iter()
                .map(|(version, hash)| ((*version).to_owned(), (*hash).to_owned()))
                .collect()
        };
        let before = schemas(&[("v1", "a"), ("apps/v1", "b")]);
        for (what, now, is_kept) in [
            ("nothing", before.clone(), true),
            ("another group", schemas(&[("v1", "a"), ("apps/v1", "c")]), true),
            ("a new group", schemas(&[("v1", "a"), ("apps/v1", "b"), ("x/v1", "a")]), true),
            ("the group", schemas(&[("v1", "d"), ("apps/v1", "b")]), false),
            ("all are unknown", schemas(&[]), false),
        ] {
            let (mut memory, cluster) = (EvaluationMemory::default(), cluster(&[NAMESPACE, GROUP]));
            memory.set_schemas(&before);
            memory.begin("c", &cluster, Instant::now());
            let key = memory.object_key("v1/objects", &document(OBJECT)).unwrap();
            memory.remember(key, BTreeSet::new(), violating());
            memory.complete();
            memory.set_schemas(&now);
            memory.begin("c", &cluster, Instant::now());
            assert_eq!(recall(&memory, OBJECT), is_kept.then(violating), "{what}");
        }
    }

    #[test]
    fn results_are_kept_for_a_day() {
        let (began, cluster) = (Instant::now(), cluster(&[NAMESPACE, GROUP]));
        for (hours, is_kept) in [(1, true), (23, true), (24, false), (48, false)] {
            let mut memory = memory(began);
            // Audits between do not make a result younger.
            for hour in 1..hours {
                memory.begin("c", &cluster, began + Duration::from_secs(hour * 3_600));
                let key = memory.object_key("v1/objects", &document(OBJECT)).unwrap();
                if let Some(outcome) = memory.recall(key) {
                    memory.keep(key, outcome);
                }
                memory.complete();
            }
            memory.begin("c", &cluster, began + Duration::from_secs(hours * 3_600));
            assert_eq!(recall(&memory, OBJECT), is_kept.then(violating), "{hours} hours");
        }
    }

    #[test]
    fn only_complete_audits_replace_results() {
        let now = Instant::now();
        let mut memory = memory(now);
        let cluster = cluster(&[NAMESPACE, GROUP]);
        memory.begin("c", &cluster, now);
        memory.abandon();
        memory.begin("c", &cluster, now);
        assert_eq!(recall(&memory, OBJECT), Some(violating()));
        // The object was not listed.
        memory.complete();
        memory.begin("c", &cluster, now);
        assert_eq!(recall(&memory, OBJECT), None);
        assert!(!memory.has_valid_results());
    }

    #[test]
    fn objects_that_no_api_server_stores_are_not_remembered() {
        let memory = EvaluationMemory::default();
        for object in [r#"{"metadata":{"name":"o","uid":"u"}}"#, r#"{"metadata":{"name":"o"}}"#] {
            assert_eq!(memory.object_key("v1/objects", &document(object)), None, "{object}");
        }
    }

    #[test]
    fn results_have_a_limit() {
        let outcome = |number: u64| {
            let reads = BTreeSet::from(["operators.coreos.com/v1/operatorgroups".to_owned()]);
            let report = Some(format!("{number:064}"));
            let result = RememberedOutcome::Evaluated(RememberedResult { report, ..violating() });
            Arc::new(Outcome { reads, result })
        };
        for (what, are_equal, added, expected) in [
            ("equal", true, 2_000_000, 500_000..1_100_000),
            ("different", false, 200_000, 40_000..60_000),
        ] {
            let (mut objects, first) = (AuditedObjects::default(), outcome(0));
            for object in 0..added {
                let outcome = if are_equal { first.clone() } else { outcome(object) };
                objects.add(object, outcome);
            }
            let count = objects.objects.len();
            assert!(expected.contains(&count), "{what}: {count}");
            assert!(objects.bytes <= MAX_BYTES);
        }
    }
}
