//! The state machine of one replica.
//!
//! At most one read or write of the ledger is under way. Requests that arrive meanwhile go
//! together into the next write.
//!
//! ```text
//!             ┌──────── a newer ledger: import, check all waiting requests ◀── Watched, ReadFinished
//!             ▼
//! Append ─▶ Waiting ─▶ Writing ─▶ Committed ─▶ settled ─▶ removed with a later write
//!   │ ▲          ▲  (conflict, │
//!   │ │          └─  unknown) ─┘
//!   ▼ │
//!  Parked: a resource has no watermark yet ─▶ ReadVersion
//! ```
//!
//! # Why two requests that exclude each other are not both committed
//!
//! The versions of one ledger are a chain, because each replaces exactly the one before. Let `a` be
//! before `b` in it. The replica of `b` has imported the version before that of `b`:
//!
//! * The entry of `a` is in it. Then the evaluation of `b` had it as a reservation, or was compared
//!   with it at its import.
//! * The entry is gone because `a` was stored at V. Then the watermark is at least V, and the view of
//!   the evaluation of `b` has reached it.
//! * The entry is gone because `a` can never be stored.
//!
//! If the ledger was lost, the entry of `a` can be in none. Then `b` waits until `a` is stored or can
//! never be: the longest time of an entry after the new ledger was first seen. It has no watermarks.
//! A watermark is then a version that was read after this time, so the last two cases hold.

mod compose;
mod import;
mod queue;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::change::{Change, EntryId, ReplicaId, RequestId, Resource};
use crate::document::{Document, DocumentError, MAX_HOLD};
use crate::limits::{Limits, TenantUsage, Usage};
use crate::message::{
    Append, AppendError, Evaluations, ImportMark, Input, LedgerKey, LedgerUid, Outcome, Output,
};
use queue::{Assignment, Phase, Queue};

/// Tenants in an error about limits.
const NAMED_TENANTS: usize = 3;

/// Delays after which a stored entry is removed by a separate write, if no other one has. It stays
/// for one delay, so that there is at most one such write in each delay.
const STORED_REMOVAL_DELAYS: u32 = 2;

/// Delays after which another replica removes a settled entry, unless its owner has done so.
const FOREIGN_REMOVAL_DELAYS: u32 = 4;

/// The time for which others have precedence after a write, in durations of that write: enough to
/// read the ledger and to write it.
const YIELDED_WRITES: u32 = 2;

/// The longest delay of a retry, in shortest ones.
const MAX_RETRY_DELAYS: u32 = 16;

/// Divisor for the part of a time by which clocks of two machines can differ within it.
const CLOCK_DRIFT_DIVISOR: u32 = 64;

/// The parameters of a replica.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Config {
    /// The identity of this run.
    pub replica: ReplicaId,
    /// The time after a response within which the API server stores the object.
    pub reservation_ttl: Duration,
    /// The longest time from an append until its object can no longer be stored: the longest
    /// timeout of a webhook and the reservation TTL. Equal in all replicas, and below
    /// [`MAX_HOLD`].
    pub max_hold: Duration,
    /// The unit of the delays after which settled entries are removed, longer than the lag of a
    /// healthy watch: 250 ms. A stored entry stays for one; a separate write follows after two, of
    /// another replica after four.
    pub removal_delay: Duration,
    /// The delay after the first of several failures of reads or writes.
    pub retry_delay: Duration,
    /// The limits of the ledger.
    pub limits: Limits,
}

/// The state of the ledger as this replica knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LedgerState {
    /// It was not read yet.
    Unknown,
    /// It does not exist.
    Missing,
    /// It is new, and is used after this time.
    New(Duration),
    /// It is used.
    Ready,
    /// The object is not a ledger.
    Broken(DocumentError),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Known {
    Unknown,
    Missing,
    Broken { key: LedgerKey, error: DocumentError },
    Current(Current),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Current {
    key: LedgerKey,
    document: Arc<Document>,
    /// The time at which this replica first saw the uid.
    first_seen: Duration,
}

impl Current {
    fn is_established(&self) -> bool {
        self.document.established.as_deref() == Some(&*self.key.uid.0)
    }
}

/// The read or write under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Flight {
    Read {
        /// The revision that was known when the read began: what it finds is not older.
        known: Option<(LedgerUid, u64)>,
    },
    Write {
        /// None to delete the ledger.
        document: Option<Arc<Document>>,
        /// The ledger that it replaces.
        base: Option<(LedgerUid, u64)>,
        requests: Vec<RequestId>,
        began: Duration,
    },
}

