//! Objects for a real API server: groups, CSVs, Namespaces, and the CRDs of what it does not know.
//! `OPGATE_CRDS` may name a directory with the real CRDs; otherwise the tests use small ones.

use std::path::PathBuf;

use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

/// A resource by its kind.
pub fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// OperatorGroups.
pub fn groups() -> ApiResource {
    resource("operators.coreos.com", "v1", "OperatorGroup")
}

/// ClusterServiceVersions.
pub fn csvs() -> ApiResource {
    resource("operators.coreos.com", "v1alpha1", "ClusterServiceVersion")
}

/// Subscriptions.
pub fn subscriptions() -> ApiResource {
    resource("operators.coreos.com", "v1alpha1", "Subscription")
}

/// An object from its JSON.
pub fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// A CRD that accepts every object, with a status subresource.
fn small_crd(group: &str, version: &str, kind: &str, scope: &str) -> Value {
    let plural = resource(group, version, kind).plural;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

/// Kubernetes 1.20 treats the default `""` as `null`, and refuses it. This sets another text, which
/// no test reads.
fn without_empty_defaults(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if let Some(default) = members.get_mut("default").filter(|default| **default == "") {
                *default = json!("none");
            }
            members.values_mut().for_each(without_empty_defaults);
        }
        Value::Array(items) => items.iter_mut().for_each(without_empty_defaults),
        _ => {}
    }
}

/// The CRDs to install.
pub(crate) fn crds() -> Vec<Value> {
    let small = || {
        vec![
            small_crd("operators.coreos.com", "v1", "OperatorGroup", "Namespaced"),
            small_crd("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", "Namespaced"),
            small_crd("operators.coreos.com", "v1alpha1", "Subscription", "Namespaced"),
            small_crd("core.rukpak.io", "v1alpha1", "Bundle", "Cluster"),
        ]
    };
    let Some(directory) = std::env::var_os("OPGATE_CRDS") else { return small() };
    let wanted = ["operatorgroups", "clusterserviceversions", "subscriptions", "bundles"];
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let is_wanted = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        wanted.iter().any(|w| name.ends_with(&format!("_{w}")))
    };
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let mut crd = serde_saphyr::from_str::<Value>(&text).unwrap();
        without_empty_defaults(&mut crd);
        crd
    };
    entries.filter(is_wanted).map(read).collect()
}

/// A Namespace with a label that no other one has.
pub fn namespace(name: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"team": name}},
    }))
}

/// An OperatorGroup that provides these APIs.
pub fn group(namespace: &str, name: &str, spec: &Value, apis: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"olm.providedAPIs": apis},
        },
        "spec": spec,
    }))
}

/// A CSV that supports these install modes and owns the API `Goose.v1alpha1` of a CRD.
pub fn csv(namespace: &str, name: &str, modes: &[&str], crd: &str) -> DynamicObject {
    let all = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    let modes: Vec<_> =
        all.iter().map(|mode| json!({"type": mode, "supported": modes.contains(mode)})).collect();
    object(json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "displayName": name,
            "installModes": modes,
            "install": {"strategy": "deployment", "spec": {"deployments": []}},
            "customresourcedefinitions": {
                "owned": [{"name": crd, "version": "v1alpha1", "kind": "Goose"}],
            },
        },
    }))
}

/// The message with which a webhook has refused a request.
pub fn denial_message<T: std::fmt::Debug>(result: kube::Result<T>) -> String {
    match result {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 403, "{}", status.message);
            status.message
        }
        other => panic!("not refused: {other:?}"),
    }
}
