//! The webhook server: TLS, HTTP, drain.
//!
//! ```text
//! accept ─▶ handshake (5 s) ─▶ HTTP/1.1 or h2 ─▶ app: body, review, decision ─▶ response
//!   ▲         └── clients            ▲               │                             │
//!   │             rejected           │               │   memory: bodies and evaluation, until
//!   │                                │               │   the response is received
//!   │                                │               └─▶ 503 + Retry-After on overload
//!   └── places: which connection     └── GET /livez: the server sends itself
//!       ends if there are too many       a request
//! ```
//!
//! The policies can be replaced while they serve ([`ActivePolicySet`]).
//!
//! Handshakes run one after another in their share of the CPU. The tasks that accept connections, serve the
//! ops port and check certificates are supervised.
//!
//! On SIGTERM the server is no longer ready, but continues to accept connections for a while,
//! because an endpoint takes time to disappear. It tells every client to use another replica. Then
//! it stops accepting, and waits for the current requests.

mod active_set;
mod app;
mod body_limiter;
mod bucket;
mod connection;
mod connection_limiter;
mod denial_observer;
mod descriptors;
mod handshake_limiter;
mod listener;
mod liveness;
mod metrics;
mod pause_detector;
mod process_memory_limit;
mod rate_limited_log;
mod readiness;
mod registration_names;
mod reload;
mod request_memory;
mod request_trace;
mod self_check;
mod startup;
mod state;
mod timeout_stream;
mod ui;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use opgate_certs::{ClientVerifier, Reloader, server_config};
use opgate_recording::Recorder;
use opgate_telemetry::Telemetry;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub use active_set::{ActiveConfiguration, ActivePolicySet};
use app::App;
use connection::Phase;
use connection_limiter::{ConnectionBounds, ConnectionLimiter};
pub use denial_observer::DenialObserver;
use descriptors::PortLimits;
use listener::{OpsPort, WebhookPort};
use liveness::Liveness;
pub use metrics::ExternalMetrics;
pub use process_memory_limit::DefaultLimits;
pub use registration_names::RegistrationNames;
use reload::CertificateFiles;
use self_check::{SelfCheck, SelfCheckConnections};
pub use startup::StartupServer;
pub use state::{
    ClusterStatus, NEARLY_FULL_PERCENT, ReservationState, ResourceCacheStatus, ResourceState,
};

pub use ui::{
    AuditCount, AuditState, AuditSummary, InstallationSource, ReplicaOverview, ReplicaSummary,
    UiOptions,
};

use opgate_supervise::Supervisor;

/// An older connection ends after its current request, so that no connection is permanent.
const MAX_CONNECTION_AGE: Duration = Duration::from_secs(3_600);
const MAX_OPS_CONNECTION_AGE: Duration = Duration::from_secs(600);

/// Time limit for the response of the webhook port to the server itself.
const LIVENESS_TIMEOUT: Duration = Duration::from_secs(2);

/// The options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address of the webhook port.
    pub listen: SocketAddr,
    /// Address of the ops port.
    pub ops_listen: SocketAddr,
    /// Maximum bytes of a body.
    pub max_body_bytes: usize,
    /// Bytes that requests may hold, from their bodies to their responses.
    pub max_request_memory: usize,
    /// The time for which the server accepts connections after the signal to stop.
    pub drain_delay: Duration,
    /// The time for which it then waits for current requests.
    pub grace_period: Duration,
    /// The interval at which the files of certificates are checked.
    pub reload_interval: Duration,
    /// The clients that may connect to the webhook port; all if this is `None`.
    pub client_verifier: Option<Arc<ClientVerifier>>,
    /// Maximum number of open connections of the webhook port. If more arrive, others end. There
    /// are fewer if there are not enough descriptors.
    pub max_connections: usize,
    /// The time to wait for the first lists of the cluster before the webhook port opens.
    pub sync_timeout: Duration,
    /// Supervises the tasks of the server, and others that it depends on.
    pub supervisor: Supervisor,
    /// The state of the webhook registration, if the server reads it.
    pub registration_names: Option<Arc<RegistrationNames>>,
    /// Replaces the routes of the webhook port. Benchmarks measure a server without policies.
    pub webhook_router: Option<Router>,
    /// Metrics of other components, for `/metrics`.
    pub external_metrics: Vec<ExternalMetrics>,
    /// Records reviews and their decisions.
    pub recorder: Option<Arc<Recorder>>,
    /// Receives denied requests.
    pub denials: Option<DenialObserver>,
    /// Traces requests, and exports metrics.
    pub telemetry: Option<Arc<Telemetry>>,
    /// Whether the ops port has a page for administrators, `/ui/`.
    pub ui: bool,
    /// Options of that page.
    pub ui_options: UiOptions,
}

