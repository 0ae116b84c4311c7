//! A cluster for an installation: a real API server, or the fake one with the part of admission that calls
//! webhooks.
//!
//! ```text
//! write ─┬─▶ kube-apiserver ─▶ EndpointSlices ─▶ webhook      with KUBEBUILDER_ASSETS
//!        └─▶ webhooks of the stored configuration ─▶ WebhookClient ─▶ webhook, then the fake stores it
//! ```

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::DynamicObject;
use kube::{Api, Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use testkit::control_plane::ControlPlane;
use testkit::fake_api_server::{FakeCluster, Scope};
use testkit::objects::{object, resource};
use testkit::webhook_client::{Endpoints, Protocol, WebhookClient};
use testkit::{SERVICE, reviews};

/// Where everything is installed.
pub(crate) const NAMESPACE: &str = "opgate-system";

const WEBHOOK_CONFIGURATION: (&str, &str) =
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");

/// What an installation consists of, and what it writes, in addition to the resources of
/// `reviews::cluster`.
const RESOURCE_TYPES: [(&str, &str, &str, &str, Scope); 18] = [
    ("", "v1", "secrets", "Secret", Scope::Namespaced),
    ("", "v1", "services", "Service", Scope::Namespaced),
    ("", "v1", "pods", "Pod", Scope::Namespaced),
    ("", "v1", "resourcequotas", "ResourceQuota", Scope::Namespaced),
    ("", "v1", "events", "Event", Scope::Namespaced),
    ("events.k8s.io", "v1", "events", "Event", Scope::Namespaced),
    ("coordination.k8s.io", "v1", "leases", "Lease", Scope::Namespaced),
    ("apps", "v1", "deployments", "Deployment", Scope::Namespaced),
    ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", Scope::Namespaced),
    ("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", Scope::Namespaced),
    ("rbac.authorization.k8s.io", "v1", "roles", "Role", Scope::Namespaced),
    ("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", Scope::Namespaced),
    ("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", Scope::Cluster),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        Scope::Cluster,
    ),
    ("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", Scope::Namespaced),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        Scope::Cluster,
    ),
    ("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor", Scope::Namespaced),
    ("monitoring.coreos.com", "v1", "prometheusrules", "PrometheusRule", Scope::Namespaced),
];

enum ApiServer {
    Real(Box<ControlPlane>),
    Fake(FakeCluster),
}

/// One cluster.
pub(crate) struct TestCluster {
    plane: Mutex<ApiServer>,
    pub(crate) admin: Client,
    kubeconfig: PathBuf,
    is_real: bool,
    /// What the fake calls, and with what: like an API server, it has separate connections for each
    /// CA bundle.
    endpoints: Endpoints,
    webhook_clients: Mutex<HashMap<String, Arc<WebhookClient>>>,
}

impl TestCluster {
    /// A real one. Returns `None` and prints a line if there is none. It needs an address that is
    /// not loopback.
    pub(crate) async fn real() -> Option<Self> {
        if std::env::var_os("KUBEBUILDER_ASSETS").is_some() && host_address().is_none() {
            eprintln!("skipped: this machine has no address that Endpoints may have");
            return None;
        }
        let plane = ControlPlane::start_with(&[
            // The API server calls webhooks at the addresses of EndpointSlices: no proxy forwards a
            // ClusterIP here.
            "--enable-aggregator-routing=true",
            // These plugins need controllers that the test does not run.
            "--disable-admission-plugins=ServiceAccount,ResourceQuota",
        ])
        .await?;
        plane.install().await;
        let (admin, kubeconfig) = (plane.client("admin").await, plane.kubeconfig("admin"));
        Some(Self::of(ApiServer::Real(Box::new(plane)), admin, kubeconfig))
    }

    pub(crate) async fn fake() -> Self {
        let fake = reviews::cluster();
        for (group, version, plural, kind, scope) in RESOURCE_TYPES {
            fake.install(group, version, plural, kind, scope);
        }
        let kubeconfig = fake.kubeconfig();
        let config = Kubeconfig::read_from(&kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let admin = Client::try_from(config.unwrap()).unwrap();
        Self::of(ApiServer::Fake(fake), admin, kubeconfig)
    }

    fn of(plane: ApiServer, admin: Client, kubeconfig: PathBuf) -> Self {
        let is_real = matches!(plane, ApiServer::Real(_));
        let (endpoints, callers) = (Endpoints::default(), Mutex::default());
        Self {
            plane: Mutex::new(plane),
            admin,
            kubeconfig,
            is_real,
            endpoints,
            webhook_clients: callers,
        }
    }

    pub(crate) fn is_real(&self) -> bool {
        self.is_real
    }

    /// Where pods listen.
    pub(crate) fn pod_address(&self) -> SocketAddr {
        match host_address() {
            Some(address) if self.is_real => SocketAddr::new(address, 0),
            _ => SocketAddr::from(([127, 0, 0, 1], 0)),
        }
    }

    /// The API server ends without a word, and is there again.
    pub(crate) fn restart(&self) {
        match &mut *self.plane.lock().unwrap() {
            ApiServer::Real(plane) => plane.restart_apiserver(),
            ApiServer::Fake(fake) => fake.cut_watches(),
        }
    }

    /// The API of objects like this one.
    pub(crate) fn api(&self, like: &Value) -> Api<DynamicObject> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = text(&like["apiVersion"]);
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let of = resource(group, version, &text(&like["kind"]));
        match like["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.admin.clone(), namespace, &of),
            None => Api::all_with(self.admin.clone(), &of),
        }
    }

