//! One export: a POST on a separate connection, with TLS if the address is `https`. All waits and all bytes read are
//! limited.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use opgate_text::one_line;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Maximum bytes of a response.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Maximum bytes of an error in the log.
const MAX_ERROR_BYTES: usize = 512;

const USER_AGENT_VALUE: &str = concat!("opgate/", env!("CARGO_PKG_VERSION"));

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The reason why an export failed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ExportError(String);

impl ExportError {
    pub(crate) fn new(reason: impl std::fmt::Display) -> Self {
        Self(one_line(&reason.to_string(), MAX_ERROR_BYTES))
    }
}

fn failed(reason: impl std::fmt::Display) -> ExportError {
    ExportError::new(reason)
}

/// The reason why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The file with CAs cannot be used.
    #[error("OTEL_EXPORTER_OTLP_CERTIFICATE {file}: {reason}")]
    Certificate {
        /// The file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Sends exports.
pub(crate) struct Client {
    tls: TlsConnector,
    headers: HeaderMap,
    timeout: Duration,
}

impl Client {
    /// Trusts the CAs in the file, or those of the system.
    pub(crate) fn new(
        headers: HeaderMap,
        certificate: Option<&Path>,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let roots = if let Some(file) = certificate {
            read_roots(file).map_err(|error| ClientError::Certificate {
                file: file.display().to_string(),
                reason: error.to_string(),
            })?
        } else {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        };
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), headers, timeout })
    }

    /// Sends a message and returns the body of the response.
    pub(crate) async fn post(&self, uri: &Uri, message: Vec<u8>) -> Result<Bytes, ExportError> {
        let sent = tokio::time::timeout(self.timeout, self.exchange(uri, message)).await;
        sent.unwrap_or_else(|_| Err(failed(format!("no response within {:?}", self.timeout))))
    }

    async fn exchange(&self, uri: &Uri, message: Vec<u8>) -> Result<Bytes, ExportError> {
        let stream = self.connect(uri).await?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(failed)?;
        // Both end together: an export that is given up has no task.
        let response = async {
            let response = sender.send_request(self.request(uri, message)?).await;
            read_response(response.map_err(failed)?).await
        };
        let mut response = std::pin::pin!(response);
        tokio::select! {
            response = response.as_mut() => response,
            // The response reports the error of its connection.
            _ = connection => response.await,
        }
    }

    fn request(&self, uri: &Uri, message: Vec<u8>) -> Result<Request<Full<Bytes>>, ExportError> {
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let mut request = Request::post(path)
            .header(HOST, uri.authority().map_or("", Authority::as_str))
            .body(Full::new(Bytes::from(message)))
            .map_err(failed)?;
        let headers = request.headers_mut();
        headers.extend(self.headers.clone());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_VALUE));
        Ok(request)
    }

    async fn connect(&self, uri: &Uri) -> Result<Box<dyn Stream>, ExportError> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((host, port)).await.map_err(failed)?;
        if !is_tls {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(failed)?;
        let stream = self.tls.connect(name, stream).await;
        Ok(Box::new(stream.map_err(|error| failed(format!("TLS: {error}")))?))
    }
}

async fn read_response(response: Response<Incoming>) -> Result<Bytes, ExportError> {
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await;
    if !status.is_success() {
        return Err(failed(format!("the collector answered {status}")));
    }
    Ok(body.map_err(failed)?.to_bytes())
}

fn read_roots(file: &Path) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file).map_err(io::Error::other)?;
    for certificate in certificates {
        let certificate = certificate.map_err(io::Error::other)?;
        roots.add(certificate).map_err(io::Error::other)?;
    }
    if roots.is_empty() {
        return Err(io::Error::other("no certificate in it: write those of CAs as PEM"));
    }
    Ok(roots)
}
