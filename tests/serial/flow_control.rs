//! An API server that is saturated with requests of service accounts that wait for opgate, where
//! `KUBEBUILDER_ASSETS` names a directory with one. The `FlowSchema` that `opgate manifests all` prints keeps
//! the writes of the ledger out of their queue. Prints the lines of `docs/reliability.md`:
//!
//! `cargo test --workspace --test serial -- flow_control --nocapture`

use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};
use testkit::control_plane::{ControlPlane, eventually};
use testkit::objects::{group, groups, object, resource};
use testkit::{Server, configuration};

use crate::{BINARY, wait_for_idle_machine};

/// Places of the API server in total. Service accounts get about a third of them.
const INFLIGHT_ARGUMENTS: [&str; 3] = [
    "--disable-admission-plugins=ServiceAccount",
    "--max-requests-inflight=20",
    "--max-mutating-requests-inflight=20",
];

/// More than the places for service accounts.
const CREATES: usize = 60;

/// The objects of flow control, as they are printed.
fn flow_control_objects() -> Vec<Value> {
    let output = Command::new(BINARY)
        .args(["manifests", "all", "--output", "json"])
        .env_remove("OPGATE_CONFIG")
        .output()
        .unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let is_one = |object: &&Value| {
        ["FlowSchema", "PriorityLevelConfiguration"].contains(&object["kind"].as_str().unwrap())
    };
    list["items"].as_array().unwrap().iter().filter(is_one).cloned().collect()
}

/// Permits everything to accounts that are no administrators for flow control.
async fn grant_everything(admin: &Client) {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "accounts"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts"}],
    });
    let of = resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding");
    let bindings = Api::<DynamicObject>::all_with(admin.clone(), &of);
    bindings.create(&PostParams::default(), &object(binding)).await.unwrap();
}

async fn apply(admin: &Client, objects: &[Value]) {
    for value in objects {
        let kind = value["kind"].as_str().unwrap();
        let of = resource("flowcontrol.apiserver.k8s.io", "v1", kind);
        let api = Api::<DynamicObject>::all_with(admin.clone(), &of);
        let apply = PatchParams::apply("tests").force();
        api.patch("opgate", &apply, &Patch::Apply(value)).await.unwrap();
    }
}

/// Sends creates of a tenant's account at once. Returns how many failed, and the longest time.
async fn create_at_once(tenant: &Client, admin: &Client) -> (Vec<String>, Duration) {
    let creates = (0..CREATES).map(async |number| {
        let namespace = format!("tenant-{number}");
        let mut group = group(&namespace, "g", &json!({"targetNamespaces": [namespace]}), "");
        group.metadata.uid = None;
        let api = Api::<DynamicObject>::namespaced_with(tenant.clone(), &namespace, &groups());
        let began = Instant::now();
        let created = api.create(&PostParams::default(), &group).await;
        (created.map(drop).map_err(|error| error.to_string()), began.elapsed())
    });
    let ended = join_all(creates).await;
    let longest = ended.iter().map(|(_, time)| *time).max().unwrap();
    let failed = ended.into_iter().filter_map(|(created, _)| created.err()).collect();
    let all = Api::<DynamicObject>::all_with(admin.clone(), &groups());
    for group in all.list(&ListParams::default()).await.unwrap() {
        let namespace = group.metadata.namespace.unwrap();
        if namespace.starts_with("tenant-") {
            let api = Api::<DynamicObject>::namespaced_with(admin.clone(), &namespace, &groups());
            api.delete("g", &DeleteParams::default()).await.unwrap();
        }
    }
    (failed, longest)
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_wait_for_opgate_do_not_delay_its_own() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start_with(&INFLIGHT_ARGUMENTS).await else { return };
    plane.install().await;
    let admin = plane.client("admin").await;
    grant_everything(&admin).await;
    let tenants = (0..CREATES).map(|number| format!("tenant-{number}"));
    plane.namespaces(tenants.chain(["opgate-system".to_owned()])).await;
    let kubeconfig = plane.kubeconfig("opgate-account");
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let arguments = [&arguments[..], &["--installation", "opgate-system/opgate"]].concat();
    let policy = json!({"name": "operator-group", "limits": {"time": "9s"}});
    let configuration = configuration(&[policy]);
    let servers: Vec<_> = ["a", "b"]
        .iter()
        .map(|pod| {
            let arguments = [&arguments[..], &["--pod-name", pod]].concat();
            Server::start(BINARY, Some(&configuration), &arguments)
        })
        .collect();
    for server in &servers {
        eventually("readiness", || async { (server.get("/readyz").await.0 == 200).then_some(()) })
            .await;
    }
    let forwarder = testkit::forwarder::Forwarder::start().await;
    forwarder.set_targets(servers.iter().map(|server| server.address));
    plane.enforce(BINARY, &configuration, forwarder.address, &servers).await;
    let tenant = plane.client("tenant-account").await;

    let (failed, longest) = create_at_once(&tenant, &admin).await;
    let without = longest;
    println!("without a FlowSchema: {} of {CREATES} failed, longest {longest:?}", failed.len());
    apply(&admin, &flow_control_objects()).await;
    // The API server adopts the level some time later.
    let schema = resource("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema");
    let schema = Api::<DynamicObject>::all_with(admin.clone(), &schema);
    eventually("the FlowSchema", || async {
        let status = schema.get("opgate").await.ok()?.data["status"].clone();
        status["conditions"].as_array()?.iter().any(|c| c["status"] == "False").then_some(())
    })
    .await;
    let (failed, longest) = create_at_once(&tenant, &admin).await;
    println!("with a FlowSchema: {} of {CREATES} failed, longest {longest:?}", failed.len());
    assert!(failed.is_empty(), "{failed:?}");
    assert!(longest < without, "{longest:?} is not shorter than {without:?} without it");
}
