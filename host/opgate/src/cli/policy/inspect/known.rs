//! The API resources that every Kubernetes cluster has, to find misspelled ones. Resources of custom groups
//! are unknown without a cluster.

/// Groups of Kubernetes (1.33), each with its resources, also of versions that are no longer served.
const KNOWN_GROUPS: [(&str, &[&str]); 20] = [
    (
        "",
        &[
            "bindings",
            "componentstatuses",
            "configmaps",
            "endpoints",
            "events",
            "limitranges",
            "namespaces",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "podtemplates",
            "replicationcontrollers",
            "resourcequotas",
            "secrets",
            "serviceaccounts",
            "services",
        ],
    ),
    (
        "admissionregistration.k8s.io",
        &[
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        ],
    ),
    ("apiextensions.k8s.io", &["customresourcedefinitions"]),
    ("apiregistration.k8s.io", &["apiservices"]),
    ("apps", &["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"]),
    ("authentication.k8s.io", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io",
        &[
            "localsubjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "subjectaccessreviews",
        ],
    ),
    ("autoscaling", &["horizontalpodautoscalers"]),
    ("batch", &["cronjobs", "jobs"]),
    (
        "certificates.k8s.io",
        &["certificatesigningrequests", "clustertrustbundles", "podcertificaterequests"],
    ),
    ("coordination.k8s.io", &["leasecandidates", "leases"]),
    ("discovery.k8s.io", &["endpointslices"]),
    ("events.k8s.io", &["events"]),
    (
        "extensions",
        &[
            "daemonsets",
            "deployments",
            "ingresses",
            "networkpolicies",
            "podsecuritypolicies",
            "replicasets",
        ],
    ),
    ("flowcontrol.apiserver.k8s.io", &["flowschemas", "prioritylevelconfigurations"]),
    (
        "networking.k8s.io",
        &["ingressclasses", "ingresses", "ipaddresses", "networkpolicies", "servicecidrs"],
    ),
    ("node.k8s.io", &["runtimeclasses"]),
    ("policy", &["poddisruptionbudgets", "podsecuritypolicies"]),
    (
        "rbac.authorization.k8s.io",
        &["clusterrolebindings", "clusterroles", "rolebindings", "roles"],
    ),
    ("scheduling.k8s.io", &["priorityclasses"]),
];

/// Groups with resources that change from version to version.
const UNCHECKED_GROUPS: [&str; 4] =
    ["internal.apiserver.k8s.io", "resource.k8s.io", "storage.k8s.io", "storagemigration.k8s.io"];

/// Returns the mistake in the name of a resource or of its group.
pub(super) fn find_mistake(group: &str, resource: &str) -> Option<String> {
    let name = resource.split('/').next().unwrap_or_default();
    if group == "*" || UNCHECKED_GROUPS.contains(&group) {
        return None;
    }
    let Some((_, resources)) = KNOWN_GROUPS.iter().find(|(known, _)| *known == group) else {
        if group.contains('.') {
            return None;
        }
        // Groups of custom resources are domains.
        let hint = opgate_text::hint(group, KNOWN_GROUPS.iter().map(|(known, _)| *known));
        return Some(format!("there is no API group {group:?}{hint}"));
    };
    if name == "*" || resources.contains(&name) {
        return None;
    }
    let other = KNOWN_GROUPS.iter().find(|(_, resources)| resources.contains(&name));
    let hint = match other {
        Some(("", _)) => format!("; {name:?} is in the core group, \"\""),
        Some((other, _)) => format!("; {name:?} is in the group {other:?}"),
        None => opgate_text::hint(name, resources.iter().copied()),
    };
    let of = if group.is_empty() { "the core group".to_owned() } else { format!("{group:?}") };
    Some(format!("there is no resource {name:?} in {of}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::find_mistake;

    #[test]
    fn only_impossible_resources_are_unknown() {
        for (group, resource) in [
            ("", "pods"),
            ("", "pods/ephemeralcontainers"),
            ("", "*"),
            ("*", "anything"),
            ("apps", "deployments/scale"),
            ("example.com", "widgets"),
            ("gateway.networking.k8s.io", "httproutes"),
            ("storage.k8s.io", "storageclasses"),
        ] {
            assert_eq!(find_mistake(group, resource), None, "{group}/{resource}");
        }
        for (group, resource, expected) in [
            ("", "pod", "there is no resource \"pod\" in the core group; did you mean \"pods\"?"),
            ("", "deployments", "; \"deployments\" is in the group \"apps\""),
            ("apps", "pods", "in \"apps\"; \"pods\" is in the core group, \"\""),
            ("app", "deployments", "there is no API group \"app\"; did you mean \"apps\"?"),
        ] {
            let found = find_mistake(group, resource).unwrap();
            assert!(found.contains(expected), "{found}");
        }
    }
}
