//! Cluster state for one evaluation: one of the possible states, and direct reads for it.
//!
//! ```text
//! objects of the watch ─┐ whichever is newer
//! read directly ────────┴▶ base ─┐
//! reservations ──────────────────┴▶ PossibleState: Stored, Pending, UnionPreferPending, UnionPreferStored ─▶ visible to a policy
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use opgate_cluster::{Key, Object, Outline, Store};

use crate::cluster::ResourceId;
use crate::cluster::read::samples::Samples;
use crate::cluster::reservations::{ChangeContent, MAX_POSSIBLE_STATES, OverlayEntry, stored};
use crate::cluster::store::unreadable::UnreadableObjects;

/// A combination of stored and unsettled changes that an evaluation assumes. Unsettled changes may
/// be stored or not. A verdict holds only if it holds in each of these possible states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PossibleState {
    /// Without unsettled changes: only the stored objects. A reservation never hides a stored
    /// object.
    #[default]
    Stored,
    /// With all of them, instead of the objects that they change. If there are several requests in
    /// progress about one object, the one with this number counts, or the last. The last possible
    /// state shows all further ones side by side, and the one after it none of them.
    Pending(usize),
    /// Lists show stored and changed objects side by side; single objects show the changed state.
    UnionPreferPending,
    /// Lists are as in `UnionPreferPending`; single objects show the stored state. A conflicting change may
    /// be stored, and a change that would resolve it may not.
    UnionPreferStored,
}

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
}

/// The view of one kind: a possible state, and one object of which only the stored state is shown.
#[derive(Debug, Clone, Copy)]
pub struct ResourceView<'s> {
    pub(in crate::cluster) state: PossibleState,
    reviewed: Option<&'s Key>,
}

impl From<PossibleState> for ResourceView<'_> {
    fn from(world: PossibleState) -> Self {
        Self { state: world, reviewed: None }
    }
}

impl ResourceView<'_> {
    /// The visible part of the knowledge about an object.
    pub(in crate::cluster) fn visible<'r>(&self, shown: OverlayEntry<'r>) -> OverlayEntry<'r> {
        let is_reviewed = self.reviewed.is_some_and(|key| key.has_same_name(shown.key));
        if is_reviewed { shown.into_stored() } else { shown }
    }
}

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

/// The objects of a resource at one version.
#[derive(Debug, Default)]
pub struct Listing {
    /// The readable ones.
    pub objects: Store,
    /// The unreadable ones, with the reason.
    pub unreadable: UnreadableObjects,
    /// The `resourceVersion` up to which it is complete; empty for files.
    pub version: String,
}

/// A query of an evaluation about a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum QueryScope {
    /// One object.
    Object(Key),
    /// A namespace.
    Namespace(String),
    /// All objects.
    All,
}

impl QueryScope {
    /// Whether the other query includes this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Namespace(namespace), Self::Object(key)) => **namespace == *key.namespace,
            (known, asked) => known == asked,
        }
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
    pub(in crate::cluster) fn listing(
        &self,
        cache: ResourceId,
        scope: &QueryScope,
    ) -> Option<&Listing> {
        let (_, listing) = self.0.get(&cache)?.iter().find(|(known, _)| known.covers(scope))?;
        Some(listing)
    }
}

/// The copies of one object in a possible state.
#[derive(Debug, Default)]
pub(in crate::cluster) struct ObjectCopies<'r> {
    /// At most one if the possible state has one version, all possible ones if it shows them side
    /// by side.
    pub(in crate::cluster) objects: Vec<&'r Arc<Object>>,
    /// Outlines of copies that are too large to be kept: the possible state cannot show them.
    pub(in crate::cluster) outlines: Vec<&'r Arc<Outline>>,
    /// Whether one of several objects can be stored, and the possible state does not determine
    /// which.
    pub(in crate::cluster) is_ambiguous: bool,
}

impl<'r> ObjectCopies<'r> {
    /// Returns the copies of an object in a possible state. `base` is the object that the watch or
    /// a list shows.
    pub(in crate::cluster) fn of(
        world: PossibleState,
        base: Option<&'r Arc<Object>>,
        shown: &OverlayEntry<'r>,
    ) -> Self {
        let stored = stored(base, shown.direct_read);
        let forms = || shown.pending(stored);
        let count = forms().count();
        let states: Vec<&ChangeContent> = match world {
            PossibleState::Stored => Vec::new(),
            PossibleState::UnionPreferPending | PossibleState::UnionPreferStored => {
                forms().collect()
            }
            // If there are many requests, one possible state shows all that have no separate one,
            // because they may conflict, and the next one shows none, because they may be
            // required.
            PossibleState::Pending(number) if count > MAX_POSSIBLE_STATES => {
                match MAX_POSSIBLE_STATES - 1 {
                    joined if number < joined => forms().skip(number).take(1).collect(),
                    joined if number == joined => forms().skip(joined).collect(),
                    _ => Vec::new(),
                }
            }
            PossibleState::Pending(number) => {
                forms().skip(number.min(count.saturating_sub(1))).take(1).collect()
            }
        };
        let is_beside = !matches!(world, PossibleState::Pending(_)) || count == 0;
        let objects = stored.into_iter().filter(|_| is_beside);
        let objects = objects.chain(states.iter().filter_map(|form| form.object()));
        let outlines = states.iter().filter_map(|form| form.outline());
        let is_joined = matches!(world, PossibleState::Pending(number) if number >= MAX_POSSIBLE_STATES - 1)
            && count > MAX_POSSIBLE_STATES;
        Self { objects: objects.collect(), outlines: outlines.collect(), is_ambiguous: is_joined }
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
