//! Cluster state, the part of the cluster that policies can query: exactly the objects that their
//! descriptors declare.
//!
//! ```text
//! descriptor.reads ─▶ ResolvedRead (per policy) ─▶ ResourceCache (one per resource, for all policies that read it)
//!
//!   live: list and watch, ─┐
//!         or poll          │
//!   snapshot: files        ┴▶ ResourceCache: objects, and reservations of allowed changes
//!                                │
//!   direct: the API server ──▶ EvaluationView (a possible state, direct reads) ─▶ Reader (per call) ─▶ policy
//!   samples: the same ───────────▶ (of any kind, for one review)
//! ```
//!
//! Each room uses only those above it: `reservations` is data, `store` holds it with the objects, `watch`
//! fills the store from the API server, and `read` answers the queries of a call.
//!
//! A policy gets a result from a cache that is ready, or none. If a resource is not synced, or the
//! last contact was too long ago, the call ends with a policy error, and the policy's `onError`
//! applies.
//!
//! At least one of two concurrent requests must be evaluated with the change of the other. An
//! allowed change is *reserved* ([`ClusterState::reserve`]). Until it is known whether the API server
//! stored it, a verdict must hold both with it and without it (`evaluation`).

mod ledger;
pub(crate) mod read;
mod reservations;
mod store;
#[cfg(test)]
mod tests;
pub(crate) mod watch;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opgate_cluster::{Declaration, Key, Resource, Selector};
use opgate_document::Document;

pub(crate) use ledger::{LedgerMark, SharedQuery};
pub use ledger::{
    LedgerRequests, LedgerStatus, LedgerStore, OpenReservation, ShareError, SharedReservations,
    StoreError, StoredLedger, exchange_ledger,
};
pub use opgate_engine::reader::CacheUnavailable;
pub use read::call_reads::{CallReads, ReadAnswers, ReadObject, ReadRecord};
pub use read::confirm::{DenialGround, GroundRecorder};
pub(crate) use read::confirm::{MAX_ROUNDS as MAX_CONFIRMATIONS, confirm};
pub use read::direct::DirectReader;
pub use read::query_stats::QueryStats;
pub use read::reader::{PolicyView, Reader, SampleAccess, UnavailableRead, UnavailableReason};
pub use read::samples::{GrantError, SampleGrants, Samples};
pub use read::view::{
    AnswersByPolicy, DirectReadPlan, DirectReads, EvaluationView, ReviewedObject,
};
pub(crate) use reservations::claims::CLAIM_RECHECK_INTERVAL;
pub use reservations::claims::{Claim, Claims};
pub use reservations::possible_state::{PossibleState, ResourceView};
pub use reservations::{RecordedQuery, ReservationLimits};
use reservations::{Tenant, Usage};
use store::cache::AllowedChange;
pub use store::cache::{CacheStatus, ReservationCounters, ResourceCache, ResourceStatus};
pub use store::listing::{Listing, QueryScope};
pub use store::reservation_usage::ReservationUsage;
pub use store::snapshot::{ListingBuilder, Snapshot, SnapshotError, UnstoredName};
pub use store::unreadable::{MissingContent, UnreadableObjects};
pub use watch::busy_retries::{BusyRetries, retry_after};
pub use watch::connection::{Connection, ConnectionError, Watches};
pub use watch::direct_read_source::{
    DirectReadError, DirectReadSource, SampleError, SampleRequest,
};
pub use watch::inspect::{ListFilter, ReadFailure, ServerInfo};
pub use watch::list_once::{ApiGroup, ListableResource};
pub use watch::object_pages::{ListError, ObjectPages};
pub use watch::page_backoff::PageBackoff;

pub(crate) use reservations::MAX_POSSIBLE_STATES;
pub(crate) use watch::settle_reservations::settle_all;

use crate::review::{Operation, Review};
use store::memory::CacheMemory;

/// The handling of queries that need an exact result while the watch of their resource fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OnWatchFailure {
    /// opgate reads from the API server directly.
    Read,
    /// The call ends with a policy error.
    Fail,
}

/// A resource of one [`ClusterState`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId(usize);

