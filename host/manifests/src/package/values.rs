//! The values of the Helm chart: a table from which `values.yaml` and its schema are made.

use serde_json::{Map, Value, json};

use super::yaml;

/// A value that the templates take.
pub(super) struct ChartValue {
    name: &'static str,
    /// Comment lines.
    comment: &'static str,
    default: Value,
    schema: Value,
}

/// Returns the values with the defaults of the objects.
pub(super) fn chart_values(
    image: &str,
    replicas: u16,
    resources: &Value,
    configuration: &str,
    priority_class: &str,
) -> Vec<ChartValue> {
    let entry = |name, about, default, schema| ChartValue { name, comment: about, default, schema };
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let switch = |name: &str, of: &str| {
        json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {name: {"type": "boolean", "description": of}},
        })
    };
    vec![
        entry(
            "image",
            "Image of the server, by tag or by digest.",
            json!(image),
            json!({"type": "string", "minLength": 1}),
        ),
        entry(
            "imagePullSecrets",
            "Secrets of the namespace with the credentials for the image: a list of {name: …}.",
            json!([]),
            json!({"type": "array", "items": {
                "type": "object",
                "required": ["name"],
                "additionalProperties": false,
                "properties": {"name": {"type": "string", "minLength": 1}},
            }}),
        ),
        entry(
            "replicas",
            "Number of servers. With one, nothing is checked, or nothing can be written, whenever it restarts.",
            json!(replicas),
            json!({"type": "integer", "minimum": 1, "maximum": 100}),
        ),
        entry(
            "resources",
            "Resources of a server. Keep the memory request equal to the limit, and set no CPU limit.",
            resources.clone(),
            json!({"type": "object", "additionalProperties": false, "properties": {
                "requests": {"type": "object"},
                "limits": {"type": "object"},
            }}),
        ),
        entry(
            "config",
            "The configuration, as text: helm install --set-file config=opgate.yaml",
            json!(configuration),
            json!({"type": "string", "minLength": 1}),
        ),
        entry(
            "rbac",
            "Whether to create the roles for what the default configuration reads. For a configuration that reads\n\
             something else, set it to false and apply: opgate manifests rbac --config opgate.yaml",
            json!({"create": true}),
            switch("create", "create the roles for what policies read"),
        ),
        entry(
            "certificates",
            "Who keeps the serving certificate: self-managed (opgate), cert-manager, or files (you: the Secret\n\
             opgate-tls with tls.crt, tls.key and ca.crt).",
            json!("self-managed"),
            json!({"enum": ["self-managed", "cert-manager", "files"]}),
        ),
        entry(
            "networkPolicy",
            "Whether to create a NetworkPolicy, and which peers it admits to the webhook port: your API servers, for\n\
             example [{ipBlock: {cidr: 10.0.0.11/32}}]. An empty list admits everybody. Without API servers among the\n\
             peers, writes fail. With monitoring it admits the pods of the cluster to the ops port.",
            json!({"enabled": false, "from": []}),
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "enabled": {"type": "boolean", "description": "create a NetworkPolicy"},
                    "from": {
                        "type": "array",
                        "items": {"type": "object"},
                        "description": "peers that may reach the webhook port",
                    },
                },
            }),
        ),
        entry(
            "flowControl",
            "Whether to create a FlowSchema and a priority level for the requests of the servers, so that they do not\n\
             wait behind requests that wait for the servers. Without an apiVersion, the chart uses v1, or v1beta3 if the\n\
             cluster does not serve v1 (Kubernetes 1.28).",
            json!({"enabled": true, "apiVersion": ""}),
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "enabled": {"type": "boolean", "description": "create both objects"},
                    "apiVersion": {"enum": [
                        "",
                        "flowcontrol.apiserver.k8s.io/v1",
                        "flowcontrol.apiserver.k8s.io/v1beta3",
                    ]},
                },
            }),
        ),
        entry(
            "monitoring",
            "Whether to create a ServiceMonitor and alerts, for which the Prometheus Operator must be installed, and a\n\
             ConfigMap with a dashboard, which a sidecar of Grafana loads. docsUrl is where you have published the\n\
             documentation: alerts link to its run-book.",
            json!({"enabled": false, "dashboard": false, "docsUrl": ""}),
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "enabled": {
                        "type": "boolean",
                        "description": "create a ServiceMonitor and a PrometheusRule",
                    },
                    "dashboard": {"type": "boolean", "description": "create the ConfigMap"},
                    "docsUrl": {
                        "type": "string",
                        "pattern": "^(https?://[A-Za-z0-9._:/~%-]*[A-Za-z0-9])?$",
                        "description": "such as https://docs.example.com/opgate",
                    },
                },
            }),
        ),
        entry(
            "events",
            "Whether to write an Event for denied requests in the namespace of their object. The servers then may write\n\
             Events in all namespaces.",
            json!({"enabled": false}),
            switch("enabled", "write Events, and create a ClusterRole for them"),
        ),
        entry(
            "extraEnv",
            "Additional environment variables of the servers, as in a container. For traces and metrics over OTLP:\n\
             [{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: \"http://otel-collector.observability:4318\"}].",
            json!([]),
            json!({"type": "array", "items": {
                "type": "object",
                "required": ["name"],
                "additionalProperties": false,
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "value": {"type": "string"},
                    "valueFrom": {"type": "object"},
                },
            }}),
        ),
        entry("nodeSelector", "Labels of nodes for the pods.", json!({}), texts.clone()),
        entry(
            "tolerations",
            "Taints that the pods tolerate.",
            json!([]),
            json!({"type": "array", "items": {"type": "object"}}),
        ),
        entry(
            "priorityClassName",
            "Priority class of the pods, or \"\" for none.",
            json!(priority_class),
            json!({"type": "string"}),
        ),
        entry("labels", "Additional labels of every object.", json!({}), texts),
    ]
}

/// Returns `values.yaml`.
pub(super) fn values_yaml(table: &[ChartValue]) -> anyhow::Result<String> {
    let mut text = "# Values of the chart; values.schema.json checks them.\n".to_owned();
    for ChartValue { name, comment: about, default, .. } in table {
        let about = about.replace('\n', "\n# ");
        let value = yaml(&json!({ *name: default }))?;
        text.extend(["\n# ", &about, "\n", &value]);
    }
    Ok(text)
}

/// Returns `values.schema.json`.
pub(super) fn values_schema(table: &[ChartValue]) -> anyhow::Result<String> {
    let property = |entry: &ChartValue| {
        let mut schema = entry.schema.clone();
        if let Some(schema) = schema.as_object_mut() {
            let about = entry.comment.split_whitespace().collect::<Vec<_>>().join(" ");
            schema.insert("description".to_owned(), json!(about));
            schema.insert("default".to_owned(), entry.default.clone());
        }
        (entry.name.to_owned(), schema)
    };
    let mut properties: Map<_, _> = table.iter().map(property).collect();
    // Helm gives it to every chart that another one includes.
    properties.insert("global".to_owned(), json!({"type": "object"}));
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart opgate",
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    let text = serde_json::to_string_pretty(&schema).map_err(anyhow::Error::from)?;
    Ok(format!("{text}\n"))
}
