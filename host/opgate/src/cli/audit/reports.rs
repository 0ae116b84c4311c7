//! Results of the audit as reports in the cluster.
//!
//! ```text
//! CheckRecord ─▶ results ─▶ ReportSync (controller) ─▶ API server
//!                               └▶ failures ─▶ CheckRun: exit status 2
//! ```

use crate::cli::check::audit::{ObjectIdentity, ResultSink};
use crate::cli::check::evaluate::CheckRun;
use crate::cli::check::report::CheckRecord;
use crate::cli::exit::CommandError;
use crate::cli::report::{UnreadableInput, Violation};
use crate::cli::verbosity::note;
use opgate_admission::cluster::{ApiGroup, Connection};
use opgate_admission::policy::Effect;
use opgate_controller::audit_reports::{
    ReportApi, ReportResult, ReportSync, ReportedObject, ResultStatus, SyncSummary,
};
use opgate_text::one_line;

/// Maximum bytes of a line.
const MAX_LINE_BYTES: usize = 1_024;

/// The API in which reports are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ReportChoice {
    /// The API that the cluster serves; of both, openreports.io
    Auto,
    /// `PolicyReport` and `ClusterPolicyReport` of wgpolicyk8s.io
    #[value(name = "policyreport")]
    PolicyReport,
    /// `Report` and `ClusterReport` of openreports.io
    #[value(name = "openreports")]
    OpenReports,
}

impl ReportChoice {
    /// Returns the API. Warns if the cluster serves none.
    ///
    /// # Errors
    /// If the cluster does not serve the API that is named.
    pub(super) fn select(self, groups: &[ApiGroup]) -> Result<Option<ReportApi>, CommandError> {
        let named = match self {
            Self::Auto => None,
            Self::PolicyReport => Some(ReportApi::PolicyReport),
            Self::OpenReports => Some(ReportApi::OpenReports),
        };
        if let Some(api) = named {
            if api.is_among(groups) {
                return Ok(Some(api));
            }
            let (group, version, project) = (api.group(), api.version(), api.project());
            return Err(CommandError::usage(anyhow::anyhow!(
                "the cluster does not serve {group}/{version}: install the CustomResourceDefinitions of {project}, or use --no-reports"
            )));
        }
        let found = ReportApi::ALL.into_iter().find(|api| api.is_among(groups));
        if found.is_none() {
            let project = ReportApi::OpenReports.project();
            tracing::warn!(
                "no reports are written: the cluster serves neither openreports.io/v1alpha1 nor wgpolicyk8s.io/v1alpha2; install the CustomResourceDefinitions of {project}, or use --no-reports"
            );
        }
        Ok(found)
    }
}

/// The reports of a cluster, or none.
pub(super) struct ClusterReports(Option<ReportSync>);

impl ClusterReports {
    /// Writes nothing.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Lists the reports. If that fails, none is written.
    pub(super) async fn start(
        connection: &Connection,
        api: ReportApi,
        namespace: Option<&str>,
        check_run: &mut CheckRun<'_>,
    ) -> Self {
        match ReportSync::start(connection, api, namespace).await {
            Ok(sync) => Self(Some(sync)),
            Err(failure) => {
                let line = format!("no reports are written: {}", failure.reason);
                add_error(check_run, api.group(), &line);
                Self(None)
            }
        }
    }

    /// Writes the rest, and adds failed writes to the results.
    pub(super) async fn finish(self, check_run: &mut CheckRun<'_>) {
        let Some(sync) = self.0 else { return };
        let SyncSummary { written, deleted, unchanged, unreportable, failures, failed } =
            sync.finish().await;
        for line in &failures {
            add_error(check_run, "reports", line);
        }
        let more = failed.saturating_sub(failures.len());
        if more > 0 {
            add_error(check_run, "reports", &format!("reports: {more} more not written"));
        }
        if unreportable > 0 {
            tracing::warn!(objects = unreportable, "no report: no valid UID or name");
        }
        note(format!(
            "reports: {written} written, {deleted} deleted, {unchanged} unchanged, {failed} failed"
        ));
    }
}

fn add_error(check_run: &mut CheckRun<'_>, source: &str, line: &str) {
    let (source, line) = (source.to_owned(), one_line(line, MAX_LINE_BYTES));
    check_run.unreadable.push(UnreadableInput { source, line });
}

impl ResultSink for ClusterReports {
    fn add(&mut self, object: &ObjectIdentity, record: &CheckRecord) {
        if let Some(sync) = self.0.as_mut().filter(|_| !is_report(object)) {
            sync.add(reported(object), results(record));
        }
    }

    fn keep(&mut self, object: &ObjectIdentity) {
        if let Some(sync) = &mut self.0 {
            sync.keep(&reported(object));
        }
    }

    fn set_unknown(&mut self, group: &str, kind: Option<&str>) {
        if let Some(sync) = &mut self.0 {
            sync.set_unknown(group, kind);
        }
    }

    async fn write(&mut self) {
        if let Some(sync) = &mut self.0 {
            sync.write().await;
        }
    }
}

/// Reports whether an object is a report: a report about it would be one more, in each audit.
fn is_report(object: &ObjectIdentity) -> bool {
    let group = object.api_version.split('/').next().unwrap_or_default();
    ReportApi::ALL.iter().any(|api| api.group() == group)
}

fn reported(object: &ObjectIdentity) -> ReportedObject {
    let ObjectIdentity { api_version, kind, namespace, name, uid } = object;
    ReportedObject {
        api_version: api_version.clone(),
        kind: kind.clone(),
        namespace: namespace.clone(),
        name: name.clone(),
        uid: uid.clone(),
    }
}

fn results(record: &CheckRecord) -> Vec<ReportResult> {
    let of_violation = |violation: &Violation| ReportResult {
        status: if violation.has_effect(Effect::Deny) {
            ResultStatus::Fail
        } else {
            ResultStatus::Warn
        },
        policy: violation.policy.clone(),
        rule: violation.rule.clone(),
        field: violation.field.clone(),
        effect: violation.effect.to_owned(),
        message: violation.message.clone(),
    };
    let error = record.policy_error().map(|error| ReportResult {
        status: ResultStatus::Error,
        policy: error.policy.clone(),
        rule: String::new(),
        field: String::new(),
        effect: String::new(),
        message: error.cause.clone(),
    });
    record.violations().map(of_violation).chain(error).collect()
}
