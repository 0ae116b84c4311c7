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

use crate::directory::{BUNDLE, BundleDirectory};
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
struct RemovedApis {
    names: BTreeMap<String, Vec<String>>,
    field: Option<String>,
    /// The fixes of the removed APIs.
    fix: Option<Fix>,
}

impl RemovedApis {
    fn add(&mut self, kind: &str, name: String, field: impl FnOnce() -> String) {
        self.names.entry(kind.to_owned()).or_default().push(name);
        self.field.get_or_insert_with(field);
    }

    fn report(&self, minor: u64, level: Level, report: &mut Report<'_>) {
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
        report.set_fix(&RBF_26, || self.fix.clone());
    }

    /// Adds the fix of a removed API.
    fn fix_with(&mut self, fix: impl FnOnce() -> Option<Fix>) {
        let Some(fix) = fix() else { return };
        let all = self.fix.take();
        let all = all.unwrap_or_else(|| Fix::safe("replace the removed API versions"));
        self.fix = Some(all.and(fix));
    }
}

/// The API version that has the same fields.
fn replacement(api_version: &str, kind: &str) -> Option<String> {
    const SAME_FIELDS: [&str; 15] = [
        "APIService",
        "CSIDriver",
        "CSINode",
        "ClusterRole",
        "ClusterRoleBinding",
        "CronJob",
        "IngressClass",
        "Lease",
        "PodDisruptionBudget",
        "PriorityClass",
        "Role",
        "RoleBinding",
        "RuntimeClass",
        "StorageClass",
        "VolumeAttachment",
    ];
    let group = api_version.strip_suffix("/v1beta1")?;
    SAME_FIELDS.contains(&kind).then(|| format!("{group}/v1"))
}

/// The API version of a manifest that replaces the removed one.
fn replace_api(directory: &BundleDirectory<'_>, manifest: &Manifest<'_>) -> Option<Fix> {
    let replacement = replacement(&manifest.api_version, &manifest.kind)?;
    let object = directory.first_document(manifest.file)?;
    // An empty selector matches no pods in policy/v1beta1, and all pods in policy/v1.
    let is_empty =
        |member: &str| object.length(&format!("/spec/selector{member}")).unwrap_or(0) == 0;
    let selects_other_pods = manifest.kind == "PodDisruptionBudget"
        && object.has("/spec/selector")
        && is_empty("/matchLabels")
        && is_empty("/matchExpressions");
    let title = format!("write apiVersion: {replacement}");
    let fix = if selects_other_pods { Fix::needs_review(title) } else { Fix::safe(title) };
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
    /// `opgate check --fix` corrects this where only one value is possible.
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
    let mut removed: BTreeMap<u64, RemovedApis> = BTreeMap::new();
    // An RBAC rule names no version, so it is not known whether it uses a removed API.
    let mut permitted = RemovedApis::default();
    let mut lowest = Vec::new();
    for manifest in manifests {
        if manifest.kind == CRD && manifest.api_version == "apiextensions.k8s.io/v1beta1" {
            let found = removed.entry(22).or_default();
            found.add("CRD", manifest.name.clone(), || manifest.file.within("apiVersion"));
            found.fix_with(|| {
                let crd = directory.first_document(manifest.file)?;
                Some(crd_conversion::to_v1(&crd)?.below(&manifest.file.pointer("")))
            });
        }
        if let Some(minor) = removal_version(&manifest.api_version, &manifest.kind) {
            let found = removed.entry(minor).or_default();
            let field = || manifest.file.within("apiVersion");
            found.add(&manifest.kind, manifest.name.clone(), field);
            found.fix_with(|| replace_api(directory, manifest));
        }
        if manifest.kind == CSV
            && let Some(object) = directory.first_document(manifest.file)
        {
            let used = add_resources(&object, manifest, removed.entry(25).or_default());
            add_permissions(&object, manifest, &used, &mut permitted);
            lowest.push(object.text_or_empty("/spec/minKubeVersion"));
        }
    }
    lowest.push(settings.text_or_empty("/bundle/k8sVersion"));
    for (&minor, found) in &removed {
        let is_gone = lowest.iter().any(|version| versions::is_at_least(version, minor));
        found.report(minor, if is_gone { Level::Deny } else { Level::Warn }, report);
    }
    permitted.report(25, Level::Warn, report);
}

/// Returns the plurals of the resources that the CRDs of a `ClusterServiceVersion` list.
fn add_resources(
    csv: &Document,
    manifest: &Manifest<'_>,
    removed: &mut RemovedApis,
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
                    removed.fix_with(|| {
                        let version = resource.text_or_empty("/version");
                        let replacement = replacement(&version, &kind)?;
                        let pointer = format!(
                            "/spec/customresourcedefinitions/{member}/{i}/resources/{j}/version"
                        );
                        let fix = Fix::safe(format!("write {replacement}"));
                        Some(fix.set_text(manifest.file.pointer(&pointer), &replacement))
                    });
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
    permitted: &mut RemovedApis,
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
