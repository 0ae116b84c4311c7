//! What the end to end tests and the benchmarks share: a server in a separate process, a client
//! over real TLS, fake and real API servers, reviews, catalogs and hostile policies.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use opgate_certs::{CertificateAuthority, write_private, write_public};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub mod audited_cluster;
pub mod bombs;
pub mod catalog;
pub mod compared_load;
pub mod control_plane;
pub mod csv;
pub mod editor;
pub mod fake_api_server;
pub mod fleet;
pub mod forwarder;
pub mod large;
pub mod objects;
pub mod otlp_collector;
pub mod promql;
pub mod registry;
pub mod reviews;
pub mod webhook_client;
pub mod worst;

/// Name in the serving certificates of the tests.
pub const HOST: &str = "opgate.test";

/// Name of the Service in these certificates.
pub const SERVICE: &str = "opgate.opgate-system.svc";

/// Nothing that tests wait for takes this long; what does has failed.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

/// Looks until it is so, with pauses that leave the processors to what is waited for.
///
/// # Panics
/// Where it does not come.
pub async fn wait_until(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + WAIT_TIMEOUT;
    while !look().await {
        assert!(Instant::now() < end, "{what}: not within {WAIT_TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A recorded review, by the start of its file's name.
pub fn recorded_review(start: &str) -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("reviews");
    let entries = std::fs::read_dir(&directory).unwrap().map(|e| e.unwrap().path());
    let is_it = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(start);
    let path = entries.into_iter().find(is_it).unwrap_or_else(|| panic!("no review {start}"));
    std::fs::read_to_string(path).unwrap()
}

/// Path of a hostile policy's component.
pub fn hostile_component(name: &str) -> PathBuf {
    Path::new(env!("HOSTILE")).join(name).with_extension("wasm")
}

/// Path of the component of an example.
pub fn example_component(name: &str) -> PathBuf {
    Path::new(env!("EXAMPLES")).join(name).with_extension("wasm")
}

/// A configuration's text with these policies.
pub fn configuration(policies: &[Value]) -> String {
    let configuration = json!({
        "apiVersion": "opgate.dev/v1alpha1",
        "kind": "Configuration",
        "policies": policies,
    });
    configuration.to_string()
}

/// The built-in policy, with all the time that an unoptimised build on a busy machine may need.
pub fn builtin_policy() -> Value {
    json!({"name": "bundle-immutability", "limits": {"time": "20s"}})
}

/// A policy entry for the hostile policy `samples`, with what it may list, and settings.
pub fn samples(granted: &[&str], settings: &Value) -> Value {
    let limits = json!({"time": "10s"});
    let secrets = ["v1/secrets"];
    json!({
        "name": "samples", "module": hostile_component("samples"), "limits": limits, "allowedReads": secrets,
        "allowedSamples": granted, "settings": settings,
    })
}

/// A policy entry for the hostile policy `misbehaves` with these settings.
pub fn misbehaves(name: &str, settings: &Value) -> Value {
    json!({"name": name, "module": hostile_component("misbehaves"), "settings": settings})
}

/// The policy that reports what it reads of the resource that a Bundle is named after, with the
/// time that an unoptimised build on a busy machine may need.
pub fn polls() -> Value {
    let granted = [
        "opgate.dev/v1alpha1/serverversions",
        "packages.operators.coreos.com/v1/packagemanifests",
        "config.openshift.io/v1/clusterversions",
        "config.openshift.io/v1/featuregates",
        "v1/componentstatuses",
    ];
    let limits = json!({"time": "20s"});
    json!({"name": "polls", "module": hostile_component("polls"), "allowedReads": granted, "limits": limits})
}

/// A CREATE of a Bundle, as an API server sends it.
pub fn create_bundle(uid: &str, name: &str, spec: &Value) -> Value {
    let kind = json!({"group": "core.rukpak.io", "version": "v1alpha1", "kind": "Bundle"});
    let resource = json!({"group": "core.rukpak.io", "version": "v1alpha1", "resource": "bundles"});
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "name": name,
            "operation": "CREATE",
            "userInfo": {"username": "admin", "groups": ["system:masters"]},
            "object": {
                "apiVersion": "core.rukpak.io/v1alpha1",
                "kind": "Bundle",
                "metadata": {"name": name},
                "spec": spec,
            },
            "oldObject": null,
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    })
}

