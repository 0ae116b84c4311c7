//! Reads of single objects and lists that do not wait for the watch.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use opgate_cluster::Resource;
use opgate_document::Account;
use opgate_engine::reader::Sample;
use tokio::time::Instant;

use crate::cluster::ResourceCache;
use crate::cluster::store::listing::{Listing, QueryScope};

/// The reason why the API server does not show its current objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DirectReadError(pub String);

/// The source of direct reads.
pub trait DirectReadSource: Send + Sync {
    /// Returns the current objects, and the version up to which the list is complete.
    fn list<'a>(
        &'a self,
        cache: &'a ResourceCache,
        scope: &'a QueryScope,
    ) -> BoxFuture<'a, Result<Listing, DirectReadError>>;

    /// Returns some objects of any kind.
    fn sample<'a>(
        &'a self,
        sample_request: &'a SampleRequest,
    ) -> BoxFuture<'a, Result<Sample, SampleError>> {
        let why = format!("{} cannot be listed here", sample_request.resource);
        Box::pin(async { Err(SampleError::Unavailable(why)) })
    }
}

/// A list to make.
#[derive(Debug)]
pub struct SampleRequest {
    /// The resource.
    pub resource: Resource,
    /// Maximum number of objects, from 1.
    pub limit: usize,
    /// Maximum bytes of objects.
    pub bytes: usize,
    /// The deadline.
    pub deadline: Instant,
    /// The account that pays for the objects. If its limit is reached, the sample ends there.
    pub account: Option<Arc<Account>>,
}

/// The reason why there is no sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleError {
    /// The API server does not permit it: the missing permission.
    NotGranted(String),
    /// It cannot be listed now.
    Unavailable(String),
    /// Too many reviews wait for samples.
    Busy(String),
}
