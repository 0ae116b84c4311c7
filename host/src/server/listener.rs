//! Accepting and serving connections until there is nothing more to serve.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::FutureExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;

use super::app::App;
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

/// Open connections; more wait to be accepted. An API server opens some dozens.
const MAX_CONNECTIONS: usize = 4_096;

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

/// Serves the ops port.
pub(super) async fn serve_ops(listener: TcpListener, router: Router) {
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

/// Accepts connections until the phase is closing, then waits for those that are open.
pub(super) async fn accept(
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