/// A spec that breaks no rule.
pub fn good_spec() -> Value {
    json!({
        "provisionerClassName": "core-rukpak-io-plain",
        "source": {"type": "image", "image": {"ref": "my-bundle@sha256:xyz123"}},
    })
}

/// Certificates in a directory as a kubelet mounts them: `tls.crt` → `..data/tls.crt`, `..data` → a
/// directory that is replaced as a whole.
pub struct Certificates {
    /// The directory.
    pub directory: TempDir,
    /// The CA.
    pub authority: CertificateAuthority,
    generation: usize,
}

impl Certificates {
    /// A CA and a first certificate.
    pub fn new() -> Self {
        Self::of(CertificateAuthority::create(1).unwrap())
    }

    /// A first certificate of a CA that there is already.
    pub fn of(authority: CertificateAuthority) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut certificates = Self { directory, authority, generation: 0 };
        certificates.rotate();
        for file in ["tls.crt", "tls.key"] {
            let link = certificates.directory.path().join(file);
            std::os::unix::fs::symlink(Path::new("..data").join(file), link).unwrap();
        }
        certificates
    }

    /// Issues a new certificate and swaps it in; gives its PEM.
    pub fn rotate(&mut self) -> String {
        let issued =
            self.authority.issue(&[HOST, SERVICE, "127.0.0.1"].map(str::to_owned), 1).unwrap();
        self.swap(&issued.certificate, &issued.key);
        issued.certificate
    }

    /// Swaps in any two files, as a kubelet does: new directory, new link, rename over the old one,
    /// old directory removed.
    pub fn swap(&mut self, certificate: &str, key: &str) {
        let root = self.directory.path();
        let old = std::fs::canonicalize(root.join("..data")).ok();
        self.generation += 1;
        let generation = format!("..generation_{}", self.generation);
        std::fs::create_dir(root.join(&generation)).unwrap();
        write_public(&root.join(&generation).join("tls.crt"), certificate).unwrap();
        write_private(&root.join(&generation).join("tls.key"), key).unwrap();
        std::os::unix::fs::symlink(&generation, root.join("..data_tmp")).unwrap();
        std::fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        if let Some(old) = old {
            std::fs::remove_dir_all(old).unwrap();
        }
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}

/// Files in a directory as a kubelet mounts a ConfigMap: each is a link to `..data/NAME`, and
/// `..data` is a link to a directory that is replaced as a whole.
pub struct ConfigMap {
    directory: TempDir,
    generation: usize,
}

impl ConfigMap {
    /// With these files.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let mut map = Self { directory: tempfile::tempdir().unwrap(), generation: 0 };
        map.swap(files);
        for (name, _) in files {
            let link = map.path(name);
            std::os::unix::fs::symlink(Path::new("..data").join(name), link).unwrap();
        }
        map
    }

    /// Path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Swaps in other contents, as a kubelet does.
    pub fn swap(&mut self, files: &[(&str, &str)]) {
        let root = self.directory.path();
        let old = std::fs::canonicalize(root.join("..data")).ok();
        self.generation += 1;
        let generation = format!("..generation_{}", self.generation);
        std::fs::create_dir(root.join(&generation)).unwrap();
        for (name, text) in files {
            std::fs::write(root.join(&generation).join(name), text).unwrap();
        }
        std::os::unix::fs::symlink(&generation, root.join("..data_tmp")).unwrap();
        std::fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        if let Some(old) = old {
            std::fs::remove_dir_all(old).unwrap();
        }
    }
}

/// Lines of a log.
type Log = Arc<Mutex<Vec<Value>>>;

