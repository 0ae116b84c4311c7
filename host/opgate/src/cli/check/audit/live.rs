//! The audit of a running cluster.
//!
//! ```text
//! discovery ─▶ resources, each in one version ─▶ objects, page by page ─▶ evaluated ─▶ ResultSink
//!                 └▶ metadata ─▶ EvaluationMemory ─┬▶ changed objects ───────┘            ▲
//!                                                  └▶ results of unchanged objects ───────┘
//! ```
//!
//! The objects that policies read are listed before all others. A page is read as a whole before its objects are
//! evaluated. All lists of an audit have the same pauses for a slow API server.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Instant;

use opgate_admission::cluster::{
    ApiGroup, Connection, ListError, ListableResource, ObjectPages, PageBackoff,
};
use opgate_admission::policy::PolicySet;
use opgate_document::Document;
use opgate_files::{dump, parallel};
use opgate_input::objects::{self, ElementType};
use opgate_text::one_line;

use crate::cli::check::audit::MAX_OBJECTS;
use crate::cli::check::audit::discovery::{AuditedResource, UndiscoveredGroup, discover_resources};
use crate::cli::check::audit::evaluation_memory::{
    EvaluationMemory, RememberedOutcome, RememberedResult, SkippedObject,
};
use crate::cli::check::audit::result_sink::{ObjectIdentity, ResultSink};
use crate::cli::check::audit::review_priority::ReviewPriority;
use crate::cli::check::evaluate::{
    CheckRun, EvaluateError, SubjectEvaluator, SubjectResult, is_exempt,
};
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::kubeconfig::kubeconfig_paths;
use crate::cli::report::UnreadableInput;

/// Bytes of objects beyond which they are evaluated before the end of their page: an API server that does not know
/// pages sends all objects in one. Other pages are smaller.
const MAX_BATCH_BYTES: usize = 8 << 20;

/// Objects of one resource that have changed since the last audit and are read one by one: one of this many of all
/// objects of the resource, within these limits. With more of them, a list of all objects needs fewer requests.
const OBJECTS_PER_CHANGED: usize = 50;
const MIN_CHANGED: usize = 2;
const MAX_CHANGED: usize = 200;

/// Maximum bytes of a line.
const MAX_LINE_BYTES: usize = 1_024;

/// Lines about objects of one resource that cannot be reviewed. The others have no line.
const MAX_UNREADABLE: usize = 100;

/// A running cluster and the options for its evaluation.
pub(in crate::cli) struct LiveCluster<'l> {
    /// Kubeconfigs with `:` between them; empty for those that `kubectl` reads.
    pub(in crate::cli) kubeconfig: &'l OsStr,
    /// One of their contexts.
    pub(in crate::cli) context: Option<&'l str>,
    /// The only namespace whose objects are evaluated.
    pub(in crate::cli) namespace: Option<&'l str>,
}

impl LiveCluster<'_> {
    /// Returns the connection with the kubeconfigs.
    ///
    /// # Errors
    /// If they cannot be used.
    pub(in crate::cli) async fn connect(&self) -> Result<Connection, CommandError> {
        let paths = kubeconfig_paths(self.kubeconfig)?;
        let connection = Connection::kubeconfig(&paths, self.context);
        connection.await.map_err(CommandError::usage)
    }
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let connection = live.connect().await?;
        let groups = served_groups(&connection).await?;
        let audited = AuditedCluster {
            connection: &connection,
            groups,
            namespace: live.namespace,
            threads: EvaluationThreads::All,
            memory: None,
        };
        audited.evaluate(set, &mut findings).await
    })?;
    findings.finish()
}

/// Returns the API groups that are served.
///
/// # Errors
/// If the API server does not list them.
pub(in crate::cli) async fn served_groups(
    connection: &Connection,
) -> Result<Vec<ApiGroup>, CommandError> {
    let unreachable = |why: ListError| CommandError::usage(anyhow::anyhow!("the cluster: {why}"));
    connection.groups(&mut PageBackoff::default()).await.map_err(unreachable)
}

/// The threads that evaluate objects.
#[derive(Clone, Copy)]
pub(in crate::cli) enum EvaluationThreads<'t> {
    /// One for each CPU.
    All,
    /// One, with the priority of the thread that starts it, and after reviews. With idle priority, an audit would never
    /// end while other threads use all CPUs.
    OneAfterReviews(&'t ReviewPriority),
}

