//! The client of a webhook: one connection, kept for the next review, and one request at a time.
//!
//! ```text
//! send ─▶ the kept connection, or a new one ─▶ POST ─▶ 200 ─▶ body
//!   ▲                                           ├────▶ 429, 503 ─▶ pause ─┐
//!   └───────────────────────────────────────────┼────────────────────────┘
//!                                               └────▶ anything else: an error; no redirect is followed
//! ```
//!
//! Proxy variables have no effect: a review can contain a Secret, and is only for the server that the user names.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use opgate_certs::error_text::with_causes;
use opgate_text::one_line;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

use super::send_error::{
    MAX_ATTEMPTS, MAX_ERROR_BYTES, MAX_RESPONSE_BYTES, REQUEST_TIMEOUT, SendError,
};
use super::tls;
use super::url::{ServerAddress, WebhookUrl};

/// Pause before the second attempt; each further one is twice as long.
const MIN_RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Maximum pause, also if the server asks for a longer one.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(10);

/// Maximum bytes and lines of the head of a response.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 100;

const USER_AGENT_VALUE: &str = concat!("opgate/", env!("CARGO_PKG_VERSION"));

/// Sends reviews to a webhook, one after the other.
pub(in crate::cli::replay) struct WebhookClient {
    runtime: Runtime,
    connector: Connector,
}

impl WebhookClient {
    /// Creates a client, and resolves the name of the server.
    ///
    /// # Errors
    /// If the name has no address, or one without TLS that is not on this machine.
    pub(super) fn new(
        url: WebhookUrl,
        connect: Option<ServerAddress>,
        tls: TlsConnector,
        has_client_certificate: bool,
    ) -> anyhow::Result<Self> {
        let server = connect.unwrap_or_else(|| url.server().clone());
        let addresses = server.resolve().map_err(|error| {
            anyhow::anyhow!("{url}: {server}: {error}: name an address with --connect")
        })?;
        if !url.is_tls() && !addresses.iter().all(|address| address.ip().is_loopback()) {
            anyhow::bail!(
                "{url}: {server} is not on this machine, and reviews can contain Secrets: use https://"
            );
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connector =
            Connector { url, server, addresses, tls, has_client_certificate, kept: None };
        Ok(Self { runtime, connector })
    }

    /// Returns the URL.
    pub(super) fn url(&self) -> &WebhookUrl {
        &self.connector.url
    }

    /// Sends a review and returns the body of the response.
    ///
    /// # Errors
    /// If there is no response with a decision.
    pub(super) fn send(&mut self, review: &str) -> Result<Vec<u8>, SendError> {
        let body = Bytes::copy_from_slice(review.as_bytes());
        self.runtime.block_on(self.connector.send(&body))
    }
}

/// Connects to the server, and keeps the connection.
struct Connector {
    url: WebhookUrl,
    server: ServerAddress,
    addresses: Vec<SocketAddr>,
    tls: TlsConnector,
    has_client_certificate: bool,
    kept: Option<SendRequest<Full<Bytes>>>,
}

impl Connector {
    /// Sends a review, and again after a pause if the server is overloaded.
    async fn send(&mut self, body: &Bytes) -> Result<Vec<u8>, SendError> {
        let mut pause = MIN_RETRY_PAUSE;
        for _ in 1..MAX_ATTEMPTS {
            match self.send_once(body).await {
                Err(SendError::Overload { retry_after, .. }) => {
                    tokio::time::sleep(retry_after.max(pause).min(MAX_RETRY_PAUSE)).await;
                    pause = pause.saturating_mul(2);
                }
                sent => return sent,
            }
        }
        self.send_once(body).await
    }

    async fn send_once(&mut self, body: &Bytes) -> Result<Vec<u8>, SendError> {
        let sent = tokio::time::timeout(REQUEST_TIMEOUT, self.exchange(body)).await;
        sent.unwrap_or(Err(SendError::Timeout))
    }

    async fn exchange(&mut self, body: &Bytes) -> Result<Vec<u8>, SendError> {
        // The server may have closed the kept connection. A dry run can be sent twice.
        let answered = match self.kept.take() {
            Some(sender) => self.post(sender, body).await.ok(),
            None => None,
        };
        let (sender, response) = if let Some(answered) = answered {
            answered
        } else {
            let sender = self.connect().await?;
            self.post(sender, body).await.map_err(|error| self.broken(&error))?
        };
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            let text = read_start(body, MAX_ERROR_BYTES).await;
            return Err(SendError::of_status(head.status, &head.headers, &text));
        }
        let bytes = self.read(body).await?;
        self.kept = Some(sender);
        Ok(bytes)
    }

    async fn post(
        &self,
        mut sender: SendRequest<Full<Bytes>>,
        body: &Bytes,
    ) -> hyper::Result<(SendRequest<Full<Bytes>>, Response<Incoming>)> {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = http::Method::POST;
        // Both come from a valid URL.
        *request.uri_mut() = self.url.path().parse().unwrap_or_default();
        let host = self.url.authority().parse();
        let headers = request.headers_mut();
        headers.extend(host.ok().map(|host| (HOST, host)));
        headers.insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, http::HeaderValue::from_static(USER_AGENT_VALUE));
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        Ok((sender, response))
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, SendError> {
        let server = &self.server;
        let stream = TcpStream::connect(self.addresses.as_slice()).await.map_err(|error| {
            SendError::Connection(format!(
                "cannot connect to {server}: {error}; start the server, or name its address with --connect"
            ))
        })?;
        // Without it, a body after its head waits for an acknowledgement.
        let _ = stream.set_nodelay(true);
        if !self.url.is_tls() {
            return self.handshake(TokioIo::new(stream)).await;
        }
        let host = &self.url.server().host;
        let name = ServerName::try_from(host.clone()).map_err(|_| {
            SendError::Connection(format!("{host:?} is not a name that a certificate can have"))
        })?;
        let stream = self.tls.connect(name, stream).await.map_err(|error| self.broken(&error))?;
        self.handshake(TokioIo::new(stream)).await
    }

    async fn handshake<S>(&self, stream: S) -> Result<SendRequest<Full<Bytes>>, SendError>
    where
        S: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_HEADERS);
        let shaken = builder.handshake(stream).await;
        let (sender, connection) = shaken.map_err(|error| self.broken(&error))?;
        tokio::spawn(async move {
            // The request reports the error of the connection.
            let _ = connection.await;
        });
        Ok(sender)
    }

    async fn read(&self, mut body: Incoming) -> Result<Vec<u8>, SendError> {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.broken(&error))?;
            let data = frame.data_ref().map_or(&[][..], |data| data.as_ref());
            if bytes.len().saturating_add(data.len()) > MAX_RESPONSE_BYTES {
                return Err(SendError::TooLarge);
            }
            bytes.extend_from_slice(data);
        }
        Ok(bytes)
    }

    /// Returns the error of a connection, with its remediation.
    fn broken(&self, error: &(dyn std::error::Error + 'static)) -> SendError {
        let text = one_line(&with_causes(error), MAX_ERROR_BYTES);
        let hint = self.url.is_tls().then(|| tls::hint(error, self.has_client_certificate));
        let hint = hint.flatten().map(|hint| format!("; {hint}")).unwrap_or_default();
        SendError::Connection(format!("no response from {}: {text}{hint}", self.server))
    }
}

/// Returns at most `max` bytes of the start of a body, as far as it arrives.
async fn read_start(mut body: Incoming, max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < max
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Some(data) = frame.data_ref() {
            bytes.extend_from_slice(data);
        }
    }
    bytes.truncate(max);
    bytes
}
