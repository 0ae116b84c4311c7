//! Accepting connections until there is nothing more to accept.
//!
//! Who accepts never waits for somebody who is there already: whoever comes gets a place, and where
//! there is none, somebody else goes ([`super::places`]).

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::app::App;
use super::check::Checks;
use super::connection::{self, Phase};
use super::descriptors::{self, Spare};
use super::handshakes::Handshakes;
use super::metrics::Counted;
use super::places::Places;
use super::seldom::Seldom;

/// Between two tries to accept where the first one failed.
const PAUSE: Duration = Duration::from_millis(20);

/// A port that accepts.
struct Accepting {
    name: &'static str,
    listener: TcpListener,
    /// Whose connections go where there are no more descriptors, in this order.
    places: Vec<Arc<Places>>,
    spare: Spare,
    trouble: Seldom,
}

impl Accepting {
    fn new(name: &'static str, listener: TcpListener, places: Vec<Arc<Places>>) -> Self {
        Self { name, listener, places, spare: Spare::new(), trouble: Seldom::default() }
    }

    /// The next connection. Errors of `accept` are about one connection or pass: where descriptors
    /// have run out, a connection goes; wait a little and go on.
    async fn next(&self) -> Option<(TcpStream, SocketAddr)> {
        match self.listener.accept().await {
            Ok((stream, peer)) => {
                self.spare.restore();
                let _ = stream.set_nodelay(true);
                Some((stream, peer))
            }
            Err(error) => {
                if let Some(more) = self.trouble.tell() {
                    tracing::warn!(port = self.name, %error, more, "cannot accept a connection");
                }
                if !(descriptors::ran_out(&error) && self.make_room()) {
                    tokio::time::sleep(PAUSE).await;
                }
                None
            }
        }
    }

    /// Gives back a descriptor, or has a connection give one back.
    fn make_room(&self) -> bool {
        if self.spare.give_up() {
            return true;
        }
        for places in &self.places {
            if places.evict_one() {
                break;
            }
        }
        // Its task has to run first.
        false
    }
}

/// The ops port with its connections.
pub(super) struct Ops {
    port: Accepting,
    router: Router,
    places: Arc<Places>,
}

impl Ops {
    /// `webhook` are the connections of the other port, which go before kubelets do.
    pub(super) fn new(
        listener: TcpListener,
        router: Router,
        places: Arc<Places>,
        webhook: Arc<Places>,
    ) -> Self {
        let port = Accepting::new("ops", listener, vec![webhook, places.clone()]);
        Self { port, router, places }
    }

    /// Serves, as long as it is polled.
    pub(super) async fn serve(self: Arc<Self>) {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Some((stream, peer)) = self.port.next().await else { continue };
            let (place, router) = (self.places.take(peer.ip()), self.router.clone());
            connections.spawn(async move {
                tokio::select! {
                    () = place.evicted() => {}
                    () = connection::ops(stream, &place, router) => {}
                }
            });
        }
    }
}

/// The webhook port with its connections, which outlive whoever accepts them.
pub(super) struct Port {
    port: Accepting,
    acceptor: TlsAcceptor,
    handshakes: Arc<Handshakes>,
    app: Arc<App>,
    router: Router,
    phases: watch::Receiver<Phase>,
    places: Arc<Places>,
    connections: Mutex<JoinSet<()>>,
    checks: Arc<Checks>,
}

impl Port {
    pub(super) fn new(
        listener: TcpListener,
        acceptor: TlsAcceptor,
        app: Arc<App>,
        phases: watch::Receiver<Phase>,
        places: Arc<Places>,
        checks: Arc<Checks>,
    ) -> Self {
        let router = app.webhook();
        let connections = Mutex::default();
        let port = Accepting::new("webhook", listener, vec![places.clone()]);
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let handshakes = Arc::new(Handshakes::new(u32::try_from(processors).unwrap_or(u32::MAX)));
        Self { port, acceptor, handshakes, app, router, phases, places, connections, checks }
    }

    /// Accepts connections, as long as it is polled.
    pub(super) async fn accept(self: Arc<Self>) {
        loop {
            if let Some((stream, peer)) = self.port.next().await {
                self.serve(stream, peer);
            }
        }
    }

    /// Serves whom the system has accepted on our behalf, then accepts nobody any more and waits
    /// for the connections that are open.
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
        // The server's own connection has a place that nobody can take, and is no client to count.
        let place = (!self.checks.is_one(peer)).then(|| self.places.take(peer.ip()));
        let (acceptor, handshakes) = (self.acceptor.clone(), self.handshakes.clone());
        let (router, app) = (self.router.clone(), self.app.clone());
        let phases = self.phases.clone();
        let mut connections = self.connections.lock();
        while connections.try_join_next().is_some() {}
        connections.spawn(async move {
            let (metrics, tls) = (&app.metrics, (acceptor, handshakes.as_ref()));
            let _counted = place.is_some().then(|| Counted::new(&metrics.connections));
            let place = place.as_ref();
            let evicted = async {
                match place {
                    Some(place) => place.evicted().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = evicted => {}
                () = connection::webhook(stream, place, tls, router, metrics, phases) => {}
            }
        });
    }
}
