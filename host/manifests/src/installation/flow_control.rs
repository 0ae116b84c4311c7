//! The share of the API server's concurrency that the servers get (API Priority and Fairness).
//!
//! A request of a tenant that waits for opgate occupies a place of its priority level. The requests with
//! which opgate evaluates it, such as a write of the ledger, would otherwise wait for a place of the same
//! level: that of all service accounts. If it is full of requests that wait for opgate, none of them would
//! proceed before it times out.

use serde_json::{Value, json};

use super::Installation;

const API_GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// Before the flow schemas of Kubernetes for service accounts: 900 for `kube-system`, 9,000 for all.
const MATCHING_PRECEDENCE: u16 = 850;

/// Shares of the API server's concurrency. The default levels have 245: of 600 requests, this reserves 23.
const CONCURRENCY_SHARES: u16 = 10;

/// The part of them that other levels may use while opgate does not.
const LENDABLE_PERCENT: u8 = 50;

/// The version of the API for the objects of flow control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FlowControl {
    /// Kubernetes 1.29 and later
    V1,
    /// Kubernetes 1.28
    V1beta3,
    /// Omit them
    None,
}

impl FlowControl {
    /// `apiVersion` of the objects, if there are any.
    fn api_version(self) -> Option<String> {
        match self {
            Self::V1 => Some(format!("{API_GROUP}/v1")),
            Self::V1beta3 => Some(format!("{API_GROUP}/v1beta3")),
            Self::None => None,
        }
    }
}

impl Installation {
    /// Returns a priority level of the servers, and the flow schema that gives it to them.
    pub(super) fn flow_control_objects(&self) -> Vec<Value> {
        let Some(version) = self.flow_control.api_version() else { return Vec::new() };
        let level = json!({
            "apiVersion": version,
            "kind": "PriorityLevelConfiguration",
            "metadata": self.cluster_metadata(&self.name),
            "spec": {
                "type": "Limited",
                "limited": {
                    "nominalConcurrencyShares": CONCURRENCY_SHARES,
                    "lendablePercent": LENDABLE_PERCENT,
                    "limitResponse": {
                        "type": "Queue",
                        // One flow, so one queue.
                        "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 200},
                    },
                },
            },
        });
        let schema = json!({
            "apiVersion": version,
            "kind": "FlowSchema",
            "metadata": self.cluster_metadata(&self.name),
            "spec": {
                "matchingPrecedence": MATCHING_PRECEDENCE,
                "priorityLevelConfiguration": {"name": self.name},
                "rules": [{
                    "subjects": [{
                        "kind": "ServiceAccount",
                        "serviceAccount": {"namespace": self.namespace, "name": self.name},
                    }],
                    "resourceRules": [{
                        "verbs": ["*"],
                        "apiGroups": ["*"],
                        "resources": ["*"],
                        "namespaces": ["*"],
                        "clusterScope": true,
                    }],
                    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                }],
            },
        });
        vec![level, schema]
    }
}
