//! The required members of a package, and the relations of its channels and bundles.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Report, corrections, rule, rules};

use crate::CATALOG;
use crate::blob::blob_path;
use crate::catalog::Catalog;
use crate::settings::Settings;
use crate::text::join;

rules![FBC_05, FBC_06, FBC_11, FBC_18, FBC_31];

rule! {
    /// each package has a channel
    ///
    /// A package (an `olm.package` blob with a name) has at least one `olm.channel` blob.
    ///
    /// # Why
    ///
    /// Users subscribe to a channel of a package. A package without a channel cannot be installed,
    /// and `opm validate` rejects the package (OpenShift 4.12, Operators, *File-based catalogs,
    /// Schemas*).
    ///
    /// # Remediation
    ///
    /// Add an `olm.channel` blob with an entry for each bundle.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.package, name: etcd, defaultChannel: stable}
    /// ---
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcd.v1.0.0}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # There is no olm.channel blob of this package.
    /// {schema: olm.package, name: etcd, defaultChannel: stable}
    /// ```
    ///
    /// `message: package must contain at least one channel`
    FBC_05: Deny {
        name: "package-has-channel",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L696", "OCP 4.15 L533", "OKD L180-183", "operator-registry alpha/model/model.go"],
    }
}

rule! {
    /// each package has a bundle
    ///
    /// A package (an `olm.package` blob with a name) has at least one `olm.bundle` blob.
    ///
    /// # Why
    ///
    /// A package without bundles cannot be installed (OpenShift 4.12, Operators, *File-based
    /// catalogs, Schemas*).
    ///
    /// # Remediation
    ///
    /// Add the `olm.bundle` blobs, for example with `opm render`, or remove the package.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.package, name: etcd, defaultChannel: stable}
    /// ---
    /// {schema: olm.bundle, package: etcd, name: etcd.v1.0.0, image: quay.io/example/etcd:v1.0.0}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # There is no olm.bundle blob of this package.
    /// {schema: olm.package, name: etcd, defaultChannel: stable}
    /// ```
    ///
    /// `message: package "etcd" must contain at least one olm.bundle blob`
    FBC_06: Deny {
        name: "package-has-bundle",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L696", "OCP 4.15 L533", "OKD L180-183"],
    }
}

/// Evaluates whether there are channels and bundles.
pub(crate) fn check_complete(catalog: &Catalog, report: &mut Report<'_>) {
    let Some(package) = catalog.package() else { return };
    if catalog.channels.is_empty() {
        let message = "package must contain at least one channel";
        report.add(&FBC_05, blob_path(package.at, ""), message);
    }
    if catalog.bundles.is_empty() {
        let message =
            format!("package {} must contain at least one olm.bundle blob", quote(&package.name));
        report.add(&FBC_06, blob_path(package.at, ""), message);
    }
}

rule! {
    /// the default channel of a package is one of its channels
    ///
    /// `defaultChannel` of an `olm.package` blob is the name of an `olm.channel` blob of the
    /// package. FBC-05 reports a package without any channel instead.
    ///
    /// # Why
    ///
    /// `opm validate` treats an undeclared default channel as an empty channel and rejects it, with
    /// the message of this rule (operator-registry).
    ///
    /// # Remediation
    ///
    /// Name a channel that exists, or add the `olm.channel` blob.
    ///
    /// `opgate check --fix --unsafe-fixes` proposes a correction.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.package, name: etcd, defaultChannel: stable}
    /// ---
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcd.v1.0.0}]}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.package, name: etcd, defaultChannel: stable}
    /// ---
    /// {schema: olm.channel, package: etcd, name: preview, entries: [{name: etcd.v1.0.0}]}
    /// ```
    ///
    /// `message: channel must contain at least one bundle`
    FBC_11: Deny {
        name: "package-default-channel-exists",
        on: [CATALOG: Create | Update],
        source: ["operator-registry alpha/declcfg/declcfg_to_model.go, alpha/model/model.go"],
    }
}

/// Evaluates whether default channels exist.
pub(crate) fn check_default_channels(
    catalog: &Catalog,
    channels: &BTreeSet<&str>,
    report: &mut Report<'_>,
) {
    // If there is no channel, only the missing channel is reported.
    if catalog.package().is_none() || catalog.channels.is_empty() {
        return;
    }
    for package in &catalog.packages {
        if let Some((name, field)) = &package.default_channel
            && !channels.contains(name.as_str())
        {
            let message = "channel must contain at least one bundle";
            report.add(&FBC_11, field.clone(), message);
            report.set_fix(&FBC_11, || {
                let (at, names): (_, Vec<&str>) = (package.at, channels.iter().copied().collect());
                let pointer = format!("/spec/blobs/{at}/value/{}", field.rsplit('.').next()?);
                let same = corrections::word(name, &names).map(|meant| (true, meant));
                let only = (names.len() == 1).then(|| names.first().copied()).flatten();
                let near = only.or_else(|| corrections::nearest(name, &names));
                let (is_same, meant) = same.or(near.map(|meant| (false, meant)))?;
                let write = if is_same { corrections::write } else { corrections::propose };
                Some(write(pointer, meant))
            });
        }
    }
}

