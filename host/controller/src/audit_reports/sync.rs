//! Makes the reports of a cluster equal to the results of an audit.
//!
//! ```text
//! StoredReports ─▶ ReportSync ◀─ add, keep, set_unknown: results while objects are evaluated
//!                     ├▶ write: new and changed reports, after each page of objects
//!                     └▶ finish: deletes the reports of objects without results
//! ```

use std::collections::BTreeSet;

use opgate_admission::cluster::{Connection, ReadFailure};

use super::content::{ObjectReport, ReportResult, ReportedObject};
use super::stored::{StoredReport, StoredReports};
use super::writer::{ReportWrite, ReportWriter};
use super::{ReportApi, ReportKey, ReportOwner};
use crate::lease::Leadership;

/// The reports of a cluster, while its objects are evaluated.
#[derive(Debug)]
pub struct ReportSync {
    stored: StoredReports,
    writer: ReportWriter,
    owner: ReportOwner,
    pending: Vec<ReportWrite>,
    /// Groups and kinds whose objects are not all known; without a kind, all of the group.
    unknown: BTreeSet<(String, Option<String>)>,
    unchanged: usize,
    unreportable: usize,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncSummary {
    /// Number of reports that were created or changed.
    pub written: usize,
    /// Number of reports that were deleted.
    pub deleted: usize,
    /// Number of reports that were not written, because their content is stored.
    pub unchanged: usize,
    /// Number of objects with results whose UID or name no report can have.
    pub unreportable: usize,
    /// The first failed writes, a line each.
    pub failures: Vec<String>,
    /// Number of failed writes.
    pub failed: usize,
}

impl ReportSync {
    /// Lists the reports of a cluster, or of one namespace, before its objects are evaluated.
    ///
    /// # Errors
    /// The reason why they cannot be listed.
    pub async fn start(
        connection: &Connection,
        api: ReportApi,
        namespace: Option<&str>,
        owner: ReportOwner,
    ) -> Result<Self, ReadFailure> {
        let stored = StoredReports::read(connection, api, namespace, &owner).await?;
        let sync = Self::new(stored, ReportWriter::new(connection.client(), api));
        Ok(Self { owner, ..sync })
    }

    pub(super) fn new(stored: StoredReports, writer: ReportWriter) -> Self {
        let (pending, unknown) = (Vec::new(), BTreeSet::new());
        let owner = ReportOwner::default();
        Self { stored, writer, owner, pending, unknown, unchanged: 0, unreportable: 0 }
    }

    /// Writes only while this server is the leader.
    #[must_use]
    pub fn while_leading(mut self, leadership: Leadership) -> Self {
        self.writer.leadership = Some(leadership);
        self
    }

    /// Takes the results of an object.
    pub fn add(&mut self, object: ReportedObject, results: Vec<ReportResult>) {
        if results.is_empty() {
            return;
        }
        let Some(key) = object.report_key(&self.owner) else {
            self.unreportable += 1;
            return;
        };
        let report = ObjectReport::new(key, object, self.owner.clone(), results);
        if let Some(stored) = self.stored.get_mut(&report.key) {
            let is_same = stored.digest.as_ref() == Some(&report.digest);
            if std::mem::replace(&mut stored.is_kept, true) || is_same {
                self.unchanged += 1;
                return;
            }
        }
        self.pending.push(ReportWrite::Apply(Box::new(report)));
    }

    /// Keeps the report of an object unchanged, if it has one: not all rules evaluated it.
    pub fn keep(&mut self, object: &ReportedObject) {
        let stored = object.report_key(&self.owner).and_then(|key| self.stored.get_mut(&key));
        if let Some(stored) = stored {
            stored.is_kept = true;
        }
    }

    /// Keeps the reports of a kind, or of all kinds of a group, except those with results.
    pub fn set_unknown(&mut self, group: &str, kind: Option<&str>) {
        self.unknown.insert((group.to_owned(), kind.map(str::to_owned)));
    }

    /// Writes the reports that differ. Errors are reported at the end.
    pub async fn write(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.writer.write_all(&pending).await;
    }

    /// Writes the rest, and deletes the reports of objects that have no results or no longer exist.
    pub async fn finish(mut self) -> SyncSummary {
        self.write().await;
        let Self { stored, mut writer, unknown, unchanged, unreportable, .. } = self;
        let is_known = |group: &str, kind: &str| {
            let key = |kind: Option<&str>| (group.to_owned(), kind.map(str::to_owned));
            !unknown.contains(&key(None)) && !unknown.contains(&key(Some(kind)))
        };
        let is_stale = |(_, report): &(ReportKey, StoredReport)| {
            !report.is_kept && is_known(&report.owner_group, &report.owner_kind)
        };
        let stale = stored.into_iter().filter(is_stale);
        let deletion = |(key, report): (ReportKey, StoredReport)| {
            let StoredReport { uid, resource_version, .. } = report;
            ReportWrite::Delete { key, uid, resource_version }
        };
        let deletions: Vec<_> = stale.map(deletion).collect();
        writer.write_all(&deletions).await;
        let ReportWriter { written, deleted, failures, failed, .. } = writer;
        SyncSummary { written, deleted, unchanged, unreportable, failures, failed }
    }
}
