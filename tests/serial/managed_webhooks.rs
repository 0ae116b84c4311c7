//! The registration on a real kube-apiserver, where `KUBEBUILDER_ASSETS` names a directory with
//! one. The API server accepts what the leader writes, with the printed permissions, and adds
//! nothing that the leader treats as a change.

use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use testkit::control_plane::{ControlPlane, eventually};
use testkit::objects::resource;
use testkit::{Certificates, Server};

use crate::installed::{api, apply, kubeconfig_of_servers, printed};
use crate::{BINARY, wait_for_idle_machine};

fn serve(kubeconfig: &str, configuration: &str, name: &str) -> Server {
    let certificates = Certificates::new();
    let ca = certificates.directory.path().join("ca.crt");
    std::fs::write(ca, certificates.authority.certificate()).unwrap();
    let mut arguments = vec!["--kubeconfig", kubeconfig, "--manage-webhooks"];
    arguments.extend(["--installation", "opgate-system/opgate", "--pod-name", name]);
    Server::start_with(BINARY, Some(configuration), &arguments, certificates)
}

#[tokio::test(flavor = "multi_thread")]
async fn real_api_server_stores_the_registration_unchanged() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    plane.install().await;
    let admin = plane.client("admin").await;
    let objects = printed(&[]);
    apply(&admin, &objects).await;
    // The API server runs without the controller of EndpointSlices.
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "opgate-1",
            "namespace": "opgate-system",
            "labels": {"kubernetes.io/service-name": "opgate"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": true}}],
    });
    apply(&admin, &[slice]).await;
    let mounted = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
    let mounted = mounted["data"]["opgate.yaml"].as_str().unwrap();
    let kubeconfig = kubeconfig_of_servers(&plane, &admin).await;
    let kubeconfig = kubeconfig.to_str().unwrap();
    let servers = ["a", "b"].map(|name| serve(kubeconfig, mounted, name));
    let registrations = api(&admin, &objects[0]);
    let get = async || registrations.get("opgate").await.unwrap();
    let current = async || {
        for server in &servers {
            let line = "[+]registration current, sha256:";
            eventually("a current registration", || async {
                server.get("/readyz?verbose").await.1.contains(line).then_some(())
            })
            .await;
        }
    };
    eventually("webhooks", || async { get().await.data["webhooks"].is_array().then_some(()) })
        .await;
    current().await;
    let written = get().await;
    let webhooks = written.data["webhooks"].as_array().unwrap();
    assert!(webhooks.len() > 10, "{}", webhooks.len());
    assert!(webhooks.iter().any(|webhook| webhook["matchConditions"].is_array()));
    // What the API server has added is no difference: no server writes again.
    for server in &servers {
        let looks = || async { server.metric("opgate_registration_stale").await };
        assert_eq!(looks().await, Some(0.0));
    }
    // Between two renewals of a lease there are two looks.
    let leases = resource("coordination.k8s.io", "v1", "Lease");
    let leases = Api::<DynamicObject>::namespaced_with(admin.clone(), "opgate-system", &leases);
    let renewed =
        async || leases.get("opgate-replica-a").await.unwrap().data["spec"]["renewTime"].clone();
    for _ in 0..2 {
        let before = renewed().await;
        eventually("a renewal", || async { (renewed().await != before).then_some(()) }).await;
    }
    assert_eq!(get().await.metadata.resource_version, written.metadata.resource_version);

    // As people apply the printed object again.
    apply(&admin, &objects[..1]).await;
    assert_eq!(get().await.data["webhooks"], written.data["webhooks"]);

    // Another client manages the CA bundle; the leader restores the other fields.
    let mut edited = get().await;
    for webhook in edited.data["webhooks"].as_array_mut().unwrap() {
        webhook["clientConfig"]["caBundle"] =
            written.data["webhooks"][0]["clientConfig"]["caBundle"].clone();
        webhook["failurePolicy"] = json!("Ignore");
        webhook["timeoutSeconds"] = json!(1);
    }
    registrations.replace("opgate", &PostParams::default(), &edited).await.unwrap();
    eventually("what was there", || async {
        (get().await.data["webhooks"] == written.data["webhooks"]).then_some(())
    })
    .await;
    current().await;

    // Who deletes it, has deleted it.
    registrations.delete("opgate", &DeleteParams::default()).await.unwrap();
    let absent = "there is no ValidatingWebhookConfiguration opgate";
    for server in &servers {
        eventually("a word about it", || async {
            server.get("/readyz?verbose").await.1.contains(absent).then_some(())
        })
        .await;
    }
    assert!(registrations.get_opt("opgate").await.unwrap().is_none());
    // The leader does not change the object of another owner; it fills in an object of this
    // installation.
    let theirs = json!({"metadata": {"name": "opgate"}});
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": theirs["metadata"],
    }))
    .unwrap();
    registrations.create(&PostParams::default(), &object).await.unwrap();
    eventually("a word about it", || async {
        servers[0].get("/readyz?verbose").await.1.contains("is not ours").then_some(())
    })
    .await;
    assert_eq!(get().await.data.get("webhooks").cloned().unwrap_or_default(), Value::Null);
    let metadata = json!({"metadata": objects[0]["metadata"]});
    let merge = PatchParams::default();
    registrations.patch("opgate", &merge, &Patch::Merge(&metadata)).await.unwrap();
    eventually("webhooks", || async { get().await.data["webhooks"].is_array().then_some(()) })
        .await;
    assert!(
        !servers.iter().flat_map(Server::log).any(|line| line.to_string().contains("forbidden"))
    );
}
