//! What this replica knows of the ledger: the machine, the requests that wait for it, and the
//! entries of other replicas.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use opgate_cluster::Key;
use opgate_ledger::{
    Append, AppendError, Change, Config, Content, Entry, EntryId, Evaluations, ImportMark, Input,
    LedgerState, Limits, Machine, Outcome, Output, ReplicaId, RequestId, Resource, Usage,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::share_error::ShareError;
use super::shared_content::{SharedContent, resource_name};
use crate::cluster::reservations::{ForeignChange, Origin, RecordedQuery, ReservationId, Tenant};
use crate::cluster::store::cache::ReservationCounters;
use crate::cluster::store::reservation_registry::ReservationRegistry;
use crate::cluster::{ReservationLimitReached, ResourceCache, ResourceId};

/// The longest time from an append to the response. An append that takes longer fails. All servers
/// wait this long, and the reservation TTL, before they use a new ledger.
pub(in crate::cluster) const MAX_APPEND_TIME: Duration = Duration::from_secs(5);

/// The time after which a settled entry is removed by a separate write.
const REMOVAL_DELAY: Duration = Duration::from_millis(250);

/// The wait after a failed read or write.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The reservations of all replicas, as one replica sees them.
#[derive(Debug)]
pub struct SharedReservations {
    registry: Arc<ReservationRegistry>,
    state: Mutex<State>,
    /// The mark of the last import that the caches have as a whole. It has its own lock, because
    /// requests that reserve nothing must not wait for imports.
    imported_mark: Mutex<ImportMark>,
    /// Requests of the machine to the API server, for the task that exchanges them.
    exchange: mpsc::UnboundedSender<Output>,
    /// Notified when the machine may want to be woken earlier.
    changed: Notify,
    /// The origin of the machine's times.
    started: Instant,
    next_id: AtomicU64,
    /// Whether the ledger could be used at any time.
    was_ready: AtomicBool,
    statistics: LedgerStatistics,
}

/// Figures of this replica since its start.
#[derive(Debug, Default)]
struct LedgerStatistics {
    appends: AtomicU64,
    outdated: AtomicU64,
    writes: AtomicU64,
    conflicts: AtomicU64,
    wait_micros: AtomicU64,
}

#[derive(Debug)]
struct State {
    machine: Machine,
    waiting: HashMap<RequestId, WaitingRequest>,
    /// Entries of other replicas that count as reservations here.
    imported: HashMap<Arc<str>, Arc<Entry>>,
}

/// A request that waits for the ledger.
#[derive(Debug)]
struct WaitingRequest {
    evaluated: Evaluated,
    /// The time before which the response must be sent.
    result: oneshot::Sender<Result<Instant, ShareError>>,
}

/// What an evaluation has queried, and the reservations that it has seen.
#[derive(Debug)]
pub(super) struct Evaluated {
    pub(super) queries: Vec<SharedQuery>,
    pub(super) seen: Vec<(Arc<ResourceCache>, ReservationCounters)>,
}

impl Evaluated {
    /// Whether a change of another replica since then can change a result.
    fn is_outdated(&self) -> bool {
        self.seen.iter().any(|(cache, seen)| {
            let queries = self.queries.iter().filter(|query| Arc::ptr_eq(&query.cache, cache));
            let queries = queries.map(|query| &query.query);
            queries.clone().next().is_some()
                && cache.is_affected_since(Some(seen), &queries, Some(Origin::Foreign))
        })
    }
}

/// What an evaluation knew of the ledger before its first query. All evaluations take one, also those
/// that reserve nothing in the end, so it has only numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct LedgerMark {
    mark: ImportMark,
    /// The versions of the caches, by [`ResourceId`].
    versions: Vec<u64>,
    /// The versions of direct reads, the oldest of each cache.
    direct_reads: BTreeMap<ResourceId, u64>,
}

impl LedgerMark {
    /// Records that a resource was read directly, at this version.
    pub(crate) fn record_direct_read(&mut self, id: ResourceId, version: u64) {
        let known = self.direct_reads.entry(id).or_insert(version);
        *known = version.min(*known);
    }

    /// Records that a query was answered by the cache: no direct read of the resource counts.
    pub(crate) fn record_cached_read(&mut self, id: ResourceId) {
        self.direct_reads.remove(&id);
    }

    /// The versions that these queries have seen. Of several caches of a resource, the oldest counts.
    fn views(&self, queries: &[SharedQuery]) -> BTreeMap<Resource, u64> {
        let mut views = BTreeMap::new();
        for SharedQuery { id, cache, .. } in queries {
            let cached = self.versions.get(id.0).copied().unwrap_or_default();
            let version = cached.max(self.direct_reads.get(id).copied().unwrap_or_default());
            let view = views.entry(resource_of(cache)).or_insert(version);
            *view = version.min(*view);
        }
        views
    }
}

