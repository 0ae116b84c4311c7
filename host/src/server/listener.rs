//! Accepting and serving connections until there is nothing more to serve.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use opgate_certs::Refusal;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use super::app::App;
use super::check::Checks;
use super::guard::{Activity, HeadGuard, Serving};
use super::metrics::Counted;

/// A client that does not end its handshake, or the head of a request, in this time is let go.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);
const HEAD_TIME: Duration = Duration::from_secs(5);

/// An idle connection is kept longer than an API server keeps it (90 s): the one that closes it
/// must not be the one that does not know whether a request is on its way.
const IDLE_TIME: Duration = Duration::from_secs(150);

/// After the last connection was accepted, one that is idle is kept for this long: a client that has
/// just connected is about to send its request.
const LINGER: Duration = Duration::from_secs(1);

/// Open connections of the webhook port; more wait to be accepted. An API server opens some dozens.
pub(super) const MAX_CONNECTIONS: usize = 4_096;

/// The same for the ops port: kubelets and Prometheus.
const MAX_OPS_CONNECTIONS: usize = 128;

/// Requests at the same time on one h2 connection.
const MAX_STREAMS: u32 = 256;

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum Phase {
    Serving,
    /// Not ready, still accepting.
    Draining,
    /// Not accepting.
    Closing,
}

/// Serves the ops port, as long as it is polled.
pub(super) async fn serve_ops(listener: Arc<TcpListener>, router: Router) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= MAX_OPS_CONNECTIONS {
            connections.join_next().await;
        }
        let Some((stream, _)) = next(&listener).await else { continue };
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
async fn next(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok((stream, peer)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, peer))
        }
        Err(error) => {
            tracing::warn!(%error, "accept");
            tokio::time::sleep(Duration::from_millis(20)).await;
            None
        }
    }
}

/// The webhook port with its connections, which outlive whoever accepts them.
pub(super) struct Port {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    app: Arc<App>,
    router: Router,
    phases: watch::Receiver<Phase>,
    places: Arc<Semaphore>,
    connections: Mutex<JoinSet<()>>,
    checks: Arc<Checks>,
}

impl Port {
    pub(super) fn new(
        listener: TcpListener,
        acceptor: TlsAcceptor,
        app: Arc<App>,
        phases: watch::Receiver<Phase>,
        max_connections: usize,
        checks: Arc<Checks>,
    ) -> Self {
        let places = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
        let router = app.webhook();
        let connections = Mutex::default();
        Self { listener, acceptor, app, router, phases, places, connections, checks }
    }

    /// Accepts connections, as long as it is polled.
    pub(super) async fn accept(self: Arc<Self>) {
        while let Ok(place) = self.places.clone().acquire_owned().await {
            if let Some((stream, peer)) = next(&self.listener).await {
                self.serve(stream, peer, Some(place));
            }
        }
    }

    /// Serves whom the system has accepted on our behalf, then accepts nobody any more and waits
    /// for the connections that are open.
    pub(super) async fn close(self) {
        while let Some(Some((stream, peer))) = next(&self.listener).now_or_never() {
            self.serve(stream, peer, None);
        }
        let Self { listener, connections, .. } = self;
        drop(listener);
        let mut connections = connections.into_inner();
        while connections.join_next().await.is_some() {}
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, place: Option<OwnedSemaphorePermit>) {
        let check = self.checks.is_one(peer);
        let (acceptor, router, app) =
            (self.acceptor.clone(), self.router.clone(), self.app.clone());
        let connection = connection(stream, check, acceptor, router, app, self.phases.clone());
        let mut connections = self.connections.lock();
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            connection.await;
            drop(place);
        });
    }
}

/// Ends when the server is in a phase, or past it.
async fn reached(phases: &mut watch::Receiver<Phase>, phase: Phase) {
    // The sender lives as long as the server; without it there is nothing to serve either.
    let _ = phases.wait_for(|now| *now >= phase).await;
}

/// `check` is for a connection of the server to itself: it is served as any other, but is no client
/// to count.
async fn connection(
    stream: TcpStream,
    check: bool,
    acceptor: TlsAcceptor,
    router: Router,
    app: Arc<App>,
    mut phases: watch::Receiver<Phase>,
) {
    let _counted = (!check).then(|| Counted::new(&app.metrics.connections));
    let stream = match tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        _ if check => return,
        failed => {
            let refusal = failed.ok().and_then(Result::err).and_then(|error| refusal(&error));
            app.metrics.handshake_failed(refusal);
            return;
        }
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

/// Why the client of a failed handshake was refused, if it was.
fn refusal(error: &io::Error) -> Option<Refusal> {
    Refusal::of(error.get_ref()?.downcast_ref()?)
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
