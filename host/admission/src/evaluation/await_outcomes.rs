//! Waits until the outcome of requests in progress is known.
//!
//! ```text
//! objects in progress ─▶ wait for the watch (50 ms) ─▶ one direct read of each ─▶ wait for its end, read again
//!                           └──────── settled ─────────────┴──────────────────────────┘
//! ```

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use opgate_cluster::Key;
use tokio::time::Instant;

use crate::cluster::{
    ClusterState, DirectReader, MAX_POSSIBLE_STATES, ReservationCounters, ResourceId,
};

/// Maximum wait for the watch before a direct read. The watch usually takes milliseconds.
const MAX_WATCH_WAIT: Duration = Duration::from_millis(50);

/// Maximum number of objects of a request that are read directly. A verdict that depends on more
/// requests in progress is a denial.
const MAX_DIRECT_READS: usize = 32;

/// Whether any request was settled since.
pub(super) fn has_settled_since(cluster: &ClusterState, seen: &[ReservationCounters]) -> bool {
    let now = cluster.counters();
    seen.iter().zip(&now).any(|(seen, now)| seen.settled != now.settled)
}

/// Maximum number of possible states for requests about one of these objects.
pub(super) fn max_pending_depth(
    cluster: &ClusterState,
    pending_objects: &[(ResourceId, Key)],
) -> usize {
    let depths = pending_objects.iter().map(|(id, key)| pending_depth(cluster, *id, key));
    // If there are more requests, the last possible state shows none of them.
    depths.max().unwrap_or_default().min(MAX_POSSIBLE_STATES + 1)
}

fn pending_depth(cluster: &ClusterState, id: ResourceId, key: &Key) -> usize {
    cluster.cache(id).map_or(0, |cache| cache.pending_summary(key).0)
}

pub(super) fn object_names(
    cluster: &ClusterState,
    pending_objects: &[(ResourceId, Key)],
) -> Vec<String> {
    let pending =
        pending_objects.iter().filter(|(cache, key)| pending_depth(cluster, *cache, key) > 0);
    let name = |(cache, key): &(ResourceId, Key)| {
        let resource = cluster.cache(*cache).map(|cache| &cache.resource().resource);
        let resource = resource.map_or("object", String::as_str);
        if key.namespace.is_empty() {
            format!("{resource} {}", key.name)
        } else {
            format!("{resource} {}/{}", key.namespace, key.name)
        }
    };
    pending.take(3).map(name).collect()
}

/// Waits until the outcome of requests in progress is known.
#[derive(Debug, Default)]
pub(super) struct SettleWait {
    /// The times when the wait for each object started, and when it was last read.
    waits: HashMap<(ResourceId, Key), (Instant, Option<Instant>)>,
}

impl SettleWait {
    /// Waits until a request about `touched` is settled; `false` if that is not possible in time.
    pub(super) async fn wait(
        &mut self,
        cluster: &ClusterState,
        direct: Option<&DirectReader>,
        pending_objects: &[(ResourceId, Key)],
        deadline: Instant,
    ) -> bool {
        if pending_objects.len() > MAX_DIRECT_READS {
            return false;
        }
        let before = pending_counts(cluster, pending_objects);
        loop {
            // Registered before any check, so that no change is missed.
            let mut told: Vec<_> = pending_objects
                .iter()
                .filter_map(|(cache, _)| cluster.cache(*cache))
                .map(|cache| Box::pin(cache.settled_notify().notified()))
                .collect();
            for told in &mut told {
                told.as_mut().enable();
            }
            let now = Instant::now();
            if before.is_empty() || pending_counts(cluster, pending_objects) != before {
                return true;
            }
            let due: Vec<_> = before
                .iter()
                .map(|(object, (_, ends))| {
                    let (first, read) = *self.waits.entry(object.clone()).or_insert((now, None));
                    let at = match (read, ends) {
                        (None, _) => first + MAX_WATCH_WAIT,
                        (Some(read), Some(ends)) if read < *ends => *ends,
                        _ => now + MAX_WATCH_WAIT,
                    };
                    (object, at)
                })
                .collect();
            let Some(next) = due.iter().map(|(_, at)| *at).min() else { return false };
            if next >= deadline || now >= deadline {
                return false;
            }
            if next > now {
                let woken = select_all(told.iter_mut().map(|told| told.as_mut()));
                if tokio::time::timeout_at(next, woken).await.is_ok() {
                    continue;
                }
            }
            let Some(direct) = direct else { return false };
            let asked = Instant::now();
            let due: Vec<_> = due.into_iter().filter(|(_, at)| *at <= asked).collect();
            let due: Vec<_> = due.into_iter().map(|(object, _)| object.clone()).collect();
            let reads = due.iter().map(|(cache, key)| direct.read_object(cluster, *cache, key));
            let read = tokio::time::timeout_at(deadline, join_all(reads)).await;
            for object in due {
                self.waits.entry(object).and_modify(|(_, read)| *read = Some(asked));
            }
            let failed = read.map_or(true, |read| read.iter().any(Result::is_err));
            if failed {
                return pending_counts(cluster, pending_objects) != before;
            }
        }
    }
}

type PendingCounts = Vec<((ResourceId, Key), (usize, Option<Instant>))>;

/// The number of requests in progress about these objects, and the time when the last one ends.
fn pending_counts(cluster: &ClusterState, pending_objects: &[(ResourceId, Key)]) -> PendingCounts {
    let pending = |object: &(ResourceId, Key)| {
        let (count, ends) = cluster.cache(object.0)?.pending_summary(&object.1);
        (count > 0).then(|| (object.clone(), (count, ends)))
    };
    pending_objects.iter().filter_map(pending).collect()
}