/// The reads of one policy from one resource, with its settings applied.
#[derive(Debug, Clone)]
pub struct ResolvedRead {
    /// The resource.
    pub resource: Resource,
    /// Fields and indexes.
    pub declaration: Declaration,
    /// Only objects with these labels.
    pub labels: Selector,
    /// Only in this namespace.
    pub namespace: Option<String>,
    /// Whether policies work without the objects if the server is not permitted to read them.
    pub optional: bool,
}

impl ResolvedRead {
    /// Names and labels of all namespaces.
    pub(crate) fn of_namespaces() -> Option<Self> {
        let (group, version) = (String::new(), "v1".to_owned());
        Some(Self {
            resource: Resource { group, version, resource: "namespaces".to_owned() },
            // Names and labels are always kept.
            declaration: Declaration::new(&[], &[], &[]).ok()?,
            labels: Selector::default(),
            namespace: None,
            optional: true,
        })
    }
}

/// The source of the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// None: rules that need the cluster are skipped.
    Absent,
    /// From files, which are complete.
    Snapshot,
    /// From files that may be incomplete, for requests that are files themselves. Rules are
    /// skipped if they need a resource without any object, or a namespace that no object names.
    PartialSnapshot,
    /// From an API server, each resource listed once. Rules are skipped if they need a resource
    /// that could not be listed.
    Listed,
    /// From an API server, with list and watch.
    Live,
}

/// The options of cluster state.
#[derive(Debug, Clone, Copy)]
pub struct ClusterOptions {
    /// The source of the objects.
    pub source: Source,
    /// The maximum time without contact. After it, the cache of a resource is stale.
    pub max_age: Duration,
    /// The interval at which a resource that cannot be watched is listed.
    pub poll_interval: Duration,
    /// The time in which an allowed object must be stored.
    pub reservation_ttl: Duration,
    /// The limit of reservations.
    pub reservation_limits: ReservationLimits,
    /// The handling of queries about a resource whose watch fails.
    pub on_watch_failure: OnWatchFailure,
    /// Maximum bytes of the objects that are kept.
    pub memory: usize,
}

impl ClusterOptions {
    /// The defaults. Five minutes without contact are too long, because an API server sends a
    /// bookmark every minute. An API server stores an allowed object milliseconds later, unless
    /// another webhook is slow. A resource that cannot be watched is listed every minute.
    #[must_use]
    pub fn of(source: Source) -> Self {
        Self {
            source,
            max_age: Duration::from_secs(300),
            poll_interval: Duration::from_secs(60),
            reservation_ttl: Duration::from_secs(2),
            reservation_limits: ReservationLimits::AUTHENTICATED,
            on_watch_failure: OnWatchFailure::Read,
            memory: usize::MAX,
        }
    }
}

/// The reservations of all replicas, once they are shared.
type SharedHandle = Arc<OnceLock<Arc<SharedReservations>>>;

/// All objects of the cluster that policies read.
#[derive(Debug)]
pub struct ClusterState {
    caches: Vec<Arc<ResourceCache>>,
    options: ClusterOptions,
    /// The registry in which reservations are compared and made, one at a time with other cluster
    /// states of the same server.
    registry_handle: store::reservation_registry::RegistryHandle,
    /// The reservations of all replicas; empty if this is the only one. The same for all cluster states of
    /// the server.
    shared: SharedHandle,
    claims: Claims,
    /// Objects of files for samples.
    files: read::samples::FileSamples,
    /// The memory of the objects, shared with cluster state that this one replaces or that
    /// replaces it.
    memory: Arc<CacheMemory>,
}

/// An allowed request that changes an object.
#[derive(Debug)]
pub struct ObjectWrite {
    /// Kinds of this cluster state that keep such objects.
    caches: Vec<ResourceId>,
    /// Group and resource of the object, to find kinds of other cluster states.
    resource: Option<(String, String)>,
    key: Key,
    /// The user who makes it.
    user: Arc<str>,
    object: Option<Arc<Document>>,
    old: Option<Arc<Document>>,
}

/// A change cannot be reserved for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationLimitReached {
    /// The share or limit that is reached, in one line.
    pub reason: String,
}

