//! The audits that are configured: in the leader of the servers, and as a `CronJob`.

use opgate_controller::audit_reports::ReportApi;
use opgate_manifests::installation::audit::REPORT_VERBS;

use super::Facts;
use super::expected::RequiredPermission;
use super::object::{Kind, Object, list, text};
use super::workload::{Workload, command_words, flag_value, has_flag};

/// The containers of a `CronJob`.
const JOB_POD_POINTER: &str = "/spec/jobTemplate/spec/template/spec";

/// An audit that is configured.
#[derive(Debug)]
pub(crate) struct ConfiguredAudit<'f> {
    /// The Deployment or the CronJob.
    pub(crate) object: &'f Object,
    /// The field with its flags.
    pub(crate) field: String,
    /// Its ServiceAccount.
    pub(crate) account: &'f str,
    pub(crate) reports: WantedReports,
}

/// The reports that an audit writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WantedReports {
    None,
    /// Of the preferred API that the cluster serves.
    Auto,
    Of(ReportApi),
}

impl WantedReports {
    fn of_flag(value: Option<&str>) -> Self {
        match value {
            Some("none") => Self::None,
            Some("policyreport") => Self::Of(ReportApi::PolicyReport),
            Some("openreports") => Self::Of(ReportApi::OpenReports),
            _ => Self::Auto,
        }
    }
}

impl<'f> ConfiguredAudit<'f> {
    /// Returns all audits.
    pub(crate) fn all(facts: &'f Facts) -> Vec<Self> {
        let jobs = facts.own_objects(Kind::CronJob).filter_map(|job| Self::of_job(facts, job));
        Self::of_leader(facts).into_iter().chain(jobs).collect()
    }

    /// Returns the audit of the leader.
    pub(crate) fn of_leader(facts: &'f Facts) -> Option<Self> {
        let workload = Workload::of(facts)?;
        workload.flag("--audit-interval", Some("OPGATE_AUDIT_INTERVAL"))?;
        let reports = workload.flag("--audit-reports", Some("OPGATE_AUDIT_REPORTS"));
        Some(Self {
            object: workload.object,
            field: workload.field("args"),
            account: workload.service_account(),
            reports: WantedReports::of_flag(reports),
        })
    }

    /// Returns the audit of a `CronJob`, if it is one of this installation and runs.
    fn of_job(facts: &Facts, job: &'f Object) -> Option<Self> {
        let pod = job.at(JOB_POD_POINTER)?;
        let is_suspended = job.at("/spec/suspend").and_then(serde_json::Value::as_bool);
        if is_suspended.unwrap_or_default() {
            return None;
        }
        let owner = facts.installation.owner();
        let is_named = job.name == format!("{}-audit", facts.installation.service);
        let (index, words) =
            list(pod, "/containers").iter().enumerate().find_map(|(index, container)| {
                let words: Vec<_> = command_words(container).collect();
                let is_ours =
                    is_named || flag_value(&words, "--installation") == Some(owner.as_str());
                (is_ours && words.contains(&"audit")).then_some((index, words))
            })?;
        let reports = if has_flag(&words, "--no-reports") {
            WantedReports::None
        } else {
            WantedReports::of_flag(flag_value(&words, "--reports"))
        };
        let at = JOB_POD_POINTER.trim_start_matches('/').replace('/', ".");
        Some(Self {
            object: job,
            field: format!("{at}.containers[{index}].args"),
            account: match text(pod, "/serviceAccountName") {
                "" => "default",
                name => name,
            },
            reports,
        })
    }
}

/// Returns the permissions to write reports.
pub(crate) fn report_permissions(api: ReportApi) -> [RequiredPermission; 2] {
    [false, true].map(|is_namespaced| RequiredPermission {
        namespace: None,
        group: api.group().to_owned(),
        resource: api.resource(is_namespaced).to_owned(),
        verbs: REPORT_VERBS.map(str::to_owned).to_vec(),
        names: Vec::new(),
    })
}