/// A server in a separate process; killed when dropped.
pub struct Server {
    command: Command,
    child: Child,
    /// Address of the webhook port.
    pub address: SocketAddr,
    /// Address of the ops port.
    pub ops: SocketAddr,
    /// Its certificates.
    pub certificates: Certificates,
    log: Log,
    _files: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            let log = self.log();
            eprintln!("opgate ended: {status}: {:#?}", &log[log.len().saturating_sub(5)..]);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts `binary serve` with a configuration (without one: the built-in policy, with all the
    /// time that an unoptimised build on a busy machine may need) and further arguments, on ports of
    /// the system's choice.
    pub fn start(binary: &str, configuration: Option<&str>, arguments: &[&str]) -> Self {
        Self::start_with(binary, configuration, arguments, Certificates::new())
    }

    /// The same with these certificates.
    pub fn start_with(
        binary: &str,
        configuration: Option<&str>,
        arguments: &[&str],
        certificates: Certificates,
    ) -> Self {
        Self::start_as(Command::new(binary), configuration, arguments, certificates)
    }

    /// The same in a process that has run some commands of the shell before: to limit itself, or to
    /// enter a control group. A script in a file would be busy now and then, because children that are
    /// started meanwhile have inherited it.
    pub fn start_after(
        shell: &str,
        binary: &str,
        configuration: Option<&str>,
        arguments: &[&str],
    ) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{shell}; exec \"$0\" \"$@\""), binary]);
        Self::start_as(command, configuration, arguments, Certificates::new())
    }

    fn start_as(
        mut command: Command,
        configuration: Option<&str>,
        arguments: &[&str],
        certificates: Certificates,
    ) -> Self {
        let files = tempfile::tempdir().unwrap();
        // The cluster in which the tests may run is none of theirs.
        command.env_remove("KUBERNETES_SERVICE_HOST").env_remove("KUBECONFIG");
        command.args(["--log-format", "json", "serve", "--listen", "127.0.0.1:0"]);
        command.args(["--ops-listen", "127.0.0.1:0", "--tls-reload-interval", "20ms"]);
        if !arguments.contains(&"self-managed") {
            command.arg("--tls-dir").arg(certificates.directory.path());
        }
        command.arg("--cache-dir").arg(files.path().join("cache"));
        let patient = || self::configuration(&[builtin_policy()]);
        if !arguments.contains(&"--config") {
            let path = files.path().join("opgate.yaml");
            std::fs::write(&path, configuration.map_or_else(patient, str::to_owned)).unwrap();
            command.arg("--config").arg(path);
        }
        if !arguments.contains(&"--sync-timeout") {
            // On a busy machine the first lists take long; what is ready is to have seen them.
            command.args(["--sync-timeout", "2m"]);
        }
        command.args(arguments).stderr(Stdio::piped()).stdout(Stdio::null());
        let log = Arc::default();
        let (child, address, ops) = Self::launch(&mut command, &log);
        Self { command, child, address, ops, certificates, log, _files: files }
    }

    /// Starts the process, and waits until it says where it serves.
    fn launch(command: &mut Command, log: &Log) -> (Child, SocketAddr, SocketAddr) {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut started = None;
        for line in lines.by_ref() {
            let line = line.unwrap();
            let Ok(entry) = serde_json::from_str::<Value>(&line) else {
                eprintln!("{line}");
                continue;
            };
            if entry["message"] == "serving" {
                let address = |name: &str| entry[name].as_str().unwrap().parse().unwrap();
                started = Some((address("address"), address("ops")));
                break;
            }
            log.lock().unwrap().push(entry);
        }
        let (address, ops) = started.expect("the server starts");
        let kept = log.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Ok(entry) = serde_json::from_str(&line) {
                    kept.lock().unwrap().push(entry);
                }
            }
        });
        (child, address, ops)
    }

    /// Kills the process and starts it again, with the same files and arguments, on other ports.
    pub fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.child, self.address, self.ops) = Self::launch(&mut self.command, &self.log);
    }

    /// Lines of the log so far.
    pub fn log(&self) -> Vec<Value> {
        self.log.lock().unwrap().clone()
    }

    /// Number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Bytes of its memory, by the name that `/proc/PID/status` gives it: `VmHWM` is the most that
    /// there ever was.
    pub fn memory(&self, name: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let kib: usize = line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().unwrap();
        kib << 10
    }

    /// The limits of its process, as `/proc/PID/limits` has them.
    pub fn limits(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/limits", self.id())).unwrap()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    /// A new connection, HTTP/1.1 over TLS.
    pub async fn connect(&self) -> Client {
        Client::connect(self.address, &self.certificates.authority).await.unwrap()
    }

    /// `GET` on the ops port.
    pub async fn get(&self, path: &str) -> (u16, String) {
        self.get_as(path, "*/*").await
    }

    /// `GET` on the ops port for a client that accepts these types.
    pub async fn get_as(&self, path: &str, accept: &str) -> (u16, String) {
        let stream = TcpStream::connect(self.ops).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = hyper::Request::get(path).header("host", HOST).header("accept", accept);
        let request = request.body(Full::<Bytes>::default());
        let response = sender.send_request(request.unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Value of a metric: the first line that starts with `name`.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        let (_, text) = self.get("/metrics").await;
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.rsplit_once(' ')?.1.parse().ok()
    }
}

/// A TLS client that trusts one CA.
#[must_use]
pub fn client(authority: &CertificateAuthority, alpn: &[&[u8]]) -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap();
    roots.add(ca).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|p| p.to_vec()).collect();
    config
}

