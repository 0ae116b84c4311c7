//! The manifests of a bundle: what each file holds (RBF-10 to RBF-12, RBF-32), and the one
//! `ClusterServiceVersion` among them with what belongs to it (RBF-06, RBF-13, RBF-16).
//!
//! ```text
//! files of a directory ─▶ Manifest (file, apiVersion, kind, name) ─▶ apis, objects, removed
//! ```
//!
//! The registry reads the first document of a file and no other; so do all rules but RBF-32.

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Kind};

use crate::findings::Findings;
use crate::folder::{Content, File, Folder};
use crate::object_meta;

pub(crate) const DIRECTORY: &str = "manifests";
pub(crate) const CSV: &str = "ClusterServiceVersion";
pub(crate) const CRD: &str = "CustomResourceDefinition";

/// The documented optional kinds together with those that the registry added later (decision J-4).
const SUPPORTED: [&str; 23] = [
    CSV,
    CRD,
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "ConsoleQuickStart",
    "ConsoleYAMLSample",
    "ConsoleYamlSample",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PodMonitor",
    "PriorityClass",
    "PrometheusRule",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
    "VerticalPodAutoscaler",
];

/// The object of one file.
pub(crate) struct Manifest<'f> {
    pub(crate) file: &'f File,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl Manifest<'_> {
    /// `schema.GroupVersionKind.String()`.
    fn group_version_kind(&self) -> String {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        format!("{group}/{version}, Kind={}", self.kind)
    }
}

/// The objects of files.
pub(crate) fn of<'f>(
    folder: &'f Folder<'_>,
    files: impl IntoIterator<Item = &'f File>,
) -> Vec<Manifest<'f>> {
    let mut manifests = Vec::new();
    for file in files {
        let Some(object) = folder.first(file) else { continue };
        if object.kind("") == Kind::Object {
            manifests.push(Manifest {
                file,
                api_version: object.text_or_empty("/apiVersion"),
                kind: object.text_or_empty("/kind"),
                name: object.text_or_empty("/metadata/name"),
            });
        }
    }
    manifests
}

/// RBF-10 to RBF-12 and RBF-32.
pub(crate) fn judge_files(
    folder: &Folder<'_>,
    manifests: &[Manifest<'_>],
    settings: &Document,
    findings: &mut Findings<'_>,
) {
    for file in folder.files_in(DIRECTORY) {
        parses(folder, file, findings);
        if let Content::Documents(2..) = file.content {
            let message = format!(
                "found more than one document inside {}, using only the first one",
                file.path
            );
            findings.warn("RBF-32", file.document_field(1), message);
        }
    }
    for path in folder.directories_in(DIRECTORY) {
        findings.deny("RBF-12", "spec.directories", cannot_parse(path, "is a directory"));
    }
    let extra: BTreeSet<String> = settings.texts("/bundle/extraKinds").into_iter().collect();
    for manifest in manifests {
        supported(manifest, &extra, findings);
        if let Some(object) = folder.first(manifest.file) {
            object_meta::judge(&object, manifest, findings);
        }
    }
}

fn cannot_parse(path: &str, why: &str) -> String {
    format!("{path}: cannot parse manifest: {why}")
}

/// RBF-12 for a file as a whole.
pub(crate) fn parses(folder: &Folder<'_>, file: &File, findings: &mut Findings<'_>) {
    let mut deny = |field: String, why: &str| {
        findings.deny("RBF-12", field, cannot_parse(&file.path, why));
    };
    match &file.content {
        Content::Failed(why) => deny(file.error_field(), why),
        Content::Other => deny(file.field(), "neither YAML nor JSON"),
        Content::Documents(0) => deny(file.field(), "no object"),
        Content::Documents(_) => {
            let Some(object) = folder.first(file) else { return };
            if object.kind("") != Kind::Object {
                deny(file.within(""), "not an object");
                return;
            }
            for member in ["apiVersion", "kind"] {
                if object.text_or_empty(&format!("/{member}")).is_empty() {
                    deny(file.within(member), &format!("Object '{member}' is missing"));
                }
            }
        }
    }
}

/// RBF-10 and RBF-11.
fn supported(manifest: &Manifest<'_>, extra: &BTreeSet<String>, findings: &mut Findings<'_>) {
    let Manifest { file, api_version, kind, .. } = manifest;
    // Without a kind it is no object, RBF-12.
    if kind.is_empty() {
        return;
    }
    if !SUPPORTED.contains(&kind.as_str()) && !extra.contains(kind) {
        let message = if api_version.is_empty() {
            format!("{kind} is not supported type for registryV1 bundle: {}", file.path)
        } else {
            format!(
                "Value {}: unsupported media type registry+v1 for bundle object",
                manifest.group_version_kind()
            )
        };
        findings.deny("RBF-10", file.within("kind"), message);
    }
    let known = ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"];
    if kind == CRD && !api_version.is_empty() && !known.contains(&api_version.as_str()) {
        let message = format!("Unsupported api version of CRD: {api_version}");
        findings.deny("RBF-11", file.within("apiVersion"), message);
    }
}

/// RBF-06: exactly one `ClusterServiceVersion`. A file that cannot be read (RBF-12) may hold it.
pub(crate) fn one_csv(
    folder: &Folder<'_>,
    manifests: &[Manifest<'_>],
    findings: &mut Findings<'_>,
) {
    let mut csvs = manifests.iter().filter(|manifest| manifest.kind == CSV);
    match csvs.next() {
        Some(_) => {}
        None if folder.files_in(DIRECTORY).any(File::is_failed) => {
            findings.left_out("RBF-06", "a file in manifests cannot be read");
        }
        None => {
            let message = format!("no ClusterServiceVersion object found in {DIRECTORY}");
            findings.deny("RBF-06", "spec.files", message);
        }
    }
    for another in csvs {
        let message = "more than one ClusterServiceVersion is found in bundle";
        findings.deny("RBF-06", another.file.within("kind"), message);
    }
}

/// RBF-13: the accounts of the deployments are OLM's to create.
pub(crate) fn accounts(
    folder: &Folder<'_>,
    manifests: &[Manifest<'_>],
    findings: &mut Findings<'_>,
) {
    let mut used = BTreeSet::new();
    for csv in manifests.iter().filter(|manifest| manifest.kind == CSV) {
        let Some(object) = folder.first(csv.file) else { continue };
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
            findings.deny("RBF-13", account.file.within("metadata.name"), message);
        }
    }
}

/// RBF-16: what `spec.release` asks of the name, and what it excludes. The package's name is that of
/// the annotations; without it (RBF-03) nothing can be said about the bundle's.
pub(crate) fn release(
    folder: &Folder<'_>,
    manifests: &[Manifest<'_>],
    package: Option<&str>,
    findings: &mut Findings<'_>,
) {
    for csv in manifests.iter().filter(|manifest| manifest.kind == CSV) {
        let Some(object) = folder.first(csv.file) else { continue };
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
                findings.deny("RBF-16", csv.file.within("metadata.name"), message);
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
            findings.deny("RBF-16", field, message);
        }
    }
}
