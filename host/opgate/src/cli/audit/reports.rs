//! Results of the audit as reports in the cluster.
//!
//! ```text
//! CheckRecord ─▶ results ─▶ ReportSync (controller) ─▶ API server
//! ```

use crate::cli::check::audit::ObjectIdentity;
use crate::cli::check::report::CheckRecord;
use crate::cli::report::{PolicyErrorRecord, Violation};
use opgate_admission::cluster::{ApiGroup, Connection};
use opgate_admission::policy::Effect;
use opgate_controller::audit_reports::{
    ReportApi, ReportOwner, ReportResult, ReportSync, ReportedObject, ResultStatus, SyncSummary,
};
use opgate_controller::lease::Leadership;

/// The API in which reports are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum ReportChoice {
    /// The API that the cluster serves; of both, openreports.io
    Auto,
    /// `PolicyReport` and `ClusterPolicyReport` of wgpolicyk8s.io
    #[value(name = "policyreport")]
    PolicyReport,
    /// `Report` and `ClusterReport` of openreports.io
    #[value(name = "openreports")]
    OpenReports,
}

/// The cluster does not serve the chosen API. The texts do not name the flag that avoids it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::cli) enum MissingReportApi {
    /// That which is named.
    #[error(
        "the cluster does not serve {}/{}: install the CustomResourceDefinitions of {}",
        .0.group(),
        .0.version(),
        .0.project()
    )]
    Named(ReportApi),
    /// Any.
    #[error(
        "no reports are written: the cluster serves neither openreports.io/v1alpha1 nor wgpolicyk8s.io/v1alpha2; install the CustomResourceDefinitions of {}",
        ReportApi::OpenReports.project()
    )]
    All,
}

impl ReportChoice {
    /// Returns the API.
    ///
    /// # Errors
    /// If the cluster does not serve it.
    pub(in crate::cli) fn select(self, groups: &[ApiGroup]) -> Result<ReportApi, MissingReportApi> {
        let named = match self {
            Self::Auto => None,
            Self::PolicyReport => Some(ReportApi::PolicyReport),
            Self::OpenReports => Some(ReportApi::OpenReports),
        };
        match named {
            Some(api) if api.is_among(groups) => Ok(api),
            Some(api) => Err(MissingReportApi::Named(api)),
            None => {
                let found = ReportApi::ALL.into_iter().find(|api| api.is_among(groups));
                found.ok_or(MissingReportApi::All)
            }
        }
    }
}

impl ReportChoice {
    /// Returns the API of earlier reports, which those in the chosen one replace.
    pub(in crate::cli) fn replaced(
        self,
        chosen: ReportApi,
        groups: &[ApiGroup],
    ) -> Option<ReportApi> {
        let mut others = ReportApi::ALL.into_iter().filter(|api| *api != chosen);
        others.find(|api| self == Self::Auto && api.is_among(groups))
    }
}

/// The reports of a cluster, or none.
pub(in crate::cli) struct ClusterReports(Option<ReportSync>);

impl ClusterReports {
    /// Writes nothing.
    pub(in crate::cli) fn none() -> Self {
        Self(None)
    }

    /// Lists the reports.
    ///
    /// # Errors
    /// The reason why that fails, and none is written.
    pub(in crate::cli) async fn start(
        connection: &Connection,
        api: ReportApi,
        namespace: Option<&str>,
        owner: ReportOwner,
    ) -> Result<Self, String> {
        match ReportSync::start(connection, api, namespace, owner).await {
            Ok(sync) => Ok(Self(Some(sync))),
            Err(failure) => Err(format!("no reports are written: {}", failure.reason)),
        }
    }

    /// Deletes the reports of the same owner in another API in the end.
    ///
    /// # Errors
    /// The reason why these cannot be listed, and stay.
    pub(in crate::cli) async fn set_replaced(
        &mut self,
        connection: &Connection,
        api: ReportApi,
        namespace: Option<&str>,
    ) -> Result<(), String> {
        let Some(sync) = &mut self.0 else { return Ok(()) };
        let listed = sync.set_replaced(connection, api, namespace).await;
        listed.map_err(|failure| format!("earlier reports stay: {}", failure.reason))
    }

    /// Writes only while this server is the leader.
    pub(in crate::cli) fn while_leading(self, leadership: Leadership) -> Self {
        Self(self.0.map(|sync| sync.while_leading(leadership)))
    }

    /// Takes the result of an object. Returns the digest of its report, if it gets one with this result.
    pub(in crate::cli) fn add(
        &mut self,
        object: &ObjectIdentity,
        record: &CheckRecord,
    ) -> Option<String> {
        let sync = self.0.as_mut().filter(|_| !is_report(object))?;
        sync.add(reported(object), results(record))
    }

    /// Keeps the report of an object with violations, if its content has this digest. Returns whether it does, or
    /// no reports are written.
    pub(in crate::cli) fn keep_same(
        &mut self,
        object: &ObjectIdentity,
        digest: Option<&str>,
    ) -> bool {
        match (&mut self.0, digest) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(sync), Some(digest)) => sync.keep_same(&reported(object), digest),
        }
    }

    /// Keeps what is known of an object.
    pub(in crate::cli) fn keep(&mut self, object: &ObjectIdentity) {
        if let Some(sync) = &mut self.0 {
            sync.keep(&reported(object));
        }
    }

    /// Keeps what is known of a kind, or of all kinds of a group.
    pub(in crate::cli) fn set_unknown(&mut self, group: &str, kind: Option<&str>) {
        if let Some(sync) = &mut self.0 {
            sync.set_unknown(group, kind);
        }
    }

    /// Writes the reports that differ.
    pub(in crate::cli) async fn write(&mut self) {
        if let Some(sync) = &mut self.0 {
            sync.write().await;
        }
    }

    /// Writes the rest, and deletes the reports of objects without results.
    pub(in crate::cli) async fn finish(self) -> Option<SyncSummary> {
        match self.0 {
            Some(sync) => Some(sync.finish().await),
            None => None,
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
    let of_error = |error: &PolicyErrorRecord| ReportResult {
        status: ResultStatus::Error,
        policy: error.policy.clone(),
        rule: String::new(),
        field: String::new(),
        effect: String::new(),
        message: error.cause.clone(),
    };
    let errors = record.policy_errors().iter().map(of_error);
    record.violations().map(of_violation).chain(errors).collect()
}
