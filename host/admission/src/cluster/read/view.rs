//! Cluster state for one evaluation: one of the possible states, and direct reads for it.
//!
//! ```text
//! objects of the watch ─┐ whichever is newer
//! read directly ────────┴▶ base ─┐
//! reservations ──────────────────┴▶ PossibleState: Stored, Pending, UnionPreferPending, UnionPreferStored ─▶ visible to a policy
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use opgate_cluster::Key;

use crate::cluster::ResourceId;
use crate::cluster::read::call_reads::ReadAnswers;
use crate::cluster::read::samples::Samples;
use crate::cluster::reservations::possible_state::{PossibleState, ResourceView};
use crate::cluster::store::listing::{Listing, QueryScope};

/// The view of cluster state for one evaluation.
#[derive(Debug, Clone, Default)]
pub struct EvaluationView {
    /// The possible state.
    pub state: PossibleState,
    /// The direct reads.
    pub direct_reads: Option<Arc<DirectReads>>,
    /// Samples of custom resources.
    pub samples: Option<Arc<Samples>>,
    /// An object that is not shown.
    pub hidden: Option<Arc<ReviewedObject>>,
    /// An object of which only the stored state is shown: the one under review. Of several
    /// requests about one object only one can be stored on top of the reviewed state, so the
    /// results of the others never coexist with it.
    pub reviewed: Option<Arc<ReviewedObject>>,
    /// Whether reads are recorded with their results.
    pub records_reads: bool,
    /// Recorded results instead of the cluster, by policy.
    pub answers: Option<Arc<AnswersByPolicy>>,
}

/// The recorded reads of all policies that evaluated a review.
pub type AnswersByPolicy = BTreeMap<String, Arc<ReadAnswers>>;

/// The object under review.
#[derive(Debug)]
pub struct ReviewedObject {
    /// Kinds that keep it.
    pub(in crate::cluster) caches: Vec<ResourceId>,
    pub(in crate::cluster) key: Key,
}

impl EvaluationView {
    /// Returns the view of a kind.
    pub(in crate::cluster) fn resource_view(&self, cache: ResourceId) -> ResourceView<'_> {
        let reviewed = self.reviewed.as_ref().filter(|own| own.caches.contains(&cache));
        ResourceView { state: self.state, reviewed: reviewed.map(|own| &own.key) }
    }

    /// Whether an object of a kind is shown.
    pub(in crate::cluster) fn shows(&self, cache: ResourceId, key: &Key) -> bool {
        let is_own =
            |own: &Arc<ReviewedObject>| own.key.has_same_name(key) && own.caches.contains(&cache);
        !self.hidden.as_ref().is_some_and(is_own)
    }
}

/// Maximum number of objects of one namespace that are read one by one.
const MAX_OBJECTS_PER_NAMESPACE: usize = 16;

/// The necessary direct reads, by kind.
#[derive(Debug, Clone, Default)]
pub struct DirectReadPlan(pub(in crate::cluster) HashMap<ResourceId, Vec<QueryScope>>);

impl DirectReadPlan {
    /// Adds a scope; returns whether it is new.
    pub fn add(&mut self, cache: ResourceId, scope: &QueryScope) -> bool {
        let scopes = self.0.entry(cache).or_default();
        let known = scopes.iter().any(|known| known.covers(scope));
        if known {
            return false;
        }
        scopes.push(scope.clone());
        if let QueryScope::Object(key) = scope {
            let is_beside = |scope: &QueryScope| matches!(scope, QueryScope::Object(other) if other.namespace == key.namespace);
            if scopes.iter().filter(|scope| is_beside(scope)).count() > MAX_OBJECTS_PER_NAMESPACE {
                // One list is less work than many.
                let namespace = key.namespace.to_string();
                scopes.retain(|scope| !is_beside(scope));
                let all = namespace.is_empty();
                scopes.push(if all { QueryScope::All } else { QueryScope::Namespace(namespace) });
            }
        }
        true
    }
}

/// The results of direct reads.
#[derive(Debug, Default)]
pub struct DirectReads(pub(in crate::cluster) HashMap<ResourceId, Vec<(QueryScope, Arc<Listing>)>>);

impl DirectReads {
    /// The objects of a kind, if all objects of a query are there.
    pub(crate) fn listing(&self, cache: ResourceId, scope: &QueryScope) -> Option<&Listing> {
        let (_, listing) = self.0.get(&cache)?.iter().find(|(known, _)| known.covers(scope))?;
        Some(listing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_objects_of_a_namespace_become_one_query() {
        let object = |namespace: &str, name: usize| {
            QueryScope::Object(Key::new(namespace, &format!("object-{name}")))
        };
        for (namespace, whole) in
            [("ns", QueryScope::Namespace("ns".to_owned())), ("", QueryScope::All)]
        {
            let mut needed = DirectReadPlan::default();
            assert!(
                (0..MAX_OBJECTS_PER_NAMESPACE)
                    .all(|name| needed.add(ResourceId(0), &object(namespace, name)))
            );
            assert!(!needed.add(ResourceId(0), &object(namespace, 0)), "it is asked already");
            assert_eq!(needed.0[&ResourceId(0)].len(), MAX_OBJECTS_PER_NAMESPACE);
            assert!(needed.add(ResourceId(0), &object(namespace, 1_000)));
            assert_eq!(needed.0[&ResourceId(0)], [whole]);
            assert!(!needed.add(ResourceId(0), &object(namespace, 2_000)), "the list has it");
        }
    }
}
