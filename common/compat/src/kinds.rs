//! Kinds and resources.

/// Returns the resource of a kind, as Kubernetes derives it (`UnsafeGuessKindToResource`): files do not
/// contain it.
#[must_use]
pub fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if kind == "endpoints" {
        kind
    } else if kind.ends_with('s') || kind.ends_with('x') || kind.ends_with("ch") {
        format!("{kind}es")
    } else if let Some(stem) = kind.strip_suffix('y') {
        format!("{stem}ies")
    } else {
        format!("{kind}s")
    }
}

/// Kinds without a namespace, by API group; a group with `*` has no others.
const CLUSTER_SCOPED: [(&str, &[&str]); 24] = [
    ("", &["ComponentStatus", "Namespace", "Node", "PersistentVolume"]),
    ("admissionregistration.k8s.io", &["*"]),
    ("apiextensions.k8s.io", &["*"]),
    ("apiregistration.k8s.io", &["*"]),
    ("authorization.openshift.io", &["ClusterRole", "ClusterRoleBinding"]),
    ("catalogd.operatorframework.io", &["*"]),
    ("certificates.k8s.io", &["*"]),
    ("config.openshift.io", &["*"]),
    ("console.openshift.io", &["*"]),
    ("core.rukpak.io", &["*"]),
    ("flowcontrol.apiserver.k8s.io", &["*"]),
    ("machineconfiguration.openshift.io", &["*"]),
    ("networking.k8s.io", &["IPAddress", "IngressClass", "ServiceCIDR"]),
    ("node.k8s.io", &["*"]),
    ("olm.operatorframework.io", &["*"]),
    ("operators.coreos.com", &["OLMConfig", "Operator"]),
    ("platform.openshift.io", &["*"]),
    ("policy", &["PodSecurityPolicy"]),
    ("project.openshift.io", &["*"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding"]),
    ("scheduling.k8s.io", &["*"]),
    ("security.openshift.io", &["SecurityContextConstraints"]),
    ("storage.k8s.io", &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"]),
    ("user.openshift.io", &["*"]),
];

/// Reports whether the objects of a kind are cluster-scoped, as far as that is known without discovery.
#[must_use]
pub fn is_cluster_scoped(group: &str, kind: &str) -> bool {
    let kinds = CLUSTER_SCOPED.iter().find(|(name, _)| *name == group);
    kinds.is_some_and(|(_, kinds)| kinds.iter().any(|known| *known == "*" || *known == kind))
}
