//! A real registry on loopback: `docker-registry`, with TLS by a private CA and one user, where it is installed.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use opgate_certs::{CertificateAuthority, write_private, write_public};
use rustls::pki_types::ServerName;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{client, wait_until};

/// `alice` with the password `correct horse`, in base64 and as `htpasswd -B` writes it.
const ALICE_BASIC_AUTH: &str = "YWxpY2U6Y29ycmVjdCBob3JzZQ==";
const HTPASSWD: &str = "alice:$2b$04$52aoORKEpnEYY81iNkMoZeHxli5eBBemUQSThRv/tmE04wNPZfRhi\n";

/// A registry; killed when dropped.
pub struct DockerRegistry {
    child: Child,
    /// Host and port, as in references.
    pub host: String,
    port: u16,
    authority: CertificateAuthority,
    files: TempDir,
}

impl Drop for DockerRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl DockerRegistry {
    /// Starts one and waits until it answers. Returns `None` and prints a line where it is not
    /// installed.
    pub async fn start() -> Option<Self> {
        let files = tempfile::tempdir().unwrap();
        let at = |name: &str| files.path().join(name);
        let authority = CertificateAuthority::create(1).unwrap();
        let issued = authority.issue(&["localhost".to_owned(), "127.0.0.1".to_owned()], 1).unwrap();
        write_public(&at("ca.crt"), authority.certificate()).unwrap();
        write_public(&at("tls.crt"), &issued.certificate).unwrap();
        write_private(&at("tls.key"), &issued.key).unwrap();
        write_private(&at("htpasswd"), HTPASSWD).unwrap();
        // Free now: another process that asks the system for one meanwhile may get it.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let host = format!("localhost:{port}");
        let auths = json!({"auths": {&host: {"auth": ALICE_BASIC_AUTH}}});
        write_private(&at("config.json"), &auths.to_string()).unwrap();
        let config = json!({
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": at("data")}},
            "auth": {"htpasswd": {"realm": "test", "path": at("htpasswd")}},
            "http": {
                "addr": format!("127.0.0.1:{port}"),
                "tls": {"certificate": at("tls.crt"), "key": at("tls.key")},
            },
        });
        std::fs::write(at("registry.yml"), config.to_string()).unwrap();
        let started = Command::new("docker-registry")
            .arg("serve")
            .arg(at("registry.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = started else {
            eprintln!(
                "skipped: docker-registry is not installed (apt-get install docker-registry)"
            );
            return None;
        };
        let registry = Self { child, host, port, authority, files };
        wait_until("the registry", async || TcpStream::connect(("127.0.0.1", port)).await.is_ok())
            .await;
        Some(registry)
    }

    /// Ends it. Its files stay.
    pub fn stop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The file with its CA.
    pub fn ca(&self) -> PathBuf {
        self.files.path().join("ca.crt")
    }

    /// A docker configuration with its user.
    pub fn credentials(&self) -> PathBuf {
        self.files.path().join("config.json")
    }

    /// A reference to something in it.
    pub fn reference(&self, rest: &str) -> String {
        format!("oci://{}/{rest}", self.host)
    }

    /// Uploads a blob, as any client does.
    pub async fn blob(&self, repository: &str, digest: &str, bytes: &[u8]) {
        let (code, head) =
            self.send("POST", &format!("/v2/{repository}/blobs/uploads/"), "", &[]).await;
        assert_eq!(code, 202, "{head}");
        let location = head.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap();
        let path = location.splitn(4, '/').nth(3).unwrap();
        let path = format!("/{path}&digest={digest}");
        let (code, head) = self.send("PUT", &path, "application/octet-stream", bytes).await;
        assert_eq!(code, 201, "{head}");
    }

    /// Uploads a manifest under a tag.
    pub async fn manifest(&self, repository: &str, tag: &str, kind: &str, text: &str) {
        let path = format!("/v2/{repository}/manifests/{tag}");
        let (code, head) = self.send("PUT", &path, kind, text.as_bytes()).await;
        assert_eq!(code, 201, "{head}");
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
        let config = client(&self.authority, &[b"http/1.1"]);
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let (host, length) = (&self.host, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Basic {ALICE_BASIC_AUTH}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        let mut answer = Vec::new();
        // It may close without a goodbye.
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).replace('\r', "");
        let code = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (code, answer)
    }
}
