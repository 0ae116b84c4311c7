//! The value of an `olm.constraint`, as OLM reads, checks and evaluates it.
//!
//! ```text
//! properties ─▶ constraint ─┬─▶ json     reading of hostile text: one pass, no recursion
//!                           ├─▶ range ─▶ version   blang's semantic versions, quirks included
//!                           ├─▶ names    Kubernetes' names of APIs
//!                           ├─▶ cel      expressions: syntax, types and values
//!                           └─▶ eval     whether properties fulfil a constraint, part by part
//! ```
//!
//! Nothing here knows of requests, policies or a cluster. Texts are upstream's, byte for byte.

pub mod cel;
pub mod constraint;
pub mod eval;
pub mod levels;
pub mod names;
pub mod properties;

pub use constraint::{Constraint, Finding, Options, Report, check};
pub use names::Gvk;
// Of the crate `opgate-upstream`.
pub use opgate_upstream::{json, range, version};
