//! opgate: an admission webhook for Operators on Kubernetes, with sandboxed WebAssembly policies.
//!
//! This is its command line. The work is done by the crates below:
//!
//! ```text
//! cli ─┬▶ server ─┬▶ admission: review ─▶ policies ─▶ decision ─▶ engine: a policy's code
//!      ├──────────┘                          └▶ cluster
//!      └▶ files: bundles, catalogs and manifests, as reviews
//! ```
//!
//! [`cli`] has one directory per command.

pub mod cli;
#[doc(hidden)]
pub mod fuzzing;

pub use opgate_admission::{cluster, evaluation, policy, review};
pub use opgate_builtin_policies as builtin;
pub use opgate_engine as engine;
pub use opgate_server as server;
pub use opgate_supervise as supervise;
pub use opgate_text as text;
