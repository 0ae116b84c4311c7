//! Reads the Secret on every replica, and keeps it on the leader.
//!
//! Every write is based on the version that was read, and only the leader writes. If another client writes
//! first, the next round reads its change.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opgate_certs::{Pair, Root, service_names};
use opgate_text::one_line;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use serde_json::Value;
use tokio::sync::watch;

use super::plan::{Step, View, is_for, step};
use super::stored::{Leaf, Stored, is_kept_by_cert_manager, new_secret};
use super::{LOOK, SECRET, Times};
use crate::Installation;
use crate::api::{Api, ApiError, Kind};
use crate::clock::Clock;
use crate::lease::Leader;
use crate::replicas::Replicas;
use crate::trust;

/// Maximum number of steps in a round: a first installation takes three.
const STEPS: usize = 4;

/// A difference of the calendars that is worth a line of the log.
const SKEW: Duration = Duration::from_secs(300);

/// The certificate that a replica serves.
#[derive(Debug, Clone)]
pub struct Served {
    /// The leaf with its key.
    pub pair: Pair,
    /// The CA that issued it.
    pub issuer: Root,
}

/// The state that a replica has read.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The leaf to serve; none before there was one.
    pub served: Option<Served>,
    /// The CAs that clients trust, PEM: the `caBundle` of our webhooks.
    pub bundle: String,
    /// Why there is nothing to serve, or nothing new, in one line.
    pub trouble: Option<String>,
}

impl State {
    /// Returns `sha256:…` of the bundle; nothing without one.
    #[must_use]
    pub fn bundle_digest(&self) -> String {
        if self.bundle.is_empty() {
            return String::new();
        }
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, self.bundle.as_bytes());
        let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        std::iter::once("sha256:".to_owned()).chain(hex).collect()
    }
}

/// Figures of a keeper. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    failures: Counter,
    trusted: Gauge,
    skew: Gauge,
    leaf_begins: Gauge,
    authority_begins: Gauge,
    authority_ends: Gauge,
}

impl Figures {
    /// Adds them to those of the server.
    pub fn register(&self, registry: &mut Registry) {
        let Figures { failures, trusted, skew, leaf_begins, authority_begins, authority_ends } =
            self.clone();
        let text = "Failed certificate reconciliations";
        registry.register("certificate_controller_errors", text, failures);
        let text =
            "Whether all webhooks of this installation trust the newest CA, reported by the leader";
        registry.register("ca_trusted", text, trusted);
        let text = "How far the calendar of this replica is ahead of the API server's";
        registry.register_with_unit("clock_skew", text, Unit::Seconds, skew);
        let text = "Start of the validity of the serving certificate, Unix time";
        registry.register_with_unit(
            "certificate_not_before_timestamp",
            text,
            Unit::Seconds,
            leaf_begins,
        );
        let text = "Start of the validity of its CA, Unix time";
        registry.register_with_unit(
            "ca_not_before_timestamp",
            text,
            Unit::Seconds,
            authority_begins,
        );
        let text = "End of the validity of the CA of the serving certificate, Unix time";
        registry.register_with_unit("ca_expiration_timestamp", text, Unit::Seconds, authority_ends);
    }
}

/// One for each replica.
#[derive(Debug)]
pub struct CertificateController {
    installation: Installation,
    names: Vec<String>,
    times: Times,
    clock: Arc<dyn Clock>,
    leader: Leader,
    replicas: Replicas,
    remembered: LastGood,
    /// The last read Secret: its version, and its contents. Most reads return the same.
    last: Option<(String, LastGood)>,
    /// The digest of the newest CA, and since when all our webhooks have been seen to trust it.
    noticed: Option<(String, Duration)>,
    told: watch::Sender<State>,
    figures: Figures,
    is_skewed: bool,
}

/// The last good bundle and leaf. Its keys are not shown.
struct LastGood(Stored);

impl std::fmt::Debug for LastGood {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remembered").finish_non_exhaustive()
    }
}

/// Why a round failed.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The API server.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A certificate cannot be made.
    #[error(transparent)]
    Certificates(#[from] opgate_certs::Error),
    /// The Secret belongs to another controller.
    #[error(
        "cert-manager keeps Secret {SECRET}: mount it and use `--certificates files`, or delete its Certificate and the Secret"
    )]
    CertManager,
    /// The Secret is not there, and the servers may not create one.
    #[error(
        "Secret {SECRET} does not exist: create it empty with `kubectl -n {0} create secret generic {SECRET}`"
    )]
    NoSecret(String),
}

impl CertificateController {
    /// Creates one without any state.
    #[must_use]
    pub fn new(
        installation: Installation,
        times: Times,
        clock: Arc<dyn Clock>,
        leader: Leader,
    ) -> Self {
        Self {
            names: service_names(&installation.namespace, &installation.service),
            replicas: Replicas::new(&installation, clock.clone()),
            installation,
            times,
            clock,
            leader,
            remembered: LastGood(Stored::default()),
            last: None,
            noticed: None,
            told: watch::Sender::default(),
            figures: Figures::default(),
            is_skewed: false,
        }
    }

