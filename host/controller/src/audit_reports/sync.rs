//! Makes the reports of a cluster equal to the results of an audit.
//!
//! ```text
//! StoredReports ─▶ ReportSync ◀─ add, keep, set_unknown: results while objects are evaluated
//!                     ├▶ write: new and changed reports, after each page of objects
//!                     └▶ finish: deletes the reports of objects without results, and those in another API
//! ```

use std::collections::BTreeSet;
use std::mem;

use opgate_admission::cluster::{Connection, ReadFailure};

use super::content::{ObjectReport, ReportResult, ReportedObject, ResultStatus};
use super::stored::{StoredReport, StoredReports};
use super::writer::{ReportWrite, ReportWriter};
use super::{ReportApi, ReportKey, ReportOwner};
use crate::lease::Leadership;

/// Maximum number of reports in an audit whose earlier results are read because a policy failed. The others stay as
/// they are.
const MAX_MERGED_REPORTS: usize = 1_000;

/// Of these, the reports that are in memory at a time.
const MERGED_AT_ONCE: usize = 16;

/// The reports of a cluster, while its objects are evaluated.
#[derive(Debug)]
pub struct ReportSync {
    stored: StoredReports,
    writer: ReportWriter,
    /// The reports of the same owner in another API, which these replace.
    replaced: Option<(StoredReports, ReportWriter)>,
    owner: ReportOwner,
    pending: Vec<ReportWrite>,
    /// Results with policy errors, of objects that have a report.
    failed: Vec<FailedResults>,
    /// Number of those so far.
    merged: usize,
    /// Groups and kinds whose objects are not all known; without a kind, all of the group.
    unknown: UnknownKinds,
    unchanged: usize,
    unreportable: usize,
}

