//! Every metric and label that alerts and the dashboard name is in the metrics of a server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::promql::{parse, parse_metrics};
use testkit::{Certificates, Server, builtin_policy, configuration, create_bundle, wait_until};

use super::{alert_rules, dashboard};
use crate::BINARY;

/// Labels that Prometheus gives to the metrics of a target, and the name of a metric.
const TARGET_LABELS: [&str; 5] = ["job", "namespace", "pod", "instance", "__name__"];

/// Metrics of others.
const FOREIGN_METRICS: [(&str, &[&str]); 2] =
    [("apiserver_admission_webhook_fail_open_count", &["name", "type"]), ("up", &[])];

/// A server of an installation with all that adds metrics, and an object to audit.
fn cluster() -> FakeCluster {
    let cluster = FakeCluster::start();
    cluster.install_ledger("opgate-system");
    for (group, version, plural, kind, scope) in [
        ("coordination.k8s.io", "v1", "leases", "Lease", Scope::Namespaced),
        ("events.k8s.io", "v1", "events", "Event", Scope::Namespaced),
        ("", "v1", "secrets", "Secret", Scope::Namespaced),
        ("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", Scope::Namespaced),
        ("core.rukpak.io", "v1alpha1", "bundles", "Bundle", Scope::Cluster),
    ] {
        cluster.install(group, version, plural, kind, scope);
    }
    let (group, plural) = ("admissionregistration.k8s.io", "validatingwebhookconfigurations");
    cluster.install(group, "v1", plural, "ValidatingWebhookConfiguration", Scope::Cluster);
    let owner = json!({"opgate.dev/owner": "opgate-system/opgate"});
    let labels = json!({"opgate.dev/installation": "opgate-system"});
    let metadata = json!({"name": "opgate", "labels": labels, "annotations": owner});
    cluster.apply(group, "v1", plural, json!({"metadata": metadata}));
    let invalid = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "Bundle",
        "metadata": {"name": "stored"}, "spec": {"source": {"type": "image"}},
    });
    cluster.apply("core.rukpak.io", "v1alpha1", "bundles", invalid);
    cluster
}

/// The labels of each metric of such a server.
async fn served_metrics() -> BTreeMap<String, BTreeSet<String>> {
    let cluster = cluster();
    let kubeconfig = cluster.kubeconfig();
    let mut arguments = vec!["--kubeconfig", kubeconfig.to_str().unwrap()];
    arguments.extend(["--installation", "opgate-system/opgate", "--pod-name", "opgate-0"]);
    arguments.extend(["--certificates", "self-managed", "--ca-propagation-delay", "1s"]);
    arguments.extend(["--events", "--audit-interval", "100ms", "--audit-reports", "none"]);
    let configuration = configuration(&[builtin_policy()]);
    let server = Server::start_with(BINARY, Some(&configuration), &arguments, Certificates::new());
    wait_until("an audit", async || {
        server.get("/metrics").await.1.contains("opgate_audit_violations{")
    })
    .await;
    // Another one has decided requests.
    let other = Server::start(BINARY, Some(&configuration), &[]);
    let review = create_bundle("u", "denied", &json!({"source": {"type": "image"}})).to_string();
    let answer = other.connect().await.review(review).await.unwrap();
    assert_eq!(answer.response()["allowed"], false, "{}", answer.body);
    let mut metrics: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for server in [server, other] {
        for (mut labels, _) in parse_metrics(&server.get("/metrics").await.1) {
            let name = labels.remove("__name__").unwrap();
            metrics.entry(name).or_default().extend(labels.into_keys());
        }
    }
    for (metric, labels) in FOREIGN_METRICS {
        metrics.insert(metric.to_owned(), labels.iter().map(|&label| label.to_owned()).collect());
    }
    metrics
}

/// Labels in a legend of Grafana, `{{policy}}: {{cause}}`, or in a summary, `{{ $labels.policy }}`.
fn template_labels(text: &str) -> Vec<String> {
    let parts = text.split("{{").skip(1).filter_map(|part| part.split_once("}}"));
    let names = parts.map(|(name, _)| name.trim().trim_start_matches("$labels."));
    names.filter(|name| *name != "$value").map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_and_dashboard_name_existing_metrics_and_labels() {
    let served = served_metrics().await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut expressions: Vec<_> = alert_rules(&[])
        .iter()
        .map(|rule| (text(&rule["expr"]), text(&rule["annotations"]["summary"])))
        .collect();
    assert!(expressions.len() > 20);
    // The namespace of an object would take the place of the installation's one, by which alerts select.
    for (metric, _) in expressions.iter().flat_map(|(alert, _)| parse(alert).metrics()) {
        let has_own = served.get(&metric).is_some_and(|labels| labels.contains("namespace"));
        assert!(!has_own, "an alert selects {metric}, which has the namespace of an object");
    }
    expressions.extend(dashboard::queries());
    for (expression, template) in expressions {
        let named = parse(&expression).metrics();
        let mut known: BTreeSet<_> = TARGET_LABELS.map(str::to_owned).into();
        for (metric, label) in &named {
            let labels =
                served.get(metric).unwrap_or_else(|| panic!("no metric {metric}: {expression}"));
            known.extend(labels.iter().cloned());
            let is_known = label.is_empty() || labels.contains(label);
            let is_of_target = TARGET_LABELS.contains(&label.as_str());
            assert!(is_known || is_of_target, "{metric} has no label {label}: {expression}");
        }
        for label in template_labels(&template) {
            assert!(known.contains(&label), "no label {label}: {template}: {expression}");
        }
    }
}
