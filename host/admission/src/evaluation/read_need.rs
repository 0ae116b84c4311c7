//! Whether the watch shows the results of queries exactly enough.
//!
//! ```text
//! queries of an evaluation ─▶ about conflicting resources only ─┬▶ the watch works: not needed
//!                                                               ├▶ always exact, or behind the ledger: read
//!                                                               └▶ the watch fails: read instead, or fail
//! ```

use crate::cluster::{
    ClusterState, DirectReadPlan, DirectReader, DirectReads, OnWatchFailure, QueryScope,
    ResourceCache, ResourceId,
};

/// The queries that need an exact result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadConsistency<'d> {
    /// The source of direct reads.
    pub(crate) direct: Option<&'d DirectReader>,
    /// Always, not only while a watch fails.
    pub(crate) always: bool,
    /// Kinds that are both reviewed and read: two requests for them can conflict.
    pub(crate) conflicting_resources: &'d [ResourceId],
}

/// Whether the queries need a direct read.
pub(super) enum DirectReadNeed<'d> {
    NotNeeded,
    Read(&'d DirectReader),
    /// The handling of a watch that fails.
    ReadInstead(&'d DirectReader, String),
    Fail(String),
}

/// Determines whether queries need a direct read, and adds those to the plan. `direct_reads` are those
/// that were made so far.
pub(super) fn direct_read_need<'d, 'q>(
    cluster: &ClusterState,
    consistency: ReadConsistency<'d>,
    read_plan: &mut DirectReadPlan,
    direct_reads: Option<&DirectReads>,
    queries: impl Iterator<Item = &'q (ResourceId, QueryScope)>,
) -> DirectReadNeed<'d> {
    let mut read_need = DirectReadNeed::NotNeeded;
    for (id, scope) in queries {
        if !consistency.conflicting_resources.contains(id) {
            continue;
        }
        let cache = cluster.cache(*id);
        let failing = cache.filter(|cache| cache.is_interrupted());
        let missing_version = cache.and_then(|cache| cache.missing_version());
        let behind = cache.filter(|_| missing_version.is_some());
        // The ledger can have moved on since a direct read.
        let is_outdated = missing_version.is_some_and(|missing| {
            let known = direct_reads.and_then(|reads| reads.listing(*id, scope));
            let version = known.and_then(|listing| listing.version.parse::<u64>().ok());
            version.is_some_and(|version| version < missing)
        });
        match (failing, consistency.direct) {
            (None, _) if !consistency.always && behind.is_none() => {}
            (None, None) if behind.is_some() => {
                let resource = behind.map(|cache| cache.resource().to_string()).unwrap_or_default();
                return DirectReadNeed::Fail(format!(
                    "the watch of {resource} is behind the reservations of other replicas"
                ));
            }
            (Some(cache), None) => return DirectReadNeed::Fail(watch_failure_text(cache)),
            (Some(cache), _) if cluster.options().on_watch_failure == OnWatchFailure::Fail => {
                return DirectReadNeed::Fail(watch_failure_text(cache));
            }
            (Some(failing), Some(direct)) if read_plan.add(*id, scope) || is_outdated => {
                read_need = DirectReadNeed::ReadInstead(direct, watch_failure_text(failing));
            }
            (None, Some(direct)) if read_plan.add(*id, scope) || is_outdated => {
                if let DirectReadNeed::NotNeeded = read_need {
                    read_need = DirectReadNeed::Read(direct);
                }
            }
            _ => {}
        }
    }
    read_need
}

fn watch_failure_text(cache: &ResourceCache) -> String {
    let status = cache.status();
    let error = status.error.map(|error| format!(": {error}")).unwrap_or_default();
    let seconds = cache.time_since_contact().as_secs();
    format!("the watch of {} fails, it was last heard of {seconds} s ago{error}", cache.resource())
}
