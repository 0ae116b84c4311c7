//! The version of Kubernetes that a ClusterServiceVersion needs, and that of the cluster.

use opgate_sdk::{Report, Review, rule, rules};

use crate::csv::Csv;
use crate::kubernetes_version::{Version, without_v};
use crate::reads::SERVER_VERSIONS;
use crate::targets::CSV;

rules![CSV_23];

/// The only object of the read.
const SERVER: &str = "kubernetes";
const FIELD: &str = "spec.minKubeVersion";

rule! {
    /// the Kubernetes version of the cluster is at least spec.minKubeVersion
    ///
    /// `spec.minKubeVersion` is not newer than the version of the API server. As in OLM, a `v`
    /// before either version does not count, and neither does a pre-release of the API server's:
    /// `v1.25.4-eks-1` is 1.25.4. The version is the setting `csv.kubernetesVersion`, or else the
    /// version that the API server reports. CSV-22 reports a minimum that is not a version. Copies
    /// are exempt. Only a new ClusterServiceVersion is evaluated.
    ///
    /// # Why
    ///
    /// OLM does not install the Operator: the ClusterServiceVersion stays pending with this message
    /// until the cluster is updated.
    ///
    /// # Remediation
    ///
    /// Install a version of the Operator for this cluster, or update the cluster first.
    ///
    /// # Accepted
    ///
    /// `minKubeVersion: 1.21.0` on Kubernetes 1.25.4
    ///
    /// # Rejected
    ///
    /// `minKubeVersion: 1.30.0` on Kubernetes 1.25.4
    ///
    /// `message: CSV version requirement not met: minKubeVersion (1.30.0) > server version
    /// (1.25.4)`
    CSV_23: Warn {
        name: "cluster-meets-min-kube-version",
        on: [CSV: Create],
        reads: [SERVER_VERSIONS],
        source: ["OLM pkg/controller/operators/olm/requirements.go"],
    }
}

pub(super) fn check(csv: &mut Csv<'_, '_>) {
    if csv.review.is_update() || !csv.is_on(&CSV_23) {
        return;
    }
    let minimum = csv.object.text_or_empty("/spec/minKubeVersion");
    let Some(needed) = Version::parse(without_v(&minimum)) else { return };
    let Some(server) = server_version(csv.review, csv.report) else { return };
    // OLM drops a pre-release of the server's version.
    let server = without_v(&server).split('-').next().unwrap_or_default();
    let Some(version) = Version::parse(server) else {
        return csv.report.skip(&CSV_23, FIELD, "the version of the API server is not one");
    };
    if needed.numbers > version.numbers {
        let [major, minor, patch] = version.numbers;
        let build = version.build;
        let message = format!(
            "CSV version requirement not met: minKubeVersion ({minimum}) > server version \
             ({major}.{minor}.{patch}{build})"
        );
        csv.add(&CSV_23, FIELD, message);
    }
}

/// The version from the setting or the API server.
fn server_version(review: &Review<'_>, report: &mut Report<'_>) -> Option<String> {
    if let Some(version) = review.settings.text("/csv/kubernetesVersion") {
        return Some(version);
    }
    let found = report.or_skip(&[&CSV_23], "ServerVersions", SERVER_VERSIONS.get("", SERVER))?;
    let version = found.and_then(|server| server.text("/gitVersion"));
    if version.is_none() {
        report.skip(&CSV_23, FIELD, "the version of the API server is not known");
    }
    version
}
