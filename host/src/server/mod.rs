//! The webhook server: TLS, HTTP, drain.
//!
//! ```text
//! accept ─▶ handshake (5 s) ─▶ HTTP/1.1 or h2 ─▶ app: body, review, decision ─▶ answer
//!    ▲         └── clients            ▲               │
//!    │             refused            │               └─▶ 503 + Retry-After when there is too much
//!    └── connections bounded          │
//!                                     └── GET /livez: the server asks itself
//! ```
//!
//! Who accepts, the ops port and the look at certificates are tasks under supervision.
//!
//! On SIGTERM the server is not ready any more but goes on accepting for a while (an endpoint
//! takes time to disappear), tells every client to come back elsewhere, then stops accepting and
//! waits for what is under way.

mod app;
mod check;
mod guard;
mod listener;
mod liveness;
mod metrics;
mod readiness;
mod reload;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use opgate_certs::{Clients, Reloader, server_config};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub use app::Answer;
use app::App;
use check::{Checks, SelfCheck};
use listener::{MAX_CONNECTIONS, Phase, Port, serve_ops};
use liveness::Liveness;
use reload::Files;

use crate::policy::Set;
use crate::supervise::Supervisor;

/// How long the webhook port may take to answer the server itself.
const LIVENESS_TIME: Duration = Duration::from_secs(2);

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
    /// How often the files of certificates are looked at.
    pub reload_interval: Duration,
    /// Who may connect to the webhook port; everybody where this is `None`.
    pub clients: Option<Arc<Clients>>,
    /// Open connections of the webhook port; more wait to be accepted.
    pub max_connections: usize,
    /// Of the server's tasks, and of others without which it cannot live.
    pub supervisor: Supervisor,
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
            clients: None,
            max_connections: MAX_CONNECTIONS,
            supervisor: Supervisor::default(),
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
        let tls = server_config(certificate.clone(), options.clients.clone())?;
        let body_memory = options.body_memory.max(options.body_limit);
        let app =
            App::new(set, options.body_limit, body_memory, options.answer, &options.supervisor);
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

    /// Serves until `stop` ends, then drains. `reload` gives a value whenever the files of
    /// certificates should be looked at before their time.
    pub async fn run(self, stop: impl Future<Output = ()>, reload: watch::Receiver<()>) {
        let Self { options, app, listener, ops, acceptor, certificate } = self;
        let supervisor = &options.supervisor;
        let (phase, phases) = watch::channel(Phase::Serving);
        let checks = Arc::new(Checks::default());
        let check = SelfCheck {
            address: listener.local_addr().unwrap_or(options.listen),
            certificate: certificate.clone(),
            asks_clients: options.clients.is_some(),
            connections: app.metrics.connections.clone(),
            max_connections: options.max_connections,
            checks: checks.clone(),
            limit: LIVENESS_TIME,
        };
        let router = app.ops(Arc::new(Liveness::new(supervisor.clone(), check)));
        let ops = Arc::new(ops);
        let ops = supervisor.spawn("ops", move || serve_ops(ops.clone(), router.clone()));
        let files = Arc::new(Files {
            certificate,
            clients: options.clients.clone(),
            interval: options.reload_interval,
            app: app.clone(),
        });
        let files = supervisor.spawn("reload", move || files.clone().watch(reload.clone()));
        let port =
            Port::new(listener, acceptor, app.clone(), phases, options.max_connections, checks);
        let port = Arc::new(port);
        let accepted = port.clone();
        app.open.store(true, Ordering::Relaxed);
        let accepting = supervisor.spawn("accept", move || accepted.clone().accept());
        stop.await;
        tracing::info!(delay = ?options.drain_delay, "draining");
        app.draining.store(true, Ordering::Relaxed);
        let _ = phase.send(Phase::Draining);
        tokio::time::sleep(options.drain_delay).await;
        let _ = phase.send(Phase::Closing);
        accepting.stop().await;
        // Nobody else has it: whoever accepted has ended.
        if let Some(port) = Arc::into_inner(port)
            && tokio::time::timeout(options.grace, port.close()).await.is_err()
        {
            tracing::warn!("some connections did not end in time");
        }
        drop((files, ops));
        tracing::info!("stopped");
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, ServerError> {
    TcpListener::bind(address).await.map_err(|source| ServerError::Listen { address, source })
}
