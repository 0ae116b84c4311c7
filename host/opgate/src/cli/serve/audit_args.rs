//! Arguments about the audit of the cluster by the leader.

use std::time::Duration;

use clap::Args;

use super::audit::AuditSettings;
use crate::cli::audit::reports::ReportChoice;
use opgate_text::units::parse_duration;

/// Flags of the audit.
#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// Audit the stored objects of the cluster while this server is the leader, with this pause between two
    /// audits; needs `--installation` [default: no audit]
    #[arg(long, value_name = "DURATION", value_parser = parse_interval, requires = "installation")]
    audit_interval: Option<Duration>,
    /// API of the audit's reports
    #[arg(long, value_name = "API", default_value = "auto", requires = "audit_interval")]
    audit_reports: AuditReports,
}

/// The API in which the audit writes reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AuditReports {
    /// The API that the cluster serves; of both, openreports.io
    Auto,
    /// `PolicyReport` and `ClusterPolicyReport` of wgpolicyk8s.io
    #[value(name = "policyreport")]
    PolicyReport,
    /// `Report` and `ClusterReport` of openreports.io
    #[value(name = "openreports")]
    OpenReports,
    /// No reports, only metrics
    None,
}

impl AuditArgs {
    /// Returns the settings, if the leader audits.
    pub(super) fn settings(&self) -> Option<AuditSettings> {
        let reports = match self.audit_reports {
            AuditReports::Auto => Some(ReportChoice::Auto),
            AuditReports::PolicyReport => Some(ReportChoice::PolicyReport),
            AuditReports::OpenReports => Some(ReportChoice::OpenReports),
            AuditReports::None => None,
        };
        Some(AuditSettings { interval: self.audit_interval?, reports })
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    if interval.is_zero() { Err("must be more than 0".to_owned()) } else { Ok(interval) }
}
