//! The webhook server: TLS, HTTP, drain.
//!
//! ```text
//! accept ─▶ handshake (5 s) ─▶ HTTP/1.1 or h2 ─▶ app: body, review, decision ─▶ answer
//!    ▲                                                │
//!    └── connections bounded                          └─▶ 503 + Retry-After when there is too much
//! ```
//!
//! On SIGTERM the server is not ready any more but goes on accepting for a while (an endpoint
//! takes time to disappear), tells every client to come back elsewhere, then stops accepting and
//! waits for what is under way.

mod app;
mod guard;
mod metrics;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use opgate_certs::{Change, Reloader};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

pub use app::Answer;
use app::App;
use guard::{Activity, HeadGuard, Serving};
use metrics::Counted;

use crate::policy::Set;

/// A client that does not end its handshake, or the head of a request, in this time is let go.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
const HEAD_TIME: Duration = Duration::from_secs(5);

/// An idle connection is kept longer than an API server keeps it (90 s): the one that closes it
/// must not be the one that does not know whether a request is on its way.
const IDLE_TIME: Duration = Duration::from_secs(150);

/// After the last connection was accepted, one that is idle is kept for this long: a client that has
/// just connected is about to send its request.
const LINGER: Duration = Duration::from_secs(1);

/// Open connections; more wait to be accepted. An API server opens some dozens.
const MAX_CONNECTIONS: usize = 4_096;

/// The same for the ops port: kubelets and Prometheus.
const MAX_OPS_CONNECTIONS: usize = 128;

/// Requests at the same time on one h2 connection.
const MAX_STREAMS: u32 = 256;

/// What a server needs to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address of the webhook port.
    pub listen: SocketAddr,
    /// Address of the ops port.
    pub ops_listen: SocketAddr,
    /// Bytes of the largest body.
    pub body_limit: usize,
    /// Bytes of all bodies in memory.
    pub body_memory: usize,
    /// How long the server accepts after it was told to stop.
    pub drain_delay: Duration,
    /// How long it then waits for requests under way.
    pub grace: Duration,
    /// How often the certificate's files are looked at.
    pub reload_interval: Duration,
    /// How reviews are answered.
    pub answer: Answer,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 9443)),
            ops_listen: SocketAddr::from(([0, 0, 0, 0], 8081)),
            body_limit: 7 << 20,
            body_memory: 256 << 20,
            drain_delay: Duration::from_secs(5),
            grace: Duration::from_secs(20),
            reload_interval: Duration::from_secs(5),
            answer: Answer::default(),
        }
    }
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A port cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Phase {
    Serving,
    /// Not ready, still accepting.
    Draining,
    /// Not accepting.
    Closing,
}

/// A server whose ports are open.
pub struct Server {
    options: Options,
    app: Arc<App>,
    listener: TcpListener,
    ops: TcpListener,
    acceptor: TlsAcceptor,
    certificate: Arc<Reloader>,
}

impl Server {
    /// Opens the ports.
    ///
    /// # Errors
    /// Where a port cannot be bound.
    pub async fn bind(
        options: Options,
        set: Set,
        certificate: Arc<Reloader>,
    ) -> Result<Self, ServerError> {
        let listener = bind(options.listen).await?;
        let ops = bind(options.ops_listen).await?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(certificate.clone());
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let body_memory = options.body_memory.max(options.body_limit);
        let app = App::new(set, options.body_limit, body_memory, options.answer);
        app.metrics.certificate_ends(certificate.current().not_after());
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        Ok(Self { options, app, listener, ops, acceptor, certificate })
    }