impl EvaluationThreads<'_> {
    /// Returns the results of `work` for each document, in their order.
    fn map<R: Send>(self, documents: &[Document], work: impl Fn(&Document) -> R + Sync) -> Vec<R> {
        match self {
            Self::All => parallel::map(documents, work),
            Self::OneAfterReviews(priority) => parallel::map_on(1, documents, |document| {
                priority.give_way();
                work(document)
            }),
        }
    }

    /// Yields to reviews, between two documents that are decoded.
    fn give_way(self) {
        match self {
            Self::All => {}
            Self::OneAfterReviews(priority) => priority.give_way(),
        }
    }
}

/// A cluster with a connection, and what is evaluated of it.
pub(in crate::cli) struct AuditedCluster<'c> {
    pub(in crate::cli) connection: &'c Connection,
    pub(in crate::cli) groups: Vec<ApiGroup>,
    /// The only namespace whose objects are evaluated.
    pub(in crate::cli) namespace: Option<&'c str>,
    pub(in crate::cli) threads: EvaluationThreads<'c>,
    /// Results of the last audit, and of this one for the next.
    pub(in crate::cli) memory: Option<&'c mut EvaluationMemory>,
}

impl AuditedCluster<'_> {
    /// Evaluates its objects, until the sink stops that.
    ///
    /// # Errors
    /// If the engine fails.
    pub(in crate::cli) async fn evaluate(
        self,
        set: &PolicySet,
        results: &mut impl ResultSink,
    ) -> Result<(), CommandError> {
        let Self { connection, groups, namespace, threads, mut memory } = self;
        let mut backoff = PageBackoff::default();
        let (resources, unknown) = discover_resources(connection, set, groups, &mut backoff).await;
        for UndiscoveredGroup { name, reason } in unknown {
            results.set_unknown(&name, None);
            results.add_error(UnreadableInput { source: reason.clone(), line: reason });
        }
        let failed = connection.list_all(set.cluster(), &mut backoff).await;
        for (resource, why) in &failed {
            results.add_error(unreadable_resource(&resource.to_string(), why));
        }
        let reads_failed = !failed.is_empty();
        if let Some(memory) = &mut memory {
            read_schemas(connection, memory, &mut backoff).await;
            memory.begin(set.digest(), set.cluster(), Instant::now());
        }
        for AuditedResource { served, namespaces } in resources {
            // A resource whose first listing fails is not listed again.
            if failed.iter().any(|(of, _)| *of == served.resource) {
                results.set_unknown(&served.resource.group, Some(&served.kind));
                continue;
            }
            for namespace in namespaces.select(namespace) {
                if results.is_stopped(set) {
                    return Ok(());
                }
                let served = &served;
                let listing = Listing { connection, set, served, namespace, threads, reads_failed };
                listing.evaluate(results, memory.as_deref_mut(), &mut backoff).await?;
            }
        }
        Ok(())
    }
}

/// Reads what identifies the schemas of each group and version. If that fails, the last ones count.
async fn read_schemas(
    connection: &Connection,
    memory: &mut EvaluationMemory,
    backoff: &mut PageBackoff,
) {
    match connection.schema_hashes(backoff).await {
        Ok(schemas) => memory.set_schemas(&schemas),
        Err(error) => {
            tracing::debug!(%error, "schemas not read; changes of defaults are noticed within a day");
        }
    }
}

fn unreadable_resource(resource: &str, why: &str) -> UnreadableInput {
    let line = one_line(&format!("{resource}: not evaluated: {why}"), MAX_LINE_BYTES);
    UnreadableInput { source: resource.to_owned(), line }
}

/// The list of the objects of a resource.
struct Listing<'l> {
    connection: &'l Connection,
    set: &'l PolicySet,
    served: &'l ListableResource,
    namespace: Option<&'l str>,
    threads: EvaluationThreads<'l>,
    /// Whether objects that policies read could not be listed.
    reads_failed: bool,
}