/// An entry of another replica in the current ledger.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Imported {
    renewal: u32,
    ends: Duration,
    mark: u64,
    settled: Option<Settled>,
}

/// The known outcome of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Settled {
    at: Duration,
    /// The version at which it was stored; none if it never was.
    stored: Option<u64>,
}

/// An entry of this replica, in the ledger or in a write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Own {
    change: Arc<Change>,
    /// The renewal of the last write with it; none before the first.
    renewal: Option<u32>,
    /// The requests that are not settled.
    open: BTreeSet<RequestId>,
    /// The highest version of a settled one.
    stored: Option<u64>,
    /// The time at which a request was last settled.
    last_settled: Duration,
}

impl Own {
    /// The outcome, if all requests are settled.
    fn settled(&self) -> Option<Settled> {
        let Self { last_settled: at, stored, .. } = *self;
        self.open.is_empty().then_some(Settled { at, stored })
    }
}

/// The state machine; see the [crate].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machine {
    config: Config,
    known: Known,
    flight: Option<Flight>,
    must_read: bool,
    /// No read or write before this time.
    retry_at: Option<Duration>,
    /// Until this time, other replicas have written shortly before.
    contended_until: Duration,
    /// The time until which others have precedence, after a write of this replica.
    yield_until: Duration,
    /// The number of failures since the last success, as far as they extend the delay.
    failures: u32,
    /// The last failure.
    problem: Option<String>,
    /// The longest time of any entry, so far as known.
    longest_hold: Duration,
    queue: Queue,
    own: BTreeMap<u64, Own>,
    own_by_change: BTreeMap<Arc<Change>, u64>,
    next_number: u64,
    imported: BTreeMap<EntryId, Imported>,
    imported_by_mark: BTreeMap<u64, BTreeSet<EntryId>>,
    mark: u64,
    /// The versions that were read for resources without a watermark, after the ledger was
    /// established.
    floors: BTreeMap<Resource, u64>,
    /// The resources whose version is to be read when the ledger is established.
    wanted_floors: BTreeSet<Resource>,
    /// The reads of versions under way.
    floor_reads: BTreeSet<Resource>,
    /// The number of reads of versions that count: those for the current ledger.
    floor_number: u64,
    /// The time of a write that removes settled entries, if there are any.
    removal_due: Option<Duration>,
    /// Of the current ledger.
    usage: Usage,
}

impl Machine {
    /// A replica that knows nothing of the ledger yet. A first [`Input::Tick`] makes it read.
    pub fn new(config: Config) -> Self {
        let longest = MAX_HOLD * (CLOCK_DRIFT_DIVISOR - 1) / CLOCK_DRIFT_DIVISOR;
        let config = Config { max_hold: config.max_hold.min(longest), ..config };
        Self {
            longest_hold: with_drift(config.max_hold),
            config,
            known: Known::Unknown,
            flight: None,
            must_read: false,
            retry_at: None,
            contended_until: Duration::ZERO,
            yield_until: Duration::ZERO,
            failures: 0,
            problem: None,
            queue: Queue::default(),
            own: BTreeMap::new(),
            own_by_change: BTreeMap::new(),
            next_number: 0,
            imported: BTreeMap::new(),
            imported_by_mark: BTreeMap::new(),
            mark: 0,
            floors: BTreeMap::new(),
            wanted_floors: BTreeSet::new(),
            floor_reads: BTreeSet::new(),
            floor_number: 0,
            removal_due: None,
            usage: Usage::default(),
        }
    }

    /// Takes an event at this time, and returns what to do, in order.
    ///
    /// Times never go back. `evaluations` compares imported changes with waiting requests.
    pub fn handle(
        &mut self,
        now: Duration,
        input: Input,
        evaluations: &mut dyn Evaluations,
    ) -> Vec<Output> {
        let mut outputs = Vec::new();
        let out = &mut outputs;
        match input {
            Input::Watched(observation) => self.watched(now, observation, evaluations, out),
            Input::ReadFinished(result) => self.read_finished(now, result, evaluations, out),
            Input::WriteFinished(result) => self.write_finished(now, result, evaluations, out),
            Input::VersionRead { number, resource, version } => {
                self.version_read(now, number, &resource, version, out);
            }
            Input::Append(id, append) => self.append(now, id, append, evaluations, out),
            Input::Withdraw(id) => self.settle(now, id, None),
            Input::Settle(id, outcome) => self.settle(now, id, stored_version(outcome)),
            Input::SettleImported { id, renewal, outcome } => {
                self.settle_imported(now, &id, renewal, outcome);
            }
            Input::Tick => {}
        }
        self.advance(now, out);
        outputs
    }