/// The result of a reservation.
#[derive(Debug)]
pub enum ReservationResult {
    /// It is made, or none is needed. If there are several replicas, the request must not be allowed before
    /// the ledger has the reservation.
    Made(Option<Box<OpenReservation>>),
    /// A reservation since then can change a result: the evaluation must be repeated.
    Outdated,
    /// It can change a result for a request that was repeated too often: that request has
    /// priority.
    MustWait,
}

impl ClusterState {
    /// Creates cluster state for all reads: one kind for each resource and namespace, with
    /// everything that any of them needs. A read of one namespace is never merged into a read of
    /// all namespaces, which would need another permission. If all reads have a label selector,
    /// there is one kind for each selector: a common kind would hold all objects, most of them
    /// unused.
    #[must_use]
    pub fn new(readings: &[ResolvedRead], options: ClusterOptions) -> Self {
        Self::assemble(readings, options, None)
    }

    /// Creates cluster state that is to replace `other`. Kinds that both read in the same way are
    /// shared with their content. From now on, changes that are allowed with one of them are
    /// reserved for both.
    #[must_use]
    pub fn replacing(readings: &[ResolvedRead], other: &Self) -> Self {
        Self::assemble(readings, other.options, Some(other))
    }

    fn assemble(
        readings: &[ResolvedRead],
        options: ClusterOptions,
        replaced: Option<&Self>,
    ) -> Self {
        let mut merged: Vec<ResolvedRead> = Vec::new();
        for reading in readings {
            let is_place = |known: &ResolvedRead| {
                known.resource == reading.resource && known.namespace == reading.namespace
            };
            let needs_all = readings.iter().any(|other| is_place(other) && other.labels.is_empty());
            let is_same = |known: &&mut ResolvedRead| {
                is_place(known) && (needs_all || known.labels == reading.labels)
            };
            match merged.iter_mut().find(is_same) {
                None => merged.push(reading.clone()),
                Some(known) => {
                    known.declaration = known.declaration.union(&reading.declaration);
                    known.optional &= reading.optional;
                    if known.labels != reading.labels {
                        known.labels = Selector::default();
                    }
                }
            }
        }
        // If a resource has several kinds, their limits distinguish them.
        let name = |reading: &ResolvedRead| {
            let of = merged.iter().filter(|other| other.resource == reading.resource).count();
            let namespace = reading.namespace.iter().map(|namespace| format!(" in {namespace}"));
            let labels = Some(&reading.labels).filter(|labels| !labels.is_empty());
            let labels = labels.into_iter().map(|labels| format!(" with {labels}"));
            let limits: String = namespace.chain(labels).take_while(|_| of > 1).collect();
            format!("{}{limits}", reading.resource)
        };
        let memory =
            replaced.map_or_else(|| CacheMemory::new(options.memory), |other| other.memory.clone());
        let cache = |reading: &ResolvedRead| {
            let name = name(reading);
            let is_it = |cache: &&Arc<ResourceCache>| {
                cache.name() == name
                    && store::reservation_registry::can_share_cache(cache.resolved_read(), reading)
            };
            let known = replaced.and_then(|other| other.caches.iter().find(is_it));
            let new = || {
                let cache = ResourceCache::new(reading.clone(), options, memory.clone());
                let cache = cache.with_name(name.clone());
                Arc::new(if replaced.is_some() { cache.into_standby() } else { cache })
            };
            known.cloned().unwrap_or_else(new)
        };
        let caches: Vec<_> = merged.iter().map(cache).collect();
        let registry_handle = store::reservation_registry::RegistryHandle::register(
            replaced.map(|other| other.registry_handle.registry()).unwrap_or_default(),
        );
        registry_handle.acquire().add(&caches);
        let shared: SharedHandle = replaced.map(|other| other.shared.clone()).unwrap_or_default();
        if let Some(shared) = shared.get() {
            shared.import_into(&caches);
        }
        let (claims, files) = (Claims::default(), read::samples::FileSamples::default());
        Self { caches, options, registry_handle, shared, claims, files, memory }
    }

    /// The resources that policies read.
    #[must_use]
    pub fn caches(&self) -> &[Arc<ResourceCache>] {
        &self.caches
    }

