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
//!   direct: the API server ──▶ EvaluationView (a World, direct reads) ─▶ Reader (per call) ─▶ policy
//!   samples: the same ───────────▶ (of any kind, for one review)
//! ```
//!
//! A policy gets a result from a cache that is ready, or none. If a resource is not synced, or the
//! last contact was too long ago, the call ends with a policy error, and the policy's `onError`
//! applies.
//!
//! At least one of two concurrent requests must be evaluated with the change of the other. An
//! allowed change is *reserved* ([`ClusterState::reserve`]). Until it is known whether the API server
//! stored it, a verdict must hold both with it and without it ([`decide()`]).

mod aside;
mod audit;
mod cache;
mod claims;
mod confirm;
mod connection;
mod decide;
pub(crate) mod decode;
mod direct;
mod inspect;
mod list_splitter;
mod list_watch;
mod memory;
mod paging;
mod query_stats;
pub(crate) mod reader;
mod requests;
mod reservation_registry;
mod reservations;
mod samples;
mod settling;
mod snapshot;
#[cfg(test)]
mod tests;
mod token;
mod unreadable;
mod usage;
mod view;

use std::sync::Arc;
use std::time::Duration;

use opgate_cluster::{Declaration, Key, Resource, Selector};
use opgate_document::Document;

pub use audit::{Group, Served};
use cache::Allowed;
pub use cache::{CacheStatus, Counters, ResourceCache, Status};
pub use claims::{Claim, Claims};
pub use confirm::{Ground, Grounds};
pub use connection::{Connection, ConnectionError, Watches};
pub use decide::{Evaluate, Evaluation, EvaluationError, OnWatchFailure, ReadConsistency, decide};
pub use direct::{Api, Direct};
pub use inspect::{Refused, Release, Selected};
pub use opgate_engine::reader::NotCurrent;
pub use query_stats::Tally;
pub use reader::{PolicyView, Reader, SampleAccess, UnavailableRead, UnavailableReason};
pub use reservations::{Bounds, Question};
use reservations::{Tenant, Usage};
pub use samples::{Ask, Grants, NoSample, Samples};
pub use snapshot::{Listings, Snapshot};
pub use unreadable::{NotKept, UnreadableObjects};
pub use usage::ReservationUsage;
pub use view::{
    DirectReadPlan, DirectReads, EvaluationView, Listing, PossibleState, QueryScope,
    ReviewedObject, Sight,
};

use crate::review::{Operation, Review};
use memory::Memory;

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
pub struct Options {
    /// The source of the objects.
    pub source: Source,
    /// The maximum time without contact. After it, the cache of a resource is stale.
    pub max_age: Duration,
    /// The interval at which a resource that cannot be watched is listed.
    pub poll: Duration,
    /// The time in which an allowed object must be stored.
    pub reservation: Duration,
    /// The limit of reservations.
    pub bounds: Bounds,
    /// The handling of queries about a resource whose watch fails.
    pub interrupted: OnWatchFailure,
    /// Maximum bytes of the objects that are kept.
    pub memory: usize,
}

impl Options {
    /// The defaults. Five minutes without contact are too long, because an API server sends a
    /// bookmark every minute. An API server stores an allowed object milliseconds later, unless
    /// another webhook is slow. A resource that cannot be watched is listed every minute.
    #[must_use]
    pub fn of(source: Source) -> Self {
        Self {
            source,
            max_age: Duration::from_secs(300),
            poll: Duration::from_secs(60),
            reservation: Duration::from_secs(2),
            bounds: Bounds::AUTHENTICATED,
            interrupted: OnWatchFailure::Read,
            memory: usize::MAX,
        }
    }
}

/// All objects of the cluster that policies read.
#[derive(Debug)]
pub struct ClusterState {
    kinds: Vec<Arc<ResourceCache>>,
    options: Options,
    /// The registry in which reservations are compared and made, one at a time with other cluster
    /// states of the same server.
    seat: reservation_registry::RegistryHandle,
    claims: Claims,
    /// Objects of files for samples.
    files: samples::Files,
    /// The memory of the objects, shared with cluster state that this one replaces or that
    /// replaces it.
    memory: Arc<Memory>,
}

/// An allowed request that changes an object.
#[derive(Debug)]
pub struct Write {
    /// Kinds of this cluster state that keep such objects.
    kinds: Vec<usize>,
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
    pub why: String,
}

/// The result of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserved {
    /// It is made, or none is needed.
    Made,
    /// A reservation since then can change a result: the evaluation must be repeated.
    Outdated,
    /// It can change a result for a request that was repeated too often: that request has
    /// priority.
    Claimed,
}

