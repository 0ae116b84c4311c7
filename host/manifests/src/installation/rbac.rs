//! Namespace, account and write permissions of the servers.
//!
//! Write permissions are in separate roles: `opgate manifests rbac` prints only the roles for the reads of
//! policies, and applying them again removes no permission.

use opgate_controller::ledger::LEDGER_NAME;
use serde_json::{Value, json};

use super::{Certificates, Installation, Registrar};

const API_VERSION: &str = "rbac.authorization.k8s.io";

/// The Secret with the serving certificate.
pub(super) const SECRET_NAME: &str = "opgate-tls";

/// Pods of the critical classes that the namespace may have, where the cluster limits them.
const MAX_CRITICAL_PODS: &str = "100";

impl Installation {
    /// Returns the namespace, in which pods have no privileges, and the account of the servers, whose token
    /// only pods get that request it.
    pub(super) fn namespace_and_service_account(&self) -> Vec<Value> {
        let mut namespace = self.cluster_metadata(&self.namespace);
        for mode in ["enforce", "audit", "warn"] {
            if let Some(labels) = namespace.get_mut("labels").and_then(Value::as_object_mut) {
                labels.insert(format!("pod-security.kubernetes.io/{mode}"), json!("restricted"));
            }
        }
        let mut objects =
            vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": namespace})];
        // Some clusters admit critical pods only to namespaces whose quota speaks of them.
        if self.priority_class.starts_with("system-") {
            objects.push(json!({
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": self.namespaced_metadata(&format!("{}-critical-pods", self.name)),
                "spec": {
                    "hard": {"pods": MAX_CRITICAL_PODS},
                    "scopeSelector": {"matchExpressions": [{
                        "scopeName": "PriorityClass",
                        "operator": "In",
                        "values": [self.priority_class],
                    }]},
                },
            }));
        }
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": self.namespaced_metadata(&self.name),
            "automountServiceAccountToken": false,
        }));
        objects
    }

    /// Returns the roles of the controller, and their bindings.
    pub(super) fn controller_roles(&self) -> Vec<Value> {
        let name = format!("{}-controller", self.name);
        let subjects = json!([{
            "kind": "ServiceAccount",
            "namespace": self.namespace,
            "name": self.name,
        }]);
        let version = format!("{API_VERSION}/v1");
        let pair = |kind: &str, metadata: Value, rules: Vec<Value>| {
            [
                json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}),
                json!({
                    "apiVersion": version,
                    "kind": format!("{kind}Binding"),
                    "metadata": metadata,
                    "roleRef": {"apiGroup": API_VERSION, "kind": kind, "name": name},
                    "subjects": subjects,
                }),
            ]
        };
        let cluster = self.cluster_rules();
        let mut objects = Vec::new();
        if !cluster.is_empty() {
            objects.extend(pair("ClusterRole", self.cluster_metadata(&name), cluster));
        }
        objects.extend(pair("Role", self.namespaced_metadata(&name), self.namespace_rules()));
        objects
    }

    /// Returns the empty Secret that the servers write: a permission to create cannot be limited to a name,
    /// so servers that could create this one could create any. Applying it again changes none of their data:
    /// it has neither data nor a type, which is immutable.
    pub(super) fn secret(&self) -> Option<Value> {
        (self.certificates == Certificates::SelfManaged)
            .then(|| json!({"apiVersion": "v1", "kind": "Secret", "metadata": self.namespaced_metadata(SECRET_NAME)}))
    }

    /// Returns the permissions of the servers in their namespace: leases, their Secret,
    /// events, and the endpoints of their Service.
    pub(crate) fn namespace_rules(&self) -> Vec<Value> {
        let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
        let verbs = ["create", "delete", "get", "list", "update"];
        let mut rules = vec![
            rule("coordination.k8s.io", "leases", &verbs),
            rule("events.k8s.io", "events", &["create"]),
        ];
        // A permission to create cannot be limited to a name. The reservations of all servers are the only
        // ConfigMap that they change.
        rules.push(rule("", "configmaps", &["create"]));
        rules.push(json!({
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [LEDGER_NAME],
            "verbs": ["delete", "get", "update", "watch"],
        }));
        if self.registration == Registrar::Managed {
            rules.push(rule("discovery.k8s.io", "endpointslices", &["list"]));
        }
        if self.certificates == Certificates::SelfManaged {
            rules.push(json!({
                "apiGroups": [""],
                "resources": ["secrets"],
                "resourceNames": [SECRET_NAME],
                "verbs": ["get", "update"],
            }));
        }
        rules
    }

    /// Returns the cluster-wide permissions of the servers, in addition to reads for policies: change their
    /// webhook configuration. They find it by its label.
    pub(crate) fn cluster_rules(&self) -> Vec<Value> {
        if self.registration == Registrar::Manual && self.certificates != Certificates::SelfManaged
        {
            return Vec::new();
        }
        let (group, resource) = ("admissionregistration.k8s.io", "validatingwebhookconfigurations");
        vec![
            json!({"apiGroups": [group], "resources": [resource], "verbs": ["list"]}),
            json!({
                "apiGroups": [group],
                "resources": [resource],
                "resourceNames": [self.name],
                "verbs": ["get", "update"],
            }),
        ]
    }
}
