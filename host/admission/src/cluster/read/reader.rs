//! The view of one policy: its declarations on the shared kinds, and one reader for each call.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use opgate_cluster::{IndexMatch, Key, Object, Query, Resource, Selector};
use opgate_document::{Charge, Document, Meter};

use crate::cluster::read::call_reads::{
    CallReads, RepeatedReads, get_query, list_query, sample_query,
};
use crate::cluster::read::query_stats::{QueryCounter, QueryStats};
use crate::cluster::read::samples::{MAX_SAMPLE_OBJECTS, is_custom_resource};
use crate::cluster::read::view::EvaluationView;
use crate::cluster::store::listing::QueryScope;
use crate::cluster::{
    ClusterState, GroundRecorder, RecordedQuery, ResolvedRead, ResourceCache, ResourceId,
    SampleError, SampleGrants, Source,
};
use opgate_engine::reader::{
    CacheUnavailable, ClusterReader, DeclaredRead as ReadScope, PolicyQuery, QueryResult,
    ReadError, ReadResult, ResultAccounts, Sample,
};
use opgate_engine::wit;

/// Maximum number of documents and names in a result, see `wit/policy.wit`.
const MAX_DOCUMENTS: usize = 256;
const MAX_NAMES: usize = 16_384;

/// Maximum number of recorded queries of a call, and of values in them; and the number of bytes
/// that count as one more. Beyond that, the call counts as having queried everything.
const MAX_RECORDED_VALUES: usize = 4_096;
const BYTES_PER_VALUE: usize = 64;

/// The reason why a partial snapshot has no result.
const NOT_IN_FILES: &str = "the files do not show any";

/// The part of the cluster that one policy may read.
#[derive(Debug, Default)]
pub struct PolicyView {
    cluster: Option<Arc<ClusterState>>,
    /// Only a few: comparing them is faster than creating a key for a map.
    windows: Vec<(Resource, Arc<ReadWindow>)>,
    /// Declared, but not read.
    unavailable: Vec<UnavailableRead>,
    sample_access: SampleAccess,
}

/// A declared resource that is not read, and why.
#[derive(Debug, Clone)]
pub struct UnavailableRead {
    /// The resource.
    pub resource: Resource,
    /// The reason.
    pub reason: UnavailableReason,
}

/// The reason why a declared resource is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnavailableReason {
    /// The rules that need it are off.
    Off,
    /// None of these settings is set.
    NotSet(Vec<String>),
    /// opgate creates the objects from files; no API server has them.
    OnlyInFiles,
}

/// The access of a policy to samples.
#[derive(Debug, Clone, Default)]
pub enum SampleAccess {
    /// It declares no sampling rule.
    #[default]
    Undeclared,
    /// These rules are off.
    Off,
    /// These custom resources.
    On(SampleGrants),
}

#[derive(Debug)]
struct ReadWindow {
    cache: ResourceId,
    /// The declaration of the policy.
    scope: Arc<ReadScope>,
    /// Whether the kind stores more fields, which must be removed.
    has_extra_fields: bool,
    /// Labels and namespace, if the kind has more.
    labels: Option<Selector>,
    namespace: Option<String>,
}

impl PolicyView {
    /// Creates the view of a policy with these reads. `off` are those that it declares and that
    /// are not read.
    #[must_use]
    pub fn new(
        cluster: &Arc<ClusterState>,
        readings: &[ResolvedRead],
        off: Vec<UnavailableRead>,
    ) -> Self {
        let window = |reading: &ResolvedRead| {
            let cache = cluster.id_of(reading)?;
            let shared = cluster.cache(cache)?;
            let window = ReadWindow {
                cache,
                scope: Arc::new(ReadScope {
                    resource: reading.resource.clone(),
                    declaration: reading.declaration.clone(),
                }),
                has_extra_fields: !shared.declaration().is_within(&reading.declaration),
                labels: (shared.labels() != &reading.labels).then(|| reading.labels.clone()),
                namespace: reading
                    .namespace
                    .clone()
                    .filter(|ns| shared.namespace() != Some(ns.as_str())),
            };
            Some((reading.resource.clone(), Arc::new(window)))
        };
        let windows = readings.iter().filter_map(window).collect();
        let sampling = SampleAccess::default();
        Self { cluster: Some(cluster.clone()), windows, unavailable: off, sample_access: sampling }
    }

