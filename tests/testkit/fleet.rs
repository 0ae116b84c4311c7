//! Replicas of one server behind a Service, and what happens to them: rolled out, killed, cut off.
//!
//! A rollout is that of a Deployment with `maxSurge: 1` and `maxUnavailable: 0`: a new pod, and when it is
//! ready, an old one gets SIGTERM. The Service names an old pod for a while longer, as it takes in a cluster
//! until every node knows better.

use std::time::Duration;

use bytes::Bytes;
use opgate_certs::CertificateAuthority;
use rustix::process::Signal;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::control_plane::eventually;
use crate::webhook_client::{Endpoints, Protocol, WebhookClient};
use crate::{Certificates, SERVICE, Server};

/// What a replica is started with.
struct ReplicaTemplate {
    binary: String,
    configuration: Option<String>,
    arguments: Vec<String>,
}

/// Replicas, and the Service in front of them.
pub struct Fleet {
    template: ReplicaTemplate,
    /// The CA of all of them.
    pub authority: CertificateAuthority,
    /// Those that the Service names.
    pub endpoints: Endpoints,
    /// Those that are to serve, the oldest first.
    pub replicas: Vec<Server>,
    /// Those that are going to end.
    ending: JoinSet<bool>,
}

/// The same CA once more.
fn copy_authority(authority: &CertificateAuthority) -> CertificateAuthority {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("ca.crt"), directory.path().join("ca.key"));
    std::fs::write(&certificate, authority.certificate()).unwrap();
    std::fs::write(&key, authority.key()).unwrap();
    CertificateAuthority::load(&certificate, &key).unwrap()
}

impl Fleet {
    /// Starts this many, and waits until all are ready.
    pub async fn start(
        binary: &str,
        configuration: Option<&str>,
        arguments: &[&str],
        replicas: usize,
    ) -> Self {
        let template = ReplicaTemplate {
            binary: binary.to_owned(),
            configuration: configuration.map(str::to_owned),
            arguments: arguments.iter().map(ToString::to_string).collect(),
        };
        let mut fleet = Self {
            template,
            authority: CertificateAuthority::create(1).unwrap(),
            endpoints: Endpoints::default(),
            replicas: Vec::new(),
            ending: JoinSet::new(),
        };
        for _ in 0..replicas {
            fleet.add_replica().await;
        }
        fleet
    }

    /// An API server that calls them.
    pub fn caller(&self, protocol: Protocol, timeout: Duration) -> WebhookClient {
        WebhookClient::new(protocol, &self.endpoints, (&self.authority, SERVICE), timeout)
    }

    /// Adds a replica; the Service lists it once it is ready.
    pub async fn add_replica(&mut self) {
        let certificates = Certificates::of(copy_authority(&self.authority));
        let template = &self.template;
        let (binary, configuration) = (template.binary.clone(), template.configuration.clone());
        let arguments = template.arguments.clone();
        let start = move || {
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            Server::start_with(&binary, configuration.as_deref(), &arguments, certificates)
        };
        let server = tokio::task::spawn_blocking(start).await.unwrap();
        eventually("readiness", || async { (server.get("/readyz").await.0 == 200).then_some(()) })
            .await;
        self.endpoints.add(server.address);
        self.replicas.push(server);
    }

    /// Takes a replica away as a kubelet does. It is named until it is not ready any more, and for `lag`
    /// after that.
    pub async fn retire(&mut self, replica: usize, lag: Duration) {
        let mut server = self.replicas.remove(replica);
        let endpoints = self.endpoints.clone();
        let address = server.address;
        server.signal(Signal::TERM);
        eventually("that it drains", || async {
            (server.get("/readyz").await.0 == 503).then_some(())
        })
        .await;
        // The Service lists it for `lag` more.
        self.ending.spawn(async move {
            tokio::time::sleep(lag).await;
            endpoints.remove(address);
            tokio::task::spawn_blocking(move || server.wait().success()).await.unwrap()
        });
    }

