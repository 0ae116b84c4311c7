//! PLACEHOLDER neighbours

use opgate_sdk::{Report, Review};

use crate::csv::Csv;

opgate_sdk::rules![];

/// The rules that compare a ClusterServiceVersion with others, and with the cluster.
pub(crate) fn judge(_csv: &mut Csv<'_, '_>) {}

/// A ClusterServiceVersion that is deleted.
pub(crate) fn removed(_review: &Review<'_>, _report: &mut Report<'_>) {}
