//! Against a real kube-apiserver and etcd, where `KUBEBUILDER_ASSETS` names a folder with them (the
//! convention of envtest). `OPGATE_CRDS` may name a folder with the real CRDs; otherwise small ones
//! of our own are installed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic"
)]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::future::join_all;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, Config};
use opgate_certs::{Authority, write_private, write_public};
use opgate_tests::{Server, configuration};
use serde_json::{Value, json};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");

/// How often something is looked at until it is there, and what lies between two looks.
const LOOKS: usize = 300;
const BETWEEN: Duration = Duration::from_millis(100);

/// A control plane; killed when dropped.
struct ControlPlane {
    children: Vec<Child>,
    files: TempDir,
    address: String,
    _authority: Authority,
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for program in ["etcd", "kube-apiserver"] {
                let log = self.files.path().join(format!("{program}.log"));
                let log = std::fs::read_to_string(log).unwrap_or_default();
                let fatal =
                    log.lines().position(|l| l.starts_with("fatal") || l.starts_with("panic"));
                let from = fatal.unwrap_or_else(|| log.lines().count().saturating_sub(10));
                let last: Vec<_> = log.lines().skip(from).take(20).collect();
                eprintln!("{program}: {last:#?}");
            }
        }
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl ControlPlane {
    /// Starts one, with users `admin` (may do everything) and `opgate` (may do what RBAC grants).
    fn start(assets: &Path) -> Self {
        let files = tempfile::tempdir().unwrap();
        let at = |name: &str| files.path().join(name).display().to_string();
        let authority = Authority::create(1).unwrap();
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let issued = authority.issue(&names, 1).unwrap();
        write_public(Path::new(&at("ca.crt")), authority.certificate()).unwrap();
        write_public(Path::new(&at("tls.crt")), &issued.certificate).unwrap();
        write_private(Path::new(&at("tls.key")), &issued.key).unwrap();
        let tokens = "admin,admin,1,system:masters\nopgate,opgate,2,\n";
        write_private(Path::new(&at("tokens.csv")), tokens).unwrap();
        let etcd = format!("http://127.0.0.1:{}", free_port());
        let peer = format!("http://127.0.0.1:{}", free_port());
        let port = free_port().to_string();
        let run = |program: &str, arguments: &[&str]| {
            let log = std::fs::File::create(at(&format!("{program}.log"))).unwrap();
            let mut command = Command::new(assets.join(program));
            command.args(arguments).stdout(Stdio::null()).stderr(log);
            command.spawn().unwrap_or_else(|e| panic!("{program}: {e}"))
        };
        let etcd_child = run(
            "etcd",
            &[
                "--data-dir",
                &at("etcd"),
                "--listen-client-urls",
                &etcd,
                "--advertise-client-urls",
                &etcd,
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
                "--initial-cluster",
                &format!("default={peer}"),
            ],
        );
        let apiserver = run(
            "kube-apiserver",
            &[
                &format!("--etcd-servers={etcd}"),
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                &format!("--secure-port={port}"),
                &format!("--tls-cert-file={}", at("tls.crt")),
                &format!("--tls-private-key-file={}", at("tls.key")),
                &format!("--cert-dir={}", at("certs")),
                &format!("--token-auth-file={}", at("tokens.csv")),
                &format!("--service-account-key-file={}", at("tls.crt")),
                &format!("--service-account-signing-key-file={}", at("tls.key")),
                "--service-account-issuer=https://kubernetes.default.svc",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--authorization-mode=RBAC",
                "--disable-admission-plugins=ServiceAccount",
            ],
        );
        let address = format!("https://127.0.0.1:{port}");
        Self { children: vec![etcd_child, apiserver], files, address, _authority: authority }
    }

    /// A kubeconfig of one of the users.
    fn kubeconfig(&self, user: &str) -> PathBuf {
        let path = self.files.path().join(format!("{user}.kubeconfig"));
        let ca = self.files.path().join("ca.crt");
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.address, "certificate-authority": ca}}],
            "users": [{"name": user, "user": {"token": user}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": user}}],
            "current-context": "c",
        });
        write_private(&path, &kubeconfig.to_string()).unwrap();
        path
    }

    async fn client(&self, user: &str) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig(user)).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        Client::try_from(config).unwrap()
    }
}

/// Looks until there is something.
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    for _ in 0..LOOKS {
        if let Some(found) = look().await {
            return found;
        }
        tokio::time::sleep(BETWEEN).await;
    }
    panic!("{what} does not come");
}

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// A CRD that takes everything, with a status of its own.
fn small_crd(group: &str, version: &str, kind: &str, scope: &str) -> Value {
    let plural = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind)).plural;
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

