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
    /// The version of an object that the cache does not keep, such as one with other labels, in a read of one
    /// object.
    pub excluded_version: Option<String>,
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