impl Default for Options {
    fn default() -> Self {
        let DefaultLimits { request_bytes: requests, connections, .. } = DefaultLimits::default();
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 9443)),
            ops_listen: SocketAddr::from(([0, 0, 0, 0], 8081)),
            max_body_bytes: 7 << 20,
            max_request_memory: requests,
            drain_delay: Duration::from_secs(15),
            grace_period: Duration::from_secs(10),
            reload_interval: Duration::from_secs(5),
            client_verifier: None,
            max_connections: connections,
            sync_timeout: Duration::from_secs(10),
            supervisor: Supervisor::default(),
            registration_names: None,
            webhook_router: None,
            external_metrics: Vec::new(),
            recorder: None,
            telemetry: None,
            denials: None,
            ui: false,
            ui_options: UiOptions::default(),
        }
    }
}

/// The reason why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A port cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Connections that the system accepts for a busy server.
const LISTEN_BACKLOG: u32 = 1_024;

/// The webhook port. Its address is bound from the start, but it accepts no connections before the
/// server can respond.
enum WebhookSocket {
    Closed(TcpSocket),
    Open(TcpListener),
}

/// A server that has bound its ports.
pub struct Server {
    options: Options,
    app: Arc<App>,
    webhook: WebhookSocket,
    address: SocketAddr,
    ops: TcpListener,
    acceptor: TlsAcceptor,
    certificate: Arc<Reloader>,
}

impl Server {
    /// Binds the ports. The webhook port is open from now on, unless the cluster must be listed
    /// first.
    ///
    /// # Errors
    /// If a port cannot be bound.
    pub async fn bind(
        options: Options,
        set: impl Into<ActiveConfiguration>,
        certificate: Arc<Reloader>,
    ) -> Result<Self, ServerError> {
        let starting = StartupServer::bind(options.ops_listen, Arc::default()).await?;
        Self::bind_after_startup(options, set, certificate, starting)
    }

    /// [`Server::bind`] with an ops port that is already being served.
    ///
    /// # Errors
    /// If a port cannot be bound.
    pub fn bind_after_startup(
        options: Options,
        set: impl Into<ActiveConfiguration>,
        certificate: Arc<Reloader>,
        starting: StartupServer,
    ) -> Result<Self, ServerError> {
        let served = set.into();
        let failed = |source| ServerError::Listen { address: options.listen, source };
        let socket = bind_socket(options.listen).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let ready = options.sync_timeout.is_zero() || served.set.cluster().is_synced();
        let webhook = if ready {
            WebhookSocket::Open(socket.listen(LISTEN_BACKLOG).map_err(failed)?)
        } else {
            WebhookSocket::Closed(socket)
        };
        let failed = |source| ServerError::Listen { address: options.ops_listen, source };
        let ops = starting.into_listener().map_err(failed)?;
        let tls = server_config(certificate.clone(), options.client_verifier.clone())?;
        let app = App::new(served, &options);
        app.metrics.set_certificate_expiration(certificate.current().not_after());
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        Ok(Self { options, app, webhook, address, ops, acceptor, certificate })
    }

    /// Address of the webhook port.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The active policies, to replace them or to follow changes.
    #[must_use]
    pub fn active_set(&self) -> Arc<ActivePolicySet> {
        self.app.serving.clone()
    }

