//! What a real API server sends with the webhooks of all policies: no writes of busy kinds that break
//! no rule, and nothing that it cannot evaluate a condition for.

use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use opgate::builtin::BUILTINS;
use opgate::policy::Builtin;
use serde_json::{Value, json};
use testkit::control_plane::{ControlPlane, eventually};
use testkit::{Server, configuration};

use crate::{BINARY, wait_for_idle_machine};

/// All policies as they are by default, in builds of any speed.
fn all_policies(settings: &Value) -> String {
    let policy = |builtin: &Builtin| {
        let name = builtin.name;
        let mut policy = json!({"name": name, "limits": {"time": "20s"}});
        if !settings[name].is_null() {
            policy["settings"] = settings[name].clone();
        }
        policy
    };
    configuration(&BUILTINS.iter().map(policy).collect::<Vec<_>>())
}

/// What an API server says: code, warnings and body.
struct ApiResponse {
    code: u16,
    warnings: String,
    body: String,
}

async fn ask(client: &Client, method: &str, path: &str, body: &Value) -> ApiResponse {
    let content =
        if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if method == "DELETE" { Vec::new() } else { body.to_string().into_bytes() };
    let request = hyper::Request::builder().method(method).uri(path);
    let request = request.header("Content-Type", content).body(Body::from(body)).unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    let warnings = response.headers().get_all("Warning").iter();
    let warnings: Vec<_> = warnings.map(|text| text.to_str().unwrap().to_owned()).collect();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    ApiResponse {
        code,
        warnings: warnings.join("\n"),
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

/// The API server's metrics of webhooks.
async fn metrics(client: &Client) -> Vec<String> {
    let request = hyper::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = client.request_text(request).await.unwrap();
    let is_one = |line: &&str| {
        line.starts_with("apiserver_admission_webhook_") || line.contains("_match_condition_")
    };
    text.lines().filter(is_one).map(str::to_owned).collect()
}

/// Requests that the API server has sent.
async fn sent_requests(client: &Client) -> u32 {
    let metrics = metrics(client).await;
    let of = |line: &String| {
        let (name, value) = line.rsplit_once(' ')?;
        let is_one = name.starts_with("apiserver_admission_webhook_request_total{");
        is_one.then(|| value.parse::<u32>().unwrap())
    };
    metrics.iter().filter_map(of).sum()
}

fn containers() -> Value {
    json!([{"name": "c", "image": "example.com/c"}])
}

/// A pod with a preferred node affinity of this weight.
fn pod(name: &str, weight: Option<i64>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers()},
    });
    if let Some(weight) = weight {
        let term = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        pod["spec"]["affinity"]["nodeAffinity"] = json!({
            "preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": weight, "preference": term}],
        });
    }
    pod
}

fn workload(kind: &str, name: &str, weight: Option<i64>) -> Value {
    let mut spec = pod(name, weight)["spec"].clone();
    if spec["affinity"].is_null() {
        spec.as_object_mut().unwrap().remove("affinity");
    }
    let mut workload = json!({
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec},
        },
    });
    if kind == "StatefulSet" {
        workload["spec"]["serviceName"] = json!("x");
    }
    workload
}

fn config_map(name: &str, metadata: &Value, data: &Value) -> Value {
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    map["metadata"]["name"] = json!(name);
    map["data"] = data.clone();
    map
}

