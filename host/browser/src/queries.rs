//! Queries of a policy about the cluster: results become handles of the call.

use std::sync::Arc;

use opgate_document::Document;

use crate::bindings::cluster::{
    Document as WitDocument, GroupVersionResource, ObjectName, Query, ReadError, SampleResult,
};
use crate::call::{Call, Import};
use crate::cluster::StoredObject;
use crate::documents::Handle;

/// Maximum number of documents and names in a result, as for a server.
const MAX_DOCUMENTS: usize = 256;
const MAX_NAMES: usize = 16_384;

fn lend(import: Import, (object, read): &StoredObject) -> WitDocument {
    WitDocument::new(Handle::of_stored(import, object.document(), read))
}

/// Returns one object.
pub(crate) fn get(
    resource: &GroupVersionResource,
    namespace: &str,
    name: &str,
) -> Result<Option<WitDocument>, ReadError> {
    let found = Call::with(|call| call.cluster.get(resource, namespace, name))?;
    Ok(found.map(|object| lend(Import("cluster", "get"), &object)))
}

/// Returns objects that match.
pub(crate) fn list(
    resource: &GroupVersionResource,
    query: Query,
) -> Result<Vec<WitDocument>, ReadError> {
    let found = Call::with(|call| call.cluster.select(resource, query, MAX_DOCUMENTS))?;
    Ok(found.iter().map(|object| lend(Import("cluster", "list"), object)).collect())
}

/// Returns the names of objects that match.
pub(crate) fn names(
    resource: &GroupVersionResource,
    query: Query,
) -> Result<Vec<ObjectName>, ReadError> {
    let found = Call::with(|call| call.cluster.select(resource, query, MAX_NAMES))?;
    let name = |(object, _): &StoredObject| ObjectName {
        namespace: object.key().namespace.to_string(),
        name: object.key().name.to_string(),
    };
    Ok(found.iter().map(name).collect())
}

/// Returns some objects of a kind.
pub(crate) fn sample(
    resource: &GroupVersionResource,
    limit: u32,
) -> Result<SampleResult, ReadError> {
    let (found, complete) = Call::with(|call| call.cluster.sample(resource, limit))?;
    let import = Import("cluster", "sample");
    let lend =
        |document: Arc<Document>| WitDocument::new(Handle::of_shared_document(import, document));
    Ok(SampleResult { objects: found.into_iter().map(lend).collect(), complete })
}
