//! The roles for the objects that servers write and manage: leases, events, the ledger, their Secret and their
//! webhook configuration.
//!
//! They are separate from the roles for the reads of policies (`read_roles.rs`): `opgate manifests rbac` prints
//! only those, and applying them again removes no permission.

use opgate_controller::config_map_ledger::LEDGER_NAME;
use serde_json::{Value, json};

use super::certificates::SECRET_NAME;
use super::{Certificates, Installation, Registrar};

const API_VERSION: &str = "rbac.authorization.k8s.io";

impl Installation {
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

    /// Returns the role for Events of denials, and its binding: they are in the namespaces of the objects.
    pub(super) fn event_roles(&self) -> Vec<Value> {
        if !self.events {
            return Vec::new();
        }
        let name = self.event_role();
        let (version, metadata) = (format!("{API_VERSION}/v1"), self.cluster_metadata(&name));
        let rule = json!({
            "apiGroups": ["events.k8s.io"],
            "resources": ["events"],
            "verbs": ["create", "get", "patch"],
        });
        let subject = json!({
            "kind": "ServiceAccount",
            "namespace": self.namespace,
            "name": self.name,
        });
        vec![
            json!({"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": [rule]}),
            json!({
                "apiVersion": version,
                "kind": "ClusterRoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": API_VERSION, "kind": "ClusterRole", "name": name},
                "subjects": [subject],
            }),
        ]
    }

    /// Returns the name of the role for Events of denials.
    pub(crate) fn event_role(&self) -> String {
        format!("{}-denial-events", self.name)
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
