//! The tasks of a server for its installation, in addition to serving: it takes part in the leader election,
//! reports the active policy set, and manages the certificates.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use opgate_admission::cluster::{ClusterState, Connection, LedgerStore, exchange_ledger};
use opgate_certs::{Reloader, ServingCertificate};
use opgate_controller::Installation;
use opgate_controller::api::{Api, ApiServer};
use opgate_controller::audit_metrics::AuditMetrics;
use opgate_controller::audit_reports::ReportOwner;
use opgate_controller::certificates::{
    CertificateController, CertificateLifetimes, CertificateState,
};
use opgate_controller::clock::{Clock, SystemClock};
use opgate_controller::config_map_ledger::ConfigMapLedger;
use opgate_controller::denial_events::DenialEvents;
use opgate_controller::events::EventRecorder;
use opgate_controller::lease::{Election, Leadership, unique_suffix};
use opgate_controller::registration::{self, RegistrationController};
use opgate_controller::replicas::{KnownReplicas, Publisher, ReplicaStatus, Replicas};
use opgate_server::{DenialObserver, ExternalMetrics, RegistrationNames, Server};
use opgate_supervise::{SupervisedTask, Supervisor};
use tokio::sync::{Mutex, watch};

use super::audit::AuditTask;
use super::cluster_args::ClusterArgs;
use super::ui_args::InstallationView;
use super::webhook_registration::{CaBundleSource, RegistrationTask};
use crate::cli::exit::CommandError;

/// Maximum time for which a stopping server notifies other replicas. They notice a little later by
/// themselves.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// They go on until [`Controllers::shut_down`].
pub(super) struct Controllers {
    installation: Installation,
    api: Arc<dyn Api>,
    client: Client,
    clock: Arc<dyn Clock>,
    supervisor: Supervisor,
    election: Arc<Mutex<Election>>,
    leader: Leadership,
    publisher: Arc<Publisher>,
    known_replicas: KnownReplicas,
    /// The status of this server.
    report: watch::Sender<ReplicaStatus>,
    states: Option<watch::Receiver<CertificateState>>,
    registration_names: Arc<RegistrationNames>,
    registration_metrics: registration::RegistrationMetrics,
    metrics: Vec<ExternalMetrics>,
    tasks: Vec<SupervisedTask>,
}

impl Controllers {
    /// Begins them. None without an installation or without a cluster.
    pub(super) async fn start(
        installation: Option<Installation>,
        cluster: &ClusterArgs,
        supervisor: &Supervisor,
    ) -> Result<Option<Self>, CommandError> {
        let (Some(installation), Some(source)) = (installation, cluster.source()?) else {
            return Ok(None);
        };
        let Some(connection) = cluster.connection(source).await? else { return Ok(None) };
        let api: Arc<dyn Api> = Arc::new(ApiServer::of(&connection));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let publisher = Arc::new(Publisher::new(&installation, pod_uid(), clock.clone()));
        let election = Election::new(&installation, &unique_suffix(), clock.clone());
        let leader = election.leader();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let report = ReplicaStatus {
            replica: installation.replica.clone(),
            version,
            ..ReplicaStatus::default()
        };
        let (shown, renewed) = (leader.clone(), publisher.clone());
        let mut controllers = Self {
            installation,
            api,
            client: connection.client(),
            clock,
            supervisor: supervisor.clone(),
            election: Arc::new(Mutex::new(election)),
            leader,
            publisher,
            known_replicas: KnownReplicas::default(),
            report: watch::Sender::new(report),
            states: None,
            registration_names: Arc::default(),
            registration_metrics: registration::RegistrationMetrics::default(),
            metrics: vec![
                ExternalMetrics::new(move |registry| shown.register(registry)),
                ExternalMetrics::new(move |registry| renewed.register(registry)),
            ],
            tasks: Vec::new(),
        };
        controllers.start_election();
        controllers.start_publisher();
        Ok(Some(controllers))
    }

