//! ClusterServiceVersions and the cluster: other versions, CRDs, and the version of the cluster.
//!
//! ```text
//! Csv ─┬─ required         required and owned APIs, in the cluster or in the bundle
//!      ├─ conversion       one conversion webhook for a CRD, and requirements for that CRD
//!      ├─ dependants       APIs that others require; Operators of tenants
//!      ├─ disconnected     dependencies of disconnected Operators
//!      ├─ versions         the same Operator in other namespaces
//!      ├─ server_version   minKubeVersion, and the version of the API server
//!      └─ cluster_version  Operators, and the version of OpenShift
//! ```
//!
//! Rules that are off read nothing. Indexes of the host find the other objects, see
//! [`crate::reads`].

mod apis;
pub(crate) mod cluster_version;
pub(crate) mod conversion;
pub(crate) mod dependants;
pub(crate) mod disconnected;
pub(crate) mod required;
pub(crate) mod server_version;
pub(crate) mod versions;

use opgate_sdk::copies::Marks;
use opgate_sdk::{Operation, Report, Review};

use crate::csv::Csv;

/// The rules that compare a ClusterServiceVersion with others, and with the cluster.
pub(crate) fn judge(csv: &mut Csv<'_, '_>) {
    required::judge(csv);
    conversion::judge(csv);
    dependants::tenant(csv);
    dependants::updated(csv);
    disconnected::judge(csv);
    versions::judge(csv);
    server_version::judge(csv);
    cluster_version::judge(csv);
}

/// A ClusterServiceVersion that is deleted, unless it claims to be a copy: only a warning depends
/// on it.
pub(crate) fn removed(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(old) = review.old.filter(|_| review.operation() == Operation::Delete) else { return };
    if !Marks::of(old, review.namespace()).claim() {
        dependants::removed(review, old, report);
    }
}