    /// One of the resources that policies read.
    #[must_use]
    pub fn cache(&self, id: ResourceId) -> Option<&Arc<ResourceCache>> {
        self.caches.get(id.0)
    }

    /// The resources that policies read, with their ids.
    pub(crate) fn caches_with_ids(
        &self,
    ) -> impl Iterator<Item = (ResourceId, &Arc<ResourceCache>)> {
        (0..).map(ResourceId).zip(&self.caches)
    }

    /// The claims of requests that were evaluated again too often.
    pub(crate) fn claims(&self) -> &Claims {
        &self.claims
    }

    /// The options of this cluster state.
    #[must_use]
    pub fn options(&self) -> ClusterOptions {
        self.options
    }

    /// Bytes of the objects that are kept, and their maximum.
    #[must_use]
    pub fn memory(&self) -> (usize, usize) {
        (self.memory.used(), self.memory.limit())
    }

    /// Keeps custom resources of files for samples.
    #[must_use]
    pub fn with_file_samples(self) -> Self {
        Self { files: read::samples::FileSamples::enabled(), ..self }
    }

    /// Begins to serve, unless this cluster state has missed a change that was allowed since it
    /// was created: then it must be created again.
    #[must_use]
    pub fn activate(&self) -> bool {
        let registry_lock = self.registry_handle.acquire();
        let has_missed =
            self.caches.iter().any(|cache| cache.standby_state().has_missed(&registry_lock));
        if !has_missed {
            self.caches.iter().for_each(|cache| cache.standby_state().activate(&registry_lock));
        }
        !has_missed
    }

    /// Whether another cluster state has this kind as well.
    #[must_use]
    pub fn shares(&self, cache: &Arc<ResourceCache>) -> bool {
        self.caches.iter().any(|known| Arc::ptr_eq(known, cache))
    }

    /// Whether cluster state that replaces this one, or is replaced by it, keeps objects like that
    /// of a review.
    pub(crate) fn is_cached_elsewhere(&self, review: &Review<'_>) -> bool {
        let (group, resource) = (&review.resource.group, &review.resource.name);
        let is_it = |cache: Arc<ResourceCache>| {
            !self.shares(&cache) && cache.holds_resource(group, resource)
        };
        !self.registry_handle.is_only_handle() && self.registry_handle.acquire().caches().any(is_it)
    }

    /// The resource of a read.
    pub(crate) fn id_of(&self, reading: &ResolvedRead) -> Option<ResourceId> {
        let is_it = |(_, cache): &(ResourceId, &Arc<ResourceCache>)| {
            *cache.resource() == reading.resource
                && cache.namespace() == reading.namespace.as_deref()
                && (cache.labels().is_empty() || *cache.labels() == reading.labels)
        };
        self.caches_with_ids().find(is_it).map(|(id, _)| id)
    }

    /// Returns the kind of a read.
    #[must_use]
    pub fn cache_of(&self, reading: &ResolvedRead) -> Option<&Arc<ResourceCache>> {
        self.cache(self.id_of(reading)?)
    }

    /// The object under review, if it must not conflict with itself: an audit evaluates each
    /// object as if it were new, and a file that is checked may contain an object that exists
    /// already.
    pub(crate) fn hidden_object(&self, review: &Review<'_>) -> Option<Arc<ReviewedObject>> {
        if !matches!(self.options.source, Source::PartialSnapshot | Source::Listed)
            || review.operation != Operation::Create
            || review.name.is_empty()
        {
            return None;
        }
        let caches: Vec<_> = self.ids_under_review(review).collect();
        (!caches.is_empty()).then(|| Arc::new(ReviewedObject { caches, key: key_of(review) }))
    }

    /// The object under review, for which other requests in progress do not matter: if one of them
    /// is stored, this one is not.
    pub(crate) fn reviewed_object(&self, review: &Review<'_>) -> Option<Arc<ReviewedObject>> {
        let is_write = matches!(review.operation, Operation::Create | Operation::Update);
        if self.options.source != Source::Live
            || !is_write
            || !review.sub_resource.is_empty()
            || review.name.is_empty()
        {
            return None;
        }
        let caches: Vec<_> = self.ids_under_review(review).collect();
        (!caches.is_empty()).then(|| Arc::new(ReviewedObject { caches, key: key_of(review) }))
    }

