//! One audit by the leader: loads a policy set, lists the cluster and evaluates its objects.
//!
//! The set has the configuration that serves, shares only code with the active set, and exists during the run. Its
//! calls have the memory limit of reviews. Memory that the process needs otherwise is left free.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Mutex, oneshot};

use super::conditions::{AuditConditions, AuditMemory};
use super::results::{LeaderResults, RunOutcome};
use crate::cli::args::ConfigArgs;
use crate::cli::audit::reports::{ClusterReports, ReportChoice};
use crate::cli::check::DEFAULT_CALL_TIMEOUT;
use crate::cli::check::audit::{
    AuditedCluster, EvaluationMemory, EvaluationThreads, ReviewPriority, served_groups,
};
use crate::cli::serve::cluster_args::{ClusterArgs, ClusterSource};
use opgate_admission::cluster::{ApiGroup, Connection};
use opgate_admission::policy::PolicySet;
use opgate_controller::audit_reports::ReportOwner;
use opgate_server::ActivePolicySet;

/// What each run needs.
pub(in crate::cli::serve) struct AuditRun {
    pub(in crate::cli::serve) config: ConfigArgs,
    pub(in crate::cli::serve) cluster: ClusterArgs,
    pub(in crate::cli::serve) source: ClusterSource,
    /// API of the reports, if any are written.
    pub(in crate::cli::serve) reports: Option<ReportChoice>,
    /// The installation of this server.
    pub(in crate::cli::serve) owner: ReportOwner,
    pub(in crate::cli::serve) active_set: Arc<ActivePolicySet>,
    pub(in crate::cli::serve) conditions: AuditConditions,
    pub(in crate::cli::serve) priority: ReviewPriority,
    /// Results of the last complete audit.
    pub(in crate::cli::serve) memory: Mutex<EvaluationMemory>,
}

impl AuditRun {
    /// Audits the cluster in the calling thread, until `cancelled` ends.
    pub(super) fn execute(&self, cancelled: oneshot::Receiver<Infallible>) -> RunOutcome {
        let started = Instant::now();
        let set = match self.load_set() {
            Ok(set) => set,
            Err(error) => return RunOutcome::Failed(format!("{error:#}")),
        };
        // A separate runtime: the threads of reviews do not send the requests of an audit.
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return RunOutcome::Failed(error.to_string()),
        };
        let outcome = runtime.block_on(async {
            tokio::select! {
                biased;
                _ = cancelled => RunOutcome::Stopped,
                outcome = self.evaluate(&set, started) => {
                    outcome.unwrap_or_else(|error| RunOutcome::Failed(format!("{error:#}")))
                }
            }
        });
        match &outcome {
            RunOutcome::Complete(_) => {}
            // The last results are still valid.
            RunOutcome::Failed(_) => self.memory.blocking_lock().abandon(),
            // Another server is the leader, and audits.
            RunOutcome::Stopped => *self.memory.blocking_lock() = EvaluationMemory::default(),
        }
        outcome
    }

    /// Forgets the results: this server no longer leads. A run that still has them forgets them at its end.
    pub(super) fn forget(&self) {
        if let Ok(mut memory) = self.memory.try_lock() {
            *memory = EvaluationMemory::default();
        }
    }

    /// Returns the memory for an audit. If there is not enough, the results of the last one are forgotten for it.
    fn free_memory(&self) -> anyhow::Result<AuditMemory> {
        self.conditions.memory().or_else(|_| {
            *self.memory.blocking_lock() = EvaluationMemory::default();
            opgate_system::release_free_memory();
            self.conditions.memory()
        })
    }

    /// Loads the policies of the active configuration.
    fn load_set(&self) -> anyhow::Result<PolicySet> {
        let AuditMemory { cluster_state, subprocesses } = self.free_memory()?;
        let active = self.active_set.current();
        let mut configuration = self.config.configuration()?;
        if let (Some(_), Some(platform)) = (configuration.platform_query(), active.set.platform()) {
            configuration.set_platform(platform.clone());
        }
        let is_other = |digest: &str| {
            anyhow::ensure!(
                digest == active.configuration,
                "the files hold another configuration than the active one"
            );
            Ok(())
        };
        is_other(&configuration.digest())?;
        configuration.apply_audit_limits(DEFAULT_CALL_TIMEOUT, 1);
        let set =
            self.config.audit_set(&active.set, &configuration, subprocesses, cluster_state)?;
        is_other(set.digest())?;
        if let Some(broken) = set.broken().first() {
            anyhow::bail!("policy {}: {}", broken.name, broken.error);
        }
        Ok(set)
    }

    async fn evaluate(&self, set: &PolicySet, started: Instant) -> anyhow::Result<RunOutcome> {
        let connection = self.cluster.connection(self.source).await.map_err(|e| e.error)?;
        let Some(connection) = connection else { anyhow::bail!("there is no cluster to list") };
        let groups = served_groups(&connection).await.map_err(|e| e.error)?;
        let mut results = LeaderResults::new(&self.conditions, started);
        match self.start_reports(&connection, &groups).await {
            Ok((reports, problem)) => {
                results.set_reports(reports);
                if let Some(problem) = problem {
                    results.set_report_problem(&problem);
                }
            }
            Err(problem) => results.set_report_problem(&problem),
        }
        let mut memory = self.memory.lock().await;
        let audited = AuditedCluster {
            connection: &connection,
            groups,
            namespace: None,
            threads: EvaluationThreads::OneAfterReviews(&self.priority),
            memory: Some(&mut memory),
        };
        audited.evaluate(set, &mut results).await.map_err(|e| e.error)?;
        let outcome = results.finish().await;
        if matches!(outcome, RunOutcome::Complete(_)) {
            memory.complete();
        }
        Ok(outcome)
    }

    /// Lists the reports, if any are written. Also returns why those in another API stay, if so.
    async fn start_reports(
        &self,
        connection: &Connection,
        groups: &[ApiGroup],
    ) -> Result<(ClusterReports, Option<String>), String> {
        let Some(choice) = self.reports else { return Ok((ClusterReports::none(), None)) };
        let api = choice.select(groups);
        let api = api.map_err(|missing| format!("{missing}, or use --audit-reports none"))?;
        let mut reports = ClusterReports::start(connection, api, None, self.owner.clone()).await?;
        let replaced = match choice.replaced(api, groups) {
            Some(replaced) => reports.set_replaced(connection, replaced, None).await,
            None => Ok(()),
        };
        let reports = reports.while_leading(self.conditions.leadership.clone());
        Ok((reports, replaced.err()))
    }
}
