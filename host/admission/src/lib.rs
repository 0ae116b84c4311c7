//! Decides about reviews.
//!
//! ```text
//! bytes ─▶ review::Review ─▶ policy::Set::decide ─┬▶ a policy's code (opgate_engine) ─▶ verdict
//!                                 │               └▶ one call per matching policy
//!                                 │ once for each way the cluster may be: cluster::decide
//!                                 ▼
//!                          policy::Decision ─▶ policy::response, or a report of the command line
//! ```
//!
//! * [`review`]: AdmissionReviews as they arrive.
//! * [`cluster`]: what policies can read of other objects of the cluster.
//! * [`policy`]: policies, their configuration, the set that serves, decisions and answers.

// For the feature that chooses a version of Kubernetes.
use k8s_openapi as _;

pub mod cluster;
#[doc(hidden)]
pub mod fuzzing;
mod object;
pub mod policy;
pub mod review;
