//! Settles reservations whose time is over: reads from the API server whether the object exists.
//!
//! ```text
//! reservation ends ─▶ read of the object, or of its namespace ─▶ ResourceCache::learn ─▶ stored, or gone
//!                        └─ fails: again after a while; meanwhile the watch may settle it
//! ```
//!
//! A read that begins after the time is over is final: an object that it does not find is never
//! stored. A tenant causes at most one read of an object for each of its writes, so reads are no
//! more load for the API server than those writes.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;
use opgate_cluster::Key;
use tokio::time::Instant;

use crate::cluster::store::listing::QueryScope;
use crate::cluster::watch::direct_read_source::DirectReadSource;
use crate::cluster::{ClusterState, ResourceCache};

/// Maximum number of concurrent reads.
const MAX_CONCURRENT_READS: usize = 8;

/// Maximum number of objects that are read in one round.
const MAX_OBJECTS: usize = 512;

/// From this number of objects of a namespace on, the namespace is listed if it has fewer objects than that.
const MIN_OBJECTS_TO_LIST: usize = 16;

/// The wait between two rounds: reservations that end during it are read together.
const ROUND_INTERVAL: Duration = Duration::from_millis(20);

/// The wait before an object is read again because its read failed, or settled nothing.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// Settles reservations of a resource as soon as their time is over. It never ends.
pub(in crate::cluster) async fn settle_forever(cache: &ResourceCache, api: &dyn DirectReadSource) {
    let mut tried: HashMap<Key, Instant> = HashMap::new();
    loop {
        let reserved = cache.reserved_notify().notified();
        let mut reserved = std::pin::pin!(reserved);
        reserved.as_mut().enable();
        match cache.first_end() {
            None => reserved.await,
            Some(end) => {
                tokio::select! {
                    () = tokio::time::sleep_until(end) => {}
                    // It can end earlier than all others.
                    () = reserved => continue,
                }
                let now = Instant::now();
                tried.retain(|_, at| now.duration_since(*at) < RETRY_WAIT);
                let mut ended = cache.ended_keys(now, MAX_OBJECTS.saturating_add(tried.len()));
                ended.retain(|key| !tried.contains_key(key));
                tried.extend(ended.iter().map(|key| (key.clone(), now)));
                read_all(cache, api, ended).await;
                // Another request about the same object may have ended since.
                let left = cache.ended_keys(now, MAX_OBJECTS.saturating_add(tried.len()));
                tried.retain(|key, _| left.contains(key));
                tokio::time::sleep(ROUND_INTERVAL).await;
            }
        }
    }
}

/// Settles reservations of all resources whose time is over, if the API server responds.
pub(crate) async fn settle_all(cluster: &ClusterState, api: &dyn DirectReadSource) {
    let caches = cluster.caches().iter();
    let now = Instant::now();
    join_all(caches.map(|cache| read_all(cache, api, cache.ended_keys(now, MAX_OBJECTS)))).await;
}

/// Reads objects whose reservations have ended.
async fn read_all(cache: &ResourceCache, api: &dyn DirectReadSource, ended: Vec<Key>) {
    let mut by_namespace: BTreeMap<Box<str>, Vec<Key>> = BTreeMap::new();
    for key in ended {
        by_namespace.entry(key.namespace.clone()).or_default().push(key);
    }
    let mut reads: Vec<(QueryScope, Vec<Key>)> = Vec::new();
    for (namespace, keys) in by_namespace {
        let is_list_smaller = keys.len() >= MIN_OBJECTS_TO_LIST
            && !cache.has_more_objects_than(keys.len(), &namespace);
        if is_list_smaller && !namespace.is_empty() {
            reads.push((QueryScope::Namespace(namespace.into()), keys));
        } else {
            reads.extend(keys.into_iter().map(|key| (QueryScope::Object(key.clone()), vec![key])));
        }
    }
    let read = |(scope, keys): (QueryScope, Vec<Key>)| async move {
        let asked = Instant::now();
        if let Ok(found) = api.list(cache, &scope).await {
            for key in keys {
                cache.record_direct_read(&key, &found, asked);
            }
        }
    };
    stream::iter(reads).for_each_concurrent(MAX_CONCURRENT_READS, read).await;
}
