//! A real control plane: etcd and one or two API servers in separate processes, from the directory that
//! `KUBEBUILDER_ASSETS` names (the convention of envtest), and what tests put into it.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DynamicObject;
use kube::{Api, Client, Config};
use opgate_certs::{CertificateAuthority, write_private, write_public};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::objects::{crds, csvs, group, groups, namespace, object, resource, subscriptions};
use crate::{Server, configuration};

/// Maximum time until a condition is true, also if a check never ends, and the time between two checks.
const MAX_WAIT: Duration = Duration::from_secs(180);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Requests at a time, where many objects are created.
const MAX_CONCURRENT_CREATES: usize = 32;

/// A control plane; killed when dropped.
pub struct ControlPlane {
    etcd: Child,
    etcd_address: String,
    /// The first one is meant where a method names none.
    apiservers: Vec<ApiServer>,
    /// The directory with the programs.
    assets: PathBuf,
    /// Its files; tests may add to them.
    pub files: TempDir,
    has_answered: bool,
    _authority: CertificateAuthority,
}

/// One of its API servers.
struct ApiServer {
    child: Child,
    /// Starts it, again and again.
    command: Command,
    address: String,
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let has_ended = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_some());
        let is_broken = !self.has_answered
            || self.apiservers.iter_mut().any(|server| has_ended(&mut server.child))
            || has_ended(&mut self.etcd);
        if std::thread::panicking() && is_broken {
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
        let apiservers = self.apiservers.iter_mut().map(|server| &mut server.child);
        for child in apiservers.chain([&mut self.etcd]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Arguments of an API server without a controller that creates ServiceAccounts.
const DEFAULT_ARGUMENTS: [&str; 1] = ["--disable-admission-plugins=ServiceAccount"];

/// A command that writes its log to a file.
fn program(assets: &Path, log: &str, program: &str) -> Command {
    let mut command = Command::new(assets.join(program));
    command.stdout(Stdio::null()).stderr(std::fs::File::create(log).unwrap());
    command
}

/// A port that is free now: another process that asks the system for one meanwhile may get it.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl ControlPlane {
    /// Starts one and waits until it answers, with users `admin` (may do everything) and `opgate`
    /// (may do what RBAC grants). Returns `None` and prints a line where there are no binaries.
    pub async fn start() -> Option<Self> {
        Self::start_with(&DEFAULT_ARGUMENTS).await
    }

    /// The same, with these arguments of the API server in addition to those that are always
    /// needed.
    pub async fn start_with(arguments: &[&str]) -> Option<Self> {
        let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from) else {
            eprintln!(
                "skipped: KUBEBUILDER_ASSETS does not name a directory with kube-apiserver and etcd"
            );
            return None;
        };
        let mut plane = Self::spawn(&assets, arguments);
        plane.wait_for_answer().await;
        plane.has_answered = true;
        Some(plane)
    }

    fn spawn(assets: &Path, arguments: &[&str]) -> Self {
        let files = tempfile::tempdir().unwrap();
        let at = |name: &str| files.path().join(name).display().to_string();
        let authority = CertificateAuthority::create(1).unwrap();
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let issued = authority.issue(&names, 1).unwrap();
        write_public(Path::new(&at("ca.crt")), authority.certificate()).unwrap();
        write_public(Path::new(&at("tls.crt")), &issued.certificate).unwrap();
        write_private(Path::new(&at("tls.key")), &issued.key).unwrap();
        // The group decides what share of the API server's attention an account of a pod gets.
        let tokens = "\
admin,admin,1,system:masters
opgate,opgate,2,system:serviceaccounts
opgate-account,system:serviceaccount:opgate-system:opgate,3,system:serviceaccounts
tenant-account,system:serviceaccount:tenant:writer,4,system:serviceaccounts
";
        write_private(Path::new(&at("tokens.csv")), tokens).unwrap();
        let etcd_address = format!("http://127.0.0.1:{}", free_port());
        let peer = format!("http://127.0.0.1:{}", free_port());
        let mut etcd_command = program(assets, &at("etcd.log"), "etcd");
        etcd_command.args(["--data-dir", &at("etcd")]);
        etcd_command.args(["--listen-client-urls", &etcd_address]);
        etcd_command.args(["--advertise-client-urls", &etcd_address]);
        etcd_command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        etcd_command.args(["--initial-cluster", &format!("default={peer}")]);
        let etcd = etcd_command.spawn().unwrap_or_else(|e| panic!("etcd: {e}"));
        let mut plane = Self {
            etcd,
            etcd_address,
            apiservers: Vec::new(),
            assets: assets.to_owned(),
            files,
            has_answered: false,
            _authority: authority,
        };
        plane.spawn_apiserver(arguments);
        plane
    }

    fn spawn_apiserver(&mut self, arguments: &[&str]) {
        let at = |name: &str| self.files.path().join(name).display().to_string();
        let port = free_port();
        let number = self.apiservers.len();
        let log = at(if number == 0 { "kube-apiserver.log" } else { "kube-apiserver-2.log" });
        let mut command = program(&self.assets, &log, "kube-apiserver");
        command.args([
            &format!("--etcd-servers={}", self.etcd_address),
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
        ]);
        command.args(arguments);
        let child = command.spawn().unwrap_or_else(|e| panic!("kube-apiserver: {e}"));
        let address = format!("https://127.0.0.1:{port}");
        self.apiservers.push(ApiServer { child, command, address });
    }

    /// Starts a second API server of the same etcd, and waits until it answers. Its caches lag on their
    /// own.
    pub async fn start_second_apiserver(&mut self) {
        self.spawn_apiserver(&DEFAULT_ARGUMENTS);
        self.wait_for_answer().await;
    }

    async fn wait_for_answer(&self) {
        let admin = self.client_at(self.apiservers.len() - 1, "admin").await;
        eventually("the API server", || async {
            Api::<DynamicObject>::all_with(admin.clone(), &resource("", "v1", "Namespace"))
                .get("default")
                .await
                .ok()
        })
        .await;
    }

    /// Kills the API server and starts it again; returns before it answers.
    pub fn restart_apiserver(&mut self) {
        let ApiServer { child, command, .. } = &mut self.apiservers[0];
        child.kill().unwrap();
        child.wait().unwrap();
        *child = command.spawn().unwrap();
    }

    /// A kubeconfig of one of the users.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.kubeconfig_at(0, user)
    }

    /// A kubeconfig of one of the users for one of the API servers.
    pub fn kubeconfig_at(&self, apiserver: usize, user: &str) -> PathBuf {
        let path = self.files.path().join(format!("{user}-{apiserver}.kubeconfig"));
        let address = &self.apiservers[apiserver].address;
        let ca = self.files.path().join("ca.crt");
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": address, "certificate-authority": ca}}],
            "users": [{"name": user, "user": {"token": user}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": user}}],
            "current-context": "c",
        });
        write_private(&path, &kubeconfig.to_string()).unwrap();
        path
    }

    /// A client of one of the users.
    pub async fn client(&self, user: &str) -> Client {
        self.client_at(0, user).await
    }

    /// A client of one of the users that shows each response. Other clients send requests again that the API server
    /// answers with 429, 503 or 504, for minutes.
    pub async fn client_without_retries(&self, user: &str) -> Client {
        let mut config = self.config(0, user).await;
        config.default_retry = false;
        Client::try_from(config).unwrap()
    }

    /// A client of one of the users for one of the API servers.
    pub async fn client_at(&self, apiserver: usize, user: &str) -> Client {
        Client::try_from(self.config(apiserver, user).await).unwrap()
    }

    /// A client of one of the users that acts as another one, with all permissions.
    pub async fn client_as(&self, user: &str, other: &str) -> Client {
        let mut config = self.config(0, user).await;
        config.auth_info.impersonate = Some(other.to_owned());
        config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        Client::try_from(config).unwrap()
    }

    async fn config(&self, apiserver: usize, user: &str) -> Config {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig_at(apiserver, user)).unwrap();
        let options = KubeConfigOptions::default();
        Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap()
    }

    /// Installs the CRDs and waits until their objects can be listed.
    pub async fn install(&self) {
        let admin = self.client("admin").await;
        let definition = resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let definitions = Api::<DynamicObject>::all_with(admin.clone(), &definition);
        for crd in crds() {
            definitions.create(&PostParams::default(), &object(crd)).await.unwrap();
        }
        for resource in [groups(), csvs(), subscriptions()] {
            let api = Api::<DynamicObject>::all_with(admin.clone(), &resource);
            eventually("the new resources", || async {
                api.list(&ListParams::default()).await.ok()
            })
            .await;
        }
    }

    /// Lets the user `opgate` read everything.
    pub async fn grant(&self) {
        let verbs = ["get", "list", "watch"];
        self.grant_only(&json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}])).await;
    }

    /// Lets the user `opgate` read everything, and write what the servers of an installation do, in the
    /// namespace `opgate-system`, which is created.
    pub async fn grant_installation(&self) {
        self.namespaces(["opgate-system".to_owned()]).await;
        let all = ["get", "list", "watch", "create", "update", "patch", "delete"];
        self.grant_only(&json!([
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["configmaps", "events"], "verbs": all},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": all},
        ]))
        .await;
    }

    /// Lets the user `opgate` do what these rules of a role allow.
    pub async fn grant_only(&self, rules: &Value) {
        let admin = self.client("admin").await;
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "opgate"},
            "rules": rules,
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "opgate"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "opgate"},
            "subjects": [{"kind": "User", "name": "opgate"}],
        });
        for (kind, value) in [("ClusterRole", role), ("ClusterRoleBinding", binding)] {
            let resource = resource("rbac.authorization.k8s.io", "v1", kind);
            let api = Api::<DynamicObject>::all_with(admin.clone(), &resource);
            api.create(&PostParams::default(), &object(value)).await.unwrap();
        }
    }

    /// Creates Namespaces, some at a time.
    pub async fn namespaces(&self, names: impl IntoIterator<Item = String>) {
        let namespaces = Api::<DynamicObject>::all_with(
            self.client("admin").await,
            &resource("", "v1", "Namespace"),
        );
        iter(names)
            .for_each_concurrent(MAX_CONCURRENT_CREATES, async |name| {
                namespaces.create(&PostParams::default(), &namespace(&name)).await.unwrap();
            })
            .await;
    }

    /// Creates OperatorGroups, some at a time.
    pub async fn groups(&self, objects: impl IntoIterator<Item = DynamicObject>) {
        let admin = self.client("admin").await;
        iter(objects)
            .for_each_concurrent(MAX_CONCURRENT_CREATES, async |group| {
                let namespace = group.metadata.namespace.clone().unwrap();
                let api =
                    Api::<DynamicObject>::namespaced_with(admin.clone(), &namespace, &groups());
                api.create(&PostParams::default(), &group).await.unwrap();
            })
            .await;
    }

    /// A configuration of the policy `operator-group` with its defaults; in an unoptimised build
    /// an evaluation has `time`.
    pub fn operator_group(time: &str) -> String {
        let mut policy = json!({"name": "operator-group"});
        if cfg!(debug_assertions) {
            policy["limits"] = json!({"time": time});
        }
        configuration(&[policy])
    }

    /// Registers the webhook ([`Self::register`]) and waits until the API server asks it. For that
    /// a group is stored in the namespace `probe` the first time; no other is created there.
    pub async fn enforce(
        &self,
        binary: &str,
        configuration: &str,
        address: SocketAddr,
        servers: &[Server],
    ) {
        let admin = self.client("admin").await;
        let probe = Api::<DynamicObject>::namespaced_with(admin, "probe", &groups());
        if probe.get_opt("g").await.unwrap().is_none() {
            self.namespaces(["probe".to_owned()]).await;
            self.groups([group("probe", "g", &json!({"targetNamespaces": ["probe"]}), "")]).await;
        }
        self.register(binary, configuration, address, servers).await;
        let second = group("probe", "second", &json!({}), "");
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        eventually("the webhook", || async {
            match probe.create(&dry, &second).await {
                Err(kube::Error::Api(status)) if status.code == 403 => Some(()),
                _ => None,
            }
        })
        .await;
    }

    /// Registers what `opgate manifests webhook` prints for this configuration, for a Service whose
    /// address is this port of this machine; these servers are behind it. The API server uses it a
    /// little later. A Service, because to a URL of this machine an API server keeps one connection
    /// of HTTP/2, and so meets one replica only.
    pub async fn register<'s>(
        &self,
        binary: &str,
        configuration: &str,
        address: SocketAddr,
        servers: impl IntoIterator<Item = &'s Server>,
    ) {
        let admin = self.client("admin").await;
        let apply = PatchParams::apply("tests").force();
        let (name, namespace) = ("opgate", "opgate-system");
        let of_all = resource("", "v1", "Namespace");
        let service = json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        let parent =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let namespaces = Api::<DynamicObject>::all_with(admin.clone(), &of_all);
        namespaces.patch(namespace, &apply, &Patch::Apply(&parent)).await.unwrap();
        let services = resource("", "v1", "Service");
        let services = Api::<DynamicObject>::namespaced_with(admin.clone(), namespace, &services);
        services.patch(name, &apply, &Patch::Apply(&service)).await.unwrap();

        let config = self.files.path().join("opgate.yaml");
        std::fs::write(&config, configuration).unwrap();
        let mut command = Command::new(binary);
        command.args(["manifests", "webhook", "--config"]).arg(&config);
        command.arg("--service").arg(format!("{namespace}/{name}:{}", address.port()));
        for server in servers {
            let ca = server.certificates.directory.path().join("ca.crt");
            write_public(&ca, server.certificates.authority.certificate()).unwrap();
            command.arg("--ca").arg(ca);
        }
        let printed = command.output().unwrap();
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let webhook: Value =
            serde_saphyr::from_str(&String::from_utf8(printed.stdout).unwrap()).unwrap();
        let webhooks = Api::<DynamicObject>::all_with(
            admin,
            &resource("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"),
        );
        let name = webhook["metadata"]["name"].as_str().unwrap();
        webhooks.patch(name, &apply, &Patch::Apply(&webhook)).await.unwrap();
    }
}

/// Looks until there is something.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    let found = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let found = tokio::time::timeout(MAX_WAIT, found).await;
    found.unwrap_or_else(|_| panic!("{what} does not come within {} s", MAX_WAIT.as_secs()))
}
