//! The limits of reservations of one resource, and the shares of its tenants.
//!
//! A tenant is a namespace, and a user: a request counts in the shares of both. A share is at most
//! half of what the others leave, so that no tenant, and no series of tenants, uses all of it.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// The limits of reservations in one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservationLimits {
    /// Requests.
    pub count: usize,
    /// Bytes of the stored parts of their objects.
    pub bytes: usize,
}

impl ReservationLimits {
    /// For clients that an API server authenticates.
    pub const AUTHENTICATED: Self = Self { count: 4_096, bytes: 16 << 20 };
    /// For clients that are not authenticated. The conflicts of an ordinary cluster fit.
    pub const UNAUTHENTICATED: Self = Self { count: 512, bytes: 2 << 20 };

    /// Maximum size of an object that is kept whole. For a larger one, an outline is kept.
    pub(in crate::cluster) fn max_whole_bytes(self) -> usize {
        self.bytes / 16
    }

    /// The limits for all resources together: twice those of one.
    pub(in crate::cluster) fn for_all_resources(self) -> Self {
        Self { count: self.count.saturating_mul(2), bytes: self.bytes.saturating_mul(2) }
    }
}

/// Number and size of reservations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::cluster) struct Usage {
    pub(in crate::cluster) count: usize,
    pub(in crate::cluster) bytes: usize,
}

impl Usage {
    pub(in crate::cluster) fn plus(self, other: Self) -> Self {
        let count = self.count.saturating_add(other.count);
        Self { count, bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn minus(self, other: Self) -> Self {
        let count = self.count.saturating_sub(other.count);
        Self { count, bytes: self.bytes.saturating_sub(other.bytes) }
    }

    /// The share of a tenant that uses this much of `all`: half of what the others leave.
    pub(in crate::cluster) fn share(self, all: Self, limits: ReservationLimits) -> Self {
        let others = all.minus(self);
        let count = limits.count.saturating_sub(others.count) / 2;
        Self { count, bytes: limits.bytes.saturating_sub(others.bytes) / 2 }
    }

    /// Whether a tenant that uses this much of `all` may use `more`.
    pub(in crate::cluster) fn admits(
        self,
        more: Self,
        all: Self,
        limits: ReservationLimits,
    ) -> bool {
        let (wanted, share) = (self.plus(more), self.share(all, limits));
        let needs_no_place = more.count == 0;
        (needs_no_place || wanted.count <= share.count) && wanted.bytes <= share.bytes
    }
}

/// The namespace (empty for cluster-scoped objects) and the user of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cluster) struct Tenant {
    pub(in crate::cluster) namespace: Box<str>,
    pub(in crate::cluster) user: Arc<str>,
}

/// Usage by tenant.
#[derive(Debug, Default)]
pub(super) struct TenantUsage {
    all: Usage,
    by_namespace: HashMap<Box<str>, Usage>,
    by_user: HashMap<Arc<str>, Usage>,
}

impl TenantUsage {
    pub(super) fn all(&self) -> Usage {
        self.all
    }

    /// The usage of the namespace and of the user.
    pub(super) fn of(&self, tenant: &Tenant) -> [Usage; 2] {
        let namespace = self.by_namespace.get(&tenant.namespace).copied().unwrap_or_default();
        [namespace, self.by_user.get(&tenant.user).copied().unwrap_or_default()]
    }

    /// Whether a request of this size fits into the shares of its tenant.
    pub(super) fn admits(&self, tenant: &Tenant, more: Usage, limits: ReservationLimits) -> bool {
        let [namespace, user] = self.of(tenant);
        let is_cluster_scoped = tenant.namespace.is_empty();
        (is_cluster_scoped || namespace.admits(more, self.all, limits))
            && user.admits(more, self.all, limits)
    }

    pub(super) fn add(&mut self, tenant: &Tenant, more: Usage) {
        self.all = self.all.plus(more);
        let namespace = self.by_namespace.entry(tenant.namespace.clone()).or_default();
        *namespace = namespace.plus(more);
        let user = self.by_user.entry(tenant.user.clone()).or_default();
        *user = user.plus(more);
    }

    pub(super) fn remove(&mut self, tenant: &Tenant, less: Usage) {
        self.all = self.all.minus(less);
        subtract_usage(&mut self.by_namespace, &*tenant.namespace, less);
        subtract_usage(&mut self.by_user, &*tenant.user, less);
    }

    /// The namespaces and users with the most requests, at most `count` of each, with their usage.
    pub(super) fn largest(&self, count: usize) -> Vec<(String, Usage)> {
        let namespaces = self.by_namespace.iter().filter(|(namespace, _)| !namespace.is_empty());
        let namespaces = namespaces.map(|(name, usage)| (format!("namespace {name}"), *usage));
        let users = self.by_user.iter().map(|(name, usage)| (format!("user {name}"), *usage));
        let mut all: Vec<_> = namespaces.chain(users).collect();
        all.sort_by(|(left, a), (right, b)| {
            (b.count, b.bytes).cmp(&(a.count, a.bytes)).then_with(|| left.cmp(right))
        });
        all.truncate(count);
        all
    }
}

fn subtract_usage<K, Q>(usages: &mut HashMap<K, Usage>, tenant: &Q, less: Usage)
where
    K: Borrow<Q> + Hash + Eq,
    Q: Hash + Eq + ?Sized,
{
    let Some(usage) = usages.get_mut(tenant) else { return };
    *usage = usage.minus(less);
    if usage.count == 0 {
        usages.remove(tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(namespace: &str, user: &str) -> Tenant {
        Tenant { namespace: namespace.into(), user: user.into() }
    }

    #[test]
    fn tenant_share_is_half_of_the_free_reservations() {
        let limits = ReservationLimits { count: 512, bytes: 1 << 20 };
        let one = Usage { count: 1, bytes: 100 };
        let mut room = TenantUsage::default();
        let mut fill = |tenant: &Tenant| {
            let mut made = 0;
            while room.admits(tenant, one, limits) {
                room.add(tenant, one);
                made += 1;
            }
            made
        };
        // A user in four namespaces is one tenant, and so is a namespace with four users.
        assert_eq!(fill(&tenant("a", "eve")), 256);
        for other in ["b", "c", "d"] {
            assert_eq!(fill(&tenant(other, "eve")), 0);
            assert_eq!(fill(&tenant("a", other)), 0);
        }
        assert_eq!(fill(&tenant("b", "bob")), 128);
        assert_eq!(fill(&tenant("", "carol")), 64);
        assert_eq!(fill(&tenant("", "dan")), 32);
        assert_eq!(fill(&tenant("e", "erin")), 16);
    }

    #[test]
    fn large_request_counts_before_it_is_admitted() {
        let limits = ReservationLimits { count: 512, bytes: 1 << 20 };
        let room = TenantUsage::default();
        let tenant = tenant("a", "eve");
        for (bytes, expected) in [(1 << 19, true), ((1 << 19) + 1, false), (3 << 20, false)] {
            assert_eq!(room.admits(&tenant, Usage { count: 1, bytes }, limits), expected);
        }
    }

    #[test]
    fn released_reservations_are_forgotten() {
        let (tenant, usage) = (tenant("a", "eve"), Usage { count: 1, bytes: 100 });
        let mut room = TenantUsage::default();
        room.add(&tenant, usage);
        assert_eq!(room.largest(9).len(), 2);
        room.remove(&tenant, usage);
        assert_eq!((room.all(), room.largest(9).len()), (Usage::default(), 0));
        assert!(room.by_namespace.is_empty() && room.by_user.is_empty());
    }
}
