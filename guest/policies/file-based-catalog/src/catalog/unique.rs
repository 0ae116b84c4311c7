//! Names and versions that are unique in a package.

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::go::quote;
use opgate_sdk::{Report, rule, rules};

use crate::CATALOG;
use crate::blob::blob_path;
use crate::bundle::Bundle;
use crate::catalog::Catalog;
use crate::text::join;

rules![FBC_14, FBC_30, FBC_32];

rule! {
    /// the name of a channel is unique in its package
    ///
    /// No two `olm.channel` blobs of a package have the same name.
    ///
    /// # Why
    ///
    /// A subscription names one channel. `opm validate` rejects two channels with the same name
    /// (operator-registry).
    ///
    /// # Remediation
    ///
    /// Put the entries into one blob, or rename one of the channels.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcd.v1.0.0}]}
    /// ---
    /// {schema: olm.channel, package: etcd, name: fast, entries: [{name: etcd.v1.0.0}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcd.v1.0.0}]}
    /// ---
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcd.v1.0.1}]}
    /// ```
    ///
    /// `message: package "etcd" has duplicate channel "stable"`
    FBC_14: Deny {
        name: "unique-channel-name-in-package",
        on: [CATALOG: Create | Update],
        source: ["operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

/// Evaluates the names of channels, and returns them.
pub(crate) fn check_channel_names<'c>(
    catalog: &'c Catalog,
    report: &mut Report<'_>,
) -> BTreeSet<&'c str> {
    let mut names = BTreeSet::new();
    for channel in catalog.channels.iter().filter(|channel| !channel.name.is_empty()) {
        if !names.insert(channel.name.as_str()) {
            let (package, name) = (quote(&channel.package), quote(&channel.name));
            let message = format!("package {package} has duplicate channel {name}");
            report.add(&FBC_14, blob_path(channel.at, ".name"), message);
        }
    }
    names
}

rule! {
    /// the name of a bundle is unique in its package
    ///
    /// No two `olm.bundle` blobs of a package have the same name, even if the blobs are identical.
    ///
    /// # Why
    ///
    /// An entry of a channel would refer to two bundles; `opm validate` rejects duplicates
    /// (OpenShift 4.12, Operators, *File-based catalogs*).
    ///
    /// # Remediation
    ///
    /// Remove the second blob, or rename it after its version.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.bundle, package: etcd, name: etcd.v1.0.0, image: quay.io/example/etcd:v1.0.0}
    /// ---
    /// {schema: olm.bundle, package: etcd, name: etcd.v1.0.1, image: quay.io/example/etcd:v1.0.1}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.bundle, package: etcd, name: etcd.v1.0.0, image: quay.io/example/etcd:v1.0.0}
    /// ---
    /// {schema: olm.bundle, package: etcd, name: etcd.v1.0.0, image: quay.io/example/etcd:latest}
    /// ```
    ///
    /// `message: package "etcd" has duplicate bundle "etcd.v1.0.0"`
    FBC_30: Deny {
        name: "unique-bundle-name-in-package",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L577", "OCP 4.15 L437-439", "OKD L127", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

/// Evaluates the names of bundles, and returns them. Without a package it is unknown whether a name
/// is taken.
pub(crate) fn check_bundle_names<'c>(
    catalog: &'c Catalog,
    report: &mut Report<'_>,
) -> BTreeSet<&'c str> {
    let mut names = BTreeSet::new();
    for bundle in catalog.bundles.iter().filter(|bundle| !bundle.name.is_empty()) {
        if !names.insert(bundle.name.as_str()) && !bundle.package.is_empty() {
            let (package, name) = (quote(&bundle.package), quote(&bundle.name));
            let message = format!("package {package} has duplicate bundle {name}");
            report.add(&FBC_30, bundle.name_field(), message);
        }
    }
    names
}

rule! {
    /// the version of a bundle is unique in its package
    ///
    /// No two bundles of a package with different names have the same version in their
    /// `olm.package` property. The release is part of the version, and versions are compared as
    /// text. Bundles without a package, and bundles with an unreadable version or release, do not
    /// count.
    ///
    /// # Why
    ///
    /// A version identifies one bundle of its package; `opm validate` rejects duplicates
    /// (operator-registry).
    ///
    /// # Remediation
    ///
    /// Give one of the bundles another version, or remove it.
    ///
    /// # Accepted
    ///
    /// Bundles `etcd.v1.0.0` and `etcd.v1.0.1` with the versions `1.0.0` and `1.0.1`.
    ///
    /// # Rejected
    ///
    /// Bundles `etcd.v1.0.0` and `etcd-alt.v1.0.0`, both with the version `1.0.0`.
    ///
    /// `message: duplicate versions found in bundles: [{1.0.0: [etcd-alt.v1.0.0, etcd.v1.0.0]}]`
    FBC_32: Deny {
        name: "unique-bundle-version-in-package",
        on: [CATALOG: Create | Update],
        source: ["operator-registry alpha/model/model.go"],
    }
}

/// Evaluates the versions of bundles.
pub(crate) fn check_versions(catalog: &Catalog, report: &mut Report<'_>) {
    let mut by_label: BTreeMap<&str, BTreeMap<&str, &Bundle>> = BTreeMap::new();
    for bundle in catalog.bundles.iter().filter(|bundle| !bundle.package.is_empty()) {
        if let Some(label) = &bundle.version_label {
            by_label.entry(label).or_default().entry(&bundle.name).or_insert(bundle);
        }
    }
    by_label.retain(|_, bundles| bundles.len() > 1);
    // The violation is at the later one of the first two.
    let Some(latest) = by_label.values().flat_map(BTreeMap::values).max_by_key(|b| b.at) else {
        return;
    };
    let groups = by_label
        .iter()
        .map(|(label, bundles)| format!("{{{label}: [{}]}}", join(bundles.keys().copied(), ", ")));
    let groups: Vec<_> = groups.collect();
    let groups = join(groups.iter().map(String::as_str), " ");
    let message = format!("duplicate versions found in bundles: [{groups}]");
    report.add(&FBC_32, latest.name_field(), message);
}
