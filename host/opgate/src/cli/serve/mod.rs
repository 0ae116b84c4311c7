//! `opgate serve`: the webhook. This module puts the parts of a server together; the others have its arguments.

mod audit;
mod audit_args;
mod certificates;
mod clients;
mod cluster_args;
mod controllers;
mod discovery;
mod event_args;
mod installation;
mod recording_args;
mod reload;
mod telemetry_args;
mod ui_args;
mod webhook_registration;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use self::audit::{AuditConditions, AuditRun, AuditTask};
use self::audit_args::AuditArgs;
use self::certificates::CertificateArgs;
use self::clients::ClientArgs;
use self::cluster_args::ClusterArgs;
use self::controllers::Controllers;
use self::discovery::Discovery;
use self::event_args::EventArgs;
use self::installation::InstallationArgs;
use self::recording_args::RecordingArgs;
use self::reload::Reload;
use self::telemetry_args::TelemetryArgs;
use self::ui_args::UiArgs;
use self::webhook_registration::WebhookRegistrationArgs;
use super::input;
use crate::cli::args::{ConfigArgs, DEFAULT_MAX_QUEUED_CALLS};
use crate::cli::check::audit::ReviewPriority;
use crate::cli::exit::{CommandError, ExitStatus};
use opgate_admission::cluster::ReservationLimits;
use opgate_admission::policy::{LoadProgress, ReservationScope, RuleDocs};
use opgate_controller::audit_metrics::AuditMetrics;
use opgate_input::read::Reader;
use opgate_platform::{process, signals};
use opgate_recording::Recorder;
use opgate_server::{DefaultLimits, ExternalMetrics, Options, Server, StartupServer};
use opgate_supervise::Supervisor;
use opgate_telemetry::Telemetry;
use opgate_text::units::{parse_bytes, parse_duration};

/// Hints for tasks before and after the start.
const AFTER_HELP: &str = "\
Example:
  opgate serve --config opgate.yaml --tls-dir tls

In this order (docs/operate/start-a-server.md):
  1. Issue a certificate:  opgate certs issue --out tls --service NAMESPACE/NAME
  2. Start the server:     opgate serve --config opgate.yaml --tls-dir tls
  3. Wait until /readyz on the ops port returns 200; with ?verbose it lists what is missing
  4. Register it:          opgate manifests webhook --config opgate.yaml \\
                             --service NAMESPACE/NAME --ca tls/ca.crt | kubectl apply -f -";

/// Arguments of `opgate serve`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    certificates: CertificateArgs,
    /// Address of the webhook port, TLS
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9443", env = "OPGATE_LISTEN")]
    listen: SocketAddr,
    /// Address of the ops port, plain HTTP: /livez, /readyz, /metrics, /policies
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8081", env = "OPGATE_OPS_LISTEN")]
    ops_listen: SocketAddr,
    #[command(flatten)]
    page: UiArgs,
    /// Maximum size of a request body
    #[arg(long, value_name = "SIZE", default_value = "7Mi", value_parser = parse_bytes)]
    max_body: usize,
    /// Maximum memory of all requests together, from their bodies to their answers; requests beyond
    /// it get 503 [default: 256Mi, or a quarter of the memory limit if that is less]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    max_request_memory: Option<usize>,
    /// Maximum number of calls that wait for each policy; calls beyond it get 503
    #[arg(long, value_name = "NUMBER", default_value_t = DEFAULT_MAX_QUEUED_CALLS)]
    max_queued_calls: usize,
    /// Time to continue to accept connections after SIGTERM, until endpoints are updated
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_duration)]
    drain_delay: Duration,
    /// Time to wait after that for requests in progress
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    grace_period: Duration,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    installation: InstallationArgs,
    #[command(flatten)]
    follow: WebhookRegistrationArgs,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    events: EventArgs,
    /// Interval at which to check for changes of the configuration and of policy files; SIGHUP checks
    /// immediately
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    reload_interval: Duration,
    /// Interval at which to check for a new certificate and a new CA bundle for clients
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    tls_reload_interval: Duration,
    #[command(flatten)]
    clients: ClientArgs,
    #[command(flatten)]
    recording: RecordingArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
    /// Maximum number of connections to the webhook port; beyond it the server closes silent and idle
    /// ones [default: 4096, or one for each 256Ki of the memory limit if that is less]
    #[arg(long, value_name = "NUMBER")]
    max_connections: Option<NonZeroUsize>,
    /// Directory with `proc` and `sys`, for the memory limit
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    system_root: PathBuf,
}

/// A server compiles policies in processes that it must be able to limit.
const NOT_SUPPORTED: &str = "`opgate serve` does not run on this system, on which it cannot limit the memory and the CPU time of its processes: use the container image (docs/image.md), or Linux; `opgate ui`, `check`, `replay` and `demo` run here";