    /// The resources of the object under review, in any version.
    fn ids_under_review(&self, review: &Review<'_>) -> impl Iterator<Item = ResourceId> {
        let of = |cache: &ResourceCache| {
            cache.holds_resource(&review.resource.group, &review.resource.name)
        };
        self.caches_with_ids().filter(move |(_, cache)| of(cache)).map(|(id, _)| id)
    }

    /// The change to reserve if a review is allowed; `None` if evaluations do not see it: it
    /// changes nothing that any policy reads, or will not be stored.
    #[must_use]
    pub fn change(
        &self,
        review: &Review<'_>,
        object: Option<&Arc<Document>>,
        old: Option<&Arc<Document>>,
    ) -> Option<ObjectWrite> {
        let is_write = matches!(review.operation, Operation::Create | Operation::Update)
            && review.sub_resource.is_empty();
        if self.options.source != Source::Live || review.dry_run || !is_write {
            return None;
        }
        let (object, key) = (object?, key_of(review));
        let differ = |id: &ResourceId| {
            let cache = self.cache(*id);
            let new = |cache: &Arc<ResourceCache>| {
                cache.differs_in_stored_fields(old?.root(), object.root(), &key.namespace).into()
            };
            cache.and_then(new).unwrap_or(true)
        };
        let caches: Vec<_> = self.ids_under_review(review).filter(differ).collect();
        let is_any = !caches.is_empty() || self.is_cached_elsewhere(review);
        let resource = (review.resource.group.to_string(), review.resource.name.to_string());
        let (resource, object, old) = (Some(resource), Some(object.clone()), old.cloned());
        let user = review.username.as_ref().into();
        is_any.then_some(ObjectWrite { caches, resource, key, user, object, old })
    }

    /// Shares reservations with other replicas from now on. `replica` names this process. The result
    /// is for [`exchange_ledger`], which does it.
    #[must_use]
    pub fn share_reservations(&self, replica: &str) -> (Arc<SharedReservations>, LedgerRequests) {
        let registry = self.registry_handle.registry();
        let ttl = self.options.reservation_ttl;
        let (shared, requests) = SharedReservations::new(registry, replica, ttl);
        // Once in each process.
        let _ = self.shared.set(shared.clone());
        (shared, requests)
    }

    /// The longest time from a reservation until its object is stored: it can wait for the ledger before
    /// its request is allowed.
    #[must_use]
    pub fn max_reservation_time(&self) -> Duration {
        let append = self.shared.get().map_or(Duration::ZERO, |_| ledger::MAX_APPEND_TIME);
        self.options.reservation_ttl.saturating_add(append)
    }

    /// The state of the ledger; none if this is the only replica.
    #[must_use]
    pub fn ledger_status(&self) -> Option<LedgerStatus> {
        Some(self.shared.get()?.status())
    }

    /// Whether the ledger was just created and is not used yet.
    #[must_use]
    pub fn is_ledger_new(&self) -> bool {
        self.shared.get().is_some_and(|shared| shared.is_new())
    }

    /// What is known of the ledger before the first query of an evaluation; none if this is the only
    /// replica.
    pub(crate) fn ledger_mark(&self, direct_reads: Option<&DirectReads>) -> Option<LedgerMark> {
        let mut mark = self.shared.get()?.mark(&self.caches);
        for (id, listings) in direct_reads.iter().flat_map(|reads| &reads.0) {
            let versions = listings.iter().map(|(_, listing)| listing.version.parse().unwrap_or(0));
            if let Some(version) = versions.min() {
                mark.record_direct_read(*id, version);
            }
        }
        Some(mark)
    }

    /// The numbers of reservations that were made and settled, by kind.
    #[must_use]
    pub fn counters(&self) -> Vec<ReservationCounters> {
        self.caches.iter().map(|cache| cache.counters()).collect()
    }

