//! The dashboard for Grafana: whether opgate serves, what it denies, what the audit found, and the state behind it.
//!
//! ```text
//! ROWS: titles, panels with their queries ─▶ positions, ids ─▶ dashboard JSON ─▶ ConfigMap, deploy/grafana
//! ```
//!
//! Variables choose the data source, the job of the servers and the namespaces of objects.

use serde_json::{Value, json};

use super::Installation;

/// Label by which a sidecar of Grafana finds dashboards.
const DASHBOARD_LABEL: &str = "grafana_dashboard";

/// Version of the dashboard schema, of Grafana 10.
const SCHEMA_VERSION: u32 = 39;

/// Columns of a dashboard, and the size of a panel.
const COLUMNS: u32 = 24;
const PANEL_COLUMNS: u32 = 8;
const PANEL_LINES: u32 = 7;

/// How a panel shows its series.
#[derive(Clone, Copy)]
enum PanelType {
    /// One large value.
    Stat,
    /// Lines over time.
    Graph,
}

impl PanelType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Graph => "timeseries",
        }
    }
}

/// A panel.
struct Panel {
    title: &'static str,
    panel_type: PanelType,
    /// Unit of Grafana.
    unit: &'static str,
    /// Expressions with the legend of their series. `$J` selects the servers.
    queries: &'static [(&'static str, &'static str)],
}

/// Panels under a title.
struct Row {
    title: &'static str,
    panels: &'static [Panel],
}

const fn graph(
    title: &'static str,
    unit: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, panel_type: PanelType::Graph, unit, queries }
}

const fn stat(
    title: &'static str,
    unit: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, panel_type: PanelType::Stat, unit, queries }
}

const ROWS: &[Row] = &[
    Row {
        title: "Serving",
        panels: &[
            stat("Servers that report metrics", "short", &[("count(opgate_build_info{$J})", "")]),
            stat(
                "Policies that are not loaded",
                "short",
                &[("count(opgate_policy_up{$J} == 0) or vector(0)", "")],
            ),
            stat(
                "Servers with an invalid configuration, or other webhooks than they serve",
                "short",
                &[
                    ("sum(opgate_configuration_stale{$J})", "configuration"),
                    ("sum(opgate_registration_stale{$J})", "webhooks"),
                ],
            ),
            graph(
                "Responses by code",
                "reqps",
                &[(
                    "sum by (code) (rate(opgate_requests_total{$J}[$__rate_interval]))",
                    "{{code}}",
                )],
            ),
            graph(
                "Response time",
                "s",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(opgate_request_duration_seconds_bucket{$J}[$__rate_interval])))",
                        "p50",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(opgate_request_duration_seconds_bucket{$J}[$__rate_interval])))",
                        "p99",
                    ),
                ],
            ),
            graph(
                "Policy errors and 503 responses",
                "reqps",
                &[
                    (
                        "sum by (policy, cause) (rate(opgate_policy_errors_total{$J}[$__rate_interval])) > 0",
                        "{{policy}}: {{cause}}",
                    ),
                    ("sum(rate(opgate_requests_shed_total{$J}[$__rate_interval]))", "503"),
                ],
            ),
        ],
    },
    Row {
        title: "Violations by requests",
        panels: &[
            graph(
                "Violations by effect",
                "short",
                &[(
                    "sum by (effect) (increase(opgate_violations_total{$J,namespace=~\"$namespace\"}[$__rate_interval]))",
                    "{{effect}}",
                )],
            ),
            graph(
                "Rules with the most denials",
                "short",
                &[(
                    "topk(10, sum by (rule) (increase(opgate_violations_total{$J,namespace=~\"$namespace\",effect=\"deny\"}[$__rate_interval])))",
                    "{{rule}}",
                )],
            ),
            graph(
                "Namespaces with the most denials",
                "short",
                &[(
                    "topk(10, sum by (namespace) (increase(opgate_violations_total{$J,namespace=~\"$namespace\",effect=\"deny\"}[$__rate_interval])))",
                    "{{namespace}}",
                )],
            ),
            graph(
                "Rules that do not deny yet: warn, audit",
                "short",
                &[(
                    "topk(10, sum by (rule, effect) (increase(opgate_violations_total{$J,namespace=~\"$namespace\",effect!=\"deny\"}[$__rate_interval])))",
                    "{{rule}} ({{effect}})",
                )],
            ),
            graph(
                "Namespaces with the most violations that are not denied yet",
                "short",
                &[(
                    "topk(10, sum by (namespace) (increase(opgate_violations_total{$J,namespace=~\"$namespace\",effect!=\"deny\"}[$__rate_interval])))",
                    "{{namespace}}",
                )],
            ),
            graph(
                "Events for denials",
                "short",
                &[(
                    "sum by (result) (increase(opgate_denial_events_total{$J}[$__rate_interval]))",
                    "{{result}}",
                )],
            ),
        ],
    },
    Row {
        title: "Violations by stored objects (audit)",
        panels: &[
            graph(
                "By rule",
                "short",
                &[(
                    "topk(10, sum by (rule, effect) (opgate_audit_violations{$J,namespace=~\"$namespace\"}))",
                    "{{rule}} ({{effect}})",
                )],
            ),
            graph(
                "By namespace",
                "short",
                &[(
                    "topk(10, sum by (namespace) (opgate_audit_violations{$J,namespace=~\"$namespace\"}))",
                    "{{namespace}}",
                )],
            ),
            graph(
                "Time since the last audit, and errors",
                "s",
                &[
                    (
                        "time() - max(opgate_audit_last_run_timestamp_seconds{$J})",
                        "since the last audit",
                    ),
                    ("max(opgate_audit_errors{$J})", "errors"),
                ],
            ),
        ],
    },
    Row {
        title: "Cluster state",
        panels: &[
            graph(
                "Resources that are not ready",
                "short",
                &[
                    ("opgate_cluster_cache_ready{$J} == 0", "{{pod}}: {{resource}}"),
                    (
                        "opgate_cluster_cache_watch_failing{$J} == 1",
                        "{{pod}}: {{resource}} (watch fails)",
                    ),
                ],
            ),
            graph(
                "Age of the cluster cache",
                "s",
                &[("max by (resource) (opgate_cluster_cache_age_seconds{$J})", "{{resource}}")],
            ),
            graph(
                "Reservations: largest share of a limit",
                "percentunit",
                &[("max by (resource) (opgate_reservation_ratio{$J})", "{{resource}}")],
            ),
            graph(
                "Ledger of reservations: requests that wait",
                "short",
                &[("sum by (pod) (opgate_ledger_waiting_requests{$J})", "{{pod}}")],
            ),
            graph(
                "Ledger of reservations: size",
                "bytes",
                &[("max(opgate_ledger_size_bytes{$J})", "size")],
            ),
            graph(
                "Memory of the cluster cache",
                "bytes",
                &[
                    ("max by (pod) (opgate_cluster_cache_memory_bytes{$J})", "{{pod}}"),
                    ("max(opgate_cluster_cache_memory_limit_bytes{$J})", "limit"),
                ],
            ),
        ],
    },
    Row {
        title: "Servers",
        panels: &[
            stat(
                "Time until a certificate expires",
                "s",
                &[
                    (
                        "min(opgate_certificate_expiration_timestamp_seconds{$J}) - time()",
                        "serving certificate",
                    ),
                    ("min(opgate_ca_expiration_timestamp_seconds{$J}) - time()", "CA"),
                ],
            ),
            graph(
                "Memory of requests",
                "bytes",
                &[
                    ("max by (pod) (opgate_request_memory_bytes{$J})", "{{pod}}"),
                    ("max(opgate_request_memory_limit_bytes{$J})", "limit"),
                ],
            ),
            graph(
                "Connections and requests in progress",
                "short",
                &[
                    ("sum by (pod) (opgate_connections{$J})", "{{pod}}: connections"),
                    ("sum by (pod) (opgate_requests_in_flight{$J})", "{{pod}}: requests"),
                ],
            ),
        ],
    },
];

