//! A server reads from its cluster which edition applies and as which users OLM and RukPak run. It
//! trusts no user that an administrator has not installed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use opgate::cluster::Connection;
use opgate::policy::{Platform, PlatformQuery, Profile};
use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::reviews::{self, GOOSE_API, OLM, group};
use testkit::{Server, configuration, wait_until};

use crate::BINARY;

const RBAC: &str = "rbac.authorization.k8s.io";
const CONFIG: &str = "config.openshift.io";
const OLM_ROLE: &str = "system:controller:operator-lifecycle-manager";
const OLM_ACCOUNT: &str = "olm-operator-serviceaccount";

fn olm_of(namespace: &str) -> String {
    format!("system:serviceaccount:{namespace}:{OLM_ACCOUNT}")
}

fn role(name: &str, rules: &Value) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

fn all_permissions() -> Value {
    let verbs = [
        "watch",
        "list",
        "get",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
        "escalate",
        "bind",
    ];
    json!([
        {"apiGroups": ["*"], "resources": ["*"], "verbs": verbs},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ])
}

fn binding(name: &str, role: &str, namespace: &str, account: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": account}],
    })
}

fn apply_binding(cluster: &FakeCluster, object: Value) {
    let plural =
        if object["kind"] == "ClusterRole" { "clusterroles" } else { "clusterrolebindings" };
    cluster.apply(RBAC, "v1", plural, object);
}

/// OLM as its chart installs it into a namespace.
fn install_olm(cluster: &FakeCluster, namespace: &str) {
    apply_binding(cluster, role(OLM_ROLE, &all_permissions()));
    let name = format!("olm-operator-binding-{namespace}");
    apply_binding(cluster, binding(&name, OLM_ROLE, namespace, OLM_ACCOUNT));
}

/// OpenShift with a version that is installed.
fn install_openshift(cluster: &FakeCluster, version: &str) {
    cluster.install(CONFIG, "v1", "clusterversions", "ClusterVersion", Scope::Cluster);
    cluster.apply(
        CONFIG,
        "v1",
        "clusterversions",
        json!({
            "apiVersion": format!("{CONFIG}/v1"), "kind": "ClusterVersion",
            "metadata": {"name": "version"},
            "status": {
                "desired": {"version": version},
                "history": [{"state": "Completed", "version": version}],
            },
        }),
    );
}

