//! The objects that policies read for a review, by resource.

use std::collections::BTreeMap;

use opgate_admission::cluster::QueryStats;
use opgate_admission::policy::Policy;
use parking_lot::Mutex;

/// Maximum number of resources of a review that are kept.
const MAX_RESOURCES: usize = 6;

/// The objects of one resource that policies read for a review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResourceRead {
    /// `group/version/resource`.
    pub(super) resource: String,
    pub(super) objects: u64,
    /// Queries without a result.
    pub(super) failed: u64,
}

/// The queries of each policy, while a review is evaluated.
#[derive(Debug, Default)]
pub(crate) struct ReviewReads(Mutex<BTreeMap<String, Vec<QueryStats>>>);

impl ReviewReads {
    /// Records the queries of a call. A repeated call replaces the earlier one.
    pub(crate) fn record(&self, policy: &Policy, queries: Vec<QueryStats>) {
        self.0.lock().insert(policy.name.clone(), queries);
    }

    /// Returns the resources with the most objects.
    pub(super) fn by_resource(&self) -> Vec<ResourceRead> {
        summarize(self.0.lock().values().flatten())
    }
}

fn summarize<'q>(queries: impl Iterator<Item = &'q QueryStats>) -> Vec<ResourceRead> {
    let mut found = BTreeMap::<&str, (u64, u64)>::new();
    for query in queries {
        let (objects, failed) = found.entry(&query.resource).or_default();
        *objects += query.objects;
        *failed += query.without_result;
    }
    let mut reads: Vec<_> = found
        .into_iter()
        .map(|(resource, (objects, failed))| {
            let resource = resource.trim_start_matches('/').to_owned();
            ResourceRead { resource, objects, failed }
        })
        .collect();
    reads.sort_by_key(|read| std::cmp::Reverse(read.objects));
    reads.truncate(MAX_RESOURCES);
    reads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_summed_by_resource_and_limited() {
        let query = |resource: &str, objects, without_result| QueryStats {
            resource: resource.to_owned(),
            queries: 1,
            without_result,
            objects,
        };
        let mut queries: Vec<_> = (0..20).map(|n| query(&format!("g/v1/r{n}"), n, 0)).collect();
        queries.extend([query("v1/namespaces", 30, 0), query("v1/namespaces", 4, 2)]);
        let reads = summarize(queries.iter());
        let first = ResourceRead { resource: "v1/namespaces".to_owned(), objects: 34, failed: 2 };
        assert_eq!(reads[0], first);
        assert_eq!(reads.len(), MAX_RESOURCES);
        assert_eq!(reads[1].resource, "g/v1/r19");
    }
}
