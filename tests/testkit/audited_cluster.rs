//! A generated cluster for audits: the kinds of objects that Operators consist of, in the shares and sizes of real
//! clusters, of which only those that were planted violate rules.
//!
//! Ten objects belong to each team: a Namespace with an OperatorGroup, a Subscription and a
//! ClusterServiceVersion of 30 KB, every second one with a `CustomResourceDefinition`, and ConfigMaps.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::fake_api_server::{FakeCluster, Scope};

const OLM: &str = "operators.coreos.com";

/// One of this many teams has a violation of each kind.
const TEAMS_PER_VIOLATION: usize = 100;

/// The API server of the cluster, and its violations, as `KIND NAMESPACE/NAME RULE`.
pub struct AuditedCluster {
    /// The API server.
    pub api_server: FakeCluster,
    /// Number of objects.
    pub objects: usize,
    /// What an audit must find, and nothing else.
    pub violations: BTreeSet<String>,
}

/// The objects by kind.
#[derive(Default)]
struct Objects {
    namespaces: Vec<Value>,
    groups: Vec<Value>,
    csvs: Vec<Value>,
    subscriptions: Vec<Value>,
    catalogs: Vec<Value>,
    crds: Vec<Value>,
    config_maps: Vec<Value>,
}

impl AuditedCluster {
    /// Starts one with about this many objects.
    pub fn start(objects: usize) -> Self {
        let (mut all, mut violations) = (Objects::default(), BTreeSet::new());
        all.namespaces.push(metadata_only("", "olm"));
        all.catalogs.push(catalog("catalog", "grpc"));
        for team in 0..(objects / 10).max(10) {
            add_team(&mut all, team);
            let mut plant = |text: &str| {
                violations.insert(text.replace("TEAM", &format!("team-{team}")));
            };
            match team % TEAMS_PER_VIOLATION {
                3 => {
                    all.groups.push(group(team, "second"));
                    for rule in ["OPG-01", "OPG-18"] {
                        plant(&format!("OperatorGroup TEAM/group {rule}"));
                        plant(&format!("OperatorGroup TEAM/second {rule}"));
                    }
                    plant(&format!("ClusterServiceVersion TEAM/widget-{team}.v1.0.0 OPG-21"));
                    plant("Subscription TEAM/widget SUB-05");
                }
                4 => {
                    all.subscriptions.push(subscription(team, "again"));
                    plant("Subscription TEAM/widget SUB-07");
                    plant("Subscription TEAM/again SUB-07");
                }
                5 => {
                    let name = format!("catalog-{team}");
                    all.catalogs.push(catalog(&name, "unknown"));
                    plant(&format!("CatalogSource olm/{name} CAT-01"));
                }
                _ => {}
            }
        }
        let api_server = FakeCluster::start();
        let count = serve(&api_server, all);
        Self { api_server, objects: count, violations }
    }
}

fn add_team(all: &mut Objects, team: usize) {
    all.namespaces.push(metadata_only("", &format!("team-{team}")));
    all.groups.push(group(team, "group"));
    all.csvs.push(csv(team));
    all.subscriptions.push(subscription(team, "widget"));
    let mut config_maps = 6;
    if team.is_multiple_of(2) {
        all.crds.push(crd(team));
        config_maps -= 1;
    }
    for number in 0..config_maps {
        let mut object = metadata_only(&format!("team-{team}"), &format!("settings-{number}"));
        object["data"] = json!({"settings": "s".repeat(800), "log": "l".repeat(200)});
        all.config_maps.push(object);
    }
}

/// Makes an API server serve the objects; returns their number.
fn serve(api_server: &FakeCluster, all: Objects) -> usize {
    let mut count = 0;
    for (group, version, plural, kind, objects) in [
        ("", "v1", "namespaces", "Namespace", all.namespaces),
        ("", "v1", "configmaps", "ConfigMap", all.config_maps),
        ("", "v1", "serviceaccounts", "ServiceAccount", Vec::new()),
        (OLM, "v1", "operatorgroups", "OperatorGroup", all.groups),
        (OLM, "v1alpha1", "clusterserviceversions", "ClusterServiceVersion", all.csvs),
        (OLM, "v1alpha1", "subscriptions", "Subscription", all.subscriptions),
        (OLM, "v1alpha1", "catalogsources", "CatalogSource", all.catalogs),
        (
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            all.crds,
        ),
        ("coordination.k8s.io", "v1", "leases", "Lease", Vec::new()),
        ("events.k8s.io", "v1", "events", "Event", Vec::new()),
        ("wgpolicyk8s.io", "v1alpha2", "policyreports", "PolicyReport", Vec::new()),
        ("wgpolicyk8s.io", "v1alpha2", "clusterpolicyreports", "ClusterPolicyReport", Vec::new()),
    ] {
        let is_of_cluster =
            matches!(kind, "Namespace" | "CustomResourceDefinition" | "ClusterPolicyReport");
        let scope = if is_of_cluster { Scope::Cluster } else { Scope::Namespaced };
        api_server.install(group, version, plural, kind, scope);
        count += objects.len();
        if !objects.is_empty() {
            api_server.prepare(group, version, plural, objects);
        }
    }
    api_server.install_ledger("opgate-system");
    count
}

