//! The cluster cache of a server, for reports: `/policies`, `/readyz?verbose`, the Lease of the
//! server, and the doctor, which reads the first and the last.
//!
//! ```text
//! Cluster ─▶ ClusterStatus ─┬▶ /policies: all of it
//!                           ├▶ /readyz?verbose: tenants that have nearly used their reservations
//!                           └▶ troubles ─▶ annotation of the Lease ─▶ doctor
//! ```

use opgate_admission::cluster::{
    CacheStatus, ClusterState, ReservationUsage, ResourceCache, ResourceStatus, Source,
};
use opgate_admission::policy::PolicySet;
use opgate_text::one_line;
use serde::{Deserialize, Serialize};

/// A tenant that uses this share of the reservations that it may have is nearly at its limit.
pub const NEARLY_FULL_PERCENT: usize = 80;

/// Maximum entries of each list of troubles, and maximum bytes of a text.
const MAX_PROBLEMS: usize = 8;
const MAX_TEXT_BYTES: usize = 256;

/// Whether the cluster cache of a resource is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ResourceCacheStatus {
    /// It is ready.
    Current,
    /// It is ready, but can be outdated: the watch fails.
    Interrupted,
    /// The API server does not know the resource.
    NotInstalled,
    /// Policies work without it: permission to read it is optional, or its server is down.
    LeftOut,
    /// The first list has not ended.
    Listing,
    /// It was never listed.
    Unseen,
    /// The last contact was too long ago.
    Stale,
    /// A state of another version of opgate.
    #[default]
    #[serde(other)]
    Other,
}

/// A resource that policies read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceState {
    /// `operators.coreos.com/v1/operatorgroups`
    pub resource: String,
    /// Whether its cache is ready.
    pub state: ResourceCacheStatus,
    /// Whether the API server does not accept the token of the server.
    pub unauthorized: bool,
    /// The reason why not, or the error.
    pub error: Option<String>,
    /// The policies that read it.
    pub needed_by: Vec<String>,
}

/// The reservations of one tenant of one resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReservationState {
    /// The resource.
    pub resource: String,
    /// Namespace and user.
    pub tenant: String,
    /// The used share of its limit in percent; the larger one of number and bytes.
    pub percent: usize,
    /// Reservations and bytes, and their limits; none in troubles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<[usize; 4]>,
}

/// The cluster cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// The state of each resource.
    pub resources: Vec<ResourceState>,
    /// The tenants with the most reservations.
    pub reservations: Vec<ReservationState>,
    /// The reason why the ledger of all servers cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger_problem: Option<String>,
    /// Whether the reservations of this server are not shared with others.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub local_reservations: bool,
}

impl ClusterStatus {
    /// Returns the state of a set.
    #[must_use]
    pub fn of(set: &PolicySet) -> Self {
        let cluster = set.cluster();
        if cluster.options().source != Source::Live {
            return Self::default();
        }
        let resources = cluster.caches().iter().map(|cache| {
            let status = cache.status();
            ResourceState {
                resource: cache.name().to_owned(),
                state: cache_status(&status),
                unauthorized: status.unauthorized,
                error: status.error.as_deref().map(|error| one_line(error, 1_024)),
                needed_by: needed_by(set, cache),
            }
        });
        let reservations = reservation_usages(cluster).into_iter().map(|usage| ReservationState {
            percent: usage_percent(&usage),
            used: Some([usage.count, usage.bytes, usage.limit_count, usage.limit_bytes]),
            tenant: one_line(&usage.tenant, MAX_TEXT_BYTES),
            resource: usage.resource,
        });
        Self {
            resources: resources.collect(),
            reservations: reservations.collect(),
            ledger_problem: ledger_problem(cluster),
            local_reservations: cluster.ledger_status().is_none(),
        }
    }

    /// Returns only problems, in few bytes. The result is equal as long as the problems are: an
    /// annotation changes with it.
    #[must_use]
    pub fn problems(set: &PolicySet) -> Option<Self> {
        let cluster = set.cluster();
        if cluster.options().source != Source::Live {
            return None;
        }
        let wrong = |cache: &std::sync::Arc<ResourceCache>| {
            let status = cache.status();
            let state = cache_status(&status);
            (state.is_problem() || status.unauthorized).then(|| ResourceState {
                resource: cache.name().to_owned(),
                state,
                unauthorized: status.unauthorized,
                error: status.cause.as_deref().map(|cause| one_line(cause, MAX_TEXT_BYTES)),
                needed_by: Vec::new(),
            })
        };
        let resources: Vec<_> =
            cluster.caches().iter().filter_map(wrong).take(MAX_PROBLEMS).collect();
        let full = reservation_usages(cluster)
            .into_iter()
            .filter(|usage| usage_percent(usage) >= NEARLY_FULL_PERCENT);
        let reservations = full.take(MAX_PROBLEMS).map(|usage| ReservationState {
            percent: usage_percent(&usage) / 10 * 10,
            used: None,
            tenant: one_line(&usage.tenant, MAX_TEXT_BYTES),
            resource: usage.resource,
        });
        let reservations = reservations.collect();
        // That of a new ledger ends by itself, and its text changes with each second.
        let ledger_problem = if cluster.is_ledger_new() { None } else { ledger_problem(cluster) };
        let local_reservations = cluster.ledger_status().is_none();
        let troubles = Self { resources, reservations, ledger_problem, local_reservations };
        (troubles != Self::default()).then_some(troubles)
    }
}