    /// Sets the access to samples.
    #[must_use]
    pub fn with_sample_access(self, sampling: SampleAccess) -> Self {
        Self { sample_access: sampling, ..self }
    }

    /// A reader for one call.
    #[must_use]
    pub fn reader(self: &Arc<Self>, evaluation_view: EvaluationView) -> Reader {
        Reader {
            view: self.clone(),
            call_reads: evaluation_view.records_reads.then(CallReads::default),
            repeated: None,
            evaluation_view,
            queries: Vec::new(),
            recorded_queries: Vec::new(),
            values: 0,
            pending_objects: Vec::new(),
            is_unsure: false,
            grounds: GroundRecorder::default(),
            needed_samples: Vec::new(),
            page: None,
            query_counter: QueryCounter::default(),
        }
    }
}

/// The reads of one call.
#[derive(Debug)]
pub struct Reader {
    view: Arc<PolicyView>,
    evaluation_view: EvaluationView,
    queries: Vec<(ResourceId, QueryScope)>,
    recorded_queries: Vec<(ResourceId, RecordedQuery)>,
    /// Values in the queries among them.
    values: usize,
    pending_objects: Vec<(ResourceId, Key)>,
    is_unsure: bool,
    grounds: GroundRecorder,
    needed_samples: Vec<(Resource, usize)>,
    /// Kind and last object of the last page, and the number of its copies that were shown.
    page: Option<(ResourceId, Key, usize)>,
    query_counter: QueryCounter,
    /// The reads with their results, if they are recorded.
    call_reads: Option<CallReads>,
    /// Recorded results, which replace the cluster.
    repeated: Option<RepeatedReads>,
}

impl Reader {
    /// The reader of a call of this policy: it repeats the recorded reads, if the view has some.
    #[must_use]
    pub fn for_policy(mut self, policy: &str) -> Self {
        let recorded = self.evaluation_view.answers.as_ref();
        self.repeated = recorded
            .map(|answers| RepeatedReads::of(answers.get(policy).cloned().unwrap_or_default()));
        self
    }

    /// The reads of the call with their results, if they were recorded.
    pub fn take_call_reads(&mut self) -> Option<CallReads> {
        self.call_reads.take()
    }

    /// Queries of a repeated call that the recorded one did not ask.
    pub fn take_missing_reads(&mut self) -> Vec<String> {
        self.repeated.as_mut().map(RepeatedReads::take_missing).unwrap_or_default()
    }

    /// The reader of a call that has ended.
    #[must_use]
    pub fn of(call: Box<dyn ClusterReader>) -> Option<Self> {
        let reader: Box<dyn Any> = call;
        reader.downcast().ok().map(|reader| *reader)
    }

    /// The queries.
    #[must_use]
    pub fn queries(&self) -> &[(ResourceId, QueryScope)] {
        &self.queries
    }

    /// The queries, with their full precision.
    #[must_use]
    pub fn into_recorded_queries(self) -> Vec<(ResourceId, RecordedQuery)> {
        self.recorded_queries
    }

    /// The queries in numbers.
    pub fn take_query_stats(&mut self) -> Vec<QueryStats> {
        std::mem::take(&mut self.query_counter).into_list()
    }

    /// Counts a query.
    fn count_query(
        &mut self,
        resource: &wit::GroupVersionResource,
        answer: ReadResult,
    ) -> ReadResult {
        if let Ok(found) = &answer {
            let objects = found.as_ref().ok().map(|found| found.objects().len());
            self.query_counter.count(resource, objects);
        }
        answer
    }

    /// Objects that change the results in other possible states.
    #[must_use]
    pub fn pending_objects(&self) -> &[(ResourceId, Key)] {
        &self.pending_objects
    }