    /// The text of `/metrics`, with exemplars.
    pub fn metrics_text(&self) -> impl Fn() -> bytes::Bytes + Send + Sync + 'static {
        let app = self.app.clone();
        move || app.metrics_text().with_exemplars
    }

    /// Whether the server is ready, as `/readyz` reports.
    pub fn readiness(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let app = self.app.clone();
        move || app.why_not_ready().is_empty()
    }

    /// Bytes that requests may still use of their budget, to determine the rest for other work.
    pub fn free_request_memory(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let app = self.app.clone();
        move || app.memory.limit().saturating_sub(app.memory.used())
    }

    /// The number of reviews in progress, for other work that yields to them.
    pub fn reviews_in_progress(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let app = self.app.clone();
        move || usize::try_from(app.metrics.in_flight.get()).unwrap_or_default()
    }

    /// Serves until `stop` ends, then drains. `reload` gives a value whenever the files of
    /// certificates must be checked before the interval is over.
    ///
    /// # Errors
    /// If the webhook port cannot be opened.
    pub async fn run(
        self,
        stop: impl Future<Output = ()>,
        reload: watch::Receiver<()>,
    ) -> Result<(), ServerError> {
        let Self { options, app, webhook, address, ops, acceptor, certificate } = self;
        let supervisor = &options.supervisor;
        let (phase, phases) = watch::channel(Phase::Serving);
        let checks = Arc::new(SelfCheckConnections::default());
        let connections = PortLimits::of(options.max_connections);
        if connections.webhook < options.max_connections {
            tracing::warn!(
                connections = connections.webhook,
                wanted = options.max_connections,
                "too few file descriptors for more connections: raise the limit (`ulimit -n`)"
            );
        }
        let evicted = &app.metrics.evicted;
        let bounds = ConnectionBounds::of(connections.webhook, MAX_CONNECTION_AGE);
        let limiter = ConnectionLimiter::new(bounds, evicted.clone());
        let bounds = ConnectionBounds::of(connections.ops, MAX_OPS_CONNECTION_AGE);
        let ops_limiter = ConnectionLimiter::new(bounds, evicted.clone());
        let check = SelfCheck {
            address,
            certificate: certificate.clone(),
            requires_client_certificate: options.client_verifier.is_some(),
            limiter: limiter.clone(),
            self_checks: checks.clone(),
            limit: LIVENESS_TIMEOUT,
        };
        let router = app.ops(Arc::new(Liveness::new(supervisor.clone(), check)));
        let ops_address = ops.local_addr().unwrap_or(options.ops_listen);
        let ops = Arc::new(OpsPort::new(ops, router, ops_limiter.clone(), limiter.clone()));
        let ops = supervisor.spawn("ops", move || ops.clone().serve());
        let swept = [limiter.clone(), ops_limiter];
        let sweeps = supervisor
            .spawn("sweep", move || connection_limiter::sweep_periodically(swept.clone()));
        let files = Arc::new(CertificateFiles {
            certificate,
            client_verifier: options.client_verifier.clone(),
            interval: options.reload_interval,
            app: app.clone(),
        });
        let files = supervisor.spawn("reload", move || files.clone().watch(reload.clone()));
        let beats = app.beats.clone();
        let beats = supervisor.spawn("beat", move || pause_detector::tick_forever(beats.clone()));
        let freed = app.clone();
        let freed = supervisor.spawn("memory", move || {
            let app = freed.clone();
            async move { app.memory.trim_periodically().await }
        });
        let serving = app.serving.clone();
        let retired = supervisor.spawn("sets", move || {
            let serving = serving.clone();
            async move { serving.sweep().await }
        });
        let mut stop = std::pin::pin!(stop);
        let opened = tokio::select! {
            opened = open_when_synced(webhook, &app, options.sync_timeout) => opened,
            () = stop.as_mut() => return Ok(()),
        };
        let listener = opened.map_err(|source| ServerError::Listen { address, source })?;
        app.open.store(true, Ordering::Relaxed);
        tracing::info!(%address, ops = %ops_address, "serving");
        let port = WebhookPort::new(
            listener,
            acceptor,
            app.clone(),
            options.webhook_router.unwrap_or_else(|| app.webhook()),
            connection::Shutdown { phases, drain_delay: options.drain_delay },
            limiter,
            checks,
        );
        let port = Arc::new(port);
        let accepted = port.clone();
        let accepting = supervisor.spawn("accept", move || accepted.clone().accept());
        stop.await;
        tracing::info!(delay = ?options.drain_delay, "draining");
        app.draining.store(true, Ordering::Relaxed);
        let _ = phase.send(Phase::Draining);
        tokio::time::sleep(options.drain_delay).await;
        let _ = phase.send(Phase::Closing);
        accepting.stop().await;
        // There is no other owner: the task that accepted connections has ended.
        if let Some(port) = Arc::into_inner(port)
            && tokio::time::timeout(options.grace_period, port.close()).await.is_err()
        {
            tracing::warn!("some connections did not end in time");
        }
        drop((files, ops, beats, sweeps, freed, retired));
        tracing::info!("stopped");
        Ok(())
    }
}

/// Disables core dumps of the process: its memory contains values of Secrets while reviews of them
/// are read.
pub fn disable_core_dumps() {
    // If the system does not allow it, the administrator decides, as without this call.
    if let Err(error) = opgate_platform::process::disable_core_dumps() {
        tracing::warn!(%error, "core dumps cannot be switched off");
    }
}

/// Lowers the priority of this thread, and of those that it starts, below the threads that serve.
/// They still get some of the time of a busy machine, so that others do not wait long for their
/// locks.
pub fn lower_priority() {
    opgate_platform::process::lower_priority(10);
}

/// Resources that a set needs and that were never listed, one in a line, with the reason.
#[must_use]
pub fn unlisted_resources(set: &opgate_admission::policy::PolicySet) -> Vec<String> {
    readiness::unlisted_resources(set)
}

/// As in the standard library, except for `listen`.
fn bind_socket(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Opens the webhook port as soon as all resources that policies read are listed, or the time is
/// over.
async fn open_when_synced(
    webhook: WebhookSocket,
    app: &App,
    most: Duration,
) -> io::Result<TcpListener> {
    let socket = match webhook {
        WebhookSocket::Open(listener) => return Ok(listener),
        WebhookSocket::Closed(socket) => socket,
    };
    let set = app.serving.current().set.clone();
    tracing::info!(time = ?most, "listing cluster objects");
    if tokio::time::timeout(most, set.cluster().wait_synced()).await.is_err() {
        for line in readiness::unlisted_resources(&set) {
            tracing::warn!(why = line, "cluster cache not synced in time; accepting requests");
        }
    }
    socket.listen(LISTEN_BACKLOG)
}
