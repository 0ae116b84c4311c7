//! The connection to an API server: list, watch, poll and single reads.
//!
//! ```text
//! connection ─▶ list_watch: a task for each resource ─▶ requests ─▶ paging ─▶ decode ─▶ store
//!     ├───────▶ direct_read_source, sample_list: reads for an evaluation
//!     ├───────▶ settle: reads for reservations whose time is over
//!     ├───────▶ list_once, object_pages: an audit
//!     └───────▶ inspect: the doctor
//! ```

pub(in crate::cluster) mod busy_retries;
pub(in crate::cluster) mod connection;
pub(crate) mod decode;
pub(in crate::cluster) mod direct_read_source;
pub(in crate::cluster) mod inspect;
pub(in crate::cluster) mod list_once;
pub(in crate::cluster) mod list_splitter;
pub(in crate::cluster) mod list_watch;
pub(in crate::cluster) mod object_pages;
pub(in crate::cluster) mod page_backoff;
pub(in crate::cluster) mod paging;
pub(in crate::cluster) mod parse_limiter;
pub(in crate::cluster) mod requests;
mod sample_list;
pub(in crate::cluster) mod settle_reservations;
pub(in crate::cluster) mod token;