    /// Replaces every replica, one after the other.
    pub async fn roll(&mut self, lag: Duration) {
        for _ in 0..self.replicas.len() {
            self.add_replica().await;
            self.retire(0, lag).await;
        }
    }

    /// The replica that has answered most.
    pub async fn busiest_replica(&self) -> usize {
        let mut most = (0, None);
        for (index, server) in self.replicas.iter().enumerate() {
            let answered = server.metric("opgate_requests_total").await;
            if answered > most.1 {
                most = (index, answered);
            }
        }
        most.0
    }

    /// Kills a replica without a word; it is named for `lag` more, and then back.
    pub async fn kill(&mut self, replica: usize, lag: Duration) {
        let server = self.replicas.remove(replica);
        server.signal(Signal::KILL);
        tokio::time::sleep(lag).await;
        self.endpoints.remove(server.address);
        drop(server);
        self.add_replica().await;
    }

    /// A node vanishes with its replica: nothing is answered any more, and nothing is refused. It is named
    /// for `lag` more, and its pod is started elsewhere.
    pub async fn vanish(&mut self, replica: usize, lag: Duration) {
        let server = self.replicas.remove(replica);
        server.signal(Signal::STOP);
        tokio::time::sleep(lag).await;
        self.endpoints.remove(server.address);
        self.add_replica().await;
        // The process stays: its end would close connections that clients may still use.
        std::mem::forget(server);
    }

    /// Waits until the Service names only those that are to serve.
    pub async fn wait_unnamed(&self) {
        let wanted = self.replicas.len();
        eventually("that nobody is named who is to end", || async {
            (self.endpoints.all().len() == wanted).then_some(())
        })
        .await;
    }

    /// Waits until all that were retired have ended; gives how many ended otherwise than with 0.
    pub async fn wait_ended(&mut self) -> usize {
        let mut failed = 0;
        while let Some(ended) = self.ending.join_next().await {
            failed += usize::from(!ended.unwrap());
        }
        failed
    }
}

/// What came of calls.
#[derive(Debug, Default)]
pub struct LoadResult {
    /// From the moment at which a call was due to its answer, sorted.
    pub times: Vec<Duration>,
    /// Why others failed.
    pub failed: std::collections::BTreeMap<String, usize>,
}

impl LoadResult {
    /// How many failed.
    pub fn count_failed(&self) -> usize {
        self.failed.values().sum()
    }

    /// Milliseconds at this share of a thousand.
    pub fn milliseconds(&self, permille: usize) -> f64 {
        let at = self.times.len().saturating_sub(1) * permille / 1_000;
        self.times.get(at).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }

    /// Answers that took longer.
    pub fn count_late(&self, than: Duration) -> usize {
        self.times.len() - self.times.partition_point(|time| *time <= than)
    }
}

/// Calls `rate` times a second, whether or not earlier calls have been answered, until `during` ends.
pub async fn load(
    caller: WebhookClient,
    path: &'static str,
    review: impl Into<Bytes>,
    rate: u32,
    during: impl Future<Output = ()>,
) -> LoadResult {
    let (caller, review) = (std::sync::Arc::new(caller), review.into());
    let mut ticks = interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut calls = JoinSet::new();
    let mut seen = LoadResult::default();
    let mut during = std::pin::pin!(during);
    let note = |(ended, time): (Result<Bytes, String>, Duration), seen: &mut LoadResult| match ended
    {
        Ok(_) => seen.times.push(time),
        Err(why) => *seen.failed.entry(why).or_default() += 1,
    };
    loop {
        tokio::select! {
            () = &mut during => break,
            due = ticks.tick() => {
                let (caller, review) = (caller.clone(), review.clone());
                calls.spawn(async move {
                    let ended = caller.call(path, &review).await;
                    (ended, Instant::now().duration_since(due))
                });
            }
            Some(ended) = calls.join_next() => note(ended.unwrap(), &mut seen),
        }
    }
    while let Some(ended) = calls.join_next().await {
        note(ended.unwrap(), &mut seen);
    }
    seen.times.sort_unstable();
    seen
}
