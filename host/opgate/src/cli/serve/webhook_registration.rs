//! Management of the webhook registration: a server computes the registration for its active policy set,
//! compares it with the stored one, and, as the leader with `--manage-webhooks`, applies it.
//!
//! ```text
//! Serving ─▶ registration of the set ─▶ Wanted ─▶ digest in the lease
//!                                          └▶ every few seconds, or on request: check ─▶ Registered, figures
//!                                                                            leader: └▶ follow
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use kube::Client;
use tokio::sync::watch;

use crate::cli::manifests::SYSTEM_NAMESPACE;
use crate::registration::Registration;
use crate::registration::matches::PolicyFacts;
use crate::registration::server::{Service, Target};
use opgate_admission::policy::PolicySet;
use opgate_controller::Installation;
use opgate_controller::api::{Api, ApiError};
use opgate_controller::events::{Events, Severity};
use opgate_controller::lease::Leader;
use opgate_controller::registration::{
    Figures, LeaderContext, Outcome, RegistrationController, RegistrationStatus, Wanted,
};
use opgate_controller::replicas::{Replicas, Report};
use opgate_server::{ActiveConfiguration, ActivePolicySet, ClusterStatus, RegistrationNames};

/// Interval of registration checks.
const LOOK: Duration = Duration::from_secs(5);

/// Minimum time between two checks, for all callers.
const LEAST: Duration = Duration::from_millis(500);

/// Time for which the version of the API server is cached.
const VERSION: Duration = Duration::from_secs(60);
const VERSION_TIME: Duration = Duration::from_secs(4);

/// The first minor version of Kubernetes 1 with `matchConditions`.
const WITH_CONDITIONS: u32 = 28;

/// Flags for the management of webhooks.
#[derive(Debug, Clone, Args)]
pub(super) struct FollowArgs {
    /// The leader applies the webhook configuration that matches what all servers serve; needs
    /// `--installation`
    #[arg(long, env = "OPGATE_MANAGE_WEBHOOKS", requires = "installation")]
    manage_webhooks: bool,
}

impl FollowArgs {
    pub(super) fn follows(&self) -> bool {
        self.manage_webhooks
    }
}

/// CAs, PEM, that trust the certificate of this server, if any are known.
pub(super) type Bundle = Box<dyn Fn() -> Option<Vec<u8>> + Send + Sync>;

/// Dependencies of the task.
pub(super) struct Follow {
    pub(super) installation: Installation,
    pub(super) api: Arc<dyn Api>,
    pub(super) client: Client,
    pub(super) leader: Leader,
    pub(super) follower: RegistrationController,
    pub(super) replicas: Replicas,
    pub(super) serving: Arc<ActivePolicySet>,
    pub(super) report: watch::Sender<Report>,
    pub(super) registered: Arc<RegistrationNames>,
    pub(super) figures: Figures,
    pub(super) ready: Box<dyn Fn() -> bool + Send + Sync>,
    pub(super) bundle: Bundle,
    pub(super) events: Arc<Events>,
    /// Whether the leader applies it.
    pub(super) follows: bool,
    pub(super) state: State,
}

/// State between two checks.
#[derive(Default)]
pub(super) struct State {
    /// Whether API servers support `matchConditions`, and the time of the check.
    conditions: Option<(bool, Instant)>,
    /// For which configuration, and conditions, this is wanted.
    wanted: Option<(String, bool, Result<Arc<Wanted>, String>)>,
    /// The last log message.
    told: String,
}

