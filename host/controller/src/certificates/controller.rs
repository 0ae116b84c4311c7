//! Reads the Secret on every replica, and keeps it on the leader.
//!
//! Every write is based on the version that was read, and only the leader writes. If another client writes
//! first, the next round reads its change.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opgate_certs::{Root, ServingCertificate, service_names};
use opgate_text::one_line;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use serde_json::Value;
use tokio::sync::watch;

use super::plan::{LeaderState, Step, is_for_service, next_step};
use super::stored::{SecretContents, StoredCertificate, is_managed_by_cert_manager, new_secret};
use super::{CertificateLifetimes, SECRET_NAME, SECRET_POLL_INTERVAL};
use crate::Installation;
use crate::api::{Api, ApiError, Kind};
use crate::clock::Clock;
use crate::lease::Leadership;
use crate::replicas::Replicas;
use crate::trust;

/// Maximum number of steps in a round: a first installation takes three.
const MAX_STEPS: usize = 4;

/// A difference of the calendars that is worth a line of the log.
const MIN_REPORTED_SKEW: Duration = Duration::from_secs(300);

/// The certificate that a replica serves.
#[derive(Debug, Clone)]
pub struct CertificateWithIssuer {
    /// The leaf with its key.
    pub certificate: ServingCertificate,
    /// The CA that issued it.
    pub issuer: Root,
}

/// The state that a replica has read.
#[derive(Debug, Clone, Default)]
pub struct CertificateState {
    /// The leaf to serve; none before there was one.
    pub served: Option<CertificateWithIssuer>,
    /// The CAs that clients trust, PEM: the `caBundle` of our webhooks.
    pub bundle: String,
    /// Why there is nothing to serve, or nothing new, in one line.
    pub error: Option<String>,
}

impl CertificateState {
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
pub struct CertificateMetrics {
    failures: Counter,
    trusted_at: Gauge,
    skew: Gauge,
    certificate_not_before: Gauge,
    ca_not_before: Gauge,
    ca_not_after: Gauge,
}

impl CertificateMetrics {
    /// Adds them to those of the server.
    pub fn register(&self, registry: &mut Registry) {
        let CertificateMetrics {
            failures,
            trusted_at: trusted,
            skew,
            certificate_not_before: leaf_begins,
            ca_not_before: authority_begins,
            ca_not_after: authority_ends,
        } = self.clone();
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
    lifetimes: CertificateLifetimes,
    clock: Arc<dyn Clock>,
    leader: Leadership,
    replicas: Replicas,
    last_good: LastGood,
    /// The last read Secret: its version, and its contents. Most reads return the same.
    last_read: Option<(String, LastGood)>,
    /// The digest of the newest CA, and since when all our webhooks have been seen to trust it.
    trusted_since: Option<(String, Duration)>,
    states: watch::Sender<CertificateState>,
    metrics: CertificateMetrics,
    is_skewed: bool,
}

/// The last good bundle and leaf. Its keys are not shown.
struct LastGood(SecretContents);

impl std::fmt::Debug for LastGood {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LastGood").finish_non_exhaustive()
    }
}

/// Why a round failed.
#[derive(Debug, thiserror::Error)]
pub enum CertificateControllerError {
    /// The API server.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A certificate cannot be made.
    #[error(transparent)]
    Certificates(#[from] opgate_certs::Error),
    /// The Secret belongs to another controller.
    #[error(
        "cert-manager keeps Secret {SECRET_NAME}: mount it and use `--certificates files`, or delete its Certificate and the Secret"
    )]
    CertManager,
    /// The Secret is not there, and the servers may not create one.
    #[error(
        "Secret {SECRET_NAME} does not exist: create it empty with `kubectl -n {0} create secret generic {SECRET_NAME}`"
    )]
    NoSecret(String),
}

impl CertificateController {
    /// Creates one without any state.
    #[must_use]
    pub fn new(
        installation: Installation,
        times: CertificateLifetimes,
        clock: Arc<dyn Clock>,
        leader: Leadership,
    ) -> Self {
        Self {
            names: service_names(&installation.namespace, &installation.service),
            replicas: Replicas::new(&installation, clock.clone()),
            installation,
            lifetimes: times,
            clock,
            leader,
            last_good: LastGood(SecretContents::default()),
            last_read: None,
            trusted_since: None,
            states: watch::Sender::default(),
            metrics: CertificateMetrics::default(),
            is_skewed: false,
        }
    }

    /// Returns the state that this replica has read, and each change of it.
    #[must_use]
    pub fn states(&self) -> watch::Receiver<CertificateState> {
        self.states.subscribe()
    }

    /// Returns the metrics of the server.
    #[must_use]
    pub fn metrics(&self) -> CertificateMetrics {
        self.metrics.clone()
    }

