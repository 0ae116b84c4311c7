//! The queries of a call: what a policy sees of the store, in one possible state.
//!
//! ```text
//! call of a policy ─▶ reader ─▶ view: store, reservations, direct reads ─▶ result
//!                        ├────▶ samples: some objects of a kind that is not declared
//!                        └────▶ call_reads: queries with their results, for a recording
//! denial ─▶ confirm ─▶ direct: reads from the API server
//! ```

pub(in crate::cluster) mod call_reads;
pub(in crate::cluster) mod confirm;
pub(in crate::cluster) mod direct;
pub(in crate::cluster) mod query_stats;
pub(crate) mod reader;
pub(in crate::cluster) mod samples;
pub(in crate::cluster) mod view;
