//! What the page shows of the installation and of its audit, from tasks outside of the server.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opgate_ui::HostNames;

/// Options of the page.
#[derive(Debug, Clone, Default)]
pub struct UiOptions {
    /// Names by which a browser may open the page, in addition to IP addresses and `localhost`.
    pub hosts: HostNames,
    /// The installation of the server, if it belongs to one.
    pub installation: Option<Arc<dyn InstallationSource>>,
}

/// The installation of a server. Calls return at once.
pub trait InstallationSource: fmt::Debug + Send + Sync {
    /// Returns the replicas of the installation, as far as this server knows them.
    fn replicas(&self) -> ReplicaOverview;

    /// Returns the state of the audit.
    fn audit(&self) -> AuditState;
}

/// The replicas of an installation.
#[derive(Debug, Clone, Default)]
pub struct ReplicaOverview {
    /// The name of this server.
    pub this: String,
    /// Whether it is the leader.
    pub is_leader: bool,
    /// The name of the leader, as this server last read it.
    pub leader: Option<String>,
    /// All replicas; only the leader knows them.
    pub all: Vec<ReplicaSummary>,
}

/// A replica.
#[derive(Debug, Clone, Default)]
pub struct ReplicaSummary {
    /// Its name.
    pub name: String,
    /// The version of its program.
    pub version: String,
    /// `sha256:…` of its configuration.
    pub configuration: String,
}

/// The state of the audit of the cluster.
#[derive(Debug, Clone)]
pub enum AuditState {
    /// The installation has no audit.
    Off,
    /// Another server is the leader, and has the results.
    NotLeader,
    /// The first audit of this leader is not complete.
    Pending,
    /// Results of the last complete audit.
    Complete(AuditSummary),
}

/// Results of an audit.
#[derive(Debug, Clone)]
pub struct AuditSummary {
    /// When it ended.
    pub ended: SystemTime,
    /// The time that it took.
    pub duration: Duration,
    /// Number of evaluated objects.
    pub objects: u64,
    /// Number of errors.
    pub errors: u64,
    /// The violations, in any order.
    pub violations: Vec<AuditCount>,
}

/// The violations of a rule in a namespace.
#[derive(Debug, Clone)]
pub struct AuditCount {
    /// The policy.
    pub policy: String,
    /// The rule.
    pub rule: String,
    /// The namespace; empty for objects of the cluster.
    pub namespace: String,
    /// The effect that the violations would have.
    pub effect: String,
    /// Number of violations.
    pub count: u64,
}
