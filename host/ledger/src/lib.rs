//! Reservations that all replicas share, as a state machine without I/O and without a clock
//! (docs/adr/0050).
//!
//! All replicas append the changes that they allow to one *ledger*, an object of the API server
//! that is only replaced by compare-and-swap. The order of its versions is the order of the
//! requests: a replica has imported everything before its own append.
//!
//! ```text
//!            Append ─▶┌─────────┐─▶ Write, Read ─▶ the ledger ─▶ WriteFinished, ReadFinished, Watched
//!  Settle, Withdraw ─▶│ Machine │─▶ Import, Release: entries of other replicas ─▶ local reservations
//!    SettleImported ─▶│         │─▶ Outdated: evaluate again, with a newer view
//!              Tick ─▶└─────────┘─▶ Committed: respond "allowed"; Failed: respond with the reason
//! ```
//!
//! The caller holds one lock around [`Machine::handle`] *and* carrying out `Import` and `Release`.
//! Before the first query of an evaluation, it takes the [`Machine::import_mark`] of the last imports
//! that were carried out, and then the versions of its views. So no evaluation misses an import.
//!
//! Times are durations on the monotonic clock of the replica, from any origin. Times of two
//! replicas are never compared.

mod change;
mod document;
mod limits;
mod machine;
mod message;

pub use change::{Change, Content, EntryId, ReplicaId, RequestId, Resource, Tenant};
pub use document::{Document, DocumentError, Entry, MAX_DOCUMENT_BYTES, MAX_HOLD, MAX_RESOURCES};
pub use limits::{Limits, Usage};
pub use machine::{Config, LedgerState, Machine};
pub use message::{
    Append, AppendError, Evaluations, ImportMark, Input, LedgerKey, LedgerUid, LedgerVersion,
    Observation, Outcome, Output, Write, WriteResult,
};
