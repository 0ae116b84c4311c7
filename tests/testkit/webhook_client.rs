//! The client of a webhook as an API server is one: what the transport of Go's `net/http`, and the client
//! of Kubernetes above it, do where a call can get lost.
//!
//! ```text
//! call ─▶ idle connection, the newest first ─▶ answer ─▶ back to the idle ones, unless `Connection: close`
//!   │        └─ gone before a byte was written: the next one
//!   └───▶ new connection, to an endpoint that the Service names at this moment
//! ```
//!
//! * A POST is sent once. It is sent again only if nothing of it was written and the connection had
//!   been used before, or, over HTTP/2, if the server reports that it has not read it (GOAWAY,
//!   `REFUSED_STREAM`).
//! * An answer of 429 or 5xx with `Retry-After` is asked for again, up to ten times.
//! * An address is chosen when a connection is opened; a connection stays where it is.
//! * A connection whose call ran out of time is closed (HTTP/1.1), or kept until it leaves a ping without an
//!   answer (HTTP/2).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use opgate_certs::CertificateAuthority;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client;

/// Idle connections that are kept, as Kubernetes sets it.
const MAX_IDLE_CONNECTIONS: usize = 25;
/// How often a request goes to another connection, and how often an answer is asked for again.
const MAX_CONNECTION_TRIES: usize = 6;
const MAX_RETRIES: usize = 10;
/// A handshake may take this long.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Over HTTP/2: a ping after such a silence, and the time for its answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// The endpoints of a Service, as the network knows them at the moment.
#[derive(Clone, Debug, Default)]
pub struct Endpoints(Arc<Mutex<Vec<SocketAddr>>>, Arc<AtomicUsize>);

impl Endpoints {
    /// One more.
    pub fn add(&self, address: SocketAddr) {
        self.0.lock().unwrap().push(address);
    }

    /// One less.
    pub fn remove(&self, address: SocketAddr) {
        self.0.lock().unwrap().retain(|known| *known != address);
    }

    /// All of them.
    pub fn all(&self) -> Vec<SocketAddr> {
        self.0.lock().unwrap().clone()
    }

    /// Where the next connection goes: to each of them in turn.
    fn next(&self) -> Option<SocketAddr> {
        let known = self.0.lock().unwrap();
        let number = self.1.fetch_add(1, Ordering::Relaxed);
        known.get(number % known.len().max(1)).copied()
    }
}

/// What connections speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1, which API servers speak to everything but to URLs of their own machine.
    Http1,
    /// HTTP/2.
    Http2,
}

type Http1Sender = http1::SendRequest<Full<Bytes>>;
type Http2Sender = http2::SendRequest<Full<Bytes>>;

/// What came of a try.
enum AttemptResult {
    Response(Response<Incoming>, Option<Http1Sender>),
    /// Nothing was written, or the server has not read it.
    Retry(String),
    Failed(String),
}

/// One API server, as far as it calls one webhook.
pub struct WebhookClient {
    protocol: Protocol,
    endpoints: Endpoints,
    tls: TlsConnector,
    name: ServerName<'static>,
    timeout: Duration,
    idle_http1: Mutex<Vec<Http1Sender>>,
    shared_http2: Mutex<Option<Http2Sender>>,
}

impl WebhookClient {
    /// Calls what these endpoints stand for, by this name, each call within `timeout`.
    pub fn new(
        protocol: Protocol,
        endpoints: &Endpoints,
        (authority, name): (&CertificateAuthority, &str),
        timeout: Duration,
    ) -> Self {
        let alpn: &[&[u8]] = match protocol {
            Protocol::Http1 => &[b"http/1.1"],
            Protocol::Http2 => &[b"h2"],
        };
        let mut config = client(authority, alpn);
        // An API server keeps no sessions.
        config.resumption = rustls::client::Resumption::disabled();
        Self::with_tls(protocol, endpoints, (config, name), timeout)
    }

    /// The same with this TLS configuration, unchanged.
    pub fn with_tls(
        protocol: Protocol,
        endpoints: &Endpoints,
        (config, name): (rustls::ClientConfig, &str),
        timeout: Duration,
    ) -> Self {
        Self {
            protocol,
            endpoints: endpoints.clone(),
            tls: TlsConnector::from(Arc::new(config)),
            name: ServerName::try_from(name.to_owned()).unwrap(),
            timeout,
            idle_http1: Mutex::default(),
            shared_http2: Mutex::default(),
        }
    }

    /// Sends a review to a path; gives the body of an answer of 200.
    ///
    /// # Errors
    /// Why the call failed, as an API server would say it.
    pub async fn call(&self, path: &str, review: &Bytes) -> Result<Bytes, String> {
        let seconds = self.timeout.as_secs();
        let path = format!("{path}?timeout={seconds}s");
        tokio::time::timeout(self.timeout, self.call_with_retries(&path, review))
            .await
            .unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
    }

    async fn call_with_retries(&self, path: &str, review: &Bytes) -> Result<Bytes, String> {
        for _ in 0..MAX_RETRIES {
            let (status, retry, body) = self.send_until_answered(path, review).await?;
            match retry {
                _ if status == 200 => return Ok(body),
                Some(seconds) if status == 429 || status >= 500 => {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                }
                _ => return Err(format!("{status}: {}", String::from_utf8_lossy(&body))),
            }
        }
        Err("answered with Retry-After again and again".to_owned())
    }

