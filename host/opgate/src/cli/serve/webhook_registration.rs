//! Management of the webhook registration: a server computes the registration for its active policy set,
//! compares it with the stored one, and, as the leader with `--manage-webhooks`, applies it.
//!
//! ```text
//! ActivePolicySet ─▶ DesiredRegistration ─┬▶ digest in the lease
//!                                         └▶ every few seconds, or on request: observe ─▶ RegistrationNames, metrics
//!                                                                              leader: └▶ reconcile
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use kube::Client;
use tokio::sync::watch;

use opgate_admission::policy::PolicySet;
use opgate_controller::Installation;
use opgate_controller::api::{Api, ApiError};
use opgate_controller::events::{EventRecorder, Severity};
use opgate_controller::lease::Leadership;
use opgate_controller::registration::{
    DesiredRegistration, LeaderContext, RegistrationController, RegistrationMetrics,
    RegistrationOutcome, RegistrationStatus,
};
use opgate_controller::replicas::{ReplicaStatus, Replicas};
use opgate_manifests::SYSTEM_NAMESPACE;
use opgate_manifests::registration::WebhookRegistration;
use opgate_manifests::registration::matches::PolicyFacts;
use opgate_manifests::registration::server::{Service, Target};
use opgate_server::{ActiveConfiguration, ActivePolicySet, ClusterStatus, RegistrationNames};

/// The reason why the desired registration is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct RegistrationError(String);

/// Interval of registration checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Minimum time between two checks, for all callers.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Time for which the version of the API server is cached.
const VERSION_CACHE_TTL: Duration = Duration::from_secs(60);
const VERSION_TIMEOUT: Duration = Duration::from_secs(4);

/// The first minor version of Kubernetes 1 with `matchConditions`.
const MIN_MINOR_WITH_CONDITIONS: u32 = 28;

/// Flags for the management of webhooks.
#[derive(Debug, Clone, Args)]
pub(super) struct WebhookRegistrationArgs {
    /// The leader applies the webhook configuration that matches what all servers serve; needs
    /// `--installation`
    #[arg(long, env = "OPGATE_MANAGE_WEBHOOKS", requires = "installation")]
    manage_webhooks: bool,
}

impl WebhookRegistrationArgs {
    pub(super) fn is_managed(&self) -> bool {
        self.manage_webhooks
    }
}

/// CAs, PEM, that trust the certificate of this server, if any are known.
pub(super) type CaBundleSource = Box<dyn Fn() -> Option<Vec<u8>> + Send + Sync>;

/// Dependencies of the task.
pub(super) struct RegistrationTask {
    pub(super) installation: Installation,
    pub(super) api: Arc<dyn Api>,
    pub(super) client: Client,
    pub(super) leader: Leadership,
    pub(super) controller: RegistrationController,
    pub(super) replicas: Replicas,
    pub(super) active_set: Arc<ActivePolicySet>,
    pub(super) report: watch::Sender<ReplicaStatus>,
    pub(super) registration_names: Arc<RegistrationNames>,
    pub(super) metrics: RegistrationMetrics,
    pub(super) ready: Box<dyn Fn() -> bool + Send + Sync>,
    pub(super) bundle: CaBundleSource,
    pub(super) events: Arc<EventRecorder>,
    /// Whether the leader applies it.
    pub(super) is_managed: bool,
    pub(super) state: TaskState,
}

/// The registration for a configuration.
struct CachedRegistration {
    configuration: String,
    supports_conditions: bool,
    registration: Result<Arc<DesiredRegistration>, RegistrationError>,
}

/// State between two checks.
#[derive(Default)]
pub(super) struct TaskState {
    /// Whether API servers support `matchConditions`, and the time of the check.
    conditions: Option<(bool, Instant)>,
    desired: Option<CachedRegistration>,
    /// The last log message.
    last_logged: String,
}

