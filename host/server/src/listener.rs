//! Accepts connections until the port is closed.
//!
//! Accepting never waits for existing connections. A new connection gets a slot and, if there is
//! none, another connection ends ([`super::connection_limiter`]).

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::FutureExt as _;
use opgate_platform::process::is_out_of_descriptors;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::app::App;
use super::connection::{self, Shutdown, TlsHandshake};
use super::connection_limiter::ConnectionLimiter;
use super::descriptors::SpareDescriptor;
use super::handshake_limiter::HandshakeLimiter;
use super::metrics::GaugeGuard;
use super::rate_limited_log::RateLimitedLog;
use super::self_check::SelfCheckConnections;

/// Time between two attempts to accept after an error.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(20);

/// A port that accepts.
struct PortListener {
    name: &'static str,
    listener: TcpListener,
    /// Connections of which one ends if no descriptors are left, in this order.
    limiters: Vec<Arc<ConnectionLimiter>>,
    spare: SpareDescriptor,
    error_log: RateLimitedLog,
}

impl PortListener {
    fn new(name: &'static str, listener: TcpListener, places: Vec<Arc<ConnectionLimiter>>) -> Self {
        Self {
            name,
            listener,
            limiters: places,
            spare: SpareDescriptor::new(),
            error_log: RateLimitedLog::default(),
        }
    }

    /// The next connection. Errors of `accept` concern one connection or are temporary. If
    /// descriptors have run out, a connection ends; then wait a moment and continue.
    async fn accept(&self) -> Option<(TcpStream, SocketAddr)> {
        match self.listener.accept().await {
            Ok((stream, peer)) => {
                self.spare.restore();
                let _ = stream.set_nodelay(true);
                Some((stream, peer))
            }
            Err(error) => {
                if let Some(more) = self.error_log.suppressed_since_last() {
                    tracing::warn!(port = self.name, %error, more, "cannot accept a connection");
                }
                if !(is_out_of_descriptors(&error) && self.free_descriptor()) {
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
                None
            }
        }
    }

    /// Returns the spare descriptor, or ends a connection to free one.
    fn free_descriptor(&self) -> bool {
        if self.spare.release() {
            return true;
        }
        for places in &self.limiters {
            if places.evict_one() {
                break;
            }
        }
        // The task of the connection must run first.
        false
    }
}

/// The ops port with its connections.
pub(super) struct OpsPort {
    port: PortListener,
    router: Router,
    limiter: Arc<ConnectionLimiter>,
}

impl OpsPort {
    /// `webhook` are the connections of the other port, which end before those of kubelets.
    pub(super) fn new(
        listener: TcpListener,
        router: Router,
        places: Arc<ConnectionLimiter>,
        webhook: Arc<ConnectionLimiter>,
    ) -> Self {
        let port = PortListener::new("ops", listener, vec![webhook, places.clone()]);
        Self { port, router, limiter: places }
    }

    /// Serves while it is polled.
    pub(super) async fn serve(self: Arc<Self>) {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Some((stream, peer)) = self.port.accept().await else { continue };
            let (slot, router) = (self.limiter.acquire(peer.ip()), self.router.clone());
            connections.spawn(async move {
                tokio::select! {
                    () = slot.wait_for_eviction() => {}
                    () = connection::serve_ops(stream, &slot, router) => {}
                }
            });
        }
    }
}

/// The webhook port with its connections, which outlive the task that accepts them.
pub(super) struct WebhookPort {
    port: PortListener,
    acceptor: TlsAcceptor,
    handshakes: Arc<HandshakeLimiter>,
    app: Arc<App>,
    router: Router,
    shutdown: Shutdown,
    limiter: Arc<ConnectionLimiter>,
    connections: Mutex<JoinSet<()>>,
    self_checks: Arc<SelfCheckConnections>,
}

impl WebhookPort {
    pub(super) fn new(
        listener: TcpListener,
        acceptor: TlsAcceptor,
        app: Arc<App>,
        router: Router,
        shutdown: Shutdown,
        places: Arc<ConnectionLimiter>,
        checks: Arc<SelfCheckConnections>,
    ) -> Self {
        let connections = Mutex::default();
        let port = PortListener::new("webhook", listener, vec![places.clone()]);
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let handshakes =
            Arc::new(HandshakeLimiter::new(u32::try_from(processors).unwrap_or(u32::MAX)));
        Self {
            port,
            acceptor,
            handshakes,
            app,
            router,
            shutdown,
            limiter: places,
            connections,
            self_checks: checks,
        }
    }

    /// Accepts connections while it is polled.
    pub(super) async fn accept(self: Arc<Self>) {
        loop {
            if let Some((stream, peer)) = self.port.accept().await {
                self.serve(stream, peer);
            }
        }
    }

    /// Serves the connections that the system has already accepted. Then it accepts no others, and
    /// waits for the open connections.
    pub(super) async fn close(self) {
        while let Some(Ok((stream, peer))) = self.port.listener.accept().now_or_never() {
            self.serve(stream, peer);
        }
        let Self { port, connections, .. } = self;
        drop(port);
        let mut connections = connections.into_inner();
        while connections.join_next().await.is_some() {}
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr) {
        // The connection of the server to itself has a slot that no client can use, and does not
        // count as a client.
        let slot = (!self.self_checks.take(peer)).then(|| self.limiter.acquire(peer.ip()));
        let (acceptor, handshakes) = (self.acceptor.clone(), self.handshakes.clone());
        let (router, app) = (self.router.clone(), self.app.clone());
        let shutdown = self.shutdown.clone();
        let mut connections = self.connections.lock();
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            let (metrics, tls) = (&app.metrics, TlsHandshake { acceptor, limiter: &handshakes });
            let _counted = slot.is_some().then(|| GaugeGuard::new(&metrics.connections));
            let slot = slot.as_ref();
            let evicted = async {
                match slot {
                    Some(slot) => slot.wait_for_eviction().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = evicted => {}
                () = connection::serve_webhook(stream, slot, tls, router, metrics, shutdown) => {}
            }
        });
    }
}
