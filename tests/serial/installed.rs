//! An installation on a real kube-apiserver, where `KUBEBUILDER_ASSETS` names a directory with one.
//! The API server accepts every printed object unchanged. The account of the servers has the
//! permissions that they need, and no more.

use std::process::Command;

use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::core::DynamicObject;
use kube::{Client, Config};
use serde_json::{Value, json};
use testkit::control_plane::{ControlPlane, eventually};
use testkit::objects::{object, resource};
use testkit::{Server, builtin_policy, configuration};

use crate::{BINARY, wait_for_idle_machine};

const NAMESPACE: &str = "opgate-system";

/// What Kubernetes itself does not have.
const THIRD_PARTY_KINDS: [&str; 4] = ["Certificate", "Issuer", "PrometheusRule", "ServiceMonitor"];

const WITH_RUKPAK: [&str; 2] = ["--with", "rukpak"];

/// The objects that `opgate manifests all` prints, without those of others.
pub(crate) fn printed(arguments: &[&str]) -> Vec<Value> {
    let mut command = Command::new(BINARY);
    command.args(["manifests", "all", "--output", "json"]).args(arguments);
    let output = command.env_remove("OPGATE_CONFIG").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut list: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut objects: Vec<Value> = serde_json::from_value(list["items"].take()).unwrap();
    objects.retain(|object| !THIRD_PARTY_KINDS.contains(&object["kind"].as_str().unwrap()));
    objects
}

pub(crate) fn api(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = resource(group, version, &text(&object["kind"]));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// The state of a stored object, which writes of its status do not change: the API server itself writes the status
/// of a new `FlowSchema`, at any time after the creation.
fn without_status(object: &DynamicObject) -> Value {
    let mut state = serde_json::to_value(object).unwrap();
    if state["kind"] != "FlowSchema" {
        return state;
    }
    let members = state.as_object_mut().unwrap();
    members.remove("status");
    let metadata = members["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    // Those of clients have their generation and time.
    let managers = metadata["managedFields"].as_array_mut().unwrap();
    managers.retain(|manager| manager["subresource"] != "status");
    assert!(!managers.is_empty());
    state
}

/// Applies all, in this order; gives the states that they have then.
pub(crate) async fn apply(client: &Client, objects: &[Value]) -> Vec<Value> {
    let mut states = Vec::new();
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        let apply = PatchParams::apply("kubectl").validation_strict();
        let applied = api(client, object).patch(name, &apply, &Patch::Apply(object)).await;
        let applied = applied.unwrap_or_else(|error| panic!("{error}: {object}"));
        states.push(without_status(&applied));
    }
    states
}

#[tokio::test(flavor = "multi_thread")]
async fn real_api_server_accepts_every_object() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    let admin = plane.client("admin").await;
    // Strictly: a member that the API server does not know is an error.
    let strict = PostParams { dry_run: true, ..PostParams::default() };
    let namespace = printed(&[]).into_iter().find(|object| object["kind"] == "Namespace").unwrap();
    apply(&admin, &[namespace]).await;
    for arguments in [
        &["--with", "monitoring", "--certificates", "cert-manager"][..],
        &["--events", "--with", "dashboard"],
        &[
            "--certificates",
            "files",
            "--pull-secret",
            "s",
            "--priority-class",
            "",
            "--replicas",
            "3",
        ],
        &["--registration", "manual", "--label", "team=a", "--api-server", "10.0.0.0/24"],
    ] {
        for value in printed(arguments) {
            if value["kind"] != "Namespace" {
                let created = api(&admin, &value).create(&strict, &object(value.clone())).await;
                created.unwrap_or_else(|error| panic!("{error}: {value}"));
            }
        }
    }

    // Twice is as good as once, also after a leader has registered webhooks.
    let objects = printed(&[]);
    let first = apply(&admin, &objects).await;
    assert_eq!(apply(&admin, &objects).await, first);
    let webhook = json!({
        "name": "v.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": {"namespace": NAMESPACE, "name": "opgate"}},
    });
    let leader = json!({"webhooks": [webhook]});
    let registrations = api(&admin, &objects[0]);
    let by_leader = PatchParams { field_manager: Some("opgate".to_owned()), ..Default::default() };
    registrations.patch("opgate", &by_leader, &Patch::Merge(&leader)).await.unwrap();
    apply(&admin, &objects).await;
    let registered = registrations.get("opgate").await.unwrap();
    assert_eq!(registered.data["webhooks"].as_array().map(Vec::len), Some(1));
    registrations
        .patch("opgate", &by_leader, &Patch::Merge(&json!({"webhooks": null})))
        .await
        .unwrap();

    // As people do it, where there is the program.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("all.yaml");
    let mut print = Command::new(BINARY);
    print.args(["manifests", "all"]).env_remove("OPGATE_CONFIG");
    std::fs::write(&file, print.output().unwrap().stdout).unwrap();
    let kubectl = |arguments: &[&str]| {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(plane.kubeconfig("admin")).args(arguments).arg(&file);
        command.output().ok()
    };
    let mut before = Vec::new();
    for _ in 0..2 {
        let Some(output) = kubectl(&["apply", "-f"]) else {
            eprintln!("skipped: no kubectl");
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let mut states = Vec::new();
        for object in &objects {
            let name = object["metadata"]["name"].as_str().unwrap();
            states.push(without_status(&api(&admin, object).get(name).await.unwrap()));
        }
        assert!(before.is_empty() || before == states, "{said}");
        before = states;
    }
    let deleted = kubectl(&["delete", "--wait=false", "-f"]).unwrap();
    let said = String::from_utf8_lossy(&deleted.stdout);
    assert!(said.starts_with("validatingwebhookconfiguration"), "{said}");
}

