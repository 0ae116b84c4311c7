//! The doctor and a real API server, where `KUBEBUILDER_ASSETS` names a directory with one.

use std::collections::BTreeSet;
use std::process::Command;

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};
use testkit::control_plane::ControlPlane;
use testkit::objects::resource;

use crate::{BINARY, wait_for_idle_machine};

const CONFIGURATION: &str =
    "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies:\n  - name: operator-group\n";

fn printed(directory: &tempfile::TempDir, arguments: &[&str]) -> Value {
    let mut command = Command::new(BINARY);
    command.args(["--log", "error"]).args(arguments).current_dir(directory.path());
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn resource_of(object: &Value) -> ApiResource {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap();
    let (group, version) = text("/apiVersion").split_once('/').unwrap_or(("", text("/apiVersion")));
    resource(group, version, text("/kind"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_cluster_is_examined() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    let admin = plane.client("admin").await;
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("opgate.yaml"), CONFIGURATION).unwrap();
    let arguments =
        ["manifests", "all", "--config", "opgate.yaml", "--api-server", "any", "--output", "json"];
    let manifests = printed(&directory, &arguments);
    let apply = PatchParams::apply("tests").force();
    let api = |object: &Value| match object["metadata"]["namespace"].as_str() {
        Some(namespace) => {
            Api::<DynamicObject>::namespaced_with(admin.clone(), namespace, &resource_of(object))
        }
        None => Api::<DynamicObject>::all_with(admin.clone(), &resource_of(object)),
    };
    let mut objects = manifests["items"].as_array().unwrap().clone();
    objects.sort_by_key(|object| object["kind"] != "Namespace");
    for object in &objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        api(object).patch(name, &apply, &Patch::Apply(object)).await.unwrap();
    }
    let examined = |user: &str| {
        let kubeconfig = plane.kubeconfig(user);
        let arguments =
            ["doctor", "--output", "json", "--kubeconfig", kubeconfig.to_str().unwrap()];
        let report = printed(&directory, &arguments);
        let findings = report["findings"].as_array().unwrap();
        let ids: BTreeSet<_> =
            findings.iter().map(|finding| finding["id"].as_str().unwrap().to_owned()).collect();
        (ids, report)
    };
    let ids = |all: &[&str]| all.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();

    // No controller runs: no server is ready, no webhook is registered, and there is no
    // certificate. The API server defaults what was applied, and that is no finding.
    let (found, report) = examined("admin");
    assert_eq!(found, ids(&["DOC-01", "DOC-12", "DOC-25", "DOC-51"]), "{report:#}");

    // What is registered is what belongs to the configuration, also as the API server has stored it.
    let issue = ["certs", "issue", "--out", "tls", "--service", "opgate-system/opgate"];
    let issued = Command::new(BINARY).args(issue).current_dir(directory.path()).output().unwrap();
    assert!(issued.status.success());
    let arguments = ["manifests", "webhook", "--config", "opgate.yaml", "--ca", "tls/ca.crt"];
    let service = ["--service", "opgate-system/opgate", "--output", "json"];
    let mut webhook = printed(&directory, &[&arguments[..], &service].concat());
    api(&webhook).patch("opgate", &apply, &Patch::Apply(&webhook)).await.unwrap();
    let (found, report) = examined("admin");
    assert_eq!(found, ids(&["DOC-12", "DOC-25", "DOC-51"]), "{report:#}");
    webhook["webhooks"][0]["failurePolicy"] = json!("Ignore");
    api(&webhook).patch("opgate", &apply, &Patch::Apply(&webhook)).await.unwrap();
    let (found, report) = examined("admin");
    assert_eq!(found, ids(&["DOC-03", "DOC-12", "DOC-25", "DOC-51"]), "{report:#}");
    webhook["webhooks"] = json!([]);
    api(&webhook).patch("opgate", &apply, &Patch::Apply(&webhook)).await.unwrap();

    // A role that is gone, and one that is too wide.
    let binding = objects.iter().find(|object| {
        object["kind"] == "ClusterRoleBinding" && object["metadata"]["name"] == "opgate"
    });
    let binding = binding.unwrap();
    api(binding).delete("opgate", &DeleteParams::default()).await.unwrap();
    let wide = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "wide"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "opgate-system", "name": "opgate"}],
    });
    let (found, report) = examined("admin");
    assert!(found.contains("DOC-60"), "{report:#}");
    api(&wide).patch("wide", &apply, &Patch::Apply(&wide)).await.unwrap();
    let (found, report) = examined("admin");
    assert!(!found.contains("DOC-60") && found.contains("DOC-61"), "{report:#}");

    // Who may read nothing learns that nothing was checked.
    let (found, report) = examined("opgate");
    assert_eq!(found, ids(&["DOC-91"]), "{report:#}");
    assert!(report["unchecked"].as_array().unwrap().len() > 5, "{report:#}");
    // Who may read all but Secrets and roles learns the rest.
    let rules = json!([
        {"apiGroups": [""], "resources": ["namespaces", "nodes", "services", "pods", "configmaps", "serviceaccounts"], "verbs": ["get", "list"]},
        {"apiGroups": ["admissionregistration.k8s.io", "apps", "policy", "networking.k8s.io", "discovery.k8s.io", "coordination.k8s.io"], "resources": ["*"], "verbs": ["list"]},
    ]);
    let metadata = json!({"name": "readers"});
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": metadata, "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "readers"},
        "subjects": [{"kind": "User", "name": "opgate"}],
    });
    for object in [role, binding] {
        api(&object).patch("readers", &apply, &Patch::Apply(&object)).await.unwrap();
    }
    let (found, report) = examined("opgate");
    assert_eq!(found, ids(&["DOC-01", "DOC-12", "DOC-51", "DOC-91"]), "{report:#}");

    // For a user whom the API server does not know, the doctor reports that, and not what to grant.
    let kubeconfig = plane.kubeconfig("stranger");
    let arguments = ["doctor", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let output =
        Command::new(BINARY).args(arguments).current_dir(directory.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("does not accept the credentials (401: Unauthorized)"), "{text}");
}