rule! {
    /// every entry of a channel is a bundle of the package
    ///
    /// `name` of every entry is the name of an `olm.bundle` blob of the package. Names in
    /// `replaces` and `skips` need not exist. With the setting `catalog.entriesCheck: upstream`,
    /// which is the default in the profile `upstream`, only the last channel of each package is
    /// checked; otherwise all channels are checked. FBC-04 reports channels of a missing package.
    ///
    /// # Why
    ///
    /// OLM cannot install an entry without a bundle (OpenShift 4.12, Operators, *olm.channel
    /// schema*). `opm validate` checks only the last channel and misses the others.
    ///
    /// # Remediation
    ///
    /// Add the bundles that the message lists, or remove the entries.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.channel, package: etcd, name: stable,
    ///  entries: [{name: etcd.v1.0.0, replaces: etcd.v0.9.0}]}
    /// ---
    /// {schema: olm.bundle, package: etcd, name: etcd.v1.0.0, image: quay.io/example/etcd:v1.0.0}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// # There is no olm.bundle blob etcd.v2.0.0.
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcd.v2.0.0}]}
    /// ```
    ///
    /// `message: no olm.bundle blobs found in package "etcd" for olm.channel entries [etcd.v2.0.0]`
    FBC_18: Deny {
        name: "channel-entries-are-bundles",
        on: [CATALOG: Create | Update],
        source: ["OCP 4.12 L743, L754-765, L2546", "OCP 4.15 L579, L592-604", "OKD L206, L215-224", "operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

rule! {
    /// every bundle is an entry of a channel
    ///
    /// The name of every `olm.bundle` blob of a package is the name of an entry in at least one of
    /// its channels. A name in `replaces` or `skips` is not enough.
    ///
    /// # Why
    ///
    /// A bundle without a channel cannot be installed, and `opm validate` rejects it
    /// (operator-registry).
    ///
    /// # Remediation
    ///
    /// Add an entry for the bundle to a channel, or remove the bundle.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcd.v1.0.0}]}
    /// ---
    /// {schema: olm.bundle, package: etcd, name: etcd.v1.0.0, image: quay.io/example/etcd:v1.0.0}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// {schema: olm.channel, package: etcd, name: stable, entries: [{name: etcd.v1.0.0}]}
    /// ---
    /// {schema: olm.bundle, package: etcd, name: etcd.v1.0.1, image: quay.io/example/etcd:v1.0.1}
    /// ```
    ///
    /// `message: package "etcd", bundle "etcd.v1.0.1" not found in any channel entries`
    FBC_31: Deny {
        name: "catalog-bundle-in-channel",
        on: [CATALOG: Create | Update],
        source: ["operator-registry alpha/declcfg/declcfg_to_model.go"],
    }
}

/// Evaluates whether entries and bundles match. A missing package has no entries.
pub(crate) fn check_entries_and_bundles(
    catalog: &Catalog,
    bundles: &BTreeSet<&str>,
    settings: &Settings,
    report: &mut Report<'_>,
) {
    let in_package =
        |package: &String| !package.is_empty() && catalog.known_packages.contains(package);
    let mut entries = BTreeSet::new();
    let last = catalog.channels.len().saturating_sub(1);
    for (index, channel) in catalog.channels.iter().enumerate() {
        entries.extend(channel.entries.iter().map(|entry| entry.name.as_str()));
        if !in_package(&channel.package) || settings.last_channel_only && index != last {
            continue;
        }
        let is_missing = |name: &str| !bundles.contains(name);
        let missing: Vec<_> =
            channel.entries.iter().filter(|entry| is_missing(&entry.name)).collect();
        if let Some(first) = missing.first() {
            let mut names: Vec<_> = missing.iter().map(|entry| entry.name.as_str()).collect();
            names.sort_unstable();
            let message = format!(
                "no olm.bundle blobs found in package {} for olm.channel entries [{}]",
                quote(&channel.package),
                join(names, " ")
            );
            report.add(&FBC_18, channel.entry_field(first, "name"), message);
        }
    }
    for bundle in catalog.bundles.iter().filter(|bundle| in_package(&bundle.package)) {
        if !bundle.name.is_empty() && !entries.contains(bundle.name.as_str()) {
            let message = format!(
                "package {}, bundle {} not found in any channel entries",
                quote(&bundle.package),
                quote(&bundle.name)
            );
            report.add(&FBC_31, bundle.name_field(), message);
        }
    }
}