impl Serve {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let Self {
            config,
            certificates,
            listen,
            ops_listen,
            page,
            max_body,
            max_request_memory,
            max_queued_calls,
            drain_delay,
            grace_period,
            cluster: cluster_args,
            installation,
            follow,
            audit,
            events,
            reload_interval,
            tls_reload_interval,
            clients,
            recording,
            telemetry,
            max_connections,
            system_root,
        } = self;
        if !process::CAN_LIMIT {
            return Err(CommandError::usage(anyhow::anyhow!(NOT_SUPPORTED)));
        }
        opgate_system::map_large_allocations_separately();
        opgate_server::disable_core_dumps();
        let room = DefaultLimits::of(&system_root);
        let installation = installation.installation();
        let certificates = certificates.certificates(installation.is_some())?;
        let cluster_source = cluster_args.source()?;
        let clients = clients.clients()?;
        let bounds = if clients.is_some() {
            ReservationLimits::AUTHENTICATED
        } else {
            ReservationLimits::UNAUTHENTICATED
        };
        let mut configuration = config.read()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let loading = Arc::new(LoadProgress::default());
        let starting = runtime.block_on(StartupServer::bind(ops_listen, loading.clone()));
        let starting = starting.map_err(CommandError::usage)?;
        let supervisor = Supervisor::default();
        // While policies load, a certificate is made.
        let begun = Controllers::start(installation, &cluster_args, &supervisor);
        let mut running_controllers = runtime.block_on(begun)?;
        if let (Some(running_controllers), Some(times)) =
            (&mut running_controllers, certificates.lifetimes())
        {
            let _runtime = runtime.enter();
            running_controllers.start_certificates(times);
        }
        // Registries can be slow; meanwhile the ops port answers.
        config.resolve(&mut configuration)?;
        let discovery = Arc::new(Discovery::new(reload_interval));
        let stop = runtime.block_on(async { signals::termination() })?;
        let mut stop = std::pin::pin!(stop);
        if let (Some(source), Some(_)) = (cluster_source, configuration.platform_query()) {
            let found = runtime.block_on(async {
                let Some(connection) = cluster_args.connection(source).await? else {
                    return Ok(true);
                };
                tokio::select! {
                    () = discovery.wait_complete(&connection, &mut configuration, &starting) => Ok(true),
                    () = stop.as_mut() => Ok::<_, CommandError>(false),
                }
            })?;
            if !found {
                if let Some(running_controllers) = running_controllers {
                    runtime.block_on(running_controllers.shut_down());
                }
                return Ok(ExitStatus::Ok);
            }
        }
        let options = cluster_args.options(cluster_source, bounds, &room);
        let cluster_memory = Some(options.memory).filter(|memory| *memory < usize::MAX);
        let mut set =
            config.load_set_of(&configuration, max_queued_calls, options, room, &loading)?;
        if cluster_source.is_none() {
            input::load_cluster_state(
                set.cluster(),
                &cluster_args.cluster_state,
                &Reader::default(),
            )?;
        }
        if page.ui {
            set.keep_rule_docs(RuleDocs::of(&configuration));
        }
        for broken in set.broken() {
            tracing::error!(
                policy = broken.name,
                error = broken.error.to_string(),
                "policy failed to load"
            );
        }
        let recorder = recording.start(&set)?;
        let telemetry = telemetry.start()?;
        // They add metrics.
        let denials = {
            let _runtime = runtime.enter();
            events.start(running_controllers.as_mut())?
        };
        let registration_names =
            running_controllers.as_mut().map(Controllers::subscribe_registration);
        let external_metrics = running_controllers.as_ref().map(Controllers::metrics);
        let mut external_metrics = external_metrics.unwrap_or_default();
        external_metrics.extend(recorder.as_deref().map(recording_args::metrics));
        external_metrics.extend(telemetry.as_deref().map(telemetry_args::metrics));
        let audit_metrics = AuditMetrics::default();
        let audit = audit.settings().inspect(|_| {
            let shown = audit_metrics.clone();
            external_metrics.push(ExternalMetrics::new(move |registry| shown.register(registry)));
        });
        let view = running_controllers.as_ref();
        let view = view.map(|controllers| controllers.view(audit.map(|_| audit_metrics.clone())));
        let options = Options {
            listen,
            ops_listen,
            max_body_bytes: max_body,
            max_request_memory: max_request_memory.unwrap_or(room.request_bytes),
            drain_delay,
            grace_period,
            reload_interval: tls_reload_interval.max(Duration::from_millis(10)),
            client_verifier: clients,
            max_connections: max_connections.map_or(room.connections, NonZeroUsize::get),
            sync_timeout: cluster_args.sync_timeout,
            supervisor,
            registration_names,
            external_metrics,
            recorder: recorder.clone(),
            telemetry: telemetry.clone(),
            denials,
            ui: page.ui,
            ui_options: page.options(view),
            ..Options::default()
        };
        tracing::info!(
            limit = room.limit,
            requests = options.max_request_memory.max(options.max_body_bytes),
            connections = options.max_connections,
            cluster = cluster_memory,
            "memory"
        );
        runtime.block_on(async {
            // A server without reads needs no credentials.
            let reads = !set.cluster().caches().is_empty();
            let connection = match cluster_source {
                Some(source) if reads => cluster_args.connection(source).await?,
                _ => None,
            };
            if let Some(connection) = connection.clone() {
                match (&mut running_controllers, configuration.reservations) {
                    (Some(controllers), None | Some(ReservationScope::Shared)) => {
                        controllers.share_reservations(set.cluster(), &connection);
                    }
                    (None, Some(ReservationScope::Shared)) => {
                        let error = "reservations: shared needs an installation: name it with --installation";
                        return Err(CommandError::usage(anyhow::anyhow!(error)));
                    }
                    (_, Some(ReservationScope::Local)) | (None, None) => {}
                }
                let watches = connection.watch(set.cluster(), &options.supervisor);
                set.keep_watches(watches);
                if options.client_verifier.is_none() {
                    tracing::warn!(
                        "anyone who reaches the webhook port can reserve objects that do not exist and find out which namespaces and accounts exist: use --client-ca or a NetworkPolicy"
                    );
                }
                set.read_directly(connection, cluster_args.consistent_reads);
            } else if cluster_source.is_some() && reads {
                if cluster_args.cluster_source.is_some() {
                    // An administrator who sets `none` knows the effect; a reader of the log may not.
                    tracing::info!("--cluster-source none: rules that need other objects are not evaluated");
                } else {
                    tracing::warn!(
                        "no cluster to read: rules that need other objects are not evaluated; name a kubeconfig, or files with --cluster-state"
                    );
                }
            }
            let supervisor = options.supervisor.clone();
            let hangup = notify_on_hangup()?;
            let directory = certificates.directory();
            let first = certificates.wait_first(running_controllers.as_mut(), &starting, stop.as_mut());
            if let Some(certificate) = first.await? {
                let server = Server::bind_after_startup(options, set, certificate.clone(), starting);
                let server = server.map_err(CommandError::usage)?;
                if let Some(telemetry) = &telemetry {
                    telemetry.export_metrics(server.metrics_text());
                }
                if let Some(running_controllers) = &mut running_controllers {
                    let bundle = certificates::bundle(directory, running_controllers.states(), certificate);
                    running_controllers.start_registration(follow.is_managed(), &server, bundle);
                    if let (Some(settings), Some(source)) = (audit, cluster_source) {
                        let run = AuditRun {
                            config: config.clone(),
                            cluster: cluster_args.clone(),
                            source,
                            reports: settings.reports,
                            owner: running_controllers.report_owner(),
                            active_set: server.active_set(),
                            conditions: AuditConditions {
                                leadership: running_controllers.leadership(),
                                default_limits: room,
                                system_root: system_root.clone(),
                                free_for_requests: Box::new(server.free_request_memory()),
                            },
                            priority: ReviewPriority::new(server.reviews_in_progress()),
                            memory: tokio::sync::Mutex::default(),
                        };
                        let audit = AuditTask::new(settings.interval, run, audit_metrics);
                        running_controllers.start_audit(audit);
                    }
                } else if audit.is_some() {
                    let error = "--audit-interval needs a cluster: it cannot be `none`";
                    return Err(CommandError::usage(anyhow::anyhow!(error)));
                } else if follow.is_managed() {
                    let error = "--manage-webhooks needs a cluster: it cannot be `none`";
                    return Err(CommandError::usage(anyhow::anyhow!(error)));
                }
                let reload = Arc::new(Reload {
                    interval: reload_interval.max(Duration::from_millis(10)),
                    config,
                    cluster: cluster_args,
                    source: cluster_source,
                    connection,
                    discovery,
                    default_limits: room,
                    system_root,
                    supervisor: supervisor.clone(),
                    active_set: server.active_set(),
                    free_for_requests: Box::new(server.free_request_memory()),
                    events: running_controllers.as_ref().map(Controllers::events),
                    keeps_rule_docs: page.ui,
                });
                let reload = reload.can_change().then(|| {
                    let hangup = hangup.clone();
                    supervisor.spawn("configuration", move || reload.clone().watch(hangup.clone()))
                });
                server.run(stop, hangup).await.map_err(CommandError::usage)?;
                drop(reload);
            }
            if let Some(running_controllers) = running_controllers {
                running_controllers.shut_down().await;
            }
            finish_outputs(recorder, telemetry).await;
            Ok(ExitStatus::Ok)
        })
    }
}

/// Writes what recording and telemetry still have. Each has a time limit, and they share it.
async fn finish_outputs(recorder: Option<Arc<Recorder>>, telemetry: Option<Arc<Telemetry>>) {
    let recorder = recorder.map(|recorder| spawn_blocking(move || recorder.finish()));
    let telemetry = telemetry.map(|telemetry| spawn_blocking(move || telemetry.finish()));
    for task in [recorder, telemetry].into_iter().flatten() {
        if let Err(error) = task.await {
            tracing::error!(%error, "output not ended");
        }
    }
}

/// Sends a notification on SIGHUP, which checks the files immediately.
fn notify_on_hangup() -> anyhow::Result<watch::Receiver<()>> {
    let mut hangup = signals::Hangup::new().context("SIGHUP")?;
    let (notifications, reload) = watch::channel(());
    tokio::spawn(async move {
        loop {
            hangup.recv().await;
            if notifications.send(()).is_err() {
                return;
            }
        }
    });
    Ok(reload)
}
