//! The servers: their configuration, their pods, and how many of these may be away.

use serde_json::{Value, json};

use super::certificates::SECRET_NAME;
use super::{Certificates, ClientCa, Installation, Registrar};

/// Ports of a server, as `opgate serve` has them by default.
pub(super) const WEBHOOK_PORT: u16 = 9443;
pub(super) const OPS_PORT: u16 = 8081;

/// Memory of a pod: 51 MiB after start and 27 MiB for a cluster of 10,000 namespaces were measured, and a
/// quarter each is for requests and for connections. The request is the same as the limit: what a
/// node has promised to others cannot be had when it is needed.
const POD_MEMORY: &str = "512Mi";

/// A thousand decisions a second take less. There is no limit: it would slow down calls that need a CPU
/// for a moment only.
const POD_CPU_REQUEST: &str = "250m";

/// Seconds from SIGTERM to SIGKILL: more than `--drain-delay` (15), `--grace-period` (10), the end of connections (2)
/// and of leases (3), and the last records and traces (5) together.
const TERMINATION_GRACE_SECONDS: u32 = 45;

/// Environment variable that switches on Events for denials.
pub(crate) const EVENTS_VARIABLE: &str = "OPGATE_EVENTS";

/// Architectures of the image.
const ARCHITECTURES: &[&str] = &["amd64", "arm64"];

/// For compiled policies from files; a component takes less than 10 MiB.
pub(super) const CACHE_VOLUME_SIZE: &str = "256Mi";

/// Returns the affinity to nodes that can run the image.
pub(super) fn node_affinity() -> Value {
    let one_of =
        |label: &str, values: &[&str]| json!({"key": label, "operator": "In", "values": values});
    json!({"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
            one_of("kubernetes.io/arch", ARCHITECTURES),
            one_of("kubernetes.io/os", &["linux"]),
        ]}],
    }})
}

/// Returns the `securityContext` of a pod.
pub(super) fn pod_security() -> Value {
    json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}})
}

/// Returns the `securityContext` of a container. The image states the user. On OpenShift the namespace does.
pub(super) fn container_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
        "runAsNonRoot": true,
    })
}

