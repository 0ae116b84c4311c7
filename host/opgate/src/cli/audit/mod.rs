//! `opgate audit`: evaluates all stored objects that a policy matches, and keeps a report for each that
//! violates a rule.
//!
//! ```text
//! service account, kubeconfig ─▶ Connection ─▶ check::audit: objects, page by page ─┬▶ CheckRun ─▶ output
//!                                                                                   └▶ reports ─▶ cluster
//! ```
//!
//! The evaluation is that of `opgate check --cluster`.

mod reports;

use std::ffi::{OsStr, OsString};

use clap::Args;

use self::reports::{ClusterReports, ReportChoice};
use crate::cli::args::ConfigArgs;
use crate::cli::check::DEFAULT_CALL_TIMEOUT;
use crate::cli::check::audit::{AuditedCluster, LiveCluster, served_groups};
use crate::cli::check::evaluate::CheckRun;
use crate::cli::check::report::Report;
use crate::cli::exit::{CommandError, ExitStatus};
use crate::cli::fail_on::FailOn;
use crate::cli::report::level::MinEffect;
use crate::cli::report::{Format, describe_cluster};
use crate::cli::verbosity::is_verbose;
use opgate_admission::cluster::{Connection, Source};
use opgate_admission::policy::{Configuration, Platform};
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
    #[arg(long, short, value_name = "NAME")]
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
        configuration.apply_file_limits(DEFAULT_CALL_TIMEOUT, parallel::worker_count().max(4));
        let set = self.config.load_all_or_fail(&configuration, Source::Listed)?;
        let mut report =
            Report::start(self.output, is_verbose(), self.min_effect, &configuration, &set);
        let context = self.kube_context.as_deref();
        report.set_subject(describe_cluster(context, self.namespace.as_deref()));
        let mut check_run = CheckRun::of_cluster(report, self.fail_on);
        runtime.block_on(async {
            let groups = served_groups(&connection).await?;
            let namespace = self.namespace.as_deref();
            let mut reports = ClusterReports::none();
            if !self.no_reports
                && let Some(api) = self.reports.select(&groups)?
            {
                reports = ClusterReports::start(&connection, api, namespace, &mut check_run).await;
            }
            let audited = AuditedCluster { connection: &connection, groups, namespace };
            audited.evaluate(&set, &mut check_run, &mut reports).await?;
            reports.finish(&mut check_run).await;
            Ok::<_, CommandError>(())
        })?;
        check_run.finish()
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
