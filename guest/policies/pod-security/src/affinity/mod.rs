//! Affinity of pods to nodes.
//!
//! ```text
//! required ─┬─▶ platforms   architectures and operating systems, PSA-14, PSA-15
//!           └┬▶ terms       weights and operators, PSA-16
//! preferred ─┘
//! ```

pub(crate) mod platforms;
pub(crate) mod terms;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
/// The required terms, relative to the spec of a pod.
const TERMS: &str =
    "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