/// An object with the metadata that API servers add.
fn metadata_only(namespace: &str, name: &str) -> Value {
    let fields = json!({
        "f:metadata": {"f:annotations": {".": {}, "f:example.com/note": {}}, "f:labels": {".": {}}},
        "f:spec": {".": {}, "f:a": {}, "f:b": {}},
    });
    let mut metadata = json!({
        "name": name,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app.kubernetes.io/managed-by": "team"},
        "managedFields": [{
            "manager": "kubectl", "operation": "Apply", "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
        }],
    });
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    json!({"metadata": metadata})
}

fn group(team: usize, name: &str) -> Value {
    let namespace = format!("team-{team}");
    let mut object = metadata_only(&namespace, name);
    object["metadata"]["annotations"] =
        json!({"olm.providedAPIs": format!("Widget.v1.widgets{team}.example.com")});
    object["spec"] = json!({"targetNamespaces": [namespace]});
    object["status"] = json!({"namespaces": [namespace], "lastUpdated": "2026-01-01T00:00:00Z"});
    object
}

fn subscription(team: usize, name: &str) -> Value {
    let mut object = metadata_only(&format!("team-{team}"), name);
    object["spec"] = json!({
        "name": format!("widget-{team}"), "channel": "stable", "source": "catalog",
        "sourceNamespace": "olm", "installPlanApproval": "Manual",
    });
    object
}

fn catalog(name: &str, source_type: &str) -> Value {
    let mut object = metadata_only("olm", name);
    object["spec"] = json!({
        "sourceType": source_type,
        "image": format!("quay.io/example/catalog@sha256:{}", "b".repeat(64)),
        "displayName": "Widgets", "publisher": "Example",
        "grpcPodConfig": {"securityContextConfig": "restricted"},
    });
    object
}

fn crd(team: usize) -> Value {
    let group = format!("widgets{team}.example.com");
    let property =
        |n: usize| (format!("field{n}"), json!({"type": "string", "description": "d".repeat(60)}));
    let properties: serde_json::Map<_, _> = (0..60).map(property).collect();
    let spec = json!({"type": "object", "properties": properties});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let mut object = metadata_only("", &format!("widgets.{group}"));
    object["spec"] = json!({
        "group": group, "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
    });
    object["status"] = json!({
        "storedVersions": ["v1"], "conditions": [], "acceptedNames": {"kind": "Widget", "plural": "widgets"},
    });
    object
}

fn csv(team: usize) -> Value {
    let image = format!("quay.io/example/widget@sha256:{}", "a".repeat(64));
    let example = json!([{
        "apiVersion": format!("widgets{team}.example.com/v1"), "kind": "Widget",
        "metadata": {"name": "widget"}, "spec": {"text": "e".repeat(6_000)},
    }]);
    let mut object = metadata_only(&format!("team-{team}"), &format!("widget-{team}.v1.0.0"));
    object["metadata"]["annotations"] = json!({
        "alm-examples": example.to_string(), "capabilities": "Basic Install", "categories": "Database",
        "containerImage": image, "createdAt": "2024-03-05T10:00:00Z", "description": "Creates widgets.",
        "repository": "https://example.com/widget", "support": "Example",
    });
    object["metadata"]["labels"] = json!({
        format!("operators.coreos.com/widget-{team}.team-{team}"): "",
        "operatorframework.io/arch.amd64": "supported", "operatorframework.io/os.linux": "supported",
    });
    let modes = [
        ("OwnNamespace", true),
        ("SingleNamespace", true),
        ("MultiNamespace", false),
        ("AllNamespaces", false),
    ];
    let modes = modes.map(|(mode, is)| json!({"type": mode, "supported": is}));
    object["spec"] = json!({
        "displayName": "Widget", "description": "Creates and runs widgets. ".repeat(200), "version": "1.0.0",
        "minKubeVersion": "1.21.0", "maturity": "stable", "keywords": ["widget"],
        "links": [{"name": "Docs", "url": "https://docs.example.com"}],
        "maintainers": [{"name": "Example", "email": "widgets@example.com"}],
        "provider": {"name": "Example", "url": "https://example.com"},
        "icon": [{"base64data": "iVBORw0KGgoA".repeat(1_000), "mediatype": "image/png"}],
        "installModes": modes,
        "customresourcedefinitions": {"owned": [{
            "name": format!("widgets.widgets{team}.example.com"), "version": "v1", "kind": "Widget",
            "displayName": "Widget", "description": "A widget",
        }]},
        "install": {"strategy": "deployment", "spec": {
            "deployments": [{"name": "widget", "spec": deployment(&image)}],
            "permissions": [{"serviceAccountName": "widget", "rules": [
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
            ]}],
        }},
    });
    object
}

fn deployment(image: &str) -> Value {
    let container = |number: usize| {
        json!({
            "name": format!("manager-{number}"), "image": image,
            "resources": {
                "requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi"},
            },
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8081}},
            "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8081}},
            "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": true,
            },
        })
    };
    json!({
        "replicas": 1,
        "selector": {"matchLabels": {"name": "widget"}},
        "template": {
            "metadata": {"labels": {"name": "widget"}},
            "spec": {
                "serviceAccountName": "widget",
                "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [container(0), container(1)],
            },
        },
    })
}
