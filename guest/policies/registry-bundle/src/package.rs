//! The format before bundles: all versions of a package in one directory, with `*.package.yaml`.
//!
//! ```text
//! etcd/
//! ├── 0.9.2/                 one ClusterServiceVersion with its CRDs
//! └── etcd.package.yaml      channels, each with the name of a ClusterServiceVersion
//! ```

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind, Report, rule, rules};

use crate::apis;
use crate::directory::{BUNDLE, BundleDirectory, Content, File, MANIFESTS, METADATA};
use crate::manifests::{self, CSV, Manifest, RBF_12};

rules![RBF_28, RBF_29, RBF_30];

/// The package manifests of the directory.
pub(crate) fn manifests<'f>(directory: &'f BundleDirectory<'_>) -> Vec<&'f File> {
    let is_package = |file: &&File| {
        [".package.yaml", ".package.yml", ".package.json"]
            .iter()
            .any(|end| file.name().ends_with(end))
    };
    directory.files_in("").filter(is_package).collect()
}

/// Whether the directory is that of a package, and not a bundle with an additional package
/// manifest.
pub(crate) fn is_package(directory: &BundleDirectory<'_>, packages: &[&File]) -> bool {
    !packages.is_empty()
        && !directory.has_directory(MANIFESTS)
        && !directory.has_directory(METADATA)
}

rule! {
    /// the legacy package manifest format is not used
    ///
    /// The top level of the directory contains no package manifest: no file `*.package.yaml`,
    /// `*.package.yml` or `*.package.json`. A directory with a package manifest, and without
    /// `manifests/` and `metadata/`, is evaluated as a package in the legacy format, by only
    /// RBF-07, RBF-12 and RBF-28 to RBF-30. Under the profile `ocp-4.5`, which supports the format,
    /// this rule reports nothing; the others still apply.
    ///
    /// # Why
    ///
    /// OpenShift 4.8 and later do not read the format, so the Operator cannot be in a catalog
    /// there. See OpenShift 4.12, Operators, *Migrating package manifest projects to bundle
    /// format*.
    ///
    /// # Remediation
    ///
    /// Convert the package with `operator-sdk pkgman-to-bundle`, which generates one bundle for
    /// each version. Set `profile: ocp-4.5` for clusters that still use the format.
    ///
    /// # Accepted
    ///
    /// A bundle with `manifests/` and `metadata/`, and no package manifest next to them.
    ///
    /// # Rejected
    ///
    /// ```text
    /// 0.9.2/etcdoperator.v0.9.2.clusterserviceversion.yaml
    /// etcd.package.yaml
    /// ```
    ///
    /// `message: support for the legacy package manifest format is removed in OpenShift Container
    /// Platform 4.8 and later`
    RBF_28: Warn {
        name: "no-legacy-package-manifest",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L4564, L23601-23608", "OCP 4.15 L2874, L18399", "OCP 4.5 L156-202"],
    }
}

/// Every package manifest.
pub(crate) fn check_manifests(
    directory: &BundleDirectory<'_>,
    packages: &[&File],
    settings: &Document,
    report: &mut Report<'_>,
) {
    for file in packages {
        if settings.text_or_empty("/profile") != "ocp-4.5" {
            let message = "support for the legacy package manifest format is removed in OpenShift Container Platform 4.8 and later";
            report.add(&RBF_28, file.field(), message);
        }
        match (&file.content, directory.first_document(file)) {
            (Content::Invalid(why), _) => {
                let message = format!("{}: cannot parse manifest: {why}", file.path);
                report.add(&RBF_12, file.error_field(), message);
            }
            (_, Some(object)) => {
                file.report_repeated_key(&RBF_12, report);
                check_channels(&object, file, report);
            }
            (_, None) => {
                for message in ["packageName empty", "channels empty"] {
                    report.add(&RBF_29, file.field(), message);
                }
            }
        }
    }
}