impl ClusterState {
    /// Creates cluster state for all reads: one kind for each resource and namespace, with
    /// everything that any of them needs. A read of one namespace is never merged into a read of
    /// all namespaces, which would need another permission. If all reads have a label selector,
    /// there is one kind for each selector: a common kind would hold all objects, most of them
    /// unused.
    #[must_use]
    pub fn new(readings: &[ResolvedRead], options: Options) -> Self {
        Self::assemble(readings, options, None)
    }

    /// Creates cluster state that is to replace `other`. Kinds that both read in the same way are
    /// shared with their content. From now on, changes that are allowed with one of them are
    /// reserved for both.
    #[must_use]
    pub fn replacing(readings: &[ResolvedRead], other: &Self) -> Self {
        Self::assemble(readings, other.options, Some(other))
    }

    fn assemble(readings: &[ResolvedRead], options: Options, beside: Option<&Self>) -> Self {
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
            beside.map_or_else(|| Memory::new(options.memory), |other| other.memory.clone());
        let kind = |reading: &ResolvedRead| {
            let name = name(reading);
            let is_it = |kind: &&Arc<ResourceCache>| {
                kind.name() == name && reservation_registry::is_same(kind.reading(), reading)
            };
            let known = beside.and_then(|other| other.kinds.iter().find(is_it));
            let new = || {
                let kind = ResourceCache::new(reading.clone(), options, memory.clone());
                let kind = kind.named(name.clone());
                Arc::new(if beside.is_some() { kind.awaited() } else { kind })
            };
            known.cloned().unwrap_or_else(new)
        };
        let kinds: Vec<_> = merged.iter().map(kind).collect();
        let seat = reservation_registry::RegistryHandle::at(
            beside.map(|other| other.seat.desk()).unwrap_or_default(),
        );
        seat.acquire().add(&kinds);
        let (claims, files) = (Claims::default(), samples::Files::default());
        Self { kinds, options, seat, claims, files, memory }
    }

    /// The resources that policies read.
    #[must_use]
    pub fn kinds(&self) -> &[Arc<ResourceCache>] {
        &self.kinds
    }

    /// The options of this cluster state.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// Bytes of the objects that are kept, and their maximum.
    #[must_use]
    pub fn memory(&self) -> (usize, usize) {
        (self.memory.used(), self.memory.limit())
    }

    /// Keeps custom resources of files for samples.
    #[must_use]
    pub fn keeping_files(self) -> Self {
        Self { files: samples::Files::kept(), ..self }
    }

    /// Begins to serve, unless this cluster state has missed a change that was allowed since it
    /// was created: then it must be created again.
    #[must_use]
    pub fn serves(&self) -> bool {
        let turn = self.seat.acquire();
        let has_missed = self.kinds.iter().any(|kind| kind.awaits().has_missed(&turn));
        if !has_missed {
            self.kinds.iter().for_each(|kind| kind.awaits().activate(&turn));
        }
        !has_missed
    }

    /// Whether another cluster state has this kind as well.
    #[must_use]
    pub fn shares(&self, kind: &Arc<ResourceCache>) -> bool {
        self.kinds.iter().any(|known| Arc::ptr_eq(known, kind))
    }

    /// Whether cluster state that replaces this one, or is replaced by it, keeps objects like that
    /// of a review.
    pub(crate) fn is_kept_elsewhere(&self, review: &Review<'_>) -> bool {
        let (group, resource) = (&review.resource.group, &review.resource.name);
        let is_it = |kind: Arc<ResourceCache>| !self.shares(&kind) && kind.is_of(group, resource);
        !self.seat.is_alone() && self.seat.acquire().kinds().any(is_it)
    }

    fn position(&self, reading: &ResolvedRead) -> Option<usize> {
        let is_it = |kind: &Arc<ResourceCache>| {
            *kind.resource() == reading.resource
                && kind.namespace() == reading.namespace.as_deref()
                && (kind.labels().is_empty() || *kind.labels() == reading.labels)
        };
        self.kinds.iter().position(is_it)
    }

    /// Returns the kind of a read.
    #[must_use]
    pub fn kind_of(&self, reading: &ResolvedRead) -> Option<&Arc<ResourceCache>> {
        self.kinds.get(self.position(reading)?)
    }

    /// The object under review, if it must not conflict with itself: an audit evaluates each
    /// object as if it were new, and a file that is checked may contain an object that exists
    /// already.
    pub(crate) fn own(&self, review: &Review<'_>) -> Option<Arc<ReviewedObject>> {
        if !matches!(self.options.source, Source::PartialSnapshot | Source::Listed)
            || review.operation != Operation::Create
            || review.name.is_empty()
        {
            return None;
        }
        let kinds: Vec<_> = self.kinds_of(review).collect();
        (!kinds.is_empty()).then(|| Arc::new(ReviewedObject { kinds, key: key_of(review) }))
    }

