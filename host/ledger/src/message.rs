//! Events for the machine, and its requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::change::{Change, EntryId, RequestId, Resource};
use crate::document::{Document, DocumentError, Entry};
use crate::limits::Usage;

/// A version of the object of the ledger. It can only be compared for equality.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerVersion(pub Box<str>);

/// The uid of the object of the ledger: a new one if it was deleted and created again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerUid(pub Box<str>);

/// The object of the ledger as it was read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerKey {
    /// Its uid.
    pub uid: LedgerUid,
    /// Its version.
    pub version: LedgerVersion,
}

/// The state of the ledger at the API server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Observation {
    /// The ledger, or the reason why it is none.
    Present(LedgerKey, Result<Arc<Document>, DocumentError>),
    /// No object.
    Missing,
}

/// The number of imports so far; see [`Machine::import_mark`](crate::Machine::import_mark).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImportMark(pub(crate) u64);

/// A request that is allowed if its change gets into the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Append {
    /// The change.
    pub change: Arc<Change>,
    /// The uid of a new object, if the API server has chosen it.
    pub uid: Option<Box<str>>,
    /// The `resourceVersion` that is changed; empty for a new object.
    pub base_version: Box<str>,
    /// The time at which the API server gives up on the response.
    pub deadline: Duration,
    /// The mark from before the first query of the evaluation.
    pub mark: ImportMark,
    /// The version of the view of each queried resource, from before its first query. A view
    /// never goes back: after it did, all evaluations begin again.
    pub views: BTreeMap<Resource, u64>,
}

/// The outcome of a request, or of all requests of an imported entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The object has this version, which is the result of the change or a later one. All
    /// evaluations that begin from now on see it: in the view, or as the result of a direct read.
    Stored(u64),
    /// The change is not stored now and cannot be stored any more. A read that began at this time
    /// has found no object (for a creation: none with its uid).
    ///
    /// * For a request of this replica: `began` is at least the reservation TTL after its response
    ///   was *written out*, or after its deadline.
    /// * For an imported creation: `began` is at or after the `ends` of its import. An earlier read
    ///   has no effect.
    /// * A change of an object that is gone: any time.
    Absent {
        /// The time at which the read began.
        began: Duration,
    },
}

/// The result of [`Output::Write`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WriteResult {
    /// The ledger was written, and this is what it is now. For a deletion, nothing is.
    Done(Option<LedgerKey>),
    /// Another version is there, or none (409, 404).
    Conflict,
    /// The API server did not write it, and would not if asked again (403, 422).
    Rejected(String),
    /// Nothing is known about the outcome: no response in time, 429, 5xx.
    Unknown(String),
}

/// An event for the machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input {
    /// The watch of the ledger shows this. It may be late.
    Watched(Observation),
    /// The end of an [`Output::Read`]. Each one ends once, within a time that the caller limits.
    ReadFinished(Result<Observation, String>),
    /// The end of an [`Output::Write`]. Each one ends once, within a time that the caller limits.
    WriteFinished(WriteResult),
    /// The end of an [`Output::ReadVersion`]; none if the read failed.
    VersionRead {
        /// As in the output.
        number: u64,
        /// As in the output.
        resource: Resource,
        /// The `resourceVersion` of the list.
        version: Option<u64>,
    },
    /// A request is allowed if its change gets into the ledger. Ends with
    /// [`Output::Committed`], [`Output::Outdated`] or [`Output::Failed`], unless it is withdrawn.
    Append(RequestId, Append),
    /// A request that is not committed has given up, or one that is committed was not allowed in
    /// the end.
    Withdraw(RequestId),
    /// The outcome of a committed request of this replica is known.
    Settle(RequestId, Outcome),
    /// The outcome of an imported entry is known: of all its uids.
    SettleImported {
        /// The entry.
        id: EntryId,
        /// The `renewal` of the entry that was imported.
        renewal: u32,
        /// The outcome.
        outcome: Outcome,
    },
    /// Time has passed: [`Machine::next_wake`](crate::Machine::next_wake).
    Tick,
}