rule! {
    /// a package manifest has a name, channels and a default channel
    ///
    /// A package manifest (RBF-28) has a non-empty `packageName` and at least one entry in
    /// `channels`. Each channel has a unique, non-empty `name` and a non-empty `currentCSV`.
    /// `defaultChannel` is one of the channels; it can be missing if there is only one. The rule
    /// also applies to a package manifest next to `manifests/` and `metadata/`. A file that cannot
    /// be parsed violates RBF-12 instead.
    ///
    /// # Why
    ///
    /// The registry loads a package by its name and its channels, and a subscription without a
    /// channel uses the default channel. See OpenShift 4.5, Operators, *Package Manifest Format*.
    ///
    /// # Remediation
    ///
    /// Set the field that the message names. Give each channel its own name, and choose one of
    /// several as `defaultChannel`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// packageName: etcd
    /// channels: [{name: alpha, currentCSV: etcdoperator.v0.9.2}]
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// packageName: etcd
    /// channels: []
    /// ```
    ///
    /// `message: channels empty`
    ///
    /// The other messages are:
    ///
    /// ```text
    /// packageName empty
    /// channel 0 name is empty
    /// channel "" currentCSV is empty
    /// duplicate package manifest channel name "alpha"
    /// default channel is empty but more than one channel exists
    /// default channel "gamma" not found in the list of declared channels
    /// ```
    RBF_29: Deny {
        name: "package-manifest-required-fields",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L2373-2379", "OCP 4.5 L186-198", "api pkg/validation/internal/package_manifest.go"],
    }
}

/// After api `pkg/validation/internal/package_manifest.go`.
fn check_channels(package: &Document, file: &File, report: &mut Report<'_>) {
    let mut deny = |field: &str, message: String| {
        report.add(&RBF_29, file.within(field), message);
    };
    if package.text_or_empty("/packageName").is_empty() {
        deny("packageName", "packageName empty".to_owned());
    }
    let count = match package.kind("/channels") {
        Kind::List => package.length("/channels").unwrap_or_default(),
        _ => 0,
    };
    if count == 0 {
        deny("channels", "channels empty".to_owned());
        return;
    }
    let default = package.text_or_empty("/defaultChannel");
    if default.is_empty() && count > 1 {
        let message = "default channel is empty but more than one channel exists";
        deny("defaultChannel", message.to_owned());
    }
    let mut seen = BTreeSet::new();
    for (index, channel) in package.items("/channels").enumerate() {
        let name = channel.text_or_empty("/name");
        let field = format!("channels[{index}]");
        if name.is_empty() {
            deny(&field, format!("channel {index} name is empty"));
        }
        if channel.text_or_empty("/currentCSV").is_empty() {
            deny(&field, format!("channel {} currentCSV is empty", quote(&name)));
        }
        if seen.contains(&name) {
            let message = format!("duplicate package manifest channel name {}", quote(&name));
            deny(&format!("{field}.name"), message);
        }
        seen.insert(name);
    }
    if !default.is_empty() && !seen.contains(&default) {
        let message = format!(
            "default channel {} not found in the list of declared channels",
            quote(&default)
        );
        deny("defaultChannel", message);
    }
}

rule! {
    /// a package has every ClusterServiceVersion that its channels and versions refer to
    ///
    /// In the legacy package manifest format, every directory at the top level contains exactly one
    /// ClusterServiceVersion; directories with a leading dot are ignored. Each
    /// `channels[].currentCSV` and each `spec.replaces` names a ClusterServiceVersion of the
    /// package. If a version directory has no readable ClusterServiceVersion but an unreadable
    /// file, the names are not compared, and the rule is skipped. RBF-07 evaluates CRDs that a
    /// version owns.
    ///
    /// # Why
    ///
    /// The registry loads all versions of the package, and rejects it if one of them is missing.
    /// The requirements are in OpenShift 4.5, Operators, *Package Manifest Format*.
    ///
    /// # Remediation
    ///
    /// Add the missing version, or correct the name that refers to it. Split a directory with
    /// several ClusterServiceVersions, and move other directories out of the package.
    ///
    /// # Accepted
    ///
    /// A directory `0.9.0/` whose ClusterServiceVersion is `etcdoperator.v0.9.0`, and next to it:
    ///
    /// ```yaml
    /// channels: [{name: alpha, currentCSV: etcdoperator.v0.9.0}]
    /// ```
    ///
    /// # Rejected
    ///
    /// This directory, and next to it:
    ///
    /// ```yaml
    /// channels: [{name: alpha, currentCSV: etcdoperator.v1.0.0}]
    /// ```
    ///
    /// `message: channel "alpha" currentCSV "etcdoperator.v1.0.0" not found in the package`
    ///
    /// The other messages are:
    ///
    /// ```text
    /// etcdoperator.v0.9.0 specifies replacement that couldn't be found
    /// version directory "1.0.0" must contain exactly one ClusterServiceVersion
    /// ```
    RBF_30: Deny {
        name: "package-manifest-csvs-exist",
        on: [BUNDLE: Create | Update],
        may_skip: true,
        source: ["OCP 4.5 L196-202, L3118-3119"],
    }
}

