//! Direct reads from the API server, for queries that the watch cannot answer exactly enough.
//!
//! ```text
//! query (kind, scope) ─▶ Slot ─ a read that began after the query? ─ yes ─▶ its result
//!                          └──── no ─▶ one read for all that wait ─▶ Api
//! ```
//!
//! A hundred concurrent requests with the same query cause two reads: the one in progress when
//! most of them started, and the one after it, which all of them use.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use opgate_cluster::Key;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::cluster::read::samples::SamplePermits;
use crate::cluster::read::view::{DirectReadPlan, DirectReads};
use crate::cluster::store::listing::{Listing, QueryScope};
use crate::cluster::watch::direct_read_source::{DirectReadError, DirectReadSource};
use crate::cluster::{ClusterState, ResourceId};

/// Maximum number of concurrent reads: a list of thousands of objects is load for the API server,
/// too.
const MAX_CONCURRENT_READS: usize = 8;

/// A query of a kind.
type ReadTarget = (ResourceId, QueryScope);

/// The number of requests that wait for it.
type WaiterCount = usize;

/// Direct reads, shared by all requests with the same query.
pub struct DirectReader {
    source: Box<dyn DirectReadSource>,
    shared_reads: Mutex<HashMap<ReadTarget, (Arc<SharedRead>, WaiterCount)>>,
    read_permits: Semaphore,
    sample_permits: SamplePermits,
}

impl std::fmt::Debug for DirectReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectReader").finish_non_exhaustive()
    }
}

/// The result, and the time when the read started.
#[derive(Debug, Clone)]
struct ReadResult {
    started_at: Instant,
    listing: Result<Arc<Listing>, DirectReadError>,
}

/// One query.
#[derive(Debug, Default)]
struct SharedRead {
    /// Number of the last read that started.
    last_started: AtomicU64,
    /// Number and result of the last read that ended. Locked during a read, so there is one at a
    /// time.
    last_result: tokio::sync::Mutex<Option<(u64, ReadResult)>>,
}

/// A waiting request. The last one removes the query, also if it gives up.
struct ReadWaiter<'d> {
    direct: &'d DirectReader,
    target: ReadTarget,
    shared_read: Arc<SharedRead>,
}

impl<'d> ReadWaiter<'d> {
    fn new(direct: &'d DirectReader, target: ReadTarget) -> Self {
        let mut slots = direct.shared_reads.lock();
        let (slot, waiters) = slots.entry(target.clone()).or_default();
        *waiters += 1;
        let slot = slot.clone();
        drop(slots);
        Self { direct, target, shared_read: slot }
    }
}

impl Drop for ReadWaiter<'_> {
    fn drop(&mut self) {
        let mut slots = self.direct.shared_reads.lock();
        if let Some((_, waiters)) = slots.get_mut(&self.target) {
            *waiters = waiters.saturating_sub(1);
            if *waiters == 0 {
                slots.remove(&self.target);
            }
        }
    }
}

impl DirectReader {
    /// Reads from an API server.
    #[must_use]
    pub fn new(api: impl DirectReadSource + 'static) -> Self {
        let (slots, places) = (Mutex::default(), Semaphore::new(MAX_CONCURRENT_READS));
        Self {
            source: Box::new(api),
            shared_reads: slots,
            read_permits: places,
            sample_permits: SamplePermits::default(),
        }
    }

    /// The source of samples.
    pub(crate) fn sample_source(&self) -> (&dyn DirectReadSource, &SamplePermits) {
        (&*self.source, &self.sample_permits)
    }

    /// Makes all reads that are necessary.
    ///
    /// # Errors
    /// If the API server does not respond. The text states the reason.
    pub async fn read_all(
        &self,
        cluster: &ClusterState,
        read_plan: &DirectReadPlan,
        deadline: Instant,
    ) -> Result<DirectReads, DirectReadError> {
        let mut targets = Vec::new();
        for (cache, scopes) in &read_plan.0 {
            // A query that is part of another one uses its result.
            let wide = scopes
                .iter()
                .filter(|scope| !scopes.iter().any(|other| other != *scope && other.covers(scope)));
            targets.extend(wide.map(|scope| (*cache, scope.clone())));
        }
        let asked = targets.into_iter().map(|(cache, scope)| async move {
            let read = self.read(cluster, cache, &scope).await;
            Some((cache, scope, read?.listing))
        });
        let all = tokio::time::timeout_at(deadline, join_all(asked)).await;
        let all =
            all.map_err(|_| DirectReadError("the API server did not answer in time".to_owned()))?;
        let mut direct_reads = DirectReads::default();
        for (cache, scope, found) in all.into_iter().flatten() {
            direct_reads.0.entry(cache).or_default().push((scope, found?));
        }
        Ok(direct_reads)
    }

    /// Reads one object and updates its kind. Returns the result, or nothing if there is no such
    /// kind.
    ///
    /// # Errors
    /// If the API server does not respond. The text states the reason.
    pub async fn read_object(
        &self,
        cluster: &ClusterState,
        cache: ResourceId,
        key: &Key,
    ) -> Result<Option<Arc<Listing>>, DirectReadError> {
        let scope = QueryScope::Object(key.clone());
        let read = self.read(cluster, cache, &scope).await;
        let Some((ReadResult { started_at: began, listing: found }, cache)) =
            read.zip(cluster.cache(cache))
        else {
            return Ok(None);
        };
        let found = found?;
        cache.record_direct_read(key, &found, began);
        Ok(Some(found))
    }

    /// The API server, for reads that are not shared.
    pub(crate) fn source(&self) -> &dyn DirectReadSource {
        &*self.source
    }

    /// Makes a read that starts after this call.
    async fn read(
        &self,
        cluster: &ClusterState,
        cache: ResourceId,
        scope: &QueryScope,
    ) -> Option<ReadResult> {
        let of = cluster.cache(cache)?;
        let asking = ReadWaiter::new(self, (cache, scope.clone()));
        let slot = &asking.shared_read;
        let wanted = slot.last_started.load(Ordering::SeqCst) + 1;
        let mut last = slot.last_result.lock().await;
        if let Some((number, read)) = &*last
            && *number >= wanted
        {
            return Some(read.clone());
        }
        // The semaphore is never closed.
        let _place = self.read_permits.acquire().await.ok()?;
        let number = slot.last_started.fetch_add(1, Ordering::SeqCst) + 1;
        let began = Instant::now();
        let found = self.source.list(of, scope).await.map(Arc::new);
        let read = ReadResult { started_at: began, listing: found };
        *last = Some((number, read.clone()));
        Some(read)
    }

    /// The number of queries in progress.
    #[must_use]
    pub fn reads_in_progress(&self) -> usize {
        self.shared_reads.lock().len()
    }
}