/// Returns the dashboard as text.
pub(crate) fn dashboard_json() -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(&dashboard()).map_err(anyhow::Error::from)?;
    Ok(format!("{text}\n"))
}

fn dashboard() -> Value {
    let (mut panels, mut line) = (Vec::new(), 0);
    for row in ROWS {
        let id = panels.len() + 1;
        panels.push(json!({
            "id": id,
            "type": "row",
            "title": row.title,
            "collapsed": false,
            "gridPos": {"x": 0, "y": line, "w": COLUMNS, "h": 1},
            "panels": [],
        }));
        line += 1;
        let mut column = 0;
        for panel in row.panels {
            if column == COLUMNS {
                (column, line) = (0, line + PANEL_LINES);
            }
            let id = panels.len() + 1;
            panels.push(panel_json(panel, id, column, line));
            column += PANEL_COLUMNS;
        }
        line += PANEL_LINES;
    }
    json!({
        "uid": "opgate",
        "title": "opgate",
        "tags": ["opgate"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": true,
        "timezone": "",
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": variables()},
        "annotations": {"list": []},
        "panels": panels,
    })
}

fn data_source() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

fn variables() -> Vec<Value> {
    let query = |name: &str, label: &str, query: &str, is_many: bool| {
        let current = if is_many { json!({"text": "All", "value": "$__all"}) } else { json!({}) };
        json!({
            "name": name,
            "label": label,
            "type": "query",
            "datasource": data_source(),
            "query": {"query": query, "refId": name},
            "refresh": 2,
            "sort": 1,
            "multi": is_many,
            "includeAll": is_many,
            // Cluster-scoped objects have no namespace.
            "allValue": if is_many { json!(".*") } else { Value::Null },
            "current": current,
        })
    };
    vec![
        json!({
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
            "refresh": 1,
            "current": {},
        }),
        query("job", "Servers", "label_values(opgate_build_info, job)", false),
        query(
            "namespace",
            "Namespace of objects",
            "label_values({__name__=~\"opgate_violations_total|opgate_audit_violations\",job=\"$job\"}, namespace)",
            true,
        ),
    ]
}

fn panel_json(panel: &Panel, id: usize, column: u32, line: u32) -> Value {
    let is_stat = matches!(panel.panel_type, PanelType::Stat);
    let targets = panel.queries.iter().zip('A'..='Z').map(|((expression, legend), letter)| {
        json!({
            "refId": letter.to_string(),
            "datasource": data_source(),
            "expr": expression.replace("$J", "job=\"$job\""),
            "legendFormat": legend,
            "instant": is_stat,
            "range": !is_stat,
        })
    });
    json!({
        "id": id,
        "type": panel.panel_type.as_str(),
        "title": panel.title,
        "datasource": data_source(),
        "gridPos": {"x": column, "y": line, "w": PANEL_COLUMNS, "h": PANEL_LINES},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {},
        "targets": targets.collect::<Vec<_>>(),
    })
}

impl Installation {
    /// Returns the ConfigMap with the dashboard.
    pub(super) fn dashboard_config_map(&self) -> Option<Value> {
        if !self.dashboard {
            return None;
        }
        let mut metadata = self.namespaced_metadata(&format!("{}-dashboard", self.name));
        if let Some(Value::Object(labels)) = metadata.get_mut("labels") {
            labels.insert(DASHBOARD_LABEL.to_owned(), json!("1"));
        }
        Some(json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"opgate.json": dashboard_json().ok()?},
        }))
    }
}
