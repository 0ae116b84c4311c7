//! Documents through their public interface: results of reads, charges to accounts, and interruption.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests may panic"
)]

mod account;
mod looks;
mod meter;
