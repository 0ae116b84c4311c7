//! Queries about the cluster while a policy runs. The engine has no cluster state: each call has a
//! [`ClusterReader`] that does.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use opgate_cluster::Object;
use opgate_document::{Account, Document, Meter, Text};

pub use crate::document_handle::DeclaredRead;
use crate::wit::GroupVersionResource;

/// Bytes of an object in a result in addition to its content.
const OBJECT_OVERHEAD_BYTES: usize = 64;

/// Handles the queries of one call, and records them.
pub trait ClusterReader: Any + fmt::Debug + Send {
    /// Returns one object.
    ///
    /// # Errors
    /// If the cluster cache is not ready. The call must end.
    fn get(
        &mut self,
        resource: &GroupVersionResource,
        namespace: &str,
        name: &str,
        accounts: ResultAccounts<'_>,
    ) -> ReadResult;

    /// Returns objects that match.
    ///
    /// # Errors
    /// If the cluster cache is not ready. The call must end.
    fn list(
        &mut self,
        resource: &GroupVersionResource,
        query: PolicyQuery,
        accounts: ResultAccounts<'_>,
    ) -> ReadResult;

    /// Returns the names of objects that match.
    ///
    /// # Errors
    /// If the cluster cache is not ready. The call must end.
    fn names(
        &mut self,
        resource: &GroupVersionResource,
        query: PolicyQuery,
        accounts: ResultAccounts<'_>,
    ) -> ReadResult;

    /// Returns at most `limit` objects of any kind; none by default.
    ///
    /// # Errors
    /// If they must be listed first. The call must end.
    fn sample(
        &mut self,
        resource: &GroupVersionResource,
        limit: usize,
    ) -> Result<Result<Sample, ReadError>, CacheUnavailable> {
        let _ = (resource, limit);
        Ok(Err(ReadError::NoCluster("there is no cluster to ask".to_owned())))
    }
}

/// Some objects of a kind, whole.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// In the order in which they were listed.
    pub objects: Vec<Arc<Text>>,
    /// Whether these are all objects of the kind.
    pub complete: bool,
}

impl Sample {
    /// One of its objects for a call, which is charged with its text and the look-ups in it; none if
    /// that exceeds the accounts.
    #[must_use]
    pub fn document(text: &Arc<Text>, accounts: ResultAccounts<'_>) -> Option<Document> {
        let document = Document::part(text.clone(), 0..text.len()).with_account(accounts.account);
        let is_paid = accounts.meter.spend(OBJECT_OVERHEAD_BYTES)
            && document.charge_bytes(text.len().saturating_add(OBJECT_OVERHEAD_BYTES));
        is_paid.then_some(document)
    }
}

/// The result for a policy, or the reason why the call must end.
pub type ReadResult = Result<Result<QueryResult, ReadError>, CacheUnavailable>;

/// A query of a policy.
#[derive(Debug, Default)]
pub struct PolicyQuery {
    /// Only in this namespace.
    pub namespace: Option<String>,
    /// Only with these labels, a selector as JSON.
    pub labels: Option<String>,
    /// Conditions: an index, its accepted values, and whether an object without a value matches.
    pub matches: Vec<(String, Vec<String>, bool)>,
    /// Only after this namespace and name.
    pub after: Option<(String, String)>,
    /// Maximum number of objects; 0 for the maximum of a result.
    pub limit: usize,
}

/// The reason why there is no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CacheUnavailable {
    /// The resource is being listed for the first time. Try again in a moment.
    Listing(String),
    /// The cluster cache is not ready, or an object in it cannot be read.
    NotReady(String),
    /// A sample of this resource is wanted. The call is repeated after the resource is listed.
    SampleNeeded(String),
    /// Too many requests wait for samples.
    SampleQueueFull(String),
}

/// The reason why a policy gets no result, for the policy.
#[derive(Debug)]
pub enum ReadError {
    /// There is no cluster to query.
    NoCluster(String),
    /// It is not declared.
    NotDeclared(String),
    /// The query is invalid.
    Invalid(String),
    /// The administrator has not granted it.
    NotGranted(String),
    /// The cluster is available, but not this resource.
    Unavailable(String),
}

/// The accounts that a result is charged to. If the meter stops or the account reaches its limit,
/// the result is not used.
#[derive(Debug, Clone, Copy)]
pub struct ResultAccounts<'p> {
    /// The work.
    pub meter: &'p Meter,
    /// The memory.
    pub account: &'p Arc<Account>,
}

/// Stored objects, for a policy that may see less of each.
#[derive(Debug, Clone, Default)]
pub struct QueryResult {
    objects: Vec<Arc<Object>>,
    declared_read: Option<Arc<DeclaredRead>>,
    has_more: bool,
}

impl QueryResult {
    /// Objects for a policy that declares to read these fields of them. If they are stored with
    /// more (`has_more`), the policy does not see that.
    #[must_use]
    pub fn new(objects: Vec<Arc<Object>>, scope: Arc<DeclaredRead>, has_more: bool) -> Self {
        Self { objects, declared_read: Some(scope), has_more }
    }

    /// The fields that the policy declares to read from them; none if there are no objects.
    #[must_use]
    pub fn declared_read(&self) -> Option<&Arc<DeclaredRead>> {
        self.declared_read.as_ref()
    }

    /// The whole objects.
    #[must_use]
    pub fn objects(&self) -> &[Arc<Object>] {
        &self.objects
    }

    /// The text of [`QueryResult::document`], without an account. Empty if the fields nest too deep.
    #[must_use]
    pub fn visible_text(&self, object: &Object) -> String {
        let whole = object.document();
        match self.declared_read.as_ref().filter(|_| self.has_more) {
            None => whole.root().raw().into_owned(),
            Some(scope) => {
                let own = scope.declaration.project_text(whole.root()).unwrap_or_default();
                str::to_owned(&own)
            }
        }
    }

    /// An object with only the fields that the policy declares; none if that exceeds the accounts.
    /// Its text, which can be a copy, and the look-ups in it are charged.
    #[must_use]
    pub fn document(&self, object: &Object, accounts: ResultAccounts<'_>) -> Option<Document> {
        let whole = object.document().with_account(accounts.account);
        // A part is no larger than the whole.
        let is_paid = accounts.meter.spend(OBJECT_OVERHEAD_BYTES)
            && whole.charge_bytes(whole.size().saturating_add(OBJECT_OVERHEAD_BYTES));
        if !is_paid {
            return None;
        }
        let Some(scope) = self.declared_read.as_ref().filter(|_| self.has_more) else {
            return Some(whole);
        };
        if !accounts.meter.spend(whole.size() / 4) {
            return None;
        }
        let own = scope.declaration.project_text(whole.root_metered(accounts.meter));
        let own = Arc::new(own.unwrap_or_default());
        let end = own.len();
        let own = Document::part(own, 0..end).with_account(accounts.account);
        own.charge_bytes(own.size().saturating_add(OBJECT_OVERHEAD_BYTES)).then_some(own)
    }
}