    /// Reserves an allowed change until its outcome is known. The condition is that no reservation
    /// since `seen` can change the result of a query in `asked`, and that no other request has a
    /// claim on the change.
    ///
    /// # Errors
    /// If no more reservations are possible.
    pub fn reserve(
        &self,
        write: &ObjectWrite,
        seen: &[ReservationCounters],
        asked: &[(ResourceId, RecordedQuery)],
        claim: Option<&Claim<'_>>,
    ) -> Result<ReservationResult, ReservationLimitReached> {
        let Some(object) = &write.object else { return Ok(ReservationResult::Made(None)) };
        let registry_lock = self.registry_handle.acquire();
        let of = |id: ResourceId| {
            asked.iter().filter(move |(of, _)| *of == id).map(|(_, question)| question)
        };
        let is_old = |(id, cache): (ResourceId, &Arc<ResourceCache>)| {
            of(id).next().is_some() && cache.is_affected_since(seen.get(id.0), &of(id), None)
        };
        if self.caches_with_ids().any(is_old) {
            return Ok(ReservationResult::Outdated);
        }
        let version = |old: &Arc<Document>| {
            old.get("/metadata/resourceVersion").and_then(|v| v.text().map(str::to_owned))
        };
        let before = write.old.as_ref().and_then(version).unwrap_or_default();
        let tenant = Tenant { namespace: write.key.namespace.clone(), user: write.user.clone() };
        let shared = self.shared.get();
        let id = shared.map(|shared| shared.next_id());
        let allowed = AllowedChange {
            id: id.as_ref(),
            key: &write.key,
            object,
            old: write.old.as_ref().map(|old| old.root()),
            base_version: &before,
            tenant: &tenant,
        };
        let caches = || {
            let cache = |id: &ResourceId| Some((*id, self.cache(*id)?));
            write.caches.iter().filter_map(cache)
        };
        if self.claims.has_claims() {
            let made = caches()
                .filter_map(|(id, cache)| Some((id, cache.reserved_change(allowed)?)))
                .collect::<Vec<_>>();
            if self.claims.must_wait(&made, claim) {
                return Ok(ReservationResult::MustWait);
            }
        }
        let others: Vec<_> = match &write.resource {
            Some((group, resource)) if !self.registry_handle.is_only_handle() => registry_lock
                .caches()
                .filter(|cache| !self.shares(cache) && cache.holds_resource(group, resource))
                .collect(),
            _ => Vec::new(),
        };
        // A change is reserved in all kinds or in none.
        self.check_share(&tenant, write.caches.len())?;
        for cache in caches().map(|(_, cache)| cache).chain(&others) {
            if cache.check_limits(allowed).is_err()
                && !cache.standby_state().record_missed_change(&registry_lock)
            {
                return Err(self.reservation_limit_error(cache));
            }
        }
        let mut reserved = Vec::new();
        for cache in caches().map(|(_, cache)| cache).chain(&others) {
            match cache.reserve(allowed) {
                Ok(true) => reserved.push(cache.clone()),
                Ok(false) => {}
                // This cache is made again, but other replicas must know of the change.
                Err(_) if cache.standby_state().record_missed_change(&registry_lock) => {
                    reserved.push(cache.clone());
                }
                Err(_) => return Err(self.reservation_limit_error(cache)),
            }
        }
        let open = shared.cloned().zip(id).filter(|_| !reserved.is_empty()).map(|(shared, id)| {
            // Not the counters of now: imports do not take the lock, so one can have come since the check.
            let seen = self.caches.iter().cloned().zip(seen.iter().copied()).collect();
            Box::new(OpenReservation::new(shared, id, write, &before, &tenant, reserved, seen))
        });
        Ok(ReservationResult::Made(open))
    }

    /// Checks whether `count` more reservations of a tenant fit into its share of the limit for
    /// all resources together.
    fn check_share(&self, tenant: &Tenant, count: usize) -> Result<(), ReservationLimitReached> {
        let (bounds, none) =
            (self.options.reservation_limits.for_all_resources(), Usage::default());
        // Their size is known when they are made.
        let more = Usage { count, bytes: 1 };
        let all = self.caches.iter().fold(none, |sum, cache| sum.plus(cache.reservation_usage()));
        let parts = self.caches.iter().map(|cache| cache.tenant_usage(tenant));
        let [namespace, user] = parts.fold([none; 2], |[namespace, user], [more, of_user]| {
            [namespace.plus(more), user.plus(of_user)]
        });
        let is_admitted = |usage: Usage| usage.admits(more, all, bounds);
        let is_cluster_scoped = tenant.namespace.is_empty();
        if is_admitted(user) && (is_cluster_scoped || is_admitted(namespace)) {
            return Ok(());
        }
        let most = self.caches.iter().max_by_key(|cache| cache.reservation_usage().bytes);
        Err(most.map_or(ReservationLimitReached { reason: String::new() }, |cache| {
            self.reservation_limit_error(cache)
        }))
    }