    fn start_election(&mut self) {
        let (election, api) = (self.election.clone(), self.api.clone());
        self.tasks.push(self.supervisor.spawn("leader", move || {
            let (election, api) = (election.clone(), api.clone());
            async move { election.lock().await.run(&*api).await }
        }));
    }

    fn start_publisher(&mut self) {
        let (publisher, api, leader) =
            (self.publisher.clone(), self.api.clone(), self.leader.clone());
        let replicas = Replicas::new(&self.installation, self.clock.clone());
        self.known_replicas = replicas.known();
        let (replicas, reports) = (Arc::new(Mutex::new(replicas)), self.report.subscribe());
        self.tasks.push(self.supervisor.spawn("replica", move || {
            let (publisher, api, leader) = (publisher.clone(), api.clone(), leader.clone());
            let (replicas, reports) = (replicas.clone(), reports.clone());
            async move {
                let mut replicas = replicas.lock().await;
                publisher.run(&*api, &mut replicas, &leader, reports).await;
            }
        }));
    }

    /// Shares the reservations of this server with those of the others.
    pub(super) fn share_reservations(&mut self, cluster: &ClusterState, connection: &Connection) {
        let replica = format!("{}_{}", self.installation.replica, unique_suffix());
        let (shared, requests) = cluster.share_reservations(&replica);
        let ledger = ConfigMapLedger::new(self.api.clone(), connection.clone(), &self.installation);
        let ledger: Arc<dyn LedgerStore> = Arc::new(ledger);
        let requests = Arc::new(Mutex::new(requests));
        self.tasks.push(self.supervisor.spawn("ledger", move || {
            let (shared, ledger, requests) = (shared.clone(), ledger.clone(), requests.clone());
            async move { exchange_ledger(&shared, &*ledger, &mut *requests.lock().await).await }
        }));
    }

    /// Looks after the certificates.
    pub(super) fn start_certificates(&mut self, times: CertificateLifetimes) {
        let (installation, clock) = (self.installation.clone(), self.clock.clone());
        let keeper = CertificateController::new(installation, times, clock, self.leader.clone());
        let shown = keeper.metrics();
        self.metrics.push(ExternalMetrics::new(move |registry| shown.register(registry)));
        self.states = Some(keeper.states());
        let (keeper, api) = (Arc::new(Mutex::new(keeper)), self.api.clone());
        self.tasks.push(self.supervisor.spawn("certificates", move || {
            let (keeper, api) = (keeper.clone(), api.clone());
            async move { keeper.lock().await.run(&*api).await }
        }));
    }

    /// Returns the states of the certificates, if they are self-managed.
    pub(super) fn states(&self) -> Option<watch::Receiver<CertificateState>> {
        self.states.clone()
    }

    /// Serves this pair, and those that follow it.
    pub(super) fn serve_certificates(&mut self, first: ServingCertificate) -> Arc<Reloader> {
        let reloader = Arc::new(Reloader::of(first));
        let Some(states) = self.states() else { return reloader };
        let (served, report) = (reloader.clone(), self.report.clone());
        self.tasks.push(self.supervisor.spawn("certificate", move || {
            let (served, report, mut states) = (served.clone(), report.clone(), states.clone());
            states.mark_changed();
            async move {
                while states.changed().await.is_ok() {
                    let state = states.borrow_and_update().clone();
                    report.send_if_modified(|report| {
                        let issuer = state.served.as_ref().map(|s| s.issuer.digest().to_owned());
                        let new = (state.bundle_digest(), issuer.unwrap_or_default());
                        let changed = (&report.ca, &report.issuer) != (&new.0, &new.1);
                        (report.ca, report.issuer) = new;
                        changed
                    });
                    if let Some(new) = state.served {
                        served.push(new.certificate);
                    }
                }
            }
        }));
        reloader
    }

    /// Returns the owner of the reports of an audit.
    pub(super) fn report_owner(&self) -> ReportOwner {
        ReportOwner::installation(&self.installation.namespace, &self.installation.service)
    }

