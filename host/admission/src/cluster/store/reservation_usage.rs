//! The usage of reservations by tenant: for messages, `/readyz?verbose`, metrics and
//! `opgate doctor`.

use crate::cluster::{ClusterState, ReservationLimitReached, ResourceCache};

/// Maximum number of tenants of one resource that are named.
const MAX_TENANTS: usize = 5;

/// Maximum bytes of the name of a tenant that are printed.
const MAX_NAME_BYTES: usize = 253;

/// The reservations of one namespace or one user in one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationUsage {
    /// The resource.
    pub resource: String,
    /// `namespace NAME` or `user NAME`.
    pub tenant: String,
    /// Requests.
    pub count: usize,
    /// Bytes.
    pub bytes: usize,
    /// Maximum number of requests that it may reserve now: half of what the others leave.
    pub limit_count: usize,
    /// Maximum number of bytes that it may reserve now.
    pub limit_bytes: usize,
}

impl ClusterState {
    /// The tenants with the most reservations, the largest first, a few of each resource.
    #[must_use]
    pub fn reservation_usage(&self) -> Vec<ReservationUsage> {
        self.caches.iter().flat_map(|cache| self.usage_of(cache)).collect()
    }

    fn usage_of(&self, cache: &ResourceCache) -> Vec<ReservationUsage> {
        let (limits, all) = (self.options.reservation_limits, cache.reservation_usage());
        let largest = cache.largest_tenants(MAX_TENANTS).into_iter();
        let usage = largest.map(|(tenant, usage)| {
            let share = usage.share(all, limits);
            ReservationUsage {
                resource: cache.name().to_owned(),
                tenant: opgate_text::one_line(&tenant, MAX_NAME_BYTES),
                count: usage.count,
                bytes: usage.bytes,
                limit_count: share.count,
                limit_bytes: share.bytes,
            }
        });
        usage.collect()
    }

    /// Reports the tenants that use the reservations of a resource.
    pub(in crate::cluster) fn reservation_limit_error(
        &self,
        cache: &ResourceCache,
    ) -> ReservationLimitReached {
        let (limits, all) = (self.options.reservation_limits, cache.reservation_usage());
        let largest: Vec<_> = self.usage_of(cache).into_iter().take(2).collect();
        let largest = largest.iter().map(|usage| format!("{} of {}", usage.count, usage.tenant));
        let why = format!(
            "{} of {} places and {} of {} KiB for changes of {} are in use ({}), and a namespace or user has at \
             most half of the rest",
            all.count,
            limits.count,
            all.bytes.div_ceil(1_024),
            limits.bytes / 1_024,
            cache.name(),
            largest.collect::<Vec<_>>().join(", "),
        );
        ReservationLimitReached { reason: why }
    }
}
