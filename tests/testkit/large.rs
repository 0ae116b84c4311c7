//! Large clusters for benchmarks: namespaces, groups and CSVs with the proportions of real ones.

use serde_json::{Value, json};

use crate::fake_api_server::{FakeCluster, Scope};

/// A Namespace.
pub fn namespace(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": format!("namespace-{number}"),
            "labels": {
                "kubernetes.io/metadata.name": format!("namespace-{number}"),
                "team": format!("team-{}", number % 100),
                "ten": (number % 10).to_string(),
            },
        },
    })
}

/// An API that groups provide.
pub fn api(number: usize) -> String {
    format!("Kind{}.v1alpha1.group-{}.example.com", number % 500, number % 500)
}

/// Every tenth group is one that has no status yet; all others target two namespaces.
pub fn group(number: usize) -> Value {
    let targets = json!([format!("namespace-{number}"), format!("namespace-{}", number * 2)]);
    let status = if number.is_multiple_of(10) { json!({}) } else { json!({"namespaces": targets}) };
    json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {
            "name": format!("group-{number}"),
            "namespace": format!("namespace-{number}"),
            "annotations": {"olm.providedAPIs": format!("{},{}", api(number), api(number + 1))},
        },
        "spec": {"targetNamespaces": targets},
        "status": status,
    })
}

/// A CSV with as much text around what is kept as real ones have: some 30 KB.
pub fn csv(number: usize) -> Value {
    let kind = format!("Kind{}", number % 500);
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("operator-{number}.v1.0.0"),
            "namespace": format!("namespace-{}", number % 2_000),
            "annotations": {"alm-examples": "x".repeat(8_000)},
        },
        "spec": {
            "icon": [{"base64data": "i".repeat(12_000), "mediatype": "image/png"}],
            "description": "d".repeat(10_000),
            "installModes": [
                {"type": "OwnNamespace", "supported": true},
                {"type": "SingleNamespace", "supported": true},
                {"type": "MultiNamespace", "supported": true},
                {"type": "AllNamespaces", "supported": false},
            ],
            "customresourcedefinitions": {"owned": [{
                "name": format!("kinds.group-{}.example.com", number % 500),
                "version": "v1alpha1", "kind": kind,
            }]},
        },
    })
}

/// A review of a CREATE in OLM's group.
pub fn create(kind: &str, resource: &str, version: &str, object: &Value) -> String {
    let group = "operators.coreos.com";
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {"group": group, "version": version, "resource": resource},
            "name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "admin"},
            "object": object, "oldObject": null, "dryRun": false,
        },
    })
    .to_string()
}

/// A review of a new group, in a separate namespace.
pub fn new_group(spec: &Value, apis: &str) -> String {
    let object = json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {
            "name": "new", "namespace": "new",
            "annotations": {"olm.providedAPIs": apis},
        },
        "spec": spec,
    });
    create("OperatorGroup", "operatorgroups", "v1", &object)
}

/// An API server with this many namespaces, groups and CSVs.
pub fn cluster(size: (usize, usize, usize)) -> FakeCluster {
    let cluster = FakeCluster::start();
    let olm = "operators.coreos.com";
    for (group, version, plural, kind) in [
        ("", "v1", "namespaces", "Namespace"),
        ("", "v1", "configmaps", "ConfigMap"),
        ("core.rukpak.io", "v1alpha1", "bundles", "Bundle"),
        ("", "v1", "serviceaccounts", "ServiceAccount"),
        (olm, "v1", "operatorgroups", "OperatorGroup"),
        (olm, "v1alpha1", "clusterserviceversions", "ClusterServiceVersion"),
        ("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole"),
        ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding"),
    ] {
        let namespaced =
            !matches!(kind, "Namespace" | "Bundle" | "ClusterRole" | "ClusterRoleBinding");
        let scope = if namespaced { Scope::Namespaced } else { Scope::Cluster };
        cluster.install(group, version, plural, kind, scope);
    }
    let (namespaces, groups, csvs) = size;
    (0..namespaces).for_each(|n| cluster.apply("", "v1", "namespaces", namespace(n)));
    (0..groups).for_each(|n| cluster.apply(olm, "v1", "operatorgroups", group(n)));
    (0..csvs).for_each(|n| cluster.apply(olm, "v1alpha1", "clusterserviceversions", csv(n)));
    cluster
}
