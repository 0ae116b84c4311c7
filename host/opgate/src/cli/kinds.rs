//! The resources of kinds: a file names the kind of an object, a request the resource.
//!
//! Kinds of Kubernetes itself are known; those of custom resources are, if a file contains the definition.
//! The resource of any other kind is derived from its name, with a warning.

use std::collections::BTreeMap;

use opgate_compat::kinds::{is_cluster_scoped, plural};
use opgate_document::Value;
use opgate_text::{hint, one_line};

/// The kinds of the groups that every API server serves. The name of a resource is the guess for each.
const BUILTIN_KINDS: [(&str, &[&str]); 12] = [
    (
        "",
        &[
            "Binding",
            "ComponentStatus",
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ],
    ),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    ("apps", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("autoscaling", &["HorizontalPodAutoscaler", "Scale"]),
    ("batch", &["CronJob", "Job"]),
    ("coordination.k8s.io", &["Lease", "LeaseCandidate"]),
    (
        "networking.k8s.io",
        &["IPAddress", "Ingress", "IngressClass", "NetworkPolicy", "ServiceCIDR"],
    ),
    ("policy", &["Eviction", "PodDisruptionBudget"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    (
        "storage.k8s.io",
        &[
            "CSIDriver",
            "CSINode",
            "CSIStorageCapacity",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
    ),
];

/// Groups whose resources follow the rule that guesses them.
const REGULAR_GROUPS: [&str; 5] = [
    "core.rukpak.io",
    "operators.coreos.com",
    "olm.operatorframework.io",
    "packages.operators.coreos.com",
    "opgate.dev",
];

/// Known facts about a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct KindInfo {
    /// `pods`
    pub(in crate::cli) resource: String,
    pub(in crate::cli) is_namespaced: bool,
    /// Whether the resource name is only derived from the kind.
    pub(in crate::cli) is_guess: bool,
}

/// Kinds that files define.
#[derive(Debug, Default)]
pub(in crate::cli) struct Kinds(BTreeMap<(String, String), (String, bool)>);

impl Kinds {
    /// Learns the kind that an object defines, if it is a `CustomResourceDefinition`.
    pub(in crate::cli) fn add_definition(&mut self, group: &str, kind: &str, object: Value<'_>) {
        if group != "apiextensions.k8s.io" || kind != "CustomResourceDefinition" {
            return;
        }
        let text = |pointer: &str| object.get(pointer).and_then(|value| value.text());
        let (Some(group), Some(kind), Some(plural)) =
            (text("/spec/group"), text("/spec/names/kind"), text("/spec/names/plural"))
        else {
            return;
        };
        let is_namespaced = text("/spec/scope") != Some("Cluster");
        self.0.insert((group.to_owned(), kind.to_owned()), (plural.to_owned(), is_namespaced));
    }

    /// Returns the resource of a kind.
    pub(in crate::cli) fn of(&self, group: &str, kind: &str) -> KindInfo {
        if let Some((resource, is_namespaced)) = self.0.get(&(group.to_owned(), kind.to_owned())) {
            let (resource, is_namespaced) = (resource.clone(), *is_namespaced);
            return KindInfo { resource, is_namespaced, is_guess: false };
        }
        let builtin = BUILTIN_KINDS.iter().find(|(name, _)| *name == group);
        let is_builtin = match builtin {
            Some((_, kinds)) => kinds.contains(&kind),
            None => {
                REGULAR_GROUPS.contains(&group)
                    || group.ends_with(".k8s.io")
                    || group.ends_with(".openshift.io")
            }
        };
        let is_namespaced = !is_cluster_scoped(group, kind);
        KindInfo { resource: plural(kind), is_namespaced, is_guess: !is_builtin }
    }
}

/// Returns a hint for a kind that a group of Kubernetes does not have.
pub(in crate::cli) fn misspelling_hint(group: &str, kind: &str) -> Option<String> {
    let (_, kinds) = BUILTIN_KINDS.iter().find(|(name, _)| *name == group)?;
    if kinds.contains(&kind) {
        return None;
    }
    let named = if group.is_empty() { "the core group" } else { group };
    let hint = hint(kind, kinds.iter().copied());
    Some(format!("{named} has no kind {:?}{hint}", one_line(kind, 64)))
}

#[cfg(test)]
mod tests {
    use opgate_document::Document;

    use super::*;

    #[test]
    fn resources_are_known_or_guessed() {
        let mut kinds = Kinds::default();
        let crd = r#"{"spec":{"group":"a.b","scope":"Cluster","names":{"kind":"Sheep","plural":"sheep"}}}"#;
        let crd = Document::parse(crd).unwrap();
        kinds.add_definition("apiextensions.k8s.io", "CustomResourceDefinition", crd.root());
        for (group, kind, resource, is_namespaced, is_guess) in [
            ("", "Pod", "pods", true, false),
            ("", "Endpoints", "endpoints", true, false),
            ("networking.k8s.io", "Ingress", "ingresses", true, false),
            ("networking.k8s.io", "NetworkPolicy", "networkpolicies", true, false),
            ("", "Namespace", "namespaces", false, false),
            ("", "Pdo", "pdos", true, true),
            ("a.b", "Sheep", "sheep", false, false),
            ("c.d", "Sheep", "sheeps", true, true),
        ] {
            let known = KindInfo { resource: resource.to_owned(), is_namespaced, is_guess };
            assert_eq!(kinds.of(group, kind), known, "{group} {kind}");
        }
    }

    #[test]
    fn unknown_kind_has_a_hint() {
        let said = misspelling_hint("apps", "Deploymnet").unwrap();
        assert_eq!(said, "apps has no kind \"Deploymnet\"; did you mean \"Deployment\"?");
        for (group, kind) in [("apps", "Deployment"), ("x.y", "Whatever")] {
            assert_eq!(misspelling_hint(group, kind), None);
        }
    }
}
