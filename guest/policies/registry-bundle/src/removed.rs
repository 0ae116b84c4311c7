//! APIs that Kubernetes 1.22, 1.25 and 1.26 removed.
//! After api `pkg/validation/internal/removed_apis.go`.
//!
//! ```text
//! manifests ─┐
//! CSV: resources of its CRDs ─┼─▶ Removed, by version and kind ─▶ one violation per version
//! CSV: permissions ───────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};

use opgate_sdk::{Document, Fix, Level, Report, crd_conversion, json_string, rule, rules};

use crate::directory::{BUNDLE, BundleDirectory, File};
use crate::manifests::{CRD, CSV, Manifest};
use crate::{ascii, versions};

rules![RBF_26];

/// The kinds that a minor version of Kubernetes no longer serves.
const REMOVED_APIS: [(u64, &str, &[&str]); 18] = [
    (22, "scheduling.k8s.io/v1beta1", &["PriorityClass"]),
    (
        22,
        "rbac.authorization.k8s.io/v1beta1",
        &["Role", "ClusterRoleBinding", "RoleBinding", "ClusterRole"],
    ),
    (22, "apiregistration.k8s.io/v1beta1", &["APIService"]),
    (22, "authentication.k8s.io/v1beta1", &["TokenReview"]),
    (
        22,
        "authorization.k8s.io/v1beta1",
        &["LocalSubjectAccessReview", "SelfSubjectAccessReview", "SubjectAccessReview"],
    ),
    (
        22,
        "admissionregistration.k8s.io/v1beta1",
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
    ),
    (22, "coordination.k8s.io/v1beta1", &["Lease"]),
    (22, "extensions/v1beta1", &["Ingress"]),
    (22, "networking.k8s.io/v1beta1", &["Ingress", "IngressClass"]),
    (22, "storage.k8s.io/v1beta1", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"]),
    (22, "certificates.k8s.io/v1beta1", &["CertificateSigningRequest"]),
    (25, "batch/v1beta1", &["CronJob"]),
    (25, "discovery.k8s.io/v1beta1", &["EndpointSlice"]),
    (25, "events.k8s.io/v1beta1", &["Event"]),
    (25, "autoscaling/v2beta1", &["HorizontalPodAutoscaler"]),
    (25, "policy/v1beta1", &["PodDisruptionBudget", "PodSecurityPolicy"]),
    (25, "node.k8s.io/v1beta1", &["RuntimeClass"]),
    (26, "autoscaling/v2beta2", &["HorizontalPodAutoscaler"]),
];

fn removal_version(api_version: &str, kind: &str) -> Option<u64> {
    let found =
        REMOVED_APIS.iter().find(|(_, v, kinds)| *v == api_version && kinds.contains(&kind));
    found.map(|(minor, ..)| *minor)
}

/// The APIs that one version removed: names by kind, and the field of the first one.
#[derive(Default)]
struct RemovedApis<'m> {
    names: BTreeMap<String, Vec<String>>,
    field: Option<String>,
    /// Number of uses.
    count: usize,
    /// The first uses that a fix can replace, each with its number.
    replaceable: Vec<(usize, RemovedUse<'m>)>,
}

/// A use of a removed API.
enum RemovedUse<'m> {
    Manifest(&'m Manifest<'m>),
    /// An entry in `resources` of a CRD of a `ClusterServiceVersion`.
    Resource {
        file: &'m File,
        pointer: String,
        replacement: String,
    },
}

impl<'m> RemovedApis<'m> {
    fn add(&mut self, kind: &str, name: String, field: impl FnOnce() -> String) {
        self.names.entry(kind.to_owned()).or_default().push(name);
        self.field.get_or_insert_with(field);
        self.count = self.count.saturating_add(1);
    }

    /// The last use that was added is one that a fix can replace.
    fn add_replaceable(&mut self, replaceable: RemovedUse<'m>) {
        // Each one needs an edit.
        if self.replaceable.len() <= Fix::MAX_EDITS {
            self.replaceable.push((self.count, replaceable));
        }
    }

