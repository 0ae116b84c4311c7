//! The namespace of the servers, its quota, and their ServiceAccount.

use serde_json::{Value, json};

use super::Installation;

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
}
