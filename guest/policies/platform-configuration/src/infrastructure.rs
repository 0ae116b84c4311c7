//! The topologies that the platform reports to Operators.

use opgate_sdk::go::{quote, shorten};
use opgate_sdk::{Report, Review, rule, rules};

use crate::targets::INFRASTRUCTURE_STATUS;

rules![MSC_09];

/// The topologies that the documents list.
const TOPOLOGIES: [&str; 2] = ["HighlyAvailable", "SingleReplica"];
const FIELDS: [&str; 2] = ["controlPlaneTopology", "infrastructureTopology"];
/// Maximum bytes of a value in a message.
const MAX_SHOWN_BYTES: usize = 256;

rule! {
    /// the topology of the cluster is one that Operators know
    ///
    /// `status.controlPlaneTopology` and `status.infrastructureTopology` of an Infrastructure are
    /// each `HighlyAvailable` or `SingleReplica`, or one of the setting `misc.topologies`, or
    /// empty. The rule evaluates only writes of the status, and only the fields that they change.
    ///
    /// # Why
    ///
    /// Operators choose the number of replicas of their workloads by these fields, and support the
    /// documented values (OpenShift 4.12, Operators, *High-availability or single-node cluster
    /// detection and support*). Newer platforms have more values, such as `External`.
    ///
    /// # Remediation
    ///
    /// If the platform has other topologies, list them in `misc.topologies`, and make sure that the
    /// Operators on the cluster support them.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// status: {controlPlaneTopology: HighlyAvailable, infrastructureTopology: HighlyAvailable}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// status: {controlPlaneTopology: DualReplica}
    /// ```
    ///
    /// `message: status.controlPlaneTopology "DualReplica" is not one of HighlyAvailable,
    /// SingleReplica`
    MSC_09: Warn {
        name: "known-cluster-topology",
        on: [INFRASTRUCTURE_STATUS: Update],
        source: ["OCP 4.12 L22858-22861", "OCP 4.15 L17454-17458"],
    }
}

pub(crate) fn check(review: &Review<'_>, report: &mut Report<'_>) {
    const SETTING: &str = "/misc/topologies";
    let Some(object) = review.subject() else { return };
    let known = if review.settings.has(SETTING) {
        review.settings.texts(SETTING)
    } else {
        TOPOLOGIES.map(str::to_owned).into()
    };
    for field in FIELDS {
        let pointer = format!("/status/{field}");
        let value = object.text_or_empty(&pointer);
        let is_known = value.is_empty() || known.contains(&value);
        if !is_known && review.touches_json(object, &pointer) {
            let value = quote(&shorten(&value, MAX_SHOWN_BYTES));
            let known = known.join(", ");
            let message = format!("status.{field} {value} is not one of {known}");
            report.add(&MSC_09, format!("status.{field}"), message);
        }
    }
}