    /// Applies an allowed review to a snapshot, as the API server would store it.
    pub fn apply_allowed(&self, review: &Review<'_>) {
        if review.dry_run || review.operation == Operation::Connect {
            return;
        }
        let (inputs, key) = (review.inputs(), key_of(review));
        let object = inputs.object.filter(|_| review.operation != Operation::Delete);
        for cache in self.ids_under_review(review).filter_map(|cache| self.cache(cache)) {
            match &object {
                Some(object) => cache.apply(object.root(), &key.namespace),
                None if review.sub_resource.is_empty() => cache.delete(&key, "", ""),
                None => {}
            }
        }
        let (group, resource) = (&review.resource.group, &review.resource.name);
        match &object {
            Some(object) => self.files.put(group, resource, object.root(), &key.namespace),
            None if review.sub_resource.is_empty() => self.files.remove(group, resource, &key),
            None => {}
        }
    }

    /// Whether everything that policies read has been listed, except for resources that the API
    /// server cannot serve while it serves others.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        let is_live = self.options.source == Source::Live;
        let is_shared = || self.shared.get().is_none_or(|shared| shared.was_ready());
        let is_listed =
            || self.caches.iter().all(|cache| cache.is_resolved()) && !self.has_no_lists();
        !is_live || (is_listed() && is_shared())
    }

    /// Whether no resource that policies read has been listed. The version of the API server does
    /// not count, because all users may read it, and neither do optional resources.
    fn has_no_lists(&self) -> bool {
        let own = |cache: &&Arc<ResourceCache>| {
            !cache.resource().is_server_version() && !cache.is_optional()
        };
        let mut caches = self.caches.iter().filter(own).peekable();
        caches.peek().is_some() && !caches.any(|cache| cache.was_listed())
    }

    /// The time since the first list of any resource; none before it. The version of the API
    /// server counts only if nothing else is read.
    #[must_use]
    pub fn time_since_first_list(&self) -> Option<Duration> {
        let is_all = self.caches.iter().all(|cache| cache.resource().is_server_version());
        let counts = |cache: &&Arc<ResourceCache>| is_all || !cache.resource().is_server_version();
        self.caches.iter().filter(counts).filter_map(|cache| cache.status().since_first_list).max()
    }

    /// Waits until everything that only this cluster state reads has been listed, except for
    /// resources that the other one has not listed either.
    pub async fn wait_synced_except(&self, other: &Self) {
        let is_missed = |cache: &&Arc<ResourceCache>| {
            let is_place = |known: &&Arc<ResourceCache>| {
                known.resource() == cache.resource() && known.namespace() == cache.namespace()
            };
            let was_missed =
                || other.caches.iter().find(is_place).is_some_and(|k| !k.is_resolved());
            !other.shares(cache) && !was_missed()
        };
        for cache in self.caches.iter().filter(is_missed) {
            loop {
                let told = cache.settled_notify().notified();
                if cache.is_resolved() {
                    break;
                }
                told.await;
            }
        }
    }

    /// Waits until everything that policies read has been listed, or cannot be.
    pub async fn wait_synced(&self) {
        if self.caches.is_empty() {
            return;
        }
        loop {
            let told: Vec<_> = self
                .caches
                .iter()
                .map(|cache| Box::pin(cache.settled_notify().notified()))
                .collect();
            if self.is_synced() {
                return;
            }
            futures_util::future::select_all(told).await;
        }
    }
}

/// The object under review.
fn key_of(review: &Review<'_>) -> Key {
    Key::new(review.own_namespace(), &review.name)
}
