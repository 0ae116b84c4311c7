//! opgate: an admission webhook for Operators on Kubernetes, with sandboxed WebAssembly policies.
//!
//! One way leads through the code, whoever asks (`serve`, `replay`, `check`, `demo`):
//!
//! ```text
//! bytes ─▶ review::Review ─▶ policy::Set::decide ─┬▶ engine::Module (fresh instance) ─▶ verdict
//!                                                 └▶ one per matching policy
//!                          policy::Decision ◀─ modes, levels, limits on text ◀─┘
//!                                │
//!          review::response ◀────┴────▶ cli::output
//! ```
//!
//! * [`review`]: AdmissionReviews in and out.
//! * `engine`: components, instances, limits.
//! * [`cluster`]: what policies may ask about other objects of the cluster.
//! * [`policy`]: what a policy is, its configuration, the set that serves, decisions.
//! * [`server`]: TLS, HTTP, load shedding, drain, health, metrics.
//! * `supervise`: tasks that must not end.
//! * [`cli`]: one file per subcommand.

// For the feature that chooses a version of Kubernetes.
use k8s_openapi as _;

pub mod cli;
pub mod cluster;
#[doc(hidden)]
pub mod fuzzing;
mod object;
pub mod policy;
pub mod review;
pub mod server;

pub use opgate_engine as engine;
pub use opgate_supervise as supervise;