    /// Whether the possible state could not show an object as it may be stored.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        self.is_unsure
    }

    /// The objects in the results.
    pub fn take_grounds(&mut self) -> GroundRecorder {
        std::mem::take(&mut self.grounds)
    }

    /// Samples that must be listed first.
    #[must_use]
    pub fn needed_samples(&self) -> &[(Resource, usize)] {
        &self.needed_samples
    }

    fn select(
        &mut self,
        resource: &wit::GroupVersionResource,
        asked: PolicyQuery,
        most: usize,
        payer: ResultAccounts<'_>,
    ) -> ReadResult {
        let ResultAccounts { meter, account } = payer;
        let view = self.view.clone();
        let window = match view.window(resource, asked.namespace.as_deref()) {
            Ok(window) => window,
            Err(error) => return Ok(Err(error)),
        };
        let Some(cache) = view.cluster.as_ref().and_then(|c| c.cache(window.cache)) else {
            return Ok(Ok(QueryResult::default()));
        };
        let limit = if asked.limit == 0 { most } else { asked.limit.min(most) };
        if !can_exist(cache, asked.namespace.as_deref(), None) {
            return Ok(Ok(QueryResult::default()));
        }
        let after = asked.after.as_ref().map(|(namespace, name)| Key::new(namespace, name));
        // If several objects have one name, the one that ended the last page.
        let last =
            self.page.as_ref().filter(|(of, ..)| *of == window.cache).map(|(_, last, _)| last);
        let mut query = Query {
            namespace: asked.namespace.or_else(|| window.namespace.clone()),
            limit,
            after: after.map(|key| match last {
                Some(last) if last.has_same_name(&key) => last.clone(),
                _ => key,
            }),
            ..Query::default()
        };
        let mut bytes = asked.labels.as_ref().map_or(0, String::len);
        // It contains everything that the selector accepts.
        let mut labels = None;
        if let Some(json) = asked.labels {
            let charge = Charge::on(account);
            if !charge.grow(json.len()) {
                return Ok(Ok(QueryResult::default()));
            }
            let parsed = match Document::parse_metered(json, charge, meter) {
                Ok(parsed) => labels.insert(parsed),
                Err(why) => return Ok(Err(ReadError::Invalid(why.to_string()))),
            };
            match opgate_cluster::parse_selector(parsed.root_metered(meter)) {
                Ok(selector) => query.label_selector = selector,
                Err(why) => return Ok(Err(ReadError::Invalid(why.to_string()))),
            }
        }
        for (name, values, absent) in asked.matches {
            let index = window.scope.declaration.index(&name);
            let Some(index) = index.and_then(|index| cache.declaration().equivalent_index(index))
            else {
                let name = opgate_text::one_line(&name, 64);
                let text = format!("the read of {} declares no index {name:?}", cache.resource());
                return Ok(Err(ReadError::NotDeclared(text)));
            };
            bytes = values.iter().fold(bytes, |sum, value| sum.saturating_add(value.len()));
            // With its final size: a set that grows is hashed repeatedly.
            let mut set = HashSet::with_capacity(values.len());
            set.extend(values.into_iter().take_while(|_| meter.spend(32)));
            query.matches.push(IndexMatch {
                index,
                values: Arc::new(set),
                include_missing: absent,
            });
        }
        let scope = query.namespace.clone().map_or(QueryScope::All, QueryScope::Namespace);
        let evaluation_view = self.evaluation_view.clone();
        let direct_read = evaluation_view
            .direct_reads
            .as_ref()
            .and_then(|direct_read| direct_read.listing(window.cache, &scope));
        self.record_scope(window.cache, scope.clone(), meter);
        // A later page belongs to the same query.
        let is_first = query.after.is_none();
        let mut objects = Vec::new();
        loop {
            // A page can end between the copies of an object. The next one shows the others.
            let goes_on = self
                .page
                .as_ref()
                .filter(|(of, last, _)| *of == window.cache && Some(last) == query.after.as_ref());
            let skip = goes_on.map_or(usize::MAX, |(_, _, copies)| *copies);
            let page = cache.select(
                &query,
                skip,
                direct_read,
                evaluation_view.resource_view(window.cache),
                Some(meter),
            )?;
            self.record_pending(window.cache, page.pending_objects, meter);
            self.is_unsure |= page.is_unsure;
            let page_end = page.objects.last().map(|object| object.key().clone());
            let full = page.objects.len() == query.limit;
            let shows = |object: &Arc<Object>| {
                window.shows(object, meter) && evaluation_view.shows(window.cache, object.key())
            };
            objects.extend(page.objects.into_iter().filter(shows));
            self.page = page_end.clone().map(|key| (window.cache, key, page.copies_of_last));
            // If some were left out, the following objects fill the page.
            query.limit = limit.saturating_sub(objects.len());
            if !full || query.limit == 0 || page_end < query.after || meter.is_stopped() {
                break;
            }
            query.after = page_end;
        }
        drop(labels);
        self.grounds.add(window.cache, &scope, &objects);
        if is_first {
            let values = query.matches.iter().map(|of| of.values.len()).sum::<usize>();
            let values = values.saturating_add(bytes / BYTES_PER_VALUE).saturating_add(1);
            // If there was no result, the call has ended and depends on nothing.
            self.record_query(window.cache, values, || RecordedQuery::Query(Box::new(query)));
        }
        Ok(Ok(window.to_found(objects)))
    }

    fn record_pending(
        &mut self,
        cache: ResourceId,
        keys: impl IntoIterator<Item = Key>,
        meter: &Meter,
    ) {
        for key in keys {
            if !meter.spend(self.pending_objects.len()) {
                return;
            }
            let pending_objects = (cache, key);
            if !self.pending_objects.contains(&pending_objects) {
                self.pending_objects.push(pending_objects);
            }
        }
    }

    /// Records a query, within the limits.
    fn record_query(
        &mut self,
        cache: ResourceId,
        values: usize,
        question: impl FnOnce() -> RecordedQuery,
    ) {
        self.values = self.values.saturating_add(values);
        if self.values <= MAX_RECORDED_VALUES {
            self.recorded_queries.push((cache, question()));
        } else if !self
            .recorded_queries
            .iter()
            .any(|(of, known)| *of == cache && matches!(known, RecordedQuery::Anything))
        {
            self.recorded_queries.push((cache, RecordedQuery::Anything));
        }
    }

    fn record_scope(&mut self, cache: ResourceId, scope: QueryScope, meter: &Meter) {
        if !meter.spend(self.queries.len()) {
            return;
        }
        let asked = (cache, scope);
        if !self.queries.contains(&asked) {
            self.queries.push(asked);
        }
    }

    /// One object.
    fn get_object(
        &mut self,
        resource: &wit::GroupVersionResource,
        namespace: &str,
        name: &str,
        payer: ResultAccounts<'_>,
    ) -> ReadResult {
        let key = Key::new(namespace, name);
        let view = self.view.clone();
        // In a cluster-scoped query without a name, the name of the Namespace is empty, too.
        let within = if namespace.is_empty() { name } else { namespace };
        let window = match view.window(resource, Some(within)) {
            Ok(window) => window,
            Err(error) => match view.partial_window(resource, &key, &self.evaluation_view) {
                Some(window) => window,
                None => return Ok(Err(error)),
            },
        };
        let Some(cache) = view.cluster.as_ref().and_then(|c| c.cache(window.cache)) else {
            return Ok(Ok(QueryResult::default()));
        };
        if !can_exist(cache, Some(namespace), Some(name))
            || !self.evaluation_view.shows(window.cache, &key)
        {
            return Ok(Ok(QueryResult::default()));
        }
        let scope = QueryScope::Object(key.clone());
        let evaluation_view = self.evaluation_view.clone();
        let direct_read = evaluation_view
            .direct_reads
            .as_ref()
            .and_then(|direct_read| direct_read.listing(window.cache, &scope));
        self.record_scope(window.cache, scope.clone(), payer.meter);
        self.record_query(window.cache, 1, || RecordedQuery::Object(key.clone()));
        let got = cache.get(&key, direct_read, evaluation_view.resource_view(window.cache))?;
        if got.differs_by_state {
            self.record_pending(window.cache, [key], payer.meter);
        }
        self.is_unsure |= got.is_unsure;
        let objects = got.object.filter(|object| window.shows(object, payer.meter));
        let objects: Vec<_> = objects.into_iter().collect();
        self.grounds.add(window.cache, &scope, &objects);
        Ok(Ok(window.to_found(objects)))
    }
}

