//! The manifests of a bundle: the contents of each file.
//!
//! ```text
//! files of a directory ─▶ Manifest (file, apiVersion, kind, name) ─▶ csv, apis, objects, removed
//! ```
//!
//! The registry reads only the first document of a file, and so do the rules.

mod object_meta;
mod types;

use std::collections::BTreeSet;

use opgate_sdk::go::quote;
use opgate_sdk::{Document, Fix, Kind, Level, Report, corrections, names, rule, rules};

use crate::directory::{BUNDLE, BundleDirectory, Content, File, MANIFESTS};

rules![RBF_10, RBF_11, RBF_12, RBF_32];

pub(crate) use types::MAX_MANIFEST_BYTES;

pub(crate) const CSV: &str = "ClusterServiceVersion";
pub(crate) const CRD: &str = "CustomResourceDefinition";
const CSV_API_VERSION: &str = "operators.coreos.com/v1alpha1";

/// The registry reads a comment above `---` as a separate document.
pub(crate) const FIRST_IS_EMPTY: &str =
    "the first document is empty, and the registry reads no other one";

/// The fields of the spec that no other kind of the group has.
const CSV_MEMBERS: [&str; 5] = [
    "/spec/install",
    "/spec/installModes",
    "/spec/customresourcedefinitions",
    "/spec/apiservicedefinitions",
    "/spec/webhookdefinitions",
];

/// The documented optional kinds together with those that the registry added later. One page of the
/// documentation has `ConsoleYamlSample`, so both spellings are accepted.
const SUPPORTED_KINDS: [&str; 23] = [
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
    fn group_version_kind(&self) -> String {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        names::group_version_kind(group, version, &self.kind)
    }
}