/// A query of an evaluation about a resource that other requests can change.
#[derive(Debug)]
pub(crate) struct SharedQuery {
    pub(crate) id: ResourceId,
    /// The cache with this id.
    pub(crate) cache: Arc<ResourceCache>,
    pub(crate) query: RecordedQuery,
}

/// The state of the ledger, for metrics and administrators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerStatus {
    /// Entries of all replicas.
    pub entries: usize,
    /// Bytes of the entries.
    pub bytes: usize,
    /// The share of the limits in percent; the larger one of number and bytes.
    pub used_percent: usize,
    /// Requests that wait for the ledger.
    pub waiting: usize,
    /// Requests that the ledger has got.
    pub appends: u64,
    /// Requests that were evaluated again because of another replica.
    pub outdated: u64,
    /// Writes of the ledger.
    pub writes: u64,
    /// Writes that came after one of another replica.
    pub conflicts: u64,
    /// The time for which requests waited, together.
    pub wait: Duration,
    /// The reason why the ledger cannot be used.
    pub problem: Option<String>,
}

/// What the ledger asks of the API server.
#[derive(Debug)]
pub struct LedgerRequests(pub(super) mpsc::UnboundedReceiver<Output>);

impl SharedReservations {
    pub(in crate::cluster) fn new(
        registry: Arc<ReservationRegistry>,
        replica: &str,
        reservation_ttl: Duration,
    ) -> (Arc<Self>, LedgerRequests) {
        let machine = Machine::new(Config {
            replica: ReplicaId::new(replica),
            reservation_ttl,
            max_hold: MAX_APPEND_TIME + reservation_ttl,
            removal_delay: REMOVAL_DELAY,
            retry_delay: RETRY_DELAY,
            limits: Limits::default(),
        });
        let state = State { machine, waiting: HashMap::new(), imported: HashMap::new() };
        let (exchange, requests) = mpsc::unbounded_channel();
        let shared = Self {
            registry,
            state: Mutex::new(state),
            imported_mark: Mutex::default(),
            exchange,
            changed: Notify::new(),
            started: Instant::now(),
            next_id: AtomicU64::new(1),
            was_ready: AtomicBool::new(false),
            statistics: LedgerStatistics::default(),
        };
        (Arc::new(shared), LedgerRequests(requests))
    }

