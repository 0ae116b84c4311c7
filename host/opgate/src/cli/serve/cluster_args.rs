//! Flags of `opgate serve` for the cluster that policies read: its source, its cache, reservations and direct reads.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::cli::exit::CommandError;
use opgate_admission::cluster::{self, Connection, OnWatchFailure, ReservationLimits, Source};
use opgate_server::DefaultLimits;
use opgate_text::units::{parse_bytes, parse_duration};

/// Source of the other objects of the cluster.
#[derive(Debug, Clone, Args)]
pub(super) struct ClusterArgs {
    /// Source of the other objects of the cluster for policies [default: `kubeconfig` if one is named,
    /// otherwise `in-cluster` in a pod, otherwise `none`]
    #[arg(long, value_name = "SOURCE")]
    pub(super) cluster_source: Option<ClusterSource>,
    /// Kubeconfig of the cluster that policies read; several are merged as by `kubectl`
    #[arg(long, value_name = "FILE[:FILE]", env = "KUBECONFIG")]
    kubeconfig: Option<OsString>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    kube_context: Option<String>,
    /// Files with the objects of the cluster, as `kubectl get -A -o yaml` prints them, instead of an
    /// API server; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with_all = ["cluster_source", "kube_context"])]
    pub(super) cluster_state: Vec<PathBuf>,
    /// Maximum age of the cluster cache of a resource; beyond it the policy's `onError` decides
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    cluster_cache_max_age: Duration,
    /// Interval at which to list a resource that the API server cannot watch; at most a third of
    /// `--cluster-cache-max-age`
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_poll)]
    poll_interval: Duration,
    /// Maximum time in which an API server stores an allowed object, including other webhooks; until then the
    /// object counts as if it were stored
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_reservation)]
    reservation_ttl: Duration,
    /// Maximum memory of the cluster cache; beyond it opgate keeps only the names of objects [default: a quarter of the memory limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_cluster_memory: Option<usize>,
    /// Maximum time to wait for the first lists before the webhook port opens
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub(super) sync_timeout: Duration,
    /// What to do while a watch fails: read the affected objects from the API server, or fail the call
    #[arg(long, value_name = "MODE", default_value = "read")]
    on_watch_failure: OnWatchFailure,
    /// Read the decisive objects from the API server itself instead of trusting the watch
    #[arg(long, conflicts_with = "cluster_state")]
    pub(super) consistent_reads: bool,
}

/// Parses a duration of at most a day, which is longer than any API server waits.
fn parse_reservation(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time > Duration::from_secs(86_400) {
        return Err("must be at most 24h".to_owned());
    }
    Ok(time)
}

/// Parses an interval with a lower bound: a list can be some hundred MiB.
fn parse_poll(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    let bounds = Duration::from_secs(1)..=Duration::from_secs(3_600);
    if bounds.contains(&time) { Ok(time) } else { Err("must be from 1s to 1h".to_owned()) }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ClusterSource {
    /// The service account of this pod
    InCluster,
    /// The file that `--kubeconfig` names
    Kubeconfig,
    /// No cluster: skip rules that need one
    None,
}

impl ClusterArgs {
    pub(super) fn source(&self) -> anyhow::Result<Option<ClusterSource>> {
        if !self.cluster_state.is_empty() {
            return Ok(None);
        }
        let in_pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let source = match (self.cluster_source, &self.kubeconfig) {
            (Some(ClusterSource::Kubeconfig), None) => {
                anyhow::bail!(
                    "--cluster-source kubeconfig needs --kubeconfig FILE (or KUBECONFIG)"
                );
            }
            (Some(source), _) => source,
            (None, Some(_)) => ClusterSource::Kubeconfig,
            (None, None) if in_pod => ClusterSource::InCluster,
            (None, None) => ClusterSource::None,
        };
        anyhow::ensure!(
            source != ClusterSource::None || !self.consistent_reads,
            "--consistent-reads needs a cluster to ask"
        );
        Ok(Some(source))
    }

    pub(super) async fn connection(
        &self,
        source: ClusterSource,
    ) -> Result<Option<Connection>, CommandError> {
        let connection = match (source, &self.kubeconfig) {
            (ClusterSource::None, _) => return Ok(None),
            (ClusterSource::Kubeconfig, Some(paths)) => {
                let paths: Vec<_> = std::env::split_paths(paths).collect();
                Connection::kubeconfig(&paths, self.kube_context.as_deref()).await
            }
            _ => Connection::in_cluster(),
        };
        Ok(Some(connection.map_err(CommandError::usage)?))
    }

    pub(super) fn options(
        &self,
        source: Option<ClusterSource>,
        bounds: ReservationLimits,
        room: &DefaultLimits,
    ) -> cluster::ClusterOptions {
        let source = match source {
            None => Source::Snapshot,
            Some(ClusterSource::None) => Source::Absent,
            Some(_) => Source::Live,
        };
        cluster::ClusterOptions {
            max_age: self.cluster_cache_max_age,
            poll_interval: self.poll_interval,
            reservation_ttl: self.reservation_ttl,
            on_watch_failure: self.on_watch_failure,
            reservation_limits: bounds,
            // Files are as many as the administrator names.
            memory: match source {
                Source::Live => self.max_cluster_memory.unwrap_or(room.cluster_cache_bytes),
                _ => usize::MAX,
            },
            ..cluster::ClusterOptions::of(source)
        }
    }
}
