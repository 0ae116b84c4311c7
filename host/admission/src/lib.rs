//! Decides reviews.
//!
//! ```text
//! bytes ─▶ review::Review ─▶ evaluation ─┬▶ policy: calls the code of each (opgate_engine) ─▶ verdict
//!                               │         └▶ cluster: the objects that the policies read
//!                               ▼
//!                        policy::Decision ─▶ policy::response, or a report of the command line
//! ```
//!
//! * [`evaluation`]: the path of a review to its decision.
//! * [`review`]: AdmissionReviews as they arrive.
//! * [`cluster`]: objects of the cluster that policies can read.
//! * [`policy`]: policies, their configuration, the active policy set, decisions and responses.
//! * [`step`]: the timed steps of a decision, for traces.

// For the feature that chooses a version of Kubernetes.
use k8s_openapi as _;

pub mod cluster;
pub mod evaluation;
#[doc(hidden)]
pub mod fuzzing;
mod object;
pub mod policy;
pub mod review;
pub mod step;