impl Installation {
    pub(super) fn config_map(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": self.namespaced_metadata(&self.name),
            "data": {"opgate.yaml": self.configuration},
        })
    }

    /// Returns a node that is drained waits until another pod is ready. A single server has none: it would
    /// keep its node from being drained for ever.
    pub(crate) fn disruption_budget(&self) -> Option<Value> {
        (self.replicas > 1).then(|| {
            json!({
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": self.namespaced_metadata(&self.name),
                "spec": {
                    "minAvailable": 1,
                    "selector": {"matchLabels": Self::pod_labels()},
                    // A pod that is not ready does not block the draining of a node.
                    "unhealthyPodEvictionPolicy": "AlwaysAllow",
                },
            })
        })
    }

    pub(super) fn deployment(&self) -> Value {
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": self.namespaced_metadata(&self.name),
            "spec": self.deployment_spec(),
        })
    }

    /// Returns `spec` of the Deployment.
    pub(crate) fn deployment_spec(&self) -> Value {
        let mut pod = json!({
            "serviceAccountName": self.name,
            "automountServiceAccountToken": true,
            "terminationGracePeriodSeconds": TERMINATION_GRACE_SECONDS,
            "affinity": {
                "nodeAffinity": node_affinity(),
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
                    "weight": 100,
                    "podAffinityTerm": {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": Self::pod_labels()},
                    },
                }]},
            },
            "topologySpreadConstraints": [
                Self::topology_spread_constraint("kubernetes.io/hostname"),
                Self::topology_spread_constraint("topology.kubernetes.io/zone"),
            ],
            "securityContext": pod_security(),
            "containers": [self.container()],
            "volumes": self.volumes(),
        });
        if let Some(pod) = pod.as_object_mut() {
            if !self.priority_class.is_empty() {
                pod.insert("priorityClassName".to_owned(), json!(self.priority_class));
            }
            if !self.pull_secrets.is_empty() {
                let secrets: Vec<_> =
                    self.pull_secrets.iter().map(|name| json!({"name": name})).collect();
                pod.insert("imagePullSecrets".to_owned(), json!(secrets));
            }
        }
        json!({
            "replicas": self.replicas,
            "selector": {"matchLabels": Self::pod_labels()},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
            },
            "template": {
                "metadata": {
                    "labels": self.labels,
                    "annotations": {"kubectl.kubernetes.io/default-container": "opgate"},
                },
                "spec": pod,
            },
        })
    }

    /// Pods of one version are on different nodes, and in different zones, where there are any.
    fn topology_spread_constraint(topology: &str) -> Value {
        json!({
            "topologyKey": topology,
            "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": Self::pod_labels()},
            "matchLabelKeys": ["pod-template-hash"],
        })
    }

    fn container(&self) -> Value {
        let get = |path: &str| json!({"path": path, "port": "ops"});
        let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
        let mut environment = vec![
            json!({"name": "POD_NAME", "valueFrom": field("metadata.name")}),
            json!({"name": "POD_UID", "valueFrom": field("metadata.uid")}),
        ];
        if self.events {
            environment.push(json!({"name": EVENTS_VARIABLE, "value": "true"}));
        }
        json!({
            "name": "opgate",
            "image": self.image,
            "args": self.arguments(),
            "env": environment,
            "ports": [
                {"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"},
                {"name": "ops", "containerPort": OPS_PORT, "protocol": "TCP"},
            ],
            // Until the ops port answers, two minutes at most.
            "startupProbe": {
                "httpGet": get("/livez"),
                "periodSeconds": 2,
                "timeoutSeconds": 1,
                "failureThreshold": 60,
            },
            "readinessProbe": {
                "httpGet": get("/readyz"),
                "periodSeconds": 2,
                "timeoutSeconds": 1,
                "failureThreshold": 3,
            },
            "livenessProbe": {
                "httpGet": get("/livez"),
                "periodSeconds": 10,
                "timeoutSeconds": 3,
                "failureThreshold": 3,
            },
            "resources": {
                "requests": {"cpu": POD_CPU_REQUEST, "memory": POD_MEMORY},
                "limits": {"memory": POD_MEMORY},
            },
            "securityContext": container_security(),
            "volumeMounts": self.mounts(),
        })
    }

    /// Returns the arguments of the servers.
    fn arguments(&self) -> Vec<String> {
        let owner = self.owner();
        let mut arguments = vec!["serve", "--config", "/etc/opgate/opgate.yaml"];
        arguments.extend(["--cache-dir", "/cache/opgate", "--log-format", "json"]);
        arguments.extend(["--installation", &owner]);
        match self.certificates {
            Certificates::SelfManaged => arguments.extend(["--certificates", "self-managed"]),
            Certificates::CertManager | Certificates::Files => {
                arguments.extend(["--certificates", "files", "--tls-dir", "/tls"]);
            }
        }
        if self.registration == Registrar::Managed {
            arguments.push("--manage-webhooks");
        }
        if let Some(interval) = &self.audit_interval {
            arguments.extend(["--audit-interval", interval]);
        }
        arguments.extend(self.client_ca.iter().flat_map(ClientCa::arguments));
        arguments.into_iter().map(str::to_owned).collect()
    }

    fn mounts(&self) -> Vec<Value> {
        let mut mounts = vec![
            json!({"name": "config", "mountPath": "/etc/opgate", "readOnly": true}),
            json!({"name": "cache", "mountPath": "/cache"}),
        ];
        if self.mounts_certificate() {
            mounts.push(json!({"name": "tls", "mountPath": "/tls", "readOnly": true}));
        }
        if self.client_ca.is_some() {
            mounts.push(json!({"name": "clients", "mountPath": "/clients", "readOnly": true}));
        }
        mounts
    }

    fn volumes(&self) -> Vec<Value> {
        let mut volumes = vec![
            json!({"name": "config", "configMap": {"name": self.name}}),
            json!({"name": "cache", "emptyDir": {"sizeLimit": CACHE_VOLUME_SIZE}}),
        ];
        if self.mounts_certificate() {
            volumes.push(json!({"name": "tls", "secret": {"secretName": SECRET_NAME}}));
        }
        if self.client_ca.is_some() {
            volumes.push(json!({"name": "clients", "configMap": {"name": self.client_ca_name()}}));
        }
        volumes
    }
}