impl Listing<'_> {
    /// Reads the objects page by page, and evaluates those that have no valid result.
    async fn evaluate(
        &self,
        results: &mut impl ResultSink,
        memory: Option<&mut EvaluationMemory>,
        backoff: &mut PageBackoff,
    ) -> Result<(), CommandError> {
        let Self { served, namespace, .. } = self;
        if namespace.is_some() && !served.is_namespaced {
            return Ok(());
        }
        let mut batch = Batch::new(self, results, memory);
        let listed = self.read(&mut batch, backoff).await;
        if batch.is_stopped {
            return Ok(());
        }
        let count = batch.count;
        if let Some(error) = batch.error {
            return Err(CommandError::engine(error));
        }
        let resource = served.resource.to_string();
        if let Err(why) = &listed {
            results.add_error(unreadable_resource(&resource, &why.to_string()));
        }
        if count >= MAX_OBJECTS {
            let why = format!("more than {MAX_OBJECTS} objects");
            results.add_error(unreadable_resource(&resource, &why));
        }
        if listed.is_err() || count >= MAX_OBJECTS {
            results.set_unknown(&served.resource.group, Some(&served.kind));
        }
        Ok(())
    }

    /// Reads all objects that have no valid result, and evaluates them in batches.
    async fn read(
        &self,
        batch: &mut Batch<'_, impl ResultSink>,
        backoff: &mut PageBackoff,
    ) -> Result<(), ListError> {
        if batch.has_memory() {
            match self.read_changed(batch, backoff).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // A list of all objects would be more load.
                Err(error) if error.is_busy() => return Err(error),
                Err(error) => {
                    let resource = self.served.resource.to_string();
                    tracing::debug!(resource, %error, "metadata not listed; listing all objects");
                }
            }
        }
        let pages = self.connection.pages(&self.served.resource, self.namespace);
        self.read_pages(pages, batch, backoff).await
    }

    async fn read_pages(
        &self,
        mut pages: ObjectPages<'_>,
        batch: &mut Batch<'_, impl ResultSink>,
        backoff: &mut PageBackoff,
    ) -> Result<(), ListError> {
        loop {
            let page = pages.read_next(backoff, |document| batch.add(document)).await;
            batch.evaluate();
            if batch.is_stopped {
                return Ok(());
            }
            batch.results.write().await;
            if !page? {
                return Ok(());
            }
        }
    }

    /// Reads the metadata of all objects, and then only the objects without a valid result, if they are few.
    /// Returns whether they are: otherwise, those that are left must be read with all others.
    async fn read_changed(
        &self,
        batch: &mut Batch<'_, impl ResultSink>,
        backoff: &mut PageBackoff,
    ) -> Result<bool, ListError> {
        let Some(changed) = self.list_changed(batch, backoff).await? else { return Ok(false) };
        for ObjectName { namespace, name } in &changed {
            let within = Some(namespace.as_str()).filter(|namespace| !namespace.is_empty());
            let pages = self.connection.pages_of_object(&self.served.resource, within, name);
            self.read_pages(pages, batch, backoff).await?;
            if batch.is_stopped {
                break;
            }
        }
        Ok(true)
    }

    /// Takes the valid results, and returns the objects without one; none if they are too many to read them one by
    /// one.
    async fn list_changed(
        &self,
        batch: &mut Batch<'_, impl ResultSink>,
        backoff: &mut PageBackoff,
    ) -> Result<Option<BTreeSet<ObjectName>>, ListError> {
        let Self { connection, served, namespace, .. } = self;
        let (mut changed, mut has_unversioned) = (BTreeSet::new(), false);
        let mut pages = connection.metadata_pages(&served.resource, *namespace);
        loop {
            let recall = |document: Document| match batch.recall(&document) {
                RecallOutcome::Taken => {}
                RecallOutcome::Changed if changed.len() > MAX_CHANGED => {}
                RecallOutcome::Changed => {
                    let ObjectIdentity { namespace, name, .. } =
                        ObjectIdentity::of(served, &document);
                    changed.insert(ObjectName { namespace, name });
                }
                RecallOutcome::Unversioned => has_unversioned = true,
            };
            let page = pages.read_next(backoff, recall).await;
            batch.check_stopped();
            if batch.is_stopped {
                return Ok(Some(BTreeSet::new()));
            }
            if has_unversioned || changed.len() > MAX_CHANGED {
                return Ok(None);
            }
            if !page? {
                break;
            }
        }
        let listed = batch.count.saturating_add(changed.len());
        let max_changed = (listed / OBJECTS_PER_CHANGED).clamp(MIN_CHANGED, MAX_CHANGED);
        Ok((changed.len() <= max_changed).then_some(changed))
    }
}