impl ClusterReader for Reader {
    fn get(
        &mut self,
        resource: &wit::GroupVersionResource,
        namespace: &str,
        name: &str,
        payer: ResultAccounts<'_>,
    ) -> ReadResult {
        let query = self.is_recorded().then(|| get_query(resource, namespace, name));
        let answer = match self.repeated_result(resource, query.as_deref()) {
            Some(answer) => Ok(answer),
            None => self.get_object(resource, namespace, name, payer),
        };
        self.record_result(query, &answer, true);
        self.count_query(resource, answer)
    }

    fn list(
        &mut self,
        resource: &wit::GroupVersionResource,
        query: PolicyQuery,
        payer: ResultAccounts<'_>,
    ) -> ReadResult {
        let text = self.is_recorded().then(|| list_query("list", resource, &query));
        let answer = match self.repeated_result(resource, text.as_deref()) {
            Some(answer) => Ok(answer),
            None => self.select(resource, query, MAX_DOCUMENTS, payer),
        };
        self.record_result(text, &answer, true);
        self.count_query(resource, answer)
    }

    fn names(
        &mut self,
        resource: &wit::GroupVersionResource,
        query: PolicyQuery,
        payer: ResultAccounts<'_>,
    ) -> ReadResult {
        let text = self.is_recorded().then(|| list_query("names", resource, &query));
        let answer = match self.repeated_result(resource, text.as_deref()) {
            Some(answer) => Ok(answer),
            None => self.select(resource, query, MAX_NAMES, payer),
        };
        self.record_result(text, &answer, false);
        self.count_query(resource, answer)
    }