    /// An id for a reservation of this replica.
    pub(in crate::cluster) fn next_id(&self) -> ReservationId {
        ReservationId::Own(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// What is known before the first query of an evaluation.
    pub(in crate::cluster) fn mark(&self, caches: &[Arc<ResourceCache>]) -> LedgerMark {
        let mark = *self.imported_mark.lock();
        let versions = caches.iter().map(|cache| cache.listing_version()).collect();
        LedgerMark { mark, versions, direct_reads: BTreeMap::new() }
    }

    /// Appends a change, and waits until the ledger has it.
    #[expect(clippy::too_many_arguments, reason = "each is a part of one request")]
    pub(super) async fn append(
        &self,
        request: RequestId,
        change: Change,
        uid: &str,
        base_version: &str,
        mark: LedgerMark,
        evaluated: Evaluated,
        deadline: Instant,
    ) -> Result<(), ShareError> {
        let views = mark.views(&evaluated.queries);
        let append = Append {
            change: Arc::new(change),
            uid: Some(uid).filter(|uid| !uid.is_empty()).map(Into::into),
            base_version: base_version.into(),
            deadline: self.since_start(deadline),
            mark: mark.mark,
            views,
        };
        let (result, waiting) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if evaluated.is_outdated() {
                return Err(ShareError::Outdated);
            }
            state.waiting.insert(request, WaitingRequest { evaluated, result });
            self.step(&mut state, Input::Append(request, append));
        }
        let began = Instant::now();
        let result = match tokio::time::timeout_at(deadline, waiting).await {
            // The process may have been stopped meanwhile.
            Ok(Ok(Ok(respond_before))) if Instant::now() >= respond_before => Err(ShareError::Late),
            Ok(Ok(result)) => result.map(drop),
            Ok(Err(_)) | Err(_) => Err(ShareError::Late),
        };
        let waited = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.statistics.wait_micros.fetch_add(waited, Ordering::Relaxed);
        let counter = match &result {
            Ok(()) => &self.statistics.appends,
            Err(ShareError::Outdated) => &self.statistics.outdated,
            Err(_) => return result,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        result
    }

    /// Counts a write of the ledger.
    pub(super) fn count_write(&self, is_conflict: bool) {
        let counter =
            if is_conflict { &self.statistics.conflicts } else { &self.statistics.writes };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the ledger can be used, or could be at any time since the start: an installation that
    /// begins waits for it.
    pub(in crate::cluster) fn was_ready(&self) -> bool {
        self.was_ready.load(Ordering::Relaxed)
    }

    /// Gives up a request.
    pub(super) fn withdraw(&self, request: RequestId) {
        let mut state = self.state.lock();
        state.waiting.remove(&request);
        self.step(&mut state, Input::Withdraw(request));
    }

    /// Handles an event.
    pub(in crate::cluster) fn handle(&self, input: Input) {
        self.step(&mut self.state.lock(), input);
    }

    /// Reports to the machine which reservations are settled.
    pub(in crate::cluster) fn sweep(&self) {
        let mut state = self.state.lock();
        for cache in self.registry.caches() {
            for settled in cache.take_settled() {
                let began = self.now();
                let version = settled.stored_version.and_then(|version| version.parse().ok());
                let outcome = version.map_or(Outcome::Absent { began }, Outcome::Stored);
                let input = match settled.id {
                    ReservationId::Own(number) => {
                        // Another write of the object came first: this one is denied, or based on it.
                        finish(&mut state, RequestId(number), Err(ShareError::Outdated));
                        Input::Settle(RequestId(number), outcome)
                    }
                    ReservationId::Foreign(id) => {
                        let Some(entry) = state.imported.remove(&id) else { continue };
                        let (id, renewal) = (entry.id.clone(), entry.renewal);
                        Input::SettleImported { id, renewal, outcome }
                    }
                };
                self.step(&mut state, input);
            }
        }
    }

    /// The time at which the machine wants to be woken.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let wake = self.state.lock().machine.next_wake()?;
        Some(self.started + wake)
    }

    /// A cache of a resource.
    pub(super) fn cache_of(&self, resource: &Resource) -> Option<Arc<ResourceCache>> {
        caches_of(&self.registry.caches(), resource).into_iter().next()
    }

    /// Notified when that time may have changed.
    pub(super) fn changed(&self) -> &Notify {
        &self.changed
    }

    /// Whether entries of other replicas count as reservations here.
    pub(in crate::cluster) fn has_imported(&self) -> bool {
        !self.state.lock().imported.is_empty()
    }

    /// Whether the ledger was just created and is not used yet.
    pub(in crate::cluster) fn is_new(&self) -> bool {
        matches!(self.state.lock().machine.ledger_state(self.now()), LedgerState::New(_))
    }

    /// The state of the ledger.
    #[must_use]
    pub fn status(&self) -> LedgerStatus {
        let state = self.state.lock();
        let usage = state.machine.usage();
        let Usage { entries, bytes } = usage;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let problem = match state.machine.ledger_state(self.now()) {
            LedgerState::Ready => None,
            LedgerState::Unknown => Some("it was not read yet".to_owned()),
            LedgerState::Missing => Some("it does not exist".to_owned()),
            LedgerState::New(wait) => {
                Some(format!("it is new, and is used in {} s", wait.as_secs().saturating_add(1)))
            }
            LedgerState::Broken(error) => Some(error.to_string()),
        };
        let figures = &self.statistics;
        LedgerStatus {
            entries,
            bytes,
            used_percent: usage.percent_of(Limits::default()),
            waiting: state.machine.waiting(),
            appends: load(&figures.appends),
            outdated: load(&figures.outdated),
            writes: load(&figures.writes),
            conflicts: load(&figures.conflicts),
            wait: Duration::from_micros(load(&figures.wait_micros)),
            problem,
        }
    }

    /// Imports what is open into caches that were just added.
    pub(in crate::cluster) fn import_into(&self, caches: &[Arc<ResourceCache>]) {
        let state = self.state.lock();
        let now = Instant::now();
        for entry in state.imported.values() {
            reserve(entry, now + entry.hold(), caches);
        }
        for cache in caches {
            if let Some(version) = state.machine.required_version(&resource_of(cache)) {
                cache.require_version(version);
            }
        }
    }

    fn step(&self, state: &mut State, input: Input) {
        let State { machine, waiting, imported } = state;
        let mut evaluations = WaitingEvaluations { shared: self, waiting, imported };
        let outputs = machine.handle(self.now(), input, &mut evaluations);
        for output in outputs {
            self.carry_out(state, output);
        }
        *self.imported_mark.lock() = state.machine.import_mark();
        if state.machine.ledger_state(self.now()) == LedgerState::Ready
            && !self.was_ready.swap(true, Ordering::Relaxed)
        {
            // A server that starts waits for it as for the first lists.
            for cache in self.registry.caches() {
                cache.settled_notify().notify_waiters();
            }
        }
        self.changed.notify_one();
    }

    fn carry_out(&self, state: &mut State, output: Output) {
        match output {
            Output::Import { entry, ends } => {
                reserve(&entry, self.started + ends, &self.registry.caches());
                state.imported.insert(name_of(&entry.id), entry);
            }
            Output::Release(id) => {
                if let Some(entry) = state.imported.get(&name_of(&id)) {
                    let id = ReservationId::Foreign(name_of(&id));
                    for cache in caches_of(&self.registry.caches(), &entry.resource) {
                        cache.end_reservation(&key_of(entry), &id);
                    }
                }
            }
            Output::Committed { request, respond_before } => {
                finish(state, request, Ok(self.started + respond_before));
            }
            Output::Outdated { request, must_reach } => {
                let caches = self.registry.caches();
                for (resource, version) in &must_reach {
                    require_version(&caches, resource, *version);
                }
                finish(state, request, Err(ShareError::Outdated));
            }
            Output::Failed { request, error } => finish(state, request, Err(share_error(&error))),
            output @ (Output::Read | Output::ReadVersion { .. } | Output::Write(_)) => {
                // The task ends with the server.
                let _ = self.exchange.send(output);
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn since_start(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.started)
    }
}

/// Reserves the change of an entry of another replica, or changes the end of its time.
fn reserve(entry: &Entry, ends: Instant, caches: &[Arc<ResourceCache>]) {
    let caches = caches_of(caches, &entry.resource);
    let Some(content) = SharedContent::of(&caches) else { return };
    let (key, id) = (key_of(entry), name_of(&entry.id));
    let tenant =
        Tenant { namespace: entry.tenant.namespace.clone(), user: (*entry.tenant.user).into() };
    let whole = match &entry.content {
        Content::Whole(text) => Some(&**text),
        Content::Reference(_) => None,
    };
    let uid = entry.uids.first().map(|uid| &**uid).unwrap_or_default();
    for cache in &caches {
        cache.import(ForeignChange {
            id: &id,
            key: &key,
            content: content.decode(cache, &key, whole, uid),
            base_version: &entry.base_version,
            uids: &entry.uids,
            ends,
            tenant: &tenant,
        });
    }
}

/// The evaluations of the requests that wait.
struct WaitingEvaluations<'s> {
    shared: &'s SharedReservations,
    waiting: &'s mut HashMap<RequestId, WaitingRequest>,
    imported: &'s mut HashMap<Arc<str>, Arc<Entry>>,
}

impl Evaluations for WaitingEvaluations<'_> {
    fn find_outdated(&mut self, requests: &[RequestId], imported: &[Arc<Entry>]) -> Vec<RequestId> {
        // The comparison is that of local reservations, so these must exist.
        let (caches, now) = (self.shared.registry.caches(), Instant::now());
        for entry in imported {
            reserve(entry, now + entry.hold(), &caches);
            self.imported.insert(name_of(&entry.id), entry.clone());
        }
        let is_outdated = |request: &RequestId| {
            self.waiting.get(request).is_none_or(|waiting| waiting.evaluated.is_outdated())
        };
        requests.iter().copied().filter(is_outdated).collect()
    }
}

fn finish(state: &mut State, request: RequestId, result: Result<Instant, ShareError>) {
    if let Some(waiting) = state.waiting.remove(&request) {
        let _ = waiting.result.send(result);
    }
}

fn share_error(error: &AppendError) -> ShareError {
    let reason = error.to_string();
    match error {
        // The API server repeats a call that gets 503 after a second.
        AppendError::Full { .. } | AppendError::New { .. } => {
            ShareError::Full(ReservationLimitReached { reason })
        }
        AppendError::Deadline { problem: None } => ShareError::Late,
        _ => ShareError::Unavailable(reason),
    }
}

fn resource_of(cache: &ResourceCache) -> Resource {
    let resource = cache.resource();
    Resource::new(&resource_name(&resource.group, &resource.resource))
}

fn caches_of(caches: &[Arc<ResourceCache>], resource: &Resource) -> Vec<Arc<ResourceCache>> {
    let (group, name) = resource.as_str().split_once('/').unwrap_or(("", resource.as_str()));
    caches.iter().filter(|cache| cache.holds_resource(group, name)).cloned().collect()
}

fn require_version(caches: &[Arc<ResourceCache>], resource: &Resource, version: u64) {
    for cache in caches_of(caches, resource) {
        cache.require_version(version);
    }
}

fn key_of(entry: &Entry) -> Key {
    Key::new(&entry.namespace, &entry.name)
}

fn name_of(id: &EntryId) -> Arc<str> {
    format!("{}/{}", id.replica.as_str(), id.number).into()
}
