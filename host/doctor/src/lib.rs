//! Diagnoses the installation of opgate in a cluster or in manifests.
//!
//! ```text
//! cluster, files, port, configuration ─▶ facts ─▶ checks ─▶ findings
//!                                                   ▲
//!                                  finding_docs ────┴▶ documentation
//! ```
//!
//! Everything is read first, within bounds; nothing is written. Checks are functions of the collected facts.
//! Failed reads are findings, and each check that needs them is reported as skipped.

mod checks;
mod facts;
mod finding;
pub mod finding_docs;
#[cfg(test)]
mod tests;

pub use checks::{DRAIN_DELAY, ExpiryDays, GRACE_PERIOD, run_all};
pub use facts::expected::{ExpectedObjects, find_configuration, set_platform};
pub use facts::from_files::DumpedCluster;
pub use facts::live::ClusterReader;
pub use facts::tls_probe::{TlsProbe, probe_server};
pub use facts::{Facts, Installation};
pub use finding::{Finding, Findings, ObjectReference};
