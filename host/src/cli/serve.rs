//! `opgate serve`: the webhook.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use opgate_certs::Reloader;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::certs::SourceArgs;
use super::{ConfigArgs, Failure, Outcome, QUEUE};
use crate::policy::units::{parse_bytes, parse_duration};
use crate::server::{Options, Server};

/// Arguments of `opgate serve`.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    tls: SourceArgs,
    /// Address of the webhook port
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9443", env = "OPGATE_LISTEN")]
    listen: SocketAddr,
    /// Address of the ops port: /livez, /readyz, /metrics, /policies
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8081", env = "OPGATE_OPS_LISTEN")]
    ops_listen: SocketAddr,
    /// Largest body
    #[arg(long, value_name = "SIZE", default_value = "7Mi", value_parser = parse_bytes)]
    max_body: usize,
    /// All bodies in memory at one time; more are answered with 503
    #[arg(long, value_name = "SIZE", default_value = "256Mi", value_parser = parse_bytes)]
    max_body_memory: usize,
    /// Calls that may wait for each policy; more are answered with 503
    #[arg(long, value_name = "NUMBER", default_value_t = QUEUE)]
    queue: usize,
    /// How long to go on accepting after SIGTERM, until endpoints have noticed
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    drain_delay: Duration,
    /// How long to wait then for requests under way
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = parse_duration)]
    grace: Duration,
    /// How often to look for a new certificate
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    tls_reload: Duration,
}

impl Serve {
    pub(super) fn run(self) -> Result<Outcome, Failure> {
        let Self {
            config,
            tls,
            listen,
            ops_listen,
            max_body,
            max_body_memory,
            queue,
            drain_delay,
            grace,
            tls_reload,
        } = self;
        let source = tls.source()?;
        let certificate = Arc::new(Reloader::new(source).map_err(Failure::usage)?);
        let set = config.set(queue)?;
        for broken in set.broken() {
            tracing::error!(policy = broken.name, error = broken.error, "cannot be used");
        }
        let options = Options {
            listen,
            ops_listen,
            body_limit: max_body,
            body_memory: max_body_memory,
            drain_delay,
            grace,
            reload_interval: tls_reload.max(Duration::from_millis(10)),
            ..Options::default()
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let server = Server::bind(options, set, certificate).await.map_err(Failure::usage)?;
            let (address, ops) = (server.local_addr()?, server.ops_addr()?);
            tracing::info!(%address, %ops, "serving");
            let stop = stop()?;
            server.run(stop, reload_on_hangup()?).await;
            Ok(Outcome::Ok)
        })
    }
}

/// Ends at SIGTERM or SIGINT.
fn stop() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// SIGHUP looks for a new certificate at once.
fn reload_on_hangup() -> anyhow::Result<watch::Receiver<()>> {
    let mut hangup = signal(SignalKind::hangup()).context("SIGHUP")?;
    let (told, reload) = watch::channel(());
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            if told.send(()).is_err() {
                return;
            }
        }
    });
    Ok(reload)
}