/// Results of an object for which policies failed.
#[derive(Debug)]
struct FailedResults {
    key: ReportKey,
    object: ReportedObject,
    results: Vec<ReportResult>,
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
        Self {
            stored,
            writer,
            replaced: None,
            owner: ReportOwner::default(),
            pending: Vec::new(),
            failed: Vec::new(),
            merged: 0,
            unknown: BTreeSet::new(),
            unchanged: 0,
            unreportable: 0,
        }
    }

    /// Deletes the reports of the same owner in another API in the end, except for what is unknown.
    ///
    /// # Errors
    /// The reason why they cannot be listed.
    pub async fn set_replaced(
        &mut self,
        connection: &Connection,
        api: ReportApi,
        namespace: Option<&str>,
    ) -> Result<(), ReadFailure> {
        let stored = StoredReports::read(connection, api, namespace, &self.owner).await?;
        let mut writer = ReportWriter::new(connection.client(), api);
        writer.leadership.clone_from(&self.writer.leadership);
        self.replaced = Some((stored, writer));
        Ok(())
    }

    /// Writes only while this server is the leader.
    #[must_use]
    pub fn while_leading(mut self, leadership: Leadership) -> Self {
        if let Some((_, writer)) = &mut self.replaced {
            writer.leadership = Some(leadership.clone());
        }
        self.writer.leadership = Some(leadership);
        self
    }

    /// Takes the results of an object. Returns the digest of its report, if it gets one with these results.
    pub fn add(&mut self, object: ReportedObject, results: Vec<ReportResult>) -> Option<String> {
        if results.is_empty() {
            return None;
        }
        let Some(key) = object.report_key(&self.owner) else {
            self.unreportable += 1;
            return None;
        };
        if results.iter().any(|result| result.status == ResultStatus::Error) {
            self.add_failed(FailedResults { key, object, results });
            return None;
        }
        let report = ObjectReport::new(key, object, self.owner.clone(), results);
        let digest = report.digest.clone();
        self.add_report(report);
        Some(digest)
    }

    /// Keeps the report of an object if its content has this digest. Returns whether it does.
    pub fn keep_same(&mut self, object: &ReportedObject, digest: &str) -> bool {
        let stored = object.report_key(&self.owner).and_then(|key| self.stored.get_mut(&key));
        let Some(stored) = stored.filter(|stored| stored.digest.as_deref() == Some(digest)) else {
            return false;
        };
        stored.is_kept = true;
        self.unchanged += 1;
        true
    }

    fn add_report(&mut self, report: ObjectReport) {
        if let Some(stored) = self.stored.get_mut(&report.key) {
            let is_same = stored.digest.as_ref() == Some(&report.digest);
            if mem::replace(&mut stored.is_kept, true) || is_same {
                self.unchanged += 1;
                return;
            }
        }
        self.pending.push(ReportWrite::Apply(Box::new(report)));
    }

    /// Takes results with policy errors. The earlier results of these policies are still the last ones that are known.
    fn add_failed(&mut self, failed: FailedResults) {
        let FailedResults { key, object, results } = failed;
        if self.stored.get_mut(&key).is_some_and(|stored| stored.is_kept) {
            self.unchanged += 1;
            return;
        }
        self.keep_key(&key);
        match self.stored.get_mut(&key) {
            None => self.add_report(ObjectReport::new(key, object, self.owner.clone(), results)),
            Some(stored) if stored.digest.is_some() && self.merged < MAX_MERGED_REPORTS => {
                self.merged += 1;
                self.failed.push(FailedResults { key, object, results });
            }
            // Another client has changed it: nothing in it is known.
            Some(stored) if stored.digest.is_none() => {
                stored.is_kept = false;
                self.add_report(ObjectReport::new(key, object, self.owner.clone(), results));
            }
            Some(_) => {}
        }
    }

    /// Adds the earlier results of the policies that failed to the results of the others.
    async fn merge_failed(&mut self, failed: Vec<FailedResults>) {
        let keys: Vec<_> = failed.iter().map(|failed| failed.key.clone()).collect();
        let earlier = self.writer.read_results(&keys).await;
        for (FailedResults { key, object, mut results }, earlier) in failed.into_iter().zip(earlier)
        {
            let earlier = match earlier {
                Ok(earlier) => earlier,
                Err(why) => {
                    self.writer.add_failure(&key, &why);
                    continue;
                }
            };
            let errors = results.iter().filter(|result| result.status == ResultStatus::Error);
            let policies: BTreeSet<_> = errors.map(|result| result.policy.clone()).collect();
            let is_unknown = |result: &ReportResult| {
                result.status != ResultStatus::Error && policies.contains(&result.policy)
            };
            results.extend(earlier.into_iter().filter(is_unknown));
            if let Some(stored) = self.stored.get_mut(&key) {
                stored.is_kept = false;
            }
            self.add_report(ObjectReport::new(key, object, self.owner.clone(), results));
        }
    }

    /// Keeps the report of an object unchanged, if it has one: not all rules evaluated it.
    pub fn keep(&mut self, object: &ReportedObject) {
        if let Some(key) = object.report_key(&self.owner) {
            self.keep_key(&key);
        }
    }

    fn keep_key(&mut self, key: &ReportKey) {
        let replaced = self.replaced.as_mut().map(|(stored, _)| stored);
        for stored in std::iter::once(&mut self.stored).chain(replaced) {
            if let Some(stored) = stored.get_mut(key) {
                stored.is_kept = true;
            }
        }
    }

    /// Keeps the reports of a kind, or of all kinds of a group, except those with results.
    pub fn set_unknown(&mut self, group: &str, kind: Option<&str>) {
        self.unknown.insert((group.to_owned(), kind.map(str::to_owned)));
    }

    /// Writes the reports that differ. Errors are reported at the end.
    pub async fn write(&mut self) {
        let mut rest = mem::take(&mut self.failed);
        while !rest.is_empty() {
            let later = rest.split_off(rest.len().min(MERGED_AT_ONCE));
            self.merge_failed(mem::replace(&mut rest, later)).await;
            self.write_pending().await;
        }
        self.write_pending().await;
    }

    async fn write_pending(&mut self) {
        let pending = mem::take(&mut self.pending);
        self.writer.write_all(&pending).await;
    }

    /// Writes the rest, and deletes the reports of objects that have no results or no longer exist.
    pub async fn finish(mut self) -> SyncSummary {
        self.write().await;
        let Self { stored, mut writer, replaced, unknown, unchanged, unreportable, .. } = self;
        writer.write_all(&deletions(stored, &unknown)).await;
        let ReportWriter { written, mut deleted, mut failures, mut failed, .. } = writer;
        // After a failed write, the old report can be the only one.
        if let Some((stored, mut writer)) = replaced.filter(|_| failed == 0) {
            writer.write_all(&deletions(stored, &unknown)).await;
            deleted += writer.deleted;
            failed += writer.failed;
            failures.extend(writer.failures);
        }
        SyncSummary { written, deleted, unchanged, unreportable, failures, failed }
    }
}

/// Groups and kinds whose objects are not all known.
type UnknownKinds = BTreeSet<(String, Option<String>)>;

/// Returns the deletions of the reports that are not kept, and whose objects are known.
fn deletions(stored: StoredReports, unknown: &UnknownKinds) -> Vec<ReportWrite> {
    let is_known = |group: &str, kind: &str| {
        let key = |kind: Option<&str>| (group.to_owned(), kind.map(str::to_owned));
        !unknown.contains(&key(None)) && !unknown.contains(&key(Some(kind)))
    };
    let is_stale = |(_, report): &(ReportKey, StoredReport)| {
        !report.is_kept && is_known(&report.owner_group, &report.owner_kind)
    };
    let deletion = |(key, report): (ReportKey, StoredReport)| {
        let StoredReport { uid, resource_version, .. } = report;
        ReportWrite::Delete { key, uid, resource_version }
    };
    stored.into_iter().filter(is_stale).map(deletion).collect()
}
