//! The ops port of a server whose policies are still being loaded, which can take a while: the
//! process is live, and reports the reason why it is not ready. The webhook port is not open yet.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::app::plain;
use super::connection_limiter::{self, ConnectionBounds, ConnectionLimiter};
use super::descriptors::PortLimits;
use super::listener::OpsPort;
use super::{MAX_OPS_CONNECTION_AGE, ServerError};
use opgate_admission::policy::LoadProgress;

/// Connections before there is a server. Only the kubelet has a reason to connect.
const MAX_CONNECTIONS: usize = 64;

/// A server that is starting. The ops port is served until this is dropped.
#[derive(Debug)]
pub struct StartupServer {
    listener: std::net::TcpListener,
    wait_reason: Arc<Mutex<Option<String>>>,
    _tasks: JoinSet<()>,
}

impl StartupServer {
    /// Binds the ops port.
    ///
    /// # Errors
    /// If it cannot be bound.
    pub async fn bind(
        address: SocketAddr,
        loading: Arc<LoadProgress>,
    ) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let listener = listener.into_std().map_err(failed)?;
        let port = TcpListener::from_std(listener.try_clone().map_err(failed)?).map_err(failed)?;
        let waits = Arc::<Mutex<Option<String>>>::default();
        let waiting = waits.clone();
        let ready = move || {
            let mut lines = loading.lines();
            lines.extend(waiting.lock().clone());
            async move { plain(StatusCode::SERVICE_UNAVAILABLE, &lines.join("\n")) }
        };
        let elsewhere = async || plain(StatusCode::NOT_FOUND, "there is GET /livez and /readyz");
        let router = Router::new()
            .route("/livez", get(async || plain(StatusCode::OK, "ok")))
            .route("/readyz", get(ready))
            .fallback(elsewhere);
        let bounds =
            ConnectionBounds::of(PortLimits::of(MAX_CONNECTIONS).ops, MAX_OPS_CONNECTION_AGE);
        let places = ConnectionLimiter::new(bounds, Counter::default());
        let ops = Arc::new(OpsPort::new(port, router, places.clone(), places.clone()));
        let mut tasks = JoinSet::new();
        tasks.spawn(ops.serve());
        tasks.spawn(connection_limiter::sweep_periodically([places.clone(), places]));
        tracing::info!(ops = %listener.local_addr().unwrap_or(address), "loading policies");
        Ok(Self { listener, wait_reason: waits, _tasks: tasks })
    }

    /// Sets the reason why the server waits, in addition to its policies, in one line. `/readyz`
    /// shows it.
    pub fn set_wait_reason(&self, what: Option<String>) {
        *self.wait_reason.lock() = what;
    }

    /// Returns the port, for the server.
    pub(super) fn into_listener(self) -> io::Result<TcpListener> {
        TcpListener::from_std(self.listener)
    }
}
