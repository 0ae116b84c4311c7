//! One request and its response, on a separate connection: TCP or a proxy, TLS, HTTP/1.1. All waits and all bytes read are limited.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HOST, PROXY_AUTHORIZATION, USER_AGENT,
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::proxy::{Proxies, Proxy};
use crate::{Error, Limits};

/// Maximum bytes of the head of a response.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Maximum lines of the head of a response.
const MAX_HEADERS: usize = 100;
/// Maximum bytes of a file of CAs.
const MAX_CA_BYTES: u64 = 4 << 20;

const USER_AGENT_VALUE: &str = concat!("opgate/", env!("CARGO_PKG_VERSION"));

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects to registries.
pub(crate) struct Transport {
    tls: TlsConnector,
    /// Whether there is at least one CA.
    has_roots: bool,
    proxies: Proxies,
    limits: Limits,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport").field("proxies", &self.proxies).finish_non_exhaustive()
    }
}

/// The task of a connection; dropping it ends the task.
struct ConnectionTask(tokio::task::JoinHandle<()>);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The head of a response, and the body to read.
pub(crate) struct StreamingResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    progress_timeout: Duration,
    _connection: ConnectionTask,
}

impl Transport {
    /// Trusts the CAs of the system and those in the file.
    pub(crate) fn new(ca: Option<&Path>, proxies: Proxies, limits: Limits) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(path) = ca {
            let wrong = |why: &str| Error::permanent(format!("{}: {why}", path.display()));
            let read = || -> io::Result<Vec<u8>> {
                if fs::metadata(path)?.len() > MAX_CA_BYTES {
                    return Err(io::Error::other("larger than 4 MiB"));
                }
                fs::read(path)
            };
            let text = read().map_err(|error| wrong(&error.to_string()))?;
            let mut count = 0;
            for certificate in CertificateDer::pem_slice_iter(&text) {
                let certificate = certificate.map_err(|error| wrong(&error.to_string()))?;
                roots.add(certificate).map_err(|error| wrong(&error.to_string()))?;
                count += 1;
            }
            if count == 0 {
                return Err(wrong(
                    "no certificate in it: write those of CAs as PEM (BEGIN CERTIFICATE)",
                ));
            }
        }
        let has_roots = !roots.is_empty();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::permanent(format!("TLS: {error}")))?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), has_roots, proxies, limits })
    }

    /// Sends a request to the host in its address. The head of the response must arrive within this time; an upload needs more
    /// than a request without a body.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        patience: Duration,
    ) -> Result<StreamingResponse, Error> {
        let uri = request.uri().clone();
        let (host, _) = host_and_port(&uri)?;
        let proxy = self.proxies.of(&uri);
        let connected =
            timeout(self.limits.connect_timeout, self.connect(&uri, proxy.as_ref())).await;
        let within = self.limits.connect_timeout;
        let stream = connected.unwrap_or_else(|_| {
            Err(Error::transient(format!("{host}: no connection within {within:?}")))
        })?;
        let authority = uri.authority().map_or("", http::uri::Authority::as_str);
        let headers = request.headers_mut();
        headers.insert(HOST, header_value(authority)?);
        headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        match proxy {
            // A proxy needs the whole address.
            Some(proxy) if uri.scheme_str() == Some("http") => {
                if let Some(authorization) = proxy.authorization {
                    headers.insert(PROXY_AUTHORIZATION, authorization);
                }
            }
            _ => {
                let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
                *request.uri_mut() = path.parse().map_err(|_| Error::permanent("not a path"))?;
            }
        }
        let shaken = builder().handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| connection_error(&host, &error))?;
        let connection_task = ConnectionTask(tokio::spawn(async move {
            // The request reports the error of the connection.
            let _ = connection.await;
        }));
        let answer = timeout(patience, sender.send_request(request)).await;
        let answer = answer
            .map_err(|_| Error::transient(format!("{host}: no answer within {patience:?}")))?
            .map_err(|error| connection_error(&host, &error))?;
        let (head, body) = answer.into_parts();
        let progress = self.limits.progress_timeout;
        Ok(StreamingResponse {
            status: head.status,
            headers: head.headers,
            body,
            progress_timeout: progress,
            _connection: connection_task,
        })
    }

    /// Connects to the host of an address, with TLS if the scheme is `https`.
    async fn connect(&self, uri: &Uri, proxy: Option<&Proxy>) -> Result<Box<dyn Stream>, Error> {
        let (host, port) = host_and_port(uri)?;
        let is_tls = uri.scheme_str() == Some("https");
        let stream: Box<dyn Stream> = match proxy {
            None => Box::new(connect_tcp(&host, port).await?),
            Some(proxy) => {
                let (at, at_port) = host_and_port(&proxy.uri)?;
                if proxy.uri.scheme_str() != Some("http") {
                    let shown = format!("{at}:{at_port}");
                    return Err(Error::permanent(format!(
                        "the proxy {shown} is not spoken to over http: write http://{shown} (it passes TLS through)"
                    )));
                }
                let stream =
                    connect_tcp(&at, at_port).await.map_err(|error| error.with_subject("proxy"))?;
                if is_tls { open_tunnel(stream, uri, proxy).await? } else { Box::new(stream) }
            }
        };
        if !is_tls {
            return Ok(stream);
        }
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(|_| {
            Error::permanent(format!("{host}: not a name that a certificate can have"))
        })?;
        match self.tls.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(self.handshake_error(&host, &error)),
        }
    }

    /// Returns the error of a failed handshake, with its remediation.
    fn handshake_error(&self, host: &str, error: &io::Error) -> Error {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::InvalidCertificate(why)) => {
                let hint = match why {
                    rustls::CertificateError::UnknownIssuer if !self.has_roots => {
                        "; there are no CAs on this system: name a file with --registry-ca"
                    }
                    rustls::CertificateError::UnknownIssuer => {
                        "; if it is of a private CA, name it with --registry-ca"
                    }
                    _ => "",
                };
                Error::permanent(format!("{host}: its certificate is not trusted: {why}{hint}"))
            }
            Some(rustls::Error::InvalidMessage(_)) => Error::permanent(format!(
                "{host}: no TLS there; a registry without TLS must be named with --registry-insecure"
            )),
            _ => Error::transient(format!("{host}: TLS: {error}")),
        }
    }
}

