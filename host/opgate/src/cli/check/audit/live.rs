//! The audit of a running cluster.
//!
//! ```text
//! discovery × what policies match ─▶ resources, each in one version ─▶ objects, page by page ─▶ evaluated
//! ```
//!
//! Only kinds whose creation a policy matches with its settings are listed, as for a webhook. Secrets are
//! listed only if an enabled rule names them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;

use opgate_admission::cluster::{ApiGroup, Connection, ListError, ListableResource};
use opgate_admission::policy::{MatchRule, PolicySet};
use opgate_admission::review::Operation;
use opgate_document::Document;
use opgate_files::{GROUP, dump, parallel};
use opgate_input::objects::{self, ElementType};
use opgate_text::one_line;

use crate::cli::check::audit::MAX_OBJECTS;
use crate::cli::check::evaluate::{CheckRun, SubjectEvaluator, SubjectResult, is_exempt};
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::kubeconfig::kubeconfig_paths;
use crate::cli::report::UnreadableInput;

/// Bytes of objects in one batch.
const BATCH_BYTES: usize = 1 << 20;

/// A running cluster and the options for its evaluation.
pub(in crate::cli) struct LiveCluster<'l> {
    /// Kubeconfigs with `:` between them; empty for those that `kubectl` reads.
    pub(in crate::cli) kubeconfig: &'l OsStr,
    /// One of their contexts.
    pub(in crate::cli) context: Option<&'l str>,
    /// The only namespace whose objects are evaluated.
    pub(in crate::cli) namespace: Option<&'l str>,
}

/// Evaluates a running cluster.
///
/// # Errors
/// If there is no connection, or the engine fails.
pub(in crate::cli) fn evaluate_cluster(
    live: &LiveCluster<'_>,
    set: &PolicySet,
    mut findings: CheckRun<'_>,
) -> Result<ExitStatus, CommandError> {
    findings.set_audit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let paths = kubeconfig_paths(live.kubeconfig)?;
        let connection = Connection::kubeconfig(&paths, live.context);
        let connection = connection.await.map_err(CommandError::usage)?;
        let unreachable =
            |why: ListError| CommandError::usage(anyhow::anyhow!("the cluster: {why}"));
        let groups = connection.groups().await.map_err(unreachable)?;
        let (served, unknown) = discover_resources(&connection, set, groups).await;
        for why in unknown {
            findings.unreadable.push(UnreadableInput { source: why.clone(), line: why });
        }
        let failed = connection.list_all(set.cluster()).await;
        for (resource, why) in &failed {
            findings.unreadable.push(unreadable_resource(&resource.to_string(), why));
        }
        // A resource whose first listing fails is not listed again.
        let is_listed =
            |served: &ListableResource| failed.iter().all(|(of, _)| *of != served.resource);
        for served in served.into_iter().filter(is_listed) {
            evaluate_resource(&connection, set, &served, live.namespace, &mut findings).await?;
        }
        Ok::<_, CommandError>(())
    })?;
    findings.finish()
}

fn unreadable_resource(resource: &str, why: &str) -> UnreadableInput {
    let line = one_line(&format!("{resource}: not evaluated: {why}"), 1_024);
    UnreadableInput { source: resource.to_owned(), line }
}

/// Discovers the resources that the webhook would receive, each in one version, and reports the groups that
/// cannot be discovered.
async fn discover_resources(
    connection: &Connection,
    set: &PolicySet,
    groups: Vec<ApiGroup>,
) -> (Vec<ListableResource>, Vec<String>) {
    let rules: Vec<_> = set
        .policies()
        .iter()
        .flat_map(|policy| &policy.match_rules)
        .map(|requests| &requests.rule)
        .filter(|rule| rule.operations.contains(&Operation::Create))
        .collect();
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for ApiGroup { name, versions } in groups.into_iter().filter(|group| group.name != GROUP) {
        let rules: Vec<_> = rules.iter().filter(|rule| has(&rule.groups, &name)).collect();
        let is_asked = |version: &&String| rules.iter().any(|rule| has(&rule.versions, version));
        // The preferred version is the first one.
        let mut known = BTreeSet::new();
        for version in versions.iter().filter(is_asked) {
            match connection.resources(&name, version).await {
                Err(why) => unknown.push(why.to_string()),
                Ok(all) => {
                    let is_wanted = |served: &ListableResource| {
                        rules.iter().any(|rule| matches_creation(rule, served))
                    };
                    let new = all.into_iter().filter(is_wanted);
                    let new = new.filter(|served| known.insert(served.resource.resource.clone()));
                    found.extend(new);
                }
            }
        }
    }
    (found, unknown)
}

fn has(all: &[String], name: &str) -> bool {
    all.iter().any(|one| one == "*" || one == name)
}

