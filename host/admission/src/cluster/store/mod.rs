//! The objects of the cluster that policies read, and the memory that they use.
//!
//! ```text
//! watch, or snapshot ─▶ cache: objects of one resource, indexed ─▶ read
//!                          ├─ listing: the objects at one version
//!                          ├─ memory: shares of namespaces
//!                          ├─ registry: all caches in which a change is reserved
//!                          └─ unreadable: objects without content
//! ```

pub(in crate::cluster) mod cache;
pub(in crate::cluster) mod listing;
pub(in crate::cluster) mod memory;
pub(in crate::cluster) mod reservation_registry;
pub(in crate::cluster) mod reservation_usage;
pub(in crate::cluster) mod snapshot;
pub(in crate::cluster) mod unreadable;