impl StreamingResponse {
    /// Reads the body, if it has at most this many bytes.
    pub(crate) async fn read(mut self, most: usize) -> Result<Vec<u8>, Error> {
        if let Some(encoding) = self.headers.get(CONTENT_ENCODING)
            && encoding.as_bytes() != b"identity"
        {
            return Err(Error::permanent(format!(
                "the answer has the encoding {encoding:?}, which nobody asked for"
            )));
        }
        let too_large = || Err(Error::permanent(format!("the answer is larger than {most} bytes")));
        let stated = self.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let stated = stated.and_then(|length| length.parse::<u64>().ok());
        if stated.is_some_and(|length| usize::try_from(length).is_ok_and(|length| length > most)) {
            return too_large();
        }
        let mut bytes = Vec::new();
        loop {
            let frame = timeout(self.progress_timeout, self.body.frame()).await.map_err(|_| {
                Error::transient(format!("the answer stood still for {:?}", self.progress_timeout))
            })?;
            let Some(frame) = frame else { return Ok(bytes) };
            let frame = frame
                .map_err(|error| Error::transient(format!("the answer broke off: {error}")))?;
            if let Some(data) = frame.data_ref() {
                if bytes.len().saturating_add(data.len()) > most {
                    return too_large();
                }
                bytes.extend_from_slice(data);
            }
        }
    }
}

fn builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_HEADERS);
    builder
}

async fn connect_tcp(host: &str, port: u16) -> Result<TcpStream, Error> {
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((name, port)).await;
    stream.map_err(|error| Error::transient(format!("{host}:{port}: {error}")))
}

/// Opens a tunnel through a proxy.
async fn open_tunnel(
    stream: TcpStream,
    uri: &Uri,
    proxy: &Proxy,
) -> Result<Box<dyn Stream>, Error> {
    let (host, port) = host_and_port(uri)?;
    let target = format!("{host}:{port}");
    let mut request = Request::builder().method(Method::CONNECT).uri(&target).header(HOST, &target);
    if let Some(authorization) = &proxy.authorization {
        request = request.header(PROXY_AUTHORIZATION, authorization);
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(|error| Error::permanent(format!("proxy: {error}")))?;
    let shaken = builder().handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| connection_error("proxy", &error))?;
    // The task ends with an error, or when the tunnel takes over the connection.
    tokio::spawn(async move {
        let _ = connection.with_upgrades().await;
    });
    let answer =
        sender.send_request(request).await.map_err(|error| connection_error("proxy", &error))?;
    let status = answer.status();
    if !status.is_success() {
        let why = format!("the proxy answers {status} to CONNECT {target}");
        return Err(if status.is_server_error() {
            Error::transient(why)
        } else {
            Error::permanent(why)
        });
    }
    let upgraded =
        hyper::upgrade::on(answer).await.map_err(|error| connection_error("proxy", &error))?;
    Ok(Box::new(TokioIo::new(upgraded)))
}

/// Returns the error of a connection, and whether another attempt may succeed.
fn connection_error(host: &str, error: &hyper::Error) -> Error {
    let mut why = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        why = format!("{why}: {source}");
    }
    let why = format!("{host}: {why}");
    if error.is_parse() || error.is_parse_too_large() {
        Error::permanent(why)
    } else {
        Error::transient(why)
    }
}

fn host_and_port(uri: &Uri) -> Result<(String, u16), Error> {
    let host = uri.host().ok_or_else(|| Error::permanent("an address without a host"))?;
    let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    Ok((host.to_owned(), uri.port_u16().unwrap_or(default)))
}

pub(crate) fn header_value(text: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(text).map_err(|_| Error::permanent("a value that no header can have"))
}
