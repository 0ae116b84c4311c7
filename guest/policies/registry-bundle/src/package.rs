//! The format before bundles: all versions of a package in one directory, with `*.package.yaml`
//! (RBF-28 to RBF-30).
//!
//! ```text
//! etcd/
//! ├── 0.9.2/                 one ClusterServiceVersion with its CRDs
//! └── etcd.package.yaml      channels, each with the name of a ClusterServiceVersion
//! ```

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind};

use crate::findings::Findings;
use crate::folder::{Content, File, Folder};
use crate::manifests::{self, CSV, Manifest};
use crate::{apis, layout};

/// The package manifests of the folder.
pub(crate) fn manifests<'f>(folder: &'f Folder<'_>) -> Vec<&'f File> {
    let is_package = |file: &&File| {
        [".package.yaml", ".package.yml", ".package.json"]
            .iter()
            .any(|end| file.name().ends_with(end))
    };
    folder.files_in("").filter(is_package).collect()
}

/// Whether the folder is that of a package, and not a bundle with a package manifest beside it.
pub(crate) fn is_package(folder: &Folder<'_>, packages: &[&File]) -> bool {
    !packages.is_empty()
        && !folder.has_directory(manifests::DIRECTORY)
        && !folder.has_directory(layout::METADATA)
}

/// RBF-28 and RBF-29.
pub(crate) fn judge_manifests(
    folder: &Folder<'_>,
    packages: &[&File],
    settings: &Document,
    findings: &mut Findings<'_>,
) {
    for file in packages {
        if settings.text_or_empty("/profile") != "ocp-4.5" {
            let message = "support for the legacy package manifest format is removed in OpenShift Container Platform 4.8 and later";
            findings.warn("RBF-28", file.field(), message);
        }
        match (&file.content, folder.first(file)) {
            (Content::Failed(why), _) => {
                let message = format!("{}: cannot parse manifest: {why}", file.path);
                findings.deny("RBF-12", file.error_field(), message);
            }
            (_, Some(object)) => channels(&object, file, findings),
            (_, None) => {
                for message in ["packageName empty", "channels empty"] {
                    findings.deny("RBF-29", file.field(), message);
                }
            }
        }
    }
}

/// RBF-29. After api `pkg/validation/internal/package_manifest.go`.
fn channels(package: &Document, file: &File, findings: &mut Findings<'_>) {
    let mut deny = |field: &str, message: String| {
        findings.deny("RBF-29", file.within(field), message);
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

/// RBF-30, and RBF-07 for every version: the folder is a package.
pub(crate) fn judge_versions(folder: &Folder<'_>, packages: &[&File], findings: &mut Findings<'_>) {
    let mut versions: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for directory in folder.directories_in("").filter(|name| !name.starts_with('.')) {
        versions.insert(directory, Vec::new());
    }
    for file in &folder.files {
        if let Some(files) = versions.get_mut(file.directory()) {
            files.push(file);
        }
    }
    let mut names = BTreeSet::new();
    let mut replaced = Vec::new();
    let mut is_complete = true;
    for (version, files) in versions {
        let failed: Vec<_> = files.iter().filter(|file| file.is_failed()).collect();
        for file in &failed {
            manifests::parses(folder, file, findings);
        }
        let manifests = manifests::of(folder, files.iter().copied());
        let csvs: Vec<_> = manifests.iter().filter(|manifest| manifest.kind == CSV).collect();
        if csvs.is_empty() && !failed.is_empty() {
            // What cannot be read may be the one.
            is_complete = false;
        } else if csvs.len() != 1 {
            let message = format!(
                "version directory {} must contain exactly one ClusterServiceVersion",
                quote(version)
            );
            let another = csvs.get(1).map(|csv| csv.file.within("kind"));
            let field = another.unwrap_or_else(|| "spec.directories".to_owned());
            findings.deny("RBF-30", field, message);
        }
        for csv in csvs {
            replaced.extend(replaces(folder, csv));
            names.insert(csv.name.clone());
        }
        apis::judge(folder, &manifests, false, findings);
    }
    if !is_complete {
        // Nor is it known which names are there.
        findings.left_out("RBF-30", "a file of a version cannot be read");
        return;
    }
    for Replaces { name, replaces, field } in replaced {
        if !names.contains(&replaces) {
            let message = format!("{name} specifies replacement that couldn't be found");
            findings.deny("RBF-30", field, message);
        }
    }
    for file in packages {
        let Some(package) = folder.first(file) else { continue };
        for (index, channel) in package.items("/channels").enumerate() {
            let current = channel.text_or_empty("/currentCSV");
            // An empty one is RBF-29's.
            if !current.is_empty() && !names.contains(&current) {
                let message = format!(
                    "channel {} currentCSV {} not found in the package",
                    quote(&channel.text_or_empty("/name")),
                    quote(&current)
                );
                let field = file.within(&format!("channels[{index}].currentCSV"));
                findings.deny("RBF-30", field, message);
            }
        }
    }
}

/// What a `ClusterServiceVersion` says that it replaces.
struct Replaces {
    name: String,
    replaces: String,
    field: String,
}

fn replaces(folder: &Folder<'_>, csv: &Manifest<'_>) -> Option<Replaces> {
    let replaces = folder.first(csv.file)?.text_or_empty("/spec/replaces");
    let field = csv.file.within("spec.replaces");
    (!replaces.is_empty()).then(|| Replaces { name: csv.name.clone(), replaces, field })
}
