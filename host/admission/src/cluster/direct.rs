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

use futures_util::future::{BoxFuture, join_all};
use opgate_cluster::Key;
use opgate_engine::reader::Sample;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::samples::{Ask, NoSample, Places};
use super::view::{DirectReadPlan, DirectReads, Listing, QueryScope};
use super::{ClusterState, ResourceCache};

/// Maximum number of concurrent reads: a list of thousands of objects is load for the API server,
/// too.
const AT_ONCE: usize = 8;

/// The source of direct reads.
pub trait Api: Send + Sync {
    /// Returns the current objects, and the version up to which the list is complete.
    fn list<'a>(
        &'a self,
        kind: &'a ResourceCache,
        scope: &'a QueryScope,
    ) -> BoxFuture<'a, Result<Listing, String>>;

    /// Returns some objects of any kind.
    fn sample<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Result<Sample, NoSample>> {
        let why = format!("{} cannot be listed here", ask.resource);
        Box::pin(async { Err(NoSample::Unavailable(why)) })
    }
}

/// A query of a kind.
type Question = (usize, QueryScope);

/// The number of requests that wait for it.
type Askers = usize;

/// Direct reads, shared by all requests with the same query.
pub struct Direct {
    api: Box<dyn Api>,
    slots: Mutex<HashMap<Question, (Arc<Slot>, Askers)>>,
    places: Semaphore,
    samplers: Places,
}

impl std::fmt::Debug for Direct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Direct").finish_non_exhaustive()
    }
}

/// The result, and the time when the read started.
#[derive(Debug, Clone)]
struct Read {
    began: Instant,
    found: Result<Arc<Listing>, String>,
}

/// One query.
#[derive(Debug, Default)]
struct Slot {
    /// Number of the last read that started.
    begun: AtomicU64,
    /// Number and result of the last read that ended. Locked during a read, so there is one at a
    /// time.
    last: tokio::sync::Mutex<Option<(u64, Read)>>,
}

/// A waiting request. The last one removes the query, also if it gives up.
struct Asking<'d> {
    direct: &'d Direct,
    question: Question,
    slot: Arc<Slot>,
}

impl<'d> Asking<'d> {
    fn new(direct: &'d Direct, question: Question) -> Self {
        let mut slots = direct.slots.lock();
        let (slot, askers) = slots.entry(question.clone()).or_default();
        *askers += 1;
        let slot = slot.clone();
        drop(slots);
        Self { direct, question, slot }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut slots = self.direct.slots.lock();
        if let Some((_, askers)) = slots.get_mut(&self.question) {
            *askers = askers.saturating_sub(1);
            if *askers == 0 {
                slots.remove(&self.question);
            }
        }
    }
}

impl Direct {
    /// Reads from an API server.
    #[must_use]
    pub fn new(api: impl Api + 'static) -> Self {
        let (slots, places) = (Mutex::default(), Semaphore::new(AT_ONCE));
        Self { api: Box::new(api), slots, places, samplers: Places::default() }
    }

    /// The source of samples.
    pub(super) fn samples(&self) -> (&dyn Api, &Places) {
        (&*self.api, &self.samplers)
    }

    /// Makes all reads that are necessary.
    ///
    /// # Errors
    /// If the API server does not respond. The text states the reason.
    pub async fn fresh(
        &self,
        cluster: &ClusterState,
        needed: &DirectReadPlan,
        deadline: Instant,
    ) -> Result<DirectReads, String> {
        let mut questions = Vec::new();
        for (kind, scopes) in &needed.0 {
            // A query that is part of another one uses its result.
            let wide = scopes
                .iter()
                .filter(|scope| !scopes.iter().any(|other| other != *scope && other.covers(scope)));
            questions.extend(wide.map(|scope| (*kind, scope.clone())));
        }
        let asked = questions.into_iter().map(|(kind, scope)| async move {
            let read = self.read(cluster, kind, &scope).await;
            Some((kind, scope, read?.found))
        });
        let all = tokio::time::timeout_at(deadline, join_all(asked)).await;
        let all = all.map_err(|_| "the API server did not answer in time".to_owned())?;
        let mut fresh = DirectReads::default();
        for (kind, scope, found) in all.into_iter().flatten() {
            fresh.0.entry(kind).or_default().push((scope, found?));
        }
        Ok(fresh)
    }

    /// Reads one object and updates its kind. Returns the result, or nothing if there is no such
    /// kind.
    ///
    /// # Errors
    /// If the API server does not respond. The text states the reason.
    pub async fn learn(
        &self,
        cluster: &ClusterState,
        kind: usize,
        key: &Key,
    ) -> Result<Option<Arc<Listing>>, String> {
        let scope = QueryScope::Object(key.clone());
        let read = self.read(cluster, kind, &scope).await;
        let Some((Read { began, found }, kind)) = read.zip(cluster.kinds().get(kind)) else {
            return Ok(None);
        };
        let found = found?;
        kind.learn(key, &found, began);
        Ok(Some(found))
    }

    /// The API server, for reads that are not shared.
    pub(super) fn api(&self) -> &dyn Api {
        &*self.api
    }

    /// Makes a read that starts after this call.
    async fn read(&self, cluster: &ClusterState, kind: usize, scope: &QueryScope) -> Option<Read> {
        let of = cluster.kinds().get(kind)?;
        let asking = Asking::new(self, (kind, scope.clone()));
        let slot = &asking.slot;
        let wanted = slot.begun.load(Ordering::SeqCst) + 1;
        let mut last = slot.last.lock().await;
        if let Some((number, read)) = &*last
            && *number >= wanted
        {
            return Some(read.clone());
        }
        // The semaphore is never closed.
        let _place = self.places.acquire().await.ok()?;
        let number = slot.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let began = Instant::now();
        let found = self.api.list(of, scope).await.map(Arc::new);
        let read = Read { began, found };
        *last = Some((number, read.clone()));
        Some(read)
    }

    /// The number of queries in progress.
    #[must_use]
    pub fn questions(&self) -> usize {
        self.slots.lock().len()
    }
}