    /// The object under review, for which other requests in progress do not matter: if one of them
    /// is stored, this one is not.
    pub(crate) fn reviewed(&self, review: &Review<'_>) -> Option<Arc<ReviewedObject>> {
        let is_write = matches!(review.operation, Operation::Create | Operation::Update);
        if self.options.source != Source::Live
            || !is_write
            || !review.sub_resource.is_empty()
            || review.name.is_empty()
        {
            return None;
        }
        let kinds: Vec<_> = self.kinds_of(review).collect();
        (!kinds.is_empty()).then(|| Arc::new(ReviewedObject { kinds, key: key_of(review) }))
    }

    /// Kinds of the object under review, in any version.
    fn kinds_of(&self, review: &Review<'_>) -> impl Iterator<Item = usize> {
        let of = |kind: &ResourceCache| kind.is_of(&review.resource.group, &review.resource.name);
        (0..).zip(&self.kinds).filter(move |(_, kind)| of(kind)).map(|(position, _)| position)
    }

    /// The change to reserve if a review is allowed; `None` if evaluations do not see it: it
    /// changes nothing that any policy reads, or will not be stored.
    #[must_use]
    pub fn change(
        &self,
        review: &Review<'_>,
        object: Option<&Arc<Document>>,
        old: Option<&Arc<Document>>,
    ) -> Option<Write> {
        let is_write = matches!(review.operation, Operation::Create | Operation::Update)
            && review.sub_resource.is_empty();
        if self.options.source != Source::Live || review.dry_run || !is_write {
            return None;
        }
        let (object, key) = (object?, key_of(review));
        let differ = |position: &usize| {
            let kind = self.kinds.get(*position);
            let new = |kind: &Arc<ResourceCache>| {
                kind.differ(old?.root(), object.root(), &key.namespace).into()
            };
            kind.and_then(new).unwrap_or(true)
        };
        let kinds: Vec<_> = self.kinds_of(review).filter(differ).collect();
        let is_any = !kinds.is_empty() || self.is_kept_elsewhere(review);
        let resource = (review.resource.group.to_string(), review.resource.name.to_string());
        let (resource, object, old) = (Some(resource), Some(object.clone()), old.cloned());
        let user = review.username.as_ref().into();
        is_any.then_some(Write { kinds, resource, key, user, object, old })
    }

    /// The numbers of reservations that were made and settled, by kind.
    #[must_use]
    pub fn counters(&self) -> Vec<Counters> {
        self.kinds.iter().map(|kind| kind.counters()).collect()
    }

    /// Reserves an allowed change until its outcome is known. The condition is that no reservation
    /// since `seen` can change the result of a query in `asked`, and that no other request has a
    /// claim on the change.
    ///
    /// # Errors
    /// If no more reservations are possible.
    pub fn reserve(
        &self,
        write: &Write,
        seen: &[Counters],
        asked: &[(usize, Question)],
        claim: Option<&Claim<'_>>,
    ) -> Result<Reserved, ReservationLimitReached> {
        let Some(object) = &write.object else { return Ok(Reserved::Made) };
        let turn = self.seat.acquire();
        let of = |kind: usize| {
            asked.iter().filter(move |(of, _)| *of == kind).map(|(_, question)| question)
        };
        let is_old = |(position, kind): (usize, &Arc<ResourceCache>)| {
            of(position).next().is_some() && kind.is_touched(seen.get(position), &of(position))
        };
        if (0..).zip(&self.kinds).any(is_old) {
            return Ok(Reserved::Outdated);
        }
        let version = |old: &Arc<Document>| {
            old.get("/metadata/resourceVersion").and_then(|v| v.text().map(str::to_owned))
        };
        let before = write.old.as_ref().and_then(version).unwrap_or_default();
        let tenant = Tenant { namespace: write.key.namespace.clone(), user: write.user.clone() };
        let allowed = Allowed {
            key: &write.key,
            object,
            old: write.old.as_ref().map(|old| old.root()),
            before: &before,
            tenant: &tenant,
        };
        let kinds = || {
            let kind = |position: &usize| Some((*position, self.kinds.get(*position)?));
            write.kinds.iter().filter_map(kind)
        };
        if self.claims.has_claims() {
            let made = kinds()
                .filter_map(|(position, kind)| Some((position, kind.made(allowed)?)))
                .collect::<Vec<_>>();
            if self.claims.must_wait(&made, claim) {
                return Ok(Reserved::Claimed);
            }
        }
        let others: Vec<_> = match &write.resource {
            Some((group, resource)) if !self.seat.is_alone() => turn
                .kinds()
                .filter(|kind| !self.shares(kind) && kind.is_of(group, resource))
                .collect(),
            _ => Vec::new(),
        };
        // A change is reserved in all kinds or in none.
        self.check_share(&tenant, write.kinds.len())?;
        for kind in kinds().map(|(_, kind)| kind).chain(&others) {
            if kind.check_room(allowed).is_err() && !kind.awaits().record_missed_change(&turn) {
                return Err(self.no_room(kind));
            }
        }
        for kind in kinds().map(|(_, kind)| kind).chain(&others) {
            if kind.reserve(allowed).is_err() && !kind.awaits().record_missed_change(&turn) {
                return Err(self.no_room(kind));
            }
        }
        Ok(Reserved::Made)
    }