impl ResourceCacheStatus {
    /// Whether the cache is not ready, or may soon become stale.
    #[must_use]
    pub fn is_problem(self) -> bool {
        matches!(self, Self::Interrupted | Self::Listing | Self::Unseen | Self::Stale)
    }
}

fn cache_status(status: &ResourceStatus) -> ResourceCacheStatus {
    match status.cache_status {
        CacheStatus::Listing | CacheStatus::NeverListed | CacheStatus::Stale
            if status.is_absence_tolerated =>
        {
            ResourceCacheStatus::LeftOut
        }
        CacheStatus::Listing => ResourceCacheStatus::Listing,
        CacheStatus::NeverListed => ResourceCacheStatus::Unseen,
        CacheStatus::Stale => ResourceCacheStatus::Stale,
        CacheStatus::Ready | CacheStatus::NotInstalled if status.interrupted.is_some() => {
            ResourceCacheStatus::Interrupted
        }
        CacheStatus::Ready => ResourceCacheStatus::Current,
        CacheStatus::NotInstalled => ResourceCacheStatus::NotInstalled,
    }
}

/// The reason why the ledger of all servers cannot be used, or soon cannot.
fn ledger_problem(cluster: &ClusterState) -> Option<String> {
    let status = cluster.ledger_status()?;
    if let Some(problem) = status.problem {
        return Some(one_line(&problem, MAX_TEXT_BYTES));
    }
    let tens = status.used_percent / 10 * 10;
    (tens >= NEARLY_FULL_PERCENT).then(|| format!("{tens} % of it are in use"))
}

/// The policies that read a resource.
pub(super) fn needed_by(set: &PolicySet, cache: &ResourceCache) -> Vec<String> {
    let reads =
        |read| set.cluster().cache_of(read).is_some_and(|of| std::ptr::eq(of.as_ref(), cache));
    let policies = set.policies().iter().filter(|policy| policy.reads.iter().any(reads));
    policies.map(|policy| policy.name.clone()).collect()
}

/// The tenants with the most reservations, those closest to their limit first.
pub(super) fn reservation_usages(cluster: &ClusterState) -> Vec<ReservationUsage> {
    let mut usages = cluster.reservation_usage();
    usages.sort_by_key(|usage| std::cmp::Reverse(usage_percent(usage)));
    usages
}

/// The used share of the limit of a tenant.
pub(super) fn usage_percent(usage: &ReservationUsage) -> usize {
    let part = |used: usize, of: usize| match of {
        0 if used == 0 => 0,
        0 => 100,
        of => used.saturating_mul(100).checked_div(of).unwrap_or_default(),
    };
    part(usage.count, usage.limit_count).max(part(usage.bytes, usage.limit_bytes))
}

/// A line for each tenant that is close to its limit.
pub(super) fn nearly_full_lines(cluster: &ClusterState) -> Vec<String> {
    let ledger = ledger_problem(cluster);
    let ledger = ledger.map(|problem| format!("[!]ledger of shared reservations: {problem}"));
    let full = reservation_usages(cluster);
    let full = full.iter().filter(|usage| usage_percent(usage) >= NEARLY_FULL_PERCENT);
    ledger.into_iter().chain(full.map(usage_line)).collect()
}

fn usage_line(usage: &ReservationUsage) -> String {
    let ReservationUsage { resource, count, bytes, limit_count, limit_bytes, .. } = usage;
    format!(
        "[!]reservations of {resource}: {} has {count} of {limit_count}, and {bytes} of {limit_bytes} bytes ({} %)",
        one_line(&usage.tenant, MAX_TEXT_BYTES),
        usage_percent(usage)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(count: usize, bytes: usize) -> ReservationUsage {
        ReservationUsage {
            resource: "v1/namespaces".to_owned(),
            tenant: "team-a, user\nx".to_owned(),
            count,
            bytes,
            limit_count: 50,
            limit_bytes: 1_000,
        }
    }

    #[test]
    fn usage_is_the_larger_share_of_count_and_bytes() {
        for (count, bytes, expected) in
            [(0, 0, 0), (25, 100, 50), (25, 900, 90), (50, 0, 100), (60, 0, 120)]
        {
            assert_eq!(usage_percent(&usage(count, bytes)), expected, "{count} {bytes}");
        }
        let none = |count| ReservationUsage { limit_count: 0, limit_bytes: 0, ..usage(count, 0) };
        assert_eq!((usage_percent(&none(0)), usage_percent(&none(1))), (0, 100));
        let shown = "[!]reservations of v1/namespaces: team-a, user x has 45 of 50, and 10 of 1000 bytes (90 %)";
        assert_eq!(usage_line(&usage(45, 10)), shown);
    }

    #[test]
    fn state_of_another_version_is_read() {
        let text = r#"{"resources":[{"resource":"a","state":"new","more":1}],"more":{}}"#;
        let state: ClusterStatus = serde_json::from_str(text).unwrap();
        assert_eq!(state.resources[0].state, ResourceCacheStatus::Other);
        assert!(!ResourceCacheStatus::Other.is_problem());
    }
}