/// Kubernetes 1.20 takes the default `""` for `null`, and refuses it: another text, which no test
/// looks at.
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

fn crds() -> Vec<Value> {
    let small = || {
        vec![
            small_crd("operators.coreos.com", "v1", "OperatorGroup", "Namespaced"),
            small_crd("operators.coreos.com", "v1alpha1", "ClusterServiceVersion", "Namespaced"),
            small_crd("core.rukpak.io", "v1alpha1", "Bundle", "Cluster"),
        ]
    };
    let Some(folder) = std::env::var_os("OPGATE_CRDS") else { return small() };
    let wanted = ["operatorgroups", "clusterserviceversions", "bundles"];
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
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

fn group(namespace: &str, name: &str, spec: &Value, apis: &str) -> DynamicObject {
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

fn csv(namespace: &str, name: &str, modes: &[&str], crd: &str) -> DynamicObject {
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

fn refused<T: std::fmt::Debug>(result: kube::Result<T>) -> String {
    match result {
        Err(kube::Error::Api(status)) => {
            assert_eq!(status.code, 403, "{}", status.message);
            status.message
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_gets_the_same_verdicts() {
    let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from) else {
        eprintln!(
            "skipped: KUBEBUILDER_ASSETS does not name a folder with kube-apiserver and etcd"
        );
        return;
    };
    let plane = ControlPlane::start(&assets);
    let admin = plane.client("admin").await;
    eventually("the API server", || async {
        Api::<DynamicObject>::all_with(admin.clone(), &resource("", "v1", "Namespace"))
            .get("default")
            .await
            .ok()
    })
    .await;
    let definition = resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let definitions = Api::<DynamicObject>::all_with(admin.clone(), &definition);
    for crd in crds() {
        definitions.create(&PostParams::default(), &object(crd)).await.unwrap();
    }
    let groups = resource("operators.coreos.com", "v1", "OperatorGroup");
    let csvs = resource("operators.coreos.com", "v1alpha1", "ClusterServiceVersion");
    let in_namespace = |namespace: &str, resource: &ApiResource| {
        Api::<DynamicObject>::namespaced_with(admin.clone(), namespace, resource)
    };
    for resource in [&groups, &csvs] {
        eventually("the new resources", || async {
            in_namespace("default", resource).list(&ListParams::default()).await.ok()
        })
        .await;
    }
    let namespaces =
        Api::<DynamicObject>::all_with(admin.clone(), &resource("", "v1", "Namespace"));
    for name in ["a", "b", "c", "d", "e", "shared"] {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"team": name}},
        });
        namespaces.create(&PostParams::default(), &object(namespace)).await.unwrap();
    }

    // Before it is granted anything, the server starts, is not ready, and says what it lacks.
    let patient = |name: &str| json!({"name": name, "limits": {"time": "20s"}});
    let configuration = configuration(&[patient("bundle-immutability"), patient("operator-group")]);
    let kubeconfig = plane.kubeconfig("opgate");
    let kubeconfig = kubeconfig.to_str().unwrap();
    let server = Server::start(BINARY, Some(&configuration), &["--kubeconfig", kubeconfig]);
    let unready = eventually("what is missing", || async {
        let (code, text) = server.get("/readyz").await;
        (code == 503 && text.matches("forbidden").count() >= 2).then_some(text)
    })
    .await;
    assert!(unready.contains("operators.coreos.com/v1/operatorgroups"), "{unready}");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "opgate"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "opgate"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "opgate"},
        "subjects": [{"kind": "User", "name": "opgate"}],
    });
    let rbac = |kind: &str| resource("rbac.authorization.k8s.io", "v1", kind);
    for (kind, value) in [("ClusterRole", role), ("ClusterRoleBinding", binding)] {
        let api = Api::<DynamicObject>::all_with(admin.clone(), &rbac(kind));
        api.create(&PostParams::default(), &object(value)).await.unwrap();
    }
    eventually("readiness", || async { (server.get("/readyz").await.0 == 200).then_some(()) })
        .await;

    // The webhook configuration is the one that opgate prints.
    let ca = server.certificates.folder.path().join("ca.crt");
    write_public(&ca, server.certificates.authority.certificate()).unwrap();
    let config = plane.files.path().join("opgate.yaml");
    std::fs::write(&config, &configuration).unwrap();
    let printed = Command::new(BINARY)
        .args(["manifests", "webhook", "--config"])
        .arg(&config)
        .arg("--url")
        .arg(format!("https://{}", server.address))
        .arg("--ca")
        .arg(&ca)
        .output()
        .unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let webhook: Value =
        serde_saphyr::from_str(&String::from_utf8(printed.stdout).unwrap()).unwrap();
    let webhooks = Api::<DynamicObject>::all_with(
        admin.clone(),
        &resource("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"),
    );
    webhooks.create(&PostParams::default(), &object(webhook)).await.unwrap();
    // A duplicate is refused by nobody but the webhook: when it is, the API server uses it.
    let of_a = in_namespace("a", &groups);
    let goose = "Goose.v1alpha1.birds.com";
    let post = PostParams::default();
    of_a.create(&post, &group("a", "first", &json!({"targetNamespaces": ["shared"]}), goose))
        .await
        .unwrap();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let second = group("a", "second", &json!({}), "");
    let message = eventually("the webhook", || async {
        match of_a.create(&dry, &second).await {
            Err(kube::Error::Api(status)) => Some(status.message),
            _ => None,
        }
    })
    .await;
    assert!(message.contains("Multiple OperatorGroup found in the same namespace"), "{message}");
    assert!(message.contains("admission webhook \"v"), "{message}");

    // Intersection: the same API for an intersecting namespace is refused, elsewhere it is not.
    let of_b = in_namespace("b", &groups);
    let same = group("b", "g", &json!({"targetNamespaces": ["shared", "b"]}), goose);
    let message = refused(of_b.create(&post, &same).await);
    assert!(message.contains("intersecting operatorgroups provide the same apis"), "{message}");
    assert!(message.contains("a/first") && message.contains(goose), "{message}");
    let selected = json!({"selector": {"matchLabels": {"team": "shared"}}});
    refused(of_b.create(&post, &group("b", "g", &selected, goose)).await);
    let apart = group("b", "g", &json!({"targetNamespaces": ["b"]}), goose);
    of_b.create(&post, &apart).await.unwrap();
    // The hijack by an update of the targets.
    let hijack = json!({"spec": {"targetNamespaces": ["shared"]}});
    let patch = PatchParams::default();
    let message = refused(of_b.patch("g", &patch, &Patch::Merge(&hijack)).await);
    assert!(message.contains("intersecting operatorgroups"), "{message}");
    let label = json!({"metadata": {"labels": {"touched": "yes"}}});
    of_b.patch("g", &patch, &Patch::Merge(&label)).await.unwrap();

    // Members: no group, wrong install mode, a conflict, and one that is fine.
    let goose_crd = "geese.birds.com";
    let own = ["OwnNamespace"];
    let of_c = in_namespace("c", &csvs);
    let message = refused(of_c.create(&post, &csv("c", "lonely.v1", &own, goose_crd)).await);
    assert!(message.contains("csv in namespace with no operatorgroups"), "{message}");
    let groups_of_c = in_namespace("c", &groups);
    let spec = json!({"targetNamespaces": ["c"]});
    groups_of_c.create(&post, &group("c", "g", &spec, "")).await.unwrap();
    let message =
        refused(of_c.create(&post, &csv("c", "all.v1", &["AllNamespaces"], goose_crd)).await);
    assert!(message.contains("OwnNamespace InstallModeType not supported"), "{message}");
    of_c.create(&post, &csv("c", "fine.v1", &own, goose_crd)).await.unwrap();
    let of_d = in_namespace("d", &csvs);
    let groups_of_d = in_namespace("d", &groups);
    groups_of_d
        .create(&post, &group("d", "g", &json!({"targetNamespaces": ["shared"]}), ""))
        .await
        .unwrap();
    let single = ["SingleNamespace"];
    let message = refused(of_d.create(&post, &csv("d", "goose.v1", &single, goose_crd)).await);
    assert!(message.contains("intersecting operatorgroups provide the same apis"), "{message}");

    // A group that is gone is in nobody's way.
    of_a.delete("first", &DeleteParams::default()).await.unwrap();
    eventually("the end of the old group", || async {
        of_d.create(&post, &csv("d", "goose.v1", &single, goose_crd)).await.ok()
    })
    .await;

    // Many at once: one wins.
    let of_e = in_namespace("e", &groups);
    let racing = (0..100).map(|number| {
        let spec = json!({"targetNamespaces": ["e"]});
        let (of_e, name) = (of_e.clone(), format!("racer-{number}"));
        async move {
            let racer = group("e", &name, &spec, "Duck.v1.birds.com");
            of_e.create(&PostParams::default(), &racer).await.is_ok()
        }
    });
    let won = join_all(racing).await.into_iter().filter(|won| *won).count();
    assert_eq!(won, 1);
}
