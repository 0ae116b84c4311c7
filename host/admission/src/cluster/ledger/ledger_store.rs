//! The object that has the ledger.

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use crate::cluster::ResourceCache;

/// The stored object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredLedger {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub version: String,
    /// The ledger.
    pub text: String,
    /// The time since the object was created, by the clock of the API server.
    pub age: Option<Duration>,
}

/// The reason why the object was not read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another version is stored, or none.
    #[error("{0}")]
    Conflict(String),
    /// The API server does not permit it, or does not accept the object.
    #[error("{0}")]
    Rejected(String),
    /// No response, or one that leaves the result unknown.
    #[error("{0}")]
    Unknown(String),
}

/// Reads and writes the object. Every call but a watch ends within some seconds.
pub trait LedgerStore: std::fmt::Debug + Send + Sync {
    /// Reads the object from the API server, not from a cache; `None` if there is none.
    fn read(&self) -> BoxFuture<'_, Result<Option<StoredLedger>, StoreError>>;

    /// What is stored now, if anything, and then each later version; `None` if the object was deleted. It
    /// can be late, and leave out versions. It ends at an error and from time to time.
    fn watch(&self) -> BoxStream<'_, Result<Option<StoredLedger>, StoreError>>;

    /// Creates the object.
    fn create(&self, text: String) -> BoxFuture<'_, Result<StoredLedger, StoreError>>;

    /// Replaces exactly this version of exactly this object.
    fn replace<'a>(
        &'a self,
        uid: &'a str,
        version: &'a str,
        text: String,
    ) -> BoxFuture<'a, Result<StoredLedger, StoreError>>;

    /// Deletes exactly this version.
    fn delete<'a>(
        &'a self,
        uid: &'a str,
        version: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Reads the current version of a resource, with a read that begins now.
    fn version_of<'a>(&'a self, cache: &'a ResourceCache) -> BoxFuture<'a, Option<u64>>;
}
