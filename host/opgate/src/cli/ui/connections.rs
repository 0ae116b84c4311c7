//! Connections of `opgate ui`: HTTP/1.1, a limited number at a time.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Maximum number of connections. A browser opens six.
const MAX_CONNECTIONS: usize = 64;

/// Time limit of the head of a request, which also ends idle connections.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after an error of the system, such as too few file descriptors.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections until it is dropped.
pub(super) async fn serve(listener: &TcpListener, router: &Router) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ERROR_PAUSE).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let _slot = slot;
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
            // A client whose connection fails gets no response.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
