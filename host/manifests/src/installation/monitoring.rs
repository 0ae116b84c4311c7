//! Objects that the Prometheus Operator needs to collect the metrics and to alert on them
//! (docs/operate/metrics.md).

use serde_json::{Value, json};

use super::Installation;

const API_VERSION: &str = "monitoring.coreos.com/v1";

impl Installation {
    /// Returns the objects that collect the metrics, and the alerts.
    pub(super) fn monitoring_objects(&self) -> Vec<Value> {
        if !self.monitoring {
            return Vec::new();
        }
        let monitor = json!({
            "apiVersion": API_VERSION,
            "kind": "ServiceMonitor",
            "metadata": self.namespaced_metadata(&self.name),
            "spec": {
                "selector": {"matchLabels": Self::pod_labels()},
                // Some metrics have the label `namespace`, that of an object.
                "endpoints": [{
                    "port": "metrics",
                    "path": "/metrics",
                    "interval": "30s",
                    "honorLabels": true,
                }],
            },
        });
        let rules = json!({
            "apiVersion": API_VERSION,
            "kind": "PrometheusRule",
            "metadata": self.namespaced_metadata(&self.name),
            "spec": {"groups": [{
                "name": "opgate",
                "rules": self.alert_rules(),
            }]},
        });
        vec![monitor, rules]
    }
}
