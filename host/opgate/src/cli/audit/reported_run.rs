//! The results of `opgate audit`: for its output, and as reports in the cluster.

use super::reports::ClusterReports;
use crate::cli::check::audit::{ObjectIdentity, RememberedResult, ResultSink, SkippedObject};
use crate::cli::check::evaluate::{CheckRun, SubjectResult};
use crate::cli::report::UnreadableInput;
use crate::cli::verbosity::note;
use opgate_controller::audit_reports::SyncSummary;
use opgate_text::one_line;

/// Maximum bytes of a line.
const MAX_LINE_BYTES: usize = 1_024;

/// Results for the output and for reports.
pub(super) struct ReportedRun<'r, 's> {
    check_run: &'r mut CheckRun<'s>,
    reports: ClusterReports,
}

impl<'r, 's> ReportedRun<'r, 's> {
    pub(super) fn new(check_run: &'r mut CheckRun<'s>, reports: ClusterReports) -> Self {
        Self { check_run, reports }
    }

    /// Writes the rest, and adds failed writes to the results.
    pub(super) async fn finish_reports(self) {
        let Self { check_run, reports } = self;
        let Some(summary) = reports.finish().await else { return };
        let SyncSummary { written, deleted, unchanged, unreportable, failures, failed } = summary;
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

/// Adds an error to the results.
pub(super) fn add_error(check_run: &mut CheckRun<'_>, source: &str, line: &str) {
    let (source, line) = (source.to_owned(), one_line(line, MAX_LINE_BYTES));
    check_run.unreadable.push(UnreadableInput { source, line });
}

impl ResultSink for ReportedRun<'_, '_> {
    fn add(
        &mut self,
        object: &ObjectIdentity,
        result: SubjectResult,
        complete: bool,
    ) -> Option<RememberedResult> {
        if !complete {
            self.reports.keep(object);
        }
        self.reports.add(object, &result.record);
        self.check_run.add(object, result, complete)
    }

    fn skip(&mut self, object: &ObjectIdentity, reason: SkippedObject) {
        if reason != SkippedObject::Exempt {
            self.reports.keep(object);
        }
        self.check_run.skip(object, reason);
    }

    fn set_unknown(&mut self, group: &str, kind: Option<&str>) {
        self.reports.set_unknown(group, kind);
    }

    fn add_error(&mut self, error: UnreadableInput) {
        ResultSink::add_error(self.check_run, error);
    }

    async fn write(&mut self) {
        self.reports.write().await;
    }
}
