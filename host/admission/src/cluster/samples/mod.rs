//! Samples: some objects of kinds that no policy declares, listed when a policy queries them.
//!
//! ```text
//! policy ─ sample? ─▶ Reader ─ listed ─────────────────────────────────────────▶ result
//!                        │ wanted: the call ends
//!                        ▼
//!            decide ─ a permit (2 in the process) ─▶ Api: pages ─▶ Samples, in the lens ─▶ the call again
//! ```
//!
//! Users determine the number and the size of objects, and how often a policy samples them. So
//! everything is limited: lists, objects and bytes of a review, concurrent reviews, and the time.
//! A review keeps its permit and its objects until it is decided, and no longer. Other requests
//! wait for none of this. See docs/adr/0024.

mod files;
mod grants;
mod list;

use std::sync::Arc;
use std::time::Duration;

use opgate_cluster::Resource;
use opgate_document::Account;
use opgate_engine::reader::Sample;
use opgate_upstream::names;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::direct::Api;
pub(super) use files::Files;
pub use grants::Grants;

/// Maximum number of reviews with samples at a time. Each holds at most [`MOST_BYTES_OF_REVIEW`].
const AT_ONCE: usize = 2;

/// Maximum number of objects of a sample, see `wit/policy.wit`.
pub(super) const MOST_OBJECTS: usize = 500;

/// Maximum number of lists for one review.
const MOST_LISTS: usize = 8;

/// Maximum bytes of the objects of a sample, and of all samples of a review. A policy has 100 ms
/// of CPU time for all of them.
pub(super) const MOST_BYTES: usize = 4 << 20;
const MOST_BYTES_OF_REVIEW: usize = 8 << 20;

/// The index of an object takes memory in addition to its text.
const WITH_INDEX: usize = 2;

/// Time that remains for the policies after the lists: this, or a part of the remaining time.
const MARGIN: Duration = Duration::from_secs(1);
const PART: u32 = 4;

/// A list to make.
#[derive(Debug)]
pub struct Ask {
    /// The resource.
    pub resource: Resource,
    /// Maximum number of objects, from 1.
    pub limit: usize,
    /// Maximum bytes of objects.
    pub bytes: usize,
    /// The deadline.
    pub until: Instant,
    /// The account that pays for the objects. If its limit is reached, the sample ends there.
    pub account: Option<Arc<Account>>,
}

/// The reason why there is no sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoSample {
    /// The API server does not permit it: the missing permission.
    NotGranted(String),
    /// It cannot be listed now.
    Unavailable(String),
    /// Too many reviews wait for samples.
    Busy(String),
}

/// Permits that limit the samples of the process.
#[derive(Debug, Clone)]
pub(super) struct Places(Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

/// One sample, or the reason why there is none.
#[derive(Debug, Clone)]
struct Entry {
    resource: Resource,
    limit: usize,
    found: Result<Arc<Sample>, NoSample>,
}

/// The samples of one review.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    entries: Vec<Entry>,
    lists: usize,
    bytes: usize,
    account: Option<Arc<Account>>,
    /// Held until the review is decided.
    place: Option<Arc<OwnedSemaphorePermit>>,
}

impl Samples {
    /// The result for a policy; `None` if it must be listed first.
    pub(super) fn get(
        &self,
        resource: &Resource,
        limit: usize,
    ) -> Option<Result<Sample, NoSample>> {
        let entry = self.entries.iter().find(|entry| entry.resource == *resource)?;
        let sample = match &entry.found {
            Ok(sample) => sample,
            Err(why) => return Some(Err(why.clone())),
        };
        // It may have ended because fewer objects were requested.
        let is_short = !sample.complete && sample.objects.len() >= entry.limit;
        if is_short && limit > entry.limit && self.lists < MOST_LISTS {
            return None;
        }
        let objects = sample.objects.iter().take(limit).cloned().collect();
        let complete = sample.complete && sample.objects.len() <= limit;
        Some(Ok(Sample { objects, complete }))
    }

    fn put(&mut self, resource: Resource, limit: usize, found: Result<Arc<Sample>, NoSample>) {
        self.entries.retain(|entry| entry.resource != resource);
        self.entries.push(Entry { resource, limit, found });
    }

    /// Lists the wanted samples, one resource after the other. Each has a result afterwards.
    pub(super) async fn fetch(
        &mut self,
        wanted: &[(Resource, usize)],
        api: Option<(&dyn Api, &Places)>,
        payer: Option<&Arc<Account>>,
        deadline: Instant,
    ) {
        for (resource, limit) in wanted {
            // Several policies may want the same one.
            if self.get(resource, *limit).is_none() {
                let found = self.one(resource, *limit, api, payer, deadline).await;
                self.put(resource.clone(), *limit, found.map(Arc::new));
            }
        }
    }

    async fn one(
        &mut self,
        resource: &Resource,
        limit: usize,
        api: Option<(&dyn Api, &Places)>,
        payer: Option<&Arc<Account>>,
        deadline: Instant,
    ) -> Result<Sample, NoSample> {
        let unavailable = |why: String| Err(NoSample::Unavailable(format!("{resource}: {why}")));
        let Some((api, places)) = api else {
            return unavailable("there is no API server to ask".to_owned());
        };
        if self.lists >= MOST_LISTS {
            return unavailable(format!("more than {MOST_LISTS} lists for one review"));
        }
        let left = MOST_BYTES_OF_REVIEW.saturating_sub(self.bytes);
        if left == 0 {
            return unavailable(format!("more than {MOST_BYTES_OF_REVIEW} bytes for one review"));
        }
        let now = Instant::now();
        let margin = MARGIN.min(deadline.saturating_duration_since(now) / PART);
        let until = deadline.checked_sub(margin).unwrap_or(now);
        if self.place.is_none() {
            let place = tokio::time::timeout_at(until, places.0.clone().acquire_owned()).await;
            let Ok(Ok(place)) = place else {
                return Err(NoSample::Busy(format!(
                    "too many reviews wait for a list of custom resources, such as {resource}"
                )));
            };
            self.place = Some(Arc::new(place));
        }
        if self.account.is_none() {
            let most = MOST_BYTES_OF_REVIEW.saturating_mul(WITH_INDEX);
            self.account = payer.map(|payer| Account::below(payer, most));
        }
        self.lists = self.lists.saturating_add(1);
        let (account, bytes) = (self.account.clone(), MOST_BYTES.min(left));
        let ask = Ask { resource: resource.clone(), limit, bytes, until, account };
        let started = Instant::now();
        let found = api.sample(&ask).await;
        let took = started.elapsed();
        match &found {
            Ok(sample) => {
                let bytes = sample.objects.iter().map(|text| text.len()).sum();
                self.bytes = self.bytes.saturating_add(bytes);
                let (objects, complete) = (sample.objects.len(), sample.complete);
                tracing::debug!(%resource, objects, complete, bytes, ?took, "listed for a policy");
            }
            Err(why) => tracing::debug!(%resource, ?why, ?took, "not listed for a policy"),
        }
        found
    }
}

/// Whether a policy may name this resource: a custom resource, with names that a URL can have. All
/// of them come from a request. The groups of custom resources have a dot; the core group and its
/// Secrets have none.
pub(super) fn is_custom(resource: &Resource) -> bool {
    let Resource { group, version, resource } = resource;
    group.contains('.')
        && names::is_subdomain(group)
        && names::is_label(version)
        && names::is_label(resource)
}
