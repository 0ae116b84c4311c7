//! Reports of the audit: for each stored object that violates a rule, one object that names the violations.
//!
//! ```text
//! API server ─▶ StoredReports: metadata only, with the digest of each content ──┐
//! results of an object ─▶ ObjectReport ─▶ digest ─▶ ReportSync ◀────────────────┘
//!          policy error: earlier results ─▶ ▲          └▶ ReportWriter: apply what differs, delete the rest
//! ```
//!
//! Each report belongs to its object (`ownerReferences`), so that the garbage collector of the cluster deletes
//! both together. **What is unknown keeps its report**: a kind that could not be listed, or an object that
//! not all rules evaluated. Of a policy that failed, the earlier results stay next to its error.

mod content;
mod owner;
mod stored;
mod sync;
#[cfg(test)]
mod tests;
mod writer;

use opgate_admission::cluster::ApiGroup;
use opgate_cluster::Resource;

pub use content::{ReportResult, ReportedObject, ResultStatus};
pub use owner::{INSTALLATION_LABEL, ReportOwner};
pub use sync::{ReportSync, SyncSummary};

/// Label of every report: `app.kubernetes.io/managed-by=opgate`.
pub const MANAGED_BY_LABEL: (&str, &str) = ("app.kubernetes.io/managed-by", "opgate");

/// Annotation of a report: the digest of its content without the times.
pub const DIGEST_ANNOTATION: &str = "opgate.dev/digest";

/// Field manager of the reports.
pub const FIELD_MANAGER: &str = "opgate-audit";

/// Prefix of the names of reports; the UID of the object follows.
const NAME_PREFIX: &str = "opgate-";

/// The APIs for reports. Other programs show them, whichever program wrote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportApi {
    /// `Report` and `ClusterReport` of openreports.io.
    OpenReports,
    /// `PolicyReport` and `ClusterPolicyReport` of wgpolicyk8s.io, the predecessor.
    PolicyReport,
}

impl ReportApi {
    /// All of them, the preferred one first.
    pub const ALL: [Self; 2] = [Self::OpenReports, Self::PolicyReport];

    /// Returns the API group.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::OpenReports => "openreports.io",
            Self::PolicyReport => "wgpolicyk8s.io",
        }
    }

    /// Returns the API version.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::OpenReports => "v1alpha1",
            Self::PolicyReport => "v1alpha2",
        }
    }

    /// Returns the project that publishes the definitions.
    #[must_use]
    pub fn project(self) -> &'static str {
        match self {
            Self::OpenReports => "github.com/openreports/reports-api",
            Self::PolicyReport => "github.com/kubernetes-sigs/wg-policy-prototypes",
        }
    }

    /// Reports whether an API server serves it.
    #[must_use]
    pub fn is_among(self, groups: &[ApiGroup]) -> bool {
        groups.iter().any(|group| {
            group.name == self.group() && group.versions.iter().any(|v| v == self.version())
        })
    }

    /// Returns the resource of reports about objects in namespaces, or of the cluster.
    #[must_use]
    pub fn resource(self, is_namespaced: bool) -> &'static str {
        match (self, is_namespaced) {
            (Self::OpenReports, true) => "reports",
            (Self::OpenReports, false) => "clusterreports",
            (Self::PolicyReport, true) => "policyreports",
            (Self::PolicyReport, false) => "clusterpolicyreports",
        }
    }

    /// Reports whether a resource has reports, in any version.
    #[must_use]
    pub fn has_resource(Resource { group, resource, .. }: &Resource) -> bool {
        Self::ALL.into_iter().any(|api| {
            api.group() == group && [true, false].into_iter().any(|is| api.resource(is) == resource)
        })
    }

    fn kind(self, is_namespaced: bool) -> &'static str {
        match (self, is_namespaced) {
            (Self::OpenReports, true) => "Report",
            (Self::OpenReports, false) => "ClusterReport",
            (Self::PolicyReport, true) => "PolicyReport",
            (Self::PolicyReport, false) => "ClusterPolicyReport",
        }
    }

    fn group_version(self) -> String {
        format!("{}/{}", self.group(), self.version())
    }

    fn listed_resource(self, is_namespaced: bool) -> Resource {
        Resource {
            group: self.group().to_owned(),
            version: self.version().to_owned(),
            resource: self.resource(is_namespaced).to_owned(),
        }
    }
}

/// Namespace (empty for reports about objects of the cluster) and name of a report.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ReportKey {
    namespace: String,
    name: String,
}

impl ReportKey {
    fn is_namespaced(&self) -> bool {
        !self.namespace.is_empty()
    }
}

impl std::fmt::Display for ReportKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { namespace, name } = self;
        if namespace.is_empty() { f.write_str(name) } else { write!(f, "{namespace}/{name}") }
    }
}

/// Returns the group of an `apiVersion`, empty for the core group.
fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
