//! How an evaluation looks at the cluster: which of the worlds that may be, and what was read
//! directly for it.
//!
//! ```text
//! objects of the watch ─┐ whichever is newer
//! read directly ────────┴▶ base ─┐
//! reservations ──────────────────┴▶ World: Stored, Applied, Together, Apart ─▶ what a policy sees
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use opgate_cluster::{Key, Object, Store, Unreadable};

use super::reservations::{Shown, is_newer};

/// What was allowed and is not settled may be stored or not. A verdict holds only if it holds in
/// each of these worlds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum World {
    /// None of it: what is stored alone. A reservation never hides a stored object.
    #[default]
    Stored,
    /// All of it, in place of what it changes. Where several requests about one object are under
    /// way, the one of this number, or the last.
    Applied(usize),
    /// Lists show what is stored and what was allowed side by side, single objects as they would be.
    Together,
    /// Lists as in `Together`, single objects as they are stored: what conflicts may come, and what
    /// would excuse it may not.
    Apart,
}

/// How an evaluation looks at the cluster.
#[derive(Debug, Clone, Default)]
pub struct Lens {
    /// Which world.
    pub world: World,
    /// What was read directly.
    pub fresh: Option<Arc<Fresh>>,
}

/// The objects of a resource at one version.
#[derive(Debug, Default)]
pub struct Listing {
    /// Those that can be read.
    pub objects: Store,
    /// Those that cannot, and why.
    pub unreadable: BTreeMap<Key, Unreadable>,
    /// `resourceVersion` up to which everything is in it; empty for files.
    pub version: String,
}

/// What an evaluation asked about a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One object.
    Object(Key),
    /// A namespace.
    Namespace(String),
    /// All of it.
    All,
}

impl Scope {
    /// Whether what is asked by the other is a part of this.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Namespace(namespace), Self::Object(key)) => **namespace == *key.namespace,
            (known, asked) => known == asked,
        }
    }
}

/// Objects of one namespace that are read one by one.
const MOST_OBJECTS: usize = 16;

/// What has to be read directly, per kind.
#[derive(Debug, Clone, Default)]
pub struct Needed(pub(super) HashMap<usize, Vec<Scope>>);

impl Needed {
    /// Adds a scope; says whether it is a new one.
    pub fn add(&mut self, kind: usize, scope: &Scope) -> bool {
        let scopes = self.0.entry(kind).or_default();
        let known = scopes.iter().any(|known| known.covers(scope));
        if known {
            return false;
        }
        scopes.push(scope.clone());
        if let Scope::Object(key) = scope {
            let is_beside = |scope: &Scope| matches!(scope, Scope::Object(other) if other.namespace == key.namespace);
            if scopes.iter().filter(|scope| is_beside(scope)).count() > MOST_OBJECTS {
                // One list is less work than many.
                let namespace = key.namespace.to_string();
                scopes.retain(|scope| !is_beside(scope));
                let all = namespace.is_empty();
                scopes.push(if all { Scope::All } else { Scope::Namespace(namespace) });
            }
        }
        true
    }
}

/// What the API server itself has answered.
#[derive(Debug, Default)]
pub struct Fresh(pub(super) HashMap<usize, Vec<(Scope, Arc<Listing>)>>);

impl Fresh {
    /// The objects of a kind, where all are there that a question is about.
    pub(super) fn listing(&self, kind: usize, scope: &Scope) -> Option<&Listing> {
        let (_, listing) = self.0.get(&kind)?.iter().find(|(known, _)| known.covers(scope))?;
        Some(listing)
    }
}

/// The copies of one object that a world shows: at most one in a world where it is one thing, all that
/// it may be where they stand side by side.
pub(super) fn copies<'r>(
    world: World,
    base: Option<&'r Arc<Object>>,
    shown: &Shown<'r>,
) -> Vec<&'r Arc<Object>> {
    let stored = stored(base, shown);
    let pending = || match world {
        World::Applied(number) => shown.pending.get(number).or_else(|| shown.pending.last()),
        World::Stored | World::Together | World::Apart => shown.pending.last(),
    };
    match (world, pending()) {
        (World::Stored, _) | (_, None) => stored.into_iter().collect(),
        (World::Applied(_), Some(pending)) => pending.iter().copied().collect(),
        (World::Together | World::Apart, Some(_)) => {
            stored.into_iter().chain(shown.pending.iter().copied().flatten()).collect()
        }
    }
}

/// What is stored of one object, as far as is known.
pub(super) fn stored<'r>(
    base: Option<&'r Arc<Object>>,
    shown: &Shown<'r>,
) -> Option<&'r Arc<Object>> {
    match (base, shown.known) {
        (Some(base), Some(known))
            if !is_newer(known.resource_version(), base.resource_version()) =>
        {
            Some(base)
        }
        (_, Some(known)) => Some(known),
        (base, None) => base,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_objects_of_a_namespace_are_one_question() {
        let object = |namespace: &str, name: usize| {
            Scope::Object(Key::new(namespace, &format!("object-{name}")))
        };
        for (namespace, whole) in [("ns", Scope::Namespace("ns".to_owned())), ("", Scope::All)] {
            let mut needed = Needed::default();
            assert!((0..MOST_OBJECTS).all(|name| needed.add(0, &object(namespace, name))));
            assert!(!needed.add(0, &object(namespace, 0)), "it is asked already");
            assert_eq!(needed.0[&0].len(), MOST_OBJECTS);
            assert!(needed.add(0, &object(namespace, 1_000)));
            assert_eq!(needed.0[&0], [whole]);
            assert!(!needed.add(0, &object(namespace, 2_000)), "the list has it");
        }
    }
}