    fn sample(
        &mut self,
        resource: &wit::GroupVersionResource,
        limit: usize,
    ) -> Result<Result<Sample, ReadError>, CacheUnavailable> {
        let query = self.is_recorded().then(|| sample_query(resource, limit));
        let sample = match (&mut self.repeated, &query) {
            (Some(repeated), Some(query)) => Ok(repeated.sample(query.clone())),
            _ => self.sample_objects(resource, limit),
        };
        if let (Some(reads), Some(query), Ok(sample)) = (&mut self.call_reads, query, &sample) {
            reads.add_sample(query, sample);
        }
        if let Ok(found) = &sample {
            self.query_counter
                .count(resource, found.as_ref().ok().map(|found| found.objects.len()));
        }
        sample
    }
}

impl Reader {
    /// Whether reads are recorded or repeated.
    fn is_recorded(&self) -> bool {
        self.call_reads.is_some() || self.repeated.is_some()
    }

    /// The recorded result of a query; none if the cluster answers it.
    fn repeated_result(
        &mut self,
        resource: &wit::GroupVersionResource,
        query: Option<&str>,
    ) -> Option<Result<QueryResult, ReadError>> {
        let (repeated, query) = (self.repeated.as_mut()?, query?);
        let is_it = |known: &Resource| {
            known.resource == resource.resource
                && known.group == resource.group
                && known.version == resource.version
        };
        let window = self.view.windows.iter().find(|(known, _)| is_it(known));
        Some(repeated.objects(query.to_owned(), window.map(|(_, window)| &window.scope)))
    }

    fn record_result(&mut self, query: Option<String>, answer: &ReadResult, with_fields: bool) {
        if let (Some(reads), Some(query)) = (&mut self.call_reads, query) {
            reads.add(query, answer, with_fields);
        }
    }

