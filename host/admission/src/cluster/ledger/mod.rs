//! Reservations that all replicas share: this replica's part (docs/adr/0050).
//!
//! ```text
//! allowed request ─▶ OpenReservation::share ─▶ SharedReservations ─▶ Machine (opgate-ledger)
//!                                                  │        ▲           │
//!      entries of other replicas ◀─ import ────────┤        │           ▼
//!      (ResourceCache, as local reservations)      │    exchange ◀─ read, write ─▶ LedgerStore
//!      settled reservations ─▶ sweep ──────────────┘
//! ```
//!
//! A change is first reserved in this process, so that its own requests see it at once, and then
//! appended to the ledger. The request is allowed when the ledger has it.

mod content;
mod exchange;
mod open;
mod share_error;
mod shared;
mod store;

pub use exchange::exchange_ledger;
pub use open::OpenReservation;
pub use share_error::ShareError;
pub(super) use shared::MAX_APPEND_TIME;
pub(crate) use shared::{LedgerMark, SharedQuery};
pub use shared::{LedgerRequests, LedgerStatus, SharedReservations};
pub use store::{LedgerStore, StoreError, StoredLedger};
