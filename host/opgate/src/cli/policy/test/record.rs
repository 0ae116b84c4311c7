//! `--record`: the objects of a real cluster that a case reads, for its file.
//!
//! ```text
//! kubeconfig ─▶ lists of what the policy reads ─▶ decision on the case ─▶ names of the objects that it has read
//!                                                                             │
//! cluster of the case ◀─ same decision ◀─ fields that the policy declares ◀─ objects
//! ```
//!
//! A policy cannot read values of Secrets, so a case has none.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

use opgate_casefile::Case;
use serde_json::{Map, Value, json};

use super::run::{CaseDecision, CaseRunError, Runner, dry_run_text};
use crate::cli::exit::CommandError;
use crate::cli::kubeconfig::kubeconfig_paths;
use opgate_admission::cluster::{Connection, PageBackoff, ReadObject};
use opgate_admission::evaluation::Observer;
use opgate_admission::policy::{Decision, Policy, PolicySet};
use opgate_admission::review::Review;
use opgate_cluster::Resource;

/// Maximum number of objects of a case.
const MAX_OBJECTS: usize = 200;

/// No client waits for a case; the limits of the policy still apply.
const DECISION_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Members of Secrets with values.
const SECRET_MEMBERS: [&str; 2] = ["data", "stringData"];

/// The reason why the reads of a case are not recorded.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    /// The case cannot be evaluated.
    #[error(transparent)]
    Case(#[from] CaseRunError),
    /// A read has no result, or not the same one from a file.
    #[error("{0}")]
    Read(String),
}

/// Keeps the reads of a decision.
struct ReadObserver;

impl Observer for ReadObserver {
    fn on_call(&self, _: &Policy, _: Duration) {}

    fn records_reads(&self) -> bool {
        true
    }
}

/// A connection to a cluster.
pub(super) struct ClusterRecorder {
    runtime: tokio::runtime::Runtime,
    connection: Connection,
    /// The kinds of resources.
    kinds: BTreeMap<Resource, String>,
}

impl ClusterRecorder {
    /// Connects with the kubeconfigs.
    pub(super) fn connect(kubeconfig: &OsStr, context: Option<&str>) -> Result<Self, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let paths = kubeconfig_paths(kubeconfig)?;
        let connection = runtime.block_on(Connection::kubeconfig(&paths, context));
        let connection = connection.map_err(CommandError::usage)?;
        Ok(Self { runtime, connection, kinds: BTreeMap::new() })
    }

    /// Returns the objects that a case reads from the cluster; none if it reads nothing.
    pub(super) fn record(
        &mut self,
        runner: &mut Runner,
        case: &Case,
    ) -> Result<Option<Vec<Value>>, RecordError> {
        let set = runner.listed_set(case)?;
        let Self { runtime, connection, kinds } = self;
        let recorded = runtime.block_on(async {
            let mut decision = decide_with_cluster(connection, &set, case).await?;
            let objects = read_objects(&mut decision)?;
            let objects = match objects {
                Some(objects) => Some(fetch(connection, kinds, objects).await?),
                None => None,
            };
            Ok::<_, RecordError>((decision, objects))
        });
        let (decision, objects) = recorded?;
        let live = runner.case_decision(case, decision)?;
        if let Some(objects) = &objects {
            let case = Case { cluster: Some(objects.clone()), has_cluster: true, ..case.clone() };
            let repeated = runner.decide(&case)?;
            if !is_same(&live, &repeated) {
                let why = "the objects that it has read give another result in a file than in the cluster";
                return Err(RecordError::Read(why.to_owned()));
            }
        }
        Ok(objects)
    }
}

/// Decides on a case with the objects that an API server lists now.
async fn decide_with_cluster(
    connection: &Connection,
    set: &PolicySet,
    case: &Case,
) -> Result<Decision, RecordError> {
    let failed = connection.list_all(set.cluster(), &mut PageBackoff::default()).await;
    if let Some((resource, why)) = failed.first() {
        return Err(RecordError::Read(format!("{resource}: {why}")));
    }
    let text = dry_run_text(case)?;
    let wrong = |error: &dyn std::fmt::Display| RecordError::Read(error.to_string());
    let review = Review::read_check(&text).map_err(|error| wrong(&error))?;
    let deadline = Instant::now() + DECISION_TIMEOUT;
    set.decide(&review, None, deadline, &ReadObserver).await.map_err(|error| wrong(&error))
}

/// Objects by resource, namespace and name.
type ReadObjects = BTreeMap<(Resource, String, String), ReadObject>;