/// Reports whether a rule matches the creation of such objects.
fn matches_creation(rule: &MatchRule, served: &ListableResource) -> bool {
    let resource = &served.resource;
    let is_secret = resource.group.is_empty() && resource.resource == "secrets";
    // Secrets of a whole cluster are read only if a setting requires it.
    let is_for_files = rule.enabled_by == ["/files"];
    let is_named = rule.resources.contains(&resource.resource) && !(is_secret && is_for_files);
    has(&rule.versions, &resource.version)
        && (is_named || !is_secret && rule.resources.iter().any(|one| one == "*" || one == "*/*"))
}

/// Lists the objects of a resource and evaluates them in batches.
async fn evaluate_resource(
    connection: &Connection,
    set: &PolicySet,
    served: &ListableResource,
    namespace: Option<&str>,
    findings: &mut CheckRun<'_>,
) -> Result<(), CommandError> {
    if namespace.is_some() && !served.is_namespaced {
        return Ok(());
    }
    let mut batch =
        Batch { set, served, documents: Vec::new(), bytes: 0, check_run: findings, error: None };
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut count = 0_usize;
    let listed = connection.for_each_object(&served.resource, namespace, |document| {
        let text = |pointer: &str| document.get(pointer).and_then(|value| value.text());
        let space = text("/metadata/namespace").unwrap_or_default().to_owned();
        let name = text("/metadata/name").unwrap_or_default().to_owned();
        // A list that was read again has some twice.
        if count < MAX_OBJECTS && seen.entry(space).or_default().insert(name) {
            count += 1;
            batch.add(document);
        }
    });
    let listed = listed.await;
    batch.evaluate();
    let Batch { error: failed, check_run: findings, .. } = batch;
    if let Some(error) = failed {
        return Err(CommandError::engine(error));
    }
    if let Err(why) = listed {
        findings
            .unreadable
            .push(unreadable_resource(&served.resource.to_string(), &why.to_string()));
    }
    if count >= MAX_OBJECTS {
        let why = format!("more than {MAX_OBJECTS} objects");
        findings.unreadable.push(unreadable_resource(&served.resource.to_string(), &why));
    }
    Ok(())
}

/// Objects that are evaluated together.
struct Batch<'b, 's> {
    set: &'b PolicySet,
    served: &'b ListableResource,
    documents: Vec<Document>,
    bytes: usize,
    check_run: &'b mut CheckRun<'s>,
    error: Option<anyhow::Error>,
}

impl Batch<'_, '_> {
    fn add(&mut self, document: Document) {
        self.bytes = self.bytes.saturating_add(document.size());
        self.documents.push(document);
        if self.bytes >= BATCH_BYTES {
            self.evaluate();
        }
    }

    fn evaluate(&mut self) {
        let (set, served) = (self.set, self.served);
        self.bytes = 0;
        let documents = std::mem::take(&mut self.documents);
        for found in parallel::map(&documents, |document| evaluate_object(set, served, document)) {
            match found {
                Ok(ObjectResult::Evaluated(result)) => self.check_run.add_result(*result, None),
                Ok(ObjectResult::Terminating) => self.check_run.terminating += 1,
                Ok(ObjectResult::Exempt) => self.check_run.exempt += 1,
                Err(error) => drop(self.error.get_or_insert(error)),
            }
        }
    }
}

/// Result of one object.
enum ObjectResult {
    Evaluated(Box<SubjectResult>),
    /// It is being deleted.
    Terminating,
    /// No webhook matches it.
    Exempt,
}

fn evaluate_object(
    set: &PolicySet,
    served: &ListableResource,
    document: &Document,
) -> anyhow::Result<ObjectResult> {
    let ListableResource { resource, kind, .. } = served;
    let api_version = match resource.group.as_str() {
        "" => resource.version.clone(),
        group => format!("{group}/{}", resource.version),
    };
    let typed = ElementType { api_version, kind: kind.clone() };
    let mut subject = None;
    objects::for_each_object(document.root(), Some(&typed), &mut |found| {
        let Ok(found) = found else { return };
        let text = |name: &str| found.value.get(name).and_then(|value| value.text());
        let name = text("/metadata/name").unwrap_or_default();
        let name = match text("/metadata/namespace").filter(|namespace| !namespace.is_empty()) {
            Some(namespace) => format!("{kind} {namespace}/{name}"),
            None => format!("{kind} {name}"),
        };
        subject = dump::live_subject(one_line(&name, 512), &found, &resource.resource);
    });
    match subject {
        None => Ok(ObjectResult::Terminating),
        Some(subject) if is_exempt(&subject) => Ok(ObjectResult::Exempt),
        Some(subject) => {
            Ok(ObjectResult::Evaluated(Box::new(SubjectEvaluator::new(set).evaluate(&subject)?)))
        }
    }
}
