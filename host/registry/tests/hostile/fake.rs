//! A registry that answers what a test wants, byte by byte.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opgate_registry::Digest;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The path of the repository under test.
pub(crate) const REPOSITORY: &str = "team/policy";

/// What was asked.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// What is answered.
pub(crate) enum FakeResponse {
    /// As HTTP has it.
    Http(u16, Vec<(String, String)>, Vec<u8>),
    /// These bytes; then the connection is closed.
    RawBytes(Vec<u8>),
    /// These bytes; then nothing, without end.
    Stall(Vec<u8>),
    /// These bytes; then this one again and again, without end.
    Drip(Vec<u8>, u8),
}

impl FakeResponse {
    pub(crate) fn ok(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::Http(200, vec![("content-type".to_owned(), content_type.to_owned())], body.into())
    }

    pub(crate) fn status(code: u16) -> Self {
        Self::Http(code, Vec::new(), Vec::new())
    }

    pub(crate) fn with_header(self, name: &str, value: &str) -> Self {
        match self {
            Self::Http(code, mut headers, body) => {
                headers.push((name.to_owned(), value.to_owned()));
                Self::Http(code, headers, body)
            }
            other => other,
        }
    }
}

/// A server on loopback; it ends with the runtime of its test.
pub(crate) struct FakeRegistry {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl FakeRegistry {
    /// Answers with what a function makes of a request and the number of requests before it.
    pub(crate) async fn start(
        answer: impl Fn(&RecordedRequest, usize) -> FakeResponse + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<RecordedRequest>>>::default();
        let (log, answer) = (asked.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, answer) = (log.clone(), answer.clone());
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    // A TLS ClientHello: a server without TLS responds with an HTTP error.
                    if stream.fill_buf().await.is_ok_and(|bytes| bytes.first() == Some(&0x16)) {
                        let refusal = b"HTTP/1.0 400 Bad Request\r\n\r\nhttp was expected";
                        return write(
                            stream.into_inner(),
                            FakeResponse::RawBytes(refusal.to_vec()),
                        )
                        .await;
                    }
                    let Some(one) = read(&mut stream).await else { return };
                    let number = {
                        let mut log = log.lock().unwrap();
                        log.push(one.clone());
                        log.len() - 1
                    };
                    write(stream.into_inner(), answer(&one, number)).await;
                });
            }
        });
        Self { address, requests: asked }
    }

    /// What was asked so far.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn reference(&self, rest: &str) -> String {
        format!("oci://{}/{REPOSITORY}{rest}", self.address)
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<RecordedRequest> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(RecordedRequest {
        method,
        path,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

async fn write(mut stream: TcpStream, answer: FakeResponse) {
    let (bytes, after) = match answer {
        FakeResponse::Http(code, headers, body) => {
            let mut bytes =
                format!("HTTP/1.1 {code} x\r\ncontent-length: {}\r\n", body.len()).into_bytes();
            for (name, value) in headers {
                bytes.extend(format!("{name}: {value}\r\n").bytes());
            }
            bytes.extend(b"\r\n");
            bytes.extend(body);
            (bytes, None)
        }
        FakeResponse::RawBytes(bytes) => (bytes, None),
        FakeResponse::Stall(bytes) => (bytes, Some(None)),
        FakeResponse::Drip(bytes, byte) => (bytes, Some(Some(byte))),
    };
    if stream.write_all(&bytes).await.is_err() {
        return;
    }
    match after {
        None => drop(stream.shutdown().await),
        Some(None) => std::future::pending().await,
        Some(Some(byte)) => {
            while stream.write_all(&[byte]).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// What an honest registry has: manifests by tag and by digest, and blobs, each with its type.
#[derive(Debug, Clone, Default)]
pub(crate) struct RegistryContent(BTreeMap<String, (String, Vec<u8>)>);

pub(crate) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";

impl RegistryContent {
    pub(crate) fn blob(&mut self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        let kind = "application/octet-stream".to_owned();
        self.0.insert(format!("/v2/{REPOSITORY}/blobs/{digest}"), (kind, bytes.to_vec()));
        digest
    }

    pub(crate) fn manifest(&mut self, tag: &str, kind: &str, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        for name in [tag, digest.as_str()] {
            self.0.insert(
                format!("/v2/{REPOSITORY}/manifests/{name}"),
                (kind.to_owned(), bytes.to_vec()),
            );
        }
        digest
    }

    /// An artifact with one layer.
    pub(crate) fn artifact(&mut self, tag: &str, component: &[u8]) -> Digest {
        let layer = self.blob(component);
        let manifest = artifact(&layer, component.len());
        self.manifest(tag, MANIFEST_TYPE, manifest.as_bytes())
    }

    pub(crate) fn respond(&self, path: &str) -> FakeResponse {
        match self.0.get(path) {
            Some((kind, bytes)) => FakeResponse::ok(kind, bytes.clone()),
            None => {
                FakeResponse::Http(404, Vec::new(), br#"{"errors":[{"code":"UNKNOWN"}]}"#.to_vec())
            }
        }
    }
}

pub(crate) fn artifact(layer: &Digest, size: usize) -> String {
    let config = json!({"mediaType": "application/vnd.wasm.config.v0+json", "digest": Digest::of(b"{}").as_str(), "size": 2});
    let layer = json!({"mediaType": "application/wasm", "digest": layer.as_str(), "size": size});
    json!({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": config, "layers": [layer]})
        .to_string()
}
