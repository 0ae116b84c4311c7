//! The registration follows what servers serve: real servers, and an API server that calls them by what is
//! registered, and by what was registered a moment ago.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use opgate_certs::{CertificateAuthority, write_private};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::{
    Certificates, Client, ConfigMap, Server, configuration, recorded_review, wait_until,
};

use crate::BINARY;

const GROUP: &str = "admissionregistration.k8s.io";
const PLURAL: &str = "validatingwebhookconfigurations";

/// A cluster with the object that `opgate manifests all` makes.
fn cluster() -> FakeCluster {
    let cluster = FakeCluster::start();
    cluster.install_ledger("opgate-system");
    cluster.install("coordination.k8s.io", "v1", "leases", "Lease", Scope::Namespaced);
    cluster.install("events.k8s.io", "v1", "events", "Event", Scope::Namespaced);
    cluster.install(GROUP, "v1", PLURAL, "ValidatingWebhookConfiguration", Scope::Cluster);
    cluster.apply(GROUP, "v1", PLURAL, empty());
    let (group, plural) = ("discovery.k8s.io", "endpointslices");
    cluster.install(group, "v1", plural, "EndpointSlice", Scope::Namespaced);
    let slice = json!({
        "metadata": {
            "name": "opgate-1",
            "namespace": "opgate-system",
            "labels": {"kubernetes.io/service-name": "opgate"},
        },
        "endpoints": [{"conditions": {"ready": true}}],
    });
    cluster.apply(group, "v1", plural, slice);
    cluster
}

fn empty() -> Value {
    json!({"metadata": {
        "name": "opgate",
        "labels": {"opgate.dev/installation": "opgate-system"},
        "annotations": {"opgate.dev/owner": "opgate-system/opgate"},
    }})
}

/// The built-in policy under these names; none of them minds a slow machine.
fn configuration_named(names: &[&str]) -> String {
    let policy = |name: &&str| json!({"name": name, "module": "builtin:bundle-immutability", "limits": {"time": "20s"}});
    configuration(&names.iter().map(policy).collect::<Vec<_>>())
}

fn serve(cluster: &FakeCluster, files: &ConfigMap, name: &str, more: &[&str]) -> Server {
    let (config, kubeconfig) = (files.path("opgate.yaml"), cluster.kubeconfig());
    let certificates = Certificates::new();
    let (directory, authority) = (certificates.directory.path(), &certificates.authority);
    std::fs::write(directory.join("ca.crt"), authority.certificate()).unwrap();
    write_private(&directory.join("ca.key"), &authority.key()).unwrap();
    let mut arguments = vec!["--config", config.to_str().unwrap(), "--reload-interval", "20ms"];
    arguments.extend(["--kubeconfig", kubeconfig.to_str().unwrap()]);
    arguments.extend(["--installation", "opgate-system/opgate", "--pod-name", name]);
    arguments.extend(["--sync-timeout", "60s", "--drain-delay", "0s"]);
    arguments.extend(more);
    Server::start_with(BINARY, None, &arguments, certificates)
}

fn object(cluster: &FakeCluster) -> Value {
    cluster.stored(GROUP, PLURAL, "", "opgate").unwrap_or_default()
}

/// The paths of the webhooks.
fn paths(cluster: &FakeCluster) -> BTreeSet<String> {
    let object = object(cluster);
    let webhooks = object["webhooks"].as_array().cloned().unwrap_or_default();
    let path =
        |webhook: &Value| webhook["clientConfig"]["service"]["path"].as_str().map(str::to_owned);
    webhooks.iter().filter_map(path).collect()
}

async fn wait_registered(cluster: &FakeCluster, name: &str) {
    let only = |paths: &BTreeSet<String>| {
        !paths.is_empty() && paths.iter().all(|path| path.split('/').any(|part| part == name))
    };
    wait_until(&format!("a registration of {name}"), async || only(&paths(cluster))).await;
}

async fn wait_ready(server: &Server) {
    wait_until("readiness", async || server.get("/readyz").await.0 == 200).await;
}

type KnownServers = Arc<Mutex<Vec<(std::net::SocketAddr, Arc<CertificateAuthority>)>>>;

/// Calls servers all the while, by each path that is registered and that was a moment ago.
struct ApiServer {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    errors: Arc<Mutex<Vec<String>>>,
    servers: KnownServers,
    task: tokio::task::JoinHandle<()>,
}