    /// The time of the next [`Input::Tick`]; changes with each event.
    pub fn next_wake(&self) -> Option<Duration> {
        let next = if self.flight.is_some() {
            None
        } else {
            let due = match &self.known {
                _ if self.must_read => Some(Duration::ZERO),
                Known::Unknown | Known::Missing => Some(Duration::ZERO),
                Known::Broken { error, .. } => is_replaceable(error).then_some(Duration::ZERO),
                Known::Current(current) => self.established_at(current).or_else(|| {
                    let is_due = self.queue.has_waiting() || !self.wanted_floors.is_empty();
                    let due = if is_due { Some(Duration::ZERO) } else { self.removal_due };
                    due.map(|due| due.max(self.yield_until))
                }),
            };
            due.map(|due| self.retry_at.map_or(due, |retry| retry.max(due)))
        };
        [self.queue.first_deadline(), next].into_iter().flatten().min()
    }

    /// The number of imports so far, for [`Append::mark`].
    pub fn import_mark(&self) -> ImportMark {
        ImportMark(self.mark)
    }

    /// The version that a view of a resource must have reached for an evaluation that begins now;
    /// none if it is not known yet.
    pub fn required_version(&self, resource: &Resource) -> Option<u64> {
        let stored = match &self.known {
            Known::Current(current) => current.document.versions.get(resource).copied(),
            _ => None,
        };
        stored.max(self.floors.get(resource).copied())
    }

    /// Number and bytes of the entries of the ledger.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The number of requests that are not in the ledger yet.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The state of the ledger.
    pub fn ledger_state(&self, now: Duration) -> LedgerState {
        match &self.known {
            Known::Unknown => LedgerState::Unknown,
            Known::Missing => LedgerState::Missing,
            Known::Broken { error, .. } => LedgerState::Broken(error.clone()),
            Known::Current(current) => match self.established_at(current) {
                Some(at) if at > now => LedgerState::New(at.saturating_sub(now)),
                _ => LedgerState::Ready,
            },
        }
    }

    /// The time from which on the ledger is used, unless it was already when it was first seen.
    fn established_at(&self, current: &Current) -> Option<Duration> {
        (!current.is_established()).then(|| current.first_seen + self.longest_hold)
    }

    fn append(
        &mut self,
        now: Duration,
        id: RequestId,
        append: Append,
        evaluations: &mut dyn Evaluations,
        out: &mut Vec<Output>,
    ) {
        self.settle(now, id, None);
        // Its entry must not be longer than what others wait for after the loss of a ledger.
        let longest = self.config.max_hold.saturating_sub(self.config.reservation_ttl);
        let respond_before = append.deadline.min(now + longest);
        let (mark, limits) = (append.mark.0, self.config.limits);
        if let Err(usage) = self.queue.push(id, append, respond_before, limits) {
            let error = full(usage, limits);
            out.push(Output::Failed { request: id, error });
            return;
        }
        let later = self.imported_by_mark.range(mark.saturating_add(1)..);
        let document = match &self.known {
            Known::Current(current) => Some(&current.document),
            _ => None,
        };
        let entry = |id| document.and_then(|document| document.entries.get(id)).cloned();
        let missed: Vec<_> = later.flat_map(|(_, ids)| ids).filter_map(entry).collect();
        if !missed.is_empty() && !evaluations.find_outdated(&[id], &missed).is_empty() {
            self.queue.remove(id);
            out.push(Output::Outdated { request: id, must_reach: BTreeMap::new() });
            return;
        }
        self.check_views(now, id, out);
    }