async fn discover(cluster: &FakeCluster) -> Result<Platform, opgate::cluster::ReadFailure> {
    let connection = Connection::kubeconfig(&[cluster.kubeconfig()], None).await.unwrap();
    Platform::read(&connection, PlatformQuery::ALL).await
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_are_found_where_administrators_installed_them() {
    for namespace in ["olm", "operator-lifecycle-manager", "openshift-operator-lifecycle-manager"] {
        let cluster = reviews::cluster();
        install_olm(&cluster, namespace);
        let found = discover(&cluster).await.unwrap();
        assert_eq!((found.profile, found.olm), (Profile::Upstream, vec![olm_of(namespace)]));
        assert!(found.rukpak.is_empty());
    }
    for namespace in ["rukpak-system", "openshift-rukpak", "olmv1-system"] {
        let cluster = reviews::cluster();
        let token = json!([{"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]}]);
        for (name, rules) in [("core-admin", all_permissions()), ("helm-provisioner-admin", token)]
        {
            apply_binding(&cluster, role(name, &rules));
            apply_binding(&cluster, binding(name, name, namespace, name));
        }
        let user = |name: &str| format!("system:serviceaccount:{namespace}:{name}");
        let found = discover(&cluster).await.unwrap();
        assert_eq!(found.rukpak, [user("core-admin"), user("helm-provisioner-admin")]);
        assert!(found.olm.is_empty());
    }
}

/// A user with permission to create a namespace can create any object in it. Some users can also
/// create roles, with permissions that they have themselves.
#[tokio::test(flavor = "multi_thread")]
async fn tenants_cannot_gain_trust() {
    let cluster = reviews::cluster();
    install_olm(&cluster, "operator-lifecycle-manager");
    cluster.install("apps", "v1", "deployments", "Deployment", Scope::Namespaced);
    for (namespace, account, deployment) in [
        ("olm", OLM_ACCOUNT, "olm-operator"),
        ("openshift-operator-lifecycle-manager", OLM_ACCOUNT, "olm-operator"),
        ("rukpak-system", "core-admin", "core"),
        ("openshift-rukpak", "core-admin", "core"),
    ] {
        cluster.apply("", "v1", "namespaces", reviews::namespace(namespace));
        let metadata = |name: &str| json!({"name": name, "namespace": namespace});
        let object =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(account)});
        cluster.apply("", "v1", "serviceaccounts", object);
        let spec = json!({"template": {"spec": {"serviceAccountName": account}}});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(deployment), "spec": spec});
        cluster.apply("apps", "v1", "deployments", object);
    }
    let trusted = async |what: &str| {
        let found = discover(&cluster).await.unwrap();
        assert_eq!(found.olm, [olm_of("operator-lifecycle-manager")], "{what}");
        assert!(found.rukpak.is_empty(), "{what}: {:?}", found.rukpak);
    };
    trusted("namespaces, accounts and Deployments").await;

    let own = json!([{"apiGroups": ["core.rukpak.io"], "resources": ["*"], "verbs": ["*"]}]);
    apply_binding(&cluster, role("core-admin", &own));
    apply_binding(&cluster, binding("core-admin", "core-admin", "rukpak-system", "core-admin"));
    trusted("a role of the right name").await;

    apply_binding(&cluster, binding("core-admin", "view", "rukpak-system", "core-admin"));
    apply_binding(&cluster, binding("olm-operator-binding-olm", "view", "olm", OLM_ACCOUNT));
    trusted("another role").await;

    // The account of OLM that is there is not another account of its namespace.
    apply_binding(&cluster, binding("olm-operator-binding-olm", OLM_ROLE, "olm", "default"));
    trusted("another account").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_platform_resources_are_an_error() {
    for (group, plural) in
        [(CONFIG, "clusterversions"), (RBAC, "clusterrolebindings"), (RBAC, "clusterroles")]
    {
        let cluster = reviews::cluster();
        install_openshift(&cluster, "4.14.2");
        install_olm(&cluster, "openshift-operator-lifecycle-manager");
        cluster.forbid(group, plural);
        let refused = discover(&cluster).await.unwrap_err();
        assert!(refused.is_forbidden && refused.reason.starts_with(plural), "{refused:?}");
    }
    let cluster = reviews::cluster();
    install_openshift(&cluster, "");
    assert!(!discover(&cluster).await.unwrap_err().is_forbidden);
}

async fn verbose_readyz(server: &Server) -> String {
    server.get("/readyz?verbose").await.1
}

async fn trusted_platform(server: &Server) -> Value {
    let policies: Value = serde_json::from_str(&server.get("/policies").await.1).unwrap();
    policies["trust"].clone()
}

/// What OLM writes when two groups provide the same API.
fn provided_apis_update(user: &str) -> String {
    let group = |apis: &str| group("b", "g", &["shared"], apis);
    let of = json!({"group": OLM, "version": "v1", "resource": "operatorgroups", "kind": "OperatorGroup"});
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "kind": of, "resource": of, "operation": "UPDATE", "name": "g",
            "namespace": "b", "dryRun": true, "userInfo": {"username": user},
            "object": group(GOOSE_API), "oldObject": group(""),
        },
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn server_trusts_the_olm_of_its_cluster_and_no_other() {
    let cluster = reviews::cluster();
    install_olm(&cluster, "operator-lifecycle-manager");
    cluster.apply(OLM, "v1", "operatorgroups", group("a", "first", &["shared"], GOOSE_API));
    let server = reviews::serve(BINARY, &cluster, &["--reload-interval", "20ms"]);
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
    let mut client = server.connect().await;
    let mut says =
        async |user: &str| client.review(provided_apis_update(user)).await.unwrap().message();
    assert_eq!(says(&olm_of("operator-lifecycle-manager")).await, "allowed");
    for namespace in ["olm", "openshift-operator-lifecycle-manager"] {
        assert!(says(&olm_of(namespace)).await.contains(GOOSE_API), "{namespace}");
    }
    let user = olm_of("operator-lifecycle-manager");
    let line = format!(
        "[+]profile upstream (of the cluster); OLM: {user} (of the cluster); RukPak: none (of the cluster)\n"
    );
    let shown = verbose_readyz(&server).await;
    assert!(shown.contains(&line), "{shown}");
    assert_eq!(
        trusted_platform(&server).await["olm"],
        json!({"users": [user], "origin": "cluster"})
    );

    // It moves.
    cluster.delete(
        RBAC,
        "clusterrolebindings",
        "",
        "olm-operator-binding-operator-lifecycle-manager",
    );
    install_olm(&cluster, "olm");
    wait_until("the other OLM", async || {
        trusted_platform(&server).await["olm"]["users"][0] == olm_of("olm")
    })
    .await;
    assert_eq!(says(&olm_of("olm")).await, "allowed");
    assert!(says(&olm_of("operator-lifecycle-manager")).await.contains(GOOSE_API));
}

#[tokio::test(flavor = "multi_thread")]
async fn openshift_update_is_applied_and_refused_read_keeps_trust() {
    let cluster = reviews::cluster();
    install_openshift(&cluster, "4.14.2");
    install_olm(&cluster, "openshift-operator-lifecycle-manager");
    let server = reviews::serve(BINARY, &cluster, &["--reload-interval", "20ms"]);
    let first = trusted_platform(&server).await;
    assert_eq!((&first["profile"], &first["version"]), (&json!("ocp-4.12"), &json!("4.14.2")));
    assert_eq!(first["origin"], "cluster");

    install_openshift(&cluster, "4.16.1");
    wait_until("the edition", async || trusted_platform(&server).await["profile"] == "ocp-4.15")
        .await;

    for (group, plural) in [(CONFIG, "clusterversions"), (RBAC, "clusterrolebindings")] {
        cluster.forbid(group, plural);
        let says = format!("as it was found before: {plural}");
        wait_until("the warning", async || verbose_readyz(&server).await.contains(&says)).await;
        cluster.allow(group, plural);
        wait_until("no warning", async || !verbose_readyz(&server).await.contains("found before"))
            .await;
    }
    cluster.uninstall(CONFIG, "clusterversions");
    wait_until("the warning", async || {
        verbose_readyz(&server).await.contains("was created or deleted")
    })
    .await;
    let last = trusted_platform(&server).await;
    assert_eq!((&last["profile"], &last["version"]), (&json!("ocp-4.15"), &json!("4.16.1")));
    assert_eq!(server.get("/readyz").await.0, 200);
}

/// A configuration that fixes the profile reads nothing of it, and one that leaves it to the cluster is taken
/// over only once that is known.
#[tokio::test(flavor = "multi_thread")]
async fn fixed_profile_needs_no_permission() {
    let cluster = reviews::cluster();
    install_olm(&cluster, "olm");
    cluster.forbid(CONFIG, "clusterversions");
    let text = |profile: &str| {
        let mut file: Value = serde_json::from_str(&configuration(&[json!({
            "name": "operator-group", "limits": {"time": "20s"},
        })]))
        .unwrap();
        file["profile"] = profile.into();
        file.to_string()
    };
    let mut files = testkit::ConfigMap::new(&[("opgate.yaml", &text("upstream"))]);
    let (config, kubeconfig) = (files.path("opgate.yaml"), cluster.kubeconfig());
    let arguments = [
        "--config",
        config.to_str().unwrap(),
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
        "--reload-interval",
        "20ms",
    ];
    let server = Server::start(BINARY, None, &arguments);
    let fixed = trusted_platform(&server).await;
    assert_eq!(
        (&fixed["profile"], &fixed["origin"]),
        (&json!("upstream"), &json!("configuration"))
    );
    assert!(!cluster.requests().iter().any(|request| request.contains("clusterversions")));

    files.swap(&[("opgate.yaml", &text("auto"))]);
    let kept = "the last good one: profile auto: clusterversions";
    wait_until("the refusal", async || verbose_readyz(&server).await.contains(kept)).await;
    assert_eq!(trusted_platform(&server).await, fixed);
    cluster.allow(CONFIG, "clusterversions");
    wait_until("the cluster", async || trusted_platform(&server).await["origin"] == "cluster")
        .await;
    assert_eq!(trusted_platform(&server).await["olm"]["users"], json!([olm_of("olm")]));
}

/// A server that has not said yet where it serves.
struct StartingServer {
    child: Child,
    ops: SocketAddr,
    _files: tempfile::TempDir,
}

impl Drop for StartingServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl StartingServer {
    fn new(cluster: &FakeCluster) -> Self {
        let files = tempfile::tempdir().unwrap();
        let tls = files.path().to_str().unwrap();
        assert!(run(&["certs", "issue", "--out", tls, "--service", "a/b"]).0);
        let mut command = Command::new(BINARY);
        command.env_remove("KUBERNETES_SERVICE_HOST").env_remove("KUBECONFIG");
        command.args(["--log-format", "json", "serve", "--listen", "127.0.0.1:0"]);
        command.args(["--ops-listen", "127.0.0.1:0", "--tls-dir", tls, "--kubeconfig"]);
        command.arg(cluster.kubeconfig()).stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let ops = lines.find_map(|line| {
            let entry: Value = serde_json::from_str(&line).ok()?;
            (entry["message"] == "loading policies").then(|| entry["ops"].as_str()?.parse().ok())?
        });
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, ops: ops.expect("the ops port is open"), _files: files }
    }

    fn readiness(&self) -> String {
        let mut stream = TcpStream::connect(self.ops).unwrap();
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_is_not_ready_until_its_cluster_is_known() {
    let cluster = reviews::cluster();
    cluster.forbid(CONFIG, "clusterversions");
    let mut server = StartingServer::new(&cluster);
    wait_until("the reason", async || {
        let answer = server.readiness();
        answer.starts_with("HTTP/1.1 503")
            && answer
                .contains("profile auto: clusterversions.config.openshift.io version: forbidden")
            && answer.contains("opgate manifests rbac")
    })
    .await;
    // It ends in time, though.
    let id = rustix::process::Pid::from_child(&server.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
}

fn run(arguments: &[&str]) -> (bool, String, String) {
    let mut command = Command::new(BINARY);
    command.env_remove("KUBERNETES_SERVICE_HOST").env_remove("KUBECONFIG");
    let output = command.args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn config_init_pins_the_discovered_platform() {
    let cluster = reviews::cluster();
    install_openshift(&cluster, "4.17.0");
    install_olm(&cluster, "openshift-operator-lifecycle-manager");
    let kubeconfig = cluster.kubeconfig();
    let arguments =
        ["config", "init", "--from-cluster", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let (done, printed, said) = run(&arguments);
    let user = olm_of("openshift-operator-lifecycle-manager");
    assert!(done && printed.contains("OpenShift 4.17.0"), "{said}");
    let fixed = format!("profile: ocp-4.15\nidentities:\n  olm: [\"{user}\"]\n  rukpak: []\n");
    assert!(printed.ends_with(&fixed), "{printed}");
    let requests = cluster.requests();
    assert!(requests.iter().all(|request| request.starts_with("GET ")), "{requests:?}");

    cluster.forbid(RBAC, "clusterrolebindings");
    let (done, printed, said) = run(&arguments);
    assert!(!done && printed.is_empty() && said.contains("clusterrolebindings"), "{said}");
}

/// Single objects, and none where the configuration says everything.
#[test]
fn manifests_permit_the_platform_reads_of_a_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("opgate.yaml");
    let reads = |text: &str, more: &[&str]| -> Vec<Value> {
        let head = "apiVersion: opgate.dev/v1alpha1\nkind: Configuration\npolicies: []\n";
        std::fs::write(&path, format!("{head}{text}")).unwrap();
        let config = ["--config", path.to_str().unwrap(), "-o", "json"];
        let (done, printed, said) = run(&[&["manifests"], more, &config[..]].concat());
        assert!(done, "{said}");
        let list: Value = serde_json::from_str(&printed).unwrap();
        let items = list["items"].as_array().unwrap().iter();
        let everywhere = items.filter(|role| role["kind"] == "ClusterRole");
        let rules = everywhere.flat_map(|role| role["rules"].as_array().unwrap().clone());
        rules.filter(|rule| rule["verbs"] == json!(["get"])).collect()
    };
    let version = json!({
        "apiGroups": [CONFIG], "resources": ["clusterversions"], "resourceNames": ["version"],
        "verbs": ["get"],
    });
    for command in [&["rbac"][..], &["all", "--image", "x"]] {
        let all = reads("", command);
        assert_eq!(all.len(), 3, "{all:?}");
        assert_eq!(all[0], version);
        assert!(all.iter().all(|rule| rule["resourceNames"].as_array().unwrap().len() <= 5));
        assert_eq!(reads("profile: auto", command), all);
        assert_eq!(reads("profile: ocp-4.12", command), [Value::Null; 0]);
        let listed = "identities: {olm: [me], rukpak: []}";
        assert_eq!(reads(listed, command), std::slice::from_ref(&version));
    }
}