/// Returns the objects in the results of all reads, each once; none if there are no reads.
fn read_objects(decision: &mut Decision) -> Result<Option<ReadObjects>, RecordError> {
    let inputs = decision.inputs.take();
    let reads = inputs.iter().flat_map(|inputs| &inputs.reads).map(|(_, reads)| reads);
    let mut objects = ReadObjects::new();
    let mut has_reads = false;
    for reads in reads {
        has_reads |= !reads.is_empty();
        if let Some(why) = reads.errors().next() {
            return Err(RecordError::Read(why.to_owned()));
        }
        if reads.has_samples() {
            let why = "it samples custom resources, which a case does not record: write them into `cluster`";
            return Err(RecordError::Read(why.to_owned()));
        }
        for object in reads.objects() {
            let (namespace, name) = (object.key.namespace.to_string(), object.key.name.to_string());
            objects.insert((object.read.resource.clone(), namespace, name), object);
        }
        if reads.is_cut() || objects.len() > MAX_OBJECTS {
            let why = format!("it reads more than {MAX_OBJECTS} objects, or very large ones");
            return Err(RecordError::Read(why));
        }
    }
    Ok(has_reads.then_some(objects))
}

/// Returns the fields that the policy declares of objects, and those by which it finds them.
async fn fetch(
    connection: &Connection,
    kinds: &mut BTreeMap<Resource, String>,
    objects: ReadObjects,
) -> Result<Vec<Value>, RecordError> {
    let mut backoff = PageBackoff::default();
    let mut fetched = Vec::with_capacity(objects.len());
    for ((resource, namespace, name), ReadObject { read, fields, .. }) in objects {
        let named = || format!("{resource} {namespace}/{name}");
        if resource.is_server_version() {
            fetched.push(server_version(&fields));
            continue;
        }
        let declaration = read.declaration.with_index_fields();
        let within = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let mut pages = connection.pages_of_object(&resource, within, &name);
        let mut found = None;
        let visit = |document: opgate_document::Document| {
            found = declaration.project_text(document.root()).ok();
        };
        let page = pages.read_next(&mut backoff, visit).await;
        page.map_err(|error| RecordError::Read(format!("{}: {error}", named())))?;
        let object = found.and_then(|text| serde_json::from_str(&text).ok());
        let object: Map<String, Value> =
            object.ok_or_else(|| RecordError::Read(format!("{}: it is gone", named())))?;
        let kind = kind_of(connection, kinds, &resource, &mut backoff).await?;
        fetched.push(case_object(object, &resource, &kind));
    }
    Ok(fetched)
}

/// Returns the version of the API server as cases have it.
fn server_version(fields: &str) -> Value {
    let mut members: Map<String, Value> = serde_json::from_str(fields).unwrap_or_default();
    members.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    Value::Object(members)
}

/// Returns an object as cases have it.
fn case_object(mut object: Map<String, Value>, resource: &Resource, kind: &str) -> Value {
    let Resource { group, version, .. } = resource;
    let api = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
    object.insert("apiVersion".to_owned(), json!(api));
    object.insert("kind".to_owned(), json!(kind));
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["uid", "resourceVersion"] {
            metadata.remove(name);
        }
    }
    if group.is_empty() && resource.resource == "secrets" {
        // A declared read has only the names of the keys. Values never get into a file, whatever a read returns.
        for member in SECRET_MEMBERS {
            let values = object.get_mut(member).and_then(Value::as_object_mut);
            values.into_iter().flat_map(Map::values_mut).for_each(|value| *value = json!(""));
        }
    }
    Value::Object(object)
}

/// Returns the kind of the objects of a resource.
async fn kind_of(
    connection: &Connection,
    kinds: &mut BTreeMap<Resource, String>,
    resource: &Resource,
    backoff: &mut PageBackoff,
) -> Result<String, RecordError> {
    if let Some(kind) = kinds.get(resource) {
        return Ok(kind.clone());
    }
    let served = connection.resources(&resource.group, &resource.version, backoff).await;
    let served = served.map_err(|error| RecordError::Read(format!("{resource}: {error}")))?;
    kinds.extend(served.into_iter().map(|served| (served.resource, served.kind)));
    let kind = kinds.get(resource).cloned();
    kind.ok_or_else(|| {
        RecordError::Read(format!("{resource}: the API server has no such resource"))
    })
}

/// Reports whether two decisions state the same about a case.
fn is_same(one: &CaseDecision, other: &CaseDecision) -> bool {
    let violations = |decision: &CaseDecision| {
        let mut violations = decision.result.violations.clone();
        violations.sort();
        violations
    };
    violations(one) == violations(other) && one.result.skipped == other.result.skipped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_has_keys_without_values() {
        let resource = |name: &str| Resource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: name.to_owned(),
        };
        let object = json!({
            "metadata": {"name": "a", "uid": "1", "resourceVersion": "2"},
            "data": {"token": "c2VjcmV0"},
            "stringData": {"token": "secret"},
        });
        let object = object.as_object().unwrap();
        let secret = case_object(object.clone(), &resource("secrets"), "Secret");
        let expected = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"},
            "data": {"token": ""}, "stringData": {"token": ""},
        });
        assert_eq!(secret, expected);
        let map = case_object(object.clone(), &resource("configmaps"), "ConfigMap");
        assert_eq!(map["data"]["token"], "c2VjcmV0");
    }
}