impl RegistrationTask {
    /// Goes on until it is dropped.
    pub(super) async fn run(&mut self) {
        let mut served = self.active_set.subscribe();
        let mut leads = self.leader.changes();
        let registered = self.registration_names.clone();
        loop {
            let now = served.borrow_and_update().clone();
            self.reconcile(&now).await;
            tokio::time::sleep(MIN_CHECK_INTERVAL).await;
            tokio::select! {
                () = tokio::time::sleep(CHECK_INTERVAL) => {}
                () = registered.wait_refresh_request() => {}
                changed = served.changed() => if changed.is_err() { return },
                _ = leads.changed() => {}
            }
        }
    }

    async fn reconcile(&mut self, served: &ActiveConfiguration) {
        let wanted = self.desired(served).await;
        let digest = wanted.as_ref().map(|wanted| wanted.digest().to_owned()).unwrap_or_default();
        let troubles = ClusterStatus::problems(&served.set);
        let state = troubles.and_then(|troubles| serde_json::to_string(&troubles).ok());
        let state = state.unwrap_or_default();
        self.report.send_if_modified(|report| {
            let changed = report.registration != digest
                || report.configuration != served.configuration
                || report.state != state;
            report.state.clone_from(&state);
            report.registration.clone_from(&digest);
            report.configuration.clone_from(&served.configuration);
            changed
        });
        let none = Arc::new(DesiredRegistration::of(&serde_json::Value::Null, []));
        let look = self.controller.observe(&*self.api, wanted.as_ref().unwrap_or(&none)).await;
        let look = match look {
            Ok(look) => look,
            Err(trouble) => {
                self.registration_names.mark_refreshed();
                self.metrics.set_status(None);
                return self.set_status("!", &format!("not known: {trouble}"), true);
            }
        };
        if matches!(look.status, RegistrationStatus::Current | RegistrationStatus::Stale(_)) {
            self.registration_names.update(look.policies.clone(), &look.known);
        } else {
            self.registration_names.mark_refreshed();
        }
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(why) => {
                self.metrics.set_status(None);
                return self.set_status("!", &format!("not changed: {why}"), true);
            }
        };
        self.metrics.set_status(Some(&look.status));
        let name = self.controller.name().to_owned();
        match &look.status {
            RegistrationStatus::Current => {
                self.set_status("+", &format!("current, {digest}"), false);
            }
            RegistrationStatus::Absent => {
                let text = format!(
                    "there is no ValidatingWebhookConfiguration {name}: nothing is checked"
                );
                self.set_status("!", &text, self.is_managed);
            }
            RegistrationStatus::NotOurs => {
                let text = format!(
                    "the ValidatingWebhookConfiguration {name} is not ours: its label and annotation name no other installation than {}, or it is left alone",
                    self.installation.owner()
                );
                self.set_status("!", &text, true);
            }
            RegistrationStatus::Stale(changes) if !self.is_managed => {
                let text = format!("stale: {}", changes.join("; "));
                self.set_status("!", &text, true);
            }
            RegistrationStatus::Stale(changes) if !self.leader.is_leader() => {
                let text = format!("not followed yet: {}", changes.join("; "));
                self.set_status("~", &text, false);
            }
            RegistrationStatus::Stale(_) => self.apply(&wanted, look).await,
        }
    }

    /// Applies the registration as the leader.
    async fn apply(
        &mut self,
        wanted: &DesiredRegistration,
        look: opgate_controller::registration::Observation,
    ) {
        let live = match self.replicas.live(&*self.api).await {
            Ok(live) => live,
            Err(trouble) => {
                return self.set_status("!", &format!("the leases of replicas: {trouble}"), true);
            }
        };
        let bundle = (self.bundle)();
        let leader = self.leader.clone();
        let circumstances = LeaderContext {
            live: &live,
            ready: (self.ready)(),
            bundle: bundle.as_deref(),
            is_leader: &|| leader.is_leader(),
        };
        let done = self.controller.reconcile(&*self.api, wanted, look, &circumstances).await;
        match done {
            Ok(RegistrationOutcome::Applied { changes, external_change: by_hand }) => {
                self.metrics.record_applied(SystemTime::now(), by_hand);
                self.metrics.set_status(Some(&RegistrationStatus::Current));
                let changes = changes.join("; ");
                let digest = wanted.digest();
                self.registration_names
                    .set_status_line(&format!("[+]registration current, {digest}"));
                self.state.last_logged = String::new();
                let (severity, reason) = if by_hand {
                    tracing::warn!(%changes, "webhook registration restored after an external change");
                    (Severity::Warning, "RegistrationRestored")
                } else {
                    tracing::info!(%changes, registration = digest, "webhook registration applied");
                    (Severity::Normal, "RegistrationApplied")
                };
                self.events.record(severity, reason, "Register", &changes).await;
            }
            Ok(RegistrationOutcome::Deferred(why)) => {
                self.set_status("~", &format!("waits: {why}"), true);
            }
            Err(trouble) if trouble.is_race() => {}
            Err(trouble) => {
                let help = match &trouble {
                    ApiError::Forbidden(_) => "; see docs/operate/webhooks.md#managed-registration",
                    _ => "",
                };
                self.set_status("!", &format!("cannot be applied: {trouble}{help}"), true);
            }
        }
    }

    /// Shows how it is, and logs what is new.
    fn set_status(&mut self, mark: &str, text: &str, warns: bool) {
        self.registration_names.set_status_line(&format!("[{mark}]registration {text}"));
        if self.state.last_logged != text {
            text.clone_into(&mut self.state.last_logged);
            if warns {
                tracing::warn!(registration = text, "registration");
            } else {
                tracing::info!(registration = text, "registration");
            }
        }
    }

    /// Returns the registration for the active policy set.
    async fn desired(
        &mut self,
        served: &ActiveConfiguration,
    ) -> Result<Arc<DesiredRegistration>, RegistrationError> {
        let conditions = self.supports_conditions().await?;
        if let Some(cached) = &self.state.desired
            && cached.configuration == served.configuration
            && cached.supports_conditions == conditions
        {
            return cached.registration.clone();
        }
        let wanted =
            desired_registration(&self.installation, &served.set, conditions).map(Arc::new);
        self.state.desired = Some(CachedRegistration {
            configuration: served.configuration.clone(),
            supports_conditions: conditions,
            registration: wanted.clone(),
        });
        wanted
    }

    async fn supports_conditions(&mut self) -> Result<bool, RegistrationError> {
        if let Some((conditions, since)) = self.state.conditions
            && since.elapsed() < VERSION_CACHE_TTL
        {
            return Ok(conditions);
        }
        let asked = tokio::time::timeout(VERSION_TIMEOUT, self.client.apiserver_version()).await;
        let minor = match asked {
            Ok(Ok(version)) => {
                let digits: String =
                    version.minor.chars().take_while(char::is_ascii_digit).collect();
                digits.parse::<u32>().ok()
            }
            Ok(Err(_)) | Err(_) => None,
        };
        // The cached result is still valid.
        let known = self.state.conditions.map(|(conditions, _)| conditions);
        let conditions = minor.map(|minor| minor >= MIN_MINOR_WITH_CONDITIONS).or(known);
        let conditions = conditions.ok_or_else(|| {
            RegistrationError("the version of the API server is not known".to_owned())
        })?;
        self.state.conditions = Some((conditions, Instant::now()));
        Ok(conditions)
    }
}

/// Returns the registration of a set.
fn desired_registration(
    installation: &Installation,
    set: &PolicySet,
    conditions: bool,
) -> Result<DesiredRegistration, RegistrationError> {
    if let Some(broken) = set.broken().first() {
        return Err(RegistrationError(format!(
            "policy {} cannot be used: {}",
            broken.name, broken.error
        )));
    }
    let service = Service::of(&installation.namespace, &installation.service);
    let registration = WebhookRegistration {
        name: installation.service.clone(),
        exempt: vec![SYSTEM_NAMESPACE.to_owned(), installation.namespace.clone()],
        target: Target::Service(service),
        supports_conditions: conditions,
        ca: Vec::new(),
    };
    let facts: Vec<_> = set.policies().iter().map(|policy| PolicyFacts::of(policy)).collect();
    let webhook_configuration = registration.of(&facts);
    let webhook_configuration = serde_json::to_value(webhook_configuration)
        .map_err(|error| RegistrationError(error.to_string()))?;
    Ok(DesiredRegistration::of(
        &webhook_configuration,
        facts.iter().map(|facts| facts.name.to_owned()),
    ))
}
