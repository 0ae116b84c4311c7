//! PLACEHOLDER neighbours

use opgate_sdk::{Report, Review};

use crate::csv::Csv;

pub(crate) mod cluster_version;
pub(crate) mod required;
pub(crate) mod server_version;

opgate_sdk::rules![];

/// The rules that compare a ClusterServiceVersion with others, and with the cluster.
pub(crate) fn judge(csv: &mut Csv<'_, '_>) {
    required::judge(csv);
    server_version::judge(csv);
    cluster_version::judge(csv);
}

/// A ClusterServiceVersion that is deleted.
pub(crate) fn removed(_review: &Review<'_>, _report: &mut Report<'_>) {}
