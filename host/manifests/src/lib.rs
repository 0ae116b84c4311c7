//! The objects that a cluster needs for opgate.
//!
//! ```text
//! policies ─▶ registration: webhooks ───────┐
//! policies ─▶ read_roles: roles for reads ──┤
//! flags ────▶ network: NetworkPolicy ───────┼─▶ installation: every object ─▶ yaml, JSON
//! flags ────▶ InstallationArgs ─────────────┘        └▶ package: files for kustomize, Helm and OLM
//! ```
//!
//! `opgate manifests` prints them. Servers that manage their webhooks apply the registration, `opgate diff`
//! compares two of them, and `opgate doctor` compares the objects with those of a cluster.

pub mod ca;
pub mod installation;
pub mod network;
pub mod package;
pub mod read_roles;
pub mod registration;
pub mod yaml;

/// Namespace that no webhook matches: without its objects nothing in the cluster recovers.
pub const SYSTEM_NAMESPACE: &str = "kube-system";