impl ApiServer {
    fn start(cluster: &Arc<FakeCluster>) -> Self {
        let (ends, calls) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let wrong = Arc::<Mutex<Vec<String>>>::default();
        let servers = KnownServers::default();
        let cluster = cluster.clone();
        let (end, count, errors, list) =
            (ends.clone(), calls.clone(), wrong.clone(), servers.clone());
        let task = tokio::spawn(async move {
            let (mut before, review) = (BTreeSet::new(), recorded_review("007"));
            while !end.load(Ordering::Relaxed) {
                let now = paths(&cluster);
                let all = list.lock().clone();
                for (address, authority) in all {
                    let mut client = match Client::connect(address, &authority).await {
                        Ok(client) => client,
                        Err(error) => {
                            errors.lock().push(error.to_string());
                            continue;
                        }
                    };
                    for path in now.union(&before) {
                        let path = format!("{path}?timeout=30s");
                        let answer = client.post(&path, "application/json", review.clone()).await;
                        count.fetch_add(1, Ordering::Relaxed);
                        // Whatever a policy is called, it denies this.
                        match answer {
                            Ok(answer) if answer.body.contains("bundle.spec is immutable") => {}
                            other => errors.lock().push(format!("{path}: {other:?}")),
                        }
                    }
                }
                before = now;
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
        Self { stop: ends, calls, errors: wrong, servers, task }
    }

    /// It knows the server from now on.
    fn add_server(&self, server: &Server) {
        let directory = server.certificates.directory.path();
        let authority =
            CertificateAuthority::load(&directory.join("ca.crt"), &directory.join("ca.key"))
                .unwrap();
        self.servers.lock().push((server.address, Arc::new(authority)));
    }

    fn remove_server(&self, server: &Server) {
        self.servers.lock().retain(|(address, _)| *address != server.address);
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
        assert!(self.calls.load(Ordering::Relaxed) > 0);
        let wrong = self.errors.lock();
        assert!(
            wrong.is_empty(),
            "{} of {:?}: {:?}",
            wrong.len(),
            self.calls,
            &wrong[..wrong.len().min(3)]
        );
    }
}

const MANAGE_WEBHOOKS: &[&str] = &["--manage-webhooks"];

#[tokio::test(flavor = "multi_thread")]
async fn registration_update_fails_no_client_request() {
    let cluster = Arc::new(cluster());
    let mut files =
        [(); 2].map(|()| ConfigMap::new(&[("opgate.yaml", &configuration_named(&["old"]))]));
    let a = serve(&cluster, &files[0], "a", MANAGE_WEBHOOKS);
    let b = serve(&cluster, &files[1], "b", MANAGE_WEBHOOKS);
    wait_ready(&a).await;
    wait_ready(&b).await;
    wait_registered(&cluster, "old").await;
    let api = ApiServer::start(&cluster);
    api.add_server(&a);
    api.add_server(&b);
    // A policy gets another name, on one server after the other.
    let served =
        async |server: &Server| server.get("/policies").await.1.contains("\"name\":\"new\"");
    files[0].swap(&[("opgate.yaml", &configuration_named(&["new"]))]);
    wait_until("the new name", async || served(&a).await).await;
    wait_until("the one that waits", async || {
        let (one, other) = (a.get("/readyz?verbose").await.1, b.get("/readyz?verbose").await.1);
        one.contains("has another policy set")
            || other.contains("has another policy set")
            || one.contains("not followed yet")
    })
    .await;
    assert!(paths(&cluster).iter().all(|path| path.contains("old")));
    files[1].swap(&[("opgate.yaml", &configuration_named(&["new"]))]);
    wait_registered(&cluster, "new").await;
    // New servers, with yet another name; the old ones go one after the other.
    let third = ConfigMap::new(&[("opgate.yaml", &configuration_named(&["third"]))]);
    let c = serve(&cluster, &third, "c", MANAGE_WEBHOOKS);
    wait_ready(&c).await;
    api.add_server(&c);
    let d = serve(&cluster, &third, "d", MANAGE_WEBHOOKS);
    wait_ready(&d).await;
    api.add_server(&d);
    assert!(paths(&cluster).iter().all(|path| path.contains("new")));
    for old in [a, b] {
        api.remove_server(&old);
        // An API server that has just taken the address ends its call.
        let calls = api.calls.load(Ordering::Relaxed);
        wait_until("the end of calls", async || api.calls.load(Ordering::Relaxed) > calls + 8)
            .await;
        old.signal(rustix::process::Signal::TERM);
        let mut old = old;
        assert!(old.wait().success());
    }
    wait_registered(&cluster, "third").await;
    api.end().await;
    wait_until("one that is current", async || {
        c.metric("opgate_registration_stale").await == Some(0.0)
            && d.metric("opgate_registration_stale").await == Some(0.0)
    })
    .await;
    let (_, text) = c.get("/readyz?verbose").await;
    assert!(text.contains("[+]registration current, sha256:"), "{text}");
    let policies: Value = serde_json::from_str(&c.get("/policies").await.1).unwrap();
    assert!(policies["registration"].as_str().unwrap().contains("current"));
}

#[tokio::test(flavor = "multi_thread")]
async fn unmanaged_registration_is_reported_and_not_changed() {
    let cluster = cluster();
    let mut theirs = empty();
    theirs["webhooks"] = json!([{
        "name": "vbundles.core.rukpak.io",
        "clientConfig": {"caBundle": "UEVN", "service": {
            "namespace": "opgate-system", "name": "opgate", "path": "/validate/gone/other"}},
    }]);
    cluster.apply(GROUP, "v1", PLURAL, theirs);
    let before = object(&cluster);
    let files = ConfigMap::new(&[("opgate.yaml", &configuration_named(&["mine"]))]);
    let server = serve(&cluster, &files, "a", &[]);
    wait_ready(&server).await;
    let stale = async || server.metric("opgate_registration_stale").await;
    wait_until("one that is stale", async || stale().await == Some(1.0)).await;
    let (_, text) = server.get("/readyz?verbose").await;
    assert!(text.contains("[!]registration stale: vbundles.core.rukpak.io changes in "), "{text}");
    // Its names get an answer all the same, by the policy that it does not have; others get none.
    let mut client = server.connect().await;
    for (path, status, says) in [
        ("/validate/gone", 200, "bundle.spec is immutable"),
        ("/validate/gone/other", 200, "bundle.spec is immutable"),
        ("/validate/mine", 200, "bundle.spec is immutable"),
        ("/validate/never", 404, "there is no policy"),
        ("/validate/gone/never", 404, "there is no policy"),
    ] {
        let answer = client.post(path, "application/json", recorded_review("007")).await.unwrap();
        assert_eq!(
            (answer.status, answer.body.contains(says)),
            (status, true),
            "{path}: {}",
            answer.body
        );
    }
    assert_eq!(object(&cluster), before);
    // A registration without an owner, and an unreadable one: the server uses neither.
    cluster.apply(GROUP, "v1", PLURAL, json!({"metadata": {"name": "opgate"}}));
    wait_until("a word about it", async || {
        server.get("/readyz?verbose").await.1.contains("is not ours")
    })
    .await;
    cluster.forbid(GROUP, PLURAL);
    wait_until("nothing known", async || stale().await.is_none()).await;
    assert_eq!(server.get("/readyz").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_registration_is_restored_and_deleted_one_is_not() {
    let cluster = cluster();
    let files = ConfigMap::new(&[("opgate.yaml", &configuration_named(&["mine"]))]);
    let server = serve(&cluster, &files, "a", MANAGE_WEBHOOKS);
    wait_registered(&cluster, "mine").await;
    let written = object(&cluster);
    let bundle = written["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap();
    assert!(!bundle.is_empty());
    let mut changed = written.clone();
    changed["webhooks"][0]["failurePolicy"] = json!("Ignore");
    cluster.apply(GROUP, "v1", PLURAL, changed);
    wait_until("what was there", async || object(&cluster)["webhooks"] == written["webhooks"])
        .await;
    wait_until("the figure", async || {
        server.metric("opgate_registration_restored_total").await == Some(1.0)
    })
    .await;
    let applied = "opgate_registration_last_applied_timestamp_seconds";
    assert!(server.metric(applied).await.is_some_and(|at| at > 1e9));
    let log = server.log();
    let line = log.iter().find(|line| {
        line["message"].as_str().is_some_and(|m| m.contains("restored after an external change"))
    });
    assert!(line.unwrap()["changes"].as_str().unwrap().contains("failurePolicy"));
    cluster.delete(GROUP, PLURAL, "", "opgate");
    wait_until("a word about it", async || {
        server
            .get("/readyz?verbose")
            .await
            .1
            .contains("there is no ValidatingWebhookConfiguration opgate")
    })
    .await;
    assert_eq!(server.metric("opgate_registration_stale").await, Some(1.0));
    assert_eq!(object(&cluster), Value::Null);
    // If a user creates the object again, the server fills it in.
    cluster.apply(GROUP, "v1", PLURAL, empty());
    wait_registered(&cluster, "mine").await;
}

#[test]
fn the_flag_needs_an_installation_and_a_cluster() {
    for (arguments, says) in [
        (&["--manage-webhooks"][..], "--installation"),
        (
            &["--manage-webhooks", "--installation", "a/b", "--cluster-source", "none"],
            "cannot be `none`",
        ),
    ] {
        let certificates = Certificates::new();
        let mut command = std::process::Command::new(BINARY);
        command.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--ops-listen",
            "127.0.0.1:0",
            "--tls-dir",
        ]);
        command.arg(certificates.directory.path()).args(arguments);
        command
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("OPGATE_INSTALLATION");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(says), "{said}");
    }
}