/// A kubeconfig with a token of the account of the servers.
pub(crate) async fn kubeconfig_of_servers(
    plane: &ControlPlane,
    admin: &Client,
) -> std::path::PathBuf {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/opgate/token");
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    });
    let request = hyper::Request::post(path)
        .header("content-type", "application/json")
        .body(request.to_string().into_bytes())
        .unwrap();
    let answer: Value = admin.request(request).await.unwrap();
    let usual = plane.kubeconfig("opgate");
    let text = std::fs::read_to_string(&usual).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
    kubeconfig["users"][0]["user"] = json!({"token": answer["status"]["token"]});
    let path = plane.files.path().join("servers.kubeconfig");
    opgate_certs::write_private(&path, &kubeconfig.to_string()).unwrap();
    path
}

async fn client(kubeconfig: &std::path::Path) -> Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// What the account may do, by what the API server says to it.
async fn is_allowed(client: &Client, verb: &str, what: &str, namespace: &str, name: &str) -> bool {
    let (group, resource) = what.split_once('/').unwrap();
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "group": group,
            "resource": resource,
            "verb": verb,
            "namespace": namespace,
            "name": name,
        }},
    });
    let request = hyper::Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .unwrap();
    let answer: Value = client.request(request).await.unwrap();
    answer["status"]["allowed"] == json!(true)
}

