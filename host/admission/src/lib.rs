//! Decides reviews.
//!
//! ```text
//! bytes ─▶ review::Review ─▶ policy::Set::decide ─┬▶ a policy's code (opgate_engine) ─▶ verdict
//!                                 │               └▶ one call per matching policy
//!                                 │ once for each possible state: cluster::decide
//!                                 ▼
//!                          policy::Decision ─▶ policy::response, or a report of the command line
//! ```
//!
//! * [`review`]: AdmissionReviews as they arrive.
//! * [`cluster`]: objects of the cluster that policies can read.
//! * [`policy`]: policies, their configuration, the active policy set, decisions and responses.

// For the feature that chooses a version of Kubernetes.
use k8s_openapi as _;

pub mod cluster;
#[doc(hidden)]
pub mod fuzzing;
mod object;
pub mod policy;
pub mod review;