/// Every version of a package, and the references to it.
pub(crate) fn check_versions(
    directory: &BundleDirectory<'_>,
    packages: &[&File],
    report: &mut Report<'_>,
) {
    let mut versions: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for name in directory.directories_in("").filter(|name| !name.starts_with('.')) {
        versions.insert(name, Vec::new());
    }
    for file in &directory.files {
        if let Some(files) = versions.get_mut(file.directory()) {
            files.push(file);
        }
    }
    let mut names = BTreeSet::new();
    let mut replaced = Vec::new();
    let mut is_complete = true;
    for (version, files) in versions {
        let failed: Vec<_> = files.iter().copied().filter(|file| file.is_invalid()).collect();
        for file in &failed {
            manifests::check_parsable(directory, file, report);
        }
        for file in &files {
            file.report_repeated_key(&RBF_12, report);
        }
        let manifests = manifests::of(directory, files.iter().copied());
        let csvs: Vec<_> = manifests.iter().filter(|manifest| manifest.kind == CSV).collect();
        if csvs.is_empty() && !failed.is_empty() {
            // An unreadable file can contain the ClusterServiceVersion.
            is_complete = false;
        } else if csvs.len() != 1 {
            let message = format!(
                "version directory {} must contain exactly one ClusterServiceVersion",
                quote(version)
            );
            let another = csvs.get(1).map(|csv| csv.file.within("kind"));
            let field = another.unwrap_or_else(|| "spec.directories".to_owned());
            report.add(&RBF_30, field, message);
        }
        for csv in csvs {
            replaced.extend(read_replacement(directory, csv));
            names.insert(csv.name.clone());
        }
        apis::check(directory, &manifests, false, &failed, report);
    }
    if !is_complete {
        // The names of the ClusterServiceVersions are not known either.
        report.skip(&RBF_30, "", "a file of a version cannot be read");
        return;
    }
    for Replacement { name, replaces, field } in replaced {
        if !names.contains(&replaces) {
            let message = format!("{name} specifies replacement that couldn't be found");
            report.add(&RBF_30, field, message);
        }
    }
    for file in packages {
        let Some(package) = directory.first_document(file) else { continue };
        for (index, channel) in package.items("/channels").enumerate() {
            let current = channel.text_or_empty("/currentCSV");
            // RBF-29 reports an empty name.
            if !current.is_empty() && !names.contains(&current) {
                let message = format!(
                    "channel {} currentCSV {} not found in the package",
                    quote(&channel.text_or_empty("/name")),
                    quote(&current)
                );
                let field = file.within(&format!("channels[{index}].currentCSV"));
                report.add(&RBF_30, field, message);
            }
        }
    }
}

/// The name that a `ClusterServiceVersion` replaces.
struct Replacement {
    name: String,
    replaces: String,
    field: String,
}

fn read_replacement(directory: &BundleDirectory<'_>, csv: &Manifest<'_>) -> Option<Replacement> {
    let replaces = directory.first_document(csv.file)?.text_or_empty("/spec/replaces");
    let field = csv.file.within("spec.replaces");
    (!replaces.is_empty()).then(|| Replacement { name: csv.name.clone(), replaces, field })
}
