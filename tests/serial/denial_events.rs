//! Events for denials on a real kube-apiserver, where `KUBEBUILDER_ASSETS` names a directory with one. It accepts the
//! Events and their series, with the printed permissions.

use kube::api::{Api, ListParams, PostParams};
use kube::core::DynamicObject;
use serde_json::{Value, json};
use testkit::control_plane::{ControlPlane, eventually};
use testkit::objects::{denial_message, group, groups, namespace, resource};
use testkit::{Server, configuration};

use crate::installed::{apply, kubeconfig_of_servers, printed};
use crate::{BINARY, wait_for_idle_machine};

/// The Events for denials in a namespace.
async fn denials(admin: &kube::Client, namespace: &str) -> Vec<Value> {
    let events = resource("events.k8s.io", "v1", "Event");
    let events = Api::<DynamicObject>::namespaced_with(admin.clone(), namespace, &events);
    let list = events.list(&ListParams::default()).await.unwrap().items;
    let all = list.into_iter().map(|event| event.data);
    all.filter(|event| event["reason"] == "Denied").collect()
}

fn count(events: &[Value]) -> u64 {
    events.iter().map(|event| event["series"]["count"].as_u64().unwrap_or(1)).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_api_server_stores_events_and_their_series() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    plane.install().await;
    let admin = plane.client("admin").await;
    let namespaces =
        Api::<DynamicObject>::all_with(admin.clone(), &resource("", "v1", "Namespace"));
    namespaces.create(&PostParams::default(), &namespace("a")).await.unwrap();
    apply(&admin, &printed(&["--events"])).await;
    let kubeconfig = kubeconfig_of_servers(&plane, &admin).await;
    let kubeconfig = kubeconfig.to_str().unwrap();
    let policy = json!({"name": "operator-group", "limits": {"time": "20s"}});
    let configuration = configuration(&[policy]);
    let mut arguments = vec!["--kubeconfig", kubeconfig, "--events"];
    arguments.extend(["--installation", "opgate-system/opgate", "--pod-name", "a"]);
    let servers = [Server::start(BINARY, Some(&configuration), &arguments)];
    plane.enforce(BINARY, &configuration, servers[0].address, &servers).await;

    let of_a = Api::<DynamicObject>::namespaced_with(admin.clone(), "a", &groups());
    let post = PostParams::default();
    let first = json!({"targetNamespaces": ["a"]});
    let first = of_a.create(&post, &group("a", "first", &first, "")).await.unwrap();
    let mut second = group("a", "second", &json!({}), "");
    let message = denial_message(of_a.create(&post, &second).await);
    let events = eventually("the Event", || async {
        let events = denials(&admin, "a").await;
        (!events.is_empty()).then_some(events)
    })
    .await;
    let event = &events[0];
    let regarding = json!({
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "namespace": "a", "name": "second",
    });
    assert_eq!((events.len(), &event["regarding"]), (1, &regarding), "{event}");
    let note = event["note"].as_str().unwrap();
    assert!(note.starts_with("CREATE of OperatorGroup second denied: OPG-"), "{note}");
    let reason = "Multiple OperatorGroup found in the same namespace";
    assert!(note.contains(reason) && message.contains(reason), "{note}: {message}");

    // Repeated ones change the series, which the API server accepts.
    for _ in 0..20 {
        denial_message(of_a.create(&post, &second).await);
    }
    eventually("the series", || async { (count(&denials(&admin, "a").await) == 21).then_some(()) })
        .await;
    // A controller's attempts appear as Events about the controller.
    second.metadata.owner_references = serde_json::from_value(json!([{
        "apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "controller": true,
        "name": "first", "uid": first.metadata.uid,
    }]))
    .unwrap();
    denial_message(of_a.create(&post, &second).await);
    let events = eventually("an Event about the controller", || async {
        let mut events = denials(&admin, "a").await;
        events.retain(|event| event["regarding"]["name"] == "first");
        (!events.is_empty()).then_some(events)
    })
    .await;
    assert_eq!(events[0]["regarding"]["uid"], json!(first.metadata.uid));
    assert_eq!(events[0]["related"], regarding);
    // The dry runs that waited for the webhook have none.
    assert_eq!(denials(&admin, "probe").await, [Value::Null; 0]);
    let log = servers[0].log();
    assert!(!log.iter().any(|line| line["message"] == "event of a denial not written"), "{log:?}");
}
