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

use std::sync::Arc;
use std::time::Duration;

use opgate_cluster::Resource;
use opgate_compat::names;
use opgate_document::Account;
use opgate_engine::reader::Sample;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::cluster::watch::direct_read_source::{DirectReadSource, SampleError, SampleRequest};
pub(in crate::cluster) use files::FileSamples;
pub use grants::{GrantError, SampleGrants};

/// Maximum number of reviews with samples at a time. Each holds at most [`MAX_REVIEW_SAMPLE_BYTES`].
const MAX_CONCURRENT_REVIEWS: usize = 2;

/// Maximum number of objects of a sample, see `wit/policy.wit`.
pub(in crate::cluster) const MAX_SAMPLE_OBJECTS: usize = 500;

/// Maximum number of lists for one review.
const MAX_LISTS_PER_REVIEW: usize = 8;

/// Maximum bytes of the objects of a sample, and of all samples of a review. A policy has 100 ms
/// of CPU time for all of them.
pub(in crate::cluster) const MAX_SAMPLE_BYTES: usize = 4 << 20;
const MAX_REVIEW_SAMPLE_BYTES: usize = 8 << 20;

/// The index of an object takes memory in addition to its text.
const INDEX_MEMORY_FACTOR: usize = 2;

/// Time that remains for the policies after the lists: this, or a part of the remaining time.
const MAX_MARGIN: Duration = Duration::from_secs(1);
const MARGIN_DIVISOR: u32 = 4;

/// Permits that limit the samples of the process.
#[derive(Debug, Clone)]
pub(crate) struct SamplePermits(Arc<Semaphore>);

impl Default for SamplePermits {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CONCURRENT_REVIEWS)))
    }
}

/// One sample, or the reason why there is none.
#[derive(Debug, Clone)]
struct Entry {
    resource: Resource,
    limit: usize,
    result: Result<Arc<Sample>, SampleError>,
}

/// The samples of one review.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    entries: Vec<Entry>,
    lists: usize,
    bytes: usize,
    account: Option<Arc<Account>>,
    /// Held until the review is decided.
    permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl Samples {
    /// The result for a policy; `None` if it must be listed first.
    pub(in crate::cluster) fn get(
        &self,
        resource: &Resource,
        limit: usize,
    ) -> Option<Result<Sample, SampleError>> {
        let entry = self.entries.iter().find(|entry| entry.resource == *resource)?;
        let sample = match &entry.result {
            Ok(sample) => sample,
            Err(why) => return Some(Err(why.clone())),
        };
        // It may have ended because fewer objects were requested.
        let is_short = !sample.complete && sample.objects.len() >= entry.limit;
        if is_short && limit > entry.limit && self.lists < MAX_LISTS_PER_REVIEW {
            return None;
        }
        let objects = sample.objects.iter().take(limit).cloned().collect();
        let complete = sample.complete && sample.objects.len() <= limit;
        Some(Ok(Sample { objects, complete }))
    }

    fn put(&mut self, resource: Resource, limit: usize, found: Result<Arc<Sample>, SampleError>) {
        self.entries.retain(|entry| entry.resource != resource);
        self.entries.push(Entry { resource, limit, result: found });
    }

    /// Lists the wanted samples, one resource after the other. Each has a result afterwards.
    pub(crate) async fn fetch(
        &mut self,
        needed_samples: &[(Resource, usize)],
        api: Option<(&dyn DirectReadSource, &SamplePermits)>,
        payer: Option<&Arc<Account>>,
        deadline: Instant,
    ) {
        for (resource, limit) in needed_samples {
            // Several policies may want the same one.
            if self.get(resource, *limit).is_none() {
                let found = self.fetch_one(resource, *limit, api, payer, deadline).await;
                self.put(resource.clone(), *limit, found.map(Arc::new));
            }
        }
    }

    async fn fetch_one(
        &mut self,
        resource: &Resource,
        limit: usize,
        api: Option<(&dyn DirectReadSource, &SamplePermits)>,
        payer: Option<&Arc<Account>>,
        deadline: Instant,
    ) -> Result<Sample, SampleError> {
        let unavailable = |why: String| Err(SampleError::Unavailable(format!("{resource}: {why}")));
        let Some((api, places)) = api else {
            return unavailable("there is no API server to ask".to_owned());
        };
        if self.lists >= MAX_LISTS_PER_REVIEW {
            return unavailable(format!("more than {MAX_LISTS_PER_REVIEW} lists for one review"));
        }
        let left = MAX_REVIEW_SAMPLE_BYTES.saturating_sub(self.bytes);
        if left == 0 {
            return unavailable(format!(
                "more than {MAX_REVIEW_SAMPLE_BYTES} bytes for one review"
            ));
        }
        let now = Instant::now();
        let margin = MAX_MARGIN.min(deadline.saturating_duration_since(now) / MARGIN_DIVISOR);
        let until = deadline.checked_sub(margin).unwrap_or(now);
        if self.permit.is_none() {
            let place = tokio::time::timeout_at(until, places.0.clone().acquire_owned()).await;
            let Ok(Ok(place)) = place else {
                return Err(SampleError::Busy(format!(
                    "too many reviews wait for a list of custom resources, such as {resource}"
                )));
            };
            self.permit = Some(Arc::new(place));
        }
        if self.account.is_none() {
            let most = MAX_REVIEW_SAMPLE_BYTES.saturating_mul(INDEX_MEMORY_FACTOR);
            self.account = payer.map(|payer| Account::child(payer, most));
        }
        self.lists = self.lists.saturating_add(1);
        let (account, bytes) = (self.account.clone(), MAX_SAMPLE_BYTES.min(left));
        let sample_request =
            SampleRequest { resource: resource.clone(), limit, bytes, deadline: until, account };
        let started = Instant::now();
        let found = api.sample(&sample_request).await;
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
pub(in crate::cluster) fn is_custom_resource(resource: &Resource) -> bool {
    let Resource { group, version, resource } = resource;
    group.contains('.')
        && names::is_subdomain(group)
        && names::is_label(version)
        && names::is_label(resource)
}
