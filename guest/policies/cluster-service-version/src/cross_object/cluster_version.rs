//! The last OpenShift version that an Operator supports, and the version of the cluster.
//!
//! ```text
//! ClusterServiceVersion ─▶ its maximum ◀── the cluster's version
//! ClusterVersion ─▶ the cluster's version ◀── the maximum of each installed ClusterServiceVersion
//! ```

use opgate_sdk::cluster::Query;
use opgate_sdk::copies::CopyMarks;
use opgate_sdk::go::shorten;
use opgate_sdk::{Report, Review, rule, rules};

use crate::annotations::openshift::{MinorVersion, maximum};
use crate::csv::Csv;
use crate::reads::{CLUSTER_VERSIONS, CSVS};
use crate::targets::{CLUSTER_VERSION, CSV};

rules![CSV_81, CSV_82];

/// The name of the only `ClusterVersion`.
const VERSION: &str = "version";
/// Bytes of a version that a message repeats.
const MAX_SHOWN_BYTES: usize = 256;

rule! {
    /// the Operator supports the OpenShift version of the cluster
    ///
    /// The property `olm.maxOpenShiftVersion` of the ClusterServiceVersion is not less than the
    /// major and minor version of the cluster. The property is in the annotation `olm.properties`
    /// or `operatorframework.io/properties`; if there are several, the lowest one counts. The
    /// version of the cluster is the setting `csv.openShiftVersion`, or else the last completed one
    /// in the history of the `ClusterVersion` `version`, or else its `status.desired.version`. As
    /// in OLM, 4.23 and 5.0 are one version. Copies are exempt. Only a new ClusterServiceVersion is
    /// evaluated.
    ///
    /// # Why
    ///
    /// According to its author, the Operator does not work on the cluster. OLM does not permit an
    /// update of the cluster while the Operator is installed.
    ///
    /// # Remediation
    ///
    /// Install a version of the Operator that supports the cluster.
    ///
    /// # Accepted
    ///
    /// A maximum of 4.12 on a cluster of 4.12.30
    ///
    /// # Rejected
    ///
    /// A maximum of 4.9 on a cluster of 4.12.30
    ///
    /// `message: etcdoperator.v0.9.4 supports OpenShift versions up to 4.9 but the cluster runs
    /// 4.12.30`
    CSV_81: Warn {
        name: "cluster-within-max-openshift-version",
        on: [CSV: Create],
        reads: [CLUSTER_VERSIONS],
        source: ["OCP 4.12 L21679-21704", "OCP 4.15 L15828-15874"],
    }
}

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    if csv.review.is_update() || !csv.is_on(&CSV_81) {
        return;
    }
    let Some(maximum) = maximum(csv.object) else { return };
    let Some(current) = current_version(csv.review, csv.report) else { return };
    if MinorVersion::parse(&current).is_some_and(|minor| minor > maximum.version) {
        let message = format!(
            "{} supports OpenShift versions up to {} but the cluster runs {}",
            shorten(&csv.name, MAX_SHOWN_BYTES),
            maximum.text,
            shorten(&current, MAX_SHOWN_BYTES),
        );
        csv.add(&CSV_81, &maximum.field(), message);
    }
}

/// The version that the cluster runs, if it has one.
fn current_version(review: &Review<'_>, report: &mut Report<'_>) -> Option<String> {
    if let Some(version) = review.settings.text("/csv/openShiftVersion") {
        return Some(version);
    }
    let found = CLUSTER_VERSIONS.get("", VERSION);
    let version = report.or_skip(&[&CSV_81], "ClusterVersions", found)??;
    // The newest comes first.
    let history = version.rows("/status/history", &["/state", "/version"]);
    let completed = history.iter().find(|row| row.text(0) == Some("Completed"));
    let completed = completed.and_then(|row| row.text(1)).map(str::to_owned);
    completed.or_else(|| version.text("/status/desired/version"))
}

rule! {
    /// installed Operators support the version to which the cluster is updated
    ///
    /// `spec.desiredUpdate.version` of a `ClusterVersion` is not of a later major and minor version
    /// than the property `olm.maxOpenShiftVersion` of any ClusterServiceVersion that is not a copy.
    /// The property is read as for CSV-81. There is one violation for each ClusterServiceVersion.
    /// An UPDATE is evaluated only if it changes `spec.desiredUpdate`. If it names an image without
    /// a version, and a ClusterServiceVersion has the property, the rule is skipped.
    ///
    /// # Gap
    ///
    /// The version of a release image is in the image. The Cluster Version Operator reads it there,
    /// and starts no update to another minor version while OLM reports that the cluster is not
    /// upgradeable.
    ///
    /// # Why
    ///
    /// OLM reports that the cluster is not upgradeable while such an Operator is installed. After
    /// the update, the Operator may stop working.
    ///
    /// # Remediation
    ///
    /// First update each Operator that the message names to a version that supports the new
    /// OpenShift version, or uninstall it.
    ///
    /// # Accepted
    ///
    /// `desiredUpdate: {version: 4.12.40}` with an installed maximum of 4.12
    ///
    /// # Rejected
    ///
    /// `desiredUpdate: {version: 4.13.1}` with an installed maximum of 4.12
    ///
    /// `message: cluster update to 4.13.1 is not allowed: ClusterServiceVersion
    /// operators/etcdoperator.v0.9.4 has olm.maxOpenShiftVersion 4.12`
    CSV_82: Deny {
        name: "operators-support-cluster-update",
        on: [CLUSTER_VERSION: Update],
        reads: [CSVS],
        source: [
            "OCP 4.12 L21682, L21700-21721",
            "OCP 4.15 L15828-15874",
            "OLM pkg/controller/operators/openshift/helpers.go",
        ],
    }
}

/// Evaluates an UPDATE of a `ClusterVersion`.
pub(crate) fn check_request(review: &Review<'_>, report: &mut Report<'_>) {
    let Some(object) = review.subject() else { return };
    if review.old_of_update().is_none() || !report.is_on(&CSV_82) {
        return;
    }
    let desired = object.text_or_empty("/spec/desiredUpdate/version");
    let only_image = desired.is_empty() && object.has("/spec/desiredUpdate/image");
    let minor = MinorVersion::parse(&desired);
    if minor.is_none() && !only_image || !review.touches_json(object, "/spec/desiredUpdate") {
        return;
    }
    let desired = shorten(&desired, MAX_SHOWN_BYTES);
    let mut found = Vec::new();
    let visited = CSVS.each(Query::default(), |csv| {
        let namespace = csv.text_or_empty("/metadata/namespace");
        if let Some(maximum) = maximum(&csv)
            && minor.is_none_or(|minor| minor > maximum.version)
            && !CopyMarks::of(&csv, &namespace).claims_copy()
        {
            found.push((namespace, csv.text_or_empty("/metadata/name"), maximum.text));
        }
        // One is enough to know that the version matters.
        !only_image || found.is_empty()
    });
    if report.or_skip(&[&CSV_82], "ClusterServiceVersions", visited).is_none() {
        return;
    }
    if only_image {
        if !found.is_empty() {
            let why = "the update names an image without its version";
            report.skip(&CSV_82, "spec.desiredUpdate", why);
        }
        return;
    }
    for (namespace, name, maximum) in found {
        let message = format!(
            "cluster update to {desired} is not allowed: ClusterServiceVersion {namespace}/{name} \
             has olm.maxOpenShiftVersion {maximum}"
        );
        report.add(&CSV_82, "spec.desiredUpdate.version", message);
    }
}
