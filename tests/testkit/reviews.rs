//! A small cluster with OLM, its objects, and reviews of them as an API server sends them.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::fake_api_server::{FakeCluster, Scope};
use crate::{HttpResponse, Server, configuration};

/// OLM's API group.
pub const OLM: &str = "operators.coreos.com";
/// `OperatorGroups`, as they stand in metrics and errors.
pub const OPERATOR_GROUPS: &str = "operators.coreos.com/v1/operatorgroups";
/// An API that groups provide.
pub const GOOSE_API: &str = "Goose.v1alpha1.birds.com";

const RBAC: &str = "rbac.authorization.k8s.io";

/// Everything that the built-in policies read, with the rules as they are by default.
pub const READ_RESOURCES: [(&str, &str, &str, &str, Scope); 8] = [
    ("", "v1", "namespaces", "Namespace", Scope::Cluster),
    ("", "v1", "serviceaccounts", "ServiceAccount", Scope::Namespaced),
    ("", "v1", "configmaps", "ConfigMap", Scope::Namespaced),
    (OLM, "v1", "operatorgroups", "OperatorGroup", Scope::Namespaced),
    (OLM, "v1alpha1", "clusterserviceversions", "ClusterServiceVersion", Scope::Namespaced),
    (RBAC, "v1", "clusterroles", "ClusterRole", Scope::Cluster),
    (RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", Scope::Cluster),
    ("core.rukpak.io", "v1alpha1", "bundles", "Bundle", Scope::Cluster),
];

/// A cluster with these resources and a few namespaces.
pub fn cluster() -> FakeCluster {
    let cluster = FakeCluster::start();
    for (group, version, plural, kind, scope) in READ_RESOURCES {
        cluster.install(group, version, plural, kind, scope);
    }
    for name in ["a", "b", "c", "shared"] {
        cluster.apply("", "v1", "namespaces", namespace(name));
    }
    cluster
}

/// The policies that read the cluster, with all the time that an unoptimised build on a busy machine
/// may need.
pub fn policies() -> String {
    let patient = |name: &str| json!({"name": name, "limits": {"time": "20s"}});
    configuration(&[patient("bundle-immutability"), patient("operator-group")])
}

/// A server of the binary under test that reads a cluster.
pub fn serve(binary: &str, cluster: &FakeCluster, arguments: &[&str]) -> Server {
    serve_with(binary, cluster, &policies(), arguments)
}

/// The same with another configuration.
pub fn serve_with(
    binary: &str,
    cluster: &FakeCluster,
    configuration: &str,
    arguments: &[&str],
) -> Server {
    let kubeconfig = cluster.kubeconfig();
    let mut all = vec!["--kubeconfig", kubeconfig.to_str().unwrap()];
    all.extend(arguments);
    Server::start(binary, Some(configuration), &all)
}

/// A uid that no other object has, as an API server sets it before it calls webhooks.
fn uid() -> String {
    static NEXT_UID: AtomicUsize = AtomicUsize::new(0);
    format!("00000000-0000-4000-9000-{:012}", NEXT_UID.fetch_add(1, Ordering::Relaxed))
}

/// A namespace with its name as a label.
pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}})
}

/// A new `OperatorGroup`.
pub fn group(namespace: &str, name: &str, targets: &[&str], apis: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1",
        "kind": "OperatorGroup",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid(),
            "annotations": {"olm.providedAPIs": apis},
        },
        "spec": {"targetNamespaces": targets},
    })
}

/// A new `ClusterServiceVersion` with these install modes, which owns these CRDs (as
/// `goose.birds.com`, of kind and version as in [`GOOSE_API`]).
pub fn csv(namespace: &str, name: &str, modes: &[&str], crds: &[&str]) -> Value {
    let all = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    let mode = |mode: &&str| json!({"type": mode, "supported": modes.contains(mode)});
    let owned = |crd: &&str| json!({"name": crd, "version": "v1alpha1", "kind": "Goose"});
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": namespace, "uid": uid()},
        "spec": {
            "displayName": name,
            "installModes": all.iter().map(mode).collect::<Vec<_>>(),
            "customresourcedefinitions": {"owned": crds.iter().map(owned).collect::<Vec<_>>()},
        },
    })
}

/// A new `Subscription` for a package.
pub fn subscription(namespace: &str, name: &str, package: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": {"name": name, "namespace": namespace, "uid": uid()},
        "spec": {
            "name": package,
            "channel": "stable",
            "source": "catalog",
            "sourceNamespace": namespace,
        },
    })
}

/// Whether a request is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// It is.
    Persist,
    /// It is only tried.
    DryRun,
}

fn review(object: &Value, old: Option<&Value>, write_mode: WriteMode) -> String {
    let kind = object["kind"].as_str().unwrap();
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let resource = format!("{}s", kind.to_lowercase());
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {"group": group, "version": version, "resource": resource},
            "name": object["metadata"]["name"],
            "namespace": object["metadata"]["namespace"],
            "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
            "userInfo": {"username": "admin"},
            "object": object,
            "oldObject": old,
            "dryRun": write_mode == WriteMode::DryRun,
        },
    })
    .to_string()
}

/// The review of a CREATE.
pub fn create(object: &Value, write_mode: WriteMode) -> String {
    review(object, None, write_mode)
}

/// The review of an UPDATE of what is stored under the object's name.
///
/// # Panics
/// Where nothing is.
pub fn update(cluster: &FakeCluster, object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) =
        (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
    let plural = format!("{}s", text(&object["kind"]).to_lowercase());
    let old = cluster.stored(OLM, &plural, &namespace, &name).unwrap();
    let mut new = object.clone();
    for field in ["uid", "resourceVersion"] {
        new["metadata"][field] = old["metadata"][field].clone();
    }
    review(&new, Some(&old), WriteMode::Persist)
}

impl HttpResponse {
    /// `allowed`, or the message of the denial.
    ///
    /// # Panics
    /// If the HTTP code is not 200.
    pub fn message(&self) -> String {
        assert_eq!(self.status, 200, "{}", self.body);
        let response = self.response();
        if response["allowed"] == true {
            return "allowed".to_owned();
        }
        response["status"]["message"].as_str().unwrap().to_owned()
    }
}
