//! The limits of the ledger, and the shares of its tenants.
//!
//! A tenant is a namespace, and a user: a request counts in the shares of both. A share is at most
//! half of what the others leave, so that no tenant, and no series of tenants, uses all of it.

use std::collections::BTreeMap;
use std::fmt;

use crate::change::Tenant;

/// The limits of all entries together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Entries.
    pub entries: usize,
    /// Bytes of the entries in their encoding. The ledger has at most
    /// [`MAX_DOCUMENT_BYTES`](crate::MAX_DOCUMENT_BYTES) with all the rest.
    pub bytes: usize,
    /// Bytes of a projection that is part of its entry. A larger one is there by reference.
    pub projection_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 2_048, bytes: 448 << 10, projection_bytes: 28 << 10 }
    }
}

/// Number and bytes of entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Usage {
    /// Entries.
    pub entries: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Usage {
    /// The used share of the limits in percent; the larger one of number and bytes.
    #[must_use]
    pub fn percent_of(self, limits: Limits) -> usize {
        let percent =
            |used: usize, of: usize| used.saturating_mul(100).checked_div(of).unwrap_or_default();
        percent(self.entries, limits.entries).max(percent(self.bytes, limits.bytes))
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let entries = self.entries.saturating_add(other.entries);
        Self { entries, bytes: self.bytes.saturating_add(other.bytes) }
    }

    fn minus(self, other: Self) -> Self {
        let entries = self.entries.saturating_sub(other.entries);
        Self { entries, bytes: self.bytes.saturating_sub(other.bytes) }
    }

    /// Whether a share can be used up: with less than half of the limits in use, none is.
    pub(crate) fn is_crowded(self, limits: Limits) -> bool {
        let bytes = self.bytes.saturating_add(limits.projection_bytes);
        self.entries >= limits.entries / 2 || bytes >= limits.bytes / 2
    }

    /// Whether a tenant that uses this much of `all` may use `more`: up to half of what the others
    /// leave.
    fn admits(self, more: Self, all: Self, limits: Limits) -> bool {
        let (wanted, others) = (self.plus(more), all.minus(self));
        let entries = limits.entries.saturating_sub(others.entries) / 2;
        let bytes = limits.bytes.saturating_sub(others.bytes) / 2;
        (more.entries == 0 || wanted.entries <= entries) && wanted.bytes <= bytes
    }
}

/// A namespace or a user.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Share {
    Namespace(Box<str>),
    User(Box<str>),
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(name) => write!(f, "namespace {name}"),
            Self::User(name) => write!(f, "user {name}"),
        }
    }
}

fn shares(tenant: &Tenant) -> impl Iterator<Item = Share> {
    let namespace = Some(&tenant.namespace).filter(|namespace| !namespace.is_empty());
    let namespace = namespace.cloned().map(Share::Namespace);
    namespace.into_iter().chain([Share::User(tenant.user.clone())])
}

/// Usage by tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct TenantUsage {
    all: Usage,
    by_share: BTreeMap<Share, Usage>,
}

impl TenantUsage {
    /// Whether more of a tenant fits.
    pub(crate) fn admits(&self, tenant: &Tenant, more: Usage, limits: Limits) -> bool {
        shares(tenant).all(|share| {
            let used = self.by_share.get(&share).copied().unwrap_or_default();
            used.admits(more, self.all, limits)
        })
    }

    pub(crate) fn add(&mut self, tenant: &Tenant, more: Usage) {
        self.all = self.all.plus(more);
        for share in shares(tenant) {
            let used = self.by_share.entry(share).or_default();
            *used = used.plus(more);
        }
    }

    pub(crate) fn remove(&mut self, tenant: &Tenant, less: Usage) {
        self.all = self.all.minus(less);
        for share in shares(tenant) {
            let Some(used) = self.by_share.get_mut(&share) else { continue };
            *used = used.minus(less);
            if *used == Usage::default() {
                self.by_share.remove(&share);
            }
        }
    }

    /// The namespaces and users with the most entries, at most `count`.
    pub(crate) fn largest(&self, count: usize) -> Vec<(String, Usage)> {
        let mut all: Vec<_> = self.by_share.iter().collect();
        all.sort_by_key(|(_, used)| std::cmp::Reverse((used.entries, used.bytes)));
        all.into_iter().take(count).map(|(share, used)| (share.to_string(), *used)).collect()
    }

    pub(crate) fn all(&self) -> Usage {
        self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Usage = Usage { entries: 1, bytes: 100 };

    fn tenant(namespace: &str, user: &str) -> Tenant {
        Tenant { namespace: namespace.into(), user: user.into() }
    }

    #[test]
    fn series_of_tenants_leaves_room() {
        let limits = Limits { entries: 512, bytes: 1 << 20, projection_bytes: 0 };
        let mut usage = TenantUsage::default();
        let mut fill = |tenant: &Tenant| {
            let mut made = 0;
            while usage.admits(tenant, ONE, limits) {
                usage.add(tenant, ONE);
                made += 1;
            }
            made
        };
        assert_eq!(fill(&tenant("a", "eve")), 256);
        for other in ["b", "c", "d"] {
            assert_eq!(fill(&tenant("a", other)), 0, "the namespace is full");
            assert_eq!(fill(&tenant(other, "eve")), 0, "the user is full");
        }
        assert_eq!(fill(&tenant("b", "bob")), 128);
        assert_eq!(fill(&tenant("", "carol")), 64);
        assert_eq!(fill(&tenant("", "dan")), 32);
    }

    #[test]
    fn removed_entries_leave_no_trace() {
        let mut usage = TenantUsage::default();
        usage.add(&tenant("a", "eve"), ONE);
        assert_eq!(usage.largest(9).len(), 2);
        usage.remove(&tenant("a", "eve"), ONE);
        assert_eq!(usage, TenantUsage::default());
    }
}
