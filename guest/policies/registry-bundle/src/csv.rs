//! The `ClusterServiceVersion` of a bundle, its service accounts and its release.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Fix, Report, corrections, rule, rules};

use crate::directory::{BUNDLE, BundleDirectory, MANIFESTS};
use crate::manifests::{self, CSV, Manifest};

rules![RBF_06, RBF_13, RBF_16];

rule! {
    /// manifests/ contains exactly one ClusterServiceVersion
    ///
    /// Exactly one file in `manifests/` is of kind ClusterServiceVersion. Only the first document
    /// of a file counts (RBF-32). If there is no ClusterServiceVersion, and a file in `manifests/`
    /// is unreadable or has a ClusterServiceVersion without `kind` (CSV-27), the rule is skipped:
    /// that file can contain the ClusterServiceVersion. A bundle without `manifests/` violates only
    /// RBF-01.
    ///
    /// # Why
    ///
    /// A bundle is one version of an Operator, and its ClusterServiceVersion describes that
    /// version. The registry rejects a bundle with none or several, see OpenShift 4.12, Operators,
    /// *Bundle format*.
    ///
    /// # Remediation
    ///
    /// Add the ClusterServiceVersion, or make a separate bundle for each version of the Operator.
    ///
    /// # Accepted
    ///
    /// ```text
    /// manifests/etcdcluster.crd.yaml
    /// manifests/etcdoperator.clusterserviceversion.yaml
    /// ```
    ///
    /// # Rejected
    ///
    /// ```text
    /// manifests/etcdcluster.crd.yaml
    /// ```
    ///
    /// `message: no ClusterServiceVersion object found in manifests`
    ///
    /// For each ClusterServiceVersion after the first: `message: more than one
    /// ClusterServiceVersion is found in bundle`
    RBF_06: Deny {
        name: "one-csv-per-bundle",
        on: [BUNDLE: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L302, L317", "OCP 4.15 L274-278", "OCP 4.5 L219, L225", "OKD L22, L25", "operator-registry pkg/registry/csv.go"],
    }
}

/// An unreadable file can contain the ClusterServiceVersion, and CSV-27 reports a
/// ClusterServiceVersion without a kind.
pub(crate) fn check_single_csv(
    directory: &BundleDirectory<'_>,
    manifests: &[Manifest<'_>],
    report: &mut Report<'_>,
) {
    let mut csvs = manifests.iter().filter(|manifest| manifest.kind == CSV);
    match csvs.next() {
        Some(_) => {}
        None if directory
            .files_in(MANIFESTS)
            .any(|file| manifests::may_hold_csv(directory, file)) =>
        {
            report.skip(&RBF_06, "", "a file in manifests cannot be read, or has no kind");
        }
        None => {
            let message = format!("no ClusterServiceVersion object found in {MANIFESTS}");
            report.add(&RBF_06, "spec.files", message);
        }
    }
    for another in csvs {
        let message = "more than one ClusterServiceVersion is found in bundle";
        report.add(&RBF_06, another.file.within("kind"), message);
    }
}

rule! {
    /// no ServiceAccount has the name of a service account of the deployments
    ///
    /// No ServiceAccount of `apiVersion: v1` in `manifests/` has the name of a `serviceAccountName`
    /// in the pod templates of `spec.install.spec.deployments` of the ClusterServiceVersion. Other
    /// ServiceAccounts are allowed.
    ///
    /// # Why
    ///
    /// OLM creates the ServiceAccounts that the deployments use. A second definition in the bundle
    /// conflicts with it. The validators of operator-framework/api reject such a bundle.
    ///
    /// # Remediation
    ///
    /// Remove the ServiceAccount from `manifests/`. To keep a separate one, rename it there or in
    /// the ClusterServiceVersion.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiVersion: v1
    /// kind: ServiceAccount
    /// metadata: {name: metrics-reader}
    /// ```
    ///
    /// # Rejected
    ///
    /// If a deployment of the ClusterServiceVersion has `serviceAccountName: etcd-operator`:
    ///
    /// ```yaml
    /// apiVersion: v1
    /// kind: ServiceAccount
    /// metadata: {name: etcd-operator}
    /// ```
    ///
    /// `message: invalid service account found in bundle. This service account etcd-operator in
    /// your bundle is not valid, because a service account with the same name was already specified
    /// in your CSV. If this was unintentional, please remove the service account manifest from your
    /// bundle. If it was intentional to specify a separate service account, please rename the SA in
    /// either the bundle manifest or the CSV.`
    RBF_13: Deny {
        name: "no-service-account-of-deployments",
        on: [BUNDLE: Create | Update],
        source: ["api pkg/validation/internal/bundle.go"],
    }
}

pub(crate) fn check_accounts(
    directory: &BundleDirectory<'_>,
    manifests: &[Manifest<'_>],
    report: &mut Report<'_>,
) {
    let mut used = BTreeSet::new();
    for csv in manifests.iter().filter(|manifest| manifest.kind == CSV) {
        let Some(object) = directory.first_document(csv.file) else { continue };
        for deployment in object.items("/spec/install/spec/deployments") {
            used.extend(deployment.text("/spec/template/spec/serviceAccountName"));
        }
    }
    let is_account = |m: &&Manifest<'_>| m.api_version == "v1" && m.kind == "ServiceAccount";
    for account in manifests.iter().filter(is_account) {
        if !account.name.is_empty() && used.contains(&account.name) {
            let message = format!(
                "invalid service account found in bundle. This service account {} in your bundle is not valid, because a service account with the same name was already specified in your CSV. If this was unintentional, please remove the service account manifest from your bundle. If it was intentional to specify a separate service account, please rename the SA in either the bundle manifest or the CSV.",
                account.name
            );
            report.add(&RBF_13, account.file.within("metadata.name"), message);
        }
    }
}

rule! {
    /// a bundle with a release is named after package, version and release, and has no olm.substitutesFor
    ///
    /// If `spec.release` of the ClusterServiceVersion is set, its name is
    /// `<package>-v<version>-<release>`, and it has no annotation `olm.substitutesFor`. The package
    /// is the annotation `operators.operatorframework.io.bundle.package.v1` of the bundle; without
    /// it (RBF-03) the name is not checked. The version is `spec.version`. The rule does not apply
    /// to a ClusterServiceVersion without `spec.release`.
    ///
    /// # Why
    ///
    /// The catalog requires this name for a bundle with a release, and rejects any other name. A
    /// release cannot be combined with `olm.substitutesFor`, which replaces a bundle in another
    /// way. The validators of operator-framework/api and operator-registry reject such a bundle.
    ///
    /// # Remediation
    ///
    /// Rename the ClusterServiceVersion to the name that the message expects, and remove
    /// `olm.substitutesFor`. Otherwise remove `spec.release`.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// In the package `test-operator`:
    ///
    /// ```yaml
    /// metadata: {name: test-operator-v0.9.4-1}
    /// spec: {version: 0.9.4, release: "1"}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// metadata: {name: etcdoperator.v0.9.4}
    /// spec: {version: 0.9.4, release: "1"}
    /// ```
    ///
    /// `message: bundle name with release versioning "etcdoperator.v0.9.4" does not match expected
    /// name "test-operator-v0.9.4-1"`
    ///
    /// For the annotation: `message: bundle "test-operator-v0.9.4-1" cannot have both a release
    /// version ("1") and olm.substitutesFor annotation ("etcdoperator.v0.9.2")`
    RBF_16: Deny {
        name: "bundle-release-name",
        on: [BUNDLE: Create | Update],
        source: ["api pkg/validation/internal/bundle.go", "operator-registry pkg/lib/validation/bundle.go"],
    }
}

/// `package` is the name of the package in the annotations, if they have one.
pub(crate) fn check_release(
    directory: &BundleDirectory<'_>,
    manifests: &[Manifest<'_>],
    package: Option<&str>,
    report: &mut Report<'_>,
) {
    for csv in manifests.iter().filter(|manifest| manifest.kind == CSV) {
        let Some(object) = directory.first_document(csv.file) else { continue };
        let release = object.text_or_empty("/spec/release");
        if release.is_empty() {
            continue;
        }
        if let Some(package) = package {
            let version = object.text_or_empty("/spec/version");
            let expected = format!("{package}-v{version}-{release}");
            if csv.name != expected {
                let message = format!(
                    "bundle name with release versioning {} does not match expected name {}",
                    quote(&csv.name),
                    quote(&expected)
                );
                report.add(&RBF_16, csv.file.within("metadata.name"), message);
                report.set_fix(&RBF_16, || {
                    Some(corrections::propose(csv.file.pointer("/metadata/name"), &expected))
                });
            }
        }
        let substitutes = object.text_or_empty("/metadata/annotations/olm.substitutesFor");
        if !substitutes.is_empty() {
            let message = format!(
                "bundle {} cannot have both a release version ({}) and olm.substitutesFor annotation ({})",
                quote(&csv.name),
                quote(&release),
                quote(&substitutes)
            );
            let field = csv.file.within("metadata.annotations[olm.substitutesFor]");
            report.add(&RBF_16, field, message);
            report.set_fix(&RBF_16, || {
                let annotation = csv.file.pointer("/metadata/annotations/olm.substitutesFor");
                Some(Fix::needs_review("remove olm.substitutesFor").remove(annotation))
            });
        }
    }
}
