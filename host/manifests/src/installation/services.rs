//! Routing of requests to the servers, and clients that can send them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::certificates::INJECT_CA_ANNOTATION;
use super::servers::{OPS_PORT, WEBHOOK_PORT};
use super::{ApiServers, Certificates, Installation, Registrar, own_label};
use crate::network::{AllowedClients, policy};
use opgate_controller::{INSTALLATION_LABEL, OWNER_ANNOTATION};

impl Installation {
    /// Returns the webhook configuration without a webhook, which the servers fill in: its label and
    /// annotation identify it as theirs.
    pub(crate) fn webhook_configuration(&self) -> Option<Value> {
        if self.registration == Registrar::Manual {
            return None;
        }
        let mut metadata = self.cluster_metadata(&self.name);
        let mut annotations = json!({ OWNER_ANNOTATION: self.owner() });
        if let Some(annotations) = annotations.as_object_mut()
            && self.certificates == Certificates::CertManager
        {
            annotations.insert(INJECT_CA_ANNOTATION.to_owned(), json!(self.owner()));
        }
        if let Some(members) = metadata.as_object_mut() {
            members.insert("annotations".to_owned(), annotations);
        }
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.insert(INSTALLATION_LABEL.to_owned(), json!(self.namespace));
        }
        Some(json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": metadata,
        }))
    }

    /// Returns a Service for API servers, and one for metrics, which includes servers that are not ready.
    pub(crate) fn services(&self) -> [Value; 2] {
        let service = |name: &str, spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": self.namespaced_metadata(name), "spec": spec});
        let selector = Self::pod_labels();
        [
            service(
                &self.name,
                json!({
                    "selector": selector,
                    "ports": [{"name": "webhook", "port": 443, "targetPort": "webhook", "protocol": "TCP"}],
                }),
            ),
            service(
                &self.metrics_service(),
                json!({
                    "selector": selector,
                    "publishNotReadyAddresses": true,
                    "ports": [{"name": "metrics", "port": OPS_PORT, "targetPort": "ops", "protocol": "TCP"}],
                }),
            ),
        ]
    }

    /// Returns the name of the Service for metrics.
    pub(super) fn metrics_service(&self) -> String {
        format!("{}-metrics", self.name)
    }

    /// Returns a policy that selects the pods shuts out everybody whom it does not name, API servers among
    /// them.
    pub(super) fn network_policy(&self) -> Option<Value> {
        let Self { api_servers, metrics_from, .. } = self;
        let webhook = match api_servers {
            ApiServers::Unknown => return None,
            ApiServers::Any => AllowedClients::Any,
            ApiServers::Named(addresses) => {
                AllowedClients::Named { addresses: addresses.clone(), namespaces: Vec::new() }
            }
        };
        let ops = if metrics_from.is_empty() && self.monitoring {
            AllowedClients::Pods
        } else {
            AllowedClients::Named { addresses: Vec::new(), namespaces: metrics_from.clone() }
        };
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            namespace: Some(self.namespace.clone()),
            labels: Some(self.labels.clone()),
            ..ObjectMeta::default()
        };
        let ports = [(WEBHOOK_PORT, webhook), (OPS_PORT, ops)];
        Some(json!(policy(metadata, [own_label()].into(), ports)))
    }
}
