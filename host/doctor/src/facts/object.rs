//! Objects of a cluster, each reduced to the fields that the doctor reads. They contain no secret data.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// Kinds that the doctor reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Namespace,
    Node,
    ValidatingWebhookConfiguration,
    MutatingWebhookConfiguration,
    Service,
    EndpointSlice,
    Pod,
    Deployment,
    CronJob,
    PodDisruptionBudget,
    NetworkPolicy,
    ConfigMap,
    Secret,
    ServiceAccount,
    Lease,
    ClusterRole,
    ClusterRoleBinding,
    Role,
    RoleBinding,
}

impl Kind {
    pub(crate) const ALL: [Self; 19] = [
        Self::Namespace,
        Self::Node,
        Self::ValidatingWebhookConfiguration,
        Self::MutatingWebhookConfiguration,
        Self::Service,
        Self::EndpointSlice,
        Self::Pod,
        Self::Deployment,
        Self::CronJob,
        Self::PodDisruptionBudget,
        Self::NetworkPolicy,
        Self::ConfigMap,
        Self::Secret,
        Self::ServiceAccount,
        Self::Lease,
        Self::ClusterRole,
        Self::ClusterRoleBinding,
        Self::Role,
        Self::RoleBinding,
    ];

    /// Returns API group, resource and kind; each is read in version `v1`.
    pub(crate) fn names(self) -> (&'static str, &'static str, &'static str) {
        const WEBHOOKS: &str = "admissionregistration.k8s.io";
        const RBAC: &str = "rbac.authorization.k8s.io";
        match self {
            Self::Namespace => ("", "namespaces", "Namespace"),
            Self::Node => ("", "nodes", "Node"),
            Self::ValidatingWebhookConfiguration => {
                (WEBHOOKS, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration")
            }
            Self::MutatingWebhookConfiguration => {
                (WEBHOOKS, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration")
            }
            Self::Service => ("", "services", "Service"),
            Self::EndpointSlice => ("discovery.k8s.io", "endpointslices", "EndpointSlice"),
            Self::Pod => ("", "pods", "Pod"),
            Self::Deployment => ("apps", "deployments", "Deployment"),
            Self::CronJob => ("batch", "cronjobs", "CronJob"),
            Self::PodDisruptionBudget => ("policy", "poddisruptionbudgets", "PodDisruptionBudget"),
            Self::NetworkPolicy => ("networking.k8s.io", "networkpolicies", "NetworkPolicy"),
            Self::ConfigMap => ("", "configmaps", "ConfigMap"),
            Self::Secret => ("", "secrets", "Secret"),
            Self::ServiceAccount => ("", "serviceaccounts", "ServiceAccount"),
            Self::Lease => ("coordination.k8s.io", "leases", "Lease"),
            Self::ClusterRole => (RBAC, "clusterroles", "ClusterRole"),
            Self::ClusterRoleBinding => (RBAC, "clusterrolebindings", "ClusterRoleBinding"),
            Self::Role => (RBAC, "roles", "Role"),
            Self::RoleBinding => (RBAC, "rolebindings", "RoleBinding"),
        }
    }

    /// Returns the kind of an object in a file.
    pub(crate) fn of(group: &str, kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| {
            let (of, _, name) = known.names();
            of == group && name == kind
        })
    }

    pub(crate) fn is_namespaced(self) -> bool {
        !matches!(
            self,
            Self::Namespace
                | Self::Node
                | Self::ValidatingWebhookConfiguration
                | Self::MutatingWebhookConfiguration
                | Self::ClusterRole
                | Self::ClusterRoleBinding
        )
    }

    /// Reports whether a running cluster makes such objects itself, so that manifests have none.
    pub(crate) fn is_created_by_cluster(self) -> bool {
        matches!(
            self,
            Self::Namespace
                | Self::Node
                | Self::MutatingWebhookConfiguration
                | Self::EndpointSlice
                | Self::Pod
                | Self::Secret
                | Self::Lease
        )
    }

    /// Returns `pods` or `deployments.apps`, as `kubectl` takes it.
    pub(crate) fn resource(self) -> String {
        match self.names() {
            ("", resource, _) => resource.to_owned(),
            (group, resource, _) => format!("{resource}.{group}"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.names().2)
    }
}

/// An object.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    /// Empty for objects without one.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) value: Value,
}

impl Object {
    /// Returns the relevant fields of an object; none without a name.
    pub(crate) fn of(kind: Kind, mut value: Value) -> Option<Self> {
        let name = text(&value, "/metadata/name").to_owned();
        let namespace = match text(&value, "/metadata/namespace") {
            _ if !kind.is_namespaced() => "",
            // As `kubectl apply` does without another namespace in its configuration.
            "" => "default",
            namespace => namespace,
        };
        let namespace = namespace.to_owned();
        remove_unread_fields(kind, &mut value);
        (!name.is_empty()).then_some(Self { kind, namespace, name, value })
    }