/// The objects of files.
pub(crate) fn of<'f>(
    directory: &'f BundleDirectory<'_>,
    files: impl IntoIterator<Item = &'f File>,
) -> Vec<Manifest<'f>> {
    let mut manifests = Vec::new();
    for file in files {
        let Some(object) = directory.first_document(file) else { continue };
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

rule! {
    /// a file in manifests/ contains one document
    ///
    /// A YAML or JSON file in `manifests/` contains one document. Empty documents do not count. All
    /// other rules RBF evaluate only the first document of a file.
    ///
    /// # Why
    ///
    /// The registry reads the first document of a file and ignores the others without an error:
    /// objects in other documents are not part of the bundle. The layout in OpenShift 4.12,
    /// Operators, *Bundle format*, has a file for each object.
    ///
    /// # Remediation
    ///
    /// Put each document into a separate file.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiVersion: v1
    /// kind: ConfigMap
    /// metadata: {name: a}
    /// ```
    ///
    /// # Rejected
    ///
    /// In `manifests/configmap.yaml`:
    ///
    /// ```yaml
    /// apiVersion: v1
    /// kind: ConfigMap
    /// metadata: {name: a}
    /// ---
    /// apiVersion: v1
    /// kind: ConfigMap
    /// metadata: {name: b}
    /// ```
    ///
    /// `message: found more than one document inside manifests/configmap.yaml, using only the first
    /// one`
    RBF_32: Warn {
        name: "one-document-per-bundle-manifest",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L317-331", "operator-registry pkg/registry/decode.go"],
    }
}

/// Evaluates every file of `manifests/`, then the object in each.
pub(crate) fn check_files(
    directory: &BundleDirectory<'_>,
    manifests: &[Manifest<'_>],
    settings: &Document,
    report: &mut Report<'_>,
) {
    for file in directory.files_in(MANIFESTS) {
        if file.is_hidden() {
            report.add(&RBF_12, file.field(), parse_error(&file.path, "is a hidden file"));
            report.set_fix(&RBF_12, || show_file(directory, file));
            continue;
        }
        check_parsable(directory, file, report);
        file.report_repeated_key(&RBF_12, report);
        if file.starts_empty && file.has_documents() {
            let why = format!("{FIRST_IS_EMPTY}: remove the line --- before the object");
            report.add(&RBF_12, file.field(), parse_error(&file.path, &why));
        }
        if let Content::Documents(2..) = file.content {
            let message = format!(
                "found more than one document inside {}, using only the first one",
                file.path
            );
            report.add(&RBF_32, file.document_field(1), message);
        }
    }
    for path in directory.directories_in(MANIFESTS) {
        report.add(&RBF_12, "spec.directories", parse_error(path, "is a directory"));
    }
    let extra: BTreeSet<String> = settings.texts("/bundle/extraKinds").into_iter().collect();
    for manifest in manifests {
        check_supported(manifest, &extra, report);
        if let Some(object) = directory.first_document(manifest.file) {
            object_meta::check(&object, manifest, report);
            if manifest.kind == CSV {
                check_csv_version(manifest, report);
                check_csv_types(&object, manifest.file, report);
            }
        }
    }
}

/// The registry and OLM only use the kind of a ClusterServiceVersion, so they also install another
/// version. CSV-27 reports a missing one.
fn check_csv_version(manifest: &Manifest<'_>, report: &mut Report<'_>) {
    let Manifest { file, api_version, .. } = manifest;
    if api_version.is_empty() || api_version == CSV_API_VERSION {
        return;
    }
    let why = format!(
        "apiVersion of a ClusterServiceVersion is {CSV_API_VERSION}, not {}",
        quote(api_version)
    );
    let message = parse_error(&file.path, &why);
    report.add_as(Level::Warn, &RBF_12, file.within("apiVersion"), message);
    report.set_fix(&RBF_12, || {
        Some(corrections::write(file.pointer("/apiVersion"), CSV_API_VERSION))
    });
}

/// Whether upstream can decode a ClusterServiceVersion.
fn check_csv_types(csv: &Document, file: &File, report: &mut Report<'_>) {
    let Some(mismatches) = types::find_mismatches(csv, Report::MAX_VIOLATIONS) else {
        let why = "the ClusterServiceVersion is too large for its types to be evaluated";
        return report.skip_part(&RBF_12, &file.within(""), why);
    };
    for types::FoundMismatch { field, why, correction } in &mismatches.first {
        report.add(&RBF_12, file.within(field), parse_error(&file.path, why));
        report.set_fix(&RBF_12, || Some(correction.fix(csv)?.below(&file.pointer(""))));
    }
    report.add_count(&RBF_12, mismatches.more);
}

fn parse_error(path: &str, why: &str) -> String {
    format!("{path}: cannot parse manifest: {why}")
}

rule! {
    /// every file in manifests/ is a Kubernetes object with valid metadata
    ///
    /// Every file in `manifests/`, regardless of its name, is YAML or JSON, and its first document
    /// is an object with `kind`. CRDs also have an `apiVersion`; OLM determines that of other
    /// objects from the kind. A ClusterServiceVersion without `apiVersion` or `kind` violates only
    /// CSV-27, and an `apiVersion` of a ClusterServiceVersion other than
    /// `operators.coreos.com/v1alpha1` is a warning. There are no hidden files and no
    /// subdirectories. A duplicate key in a mapping is a warning, because the registry reads the
    /// last one. No content precedes the object above a line `---`, not even a comment: the
    /// registry reads that content as an empty document, and does not read the next document.
    ///
    /// Each object has a `name`, and only a ClusterServiceVersion can have a `namespace`. Keys of
    /// labels and annotations, values of labels, finalizers and `metadata.ownerReferences` follow
    /// the syntax of Kubernetes. The values of a ClusterServiceVersion have the types of its API,
    /// down to the pod templates of its deployments and its webhooks: a list is a list, a string is
    /// not a number, and quantities and times have valid syntax. `null` is valid for every type.
    ///
    /// In the legacy format (RBF-28) the rule reports only package manifests and files of versions
    /// that cannot be read or parsed, or that have a duplicate key.
    ///
    /// # Why
    ///
    /// operator-registry decodes every file in `manifests/` as an object, and rejects a file that
    /// it cannot decode. The Kubernetes API server rejects objects with invalid metadata when OLM
    /// creates them. See OpenShift 4.12, Operators, *Bundle format*, Manifests.
    ///
    /// # Remediation
    ///
    /// Correct the place that the message names, and remove a namespace and all but one of the
    /// values of a key. Move other files and subdirectories out of `manifests/`, and render
    /// templates before you run opgate.
    ///
    /// `opgate check --fix` corrects this where only one value is possible.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiVersion: v1
    /// kind: ConfigMap
    /// metadata: {name: x}
    /// ```
    ///
    /// # Rejected
    ///
    /// A file `manifests/README.md` that contains text.
    ///
    /// `message: manifests/README.md: cannot parse manifest: not an object; the registry reads every file in
    /// manifests/`
    ///
    /// ```yaml
    /// apiVersion: v1
    /// kind: ConfigMap
    /// metadata: {}
    /// ```
    ///
    /// `message: error validating object metadata: metadata.name: Required value: name or
    /// generateName is required. v1 ConfigMap ""`
    ///
    /// A container of a ClusterServiceVersion with `resources: {limits: {memory: 64 Mi}}`.
    ///
    /// `message: manifests/csv.yaml: cannot parse manifest: quantities must match the regular expression
    /// '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`
    pub(crate) RBF_12: Deny {
        name: "valid-bundle-manifests",
        on: [BUNDLE: Create | Update],
        may_skip: true,
        source: ["OCP 4.12 L317", "operator-registry pkg/lib/bundle/validate.go"],
    }
}

/// Checks a whole file: whether it can be parsed, and whether it is an object.
pub(crate) fn check_parsable(
    directory: &BundleDirectory<'_>,
    file: &File,
    report: &mut Report<'_>,
) {
    // Users who put another file here do not expect the registry to read it.
    let hint =
        if file.is_named_document() { "" } else { "; the registry reads every file in manifests/" };
    let deny = |report: &mut Report<'_>, field: String, why: &str| {
        report.add(&RBF_12, field, parse_error(&file.path, &format!("{why}{hint}")));
        report.set_fix(&RBF_12, || move_out(directory, file));
    };
    match &file.content {
        Content::Invalid(why) => deny(report, file.error_field(), why),
        Content::Other => deny(report, file.field(), "neither YAML nor JSON"),
        Content::Documents(0) => deny(report, file.field(), "no object"),
        Content::Documents(_) => {
            let Some(object) = directory.first_document(file) else { return };
            if object.kind("") != Kind::Object {
                deny(report, file.within(""), "not an object");
                return;
            }
            let kind = object.text_or_empty("/kind");
            // Upstream decodes CRDs by their version, and others by their kind.
            if kind == CRD && object.text_or_empty("/apiVersion").is_empty() {
                deny(report, file.within("apiVersion"), "Object 'apiVersion' is missing");
                report.set_fix(&RBF_12, || {
                    let has_schemas = object.has("/spec/versions/0/schema/openAPIV3Schema");
                    let pointer = file.pointer("/apiVersion");
                    has_schemas.then(|| corrections::write(pointer, "apiextensions.k8s.io/v1"))
                });
            }
            if kind.is_empty() && !is_csv_without_kind(&object, file) {
                deny(report, file.within("kind"), "Object 'kind' is missing");
            }
        }
    }
}

/// The move of another file, such as a README, to the top of the bundle.
fn move_out(directory: &BundleDirectory<'_>, file: &File) -> Option<Fix> {
    const ENDINGS: [&str; 11] =
        ["adoc", "gif", "html", "jpeg", "jpg", "md", "pdf", "png", "rst", "svg", "txt"];
    const NAMES: [&str; 6] = ["changelog", "contributing", "license", "notes", "owners", "readme"];
    let name = file.name().to_ascii_lowercase();
    let (stem, ending) = name.rsplit_once('.').unwrap_or((&name, ""));
    let is_other = ENDINGS.contains(&ending) || ending.is_empty() && NAMES.contains(&stem);
    let is_free = directory.file(file.name()).is_none();
    let fix = Fix::safe(format!("move the file out of {MANIFESTS}/"));
    (is_free && is_other && file.directory() == MANIFESTS)
        .then(|| fix.move_file(file.file_pointer(), file.name()))
}

/// The name of a manifest without the dot before it.
fn show_file(directory: &BundleDirectory<'_>, file: &File) -> Option<Fix> {
    let path = format!("{MANIFESTS}/{}", file.name().trim_start_matches('.'));
    let is_free = directory.file(&path).is_none();
    let is_manifest = file.is_named_document() && file.has_documents();
    let fix = Fix::needs_review("rename the file");
    (is_free && is_manifest).then(|| fix.move_file(file.file_pointer(), path))
}

/// Whether an object without a kind is intended as a ClusterServiceVersion, with the same check as
/// CSV-27.
fn is_csv_without_kind(object: &Document, file: &File) -> bool {
    let api_version = object.text_or_empty("/apiVersion");
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let is_group = group.is_empty() || group == "operators.coreos.com";
    is_group
        && object.text_or_empty("/kind").is_empty()
        && (file.path.to_ascii_lowercase().contains("clusterserviceversion")
            || CSV_MEMBERS.iter().any(|member| object.has(member)))
}

/// Whether a file of `manifests/` can contain the ClusterServiceVersion without an object of that
/// kind: the file is unreadable, or its object has no kind.
pub(crate) fn may_hold_csv(directory: &BundleDirectory<'_>, file: &File) -> bool {
    file.is_invalid()
        || directory.first_document(file).is_some_and(|object| {
            object.kind("") == Kind::Object && is_csv_without_kind(&object, file)
        })
}

rule! {
    /// manifests/ contains only supported kinds
    ///
    /// Besides ClusterServiceVersion and CustomResourceDefinition, objects in `manifests/` are of
    /// the kinds ClusterRole, ClusterRoleBinding, ConfigMap, ConsoleCLIDownload, ConsoleLink,
    /// ConsolePlugin, ConsoleQuickStart, ConsoleYAMLSample (or ConsoleYamlSample), NetworkPolicy,
    /// PodDisruptionBudget, PodMonitor, PriorityClass, PrometheusRule, Role, RoleBinding, Secret,
    /// Service, ServiceAccount, ServiceMonitor and VerticalPodAutoscaler. The setting
    /// `bundle.extraKinds` adds kinds. The rule compares kinds, not API groups. The list is the
    /// same in every profile. An object without `kind` violates only RBF-12.
    ///
    /// # Why
    ///
    /// OLM creates, updates and deletes objects of these kinds together with the
    /// ClusterServiceVersion; other kinds are not supported. The list is in OpenShift 4.12,
    /// Operators, *Bundle format*, with additions of operator-registry. OpenShift 4.15 names
    /// CredentialsRequest as not supported.
    ///
    /// # Remediation
    ///
    /// Remove the object. Move a Deployment into `spec.install.spec.deployments` of the
    /// ClusterServiceVersion, and let the Operator create other objects. Add the kind to
    /// `bundle.extraKinds` if your OLM supports it.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiVersion: v1
    /// kind: ConfigMap
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// apiVersion: apps/v1
    /// kind: Deployment
    /// ```
    ///
    /// `message: Value apps/v1, Kind=Deployment: unsupported media type registry+v1 for bundle
    /// object; move it into spec.install.spec.deployments of the ClusterServiceVersion`
    ///
    /// An Ingress without `apiVersion`: `message: Ingress is not supported type for registryV1 bundle:
    /// manifests/x.yaml`
    RBF_10: Deny {
        name: "bundle-supported-kinds",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L335-389, L22740, L22827", "OCP 4.15 L302-325, L16409, L16776, L17396-17397", "OCP 4.5 L238-242", "OKD L36-54", "operator-registry pkg/lib/bundle/validate.go, pkg/lib/bundle/supported_resources.go"],
    }
}

rule! {
    /// CRDs are of apiextensions.k8s.io/v1 or v1beta1
    ///
    /// The `apiVersion` of every CustomResourceDefinition in `manifests/` is
    /// `apiextensions.k8s.io/v1` or `apiextensions.k8s.io/v1beta1`. A CRD without `apiVersion`
    /// violates RBF-12 instead. RBF-26 reports `v1beta1`, which Kubernetes 1.22 removed.
    ///
    /// # Why
    ///
    /// The registry reads only CRDs of these two versions, and the Kubernetes API server has no
    /// others. OpenShift 4.12, Operators, *Extending the Kubernetes API with custom resource
    /// definitions*, requires `apiextensions.k8s.io/v1`.
    ///
    /// # Remediation
    ///
    /// Set `apiVersion: apiextensions.k8s.io/v1`, and write the CRD in the schema of that version.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiVersion: apiextensions.k8s.io/v1
    /// kind: CustomResourceDefinition
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// apiVersion: apiextensions.k8s.io/v2
    /// kind: CustomResourceDefinition
    /// ```
    ///
    /// `message: Unsupported api version of CRD: apiextensions.k8s.io/v2`
    RBF_11: Deny {
        name: "bundle-crd-api-version",
        on: [BUNDLE: Create | Update],
        source: ["OCP 4.12 L4886", "operator-registry pkg/lib/bundle/validate.go"],
    }
}

/// The kind of an object, and the version of a CRD.
fn check_supported(manifest: &Manifest<'_>, extra: &BTreeSet<String>, report: &mut Report<'_>) {
    let Manifest { file, api_version, kind, .. } = manifest;
    // Without a kind it is not an object: RBF-12 reports it.
    if kind.is_empty() {
        return;
    }
    if !SUPPORTED_KINDS.contains(&kind.as_str()) && !extra.contains(kind) {
        let message = if api_version.is_empty() {
            format!("{kind} is not supported type for registryV1 bundle: {}", file.path)
        } else {
            format!(
                "Value {}: unsupported media type registry+v1 for bundle object",
                manifest.group_version_kind()
            )
        };
        let hint = if kind == "Deployment" {
            "; move it into spec.install.spec.deployments of the ClusterServiceVersion"
        } else {
            ""
        };
        let message = message + hint;
        report.add(&RBF_10, file.within("kind"), message);
    }
    let known = ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"];
    if kind == CRD && !api_version.is_empty() && !known.contains(&api_version.as_str()) {
        let message = format!("Unsupported api version of CRD: {api_version}");
        report.add(&RBF_11, file.within("apiVersion"), message);
    }
}
