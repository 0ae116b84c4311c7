//! One connection, from its handshake to its end.
//!
//! ```text
//! stream ─▶ TLS ─▶ HTTP/1.1 or h2 ─▶ router ─▶ AccountedBody response ─▶ client
//!           └─ turn (handshakes)
//!                     ▲                          └─ busy, with the resources of the request, until sent
//! ConnectionSlot ─ evicted, retired ┘
//! ```

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use opgate_certs::ClientRejection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};
use tower_service::Service as _;

use super::bucket::TokenBucket;
use super::connection_limiter::{ConnectionSlot, RequestGuard, RequestTracker};
use super::handshake_limiter::HandshakeLimiter;
use super::metrics::Metrics;
use super::request_memory::ResponseCharge;
use super::timeout_stream::{Activity, RequestInProgress, TimeoutStream};

/// The phases of the shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum Phase {
    Serving,
    /// Not ready, still accepting.
    Draining,
    /// No longer accepting connections.
    Closing,
}

/// Time limit for the handshake of a client, and for the head of a request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// An idle connection is kept longer than an API server keeps it (90 s). The side that closes it
/// must be the one that knows whether a request is on its way.
const IDLE_TIMEOUT: Duration = Duration::from_secs(150);

/// Maximum number of requests of one connection to the ops port, at once and in a second. A kubelet
/// sends one in several seconds.
const MAX_OPS_REQUESTS: u64 = 8;
const MAX_OPS_REQUESTS_PER_SECOND: u64 = 10;

/// After the last connection was accepted, an idle one is kept for this time: a client that has
/// just connected will send its request soon.
const LINGER: Duration = Duration::from_secs(1);

/// When the server stops, it tells a client to use another replica after this time, or after half
/// of `--drain-delay` if that is less. If it told all clients at once, half of them would come
/// back, because the endpoint has not disappeared yet, and each call would need a handshake.
const GOAWAY_DELAY: Duration = Duration::from_secs(1);

/// Maximum number of concurrent requests on one h2 connection. Clients that need more open another
/// one.
const MAX_STREAMS: u32 = 64;

/// Maximum bytes that h2 keeps of the bodies and responses of one connection.
const H2_WINDOW_BYTES: u32 = 64 << 10;
const H2_SEND_BUFFER_BYTES: usize = 64 << 10;
const MAX_H2_HEAD_BYTES: u32 = 16 << 10;

/// Buffer of HTTP/1.1: the head of a request, and an equal part of its body at a time.
const H1_BUFFER_BYTES: usize = 32 << 10;

/// Plain text that waits for encryption, or encrypted text that waits to be sent.
const TLS_BUFFER_BYTES: usize = 16 << 10;

/// How connections end when the server stops.
#[derive(Debug, Clone)]
pub(super) struct Shutdown {
    pub(super) phases: watch::Receiver<Phase>,
    /// Time from the signal until the port closes.
    pub(super) drain_delay: Duration,
}

/// What a TLS handshake needs.
pub(super) struct TlsHandshake<'a> {
    pub(super) acceptor: TlsAcceptor,
    pub(super) limiter: &'a HandshakeLimiter,
}

/// Limits of an HTTP/1.1 connection.
struct Http1Limits {
    /// Maximum time between two requests.
    idle_time: Duration,
    /// Requests, if they are limited.
    rate: Option<TokenBucket>,
}

/// What ends an HTTP/1.1 connection: after the first, responses announce that it closes; after the second, it
/// closes when it is idle.
struct Http1End<A, I> {
    announced: A,
    idle: I,
}

/// Serves the webhook port to one client. `place` is none for the server itself, which is served
/// like a client but does not count as one.
pub(super) async fn serve_webhook(
    stream: TcpStream,
    slot: Option<&ConnectionSlot>,
    tls: TlsHandshake<'_>,
    router: Router,
    metrics: &Metrics,
    shutdown: Shutdown,
) {
    let Shutdown { phases, drain_delay } = shutdown;
    let greeting = accept_tls(stream, slot, &tls);
    let mut stream = match tokio::time::timeout(HANDSHAKE_TIMEOUT, greeting).await {
        Ok(Ok(stream)) => stream,
        _ if slot.is_none() => return,
        failed => {
            let refusal =
                failed.ok().and_then(Result::err).and_then(|error| client_rejection(&error));
            metrics.count_handshake_failure(refusal);
            return;
        }
    };
    stream.get_mut().1.set_buffer_limit(Some(TLS_BUFFER_BYTES));
    if let Some(slot) = slot {
        let client = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        if let Some(certificate) = client {
            tls.limiter.mark_verified(slot.source());
            slot.identify(certificate);
        }
        slot.handshake_done(client.is_some());
    }
    let farewell = wait_for_goaway(phases.clone(), GOAWAY_DELAY.min(drain_delay / 2));
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        serve_h2(stream, slot, router, farewell).await;
    } else {
        let limits = Http1Limits { idle_time: IDLE_TIMEOUT, rate: None };
        let end = Http1End { announced: farewell, idle: wait_for_end(slot, phases) };
        serve_h1(stream, slot, router, limits, end).await;
    }
}

