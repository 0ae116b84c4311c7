//! The objects of a resource at one version, and the parts of a resource that a query can be about.

use opgate_cluster::{Key, Store};

use super::unreadable::UnreadableObjects;

/// The objects of a resource at one version.
#[derive(Debug, Default)]
pub struct Listing {
    /// The readable ones.
    pub objects: Store,
    /// The unreadable ones, with the reason.
    pub unreadable: UnreadableObjects,
    /// The `resourceVersion` up to which it is complete; empty for files.
    pub version: String,
    /// What it does not have because the cache does not keep it.
    pub excluded: ExcludedObjects,
}

/// Objects that exist, and that a cache does not keep: they have other labels, or are in another namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ExcludedObjects {
    /// An object that is absent does not exist.
    #[default]
    None,
    /// This object, at this version.
    One(Key, String),
    /// Any object that is absent, up to this version: the API server was asked for some of the objects only.
    Any(String),
}

impl ExcludedObjects {
    /// Adds an object. A read of one object can have more: not every API server knows field selectors.
    pub(in crate::cluster) fn add(&mut self, key: Key, version: String) {
        *self = match self {
            Self::One(known, _) if *known != key => Self::Any(version),
            Self::Any(_) => Self::Any(version),
            _ => Self::One(key, version),
        };
    }

    /// The version up to which an absent object can exist; none if it does not.
    pub(in crate::cluster) fn version_of(&self, key: &Key) -> Option<&str> {
        match self {
            Self::One(excluded, version) if excluded == key => Some(version),
            Self::Any(version) => Some(version),
            _ => None,
        }
    }
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
