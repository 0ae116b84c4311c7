//! Counters of policies, which end with their policy.

use std::collections::HashSet;
use std::hash::Hash;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// Labels, one of which names a policy.
pub(super) trait HasPolicyLabel: Clone + Hash + Eq {
    /// Its name.
    fn policy(&self) -> &str;
}

/// A counter for each of these labels.
#[derive(Debug)]
pub(super) struct PolicyCounters<L: HasPolicyLabel> {
    family: Family<L, Counter>,
    /// A family does not list its labels.
    known: Mutex<HashSet<L>>,
}

impl<L: HasPolicyLabel> Default for PolicyCounters<L> {
    fn default() -> Self {
        Self { family: Family::default(), known: Mutex::default() }
    }
}

impl<L: HasPolicyLabel + EncodeLabelSet + std::fmt::Debug + Send + Sync + 'static>
    PolicyCounters<L>
{
    /// The family to register.
    pub(super) fn family(&self) -> Family<L, Counter> {
        self.family.clone()
    }

    /// Begins a series with 0.
    pub(super) fn start(&self, labels: L) {
        drop(self.family.get_or_create(&labels));
        self.known.lock().insert(labels);
    }

    /// Reports whether labels have a series, or `has_room` for a new one next to these.
    pub(super) fn has_room_for(
        &self,
        labels: &L,
        has_room: impl FnOnce(&HashSet<L>) -> bool,
    ) -> bool {
        let known = self.known.lock();
        known.contains(labels) || has_room(&known)
    }

    /// Counts one more.
    pub(super) fn count(&self, labels: L) {
        self.family.get_or_create(&labels).inc();
        self.known.lock().insert(labels);
    }

    /// Returns all counters that have counted, with their labels.
    pub(super) fn counts(&self) -> Vec<(L, u64)> {
        let known: Vec<L> = self.known.lock().iter().cloned().collect();
        let counts = known.into_iter().filter_map(|labels| {
            let count = self.family.get(&labels)?.get();
            (count > 0).then_some((labels, count))
        });
        counts.collect()
    }

    /// Ends the counters of all other policies.
    pub(super) fn retain_policies(&self, is_there: impl Fn(&str) -> bool) {
        self.known.lock().retain(|labels| {
            let stays = is_there(labels.policy());
            if !stays {
                self.family.remove(labels);
            }
            stays
        });
    }
}
