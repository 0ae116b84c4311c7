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

mod ledger_store;
mod machine_driver;
mod open_reservation;
mod share_error;
mod shared_content;
mod shared_reservations;

pub use ledger_store::{LedgerStore, StoreError, StoredLedger};
pub use machine_driver::exchange_ledger;
pub use open_reservation::OpenReservation;
pub use share_error::ShareError;
pub(super) use shared_reservations::MAX_APPEND_TIME;
pub(crate) use shared_reservations::{LedgerMark, SharedQuery};
pub use shared_reservations::{LedgerRequests, LedgerStatus, SharedReservations};