    /// Address of the webhook port.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Address of the ops port.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub fn ops_addr(&self) -> io::Result<SocketAddr> {
        self.ops.local_addr()
    }

    /// Serves until `stop` ends, then drains. `reload` gives a value whenever the certificate's
    /// files should be looked at before their time.
    pub async fn run(self, stop: impl Future<Output = ()>, mut reload: watch::Receiver<()>) {
        let (phase, phases) = watch::channel(Phase::Serving);
        let app = self.app.clone();
        let ops = tokio::spawn(serve_ops(self.ops, app.ops()));
        let certificate = self.certificate.clone();
        let interval = self.options.reload_interval;
        let reloading = tokio::spawn(async move {
            let mut told = true;
            let mut reported = None;
            loop {
                tokio::select! {
                    () = tokio::time::sleep(interval) => {}
                    changed = reload.changed(), if told => {
                        told = changed.is_ok();
                        if !told {
                            continue;
                        }
                    }
                }
                look(&certificate, &app, &mut reported);
            }
        });
        let accepting = accept(self.listener, self.acceptor, self.app.clone(), phases);
        let mut accepting = pin!(accepting);
        tokio::select! {
            () = &mut accepting => {}
            () = stop => {
                tracing::info!(delay = ?self.options.drain_delay, "draining");
                self.app.draining.store(true, Ordering::Relaxed);
                let _ = phase.send(Phase::Draining);
                let delay = tokio::time::sleep(self.options.drain_delay);
                tokio::select! {
                    () = &mut accepting => {}
                    () = delay => {}
                }
                let _ = phase.send(Phase::Closing);
                if tokio::time::timeout(self.options.grace, &mut accepting).await.is_err() {
                    tracing::warn!("some connections did not end in time");
                }
            }
        }
        reloading.abort();
        ops.abort();
        tracing::info!("stopped");
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, ServerError> {
    TcpListener::bind(address).await.map_err(|source| ServerError::Listen { address, source })
}

async fn serve_ops(listener: TcpListener, router: Router) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= MAX_OPS_CONNECTIONS {
            connections.join_next().await;
        }
        let Some(stream) = next(&listener).await else { continue };
        let service = service(router.clone());
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
        connections.spawn(async move {
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// The next connection. Errors of `accept` are about one connection or pass (no more files): wait a
/// little and go on.
async fn next(listener: &TcpListener) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => {
            let _ = stream.set_nodelay(true);
            Some(stream)
        }
        Err(error) => {
            tracing::warn!(%error, "accept");
            tokio::time::sleep(Duration::from_millis(20)).await;
            None
        }
    }
}

/// Looks at the certificate's files; a broken new pair is reported once, the old one stays.
fn look(certificate: &Reloader, app: &App, reported: &mut Option<String>) {
    let result = certificate.look();
    let error = result.as_ref().err().map(ToString::to_string);
    match (result, &error) {
        (Ok(Change::Replaced), _) => {
            let current = certificate.current();
            tracing::info!(names = current.names().join(","), "certificate replaced");
            app.metrics.certificate_ends(current.not_after());
            app.metrics.reloaded("replaced");
        }
        (Err(_), Some(text)) if error != *reported => {
            tracing::error!(error = text, "the old certificate is kept");
            app.metrics.reloaded("failed");
        }
        _ => {}
    }
    *reported = error;
}

/// Accepts connections until the phase is closing, then waits for those that are open.
async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    app: Arc<App>,
    phases: watch::Receiver<Phase>,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let router = app.webhook();
    let mut connections = JoinSet::new();
    let mut closed = phases.clone();
    let mut closed = pin!(reached(&mut closed, Phase::Closing));
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(place) = places.clone().acquire_owned().await else { break };
        let stream = tokio::select! {
            stream = next(&listener) => stream,
            () = &mut closed => break,
        };
        let Some(stream) = stream else { continue };
        let connection =
            connection(stream, acceptor.clone(), router.clone(), app.clone(), phases.clone());
        connections.spawn(async move {
            connection.await;
            drop(place);
        });
    }
    // Whoever the system has accepted on our behalf is served, too.
    while let Some(Some(stream)) = next(&listener).now_or_never() {
        let connection =
            connection(stream, acceptor.clone(), router.clone(), app.clone(), phases.clone());
        connections.spawn(connection);
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Ends when the server is in a phase, or past it.
async fn reached(phases: &mut watch::Receiver<Phase>, phase: Phase) {
    // The sender lives as long as the server; without it there is nothing to serve either.
    let _ = phases.wait_for(|now| *now >= phase).await;
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    app: Arc<App>,
    mut phases: watch::Receiver<Phase>,
) {
    let _counted = Counted::new(&app.metrics.connections);
    let handshake = tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream));
    let Ok(Ok(stream)) = handshake.await else {
        app.metrics.handshake_failures.inc();
        return;
    };
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    if is_h2 {
        let mut http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .keep_alive_interval(IDLE_TIME / 3)
            .keep_alive_timeout(HEAD_TIME);
        let activity = Activity::default();
        let counted = activity.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let (mut router, active) = (router.clone(), counted.begin());
            async move {
                let response = router.call(request).await;
                drop(active);
                response
            }
        });
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        // h2 has a frame that says what `Connection: close` says; nothing is lost by sending it
        // early.
        tokio::select! {
            _ = connection.as_mut() => {}
            () = reached(&mut phases, Phase::Draining) => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
            () = activity.quiet_for(IDLE_TIME) => {
                connection.as_mut().graceful_shutdown();
                let _ = tokio::time::timeout(HEAD_TIME, connection).await;
            }
        }
        return;
    }
    let serving = Serving::default();
    let stream = HeadGuard::new(stream, serving.clone(), HEAD_TIME);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        serving.begin();
        let (mut router, serving) = (router.clone(), serving.clone());
        async move {
            let response = router.call(request).await;
            serving.end();
            response
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE_TIME);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // Every answer says `Connection: close` by then, so that what is left after a while is idle.
    let idle = async {
        reached(&mut phases, Phase::Closing).await;
        tokio::time::sleep(LINGER).await;
    };
    tokio::select! {
        _ = connection.as_mut() => {}
        () = idle => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}

fn service(
    router: Router,
) -> impl hyper::service::Service<
    hyper::Request<Incoming>,
    Response = axum::response::Response,
    Error = Infallible,
    Future: Send + 'static,
> + Clone {
    service_fn(move |request: hyper::Request<Incoming>| {
        let mut router = router.clone();
        async move { router.call(request).await }
    })
}
