//! Certificates that the servers keep, against a real kube-apiserver that calls one of them, where
//! `KUBEBUILDER_ASSETS` names a directory with it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use testkit::control_plane::{ControlPlane, eventually};
use testkit::objects::{namespace, object, resource};
use testkit::{Server, configuration};

use crate::{BINARY, wait_for_idle_machine};

/// What docs/certificates.md lists.
fn permissions() -> Value {
    json!([
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["opgate-tls"],
            "verbs": ["get", "update"],
        },
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["get", "list", "create", "update", "delete"],
        },
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingwebhookconfigurations"],
            "verbs": ["list"],
        },
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingwebhookconfigurations"],
            "resourceNames": ["opgate"],
            "verbs": ["update"],
        },
    ])
}

fn webhooks(port: u16) -> Value {
    let service =
        json!({"namespace": "opgate-system", "name": "opgate", "path": "/validate", "port": port});
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {
            "name": "opgate",
            "labels": {"opgate.dev/installation": "opgate-system"},
            "annotations": {"opgate.dev/owner": "opgate-system/opgate"},
        },
        "webhooks": [{
            "name": "v.opgate.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": service},
            "failurePolicy": "Fail",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "probe"}},
            "rules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["configmaps"],
            }],
            "sideEffects": "None",
            "timeoutSeconds": 10,
        }],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn real_api_server_trusts_self_managed_certificates() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    let admin = plane.client("admin").await;
    let post = PostParams::default();
    let of_all = resource("", "v1", "Namespace");
    let namespaces = Api::<DynamicObject>::all_with(admin.clone(), &of_all);
    for name in ["opgate-system", "probe"] {
        namespaces.create(&post, &namespace(name)).await.unwrap();
    }
    plane.grant_only(&permissions()).await;
    let empty = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "opgate-tls"}});
    let in_system = |kind: &str| {
        let resource = resource("", "v1", kind);
        Api::<DynamicObject>::namespaced_with(admin.clone(), "opgate-system", &resource)
    };
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "opgate"},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    });
    in_system("Secret").create(&post, &object(empty)).await.unwrap();
    in_system("Service").create(&post, &object(service)).await.unwrap();

    let kubeconfig = plane.kubeconfig("opgate");
    // It reads nothing of the cluster.
    let policy = json!({"name": "constraint-limits", "limits": {"time": "20s"}});
    let start = |replica: &str| {
        let arguments = [
            "--kubeconfig",
            kubeconfig.to_str().unwrap(),
            "--installation",
            "opgate-system/opgate",
            "--pod-name",
            replica,
            "--certificates",
            "self-managed",
            "--ca-propagation-delay",
            "10s",
        ];
        Server::start(BINARY, Some(&configuration(std::slice::from_ref(&policy))), &arguments)
    };
    let servers = [start("a"), start("b")];
    let of_webhooks =
        resource("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration");
    let configurations = Api::<DynamicObject>::all_with(admin.clone(), &of_webhooks);
    let reached = servers[1].address.port();
    configurations.create(&post, &object(webhooks(reached))).await.unwrap();

    let of_maps = resource("", "v1", "ConfigMap");
    let maps = Api::<DynamicObject>::namespaced_with(admin.clone(), "probe", &of_maps);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    let map = object(map);
    let reviews = async || servers[1].metric("opgate_requests_total{code=\"200\"}").await;
    eventually("the first review", || async {
        maps.create(&dry, &map).await.ok()?;
        reviews().await
    })
    .await;

    // A client writes all the time. The Secret is emptied, another CA comes, and no write fails.
    let secrets = in_system("Secret");
    let before = secrets.get("opgate-tls").await.unwrap().data["data"].clone();
    let (ends, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    let writing = async {
        while !ends.load(Ordering::Relaxed) {
            maps.create(&dry, &map).await.unwrap();
            written.fetch_add(1, Ordering::Relaxed);
        }
    };
    let rotating = async {
        let nothing = Patch::Merge(json!({"data": null}));
        secrets.patch("opgate-tls", &PatchParams::default(), &nothing).await.unwrap();
        eventually("another leaf", || async {
            let data = secrets.get_opt("opgate-tls").await.unwrap()?.data["data"].clone();
            let is_new = |entry: &str| data[entry] != before[entry];
            (is_new("ca.key") && is_new("tls.crt") && data["tls.crt"] != "").then_some(())
        })
        .await;
        let end = servers[1].metric("opgate_certificate_reloads_total{result=\"replaced\"}").await;
        eventually("the new leaf is served", || async {
            let name = "opgate_certificate_reloads_total{result=\"replaced\"}";
            let now = servers[1].metric(name).await;
            (now > Some(0.0) || now > end).then_some(())
        })
        .await;
        let until = written.load(Ordering::Relaxed) + 50;
        eventually("some more writes", || async {
            (written.load(Ordering::Relaxed) >= until).then_some(())
        })
        .await;
        ends.store(true, Ordering::Relaxed);
    };
    tokio::join!(writing, rotating);
    assert!(written.load(Ordering::Relaxed) > 50);
    let stored = configurations.get("opgate").await.unwrap();
    let bundle = stored.data["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap();
    assert!(bundle.len() > 1_000, "both CAs");
    for server in &servers {
        let (code, text) = server.get("/readyz").await;
        assert_eq!(code, 200, "{text}");
    }
}