/// The name of an object of one resource.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ObjectName {
    /// Empty for objects of the cluster.
    namespace: String,
    name: String,
}

/// The result of looking for an object in the memory.
enum RecallOutcome {
    /// Nothing is left to do: its result is taken, or it was listed before.
    Taken,
    /// It has no valid result.
    Changed,
    /// It cannot have one, because it has no UID or no version.
    Unversioned,
}

/// Objects that are evaluated together.
struct Batch<'b, R> {
    listing: &'b Listing<'b>,
    documents: Vec<Document>,
    bytes: usize,
    results: &'b mut R,
    memory: Option<&'b mut EvaluationMemory>,
    /// Hashes of the namespaces and names of the objects so far: a list that was read again has some twice.
    seen: HashSet<u64>,
    hashes: RandomState,
    count: usize,
    is_stopped: bool,
    /// Objects that could not be reviewed.
    unreadable: usize,
    error: Option<anyhow::Error>,
}

impl<'b, R: ResultSink> Batch<'b, R> {
    fn new(
        listing: &'b Listing<'b>,
        results: &'b mut R,
        memory: Option<&'b mut EvaluationMemory>,
    ) -> Self {
        Self {
            listing,
            documents: Vec::new(),
            bytes: 0,
            results,
            memory,
            seen: HashSet::new(),
            hashes: RandomState::new(),
            count: 0,
            is_stopped: false,
            unreadable: 0,
            error: None,
        }
    }

    /// Reports whether there are valid results of an earlier audit.
    fn has_memory(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.has_valid_results())
    }

    fn check_stopped(&mut self) {
        self.is_stopped = self.is_stopped || self.results.is_stopped(self.listing.set);
    }

    fn name_hash(&self, document: &Document) -> u64 {
        let text = |pointer: &str| document.get(pointer).and_then(|value| value.text());
        self.hashes.hash_one((text("/metadata/namespace"), text("/metadata/name")))
    }

    /// Counts an object, unless it was counted before.
    fn count_new(&mut self, document: &Document) -> bool {
        let name = self.name_hash(document);
        let is_new = self.count < MAX_OBJECTS && self.seen.insert(name);
        self.count += usize::from(is_new);
        is_new
    }

    fn add(&mut self, document: Document) {
        self.listing.threads.give_way();
        if !self.count_new(&document) {
            return;
        }
        self.bytes = self.bytes.saturating_add(document.size());
        self.documents.push(document);
        if self.bytes >= MAX_BATCH_BYTES {
            self.evaluate();
        }
    }

    /// Takes the result of an object in the last audit, if it is still valid, and once if the object is listed
    /// twice. The document need have its metadata only.
    fn recall(&mut self, document: &Document) -> RecallOutcome {
        self.listing.threads.give_way();
        if self.count >= MAX_OBJECTS || self.seen.contains(&self.name_hash(document)) {
            return RecallOutcome::Taken;
        }
        let Some(key) = self.object_key(document) else { return RecallOutcome::Unversioned };
        let outcome = self.memory.as_ref().and_then(|memory| memory.recall(key));
        let Some(outcome) = outcome else { return RecallOutcome::Changed };
        let object = ObjectIdentity::of(self.listing.served, document);
        match outcome.result() {
            RememberedOutcome::Skipped(reason) => self.results.skip(&object, *reason),
            RememberedOutcome::Unreadable(reason) => self.add_unreadable(&object, reason),
            RememberedOutcome::Evaluated(result) if self.results.recall(&object, result) => {}
            RememberedOutcome::Evaluated(_) => return RecallOutcome::Changed,
        }
        if let Some(memory) = self.memory.as_deref_mut() {
            memory.keep(key, outcome);
        }
        self.count_new(document);
        RecallOutcome::Taken
    }

    fn object_key(&self, document: &Document) -> Option<u64> {
        let memory = self.memory.as_ref()?;
        memory.object_key(&self.listing.served.resource.to_string(), document)
    }

    fn evaluate(&mut self) {
        let Listing { set, served, threads, reads_failed, .. } = self.listing;
        self.bytes = 0;
        let documents = std::mem::take(&mut self.documents);
        self.check_stopped();
        if self.is_stopped {
            return;
        }
        let found = threads.map(&documents, |document| evaluate_object(set, served, document));
        for (ObjectResult { object, outcome }, document) in found.into_iter().zip(&documents) {
            match outcome {
                Ok(ObjectOutcome::Evaluated(mut result)) => {
                    let reads = result.reads.take();
                    let is_complete = !(*reads_failed && result.has_skipped_rules());
                    let added = self.results.add(&object, *result, is_complete);
                    self.remember(document, reads, added);
                }
                Ok(ObjectOutcome::Skipped(reason)) => {
                    self.results.skip(&object, reason);
                    self.remember_unevaluated(document, RememberedOutcome::Skipped(reason));
                }
                Err(EvaluateError::Unreadable(line)) => {
                    let reason = one_line(&line, MAX_LINE_BYTES);
                    self.add_unreadable(&object, &reason);
                    self.remember_unevaluated(document, RememberedOutcome::Unreadable(reason));
                }
                Err(EvaluateError::Engine(error)) => drop(self.error.get_or_insert(error)),
            }
        }
    }

    /// Remembers a result, if all is known that it depends on.
    fn remember(
        &mut self,
        document: &Document,
        reads: Option<BTreeSet<String>>,
        result: Option<RememberedResult>,
    ) {
        let key = self.object_key(document);
        if let (Some(memory), Some(key), Some(reads), Some(result)) =
            (self.memory.as_deref_mut(), key, reads, result)
        {
            memory.remember(key, reads, result);
        }
    }

    /// Remembers that an object in its version is not evaluated.
    fn remember_unevaluated(&mut self, document: &Document, outcome: RememberedOutcome) {
        let key = self.object_key(document);
        if let (Some(memory), Some(key)) = (self.memory.as_deref_mut(), key) {
            memory.remember_unevaluated(key, outcome);
        }
    }
}

