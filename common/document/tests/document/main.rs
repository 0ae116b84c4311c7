//! Documents from outside: what looks at them answer, what they charge to accounts, and that they stop.
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