    /// Compares the views of a queued request with the watermarks.
    fn check_views(&mut self, now: Duration, id: RequestId, out: &mut Vec<Output>) {
        let Some(request) = self.queue.get(id) else { return };
        if !matches!(self.known, Known::Current(_)) {
            return;
        }
        let (mut must_reach, mut unknown) = (BTreeMap::new(), Vec::new());
        for (resource, view) in &request.append.views {
            match self.required_version(resource) {
                Some(version) if *view < version => {
                    must_reach.insert(resource.clone(), version);
                }
                Some(_) => {}
                None => unknown.push(resource.clone()),
            }
        }
        if !must_reach.is_empty() {
            self.settle(now, id, None);
            out.push(Output::Outdated { request: id, must_reach });
        } else if unknown.is_empty() {
            self.queue.set_phase(id, Phase::Waiting);
        } else {
            self.queue.set_phase(id, Phase::Parked);
            self.request_floors(unknown);
        }
    }

    /// Has the versions of resources read that have no watermark.
    fn request_floors(&mut self, resources: impl IntoIterator<Item = Resource>) {
        let is_new = |resource: &Resource| !self.floor_reads.contains(resource);
        self.wanted_floors.extend(resources.into_iter().filter(is_new));
    }

    /// Removes a request of any phase, which was stored at this version or never will be.
    fn settle(&mut self, now: Duration, id: RequestId, stored: Option<u64>) {
        let Some(request) = self.queue.remove(id) else { return };
        let Some(Assignment { number, .. }) = request.assignment else { return };
        let Some(own) = self.own.get_mut(&number) else { return };
        own.open.remove(&id);
        own.stored = own.stored.max(stored);
        own.last_settled = now;
        if own.open.is_empty() {
            self.plan_removal(now, &self.entry_id(number));
        }
    }

    fn fail(&mut self, now: Duration, id: RequestId, error: AppendError, out: &mut Vec<Output>) {
        self.settle(now, id, None);
        out.push(Output::Failed { request: id, error });
    }

    fn settle_imported(&mut self, now: Duration, id: &EntryId, renewal: u32, outcome: Outcome) {
        let Known::Current(current) = &self.known else { return };
        let Some(entry) = current.document.entries.get(id) else { return };
        let Some(imported) = self.imported.get_mut(id) else { return };
        let is_early = match outcome {
            Outcome::Absent { began } => entry.is_creation() && began < imported.ends,
            Outcome::Stored(_) => false,
        };
        if imported.renewal == renewal && !is_early {
            imported.settled = Some(Settled { at: now, stored: stored_version(outcome) });
            self.plan_removal(now, id);
        }
    }

    fn version_read(
        &mut self,
        now: Duration,
        number: u64,
        resource: &Resource,
        version: Option<u64>,
        out: &mut Vec<Output>,
    ) {
        // The read for an earlier ledger may have begun too early.
        if number != self.floor_number || !self.floor_reads.remove(resource) {
            return;
        }
        let Some(version) = version else {
            self.wanted_floors.insert(resource.clone());
            self.retry_later(now, format!("the version of {} is unknown", resource.as_str()));
            return;
        };
        self.floors.insert(resource.clone(), version);
        for id in self.queue.queued() {
            self.check_views(now, id, out);
        }
        // Entries of this resource may have waited for the version.
        self.removal_due = Some(now);
    }

    fn retry_later(&mut self, now: Duration, problem: String) {
        let delays = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX).min(MAX_RETRY_DELAYS);
        self.failures = (self.failures + 1).min(MAX_RETRY_DELAYS);
        self.retry_at = Some(now + self.config.retry_delay * delays);
        self.problem = Some(problem);
    }

    fn clear_problem(&mut self) {
        (self.retry_at, self.failures, self.problem) = (None, 0, None);
    }
}

fn stored_version(outcome: Outcome) -> Option<u64> {
    match outcome {
        Outcome::Stored(version) => Some(version),
        Outcome::Absent { .. } => None,
    }
}

/// A later version of opgate still needs its ledger.
fn is_replaceable(error: &DocumentError) -> bool {
    !matches!(error, DocumentError::Format(_))
}

/// A time that is at least as long on any other clock.
fn with_drift(time: Duration) -> Duration {
    time + time / CLOCK_DRIFT_DIVISOR
}

fn full(usage: &TenantUsage, limits: Limits) -> AppendError {
    let limit = Usage { entries: limits.entries, bytes: limits.bytes };
    AppendError::Full { used: usage.all(), limit, largest: usage.largest(NAMED_TENANTS) }
}