fn namespace(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

const ENFORCE_LABEL: &str = "pod-security.kubernetes.io/enforce";
const SYNC_LABEL: &str = "security.openshift.io/scc.podSecurityLabelSync";

#[tokio::test(flavor = "multi_thread")]
async fn real_api_server_sends_requests_that_can_violate_rules() {
    let _turn = wait_for_idle_machine().await;
    let Some(plane) = ControlPlane::start().await else { return };
    // None of the CRDs is installed.
    plane.grant().await;
    let admin = plane.client("admin").await;
    let configuration = all_policies(&Value::Null);
    let kubeconfig = plane.kubeconfig("opgate");
    let arguments = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let servers = [Server::start(BINARY, Some(&configuration), &arguments)];
    let server = &servers[0];
    eventually("readiness", || async { (server.get("/readyz").await.0 == 200).then_some(()) })
        .await;
    let created = ask(&admin, "POST", "/api/v1/namespaces", &namespace("n", &json!({}))).await;
    assert_eq!(created.code, 201, "{}", created.body);
    // The API server compiles every expression, or refuses the configuration.
    plane.register(BINARY, &configuration, server.address, &servers).await;
    let maps = "/api/v1/namespaces/n/configmaps";
    let marked = config_map("probe", &json!({"labels": {"olm.managed": "true"}}), &json!({}));
    eventually("the webhooks", || async {
        let said = ask(&admin, "POST", &format!("{maps}?dryRun=All"), &marked).await;
        assert_eq!(said.code, 201, "{}", said.body);
        (sent_requests(&admin).await > 0).then_some(())
    })
    .await;

    let namespaces = "/api/v1/namespaces";
    let pods = "/api/v1/namespaces/n/pods";
    let in_default = "/api/v1/namespaces/default/pods";
    let apps = "/apis/apps/v1/namespaces/n";
    let (deployments, stateful, daemons) = (
        format!("{apps}/deployments"),
        format!("{apps}/statefulsets"),
        format!("{apps}/daemonsets"),
    );
    let at = |path: &str, name: &str| format!("{path}/{name}");
    let bad_csv =
        r#"{"kind":"ClusterServiceVersion","metadata":{"annotations":{"olm.properties":"]"}}}"#;
    let many: Value = (0..20_000).map(|number| (format!("{number:x}"), json!(""))).collect();
    let label = |key: &str, value: Value| json!({"metadata": {"labels": {key: value}}});
    let none = Value::Null;
    let running = json!({"status": {"phase": "Running"}});
    let steps: Vec<(&str, String, Value, u16, u32, &str)> = vec![
        // Pods.
        ("POST", pods.into(), pod("plain", None), 201, 0, ""),
        ("PATCH", at(pods, "plain"), label("a", json!("b")), 200, 0, ""),
        ("PATCH", at(pods, "plain/status"), running.clone(), 200, 0, ""),
        ("POST", pods.into(), pod("near", Some(1)), 201, 1, ""),
        ("PATCH", at(pods, "near"), label("a", json!("b")), 200, 1, ""),
        ("PATCH", at(pods, "near/status"), running, 200, 0, ""),
        // API servers validate before they ask.
        ("POST", pods.into(), pod("far", Some(101)), 422, 0, "must be in the range 1-100"),
        ("DELETE", at(pods, "plain?gracePeriodSeconds=0"), none.clone(), 200, 0, ""),
        ("DELETE", at(pods, "near?gracePeriodSeconds=0"), none.clone(), 200, 0, ""),
        ("POST", in_default.into(), pod("plain", None), 201, 1, "default"),
        ("PATCH", at(in_default, "plain"), label("a", json!("b")), 200, 0, ""),
        ("POST", in_default.into(), pod("near", Some(1)), 201, 2, "default"),
        ("DELETE", at(in_default, "plain?gracePeriodSeconds=0"), none.clone(), 200, 0, ""),
        // Workloads.
        ("POST", deployments.clone(), workload("Deployment", "plain", None), 201, 0, ""),
        ("POST", deployments.clone(), workload("Deployment", "near", Some(1)), 201, 1, ""),
        ("POST", deployments.clone(), workload("Deployment", "far", Some(0)), 422, 0, "1-100"),
        ("PATCH", at(&deployments, "near/scale"), json!({"spec": {"replicas": 0}}), 200, 0, ""),
        ("PATCH", at(&deployments, "near"), label("a", json!("b")), 200, 1, ""),
        ("PATCH", at(&deployments, "plain"), label("a", json!("b")), 200, 0, ""),
        ("DELETE", at(&deployments, "near"), none.clone(), 200, 0, ""),
        ("POST", stateful, workload("StatefulSet", "plain", None), 201, 0, ""),
        ("POST", daemons, workload("DaemonSet", "plain", None), 201, 0, ""),
        // Namespaces.
        ("POST", namespaces.into(), namespace("plain", &none), 201, 0, ""),
        ("PATCH", at(namespaces, "plain"), label("a", json!("b")), 200, 0, ""),
        ("PATCH", at(namespaces, "plain"), label(ENFORCE_LABEL, json!("baseline")), 200, 1, ""),
        ("PATCH", at(namespaces, "plain"), label(ENFORCE_LABEL, none.clone()), 200, 0, ""),
        // The API server itself checks the value.
        (
            "POST",
            namespaces.into(),
            namespace("strict", &json!({ENFORCE_LABEL: "strict"})),
            422,
            0,
            "must be one of privileged, baseline, restricted",
        ),
        (
            "PATCH",
            at(namespaces, "default"),
            label(SYNC_LABEL, json!("true")),
            403,
            1,
            "is permanently disabled in namespace",
        ),
        (
            "PATCH",
            at(namespaces, "default"),
            label(ENFORCE_LABEL, json!("baseline")),
            403,
            1,
            "cannot be changed from privileged",
        ),
        (
            "PATCH",
            at(namespaces, "plain/status"),
            json!({"status": {"phase": "Active"}}),
            200,
            0,
            "",
        ),
        ("DELETE", at(namespaces, "plain"), none.clone(), 200, 0, ""),
        // ConfigMaps. API servers go through none with many keys.
        ("POST", maps.into(), config_map("ca", &none, &json!({"ca.crt": "x"})), 201, 0, ""),
        ("POST", maps.into(), config_map("file", &none, &json!({"a.yaml": "x"})), 201, 1, ""),
        ("POST", maps.into(), config_map("many", &none, &many), 201, 1, ""),
        (
            "POST",
            maps.into(),
            config_map("bad", &none, &json!({"csv.json": bad_csv})),
            403,
            1,
            "failed to unmarshal properties annotation",
        ),
        ("PATCH", at(maps, "ca"), json!({"binaryData": {"a.json": "eA=="}}), 200, 0, ""),
        ("PATCH", at(maps, "ca"), label("olm.managed", json!("true")), 200, 1, ""),
        ("DELETE", at(maps, "ca"), none.clone(), 200, 0, ""),
        ("DELETE", at(maps, "file"), none, 200, 0, ""),
    ];
    let mut wrong = Vec::new();
    let mut before = sent_requests(&admin).await;
    for (method, path, body, code, count, text) in steps {
        let ApiResponse { code: found, warnings, body: said } =
            ask(&admin, method, &path, &body).await;
        let now = sent_requests(&admin).await;
        let more = now - before;
        before = now;
        let is_told = if code < 300 { &warnings } else { &said };
        let is_quiet = !text.is_empty() || warnings.is_empty();
        if found != code || more != count || !is_told.contains(text) || !is_quiet {
            let name = &body["metadata"]["name"];
            let said: String = said.chars().take(400).collect();
            wrong.push(format!(
                "{method} {path} {name}: {found}, {more} requests: {warnings} {said}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    // No expression has failed.
    let metrics = metrics(&admin).await;
    let failed = |line: &&String| line.contains("_match_condition_evaluation_errors_total{");
    assert_eq!(metrics.iter().find(failed), None);
    let kept = |line: &&String| line.contains("_match_condition_exclusions_total{");
    assert!(metrics.iter().any(|line| kept(&line)), "{metrics:#?}");

    // The same with all that settings turn on.
    let asked_for = json!({
        "pod-security": {"psa": {"checkWorkloads": true}, "multiarch": {"enforce": true}},
        "operator-condition": {"restrictedNetwork": {"enabled": true}},
    });
    plane.register(BINARY, &all_policies(&asked_for), server.address, &servers).await;
}