    /// Looks after the certificates until it is dropped.
    pub async fn run(&mut self, api: &dyn Api) {
        let mut last = None;
        let mut leadership_changes = self.leader.changes();
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
                () = tokio::time::sleep(SECRET_POLL_INTERVAL) => {}
                Ok(()) = leadership_changes.changed() => {}
            }
        }
    }

    /// Reads what there is, serves it, and, on the leader, does what is to be done.
    ///
    /// # Errors
    /// Fails if a step failed. The next round tries again.
    pub async fn reconcile(&mut self, api: &dyn Api) -> Result<(), CertificateControllerError> {
        let done = self.run_steps(api).await;
        let trouble = match &done {
            Ok(condition) => condition.map(str::to_owned),
            Err(error) => {
                self.metrics.failures.inc();
                Some(one_line(&error.to_string(), 512))
            }
        };
        self.states.send_if_modified(|state| {
            let changed = state.error != trouble;
            state.error = trouble;
            changed
        });
        done.map(drop)
    }

    /// Runs the steps of a round; returns the condition that it waits for.
    async fn run_steps(
        &mut self,
        api: &dyn Api,
    ) -> Result<Option<&'static str>, CertificateControllerError> {
        let mut condition = None;
        for _ in 0..MAX_STEPS {
            let namespace = &self.installation.namespace;
            let secret = match api.get(Kind::Secret, namespace, SECRET_NAME).await {
                Ok(secret) => Some(secret),
                Err(ApiError::NotFound(_)) => None,
                Err(trouble) => return Err(trouble.into()),
            };
            if secret.as_ref().is_some_and(is_managed_by_cert_manager) {
                return Err(CertificateControllerError::CertManager);
            }
            let now = self.now(api);
            let stored = secret.as_ref().map(|secret| self.parse(secret));
            if let Some(stored) = &stored {
                self.adopt(stored, now);
            }
            if !self.leader.is_leader() {
                self.trusted_since = None;
                // Only the leader exports the facts that only it knows.
                self.metrics.trusted_at.set(0);
                let nothing = self.states.borrow().served.is_none();
                return Ok(nothing.then_some("waiting for the leader to issue a certificate"));
            }
            let next = self.act_as_leader(api, secret, stored, now).await;
            match next {
                Ok(StepResult::Continue) => {}
                Ok(StepResult::Wait(why)) => {
                    condition = why;
                    break;
                }
                // Another client wrote first.
                Err(CertificateControllerError::Api(trouble)) if trouble.is_race() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(condition)
    }

    /// Parses the contents of a Secret.
    fn parse(&mut self, secret: &Value) -> SecretContents {
        let version = crate::api::version(secret);
        if let Some((known, LastGood(stored))) = &self.last_read
            && known == version
            && !version.is_empty()
        {
            return stored.clone();
        }
        let stored = SecretContents::of(secret);
        self.last_read = Some((version.to_owned(), LastGood(stored.clone())));
        stored
    }

    /// Returns the calendar that counts.
    fn now(&mut self, api: &dyn Api) -> SystemTime {
        let here = self.clock.system_time();
        let Some(there) = api.date() else { return here };
        let ahead = here.duration_since(there);
        let (difference, sign) = match &ahead {
            Ok(ahead) => (*ahead, 1),
            Err(behind) => (behind.duration(), -1),
        };
        let seconds = i64::try_from(difference.as_secs()).unwrap_or(i64::MAX);
        self.metrics.skew.set(seconds.saturating_mul(sign));
        let is_skewed = difference > MIN_REPORTED_SKEW;
        if is_skewed && !self.is_skewed {
            let seconds = seconds.saturating_mul(sign);
            tracing::warn!(seconds, "clock of this machine differs from the API server");
        }
        self.is_skewed = is_skewed;
        there
    }

    /// Serves what the Secret has, if it can be served, and remembers it.
    fn adopt(&mut self, stored: &SecretContents, now: SystemTime) {
        let last_good = &mut self.last_good.0;
        // A bundle without a CA that signs is damaged: the old one is better.
        if stored.signer.is_some() {
            last_good.bundle.clone_from(&stored.bundle);
        }
        let new = stored.certificate.as_ref().filter(|leaf| is_for_service(leaf, &self.names));
        let issued = new.and_then(|leaf| Some((leaf, leaf.issuer(&stored.bundle)?)));
        if let Some((leaf, issuer)) = issued {
            let is_same = |old: &StoredCertificate| old.pair == leaf.pair;
            let is_better =
                |old: &StoredCertificate| leaf.is_valid_at(now) || !old.is_valid_at(now);
            let old = last_good.certificate.as_ref();
            if old.is_none_or(|old| !is_same(old) && is_better(old)) {
                last_good.certificate = Some(leaf.clone());
                let served = CertificateWithIssuer {
                    certificate: leaf.pair.clone(),
                    issuer: issuer.clone(),
                };
                self.metrics.certificate_not_before.set(seconds(served.certificate.not_before()));
                self.metrics.ca_not_before.set(seconds(issuer.not_before()));
                self.metrics.ca_not_after.set(seconds(issuer.not_after()));
                self.states.send_modify(|state| state.served = Some(served));
            }
        }
        let bundle = stored.pem();
        if stored.signer.is_some() {
            self.states.send_if_modified(|state| {
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
        stored: Option<SecretContents>,
        now: SystemTime,
    ) -> Result<StepResult, CertificateControllerError> {
        let configurations = trust::list_configurations(api, &self.installation).await?;
        let ours = configurations.iter();
        let trusting: Vec<_> =
            ours.flat_map(|one| trust::ca_bundles(one, &self.installation)).collect();
        let signer = stored.as_ref().and_then(|stored| stored.signer.as_ref());
        self.trusted_since = match (signer, self.trusted_since.take()) {
            (Some(signer), trusted_since) if trust::all_trust(&trusting, &signer.root) => {
                let digest = signer.root.digest();
                let same = trusted_since.filter(|(known, _)| known == digest);
                Some(same.unwrap_or_else(|| (digest.to_owned(), self.clock.elapsed())))
            }
            _ => None,
        };
        self.metrics.trusted_at.set(i64::from(self.trusted_since.is_some()));
        // The signer is relevant if there is more than one CA, or if it is unknown.
        let one = stored.as_ref().is_some_and(|s| s.signer.is_some() && s.bundle.len() == 1);
        let served_cas = if one { None } else { self.replicas.live(api).await.ok() };
        let served_cas: Option<Vec<_>> =
            served_cas.map(|live| live.into_iter().map(|report| report.issuer).collect());
        let since = |(_, since): &(String, Duration)| self.clock.elapsed().saturating_sub(*since);
        let view = LeaderState {
            now,
            stored: stored.as_ref(),
            last_good: &self.last_good.0,
            webhook_bundles: &trusting,
            trusted_for: self.trusted_since.as_ref().map(since),
            served_cas: served_cas.as_deref(),
            names: &self.names,
        };
        match next_step(&view, &self.lifetimes)? {
            Step::Done => Ok(StepResult::Wait(None)),
            Step::Wait => {
                let why = match self.trusted_since {
                    Some(_) => "waiting until API servers have noticed the new CA",
                    None => "waiting until all webhooks of this installation trust the new CA",
                };
                Ok(StepResult::Wait(Some(why)))
            }
            Step::Write(new, what) => self.write_secret(api, secret, &new, what).await,
            Step::UpdateWebhooks => {
                let bundle = stored.map(|stored| stored.pem()).unwrap_or_default();
                self.update_ca_bundles(api, configurations, &bundle).await
            }
        }
    }

    async fn write_secret(
        &self,
        api: &dyn Api,
        secret: Option<Value>,
        new: &SecretContents,
        what: &'static str,
    ) -> Result<StepResult, CertificateControllerError> {
        let exists = secret.is_some();
        let mut secret = secret.unwrap_or_else(|| new_secret(&self.installation));
        new.write_to(&mut secret);
        if !self.leader.is_leader() {
            return Ok(StepResult::Wait(None));
        }
        let namespace = &self.installation.namespace;
        if exists {
            api.replace(Kind::Secret, namespace, secret).await?;
        } else {
            let created = api.create(Kind::Secret, namespace, secret).await;
            created.map_err(|trouble| match trouble {
                // An installation has the Secret, and no permission to create others.
                ApiError::Forbidden(_) => CertificateControllerError::NoSecret(namespace.clone()),
                trouble => trouble.into(),
            })?;
        }
        tracing::info!(
            secret = SECRET_NAME,
            authorities = new.bundle.len(),
            what,
            "certificates written"
        );
        Ok(StepResult::Continue)
    }

    /// Puts the bundle into all configurations, also if one of them does not take it.
    async fn update_ca_bundles(
        &self,
        api: &dyn Api,
        configurations: Vec<Value>,
        bundle: &str,
    ) -> Result<StepResult, CertificateControllerError> {
        let mut failed = None;
        for mut configuration in configurations {
            if !trust::set_ca_bundle(&mut configuration, &self.installation, bundle) {
                continue;
            }
            if !self.leader.is_leader() {
                return Ok(StepResult::Wait(None));
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
        failed.map_or(Ok(StepResult::Continue), |trouble| Err(trouble.into()))
    }
}

/// Result of a step.
enum StepResult {
    /// The next one.
    Continue,
    /// No step in this round, and the reason.
    Wait(Option<&'static str>),
}

fn seconds(at: SystemTime) -> i64 {
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