    /// Returns the recorder of events.
    pub(super) fn events(&self) -> Arc<EventRecorder> {
        Arc::new(EventRecorder::new(self.api.clone(), self.installation.clone(), pod_uid()))
    }

    /// Starts to write Events for denials.
    pub(super) fn start_denial_events(&mut self) -> DenialObserver {
        let events = DenialEvents::new(self.api.clone(), &self.installation.replica);
        let events = Arc::new(events);
        let (shown, written) = (events.clone(), events.clone());
        self.metrics.push(ExternalMetrics::new(move |registry| shown.register(registry)));
        self.tasks.push(self.supervisor.spawn("events", move || {
            let written = written.clone();
            async move { written.run().await }
        }));
        DenialObserver::new(move |review, decision| events.record(review, decision))
    }

    /// Subscribes the server to the state of the webhook registration.
    pub(super) fn subscribe_registration(&mut self) -> Arc<RegistrationNames> {
        let shown = self.registration_metrics.clone();
        self.metrics.push(ExternalMetrics::new(move |registry| shown.register(registry)));
        self.registration_names.clone()
    }

    /// Looks after the registration; with `follows`, the leader applies it.
    pub(super) fn start_registration(
        &mut self,
        follows: bool,
        server: &Server,
        bundle: CaBundleSource,
    ) {
        let (installation, clock) = (self.installation.clone(), self.clock.clone());
        let follow = RegistrationTask {
            api: self.api.clone(),
            client: self.client.clone(),
            leader: self.leader.clone(),
            controller: RegistrationController::new(installation.clone(), clock.clone()),
            replicas: Replicas::new(&installation, clock),
            installation,
            active_set: server.active_set(),
            report: self.report.clone(),
            registration_names: self.registration_names.clone(),
            metrics: self.registration_metrics.clone(),
            ready: Box::new(server.readiness()),
            bundle,
            events: self.events(),
            is_managed: follows,
            state: super::webhook_registration::TaskState::default(),
        };
        let follow = Arc::new(Mutex::new(follow));
        self.tasks.push(self.supervisor.spawn("registration", move || {
            let follow = follow.clone();
            async move { follow.lock().await.run().await }
        }));
    }

    /// Returns whether this server is the leader.
    pub(super) fn leadership(&self) -> Leadership {
        self.leader.clone()
    }

    /// Returns the installation for the page for administrators, with the results of the audit if there is one.
    pub(super) fn view(&self, audit: Option<AuditMetrics>) -> InstallationView {
        InstallationView {
            replica: self.installation.replica.clone(),
            leadership: self.leader.clone(),
            replicas: self.known_replicas.clone(),
            audit,
        }
    }

    /// Starts the audit of the leader.
    pub(super) fn start_audit(&mut self, audit: AuditTask) {
        let audit = Arc::new(audit);
        self.tasks.push(self.supervisor.spawn("audit", move || {
            let audit = audit.clone();
            async move { audit.run().await }
        }));
    }

    /// Returns the metrics of these tasks.
    pub(super) fn metrics(&self) -> Vec<ExternalMetrics> {
        self.metrics.clone()
    }

    /// Ends them: first what writes, then the lead, so that another server has it at once.
    pub(super) async fn shut_down(self) {
        for task in self.tasks {
            task.stop().await;
        }
        let (api, election, publisher) = (self.api, self.election, self.publisher);
        let farewell = async {
            let release = async { election.lock().await.release(&*api).await };
            let (released, withdrawn) = tokio::join!(release, publisher.withdraw(&*api));
            for error in [released.err(), withdrawn.err()].into_iter().flatten() {
                tracing::debug!(%error, "lease not deleted; it will expire");
            }
        };
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, farewell).await;
    }
}

/// Returns the UID of this server's pod, if it is known.
fn pod_uid() -> Option<String> {
    std::env::var("POD_UID").ok().filter(|uid| !uid.is_empty())
}
