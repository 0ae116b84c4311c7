//! The objects of the cluster that policies read, and the memory that they use.
//!
//! ```text
//! watch, or snapshot ─▶ cache: objects of one resource, indexed ─▶ read
//!                          ├─ memory: shares of namespaces
//!                          └─ unreadable: objects without content
//! ```

pub(in crate::cluster) mod cache;
pub(in crate::cluster) mod memory;
pub(in crate::cluster) mod snapshot;
pub(in crate::cluster) mod unreadable;