    /// Checks whether `count` more reservations of a tenant fit into its share of the limit for
    /// all resources together.
    fn check_share(&self, tenant: &Tenant, count: usize) -> Result<(), ReservationLimitReached> {
        let (bounds, none) = (self.options.bounds.together(), Usage::default());
        // Their size is known when they are made.
        let more = Usage { count, bytes: 1 };
        let all = self.kinds.iter().fold(none, |sum, kind| sum.plus(kind.reserved()));
        let parts = self.kinds.iter().map(|kind| kind.reserved_by(tenant));
        let [namespace, user] = parts.fold([none; 2], |[namespace, user], [more, of_user]| {
            [namespace.plus(more), user.plus(of_user)]
        });
        let is_admitted = |usage: Usage| usage.admits(more, all, bounds);
        let is_cluster_scoped = tenant.namespace.is_empty();
        if is_admitted(user) && (is_cluster_scoped || is_admitted(namespace)) {
            return Ok(());
        }
        let most = self.kinds.iter().max_by_key(|kind| kind.reserved().bytes);
        Err(most.map_or(ReservationLimitReached { why: String::new() }, |kind| self.no_room(kind)))
    }

    /// Applies an allowed review to a snapshot, as the API server would store it.
    pub fn apply_allowed(&self, review: &Review<'_>) {
        if review.dry_run || review.operation == Operation::Connect {
            return;
        }
        let (inputs, key) = (review.inputs(), key_of(review));
        let object = inputs.object.filter(|_| review.operation != Operation::Delete);
        for kind in self.kinds_of(review).filter_map(|kind| self.kinds.get(kind)) {
            match &object {
                Some(object) => kind.apply(object.root(), &key.namespace),
                None if review.sub_resource.is_empty() => kind.delete(&key, "", ""),
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
    pub fn is_seen(&self) -> bool {
        let is_live = self.options.source == Source::Live;
        !is_live || (self.kinds.iter().all(|kind| kind.is_known()) && !self.sees_nothing())
    }

    /// Whether no resource that policies read has been listed. The version of the API server does
    /// not count, because all users may read it, and neither do optional resources.
    fn sees_nothing(&self) -> bool {
        let own = |kind: &&Arc<ResourceCache>| {
            !kind.resource().is_server_version() && !kind.is_optional()
        };
        let mut kinds = self.kinds.iter().filter(own).peekable();
        kinds.peek().is_some() && !kinds.any(|kind| kind.was_listed())
    }

    /// The time since the first list of any resource; none before it. The version of the API
    /// server counts only if nothing else is read.
    #[must_use]
    pub fn longest_seen(&self) -> Option<Duration> {
        let is_all = self.kinds.iter().all(|kind| kind.resource().is_server_version());
        let counts = |kind: &&Arc<ResourceCache>| is_all || !kind.resource().is_server_version();
        self.kinds.iter().filter(counts).filter_map(|kind| kind.status().seen).max()
    }

    /// Waits until everything that only this cluster state reads has been listed, except for
    /// resources that the other one has not listed either.
    pub async fn wait_synced_except(&self, other: &Self) {
        let is_missed = |kind: &&Arc<ResourceCache>| {
            let is_place = |known: &&Arc<ResourceCache>| {
                known.resource() == kind.resource() && known.namespace() == kind.namespace()
            };
            let was_missed = || other.kinds.iter().find(is_place).is_some_and(|k| !k.is_known());
            !other.shares(kind) && !was_missed()
        };
        for kind in self.kinds.iter().filter(is_missed) {
            loop {
                let told = kind.settled().notified();
                if kind.is_known() {
                    break;
                }
                told.await;
            }
        }
    }

    /// Waits until everything that policies read has been listed, or cannot be.
    pub async fn wait_synced(&self) {
        if self.kinds.is_empty() {
            return;
        }
        loop {
            let told: Vec<_> =
                self.kinds.iter().map(|kind| Box::pin(kind.settled().notified())).collect();
            if self.is_seen() {
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