    pub(crate) fn text(&self, pointer: &str) -> &str {
        text(&self.value, pointer)
    }

    pub(crate) fn at(&self, pointer: &str) -> Option<&Value> {
        self.value.pointer(pointer)
    }

    pub(crate) fn list(&self, pointer: &str) -> &[Value] {
        list(&self.value, pointer)
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.value.pointer("/metadata/labels")?.get(key)?.as_str()
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.value.pointer("/metadata/annotations")?.get(key)?.as_str()
    }

    /// Its labels.
    pub(crate) fn labels(&self) -> BTreeMap<&str, &str> {
        string_map(self.value.pointer("/metadata/labels"))
    }
}

/// Returns the text at a pointer, empty without one.
pub(crate) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the elements at a pointer, none without a list.
pub(crate) fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the texts of a map.
pub(crate) fn string_map(value: Option<&Value>) -> BTreeMap<&str, &str> {
    let members = value.and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
}

/// Removes the fields that the doctor does not read, in particular secret data.
fn remove_unread_fields(kind: Kind, value: &mut Value) {
    let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        metadata.retain(|name, _| {
            matches!(
                name.as_str(),
                "name" | "namespace" | "labels" | "annotations" | "uid" | "deletionTimestamp"
            )
        });
        if matches!(kind, Kind::Namespace | Kind::Node | Kind::Secret | Kind::ConfigMap | Kind::Pod)
        {
            metadata.remove("annotations");
        }
    }
    let Some(members) = value.as_object_mut() else { return };
    match kind {
        Kind::Secret => {
            members.retain(|name, _| matches!(name.as_str(), "metadata" | "type" | "data"));
            let data = members.get_mut("data").and_then(Value::as_object_mut);
            if let Some(data) = data {
                // Only the existence of the key is kept.
                let has_key = data.contains_key("tls.key");
                data.retain(|name, _| matches!(name.as_str(), "tls.crt" | "ca.crt"));
                if has_key {
                    data.insert("tls.key".to_owned(), Value::Bool(true));
                }
            }
        }
        Kind::Namespace => members.retain(|name, _| name == "metadata"),
        Kind::Node => members.retain(|name, _| matches!(name.as_str(), "metadata" | "spec")),
        Kind::Pod => {}
        _ => {
            members.remove("status");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_secret_is_kept() {
        let secret = json!({
            "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {
                "name": "opgate-tls", "namespace": "opgate-system",
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "HIDDEN"},
                "managedFields": [{"manager": "HIDDEN"}],
            },
            "data": {"tls.crt": "Yw==", "tls.key": "HIDDEN", "ca.key": "HIDDEN", "ca.crt": "Yw=="},
            "stringData": {"tls.key": "HIDDEN"},
        });
        let kept = Object::of(Kind::Secret, secret).unwrap();
        assert!(!kept.value.to_string().contains("HIDDEN"), "{}", kept.value);
        assert_eq!(kept.text("/data/tls.crt"), "Yw==");
        assert_eq!(kept.at("/data/tls.key"), Some(&json!(true)));
    }
}