    /// Returns a sample of custom resources.
    fn sample_objects(
        &mut self,
        resource: &wit::GroupVersionResource,
        limit: usize,
    ) -> Result<Result<Sample, ReadError>, CacheUnavailable> {
        let wit::GroupVersionResource { group, version, resource } = resource;
        let (group, version, resource) = (group.clone(), version.clone(), resource.clone());
        let resource = Resource { group, version, resource };
        let limit = limit.clamp(1, MAX_SAMPLE_OBJECTS);
        let source = match self.view.may_sample(&resource) {
            Ok(source) => source,
            Err(error) => return Ok(Err(error)),
        };
        let Some(cluster) = &self.view.cluster else { return Ok(Ok(Sample::default())) };
        if source != Source::Live {
            let none = || match source {
                Source::PartialSnapshot => {
                    Err(ReadError::NoCluster(format!("{resource}: {NOT_IN_FILES}")))
                }
                _ => Ok(Sample { objects: Vec::new(), complete: true }),
            };
            return Ok(cluster.files.sample(&resource, limit).map_or_else(none, Ok));
        }
        let known =
            self.evaluation_view.samples.as_ref().and_then(|known| known.get(&resource, limit));
        match known {
            Some(Ok(sample)) => Ok(Ok(sample)),
            Some(Err(SampleError::NotGranted(why))) => Ok(Err(ReadError::NotGranted(why))),
            Some(Err(SampleError::Unavailable(why))) => Ok(Err(ReadError::Unavailable(why))),
            Some(Err(SampleError::Busy(why))) => Err(CacheUnavailable::SampleQueueFull(why)),
            None => {
                let named = resource.to_string();
                self.needed_samples.push((resource, limit));
                Err(CacheUnavailable::SampleNeeded(named))
            }
        }
    }
}

/// Whether such an object is possible. An API server is not queried for an invalid name, or for
/// another namespace than the one that is read. Policies take names from texts of tenants.
fn can_exist(cache: &ResourceCache, namespace: Option<&str>, name: Option<&str>) -> bool {
    let label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_namespace = |text: &str| text.len() <= 63 && text.bytes().all(label);
    // The name is a path segment, as API servers require.
    let is_name = |text: &str| {
        !matches!(text, "" | "." | "..") && text.len() <= 253 && !text.contains(['/', '%'])
    };
    let is_read = |namespace: &str| cache.namespace().is_none_or(|read| read == namespace);
    namespace.is_none_or(|text| is_namespace(text) && is_read(text)) && name.is_none_or(is_name)
}

impl PolicyView {
    /// The window on a resource, for a query within a namespace, or within all of them.
    fn window(
        &self,
        resource: &wit::GroupVersionResource,
        within: Option<&str>,
    ) -> Result<&Arc<ReadWindow>, ReadError> {
        let wit::GroupVersionResource { group, version, resource } = resource;
        let is_it = |known: &Resource| {
            known.resource == *resource && known.group == *group && known.version == *version
        };
        let asked = || {
            let line = |text: &String| opgate_text::one_line(text, 128);
            Resource { group: line(group), version: line(version), resource: line(resource) }
        };
        match self.windows.iter().find(|(known, _)| is_it(known)) {
            Some(_) if self.is_absent() => {
                Err(ReadError::NoCluster(format!("{}: there is no cluster to ask", asked())))
            }
            Some((_, window)) if self.is_unknown_in_snapshot(window, within) => {
                Err(ReadError::NoCluster(format!("{}: {NOT_IN_FILES}", asked())))
            }
            Some((_, window)) if self.is_unlisted(window) => {
                Err(ReadError::NoCluster(format!("{}: it could not be listed", asked())))
            }
            Some((_, window)) => {
                match self.cache(window).and_then(|cache| cache.unavailable_error()) {
                    None => Ok(window),
                    Some(why) => Err(why),
                }
            }
            None => match self
                .unavailable
                .iter()
                .find(|unavailable_read| is_it(&unavailable_read.resource))
            {
                Some(unavailable_read) => match &unavailable_read.reason {
                    UnavailableReason::Off => Err(ReadError::NoCluster(format!(
                        "{} is not read: the rules that need it are off",
                        asked()
                    ))),
                    UnavailableReason::NotSet(settings) => Err(ReadError::Unavailable(format!(
                        "{} is read only with the setting {}",
                        asked(),
                        settings.join(" or ")
                    ))),
                    UnavailableReason::OnlyInFiles => Err(ReadError::Unavailable(format!(
                        "{} is made of files, no API server has it",
                        asked()
                    ))),
                },
                None => Err(ReadError::NotDeclared(format!(
                    "{} is not among the declared reads",
                    asked()
                ))),
            },
        }
    }