impl<R: ResultSink> Batch<'_, R> {
    /// Reports an object that cannot be reviewed, and continues: any user can store one.
    fn add_unreadable(&mut self, object: &ObjectIdentity, reason: &str) {
        self.results.skip(object, SkippedObject::Unreadable);
        self.unreadable += 1;
        if self.unreadable <= MAX_UNREADABLE {
            let source = self.listing.served.resource.to_string();
            let line = one_line(&format!("not evaluated: {reason}"), MAX_LINE_BYTES);
            self.results.add_error(UnreadableInput { source, line });
        }
    }
}

/// An object, and the result of its evaluation.
struct ObjectResult {
    object: ObjectIdentity,
    outcome: Result<ObjectOutcome, EvaluateError>,
}

enum ObjectOutcome {
    Evaluated(Box<SubjectResult>),
    Skipped(SkippedObject),
}

fn evaluate_object(
    set: &PolicySet,
    served: &ListableResource,
    document: &Document,
) -> ObjectResult {
    let object = ObjectIdentity::of(served, document);
    let ObjectIdentity { api_version, kind, namespace, name, .. } = &object;
    let typed = ElementType { api_version: api_version.clone(), kind: kind.clone() };
    let mut subject = None;
    objects::for_each_object(document.root(), Some(&typed), &mut |found| {
        let Ok(found) = found else { return };
        let source = if namespace.is_empty() {
            format!("{kind} {name}")
        } else {
            format!("{kind} {namespace}/{name}")
        };
        subject = dump::live_subject(one_line(&source, 512), &found, &served.resource.resource);
    });
    let outcome = match subject {
        None => Ok(ObjectOutcome::Skipped(SkippedObject::Terminating)),
        Some(subject) if is_exempt(&subject) => Ok(ObjectOutcome::Skipped(SkippedObject::Exempt)),
        Some(subject) => SubjectEvaluator::new(set)
            .evaluate(&subject)
            .map(|result| ObjectOutcome::Evaluated(Box::new(result))),
    };
    ObjectResult { object, outcome }
}