/// Ends when the client of a connection must be told to use another replica, because the server
/// stops.
async fn wait_for_goaway(phases: watch::Receiver<Phase>, after: Duration) {
    let mut closing = phases.clone();
    let mut draining = phases;
    wait_for_phase(&mut draining, Phase::Draining).await;
    tokio::select! {
        () = tokio::time::sleep(after) => {}
        () = wait_for_phase(&mut closing, Phase::Closing) => {}
    }
}

/// Waits for the client's hello, and then for a permit to respond.
async fn accept_tls(
    stream: TcpStream,
    slot: Option<&ConnectionSlot>,
    TlsHandshake { acceptor, limiter }: &TlsHandshake<'_>,
) -> io::Result<TlsStream<TcpStream>> {
    // The server itself needs no permit: `/livez` must not depend on clients.
    let Some(slot) = slot else { return acceptor.accept(stream).await };
    let greeted = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
    let turn = limiter.acquire(slot.source()).await;
    let config = acceptor.config().clone();
    // The expensive part starts as soon as the configuration is available.
    turn.run(async move { greeted.into_stream(config).await }).await
}

/// Serves the ops port to one client.
pub(super) async fn serve_ops(stream: TcpStream, slot: &ConnectionSlot, router: Router) {
    slot.handshake_done(false);
    serve_ops_stream(stream, Some(slot), router, slot.wait_for_retirement()).await;
}

async fn serve_ops_stream(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    slot: Option<&ConnectionSlot>,
    router: Router,
    idle: impl Future<Output = ()>,
) {
    let rate = Some(TokenBucket::new(MAX_OPS_REQUESTS, MAX_OPS_REQUESTS_PER_SECOND));
    let limits = Http1Limits { idle_time: HEAD_TIMEOUT, rate };
    let end = Http1End { announced: std::future::pending(), idle };
    serve_h1(stream, slot, router, limits, end).await;
}

/// Ends when an HTTP/1.1 connection must not continue after the current request.
async fn wait_for_end(slot: Option<&ConnectionSlot>, mut phases: watch::Receiver<Phase>) {
    let drained = async {
        wait_for_phase(&mut phases, Phase::Closing).await;
        // From then on every response has `Connection: close`, so a connection that remains is
        // idle.
        tokio::time::sleep(LINGER).await;
    };
    tokio::select! {
        () = drained => {}
        () = wait_for_retirement(slot) => {}
    }
}

async fn wait_for_retirement(slot: Option<&ConnectionSlot>) {
    match slot {
        Some(slot) => slot.wait_for_retirement().await,
        None => std::future::pending().await,
    }
}

/// Ends when the server is in a phase, or past it.
async fn wait_for_phase(phases: &mut watch::Receiver<Phase>, phase: Phase) {
    // The sender lives as long as the server. Without it, there is nothing to serve.
    let _ = phases.wait_for(|now| *now >= phase).await;
}

