//! Writes of opgate to its cluster. All other parts of opgate only read.
//!
//! All written objects belong to one installation: a namespace, and a Service in it. Objects of other owners
//! with the same names stay unchanged: [`OWNER_ANNOTATION`] identifies the owner of an object.
//!
//! ```text
//! Connection ─▶ api ◀─┬─ lease: leader election ───────┐
//!                     ├─ replicas: their policy sets ──┤
//!                     └─ writes of the leader ◀────────┘
//! Connection ─▶ audit_reports: `opgate audit`, and the audit of the leader (audit_metrics)
//! denied requests ─▶ denial_events ─▶ api
//! ```

pub mod api;
pub mod audit_metrics;
pub mod audit_reports;
pub mod certificates;
pub mod clock;
pub mod config_map_ledger;
pub mod denial_events;
pub mod events;
#[cfg(test)]
mod fake;
pub mod lease;
mod object_watch;
pub mod registration;
pub mod replicas;
pub mod trust;

/// Label of every object of an installation: `app.kubernetes.io/name=opgate`.
pub const NAME_LABEL: (&str, &str) = ("app.kubernetes.io/name", "opgate");

/// Label of objects outside of the namespace that servers of an installation may change; the value is the
/// namespace of the installation.
pub const INSTALLATION_LABEL: &str = "opgate.dev/installation";

/// Annotation of such an object: `NAMESPACE/SERVICE` of the installation. Both must be right, so that no label
/// that was copied by mistake makes an object ours.
pub const OWNER_ANNOTATION: &str = "opgate.dev/owner";

/// One installation of opgate, and this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// Its namespace.
    pub namespace: String,
    /// Name of its Service.
    pub service: String,
    /// Name of this server: that of its pod.
    pub replica: String,
}

impl Installation {
    /// Returns the value of [`OWNER_ANNOTATION`].
    #[must_use]
    pub fn owner(&self) -> String {
        format!("{}/{}", self.namespace, self.service)
    }
}
