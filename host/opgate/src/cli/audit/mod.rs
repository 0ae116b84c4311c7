//! `opgate audit`: evaluates all stored objects that a policy matches, and keeps a report for each that
//! violates a rule.
//!
//! ```text
//! service account, kubeconfig ─▶ Connection ─▶ check::audit: objects, page by page ─┬▶ CheckRun ─▶ output
//!                                                                                   └▶ reports ─▶ cluster
//! ```
//!
//! The evaluation is that of `opgate check --cluster`. `opgate serve --audit-interval` has the same reports.

mod reported_run;
pub(super) mod reports;

use std::ffi::{OsStr, OsString};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use self::reported_run::ReportedRun;
use self::reports::{ClusterReports, MissingReportApi, ReportChoice};
use crate::cli::args::{ConfigArgs, parse_installation};
use crate::cli::check::DEFAULT_CALL_TIMEOUT;
use crate::cli::check::audit::{AuditedCluster, EvaluationThreads, LiveCluster, served_groups};
use crate::cli::check::evaluate::CheckRun;
use crate::cli::check::report::Report;
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::fail_on::FailOn;
use crate::cli::report::html::EvaluationCommand;
use crate::cli::report::level::MinEffect;
use crate::cli::report::{Format, describe_cluster};
use crate::cli::verbosity::is_verbose;
use opgate_admission::cluster::{ApiGroup, Connection, Source};
use opgate_admission::policy::{Configuration, Platform};
use opgate_controller::audit_reports::ReportOwner;
use opgate_files::parallel;

/// Examples and exit statuses after the help text.
const AFTER_HELP: &str = "\
Examples:
  opgate audit --config opgate.yaml                    Evaluate the cluster, and update its reports
  opgate audit --no-reports --fail-on deny             Fail if a stored object would be denied today
  opgate audit --namespace team-a -o json              Evaluate one namespace
  kubectl get policyreports -A                         Read the reports

Exit status: 0 done, also if objects violate rules, 1 a violation has the effect of --fail-on, 2 wrong
usage, an object that could not be read or a report that could not be written, 3 a policy or the
engine failed. docs/audit.md has the details, and the permissions of a CronJob.";

/// Arguments of `opgate audit`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Audit {
    #[command(flatten)]
    config: ConfigArgs,
    /// Kubeconfig of the cluster [default: KUBECONFIG, in a Pod its service account, or the file that
    /// kubectl uses]
    #[arg(long, value_name = "FILE[:FILE]")]
    kubeconfig: Option<OsString>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    kube_context: Option<String>,
    /// The only namespace whose objects are evaluated and whose reports are written
    #[arg(long, short, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// Lowest effect of the violations to show; changes neither the reports nor the exit status
    #[arg(long, value_name = "EFFECT", default_value = "audit")]
    min_effect: MinEffect,
    /// Lowest effect of a violation for exit status 1
    #[arg(long, value_name = "EFFECT", default_value = "never")]
    fail_on: FailOn,
    /// API of the reports
    #[arg(long, value_name = "API", default_value = "auto")]
    reports: ReportChoice,
    /// Write no reports
    #[arg(long, conflicts_with = "reports")]
    no_reports: bool,
    /// Installation that the reports belong to, with its configuration [default: none: they are separate from those
    /// of installations]
    #[arg(long, value_name = "NAMESPACE/SERVICE", value_parser = parse_installation, conflicts_with = "no_reports")]
    installation: Option<(String, String)>,
}

