//! The webhook port: the clients that may connect, and its liveness.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use opgate::builtin::BUILTINS;
use opgate::cluster;
use opgate::policy::{Configuration, PolicySet};
use opgate::server::Options;
use opgate_certs::{CertificateAuthority, ClientVerifier, IssuedCertificate, Reloader, Source};
use rustix::process::Signal;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::fake_api_server::FakeCluster;
use testkit::{
    Certificates, Client, HOST, Server, builtin_policy, configuration, recorded_review, tls,
    wait_until,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio_rustls::TlsConnector;

use crate::BINARY;

/// How the server answers a client that it serves.
const SERVED_STATUS_LINE: &str = "HTTP/1.1 404";

/// A CA bundle for clients, in a file.
struct CaBundleFile {
    directory: TempDir,
}

impl CaBundleFile {
    fn new(authority: &CertificateAuthority) -> Self {
        let bundle = Self { directory: tempfile::tempdir().unwrap() };
        bundle.replace(authority.certificate());
        bundle
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("clients.crt")
    }

    /// In one step, as a kubelet and good tools do it.
    fn replace(&self, content: &str) {
        let new = self.directory.path().join("new");
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, self.path()).unwrap();
    }

    fn server(&self, arguments: &[&str]) -> Server {
        let path = self.path();
        let client_ca = ["--client-ca", path.to_str().unwrap()];
        Server::start(BINARY, None, &[&client_ca, arguments].concat())
    }
}

/// What a client with a certificate gets of the server.
async fn request_served(
    server: &Server,
    client: Option<&IssuedCertificate>,
) -> std::io::Result<String> {
    request_served_at(server.address, &server.certificates, client).await
}

