//! The last reviews with violations or policy errors, in limited memory.
//!
//! ```text
//! record ─▶ tenant: its reviews, oldest first, at most a tenth of the memory ─▶ by_tenant
//!              └─ without room: the oldest review of the tenant with the most is dropped
//! ```
//!
//! A tenant is the namespace of a request, or its user if there is none. Its reviews replace its own
//! before those of others, so that those of others stay visible.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::reported_review::ReportedReview;

/// Maximum bytes of all reviews, and of one tenant.
const MAX_BYTES: usize = 1 << 20;
const MAX_TENANT_BYTES: usize = MAX_BYTES / 10;

/// Every review counts at least this much, so that the bytes also limit their number.
const MIN_REVIEW_BYTES: usize = 1 << 10;

/// Older reviews are dropped.
const MAX_AGE: Duration = Duration::from_secs(3_600);

/// The namespace of reviews, or their user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum LogTenant {
    Namespace(String),
    User(String),
}

impl LogTenant {
    fn of(review: &ReportedReview) -> Self {
        if review.namespace.is_empty() {
            Self::User(review.user.clone())
        } else {
            Self::Namespace(review.namespace.clone())
        }
    }
}

/// A review with its number, which counts up.
#[derive(Debug, Clone)]
struct NumberedReview {
    number: u64,
    bytes: usize,
    review: Arc<ReportedReview>,
}

#[derive(Debug, Default)]
struct TenantLog {
    /// Oldest first.
    reviews: VecDeque<NumberedReview>,
    bytes: usize,
    /// Reviews that were dropped for newer ones while others of this tenant were kept.
    dropped: u64,
}

impl TenantLog {
    /// Drops the oldest review; returns its bytes.
    fn drop_oldest(&mut self) -> usize {
        let bytes = self.reviews.pop_front().map_or(0, |review| review.bytes);
        self.bytes -= bytes;
        bytes
    }

    fn oldest(&self) -> u64 {
        self.reviews.front().map_or(u64::MAX, |review| review.number)
    }
}

#[derive(Debug, Default)]
struct LogState {
    tenants: HashMap<LogTenant, TenantLog>,
    bytes: usize,
    last: u64,
}

impl LogState {
    fn expire(&mut self, now: SystemTime) {
        let bytes = &mut self.bytes;
        self.tenants.retain(|_, log| {
            let is_old = |review: &NumberedReview| {
                now.duration_since(review.review.at).is_ok_and(|age| age > MAX_AGE)
            };
            while log.reviews.front().is_some_and(is_old) {
                *bytes -= log.drop_oldest();
            }
            !log.reviews.is_empty()
        });
    }

    /// Drops the oldest review of the tenant with the most bytes, and of these the oldest.
    fn drop_one(&mut self) -> bool {
        let largest = self.tenants.iter().max_by_key(|(_, log)| (log.bytes, Reverse(log.oldest())));
        let Some(tenant) = largest.map(|(tenant, _)| tenant.clone()) else { return false };
        if let Some(log) = self.tenants.get_mut(&tenant) {
            self.bytes -= log.drop_oldest();
            log.dropped += 1;
            if log.reviews.is_empty() {
                self.tenants.remove(&tenant);
            }
        }
        true
    }
}

/// The reviews of a tenant.
#[derive(Debug)]
pub(super) struct TenantReviews {
    pub(super) tenant: LogTenant,
    /// Newest first, with their numbers.
    pub(super) reviews: Vec<(u64, Arc<ReportedReview>)>,
    /// The number of reviews that were dropped for newer ones.
    pub(super) dropped: u64,
}

impl TenantReviews {
    /// The number of reviews, with the dropped ones.
    pub(super) fn total(&self) -> u64 {
        u64::try_from(self.reviews.len()).unwrap_or(u64::MAX).saturating_add(self.dropped)
    }
}

/// The last reviews with violations or policy errors.
#[derive(Debug, Default)]
pub(super) struct ReviewLog(Mutex<LogState>);

impl ReviewLog {
    /// Adds a review.
    pub(super) fn record(&self, review: ReportedReview, now: SystemTime) {
        let bytes = review.bytes().max(MIN_REVIEW_BYTES);
        let tenant = LogTenant::of(&review);
        let mut state = self.0.lock();
        if state.bytes + bytes > MAX_BYTES {
            state.expire(now);
        }
        let mut freed = 0;
        if let Some(log) = state.tenants.get_mut(&tenant) {
            while log.bytes + bytes > MAX_TENANT_BYTES && !log.reviews.is_empty() {
                freed += log.drop_oldest();
                log.dropped += 1;
            }
        }
        state.bytes -= freed;
        while state.bytes + bytes > MAX_BYTES && state.drop_one() {}
        state.last += 1;
        let review = NumberedReview { number: state.last, bytes, review: Arc::new(review) };
        state.bytes += bytes;
        let log = state.tenants.entry(tenant).or_default();
        log.bytes += bytes;
        log.reviews.push_back(review);
    }

    /// Copies the reviews of the last hour, in the order of their tenants.
    pub(super) fn by_tenant(&self, now: SystemTime) -> Vec<TenantReviews> {
        let mut state = self.0.lock();
        state.expire(now);
        let copies = state.tenants.iter().map(|(tenant, log)| {
            let reviews = log.reviews.iter().rev().map(|r| (r.number, r.review.clone()));
            (tenant.clone(), reviews.collect(), log.dropped)
        });
        let copies: Vec<_> = copies.collect();
        drop(state);
        let mut all: Vec<_> = copies
            .into_iter()
            .map(|(tenant, reviews, dropped)| TenantReviews { tenant, reviews, dropped })
            .collect();
        all.sort_by(|a, b| a.tenant.cmp(&b.tenant));
        all
    }
}

/// Orders the reviews with their numbers fairly: the newest of each tenant, then the second of each, and
/// in this order newer ones first.
pub(super) fn order_fairly(all: &[TenantReviews]) -> Vec<(u64, &ReportedReview)> {
    let mut ranked: Vec<_> = all
        .iter()
        .flat_map(|tenant| tenant.reviews.iter().enumerate())
        .map(|(rank, (number, review))| (rank, *number, review.as_ref()))
        .collect();
    ranked.sort_by_key(|(rank, number, _)| (*rank, Reverse(*number)));
    ranked.into_iter().map(|(_, number, review)| (number, review)).collect()
}

#[cfg(test)]
mod tests;