    /// The fix of all uses, or else of as many as possible without the first one: its field is that of the violation.
    fn fix(&self, replace: impl Fn(&RemovedUse<'m>) -> Option<Fix>) -> Option<Fix> {
        let replace = &replace;
        let fixes = |from: usize| {
            let replaced = self.replaceable.iter().filter(move |(number, _)| *number >= from);
            replaced.filter_map(move |(_, replaceable)| replace(replaceable))
        };
        let mut replaced = 0;
        let all = Fix::all(fixes(1), |count| {
            replaced = count;
            "replace the removed API versions".to_owned()
        });
        if replaced == self.count {
            return all;
        }
        let title = |count| format!("replace {count} of {} removed API versions", self.count);
        Fix::all(fixes(2), title)
    }

    fn report(
        &self,
        minor: u64,
        level: Level,
        replace: impl Fn(&RemovedUse<'m>) -> Option<Fix>,
        report: &mut Report<'_>,
    ) {
        let Some(field) = &self.field else { return };
        let kind =
            |(kind, names): (&String, &Vec<String>)| format!("{kind}: ({})", ascii::list(names));
        let kinds: Vec<_> = self.names.iter().map(kind).collect();
        // The policy for CRDs does not evaluate this for CRDs of a bundle.
        let related = if self.names.contains_key("CRD") { " (also breaks CRD-02)" } else { "" };
        let message = format!(
            "this bundle is using APIs which were deprecated and removed in v1.{minor}. More info: https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-{minor}. Migrate the API(s) for {}{related}",
            kinds.join(",")
        );
        report.add_as(level, &RBF_26, field.as_str(), message);
        report.set_fix(&RBF_26, || self.fix(replace));
    }
}

/// The kinds that have the same fields in `v1`, and the first minor version of Kubernetes that has it.
const REPLACEMENTS: [(&str, u64); 15] = [
    ("APIService", 10),
    ("CSIDriver", 18),
    ("CSINode", 17),
    ("ClusterRole", 8),
    ("ClusterRoleBinding", 8),
    ("CronJob", 21),
    ("IngressClass", 19),
    ("Lease", 14),
    ("PodDisruptionBudget", 21),
    ("PriorityClass", 14),
    ("Role", 8),
    ("RoleBinding", 8),
    ("RuntimeClass", 20),
    ("StorageClass", 6),
    ("VolumeAttachment", 13),
];
/// The first minor version of Kubernetes that has `apiextensions.k8s.io/v1`.
const CRD_V1_SINCE: u64 = 16;

/// The API version that has the same fields, and the first minor version of Kubernetes that has it.
fn replacement(api_version: &str, kind: &str) -> Option<(String, u64)> {
    let group = api_version.strip_suffix("/v1beta1")?;
    let (_, since) = REPLACEMENTS.iter().find(|(known, _)| *known == kind)?;
    Some((format!("{group}/v1"), *since))
}

/// The minor version of Kubernetes in OpenShift 4.5, whose documentation is the oldest that the rules follow.
const OLDEST_MINOR: u64 = 18;

/// The clusters on which the Operator can be installed.
struct Clusters {
    /// `spec.minKubeVersion` of each `ClusterServiceVersion`, empty if it has none.
    min_kube_versions: Vec<String>,
}

impl Clusters {
    /// Whether all of them have an API version.
    fn have(&self, since: u64) -> bool {
        self.min_kube_versions.iter().all(|version| {
            let is_unknown = version.is_empty() && since <= OLDEST_MINOR;
            is_unknown || versions::is_at_least(version, since)
        })
    }
}

/// The fix of one use: it needs a review if the Operator may run on clusters without the new API version.
fn replace(
    directory: &BundleDirectory<'_>,
    clusters: &Clusters,
    replaceable: &RemovedUse<'_>,
) -> Option<Fix> {
    match replaceable {
        RemovedUse::Manifest(manifest) if manifest.kind == CRD => {
            let crd = directory.first_document(manifest.file)?;
            let fix = crd_conversion::to_v1(&crd)?.below(&manifest.file.pointer(""));
            if clusters.have(CRD_V1_SINCE) { Some(fix) } else { Fix::needs_review("").and(fix) }
        }
        RemovedUse::Manifest(manifest) => replace_api(directory, manifest, clusters),
        // The list describes what the code of the Operator creates.
        RemovedUse::Resource { file, pointer, replacement } => {
            Some(Fix::needs_review("").set_text(file.pointer(pointer), replacement))
        }
    }
}

/// The API version of a manifest that replaces the removed one.
fn replace_api(
    directory: &BundleDirectory<'_>,
    manifest: &Manifest<'_>,
    clusters: &Clusters,
) -> Option<Fix> {
    let (replacement, since) = replacement(&manifest.api_version, &manifest.kind)?;
    let object = directory.first_document(manifest.file)?;
    // An empty selector matches no pods in policy/v1beta1, and all pods in policy/v1.
    let is_empty =
        |member: &str| object.length(&format!("/spec/selector{member}")).unwrap_or(0) == 0;
    let selects_other_pods = manifest.kind == "PodDisruptionBudget"
        && object.has("/spec/selector")
        && is_empty("/matchLabels")
        && is_empty("/matchExpressions");
    let is_safe = !selects_other_pods && clusters.have(since);
    let fix = if is_safe { Fix::safe("") } else { Fix::needs_review("") };
    Some(fix.set(manifest.file.pointer("/apiVersion"), json_string(&replacement)))
}

rule! {
    /// manifests and permissions use no removed API of Kubernetes
    ///
    /// No object in `manifests/` is of an API that Kubernetes 1.22, 1.25 or 1.26 removed. No entry
    /// in `resources` of the owned or required CRDs of the ClusterServiceVersion names one that
    /// 1.25 removed. A CRD of `apiextensions.k8s.io/v1beta1` in a bundle also violates CRD-02,
    /// which reports it in reviews and in manifests outside bundles. The lists are those of
    /// operator-framework/api. The rule denies if `spec.minKubeVersion` of the
    /// ClusterServiceVersion or the setting `bundle.k8sVersion` is at least the version that
    /// removed the API, and otherwise warns. `permissions` and `clusterPermissions` for
    /// `podsecuritypolicies` of the group `policy` only cause a warning. A level for RBF-26 in
    /// `rules` applies to all violations.
    ///
    /// # Why
    ///
    /// The Kubernetes API server no longer serves the API: on such a cluster OLM cannot create the
    /// object, and the Operator stops working after an upgrade. See OpenShift 4.12, Operators,
    /// *Controlling Operator compatibility with OpenShift Container Platform versions*.
    ///
    /// # Remediation
    ///
    /// Move to the API version that replaces the removed one; the message links to the migration
    /// guide. For older clusters, publish the bundle with a limit on the versions of OpenShift.
    ///
    /// `opgate check --fix` writes a version that all clusters have, by `spec.minKubeVersion`;
    /// `--unsafe-fixes` also others. Review CRDs: without `preserveUnknownFields: false`, the fields
    /// that a schema does not define are pruned in `v1`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// apiVersion: policy/v1
    /// kind: PodDisruptionBudget
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// apiVersion: policy/v1beta1
    /// kind: PodDisruptionBudget
    /// metadata: {name: x}
    /// ```
    ///
    /// `message: this bundle is using APIs which were deprecated and removed in v1.25. More info:
    /// https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-25. Migrate the API(s)
    /// for PodDisruptionBudget: (["x"])`
    RBF_26: Warn {
        name: "no-removed-kubernetes-apis",
        on: [BUNDLE: Create | Update],
        denies_with: ["/bundle/k8sVersion"],
        source: ["OCP 4.12 L4556-4559, L8337-8340, L21652-21697", "api pkg/validation/internal/removed_apis.go"],
    }
}

pub(crate) fn check(
    directory: &BundleDirectory<'_>,
    manifests: &[Manifest<'_>],
    settings: &Document,
    report: &mut Report<'_>,
) {
    let mut removed: BTreeMap<u64, RemovedApis<'_>> = BTreeMap::new();
    // An RBAC rule names no version, so it is not known whether it uses a removed API.
    let mut permitted = RemovedApis::default();
    let mut clusters = Clusters { min_kube_versions: Vec::new() };
    for manifest in manifests {
        if manifest.kind == CRD && manifest.api_version == "apiextensions.k8s.io/v1beta1" {
            let found = removed.entry(22).or_default();
            found.add("CRD", manifest.name.clone(), || manifest.file.within("apiVersion"));
            found.add_replaceable(RemovedUse::Manifest(manifest));
        }
        if let Some(minor) = removal_version(&manifest.api_version, &manifest.kind) {
            let found = removed.entry(minor).or_default();
            let field = || manifest.file.within("apiVersion");
            found.add(&manifest.kind, manifest.name.clone(), field);
            if replacement(&manifest.api_version, &manifest.kind).is_some() {
                found.add_replaceable(RemovedUse::Manifest(manifest));
            }
        }
        if manifest.kind == CSV
            && let Some(object) = directory.first_document(manifest.file)
        {
            let used = add_resources(&object, manifest, removed.entry(25).or_default());
            add_permissions(&object, manifest, &used, &mut permitted);
            clusters.min_kube_versions.push(object.text_or_empty("/spec/minKubeVersion"));
        }
    }
    if clusters.min_kube_versions.is_empty() {
        clusters.min_kube_versions.push(String::new());
    }
    let own = settings.text_or_empty("/bundle/k8sVersion");
    let replace = |it: &RemovedUse<'_>| replace(directory, &clusters, it);
    for (&minor, found) in &removed {
        let lowest = clusters.min_kube_versions.iter().chain([&own]);
        let is_gone = lowest.into_iter().any(|version| versions::is_at_least(version, minor));
        found.report(minor, if is_gone { Level::Deny } else { Level::Warn }, replace, report);
    }
    permitted.report(25, Level::Warn, replace, report);
}

/// Returns the plurals of the resources that the CRDs of a `ClusterServiceVersion` list.
fn add_resources<'m>(
    csv: &Document,
    manifest: &'m Manifest<'m>,
    removed: &mut RemovedApis<'m>,
) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (list, member) in [("Owned", "owned"), ("Required", "required")] {
        let path = format!("spec.customresourcedefinitions.{member}");
        let crds = csv.items(&format!("/spec/customresourcedefinitions/{member}"));
        for (i, crd) in crds.enumerate() {
            for (j, resource) in crd.items("/resources").enumerate() {
                let kind = resource.text_or_empty("/kind");
                used.insert(format!("{}s", kind.to_lowercase()));
                if removal_version(&resource.text_or_empty("/version"), &kind) == Some(25) {
                    let name = format!(
                        "ClusterServiceVersion.Spec.CustomResourceDefinitions.{list}[{i}].Resource[{j}]"
                    );
                    let field = || manifest.file.within(&format!("{path}[{i}].resources[{j}]"));
                    removed.add(&kind, name, field);
                    let version = resource.text_or_empty("/version");
                    if let Some((replacement, _)) = replacement(&version, &kind) {
                        let pointer = format!(
                            "/spec/customresourcedefinitions/{member}/{i}/resources/{j}/version"
                        );
                        let file = manifest.file;
                        removed.add_replaceable(RemovedUse::Resource {
                            file,
                            pointer,
                            replacement,
                        });
                    }
                }
            }
        }
    }
    used
}

/// Permissions for `PodSecurityPolicies`, the only removed API without a successor in its group.
fn add_permissions(
    csv: &Document,
    manifest: &Manifest<'_>,
    used: &BTreeSet<String>,
    permitted: &mut RemovedApis<'_>,
) {
    const POD_SECURITY_POLICIES: &str = "podsecuritypolicies";
    if used.contains(POD_SECURITY_POLICIES) {
        return;
    }
    let lists = [("ClusterPermissions", "clusterPermissions"), ("Permissions", "permissions")];
    for (list, member) in lists {
        let grants = csv.items(&format!("/spec/install/spec/{member}"));
        for (i, grant) in grants.enumerate() {
            for (j, rule) in grant.items("/rules").enumerate() {
                let has = |pointer: &str, wanted: &str| {
                    rule.items(pointer).any(|item| item.text("").is_some_and(|t| t == wanted))
                };
                if has("/apiGroups", "policy") && has("/resources", POD_SECURITY_POLICIES) {
                    let name = format!(
                        "ClusterServiceVersion.Spec.InstallStrategy.StrategySpec.{list}[{i}].Rules[{j}]"
                    );
                    let path = format!("spec.install.spec.{member}[{i}].rules[{j}]");
                    permitted.add(POD_SECURITY_POLICIES, name, || manifest.file.within(&path));
                }
            }
        }
    }
}