    /// The window on an object of a resource of which only some objects are known, including this
    /// one. It is unknown whether other objects exist.
    fn partial_window(
        &self,
        resource: &wit::GroupVersionResource,
        key: &Key,
        evaluation_view: &EvaluationView,
    ) -> Option<&Arc<ReadWindow>> {
        let is_it = |known: &Resource| {
            known.resource == resource.resource
                && known.group == resource.group
                && known.version == resource.version
        };
        let (_, window) = self.windows.iter().find(|(known, _)| is_it(known))?;
        let cache = self.cache(window).filter(|cache| cache.is_partial())?;
        let found = cache.get(key, None, evaluation_view.state).ok()?.object;
        (found.is_some() && evaluation_view.shows(window.cache, key)).then_some(window)
    }

    /// Whether the policy may see objects of any kind of the cluster, and their source.
    fn may_sample(&self, resource: &Resource) -> Result<Source, ReadError> {
        let line = |text: &String| opgate_text::one_line(text, 253);
        let named = || format!("{}.{}", line(&resource.resource), line(&resource.group));
        let source = self.cluster.as_ref().map_or(Source::Absent, |cluster| cluster.options.source);
        match (&self.sample_access, source) {
            (SampleAccess::Undeclared, _) => {
                Err(ReadError::NotDeclared("no rule is declared in `samples`".to_owned()))
            }
            (SampleAccess::Off, _) => Err(ReadError::NoCluster(format!(
                "{} is not listed: the rules that need it are off",
                named()
            ))),
            (_, Source::Absent) => {
                Err(ReadError::NoCluster(format!("{}: there is no cluster to ask", named())))
            }
            (_, Source::Listed) => Err(ReadError::NoCluster(format!(
                "{}: an audit lists no custom resources for another object",
                named()
            ))),
            (_, source @ (Source::Snapshot | Source::PartialSnapshot)) => Ok(source),
            (SampleAccess::On(_), Source::Live) if !is_custom_resource(resource) => {
                Err(ReadError::Unavailable(format!("{} is not a custom resource", named())))
            }
            (SampleAccess::On(grants), Source::Live) if !grants.allows(resource) => {
                Err(ReadError::NotGranted(format!(
                    "{} may not be listed: add it to `allowedSamples` of the policy in the configuration",
                    named()
                )))
            }
            (SampleAccess::On(_), Source::Live) => Ok(source),
        }
    }

    fn cache(&self, window: &ReadWindow) -> Option<&Arc<ResourceCache>> {
        self.cluster.as_ref()?.cache(window.cache)
    }

    /// Whether a partial snapshot has no information on it.
    fn is_unknown_in_snapshot(&self, window: &ReadWindow, within: Option<&str>) -> bool {
        let excerpt =
            |cluster: &&Arc<ClusterState>| cluster.options.source == Source::PartialSnapshot;
        self.cluster.as_ref().filter(excerpt).is_some_and(|cluster| {
            let is_open = |cache: &Arc<ResourceCache>| cache.has_no_objects() || cache.is_partial();
            within == Some("") || cluster.cache(window.cache).is_none_or(is_open)
        })
    }

    /// Whether a resource could not be listed.
    fn is_unlisted(&self, window: &ReadWindow) -> bool {
        let listed = |cluster: &&Arc<ClusterState>| cluster.options.source == Source::Listed;
        self.cluster.as_ref().filter(listed).is_some_and(|cluster| {
            cluster.cache(window.cache).is_none_or(|cache| !cache.was_listed())
        })
    }

    fn is_absent(&self) -> bool {
        self.cluster.as_ref().is_none_or(|cluster| cluster.options.source == Source::Absent)
    }
}

impl ReadWindow {
    fn to_found(&self, objects: Vec<Arc<Object>>) -> QueryResult {
        QueryResult::new(objects, self.scope.clone(), self.has_extra_fields)
    }

    /// Whether the policy declares to read an object of the kind.
    fn shows(&self, object: &Object, meter: &Meter) -> bool {
        meter.spend(1)
            && self.namespace.as_deref().is_none_or(|ns| *ns == *object.key().namespace)
            && self.labels.as_ref().is_none_or(|labels| labels.matches(|key| object.label(key)))
    }
}