#[tokio::test(flavor = "multi_thread")]
async fn service_account_has_exactly_the_needed_permissions() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    plane.install().await;
    let admin = plane.client("admin").await;
    plane.namespaces(["rukpak-system".to_owned()]).await;
    let objects = printed(&WITH_RUKPAK);
    apply(&admin, &objects).await;
    let mounted = objects.iter().find(|object| object["kind"] == "ConfigMap").unwrap();
    let mounted = mounted["data"]["opgate.yaml"].as_str().unwrap();
    let kubeconfig = kubeconfig_of_servers(&plane, &admin).await;

    // Every policy that reads the cluster reads it, though nothing of OpenShift or RukPak is there.
    let server =
        Server::start(BINARY, Some(mounted), &["--kubeconfig", kubeconfig.to_str().unwrap()]);
    let verbose = eventually("all resources", || async {
        let (code, text) = server.get("/readyz?verbose").await;
        let seen = text.lines().filter(|line| line.starts_with('[')).collect::<Vec<_>>();
        let all = !seen.is_empty() && seen.iter().all(|line| line.starts_with("[+]"));
        (code == 200 && all).then_some(text)
    })
    .await;
    assert!(verbose.contains("[+]v1/configmaps current, "), "{verbose}");
    let log = server.log();
    let forbidden = log.iter().map(ToString::to_string).find(|line| line.contains("forbidden"));
    assert_eq!(forbidden, None);

    let account = client(&kubeconfig).await;
    let (registrations, rbac) = (
        "admissionregistration.k8s.io/validatingwebhookconfigurations",
        "rbac.authorization.k8s.io",
    );
    let (leases, events) = ("coordination.k8s.io/leases", "events.k8s.io/events");
    let slices = "discovery.k8s.io/endpointslices";
    for (verbs, what, namespace, name, expected) in [
        ("get list create update delete", leases, NAMESPACE, "opgate-leader", true),
        ("get list create update delete", leases, "kube-system", "opgate-leader", false),
        ("create", events, NAMESPACE, "", true),
        ("list delete", events, NAMESPACE, "", false),
        ("list", slices, NAMESPACE, "", true),
        ("get watch create update delete", slices, NAMESPACE, "", false),
        ("list", slices, "kube-system", "", false),
        ("create", "/secrets", NAMESPACE, "", false),
        ("get update", "/secrets", NAMESPACE, "opgate-tls", true),
        ("delete", "/secrets", NAMESPACE, "opgate-tls", false),
        ("get update", "/secrets", NAMESPACE, "another", false),
        ("list watch", "/secrets", NAMESPACE, "", false),
        ("create get list", "/secrets", "kube-system", "", false),
        ("get update", registrations, "", "opgate", true),
        ("list", registrations, "", "", true),
        ("get update patch", registrations, "", "another", false),
        ("create delete deletecollection", registrations, "", "opgate", false),
        (
            "get update",
            "admissionregistration.k8s.io/mutatingwebhookconfigurations",
            "",
            "opgate",
            false,
        ),
        ("create update", &format!("{rbac}/clusterroles"), "", "opgate", false),
        ("bind escalate", &format!("{rbac}/clusterroles"), "", "cluster-admin", false),
        ("get create", "/pods", NAMESPACE, "", false),
        ("update", "/configmaps", NAMESPACE, "opgate", false),
        ("list watch", "/configmaps", "", "", false),
    ] {
        for verb in verbs.split(' ') {
            let found = is_allowed(&account, verb, what, namespace, name).await;
            assert_eq!(found, expected, "{verb} {what} {namespace}/{name}");
        }
    }
}

/// As in a cluster without RukPak: the roles for its namespace come last, and cannot be applied.
#[tokio::test(flavor = "multi_thread")]
async fn missing_namespace_does_not_block_readiness() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    plane.install().await;
    let admin = plane.client("admin").await;
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("opgate.yaml");
    let text = configuration(&[builtin_policy(), json!({"name": "operator-group"})]);
    std::fs::write(&config, &text).unwrap();
    let config = ["--config", config.to_str().unwrap()];
    let mut objects = printed(&[config, WITH_RUKPAK].concat());
    let roles = objects.split_off(objects.len() - 2);
    assert!(roles.iter().all(|role| role["metadata"]["namespace"] == "rukpak-system"), "{roles:?}");
    apply(&admin, &objects).await;
    let apply_role = PatchParams::apply("kubectl");
    let patch = Patch::Apply(&roles[0]);
    api(&admin, &roles[0]).patch("opgate", &apply_role, &patch).await.unwrap_err();
    assert_eq!(printed(&config), objects);
    let skipped = [config, WITH_RUKPAK, ["--skip-roles-in", "rukpak-system"]].concat();
    assert_eq!(printed(&skipped), objects);

    let kubeconfig = kubeconfig_of_servers(&plane, &admin).await;
    // Soon, what cannot be seen is no reason to wait.
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--sync-timeout", "1s"];
    let server = Server::start(BINARY, Some(&text), &arguments);
    let says = async |line: &str| {
        eventually(line, || async {
            let (code, text) = server.get("/readyz?verbose").await;
            (code == 200 && text.contains(line)).then_some(())
        })
        .await;
    };
    says("[+]v1/configmaps not installed\n").await;
    // RukPak comes later, and then its role.
    plane.namespaces(["rukpak-system".to_owned()]).await;
    says("[-]v1/configmaps is not synced yet: forbidden: ").await;
    apply(&admin, &roles).await;
    says("[+]v1/configmaps current, ").await;
}