impl Audit {
    pub(super) fn run(self) -> Result<ExitStatus, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut configuration = self.config.configuration()?;
        let connection = runtime.block_on(async {
            let connection = self.connect().await?;
            set_platform(&connection, &mut configuration).await?;
            Ok::<_, CommandError>(connection)
        })?;
        configuration.apply_audit_limits(DEFAULT_CALL_TIMEOUT, parallel::worker_count());
        let set = self.config.load_all_or_fail(&configuration, Source::Listed)?;
        let mut report =
            Report::start(self.output, is_verbose(), self.min_effect, &configuration, &set);
        let context = self.kube_context.as_deref();
        report.set_subject(describe_cluster(context, self.namespace.as_deref()));
        report.set_command(EvaluationCommand::Audit);
        let mut check_run = CheckRun::of_cluster(report, self.fail_on);
        runtime.block_on(async {
            let groups = served_groups(&connection).await?;
            let namespace = self.namespace.as_deref();
            let reports = self.start_reports(&connection, &groups, &mut check_run).await?;
            let threads = EvaluationThreads::All;
            let audited = AuditedCluster {
                connection: &connection,
                groups,
                namespace,
                threads,
                memory: None,
            };
            let mut results = ReportedRun::new(&mut check_run, reports);
            audited.evaluate(&set, &mut results).await?;
            results.finish_reports().await;
            Ok::<_, CommandError>(())
        })?;
        check_run.finish()
    }

    /// Lists the reports, if any are written.
    async fn start_reports(
        &self,
        connection: &Connection,
        groups: &[ApiGroup],
        check_run: &mut CheckRun<'_>,
    ) -> Result<ClusterReports, CommandError> {
        if self.no_reports {
            return Ok(ClusterReports::none());
        }
        let api = match self.reports.select(groups) {
            Ok(api) => api,
            Err(missing @ MissingReportApi::Named(_)) => {
                return Err(CommandError::usage(anyhow::anyhow!("{missing}, or use --no-reports")));
            }
            Err(missing @ MissingReportApi::All) => {
                tracing::warn!("{missing}, or use --no-reports");
                return Ok(ClusterReports::none());
            }
        };
        let owner = self
            .installation
            .as_ref()
            .map(|(namespace, service)| ReportOwner::installation(namespace, service));
        // Reports of users have no owner who could decide on an API.
        let replaced = self.reports.replaced(api, groups).filter(|_| owner.is_some());
        let (owner, namespace) = (owner.unwrap_or_default(), self.namespace.as_deref());
        let mut reports = match ClusterReports::start(connection, api, namespace, owner).await {
            Ok(reports) => reports,
            Err(line) => {
                reported_run::add_error(check_run, api.group(), &line);
                return Ok(ClusterReports::none());
            }
        };
        if let Some(replaced) = replaced
            && let Err(line) = reports.set_replaced(connection, replaced, namespace).await
        {
            reported_run::add_error(check_run, replaced.group(), &line);
        }
        Ok(reports)
    }

    /// Connects with the kubeconfig that is named, or in a Pod with its service account.
    async fn connect(&self) -> Result<Connection, CommandError> {
        let is_named = self.kubeconfig.is_some() || self.kube_context.is_some();
        let is_set = |variable: &str| std::env::var_os(variable).is_some_and(|v| !v.is_empty());
        if !is_named && !is_set("KUBECONFIG") && is_set("KUBERNETES_SERVICE_HOST") {
            return Connection::in_cluster().map_err(CommandError::usage);
        }
        let kubeconfig = self.kubeconfig.as_deref().unwrap_or(OsStr::new(""));
        let context = self.kube_context.as_deref();
        LiveCluster { kubeconfig, context, namespace: None }.connect().await
    }
}

/// Detects the platform for `profile: auto`, as a server does.
async fn set_platform(
    connection: &Connection,
    configuration: &mut Configuration,
) -> Result<(), CommandError> {
    let Some(wanted) = configuration.platform_query() else { return Ok(()) };
    let platform = Platform::read(connection, wanted).await.map_err(|failure| {
        let why = failure.reason;
        CommandError::usage(anyhow::anyhow!(
            "profile auto: {why}; `profile` and `identities` in the configuration make it unnecessary"
        ))
    })?;
    configuration.set_platform(platform);
    Ok(())
}
