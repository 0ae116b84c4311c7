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

use opgate_sdk::copies::CopyMarks;
use opgate_sdk::{Operation, Report, Review};

use crate::csv::Csv;

/// The rules that compare a ClusterServiceVersion with others, and with the cluster.
pub(crate) fn check(csv: &mut Csv<'_, '_>) {
    required::check(csv);
    conversion::check(csv);
    dependants::check_tenant(csv);
    dependants::check_updated(csv);
    disconnected::check(csv);
    versions::check(csv);
    server_version::check(csv);
    cluster_version::check(csv);
}

/// A ClusterServiceVersion that is deleted, unless it claims to be a copy: only a warning depends
/// on it.
pub(crate) fn check_removed(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(old) = review.old.filter(|_| review.operation() == Operation::Delete) else { return };
    if !CopyMarks::of(old, review.namespace()).claims_copy() {
        dependants::check_removed(review, old, report);
    }
}
