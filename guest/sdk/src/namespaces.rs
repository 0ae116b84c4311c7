//! Sets of namespaces as OLM's `NamespaceSet` sees them (`pkg/controller/operators/olm/groups.go`):
//! the set of the empty name alone stands for all namespaces.

use std::collections::BTreeSet;

/// A set of names of namespaces. `{""}` is all namespaces; a set with the empty name and others is
/// not, as upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceSet(BTreeSet<String>);

impl NamespaceSet {
    /// Creates all namespaces.
    #[must_use]
    pub fn all() -> Self {
        Self(BTreeSet::from([String::new()]))
    }

    /// Reads the value of annotation `olm.targetNamespaces`.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        text.split(',').map(str::to_owned).collect()
    }

    /// Reports whether there is no namespace in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether it represents all namespaces.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.len() == 1 && self.0.contains("")
    }

    /// Reports whether it has the namespace.
    #[must_use]
    pub fn contains(&self, namespace: &str) -> bool {
        self.is_all() || self.0.contains(namespace)
    }

    /// Adds a namespace.
    pub fn insert(&mut self, namespace: &str) {
        self.0.insert(namespace.to_owned());
    }

    /// Returns the namespaces of both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        if self.is_all() {
            other.clone()
        } else if other.is_all() {
            self.clone()
        } else {
            Self(self.0.intersection(&other.0).cloned().collect())
        }
    }

    /// Returns the namespaces of either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if self.is_all() || other.is_all() {
            Self::all()
        } else {
            Self(self.0.union(&other.0).cloned().collect())
        }
    }

    /// Reports whether the intersection is not empty, without making it.
    #[must_use]
    pub fn intersects(&self, other: &Self) -> bool {
        let (few, many) = if self.0.len() < other.0.len() { (self, other) } else { (other, self) };
        if few.is_all() || many.is_all() {
            !few.is_empty()
        } else {
            few.0.iter().any(|namespace| many.0.contains(namespace))
        }
    }

    /// Reports whether every namespace of this set is in the other one.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        other.is_all() || (!self.is_all() && self.0.is_subset(&other.0))
    }

    /// Returns the names, in byte order.
    pub fn iter(&self) -> impl Iterator<Item = &String> {
        self.0.iter()
    }
}

impl FromIterator<String> for NamespaceSet {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        Self(names.into_iter().collect())
    }
}
