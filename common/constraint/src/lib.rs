//! The value of an `olm.constraint`, as OLM reads, checks and evaluates it.
//!
//! ```text
//! properties ─▶ constraint ─┬─▶ checks   what is checked, and what is found
//!                           ├─▶ names    Kubernetes' names of APIs
//!                           ├─▶ opgate-compat: JSON, versions and ranges
//!                           ├─▶ opgate-cel: expressions
//!                           └─▶ eval     whether properties fulfil a constraint, part by part
//! ```
//!
//! This crate has no dependency on requests, policies or a cluster. Texts are upstream's, byte for byte.

pub mod checks;
pub mod constraint;
pub mod eval;
pub mod names;
pub mod properties;

pub use checks::{Check, Violation};
pub use constraint::{Constraint, Options, Report, check};
pub use names::Gvk;
pub use opgate_cel as cel;
pub use opgate_compat::{json, range, version};
