//! The webhook port: whether it is still there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic"
)]

use std::time::{Duration, Instant};

use opgate_tests::{Server, tls};
use rustix::process::Signal;

const BINARY: &str = env!("CARGO_BIN_EXE_opgate-under-test");

/// Nothing here takes this long; what does has failed.
const PATIENCE: Duration = Duration::from_secs(60);

async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !check().await {
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
    }
}

/// Two places, both taken by clients that say nothing.
#[tokio::test]
async fn a_full_port_is_no_life_until_there_is_room() {
    let server = Server::start(BINARY, None, &["--max-connections", "2", "--drain-delay", "100s"]);
    let connect = async || tls(server.address, &server.certificates.authority, &[]).await.unwrap();
    let clients = [connect().await, connect().await];
    let full = "the webhook port does not answer: nothing within 2s; all 2 connections are taken";
    assert_eq!(server.get("/livez").await, (503, full.to_owned()));
    drop(clients);
    eventually("room", async || server.get("/livez").await == (200, "ok".to_owned())).await;
    // What was asked in vain has been accepted since: it was no client.
    assert_eq!(server.metric("opgate_tls_handshake_failures_total").await, Some(0.0));
    assert_eq!(server.metric("opgate_connections ").await, Some(0.0));
    // A server on its way out has to be full for nobody.
    let _clients = [connect().await, connect().await];
    eventually("full again", async || server.get("/livez").await.0 == 503).await;
    server.signal(Signal::TERM);
    eventually("draining", async || server.get("/livez").await.0 == 200).await;
    assert_eq!(server.get("/readyz").await.0, 503);
}

/// The certificate may change under the check, which knows the new one as well.
#[tokio::test]
async fn a_new_certificate_is_known_to_the_check() {
    let mut server = Server::start(BINARY, None, &[]);
    for count in 1..=2 {
        server.certificates.rotate();
        eventually("replaced", async || {
            let metric = "opgate_certificate_reloads_total{result=\"replaced\"}";
            server.metric(metric).await == Some(f64::from(count))
        })
        .await;
        assert_eq!(server.get("/livez").await, (200, "ok".to_owned()));
    }
}
