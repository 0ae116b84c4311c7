//! Objects next to the `ClusterServiceVersion` that could harm a cluster. After api
//! `pkg/validation/internal/object.go`; like upstream, these rules only compare kinds.

use opgate_sdk::{Document, Kind, Report, rule, rules};

use crate::directory::{BUNDLE, BundleDirectory};
use crate::manifests::Manifest;

rules![RBF_23, RBF_24, RBF_25];

/// The `SecurityContextConstraints` of OpenShift 4.5.
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

pub(crate) fn check(
    directory: &BundleDirectory<'_>,
    manifests: &[Manifest<'_>],
    report: &mut Report<'_>,
) {
    for manifest in manifests {
        let check = match manifest.kind.as_str() {
            "PodDisruptionBudget" => check_disruption_budget,
            "PriorityClass" => check_priority_class,
            "Role" | "ClusterRole" => check_role,
            _ => continue,
        };
        if let Some(object) = directory.first_document(manifest.file) {
            check(&object, manifest, report);
        }
    }
}

rule! {
    /// a PodDisruptionBudget allows the eviction of pods
    ///
    /// In a PodDisruptionBudget in `manifests/`, `spec.maxUnavailable` is neither the number 0 nor
    /// `"0%"`, and `spec.minAvailable` is not `"100%"`. The rule compares only the kind, not
    /// `apiVersion`.
    ///
    /// # Why
    ///
    /// Such a budget allows no eviction. It blocks the drain of nodes and therefore the update of
    /// the cluster. The object validator of operator-framework/api reports the same.
    ///
    /// # Remediation
    ///
    /// Allow at least one unavailable pod, for example with `maxUnavailable: 1`.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: PodDisruptionBudget
    /// spec: {maxUnavailable: "50%"}
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// kind: PodDisruptionBudget
    /// spec: {maxUnavailable: "0%", minAvailable: "100%"}
    /// ```
    ///
    /// `message: maxUnavailable field cannot be set to 0 or 0%`
    ///
    /// `message: minAvailable field cannot be set to 100%`
    RBF_23: Warn {
        name: "pod-disruption-budget-allows-eviction",
        on: [BUNDLE: Create | Update],
        source: ["api pkg/validation/internal/object.go"],
    }
}

/// Every text fails upstream, because its integer part reads as 0. Here only `0%` fails: `50%`
/// allows evictions.
fn check_disruption_budget(object: &Document, manifest: &Manifest<'_>, report: &mut Report<'_>) {
    let pointer = "/spec/maxUnavailable";
    let none = match object.kind(pointer) {
        Kind::Number => object.number(pointer) == Some(0.0),
        _ => object.text(pointer).is_some_and(|text| text == "0%"),
    };
    if none {
        let message = "maxUnavailable field cannot be set to 0 or 0%";
        report.add(&RBF_23, manifest.file.within("spec.maxUnavailable"), message);
    }
    if object.text_or_empty("/spec/minAvailable") == "100%" {
        let message = "minAvailable field cannot be set to 100%";
        report.add(&RBF_23, manifest.file.within("spec.minAvailable"), message);
    }
}

rule! {
    /// a PriorityClass is not the default of the cluster
    ///
    /// In a PriorityClass in `manifests/`, `globalDefault` is not `true`. The rule compares only
    /// the kind, not `apiVersion`.
    ///
    /// # Why
    ///
    /// The default class gives its priority to every new pod in the cluster that names no class.
    /// One Operator would change how pods of all others are scheduled. The object validator of
    /// operator-framework/api reports the same.
    ///
    /// # Remediation
    ///
    /// Remove `globalDefault`, and name the class in the pods that need it (`priorityClassName`).
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: PriorityClass
    /// value: 1
    /// ```
    ///
    /// # Rejected
    ///
    /// ```yaml
    /// kind: PriorityClass
    /// globalDefault: true
    /// ```
    ///
    /// `message: globalDefault field cannot be set to true`
    RBF_24: Warn {
        name: "no-global-default-priority-class",
        on: [BUNDLE: Create | Update],
        source: ["api pkg/validation/internal/object.go"],
    }
}

fn check_priority_class(object: &Document, manifest: &Manifest<'_>, report: &mut Report<'_>) {
    if object.boolean("/globalDefault") == Some(true) {
        let message = "globalDefault field cannot be set to true";
        report.add(&RBF_24, manifest.file.within("globalDefault"), message);
    }
}

rule! {
    /// roles grant no write access to disruption budgets and default SecurityContextConstraints
    ///
    /// No rule in a Role or ClusterRole in `manifests/` grants `create`, `update` or `patch` on
    /// `poddisruptionbudgets` of the group `policy`. No rule grants `delete`, `update` or `patch`
    /// on `securitycontextconstraints` of the group `security.openshift.io` if `resourceNames`
    /// contains a default one: `privileged`, `restricted`, `anyuid`, `hostaccess`,
    /// `hostmount-anyuid`, `hostnetwork`, `node-exporter` or `nonroot`. The verb `*` counts as all
    /// of them; `*` in groups, resources and names does not match. Permissions in the
    /// ClusterServiceVersion are not evaluated.
    ///
    /// # Why
    ///
    /// Changed disruption budgets can block updates of the cluster. All workloads share the default
    /// SecurityContextConstraints, so a change can break or expose them. The object validator of
    /// operator-framework/api reports the same.
    ///
    /// # Remediation
    ///
    /// Remove the verbs from the rule. If the Operator needs other constraints, let it create
    /// separate SecurityContextConstraints.
    ///
    /// # Accepted
    ///
    /// ```yaml
    /// kind: ClusterRole
    /// rules:
    /// - apiGroups: [security.openshift.io]
    ///   resources: [securitycontextconstraints]
    ///   resourceNames: [privileged]
    ///   verbs: [use]
    /// ```
    ///
    /// # Rejected
    ///
    /// This rule with `verbs: [update]`.
    ///
    /// `message: RBAC includes permission to modify default securitycontextconstraints, which could
    /// impact cluster stability`
    ///
    /// For disruption budgets: `message: RBAC includes permission to create/update
    /// poddisruptionbudgets, which could impact cluster stability`
    RBF_25: Warn {
        name: "no-pdb-or-scc-write-access",
        on: [BUNDLE: Create | Update],
        source: ["api pkg/validation/internal/object.go"],
    }
}

fn check_role(object: &Document, manifest: &Manifest<'_>, report: &mut Report<'_>) {
    for (index, rule) in object.items("/rules").enumerate() {
        if !may_match(&rule, &["poddisruptionbudgets", "securitycontextconstraints"]) {
            continue;
        }
        let names = |pointer: &str, wanted: &[&str]| {
            rule.items(pointer)
                .filter_map(|item| item.text(""))
                .any(|text| wanted.contains(&text.as_str()))
        };
        let mut warn = |message: &str| {
            report.add(&RBF_25, manifest.file.within(&format!("rules[{index}]")), message);
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

/// Whether the resources of a rule can be among these, with one host call instead of three for
/// every text: bundles have thousands of rules. An escape can hide any text.
fn may_match(rule: &Document, resources: &[&str]) -> bool {
    let json = rule.raw("/resources").unwrap_or_default();
    let json = String::from_utf8_lossy(&json);
    json.contains('\\') || resources.iter().any(|resource| json.contains(resource))
}