async fn serve_h1(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    slot: Option<&ConnectionSlot>,
    router: Router,
    Http1Limits { idle_time, rate }: Http1Limits,
    Http1End { announced: farewell, idle }: Http1End<
        impl Future<Output = ()>,
        impl Future<Output = ()>,
    >,
) {
    let rate = rate.map(Arc::new);
    let serving = RequestInProgress::default();
    let stream = TimeoutStream::new(stream, Some((serving.clone(), HEAD_TIMEOUT)));
    let requests = slot.map(ConnectionSlot::requests);
    let goes = Arc::new(AtomicBool::new(false));
    let told = goes.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        serving.begin();
        let (response, serving) = (respond(&router, requests.as_ref(), request), serving.clone());
        let (rate, goes) = (rate.clone(), goes.clone());
        async move {
            if let Some(rate) = rate {
                let now = Instant::now().into_std();
                rate.spend(1, now);
                let wait = rate.wait(now);
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
            }
            let mut response = response.await;
            serving.end();
            if let Ok(response) = &mut response
                && goes.load(Ordering::Relaxed)
            {
                // The next request of this client belongs to another replica.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(idle_time).max_buf_size(H1_BUFFER_BYTES);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let farewell = async {
        farewell.await;
        told.store(true, Ordering::Relaxed);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        _ = connection.as_mut() => {}
        () = farewell => {}
        () = idle => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

async fn serve_h2(
    stream: TlsStream<TcpStream>,
    slot: Option<&ConnectionSlot>,
    router: Router,
    farewell: impl Future<Output = ()>,
) {
    let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_connection_window_size(H2_WINDOW_BYTES)
        .initial_stream_window_size(H2_WINDOW_BYTES)
        .max_send_buf_size(H2_SEND_BUFFER_BYTES)
        .max_header_list_size(MAX_H2_HEAD_BYTES)
        .keep_alive_interval(IDLE_TIMEOUT / 3)
        .keep_alive_timeout(HEAD_TIMEOUT);
    let activity = Activity::default();
    let counted = activity.clone();
    let requests = slot.map(ConnectionSlot::requests);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (response, active) = (respond(&router, requests.as_ref(), request), counted.begin());
        async move {
            let response = response.await;
            drop(active);
            response
        }
    });
    let connection = http.serve_connection(TokioIo::new(TimeoutStream::new(stream, None)), service);
    let mut connection = pin!(connection);
    // h2 has a frame with the meaning of `Connection: close`.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = farewell => {}
        () = wait_for_retirement(slot) => {}
        () = activity.wait_idle(IDLE_TIMEOUT) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(HEAD_TIMEOUT, connection).await;
            return;
        }
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Gets the response to a request. The connection counts as busy until the client has received the
/// response.
fn respond(
    router: &Router,
    requests: Option<&RequestTracker>,
    mut request: hyper::Request<Incoming>,
) -> impl Future<Output = Result<hyper::Response<AccountedBody>, Infallible>> + Send + use<> {
    if let Some(requests) = requests {
        request.extensions_mut().insert(requests.origin());
    }
    let (mut router, request_guard) = (router.clone(), requests.map(RequestTracker::begin));
    async move {
        let mut response = router.call(request).await?;
        let charge = response.extensions_mut().remove::<ResponseCharge>();
        let mut request_guard = request_guard;
        if let Some(request_guard) = &mut request_guard {
            request_guard.mark_responded();
        }
        Ok(response.map(|body| AccountedBody {
            body,
            guards: Some(ResponseGuards { _request: request_guard, _charge: charge }),
        }))
    }
}

/// Ends when a response has been sent, or cannot be sent any more.
struct ResponseGuards {
    _request: Option<RequestGuard>,
    _charge: Option<ResponseCharge>,
}

/// The body of a response. The resources of the request stay with its bytes through all queues
/// below.
struct AccountedBody {
    body: Body,
    guards: Option<ResponseGuards>,
}

/// Bytes of a response with the resources of its request.
struct AccountedBytes {
    bytes: Bytes,
    _guards: Option<ResponseGuards>,
}

impl AsRef<[u8]> for AccountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl hyper::body::Body for AccountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        let Some(Ok(frame)) = frame else { return Poll::Ready(frame) };
        let is_last = self.body.is_end_stream();
        Poll::Ready(Some(Ok(frame.map_data(|bytes| {
            if !is_last {
                return bytes;
            }
            Bytes::from_owner(AccountedBytes { bytes, _guards: self.guards.take() })
        }))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The reason why the client of a failed handshake was rejected, if it was.
fn client_rejection(error: &io::Error) -> Option<ClientRejection> {
    ClientRejection::of(error.get_ref()?.downcast_ref()?)
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pipelined_requests_on_the_ops_port_are_delayed() {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let router = Router::new().route("/", get(async || "ok"));
        let started = Instant::now();
        let serving = tokio::spawn(serve_ops_stream(server, None, router, std::future::pending()));
        let ask = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(107);
        let last = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        client.write_all((ask + last).as_bytes()).await.unwrap();
        let mut answers = String::new();
        client.read_to_string(&mut answers).await.unwrap();
        serving.await.unwrap();
        assert_eq!(answers.matches("200 OK").count(), 108);
        assert!(started.elapsed() >= Duration::from_secs(10), "{:?}", started.elapsed());
    }
}
