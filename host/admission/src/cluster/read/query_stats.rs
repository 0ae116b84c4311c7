//! Statistics of the queries of one call, which show what a verdict is based on.

use opgate_engine::wit::GroupVersionResource;

/// Maximum number of counted resources; a policy that queries more of them queries some that it
/// did not declare.
const MAX_RESOURCES: usize = 64;

/// The queries of a call about one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryStats {
    /// `group/version/resource`; the core group is left out.
    pub resource: String,
    /// Queries; each page of an answer counts.
    pub queries: u64,
    /// Queries without a result: there is no cluster, or nothing is known of the resource.
    pub without_result: u64,
    /// Objects in the results.
    pub objects: u64,
}

impl QueryStats {
    fn of(asked: &GroupVersionResource) -> Self {
        let GroupVersionResource { group, version, resource } = asked;
        let dash = if group.is_empty() { "" } else { "/" };
        let resource = opgate_text::one_line(&format!("{group}{dash}{version}/{resource}"), 512);
        Self { resource, queries: 0, without_result: 0, objects: 0 }
    }
}

/// Counts the queries of a call.
#[derive(Debug, Default)]
pub(in crate::cluster) struct QueryCounter(Vec<(GroupVersionResource, QueryStats)>);

impl QueryCounter {
    /// Counts a query: with this number of objects, or without a result.
    pub(in crate::cluster) fn count(
        &mut self,
        resource: &GroupVersionResource,
        objects: Option<usize>,
    ) {
        let is_it = |(known, _): &(GroupVersionResource, QueryStats)| {
            known.resource == resource.resource
                && known.group == resource.group
                && known.version == resource.version
        };
        let known = self.0.iter().position(is_it);
        if known.is_none() && self.0.len() < MAX_RESOURCES {
            self.0.push((resource.clone(), QueryStats::of(resource)));
        }
        let place = known.unwrap_or(self.0.len().saturating_sub(1));
        let Some((_, tally)) = self.0.get_mut(place).filter(|known| is_it(known)) else { return };
        tally.queries = tally.queries.saturating_add(1);
        match objects {
            Some(count) => {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                tally.objects = tally.objects.saturating_add(count);
            }
            None => tally.without_result = tally.without_result.saturating_add(1),
        }
    }

    /// The counts, in the order of the first query.
    pub(in crate::cluster) fn into_list(self) -> Vec<QueryStats> {
        self.0.into_iter().map(|(_, tally)| tally).collect()
    }
}