    /// Returns the state that this replica has read, and each change of it.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<State> {
        self.told.subscribe()
    }

    /// Returns the metrics of the server.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.figures.clone()
    }

    /// Looks after the certificates until it is dropped.
    pub async fn run(&mut self, api: &dyn Api) {
        let mut last = None;
        let mut leads = self.leader.changes();
        loop {
            match self.reconcile(api).await {
                Ok(()) => {
                    if last.take().is_some() {
                        tracing::info!("certificate reconciliation recovered");
                    }
                }
                Err(error) => {
                    let error = one_line(&error.to_string(), 512);
                    if last.replace(error.clone()).as_ref() != Some(&error) {
                        tracing::warn!(error, "certificate reconciliation failed; retrying");
                    }
                }
            }
            // A new leader has something to do at once.
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                Ok(()) = leads.changed() => {}
            }
        }
    }

    /// Reads what there is, serves it, and, on the leader, does what is to be done.
    ///
    /// # Errors
    /// Fails if a step failed. The next round tries again.
    pub async fn reconcile(&mut self, api: &dyn Api) -> Result<(), KeeperError> {
        let done = self.steps(api).await;
        let trouble = match &done {
            Ok(waits) => waits.map(str::to_owned),
            Err(error) => {
                self.figures.failures.inc();
                Some(one_line(&error.to_string(), 512))
            }
        };
        self.told.send_if_modified(|state| {
            let changed = state.trouble != trouble;
            state.trouble = trouble;
            changed
        });
        done.map(drop)
    }

    /// Runs the steps of a round; returns the condition that it waits for.
    async fn steps(&mut self, api: &dyn Api) -> Result<Option<&'static str>, KeeperError> {
        let mut waits = None;
        for _ in 0..STEPS {
            let namespace = &self.installation.namespace;
            let secret = match api.get(Kind::Secret, namespace, SECRET).await {
                Ok(secret) => Some(secret),
                Err(ApiError::NotFound(_)) => None,
                Err(trouble) => return Err(trouble.into()),
            };
            if secret.as_ref().is_some_and(is_kept_by_cert_manager) {
                return Err(KeeperError::CertManager);
            }
            let now = self.now(api);
            let stored = secret.as_ref().map(|secret| self.parse(secret));
            if let Some(stored) = &stored {
                self.adopt(stored, now);
            }
            if !self.leader.is_leader() {
                self.noticed = None;
                // Only the leader exports the facts that only it knows.
                self.figures.trusted.set(0);
                let nothing = self.told.borrow().served.is_none();
                return Ok(nothing.then_some("waiting for the leader to issue a certificate"));
            }
            let next = self.act_as_leader(api, secret, stored, now).await;
            match next {
                Ok(Next::Again) => {}
                Ok(Next::Later(why)) => {
                    waits = why;
                    break;
                }
                // Another client wrote first.
                Err(KeeperError::Api(trouble)) if trouble.is_race() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(waits)
    }

    /// Parses the contents of a Secret.
    fn parse(&mut self, secret: &Value) -> Stored {
        let version = crate::api::version(secret);
        if let Some((known, LastGood(stored))) = &self.last
            && known == version
            && !version.is_empty()
        {
            return stored.clone();
        }
        let stored = Stored::of(secret);
        self.last = Some((version.to_owned(), LastGood(stored.clone())));
        stored
    }

    /// Returns the calendar that counts.
    fn now(&mut self, api: &dyn Api) -> SystemTime {
        let here = self.clock.calendar();
        let Some(there) = api.date() else { return here };
        let ahead = here.duration_since(there);
        let (difference, sign) = match &ahead {
            Ok(ahead) => (*ahead, 1),
            Err(behind) => (behind.duration(), -1),
        };
        let seconds = i64::try_from(difference.as_secs()).unwrap_or(i64::MAX);
        self.figures.skew.set(seconds.saturating_mul(sign));
        let is_skewed = difference > SKEW;
        if is_skewed && !self.is_skewed {
            let seconds = seconds.saturating_mul(sign);
            tracing::warn!(seconds, "clock of this machine differs from the API server");
        }
        self.is_skewed = is_skewed;
        there
    }

    /// Serves what the Secret has, if it can be served, and remembers it.
    fn adopt(&mut self, stored: &Stored, now: SystemTime) {
        let remembered = &mut self.remembered.0;
        // A bundle without a CA that signs is damaged: the old one is better.
        if stored.signer.is_some() {
            remembered.bundle.clone_from(&stored.bundle);
        }
        let new = stored.leaf.as_ref().filter(|leaf| is_for(leaf, &self.names));
        let issued = new.and_then(|leaf| Some((leaf, leaf.issuer(&stored.bundle)?)));
        if let Some((leaf, issuer)) = issued {
            let is_same = |old: &Leaf| old.pair == leaf.pair;
            let is_better = |old: &Leaf| leaf.is_valid_at(now) || !old.is_valid_at(now);
            let old = remembered.leaf.as_ref();
            if old.is_none_or(|old| !is_same(old) && is_better(old)) {
                remembered.leaf = Some(leaf.clone());
                let served = Served { pair: leaf.pair.clone(), issuer: issuer.clone() };
                self.figures.leaf_begins.set(seconds(served.pair.not_before()));
                self.figures.authority_begins.set(seconds(issuer.not_before()));
                self.figures.authority_ends.set(seconds(issuer.not_after()));
                self.told.send_modify(|state| state.served = Some(served));
            }
        }
        let bundle = stored.pem();
        if stored.signer.is_some() {
            self.told.send_if_modified(|state| {
                let changed = state.bundle != bundle;
                state.bundle = bundle;
                changed
            });
        }
    }

    /// Decides, and does it.
    async fn act_as_leader(
        &mut self,
        api: &dyn Api,
        secret: Option<Value>,
        stored: Option<Stored>,
        now: SystemTime,
    ) -> Result<Next, KeeperError> {
        let configurations = trust::configurations(api, &self.installation).await?;
        let ours = configurations.iter();
        let trusting: Vec<_> =
            ours.flat_map(|one| trust::bundles(one, &self.installation)).collect();
        let signer = stored.as_ref().and_then(|stored| stored.signer.as_ref());
        self.noticed = match (signer, self.noticed.take()) {
            (Some(signer), noticed) if trust::all_trust(&trusting, &signer.root) => {
                let digest = signer.root.digest();
                let same = noticed.filter(|(known, _)| known == digest);
                Some(same.unwrap_or_else(|| (digest.to_owned(), self.clock.elapsed())))
            }
            _ => None,
        };
        self.figures.trusted.set(i64::from(self.noticed.is_some()));
        // The signer is relevant if there is more than one CA, or if it is unknown.
        let one = stored.as_ref().is_some_and(|s| s.signer.is_some() && s.bundle.len() == 1);
        let used = if one { None } else { self.replicas.live(api).await.ok() };
        let used: Option<Vec<_>> =
            used.map(|live| live.into_iter().map(|report| report.issuer).collect());
        let since = |(_, since): &(String, Duration)| self.clock.elapsed().saturating_sub(*since);
        let view = View {
            now,
            stored: stored.as_ref(),
            remembered: &self.remembered.0,
            trusting: &trusting,
            noticed: self.noticed.as_ref().map(since),
            in_use: used.as_deref(),
            names: &self.names,
        };
        match step(&view, &self.times)? {
            Step::Rest => Ok(Next::Later(None)),
            Step::Wait => {
                let why = match self.noticed {
                    Some(_) => "waiting until API servers have noticed the new CA",
                    None => "waiting until all webhooks of this installation trust the new CA",
                };
                Ok(Next::Later(Some(why)))
            }
            Step::Write(new, what) => self.write(api, secret, &new, what).await,
            Step::Trust => {
                let bundle = stored.map(|stored| stored.pem()).unwrap_or_default();
                self.trust(api, configurations, &bundle).await
            }
        }
    }

    async fn write(
        &self,
        api: &dyn Api,
        secret: Option<Value>,
        new: &Stored,
        what: &'static str,
    ) -> Result<Next, KeeperError> {
        let exists = secret.is_some();
        let mut secret = secret.unwrap_or_else(|| new_secret(&self.installation));
        new.write(&mut secret);
        if !self.leader.is_leader() {
            return Ok(Next::Later(None));
        }
        let namespace = &self.installation.namespace;
        if exists {
            api.replace(Kind::Secret, namespace, secret).await?;
        } else {
            let created = api.create(Kind::Secret, namespace, secret).await;
            created.map_err(|trouble| match trouble {
                // An installation has the Secret, and no permission to create others.
                ApiError::Forbidden(_) => KeeperError::NoSecret(namespace.clone()),
                trouble => trouble.into(),
            })?;
        }
        tracing::info!(
            secret = SECRET,
            authorities = new.bundle.len(),
            what,
            "certificates written"
        );
        Ok(Next::Again)
    }

    /// Puts the bundle into all configurations, also if one of them does not take it.
    async fn trust(
        &self,
        api: &dyn Api,
        configurations: Vec<Value>,
        bundle: &str,
    ) -> Result<Next, KeeperError> {
        let mut failed = None;
        for mut configuration in configurations {
            if !trust::set(&mut configuration, &self.installation, bundle) {
                continue;
            }
            if !self.leader.is_leader() {
                return Ok(Next::Later(None));
            }
            let name = crate::api::text(&configuration, "/metadata/name").to_owned();
            match api.replace(Kind::ValidatingWebhookConfiguration, "", configuration).await {
                Ok(_) => tracing::info!(configuration = name, "CA bundle written"),
                // The object changed or was deleted meanwhile: the next round reads it again.
                Err(trouble) if trouble.is_race() => {}
                Err(ApiError::NotFound(_)) => {}
                Err(trouble) => failed = Some(trouble),
            }
        }
        failed.map_or(Ok(Next::Again), |trouble| Err(trouble.into()))
    }
}

/// Result of a step.
enum Next {
    /// The next one.
    Again,
    /// No step in this round, and the reason.
    Later(Option<&'static str>),
}

fn seconds(at: SystemTime) -> i64 {
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