    /// Status, `Retry-After` and body.
    async fn send_until_answered(
        &self,
        path: &str,
        review: &Bytes,
    ) -> Result<(u16, Option<u64>, Bytes), String> {
        let mut last = String::new();
        for _ in 0..MAX_IDLE_CONNECTIONS + MAX_CONNECTION_TRIES {
            let (response, sender) = match self.attempt(path, review).await {
                AttemptResult::Response(response, sender) => (response, sender),
                AttemptResult::Retry(why) => {
                    last = why;
                    continue;
                }
                AttemptResult::Failed(why) => return Err(why),
            };
            let (head, body) = response.into_parts();
            let header = |name: &str| head.headers.get(name).and_then(|v| v.to_str().ok());
            let body = body.collect().await.map_err(|e| error_chain(&e))?.to_bytes();
            if let Some(sender) = sender
                && header("connection") != Some("close")
            {
                self.keep_idle(sender).await;
            }
            let retry = header("retry-after").and_then(|seconds| seconds.parse().ok());
            return Ok((head.status.as_u16(), retry, body));
        }
        Err(last)
    }

    async fn keep_idle(&self, mut sender: Http1Sender) {
        if sender.ready().await.is_ok() {
            let mut idle = self.idle_http1.lock().unwrap();
            if idle.len() < MAX_IDLE_CONNECTIONS {
                idle.push(sender);
            }
        }
    }

    async fn attempt(&self, path: &str, review: &Bytes) -> AttemptResult {
        match self.protocol {
            Protocol::Http1 => self.attempt_http1(path, review).await,
            Protocol::Http2 => self.attempt_http2(path, review).await,
        }
    }

    fn request(&self, path: &str, review: &Bytes) -> Request<Full<Bytes>> {
        let host = self.name.to_str();
        let path = match self.protocol {
            Protocol::Http1 => path.to_owned(),
            Protocol::Http2 => format!("https://{host}{path}"),
        };
        let mut request = Request::post(path).header("content-type", "application/json");
        if self.protocol == Protocol::Http1 {
            request = request.header("host", &*host);
        }
        request.body(Full::new(review.clone())).unwrap()
    }

    async fn attempt_http1(&self, path: &str, review: &Bytes) -> AttemptResult {
        let kept = || {
            let mut idle = self.idle_http1.lock().unwrap();
            idle.retain(|sender| !sender.is_closed());
            idle.pop()
        };
        let (mut sender, is_new) = match kept() {
            Some(sender) => (sender, false),
            None => match self.connect_http1().await {
                Ok(sender) => (sender, true),
                Err(why) => return AttemptResult::Failed(why),
            },
        };
        match sender.try_send_request(self.request(path, review)).await {
            Ok(response) => AttemptResult::Response(response, Some(sender)),
            Err(error) if !is_new && error.message().is_some() => {
                AttemptResult::Retry(error_chain(error.error()))
            }
            Err(error) => AttemptResult::Failed(error_chain(error.error())),
        }
    }

    async fn attempt_http2(&self, path: &str, review: &Bytes) -> AttemptResult {
        let kept = || {
            let mut shared = self.shared_http2.lock().unwrap();
            shared.take_if(|sender| sender.is_closed());
            shared.clone()
        };
        let mut sender = match kept() {
            Some(sender) => sender,
            None => match self.connect_http2().await {
                Ok(sender) => self.shared_http2.lock().unwrap().get_or_insert(sender).clone(),
                Err(why) => return AttemptResult::Failed(why),
            },
        };
        match sender.try_send_request(self.request(path, review)).await {
            Ok(response) => AttemptResult::Response(response, None),
            Err(error) => {
                let why = error_chain(error.error());
                // Sent before the GOAWAY came that leaves it out; these are the words of the crate `h2`.
                let unseen = why.contains("connection error received: not a result of an error")
                    || why.contains("refused stream");
                if error.message().is_some() || unseen {
                    self.shared_http2.lock().unwrap().take_if(|sender| sender.is_closed());
                    AttemptResult::Retry(why)
                } else {
                    AttemptResult::Failed(why)
                }
            }
        }
    }

    async fn connect_http1(&self) -> Result<Http1Sender, String> {
        let stream = TokioIo::new(self.connect().await?);
        let (sender, connection) = http1::handshake(stream).await.map_err(|e| error_chain(&e))?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn connect_http2(&self) -> Result<Http2Sender, String> {
        let stream = TokioIo::new(self.connect().await?);
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        let (sender, connection) = http.handshake(stream).await.map_err(|e| error_chain(&e))?;
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn connect(&self) -> Result<TlsStream<TcpStream>, String> {
        let address = self.endpoints.next().ok_or("no endpoints available for service")?;
        let failed = |error: std::io::Error| format!("dial: {error}");
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let greeting = self.tls.connect(self.name.clone(), stream);
        let greeted = tokio::time::timeout(HANDSHAKE_TIMEOUT, greeting).await;
        greeted
            .map_err(|_| "TLS handshake timeout".to_owned())?
            .map_err(|error| format!("handshake: {error}"))
    }
}

/// An error with its causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