/// Makes a handshake as an API server that trusts a bundle, PEM, and calls a Service by this name.
///
/// # Errors
/// Where there is no connection or no handshake.
pub async fn handshake(address: SocketAddr, bundle: &[u8], name: &str) -> std::io::Result<()> {
    let mut roots = rustls::RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(bundle) {
        roots.add(root.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(address).await?;
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await.map(drop)
}

/// A TLS connection that trusts one CA.
///
/// # Errors
/// Where there is no connection or no handshake.
pub async fn tls(
    address: SocketAddr,
    authority: &CertificateAuthority,
    alpn: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(address).await?;
    tls_over(tcp, authority, alpn).await
}

/// The same over a connection that is there already.
///
/// # Errors
/// Where there is no handshake.
pub async fn tls_over(
    tcp: TcpStream,
    authority: &CertificateAuthority,
    alpn: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let config = client(authority, alpn);
    tcp.set_nodelay(true)?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(HOST).unwrap(), tcp).await
}

/// An HTTP/1.1 connection that is kept alive.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
}

/// What the server answered.
#[derive(Debug)]
pub struct HttpResponse {
    /// HTTP status.
    pub status: u16,
    /// Headers.
    pub headers: hyper::HeaderMap,
    /// Body.
    pub body: String,
}

impl HttpResponse {
    /// The `response` of the AdmissionReview.
    pub fn response(&self) -> Value {
        let review: Value = serde_json::from_str(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {} {}", self.status, self.body));
        review["response"].clone()
    }
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// Where there is no connection or no handshake.
    pub async fn connect(
        address: SocketAddr,
        authority: &CertificateAuthority,
    ) -> std::io::Result<Self> {
        let stream = tls(address, authority, &[b"http/1.1"]).await?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(std::io::Error::other)?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// Sends a review to `/validate`, with all the time that it takes.
    ///
    /// # Errors
    /// Where the connection ends before the answer.
    pub async fn review(&mut self, body: impl Into<Bytes>) -> hyper::Result<HttpResponse> {
        self.post("/validate?timeout=60s", "application/json", body).await
    }

    /// `POST`
    ///
    /// # Errors
    /// Where the connection ends before the answer.
    pub async fn post(
        &mut self,
        path: &str,
        media: &str,
        body: impl Into<Bytes>,
    ) -> hyper::Result<HttpResponse> {
        let request = hyper::Request::post(path)
            .header("host", HOST)
            .header("content-type", media)
            .body(Full::new(body.into()))
            .unwrap();
        self.send(request).await
    }

    /// Any request.
    ///
    /// # Errors
    /// Where the connection ends before the answer.
    pub async fn send(
        &mut self,
        request: hyper::Request<Full<Bytes>>,
    ) -> hyper::Result<HttpResponse> {
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(HttpResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}
