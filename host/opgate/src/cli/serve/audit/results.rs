//! The results of an audit by the leader: counters, and reports in the cluster. No result is kept.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::conditions::{AuditConditions, StopReason};
use crate::cli::audit::reports::ClusterReports;
use crate::cli::check::audit::{
    ObjectIdentity, RememberedResult, RememberedViolation, ResultSink, SkippedObject,
};
use crate::cli::check::evaluate::SubjectResult;
use crate::cli::report::{UnreadableInput, Violation};
use opgate_admission::policy::PolicySet;
use opgate_controller::audit_metrics::{AuditResults, ViolationCounts};
use opgate_controller::audit_reports::SyncSummary;
use opgate_text::one_line;

/// Maximum bytes of an error.
const MAX_ERROR_BYTES: usize = 1_024;

/// The end of a run.
pub(super) enum RunOutcome {
    /// All objects were evaluated, except those that could not be read.
    Complete(Box<CompleteRun>),
    /// It failed, for this reason.
    Failed(String),
    /// It was stopped: this server is no longer the leader, or ends.
    Stopped,
}

/// Results of a run.
pub(super) struct CompleteRun {
    pub(super) results: AuditResults,
    /// The writes of reports, if there are reports.
    pub(super) reports: Option<SyncSummary>,
    /// The first error of the evaluation, and the problem with the reports, if there are any.
    pub(super) problem: Option<String>,
}

/// Results so far.
pub(super) struct LeaderResults<'r> {
    conditions: &'r AuditConditions,
    started: Instant,
    reports: ClusterReports,
    violations: ViolationCounts,
    objects: u64,
    /// Of these, objects with the results of the last audit.
    unchanged: u64,
    errors: u64,
    /// The first error of the evaluation.
    error: Option<String>,
    /// Why no reports are written, or not all.
    report_problem: Option<String>,
    stop: Option<StopReason>,
}

impl<'r> LeaderResults<'r> {
    pub(super) fn new(conditions: &'r AuditConditions, started: Instant) -> Self {
        Self {
            conditions,
            started,
            reports: ClusterReports::none(),
            violations: ViolationCounts::default(),
            objects: 0,
            unchanged: 0,
            errors: 0,
            error: None,
            report_problem: None,
            stop: None,
        }
    }

    /// Writes these reports.
    pub(super) fn set_reports(&mut self, reports: ClusterReports) {
        self.reports = reports;
    }

    /// Notes why no reports are written, or not all.
    pub(super) fn set_report_problem(&mut self, problem: &str) {
        self.report_problem.get_or_insert_with(|| one_line(problem, MAX_ERROR_BYTES));
    }

    /// Ends the run. The reports of objects without results are deleted only if it was not stopped.
    pub(super) async fn finish(mut self) -> RunOutcome {
        if !self.conditions.leadership.is_leader() {
            self.stop = Some(StopReason::NotLeader);
        }
        match self.stop.take() {
            None => {}
            Some(StopReason::NotLeader) => return RunOutcome::Stopped,
            Some(StopReason::Failed(error)) => return RunOutcome::Failed(error),
        }
        // Then the results of the last audit say more.
        if let (0, Some(error)) = (self.objects, &self.error) {
            return RunOutcome::Failed(error.clone());
        }
        let reports = std::mem::replace(&mut self.reports, ClusterReports::none()).finish().await;
        if let Some(first) = reports.as_ref().and_then(|summary| summary.failures.first()) {
            self.set_report_problem(first);
        }
        let results = AuditResults {
            violations: self.violations,
            objects: self.objects,
            unchanged: self.unchanged,
            errors: self.errors,
            ended: SystemTime::now(),
            duration: self.started.elapsed(),
        };
        let problems: Vec<_> = [self.error, self.report_problem].into_iter().flatten().collect();
        let problem = (!problems.is_empty()).then(|| problems.join("; "));
        RunOutcome::Complete(Box::new(CompleteRun { results, reports, problem }))
    }

    fn count_error(&mut self, error: impl FnOnce() -> String) {
        self.errors += 1;
        self.error.get_or_insert_with(|| one_line(&error(), MAX_ERROR_BYTES));
    }
}

impl ResultSink for LeaderResults<'_> {
    fn add(
        &mut self,
        object: &ObjectIdentity,
        result: SubjectResult,
        complete: bool,
    ) -> Option<RememberedResult> {
        let record = &result.record;
        if !complete {
            self.reports.keep(object);
        }
        let report = self.reports.add(object, record);
        self.objects += 1;
        let mut violations = Vec::new();
        for Violation { policy, rule, effect, .. } in record.violations() {
            self.violations.add(policy, rule, &object.namespace, effect);
            let (policy, rule) = (policy.clone(), rule.clone());
            violations.push(Arc::new(RememberedViolation { policy, rule, effect }));
        }
        if let Some(error) = record.policy_error() {
            self.count_error(|| format!("policy {}: {}", error.policy, error.cause));
        }
        complete.then_some(RememberedResult { violations, report })
    }

    fn recall(&mut self, object: &ObjectIdentity, result: &RememberedResult) -> bool {
        let RememberedResult { violations, report } = result;
        if !violations.is_empty() && !self.reports.keep_same(object, report.as_deref()) {
            return false;
        }
        self.objects += 1;
        self.unchanged += 1;
        for violation in violations {
            let RememberedViolation { policy, rule, effect } = &**violation;
            self.violations.add(policy, rule, &object.namespace, effect);
        }
        true
    }

    fn skip(&mut self, object: &ObjectIdentity, reason: SkippedObject) {
        if reason != SkippedObject::Exempt {
            self.reports.keep(object);
        }
    }

    fn set_unknown(&mut self, group: &str, kind: Option<&str>) {
        self.reports.set_unknown(group, kind);
    }

    fn add_error(&mut self, error: UnreadableInput) {
        self.count_error(|| error.line);
    }

    async fn write(&mut self) {
        self.reports.write().await;
    }

    fn is_stopped(&mut self, set: &PolicySet) -> bool {
        if self.stop.is_none() {
            self.stop = self.conditions.stop_reason(set);
        }
        self.stop.is_some()
    }
}
