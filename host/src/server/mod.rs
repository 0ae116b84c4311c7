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
mod listener;
mod metrics;
mod readiness;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use opgate_certs::{Change, Reloader};
use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub use app::Answer;
use app::App;
use listener::{Phase, accept, serve_ops};

use crate::policy::Set;

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
        app.open.store(true, Ordering::Relaxed);
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