/// A conditional write of the ledger. The caller encodes the document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Write {
    /// Creates the ledger. A conflict if it exists.
    Create(Arc<Document>),
    /// Replaces the ledger if it has exactly this uid and this version.
    Update(LedgerKey, Arc<Document>),
    /// Deletes a broken ledger if it has exactly this uid and this version.
    Delete(LedgerKey),
}

/// A request of the machine. The caller carries them out in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Output {
    /// Write the ledger.
    Write(Write),
    /// Read the ledger, consistently (`get` without a `resourceVersion`).
    Read,
    /// Read the current `resourceVersion` of a resource, consistently (a `list` with `limit=1`),
    /// with a read that begins from now on.
    ReadVersion {
        /// For the [`Input::VersionRead`].
        number: u64,
        /// The resource.
        resource: Resource,
    },
    /// Reserve the change of another replica, or extend its reservation if the entry is known.
    Import {
        /// The entry.
        entry: Arc<Entry>,
        /// The time after which it is not stored any more: a direct read from then on settles it.
        ends: Duration,
    },
    /// The time of an imported entry is over at once: another replica has settled it. The view, or
    /// a direct read, shows the outcome.
    Release(EntryId),
    /// The change of the request is in the ledger: respond before this time, which the caller
    /// checks again after everything that can take long. Otherwise withdraw it.
    Committed {
        /// The request.
        request: RequestId,
        /// The time before which the response must be sent.
        respond_before: Duration,
    },
    /// Evaluate the request again, with a view that has reached these versions (or with direct
    /// reads), and then append it again.
    Outdated {
        /// The request.
        request: RequestId,
        /// The versions; none if only an imported change may affect the evaluation.
        must_reach: BTreeMap<Resource, u64>,
    },
    /// The request cannot be allowed.
    Failed {
        /// The request.
        request: RequestId,
        /// The reason.
        error: AppendError,
    },
}

/// The reason why a request cannot be allowed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum AppendError {
    /// The share of the tenant is used up: 503 with `Retry-After`.
    #[error("the shared reservations are full: {used:?} of {limit:?}")]
    Full {
        /// The usage of all.
        used: Usage,
        /// The limits.
        limit: Usage,
        /// The namespaces and users with the most entries.
        largest: Vec<(String, Usage)>,
    },
    /// The deadline has passed, with the last failure of a read or write of the ledger.
    #[error("the deadline passed before the change was in the ledger{}", suffix(.problem.as_ref()))]
    Deadline {
        /// The last failure.
        problem: Option<String>,
    },
    /// The ledger is new: changes that an earlier one had may still be stored.
    #[error("the ledger is new: it is used in {} ms", .ready_in.as_millis())]
    New {
        /// The time until it is used.
        ready_in: Duration,
    },
    /// The object is not a ledger.
    #[error(transparent)]
    Broken(#[from] DocumentError),
    /// The API server does not permit the access.
    #[error("the ledger cannot be written: {0}")]
    Rejected(String),
    /// The policies query more resources than the ledger has watermarks for.
    #[error("the ledger has no watermark left for {}", .0.as_str())]
    TooManyResources(Resource),
}

fn suffix(problem: Option<&String>) -> String {
    problem.map(|problem| format!(": {problem}")).unwrap_or_default()
}

/// The evaluations of the waiting requests.
pub trait Evaluations {
    /// The requests, of these, for which an imported change can change the result of a query. The
    /// changes are compared with all queries of the evaluation.
    fn find_outdated(&mut self, requests: &[RequestId], imported: &[Arc<Entry>]) -> Vec<RequestId>;
}

impl<F: FnMut(RequestId, &Entry) -> bool> Evaluations for F {
    fn find_outdated(&mut self, requests: &[RequestId], imported: &[Arc<Entry>]) -> Vec<RequestId> {
        let mut is_outdated = |request| imported.iter().any(|entry| self(request, entry));
        requests.iter().copied().filter(|request| is_outdated(*request)).collect()
    }
}