    /// The stored object of this kind and name, unchanged.
    pub(crate) async fn get(&self, like: &Value) -> Option<Value> {
        let found = self.api(like).get_opt(like["metadata"]["name"].as_str().unwrap()).await;
        found.ok().flatten().map(|object| serde_json::to_value(object).unwrap())
    }

    /// All objects of a kind.
    pub(crate) async fn list(&self, like: &Value) -> Vec<Value> {
        let found = self.api(like).list(&ListParams::default()).await;
        let items = found.map(|list| list.items).unwrap_or_default();
        items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
    }

    /// What `kubectl apply --server-side` does. The fake merges.
    pub(crate) async fn apply(&self, object_: &Value) -> kube::Result<()> {
        let (api, name) = (self.api(object_), object_["metadata"]["name"].as_str().unwrap());
        if self.is_real {
            let apply = PatchParams::apply("kubectl").force();
            return api.patch(name, &apply, &Patch::Apply(object_)).await.map(drop);
        }
        match api.create(&PostParams::default(), &object(object_.clone())).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let merged = Patch::Merge(object_);
                api.patch(name, &PatchParams::default(), &merged).await.map(drop)
            }
            created => created.map(drop),
        }
    }

    /// What `kubectl patch --type merge` does.
    pub(crate) async fn merge(&self, like: &Value, patch: &Value) -> kube::Result<()> {
        let name = like["metadata"]["name"].as_str().unwrap();
        let patch = Patch::Merge(patch);
        self.api(like).patch(name, &PatchParams::default(), &patch).await.map(drop)
    }

    /// Deletes an object; `false` if there was none.
    pub(crate) async fn delete(&self, like: &Value) -> bool {
        let name = like["metadata"]["name"].as_str().unwrap();
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.api(like).delete(name, &now).await.is_ok()
    }

    /// The stored webhook configuration.
    pub(crate) async fn webhook_configuration(&self) -> Option<Value> {
        self.get(&object_reference(WEBHOOK_CONFIGURATION, None, "opgate")).await
    }

    /// A kubeconfig for a pod, with a token of its account in a file that is renewed nowhere: it lives for an hour.
    pub(crate) async fn credentials(&self, account: &str, directory: &Path) -> PathBuf {
        if !self.is_real {
            return self.kubeconfig.clone();
        }
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
        let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}});
        let request = hyper::Request::post(path).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(&asked).unwrap()).unwrap();
        let answer: Value = self.admin.request(request).await.unwrap();
        std::fs::write(directory.join("token"), answer["status"]["token"].as_str().unwrap())
            .unwrap();
        let text = std::fs::read_to_string(&self.kubeconfig).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config["users"][0]["user"] = json!({"tokenFile": directory.join("token")});
        let path = directory.join("kubeconfig");
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Says where the Service leads from now on: what the controller of `EndpointSlices` does. One slice for each
    /// pod, because here pods differ by their ports.
    pub(crate) async fn publish_endpoints(&self, ready: &[(String, SocketAddr)], gone: &[String]) {
        for (_, address) in ready {
            if !self.endpoints.all().contains(address) {
                self.endpoints.add(*address);
            }
        }
        for address in self.endpoints.all() {
            if !ready.iter().any(|(_, ready)| *ready == address) {
                self.endpoints.remove(address);
            }
        }
        for (pod, address) in ready {
            let slice = json!({
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": pod,
                    "namespace": NAMESPACE,
                    "labels": {"kubernetes.io/service-name": "opgate"},
                },
                "addressType": "IPv4",
                "ports": [{"name": "webhook", "port": address.port(), "protocol": "TCP"}],
                "endpoints": [{"addresses": [address.ip().to_string()], "conditions": {"ready": true}}],
            });
            if self.get(&slice).await.is_none() {
                let _ = self.apply(&slice).await;
            }
        }
        for pod in gone {
            let slice =
                object_reference(("discovery.k8s.io/v1", "EndpointSlice"), Some(NAMESPACE), pod);
            self.delete(&slice).await;
        }
    }

    /// Sends what a client writes through admission.
    ///
    /// # Errors
    /// Why it was not stored.
    pub(crate) async fn write(&self, operation: &str, new: &Value) -> Result<(), String> {
        let api = self.api(new);
        let name = new["metadata"]["name"].as_str().unwrap();
        if !self.is_real {
            let old = self.get(new).await;
            let both = match operation {
                "DELETE" => (None, old),
                _ => (Some(new.clone()), old),
            };
            self.admit(operation, both).await?;
        }
        let object = object(new.clone());
        let done = match operation {
            "CREATE" => api.create(&PostParams::default(), &object).await.map(drop),
            "UPDATE" => {
                let patch = Patch::Merge(new);
                api.patch(name, &PatchParams::default(), &patch).await.map(drop)
            }
            _ => api.delete(name, &DeleteParams::default()).await.map(drop),
        };
        done.map_err(|error| error.to_string())
    }

    /// The webhooks that want a request must allow it.
    async fn admit(
        &self,
        operation: &str,
        (new, old): (Option<Value>, Option<Value>),
    ) -> Result<(), String> {
        let object = new.as_ref().or(old.as_ref()).ok_or("not found")?.clone();
        let version = object["apiVersion"].as_str().unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = object["kind"].as_str().unwrap();
        let plural = resource(group, version, kind).plural;
        for registered in self.list(&object_reference(WEBHOOK_CONFIGURATION, None, "")).await {
            for webhook in registered["webhooks"].as_array().into_iter().flatten() {
                let has = |rule: &Value, name: &str, value: &str| {
                    let values = rule[name].as_array().unwrap();
                    values.iter().any(|known| known == value || known == "*")
                };
                let wants = webhook["rules"].as_array().unwrap().iter().any(|rule| {
                    has(rule, "apiGroups", group)
                        && has(rule, "resources", &plural)
                        && has(rule, "operations", operation)
                });
                if !wants {
                    continue;
                }
                let review = json!({
                    "apiVersion": "admission.k8s.io/v1",
                    "kind": "AdmissionReview",
                    "request": {
                        "uid": format!("{operation}-{}", object["metadata"]["name"]),
                        "kind": {"group": group, "version": version, "kind": kind},
                        "resource": {"group": group, "version": version, "resource": plural},
                        "name": object["metadata"]["name"],
                        "namespace": object["metadata"]["namespace"].as_str().unwrap_or_default(),
                        "operation": operation,
                        "userInfo": {"username": "admin", "groups": ["system:masters"]},
                        "object": new,
                        "oldObject": old,
                        "dryRun": false,
                    },
                });
                self.call_webhook(webhook, &review).await?;
            }
        }
        Ok(())
    }

    async fn call_webhook(&self, webhook: &Value, review: &Value) -> Result<(), String> {
        let name = webhook["name"].as_str().unwrap_or_default();
        let to = &webhook["clientConfig"];
        let bundle = to["caBundle"].as_str().unwrap_or_default();
        let caller = self.webhook_clients.lock().unwrap().get(bundle).cloned();
        let caller = if let Some(caller) = caller {
            caller
        } else {
            let timeout = Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10));
            let tls = client_trusting(bundle)?;
            let caller =
                WebhookClient::with_tls(Protocol::Http1, &self.endpoints, (tls, SERVICE), timeout);
            let mut callers = self.webhook_clients.lock().unwrap();
            callers.entry(bundle.to_owned()).or_insert(Arc::new(caller)).clone()
        };
        let path = to["service"]["path"].as_str().unwrap_or("/");
        let answer = caller.call(path, &Bytes::from(review.to_string())).await;
        let answer = answer.map_err(|why| format!("failed calling webhook {name:?}: {why}"))?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|e| e.to_string())?;
        if answer["response"]["allowed"] == true {
            return Ok(());
        }
        Err(format!("{name:?} denied the request: {}", answer["response"]["status"]["message"]))
    }
}

/// A client that trusts a `caBundle`.
fn client_trusting(bundle: &str) -> Result<rustls::ClientConfig, String> {
    let pem = decoded(bundle);
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|e| format!("caBundle: {e}"))?;
        roots.add(certificate).map_err(|e| format!("caBundle: {e}"))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// Base64, as Kubernetes writes it.
pub(crate) fn decoded(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => Some(c - b'A'),
        b'a'..=b'z' => Some(c - b'a' + 26),
        b'0'..=b'9' => Some(c - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let digits: Vec<u8> = text.bytes().filter_map(digit).collect();
    let mut bytes = Vec::with_capacity(digits.len());
    for four in digits.chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}

/// An object that names another one.
pub(crate) fn object_reference(
    (version, kind): (&str, &str),
    namespace: Option<&str>,
    name: &str,
) -> Value {
    let mut like = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
    if let Some(namespace) = namespace {
        like["metadata"]["namespace"] = namespace.into();
    }
    like
}

/// An address of this machine that is not loopback. Nothing is sent: the system only chooses a route.
fn host_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}