async fn request_served_at(
    address: SocketAddr,
    certificates: &Certificates,
    client: Option<&IssuedCertificate>,
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    let ca = certificates.authority.certificate();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match client {
        None => config.with_no_client_auth(),
        Some(client) => {
            let chain =
                vec![CertificateDer::from_pem_slice(client.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(HOST).unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    // Who is refused may see it before or after this is sent.
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    let mut answer = [0; SERVED_STATUS_LINE.len()];
    stream.read_exact(&mut answer).await?;
    Ok(String::from_utf8(answer.to_vec()).unwrap())
}

async fn is_served(server: &Server, client: Option<&IssuedCertificate>) -> bool {
    request_served(server, client).await.is_ok_and(|answer| answer == SERVED_STATUS_LINE)
}

async fn rejected_count(server: &Server, reason: &str) -> Option<f64> {
    server.metric(&format!("opgate_client_rejections_total{{reason=\"{reason}\"}}")).await
}

#[tokio::test]
async fn client_without_certificate_is_rejected_and_counted() {
    let [authority, other] = [(); 2].map(|()| CertificateAuthority::create(1).unwrap());
    let bundle = CaBundleFile::new(&authority);
    let arguments = ["--client-name", "api-server", "--client-name", "api.example.com"];
    let server = bundle.server(&arguments);
    let client = |name: &str| authority.issue_client(name, 1).unwrap();
    for name in ["api-server", "api.example.com"] {
        assert!(is_served(&server, Some(&client(name))).await, "{name}");
    }
    let serving = authority.issue(&["api-server".to_owned()], 1).unwrap();
    let foreign = other.issue_client("api-server", 1).unwrap();
    for (reason, pair) in [
        ("none", None),
        ("untrusted", Some(foreign)),
        ("purpose", Some(serving)),
        ("name", Some(client("tenant"))),
    ] {
        assert_eq!(rejected_count(&server, reason).await, Some(0.0), "{reason}");
        assert!(request_served(&server, pair.as_ref()).await.is_err(), "{reason}");
        wait_until(reason, async || rejected_count(&server, reason).await == Some(1.0)).await;
    }
    assert_eq!(server.metric("opgate_tls_handshake_failures_total").await, Some(4.0));
    // The server itself is no exception and no client: it is refused, too, and not counted.
    wait_until("life", async || server.get("/livez").await == (200, "ok".to_owned())).await;
    assert_eq!(rejected_count(&server, "none").await, Some(1.0));
    assert_eq!(server.metric("opgate_tls_handshake_failures_total").await, Some(4.0));
    // The server reports the required certificate to any client.
    let refused = request_served(&server, None).await.unwrap_err();
    let alert = rustls::Error::AlertReceived(AlertDescription::CertificateRequired);
    assert_eq!(refused.get_ref().unwrap().downcast_ref(), Some(&alert));
}

#[tokio::test]
async fn changed_ca_applies_to_the_next_connection() {
    let [old, new] = [(); 2].map(|()| CertificateAuthority::create(1).unwrap());
    let [of_old, of_new] = [&old, &new].map(|ca| ca.issue_client("api-server", 1).unwrap());
    let bundle = CaBundleFile::new(&old);
    let server = bundle.server(&[]);
    let reloads = async |result: &str| {
        server.metric(&format!("opgate_client_ca_reloads_total{{result=\"{result}\"}}")).await
    };
    assert!(is_served(&server, Some(&of_old)).await);
    assert!(!is_served(&server, Some(&of_new)).await);
    bundle.replace(new.certificate());
    wait_until("replaced", async || reloads("replaced").await == Some(1.0)).await;
    assert!(!is_served(&server, Some(&of_old)).await);
    assert!(is_served(&server, Some(&of_new)).await);
    bundle.replace("nothing");
    wait_until("failed", async || reloads("failed").await == Some(1.0)).await;
    assert!(!is_served(&server, Some(&of_old)).await);
    assert!(is_served(&server, Some(&of_new)).await);
    // After the next reload, the test can check that the server reported the same failure once.
    bundle.replace(&format!("{}{}", old.certificate(), new.certificate()));
    wait_until("replaced again", async || reloads("replaced").await == Some(2.0)).await;
    assert!(is_served(&server, Some(&of_old)).await && is_served(&server, Some(&of_new)).await);
    assert_eq!(reloads("failed").await, Some(1.0));
    let kept = "the old CA bundle for clients is kept";
    assert_eq!(server.log().iter().filter(|entry| entry["message"] == kept).count(), 1);
    assert_eq!(
        server.metric("opgate_certificate_reloads_total{result=\"failed\"}").await,
        Some(0.0)
    );
}

/// On SIGHUP the server reads the CA immediately. Here its next regular read is a day later.
#[tokio::test]
async fn changed_ca_applies_immediately_after_a_signal() {
    let [old, new] = [(); 2].map(|()| CertificateAuthority::create(1).unwrap());
    let [of_old, of_new] = [&old, &new].map(|ca| ca.issue_client("api-server", 1).unwrap());
    let (bundle, certificates) = (CaBundleFile::new(&old), Certificates::new());
    let source = Source::Directory(certificates.directory.path().to_path_buf());
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let options = Options {
        listen: loopback,
        ops_listen: loopback,
        reload_interval: Duration::from_hours(24),
        client_verifier: Some(Arc::new(ClientVerifier::new(bundle.path(), Vec::new()).unwrap())),
        drain_delay: Duration::ZERO,
        ..Options::default()
    };
    let policies = configuration(&[builtin_policy()]);
    let policies = Configuration::parse(Path::new("opgate.yaml"), &policies, BUILTINS).unwrap();
    let absent = cluster::ClusterOptions::of(cluster::Source::Absent);
    let set = PolicySet::load(&policies, None, 64, absent).unwrap();
    let certificate = Arc::new(Reloader::new(source).unwrap());
    let server = opgate::server::Server::bind(options, set, certificate).await.unwrap();
    let address = server.local_addr();
    let (tell, told) = watch::channel(());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.run(async { stopped.await.unwrap() }, told));
    assert_eq!(
        request_served_at(address, &certificates, Some(&of_old)).await.unwrap(),
        SERVED_STATUS_LINE
    );
    bundle.replace(new.certificate());
    assert_eq!(
        request_served_at(address, &certificates, Some(&of_old)).await.unwrap(),
        SERVED_STATUS_LINE
    );
    tell.send(()).unwrap();
    let is_new = async || request_served_at(address, &certificates, Some(&of_new)).await.is_ok();
    wait_until("the new CA", is_new).await;
    assert!(request_served_at(address, &certificates, Some(&of_old)).await.is_err());
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

/// The address is taken before the port opens, which another process may do first.
#[tokio::test]
async fn port_taken_before_serving_is_an_error() {
    let certificates = Certificates::new();
    let bind = async |listen| {
        let options = Options {
            listen,
            ops_listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            sync_timeout: Duration::from_millis(1),
            ..Options::default()
        };
        let policies = configuration(&[json!({"name": "operator-group"})]);
        let policies = Configuration::parse(Path::new("opgate.yaml"), &policies, BUILTINS).unwrap();
        let live = cluster::ClusterOptions::of(cluster::Source::Live);
        let set = PolicySet::load(&policies, None, 64, live).unwrap();
        let source = Source::Directory(certificates.directory.path().to_path_buf());
        let certificate = Arc::new(Reloader::new(source).unwrap());
        opgate::server::Server::bind(options, set, certificate).await.unwrap()
    };
    let first = bind(SocketAddr::from(([127, 0, 0, 1], 0))).await;
    let address = first.local_addr();
    let second = bind(address).await;
    let told = || watch::channel(()).1;
    let _serving = tokio::spawn(first.run(std::future::pending(), told()));
    wait_until("the first one", async || TcpStream::connect(address).await.is_ok()).await;
    let error = second.run(std::future::pending(), told()).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {address}: ")), "{error}");
}

#[test]
fn server_without_client_ca_logs_a_warning() {
    let cluster = FakeCluster::start();
    let kubeconfig = cluster.kubeconfig();
    let live = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let policies = configuration(&[json!({"name": "operator-group", "limits": {"time": "20s"}})]);
    let bundle = CaBundleFile::new(&CertificateAuthority::create(1).unwrap());
    let path = bundle.path();
    let client_ca = ["--client-ca", path.to_str().unwrap()];
    for (arguments, warned) in
        [(live.to_vec(), 1), ([live, client_ca].concat(), 0), (vec!["--cluster-source", "none"], 0)]
    {
        let server = Server::start(BINARY, Some(&policies), &arguments);
        let warns = |text: &str| text.contains("anyone who reaches the webhook port");
        let log = server.log();
        let count = log.iter().filter(|entry| warns(&entry["message"].to_string())).count();
        assert_eq!(count, warned, "{arguments:?}: {log:?}");
    }
}

/// Four places, of which one address may have two, both taken by clients that say nothing. The
/// server's own check needs none.
#[tokio::test]
async fn full_port_passes_liveness_and_accepts_new_connections() {
    let server = Server::start(BINARY, None, &["--max-connections", "4"]);
    let connect = async || tls(server.address, &server.certificates.authority, &[]).await.unwrap();
    let _clients = [connect().await, connect().await];
    assert_eq!(server.get("/livez").await, (200, "ok".to_owned()));
    // The check does not count as a client: the server evicted no connection for it.
    assert_eq!(server.metric("opgate_connections_evicted_total").await, Some(0.0));
    assert_eq!(server.metric("opgate_connections ").await, Some(2.0));
    assert!(is_served(&server, None).await);
    wait_until("eviction", async || {
        server.metric("opgate_connections_evicted_total").await == Some(1.0)
    })
    .await;
    assert_eq!(server.metric("opgate_tls_handshake_failures_total").await, Some(0.0));
}

/// Bodies that stop before their end, from another address, hold all that there is for bodies.
#[tokio::test]
async fn unfinished_bodies_do_not_block_other_reviews() {
    let server = Server::start(BINARY, None, &["--max-request-memory", "32Mi"]);
    let connector =
        TlsConnector::from(Arc::new(testkit::client(&server.certificates.authority, &[])));
    let length = 6 << 20;
    let head = format!(
        "POST /validate HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    let mut unfinished = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 66], 0))).unwrap();
        let (address, connector, head) = (server.address, connector.clone(), head.clone());
        unfinished.spawn(async move {
            let stream = socket.connect(address).await.unwrap();
            let name = ServerName::try_from(HOST).unwrap();
            let mut stream = connector.connect(name, stream).await.unwrap();
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(&vec![b' '; length - 1]).await;
            let _ = stream.flush().await;
            let mut status = [0; "HTTP/1.1 503".len()];
            let _ = stream.read_exact(&mut status).await;
            String::from_utf8_lossy(&status).into_owned()
        });
    }
    let ended = async |reason: &str| {
        server.metric(&format!("opgate_bodies_ended_total{{reason=\"{reason}\"}}")).await.unwrap()
    };
    wait_until("a full house", async || ended("evicted").await > 0.0).await;
    let mut review: Value = serde_json::from_str(&recorded_review("006")).unwrap();
    review["request"]["object"]["metadata"]["annotations"]["large"] = "x".repeat(5 << 20).into();
    let mut client = server.connect().await;
    for _ in 0..3 {
        let answer = client.review(review.to_string()).await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    // Each of the other clients gets a response, and none of their requests is still in flight.
    for status in unfinished.join_all().await {
        assert!(["HTTP/1.1 503", "HTTP/1.1 408"].contains(&status.as_str()), "{status}");
    }
    // Which of them end for their memory and which for their pace depends on the machine.
    let ended = ended("evicted").await + ended("slow").await + ended("full").await;
    assert!((ended - 12.0).abs() < 0.5, "{ended}");
    assert_eq!(server.metric("opgate_requests_in_flight ").await, Some(0.0));
}

/// A server that drains does not have to serve clients.
#[tokio::test]
async fn draining_server_is_alive_and_not_ready() {
    let server = Server::start(BINARY, None, &["--drain-delay", "100s"]);
    server.signal(Signal::TERM);
    wait_until("draining", async || server.get("/readyz").await.0 == 503).await;
    assert_eq!(server.get("/livez").await, (200, "ok".to_owned()));
}

/// If the server has logged an invalid certificate, it logs the next valid one, even if that is the
/// old one.
#[tokio::test]
async fn restored_certificate_is_logged() {
    let mut server = Server::start(BINARY, None, &[]);
    let read = |name: &str| {
        std::fs::read_to_string(server.certificates.directory.path().join(name)).unwrap()
    };
    let (certificate, key) = (read("tls.crt"), read("tls.key"));
    let says =
        |server: &Server, text: &str| server.log().iter().any(|entry| entry["message"] == text);
    server.certificates.swap("garbage", "garbage");
    wait_until("bad", async || says(&server, "the old certificate is kept")).await;
    let good = "the files of the certificate are good again";
    assert!(!says(&server, good));
    server.certificates.swap(&certificate, &key);
    wait_until("good again", async || says(&server, good)).await;
}

/// One cause, once.
#[test]
fn startup_error_names_its_cause_once() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let certificates = Certificates::new();
    for (port, other) in [("--listen", "--ops-listen"), ("--ops-listen", "--listen")] {
        let output = std::process::Command::new(BINARY)
            .args(["serve", "--cluster-source", "none", "--tls-dir"])
            .arg(certificates.directory.path())
            .args([other, "127.0.0.1:0"])
            .arg(port)
            .arg(taken.local_addr().unwrap().to_string())
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(error.matches("Address already in use").count(), 1, "{error}");
        assert_eq!(output.status.code(), Some(2));
    }
}

/// Names with spaces, equals signs and quotes are values of their key and no keys.
#[tokio::test]
async fn name_cannot_forge_a_key_in_the_text_log() {
    let certificates = Certificates::new();
    let mut child = std::process::Command::new(BINARY)
        .args(["--log-format", "text", "serve", "--cluster-source", "none", "--tls-dir"])
        .arg(certificates.directory.path())
        .args(["--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let mut find =
        |what: &str| lines.by_ref().map(Result::unwrap).find(|l| l.contains(what)).unwrap();
    let serving = find("serving");
    let address = serving.split("address=").nth(1).unwrap().split(' ').next().unwrap();
    let address = address.parse().unwrap();
    let mut client = Client::connect(address, &certificates.authority).await.unwrap();
    let mut review: Value = serde_json::from_str(&recorded_review("007")).unwrap();
    review["request"]["userInfo"]["username"] = "eve allowed=true user=\"admin".into();
    review["request"]["name"] = "x namespace=kube-system".into();
    client.review(review.to_string()).await.unwrap();
    let line = find("review decided");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.contains(r#" user="eve allowed=true user=\"admin""#), "{line}");
    assert!(line.contains(r#" name="x namespace=kube-system""#), "{line}");
}

/// The certificate may change under the check, which knows the new one as well.
#[tokio::test]
async fn self_check_accepts_a_new_certificate() {
    let mut server = Server::start(BINARY, None, &[]);
    for count in 1..=2 {
        server.certificates.rotate();
        wait_until("replaced", async || {
            let metric = "opgate_certificate_reloads_total{result=\"replaced\"}";
            server.metric(metric).await == Some(f64::from(count))
        })
        .await;
        wait_until("life", async || server.get("/livez").await == (200, "ok".to_owned())).await;
    }
}