impl Follow {
    /// Goes on until it is dropped.
    pub(super) async fn run(&mut self) {
        let mut served = self.serving.follow();
        let mut leads = self.leader.changes();
        let registered = self.registered.clone();
        loop {
            let now = served.borrow_and_update().clone();
            self.round(&now).await;
            tokio::time::sleep(LEAST).await;
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = registered.wait_refresh_request() => {}
                changed = served.changed() => if changed.is_err() { return },
                _ = leads.changed() => {}
            }
        }
    }

    async fn round(&mut self, served: &ActiveConfiguration) {
        let wanted = self.wanted(served).await;
        let digest = wanted.as_ref().map(|wanted| wanted.digest().to_owned()).unwrap_or_default();
        let troubles = ClusterStatus::troubles(&served.set);
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
        let none = Arc::new(Wanted::of(&serde_json::Value::Null, []));
        let look = self.follower.look(&*self.api, wanted.as_ref().unwrap_or(&none)).await;
        let look = match look {
            Ok(look) => look,
            Err(trouble) => {
                self.registered.mark_refreshed();
                self.figures.shows(None);
                return self.tell("!", &format!("not known: {trouble}"), true);
            }
        };
        if matches!(look.standing, RegistrationStatus::Current | RegistrationStatus::Stale(_)) {
            self.registered.update(look.policies.clone(), &look.known);
        } else {
            self.registered.mark_refreshed();
        }
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(why) => {
                self.figures.shows(None);
                return self.tell("!", &format!("not changed: {why}"), true);
            }
        };
        self.figures.shows(Some(&look.standing));
        let name = self.follower.name().to_owned();
        match &look.standing {
            RegistrationStatus::Current => self.tell("+", &format!("current, {digest}"), false),
            RegistrationStatus::Absent => {
                let text = format!(
                    "there is no ValidatingWebhookConfiguration {name}: nothing is checked"
                );
                self.tell("!", &text, self.follows);
            }
            RegistrationStatus::NotOurs => {
                let text = format!(
                    "the ValidatingWebhookConfiguration {name} is not ours: its label and annotation name no other installation than {}, or it is left alone",
                    self.installation.owner()
                );
                self.tell("!", &text, true);
            }
            RegistrationStatus::Stale(changes) if !self.follows => {
                let text = format!("stale: {}", changes.join("; "));
                self.tell("!", &text, true);
            }
            RegistrationStatus::Stale(changes) if !self.leader.is_leader() => {
                let text = format!("not followed yet: {}", changes.join("; "));
                self.tell("~", &text, false);
            }
            RegistrationStatus::Stale(_) => self.follow(&wanted, look).await,
        }
    }

    /// Applies the registration as the leader.
    async fn follow(
        &mut self,
        wanted: &Wanted,
        look: opgate_controller::registration::Observation,
    ) {
        let live = match self.replicas.live(&*self.api).await {
            Ok(live) => live,
            Err(trouble) => {
                return self.tell("!", &format!("the leases of replicas: {trouble}"), true);
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
        let done = self.follower.follow(&*self.api, wanted, look, &circumstances).await;
        match done {
            Ok(Outcome::Applied { changes, by_hand }) => {
                self.figures.applied(SystemTime::now(), by_hand);
                self.figures.shows(Some(&RegistrationStatus::Current));
                let changes = changes.join("; ");
                let digest = wanted.digest();
                self.registered.set_status_line(&format!("[+]registration current, {digest}"));
                self.state.told = String::new();
                let (severity, reason) = if by_hand {
                    tracing::warn!(%changes, "webhook registration restored after an external change");
                    (Severity::Warning, "RegistrationRestored")
                } else {
                    tracing::info!(%changes, registration = digest, "webhook registration applied");
                    (Severity::Normal, "RegistrationApplied")
                };
                self.events.tell(severity, reason, "Register", &changes).await;
            }
            Ok(Outcome::Waits(why)) => self.tell("~", &format!("waits: {why}"), true),
            Err(trouble) if trouble.is_race() => {}
            Err(trouble) => {
                let help = match &trouble {
                    ApiError::Forbidden(_) => "; see docs/operate/webhooks.md#managed-registration",
                    _ => "",
                };
                self.tell("!", &format!("cannot be applied: {trouble}{help}"), true);
            }
        }
    }

    /// Shows how it is, and logs what is new.
    fn tell(&mut self, mark: &str, text: &str, warns: bool) {
        self.registered.set_status_line(&format!("[{mark}]registration {text}"));
        if self.state.told != text {
            text.clone_into(&mut self.state.told);
            if warns {
                tracing::warn!(registration = text, "registration");
            } else {
                tracing::info!(registration = text, "registration");
            }
        }
    }

    /// Returns the registration for the active policy set.
    async fn wanted(&mut self, served: &ActiveConfiguration) -> Result<Arc<Wanted>, String> {
        let conditions = self.conditions().await?;
        if let Some((configuration, with, wanted)) = &self.state.wanted
            && *configuration == served.configuration
            && *with == conditions
        {
            return wanted.clone();
        }
        let wanted = wanted(&self.installation, &served.set, conditions).map(Arc::new);
        let key = served.configuration.clone();
        self.state.wanted = Some((key, conditions, wanted.clone()));
        wanted
    }

    async fn conditions(&mut self) -> Result<bool, String> {
        if let Some((conditions, since)) = self.state.conditions
            && since.elapsed() < VERSION
        {
            return Ok(conditions);
        }
        let asked = tokio::time::timeout(VERSION_TIME, self.client.apiserver_version()).await;
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
        let conditions = minor.map(|minor| minor >= WITH_CONDITIONS).or(known);
        let conditions = conditions.ok_or("the version of the API server is not known")?;
        self.state.conditions = Some((conditions, Instant::now()));
        Ok(conditions)
    }
}

/// Returns the registration of a set.
fn wanted(
    installation: &Installation,
    set: &PolicySet,
    conditions: bool,
) -> Result<Wanted, String> {
    if let Some(broken) = set.broken().first() {
        return Err(format!("policy {} cannot be used: {}", broken.name, broken.error));
    }
    let service = Service::of(&installation.namespace, &installation.service);
    let registration = Registration {
        name: installation.service.clone(),
        exempt: vec![SYSTEM_NAMESPACE.to_owned(), installation.namespace.clone()],
        server: Target::Service(service),
        conditions,
        ca: Vec::new(),
    };
    let facts: Vec<_> = set.policies().iter().map(|policy| PolicyFacts::of(policy)).collect();
    let made = registration.of(&facts);
    let made = serde_json::to_value(made).map_err(|error| error.to_string())?;
    Ok(Wanted::of(&made, facts.iter().map(|facts| facts.name.to_owned())))
}
