//! Objects beside the `ClusterServiceVersion` that could harm a cluster: RBF-23 to RBF-25.
//! After api `pkg/validation/internal/object.go`; like there, only kinds are looked at.

use opgate_sdk::{Document, Kind};

use crate::findings::Findings;
use crate::folder::Folder;
use crate::manifests::Manifest;

/// The `SecurityContextConstraints` that OpenShift 4.5 comes with.
const DEFAULT_CONSTRAINTS: [&str; 8] = [
    "privileged",
    "restricted",
    "anyuid",
    "hostaccess",
    "hostmount-anyuid",
    "hostnetwork",
    "node-exporter",
    "nonroot",
];

pub(crate) fn judge(folder: &Folder<'_>, manifests: &[Manifest<'_>], findings: &mut Findings<'_>) {
    for manifest in manifests {
        let check = match manifest.kind.as_str() {
            "PodDisruptionBudget" => budget,
            "PriorityClass" => priority,
            "Role" | "ClusterRole" => role,
            _ => continue,
        };
        if let Some(object) = folder.first(manifest.file) {
            check(&object, manifest, findings);
        }
    }
}

/// RBF-23. Every text fails upstream, because its integer part reads as 0; only `0%` does here
/// (decision J-10).
fn budget(object: &Document, manifest: &Manifest<'_>, findings: &mut Findings<'_>) {
    let pointer = "/spec/maxUnavailable";
    let none = match object.kind(pointer) {
        Kind::Number => object.number(pointer) == Some(0.0),
        _ => object.text(pointer).is_some_and(|text| text == "0%"),
    };
    if none {
        let message = "maxUnavailable field cannot be set to 0 or 0%";
        findings.warn("RBF-23", manifest.file.within("spec.maxUnavailable"), message);
    }
    if object.text_or_empty("/spec/minAvailable") == "100%" {
        let message = "minAvailable field cannot be set to 100%";
        findings.warn("RBF-23", manifest.file.within("spec.minAvailable"), message);
    }
}

/// RBF-24.
fn priority(object: &Document, manifest: &Manifest<'_>, findings: &mut Findings<'_>) {
    if object.boolean("/globalDefault") == Some(true) {
        let message = "globalDefault field cannot be set to true";
        findings.warn("RBF-24", manifest.file.within("globalDefault"), message);
    }
}

/// RBF-25. Groups, resources and names are compared as they are written.
fn role(object: &Document, manifest: &Manifest<'_>, findings: &mut Findings<'_>) {
    for (index, rule) in object.items("/rules").enumerate() {
        if !may_name(&rule, &["poddisruptionbudgets", "securitycontextconstraints"]) {
            continue;
        }
        let names = |pointer: &str, wanted: &[&str]| {
            rule.items(pointer)
                .filter_map(|item| item.text(""))
                .any(|text| wanted.contains(&text.as_str()))
        };
        let mut warn = |message: &str| {
            findings.warn("RBF-25", manifest.file.within(&format!("rules[{index}]")), message);
        };
        if names("/apiGroups", &["policy"])
            && names("/resources", &["poddisruptionbudgets"])
            && names("/verbs", &["*", "create", "update", "patch"])
        {
            warn(
                "RBAC includes permission to create/update poddisruptionbudgets, which could impact cluster stability",
            );
        }
        if names("/apiGroups", &["security.openshift.io"])
            && names("/resources", &["securitycontextconstraints"])
            && names("/verbs", &["*", "delete", "update", "patch"])
            && names("/resourceNames", &DEFAULT_CONSTRAINTS)
        {
            warn(
                "RBAC includes permission to modify default securitycontextconstraints, which could impact cluster stability",
            );
        }
    }
}

/// Whether the resources of a rule may be among these, by one question to the host instead of three
/// for every text: bundles have thousands of rules. An escape may hide anything.
fn may_name(rule: &Document, resources: &[&str]) -> bool {
    let json = rule.raw("/resources").unwrap_or_default();
    let json = String::from_utf8_lossy(&json);
    json.contains('\\') || resources.iter().any(|resource| json.contains(resource))
}
