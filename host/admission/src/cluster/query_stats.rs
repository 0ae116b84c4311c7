//! Statistics of the queries of one call, which show what a verdict is based on.

use opgate_engine::wit::GroupVersionResource;

/// Maximum number of counted resources; a policy that queries more of them queries some that it
/// did not declare.
const MOST: usize = 64;

/// The queries of a call about one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// `group/version/resource`; the core group is left out.
    pub resource: String,
    /// Queries; each page of an answer counts.
    pub queries: u64,
    /// Queries without a result: there is no cluster, or nothing is known of the resource.
    pub unanswered: u64,
    /// Objects in the results.
    pub objects: u64,
}

impl Tally {
    fn of(asked: &GroupVersionResource) -> Self {
        let GroupVersionResource { group, version, resource } = asked;
        let dash = if group.is_empty() { "" } else { "/" };
        let resource = opgate_text::one_line(&format!("{group}{dash}{version}/{resource}"), 512);
        Self { resource, queries: 0, unanswered: 0, objects: 0 }
    }
}

/// Counts the queries of a call.
#[derive(Debug, Default)]
pub(super) struct Tallies(Vec<(GroupVersionResource, Tally)>);

impl Tallies {
    /// Counts a query: with this number of objects, or without a result.
    pub(super) fn count(&mut self, resource: &GroupVersionResource, objects: Option<usize>) {
        let is_it = |(known, _): &(GroupVersionResource, Tally)| {
            known.resource == resource.resource
                && known.group == resource.group
                && known.version == resource.version
        };
        let known = self.0.iter().position(is_it);
        if known.is_none() && self.0.len() < MOST {
            self.0.push((resource.clone(), Tally::of(resource)));
        }
        let place = known.unwrap_or(self.0.len().saturating_sub(1));
        let Some((_, tally)) = self.0.get_mut(place).filter(|known| is_it(known)) else { return };
        tally.queries = tally.queries.saturating_add(1);
        match objects {
            Some(count) => {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                tally.objects = tally.objects.saturating_add(count);
            }
            None => tally.unanswered = tally.unanswered.saturating_add(1),
        }
    }

    /// The counts, in the order of the first query.
    pub(super) fn into_list(self) -> Vec<Tally> {
        self.0.into_iter().map(|(_, tally)| tally).collect()
    }
}
